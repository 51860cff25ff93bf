package site_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/testenv/s3test"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher"
	"gpuboard/publisher/site"
)

// A website is a small site on disk, and what is needed to copy it.
type website struct {
	t      *testing.T
	dir    string
	state  string
	target string
	seldom bool
	killed bool // after its last request, before it could write down what it had done
	now    time.Time
	o      publisher.Options
}

func newWebsite(t *testing.T, target string) *website {
	w := &website{t: t, dir: t.TempDir(), state: t.TempDir(), target: target,
		now: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	w.generation(1)
	return w
}

// generation writes the n-th generation. Each page names the assets that it needs.
func (w *website) generation(n int) {
	w.t.Helper()
	style := fmt.Sprintf("assets/style-%d.css", n/2)
	files := map[string]string{
		style:                           fmt.Sprintf("/* %d */", n/2),
		"index.html":                    fmt.Sprintf("<link href=%q> generation %d", style, n),
		"index.html.gz":                 "what web servers send from this disk",
		"status.txt":                    fmt.Sprintf("generation %d", n),
		"api/v1/board.json":             fmt.Sprintf(`{"generation":%d}`, n),
		"hosts/gpu01/index.html":        fmt.Sprintf("<link href=%q> host, generation %d", style, n),
		"api/v1/hosts/gpu01.json":       fmt.Sprintf(`{"host":%d}`, n),
		"about/index.html":              fmt.Sprintf("<link href=%q> about", style),
		fmt.Sprintf("users/p%d.txt", n): "somebody who is there in one generation",
	}
	for name := range w.files() {
		if !strings.HasPrefix(name, "assets/") { // they stay for a day
			w.check(os.Remove(filepath.Join(w.dir, name)))
		}
	}
	for name, content := range files {
		path := filepath.Join(w.dir, name)
		w.check(os.MkdirAll(filepath.Dir(path), 0o755))
		w.check(os.WriteFile(path, []byte(content), 0o644))
	}
}

func (w *website) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// files are those on disk, by name.
func (w *website) files() map[string]string {
	w.t.Helper()
	return tree(w.t, w.dir)
}

func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// copies makes one copy, as a process of its own would.
func (w *website) copies() error {
	w.t.Helper()
	target, err := publisher.ParseTarget(w.target)
	w.check(err)
	o := w.o
	o.Target, o.Backlog, o.StateDir = target, 1000, filepath.Join(w.state, "publish")
	o.Properties = site.Properties
	to, err := publisher.New(o)
	w.check(err)
	defer to.Close()
	c := site.New(site.Options{
		Dir: w.dir, Files: func() []string { return slices.Collect(maps.Keys(w.files())) }, Seldom: w.seldom,
		State: filepath.Join(w.state, "published.json"), Target: w.target, Every: 5 * time.Minute,
	})
	if !c.Due(w.now) {
		return errors.New("not due")
	}
	w.check(c.Begin(w.now))
	w.now = w.now.Add(5 * time.Minute)
	begun, readErr := os.ReadFile(filepath.Join(w.state, "published.json"))
	w.check(readErr)
	_, err = c.Copy(w.t.Context(), to)
	if w.killed {
		w.check(os.WriteFile(filepath.Join(w.state, "published.json"), begun, 0o600))
	}
	return err
}

// wanted is what the copy is to hold: all but the compressed copies.
func (w *website) wanted() map[string]string {
	want := w.files()
	maps.DeleteFunc(want, func(name, _ string) bool { return strings.HasSuffix(name, ".gz") })
	return want
}

// held is what a bucket holds below a prefix, as a browser shows it.
func held(t *testing.T, store *s3test.Store, prefix string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for _, name := range store.Names() {
		data, meta := store.Get(name)
		if meta["Content-Encoding"] == "gzip" {
			r, err := gzip.NewReader(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			if data, err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
		got[strings.TrimPrefix(name, prefix)] = string(data)
	}
	return got
}

func TestABucketHoldsTheSite(t *testing.T) {
	store := s3test.Start(t, "gpus")
	w := newWebsite(t, "s3://gpus/lab")
	w.check(w.copies())
	if d := cmp.Diff(w.wanted(), held(t, store, "lab/")); d != "" {
		t.Error(d)
	}
	store.Requests()
	w.check(w.copies())
	if asked := store.Requests(); len(asked) > 0 {
		t.Errorf("nothing is new, and it asked %q", asked)
	}
	w.generation(2)
	w.check(w.copies())
	if d := cmp.Diff(w.wanted(), held(t, store, "lab/")); d != "" {
		t.Error(d)
	}
	asked := store.Requests()
	if first, last := asked[0], asked[len(asked)-1]; !strings.Contains(first, "assets/") ||
		last != "DELETE /gpus/lab/users/p1.txt" {
		t.Errorf("the order is %q", asked)
	}
	if asked[len(asked)-2] != "PUT /gpus/lab/index.html" {
		t.Errorf("the front page is not the last file that was sent: %q", asked)
	}
}

// TestACutCopyHarmsNobody cuts a copy at each request in turn. Whatever page is there has the style that it names, and the
// next copy puts everything right.
func TestACutCopyHarmsNobody(t *testing.T) {
	style := regexp.MustCompile(`href="(.*?)"`)
	for _, status := range []int{s3test.Cut, http.StatusForbidden, http.StatusServiceUnavailable,
		http.StatusInsufficientStorage} {
		cut, step := 0, 1
		if status >= http.StatusInternalServerError { // which are tried again for a while
			step = 4
		}
		for ; ; cut += step {
			store := s3test.Start(t, "gpus")
			w := newWebsite(t, "s3://gpus/lab")
			w.check(w.copies())
			w.generation(2)
			before := len(store.Requests())
			store.Fault(func(n int, _ *http.Request) int {
				if n > cut {
					return status
				}
				return 0
			})
			w.killed = cut%2 == 0
			err := w.copies()
			w.killed = false
			if err == nil {
				if before == 0 || cut < 6 {
					t.Errorf("a copy was complete after %d requests", cut)
				}
				break
			}
			want := publisher.CodeStore
			if status == http.StatusForbidden {
				want = publisher.CodeStoreRefused
			}
			if code := publisher.Code(err); code != want {
				t.Errorf("status %d has the code %s, want %s: %v", status, code, want, err)
			}
			got := held(t, store, "lab/")
			for name, content := range got {
				for _, m := range style.FindAllStringSubmatch(content, -1) {
					if _, there := got[m[1]]; !there {
						t.Errorf("cut at request %d: %s needs %s, which is not there", cut, name, m[1])
					}
				}
			}
			store.Fault(nil)
			w.generation(1) // what was sent and not noted has another content again
			w.check(w.copies())
			if d := cmp.Diff(w.wanted(), held(t, store, "lab/")); d != "" {
				t.Errorf("after a cut at request %d: %s", cut, d)
			}
		}
	}
}

// TestHostsAreSentSeldom: the files of single hosts are sent in each fourth copy, and new ones at once.
func TestHostsAreSentSeldom(t *testing.T) {
	store := s3test.Start(t, "gpus")
	w := newWebsite(t, "s3://gpus/")
	w.seldom = true
	var sent []int
	for n := range 9 {
		w.generation(n + 1)
		w.check(w.copies())
		count := 0
		for _, r := range store.Requests() {
			if strings.HasPrefix(r, "PUT ") && strings.Contains(r, "hosts/gpu01") {
				count++
			}
		}
		sent = append(sent, count)
	}
	if want := []int{2, 0, 0, 0, 2, 0, 0, 0, 2}; !slices.Equal(sent, want) {
		t.Errorf("files of a host in each copy: %v, want %v", sent, want)
	}
}

// TestOnceADayAllIsSent: what somebody else has changed is put right, and a lost memory is no loss.
func TestOnceADayAllIsSent(t *testing.T) {
	store := s3test.Start(t, "gpus")
	w := newWebsite(t, "s3://gpus/lab")
	w.check(w.copies())
	store.Put("lab/about/index.html", "somebody else's")
	w.now = w.now.Add(24 * time.Hour)
	w.check(w.copies())
	if d := cmp.Diff(w.wanted(), held(t, store, "lab/")); d != "" {
		t.Error(d)
	}
	w.check(os.WriteFile(filepath.Join(w.state, "published.json"), []byte("{"), 0o600))
	store.Put("lab/about/index.html", "somebody else's")
	w.check(w.copies())
	if d := cmp.Diff(w.wanted(), held(t, store, "lab/")); d != "" {
		t.Error(d)
	}
}

// TestWebSpaceHoldsTheSite copies to a real OpenSSH server.
func TestWebSpaceHoldsTheSite(t *testing.T) {
	dir := t.TempDir()
	server := sshtest.Start(t, sshtest.Options{Dir: dir})
	w := newWebsite(t, fmt.Sprintf("sftp://%s@%s%s", server.User, server.Addr, dir))
	w.o = publisher.Options{Identity: []string{server.Key}, KnownHosts: []string{server.KnownHosts}}
	for n := range 3 {
		w.generation(n + 1)
		w.check(w.copies())
		if d := cmp.Diff(w.wanted(), tree(t, dir)); d != "" {
			t.Error(d)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "index.html"))
	if err != nil || info.Mode().Perm()&0o044 != 0o044 {
		t.Errorf("a web server cannot read the front page: %v, %v", info.Mode(), err)
	}
}
