package sitegen_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/sitegen"
)

// TestHelpComesAndGoes: the documentation is written once, with a twin each, and
// not again; a site that is to have none loses it, directories and all, and
// nothing leads there any more.
func TestHelpComesAndGoes(t *testing.T) {
	l := newLab(t)
	l.generate(start)
	before := l.site()
	pages, times := 0, map[string]time.Time{}
	err := filepath.WalkDir(l.path("site/help"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		times[path] = info.ModTime()
		if strings.HasSuffix(path, ".html") {
			pages++
			if rel, _ := filepath.Rel(l.path("site"), path); before[filepath.ToSlash(rel)+".gz"] == "" {
				t.Errorf("%s has no twin", rel)
			}
		}
		return err
	})
	if err != nil || pages < 15 {
		t.Fatalf("%d pages of help (%v)", pages, err)
	}

	l.push(start.Add(time.Minute), l.hosts...)
	l.generate(start.Add(time.Minute))
	for path, at := range times {
		if now := modTime(t, path); !now.Equal(at) {
			t.Errorf("%s was written again", path)
		}
	}

	none := func(o *sitegen.Options) { o.NoHelp = true }
	if r := l.generate(start.Add(2*time.Minute), none); r.Removed < 2*pages {
		t.Errorf("%d files removed, want %d pages and their twins", r.Removed, pages)
	}
	for path, content := range l.site() {
		if strings.HasPrefix(path, "help/") {
			t.Errorf("%s is still there", path)
		}
		if strings.HasSuffix(path, ".html") && strings.Contains(content, "help/") {
			t.Errorf("%s leads to the help", path)
		}
	}
	if left, err := filepath.Glob(l.path("site/help*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q (%v)", left, err)
	}
}

// TestPublicSiteHasHelpWhenAsked: who operates the board is not who visits it.
func TestPublicSiteHasHelpWhenAsked(t *testing.T) {
	l := newLab(t)
	for _, want := range []bool{false, true} {
		l.generate(start, func(o *sitegen.Options) { o.Public, o.PublicHelp = l.path("public"), want })
		if l.site()["help/index.html"] == "" {
			t.Error("the site itself has no help")
		}
		found, err := filepath.Glob(l.path("public/help/*/index.html"))
		if err != nil || (len(found) > 0) != want {
			t.Errorf("public help %t: %d pages (%v)", want, len(found), err)
		}
	}
}

func modTime(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}
