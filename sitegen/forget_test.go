package sitegen_test

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
	"gpuboard/sitegen"
)

// TestMissingFilesAreMadeAgain: a generator does not keep the files of hosts, so
// one that was staged and never became visible, and one that somebody changes or
// deletes, are made again, and all the site is what a new process makes of it.
func TestMissingFilesAreMadeAgain(t *testing.T) {
	t.Parallel()
	need.Time(t, "it makes forty generations")
	for name, harm := range map[string]struct {
		do, undo func(l *lab)
		fails    bool
	}{
		"a generation that fails in the middle": {
			func(l *lab) { l.block("api/v1/free.json") }, func(l *lab) { l.free("api/v1/free.json") }, true},
		"one that fails at its last page": {func(l *lab) { l.block("index.html") },
			func(l *lab) { l.free("index.html") },
			true},
		"a page that was deleted": {func(l *lab) { l.remove("site/hosts/" + l.hosts[0] + "/index.html") }, nil,
			false},
		"a directory that was deleted": {func(l *lab) { l.remove("site/hosts/" + l.hosts[0]) }, nil, false},
		"a page that was changed": {func(l *lab) { l.write("site/hosts/"+l.hosts[0]+"/index.html", "hello") }, nil,
			false},
		"one of the same length": {func(l *lab) {
			name := "hosts/" + l.hosts[0] + "/status.txt"
			l.write("site/"+name, strings.ToUpper(l.site()[name]))
		}, nil, false},
		"a twin that was deleted": {func(l *lab) { l.remove("site/hosts/" + l.hosts[0] + "/index.html.gz") }, nil,
			false},
		"a twin of another file": {func(l *lab) {
			l.write("site/hosts/"+l.hosts[0]+"/index.html.gz", l.site()["hosts/"+l.hosts[1]+"/index.html.gz"])
		}, nil, false},
		"permissions that were changed": {func(l *lab) {
			if err := os.Chmod(l.path("site/hosts/"+l.hosts[0]+"/index.html"), 0o600); err != nil {
				l.t.Fatal(err)
			}
		}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			g, err := sitegen.New(l.options())
			if err != nil {
				t.Fatal(err)
			}
			at := start
			generate := func() error {
				at = at.Add(time.Second)
				_, err := g.Generate(context.Background(), at)
				return err
			}
			for range 2 { // the second one has nothing of hosts at hand
				if err := generate(); err != nil {
					t.Fatal(err)
				}
			}
			l.push(at, l.hosts[1:]...)
			harm.do(l)
			if err := generate(); (err != nil) != harm.fails {
				t.Fatalf("fails %t, want %t: %v", err != nil, harm.fails, err)
			}
			if harm.undo != nil {
				harm.undo(l)
				if err := generate(); err != nil {
					t.Fatal(err)
				}
			}
			got := l.site()
			if info, err := os.Stat(l.path("site/hosts/" + l.hosts[0] + "/index.html")); err != nil ||
				info.Mode().Perm() != 0o644 {
				t.Errorf("the page is %v (%v)", info, err)
			}
			if err := os.CopyFS(l.path("fresh/state"), os.DirFS(l.path("state"))); err != nil {
				t.Fatal(err)
			}
			fresh := func(o *sitegen.Options) { o.Site, o.State = l.path("fresh/site"), l.path("fresh/state") }
			l.generate(at, fresh)
			want := l.siteAt("fresh/site")
			for path, content := range want {
				if !strings.HasSuffix(path, ".gz") && !strings.HasPrefix(path, "feed") && got[path] != content {
					t.Errorf("%s is not what a new process makes: %d bytes, and %d there", path, len(got[path]),
						len(content))
				}
				if strings.HasSuffix(path, ".gz") && gunzip(t, got[path]) != got[strings.TrimSuffix(path, ".gz")] {
					t.Errorf("%s is not of its file", path)
				}
			}
		})
	}
}

func gunzip(t *testing.T, file string) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(file))
	if err != nil {
		t.Error(err)
		return ""
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	return string(content)
}

func (l *lab) remove(name string) {
	l.t.Helper()
	if err := os.RemoveAll(l.path(name)); err != nil {
		l.t.Fatal(err)
	}
}

// block puts a directory in the place of a file of the site.
func (l *lab) block(name string) {
	l.t.Helper()
	l.remove("site/" + name)
	if err := os.Mkdir(l.path("site/"+name), 0o755); err != nil {
		l.t.Fatal(err)
	}
}

// free takes the directory away.
func (l *lab) free(name string) { l.remove("site/" + name) }
