package sitegen_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
)

// TestNewProcessMakesTheSameSite compares the site of a generator that goes on,
// which keeps parsed drops and recent history, with the one that a new process
// makes of the same data and state, after each kind of change.
func TestNewProcessMakesTheSameSite(t *testing.T) {
	t.Parallel()
	need.Time(t, "it makes fifteen generations")
	y := newYard(t, 3, false)
	y.push(every, y.names)
	y.generate()
	for i, change := range []struct {
		what string
		make func()
	}{
		{"news of one host", func() { y.push(every, y.names[:1]) }},
		{"no news for long", func() { y.push(30*time.Hour, nil) }},
		{"news of all, and a drop that is garbage", func() {
			y.push(every, y.names)
			y.must(os.WriteFile(y.path("data", "drop", y.names[1], "latest.json.gz"), []byte("no bundle"), 0o644))
		}},
		{"an empty drop", func() {
			y.push(10*time.Minute, y.names[:1])
			y.must(os.Remove(y.path("data", "drop", y.names[2], "latest.json.gz")))
		}},
		{"other bookings", func() {
			y.push(time.Second, y.names[:2])
			at := y.at.Add(9 * time.Hour).Format("2006-01-02 15:04")
			y.must(os.WriteFile(y.path("data", "comments.json"),
				fmt.Appendf(nil, `{%q: {"1": {"name": "noor", "date": %q, "comment": "<b>"}}, "nowhere": 1}`,
					y.names[0], at),
				0o644))
		}},
		{"a note on a host", func() {
			y.must(os.MkdirAll(y.path("data", "hosts"), 0o755))
			y.must(os.WriteFile(y.path("data", "hosts", y.names[0]+".md"), []byte("*note*"), 0o644))
		}},
		{"another group, and a host that is not expected", func() {
			y.push(every, y.names)
			y.hosts = slices.Clone(y.hosts[:2])
			y.hosts[0].Group = "group 2"
		}},
	} {
		change.make()
		state := y.path(fmt.Sprint("state-", i))
		y.copyState(state)
		cold := fmt.Sprint("cold-", i)
		y.generate()
		if _, err := y.generator(cold, filepath.Base(state)).Generate(context.Background(), y.at); err != nil {
			t.Fatal(err)
		}
		if !sameSite(t, y.path("site"), y.path(cold)) {
			t.Fatalf("after %s", change.what)
		}
	}
}

// copyState copies what a generator remembers, the manifest of its site apart.
func (y *yard) copyState(to string) {
	y.must(os.MkdirAll(to, 0o700))
	entries, err := os.ReadDir(y.path("state"))
	y.must(err)
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), "manifest") {
			continue
		}
		data, err := os.ReadFile(y.path("state", e.Name()))
		y.must(err)
		y.must(os.WriteFile(filepath.Join(to, e.Name()), data, 0o600))
	}
}

// sameSite compares two sites, twins by what is in them. Style and script of the
// generation before stay for a while, and are left out.
func sameSite(t *testing.T, a, b string) bool {
	t.Helper()
	x, y := siteFiles(t, a), siteFiles(t, b)
	same := true
	for name, content := range y {
		if got, there := x[name]; !there || !bytes.Equal(got, content) {
			t.Errorf("%s is not what a new process makes (there: %t)", name, there)
			same = false
		}
	}
	for name := range x {
		if _, there := y[name]; !there {
			t.Errorf("a new process makes no %s", name)
			same = false
		}
	}
	return same
}

func siteFiles(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if strings.HasPrefix(name, "assets") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err == nil && strings.HasSuffix(name, ".gz") {
			var z *gzip.Reader
			if z, err = gzip.NewReader(bytes.NewReader(content)); err == nil {
				z.Multistream(false)
				content, err = io.ReadAll(z)
			}
		}
		files[name] = content
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestRaceOfTheWorkers is for the race detector: everything that a generation does at
// the same time, for more hosts than there are workers, with history and with news of
// each host. Under the detector the other tests of this package take minutes, nearly all
// of them in the database.
func TestRaceOfTheWorkers(t *testing.T) {
	y := newYard(t, 20, true)
	for range 3 {
		y.push(every, y.names)
		y.generate()
	}
	for _, name := range y.names {
		for _, file := range []string{"index.html.gz", "history/index.html.gz", "status.txt"} {
			if info, err := os.Stat(y.path("site", "hosts", name, file)); err != nil || info.Size() == 0 {
				t.Errorf("%s of %s: %v", file, name, err)
			}
		}
	}
}
