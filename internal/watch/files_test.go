package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

// after does something and returns which changes the kernel's events about it
// are taken for. A last file, which means nothing, tells that they all came.
func after(t *testing.T, f *fileWatcher, events <-chan fsnotify.Event, mark string, do func()) map[change]bool {
	t.Helper()
	got := map[change]bool{}
	f.changed = func(c change) { got[c] = true }
	do()
	if err := os.Mkdir(mark, 0o755); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(need.Patience)
	for {
		select {
		case e := <-events:
			if e.Name != mark {
				f.handle(e)
				continue
			}
			if e.Has(fsnotify.Create) {
				if err := os.Remove(mark); err != nil {
					t.Fatal(err)
				}
				continue
			}
			return got
		case <-deadline:
			t.Fatal("no events come")
		}
	}
}

func TestFileWatcher(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(path(name), []byte("x"), 0o644); err != nil {
			t.Error(err)
		}
	}
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(path(from), path(to)); err != nil {
			t.Error(err)
		}
	}
	mkdir := func(name string) {
		t.Helper()
		if err := os.MkdirAll(path(name), 0o755); err != nil {
			t.Error(err)
		}
	}
	mkdir("data/drop/gpu01")
	mkdir("data/hosts")
	mkdir("elsewhere")
	mkdir("other")
	write("elsewhere/bookings.json")
	write("other/bookings.json")
	if err := os.Symlink(path("elsewhere/bookings.json"), path("data/comments.json")); err != nil {
		t.Fatal(err)
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	f := &fileWatcher{add: w.Add, paths: Paths{Data: path("data"), Comments: path("data/comments.json"), Aliases: path("data/aliases.csv")},
		problem: func(p snapshot.Problem) { t.Errorf("problem %v", p) }}
	f.scan()
	for _, tt := range []struct {
		name string
		do   func()
		want string // edit, push or nothing
	}{
		{"a file of nobody", func() { write("data/other.txt") }, "nothing"},
		{"an unfinished file of ours", func() {
			write("data/.tmp-comments.json-x")
			write("data/drop/gpu01/.tmp-latest")
			write("data/hosts/.gpu01.md")
			mkdir("data/drop/.trash")
		}, "nothing"},
		{"what the bookings' link points to", func() { write("elsewhere/.new"); rename("elsewhere/.new", "elsewhere/bookings.json") }, "edit"},
		{"the link, which points elsewhere now", func() {
			if err := os.Symlink(path("other/bookings.json"), path("data/.link")); err != nil {
				t.Error(err)
			}
			rename("data/.link", "data/comments.json")
		}, "edit"},
		{"what it points to", func() { write("other/.new"); rename("other/.new", "other/bookings.json") }, "edit"},
		{"bookings, over the link", func() { write("data/.new"); rename("data/.new", "data/comments.json") }, "edit"},
		{"aliases", func() { write("data/aliases.csv") }, "edit"},
		{"a note on a host", func() { write("data/hosts/gpu01.md") }, "edit"},
		{"an editor's file beside it", func() { write("data/hosts/.gpu01.md.swp"); write("data/hosts/gpu01.md~") }, "nothing"},
		{"a push", func() { write("data/drop/gpu01/.up"); rename("data/drop/gpu01/.up", "data/drop/gpu01/latest.json.gz") }, "push"},
		{"its mode", func() {
			if err := os.Chmod(path("data/drop/gpu01/latest.json.gz"), 0o600); err != nil {
				t.Error(err)
			}
		}, "nothing"},
		{"an hour, which a push follows", func() { write("data/drop/gpu01/hour-20261120T05-0b5c2f9e.jsonl.gz") }, "nothing"},
		{"a new host", func() { mkdir("data/drop/gpu02") }, "push"},
		{"its push", func() { write("data/drop/gpu02/.up"); rename("data/drop/gpu02/.up", "data/drop/gpu02/latest.json.gz") }, "push"},
		{"a chrooted drop", func() { mkdir("data/drop/gpu02/in") }, "push"},
		{"its push", func() { write("data/drop/gpu02/in/latest.json.gz") }, "push"},
		{"a host that is gone", func() {
			if err := os.RemoveAll(path("data/drop/gpu02")); err != nil {
				t.Error(err)
			}
		}, "push"},
		{"and is back", func() { mkdir("data/drop/gpu02") }, "push"},
		{"its push", func() { write("data/drop/gpu02/latest.json.gz") }, "push"},
		{"the notes, gone and back", func() {
			rename("data/hosts", "data/old")
			mkdir("data/hosts")
		}, "edit"},
		{"a note in them", func() { write("data/hosts/gpu02.md") }, "edit"},
	} {
		got := after(t, f, w.Events, path("data/.mark"), tt.do)
		is := "nothing"
		switch {
		case got[edit]:
			is = "edit"
		case got[push]:
			is = "push"
		}
		if is != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, is, tt.want)
		}
	}
}

// A link that a node made of its drop is not followed.
func TestNoLinkOfANodeIsFollowed(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"data/drop/gpu01", "secret"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"data/drop/gpu02", "data/drop/gpu01/in"} {
		if err := os.Symlink(filepath.Join(dir, "secret"), filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	f := &fileWatcher{paths: Paths{Data: filepath.Join(dir, "data"), Comments: filepath.Join(dir, "data/comments.json"), Aliases: filepath.Join(dir, "data/aliases.csv")},
		problem: func(p snapshot.Problem) { t.Error(p) }, changed: func(change) {}}
	f.add = func(dir string) error {
		if filepath.Base(dir) == "secret" {
			t.Errorf("%s is watched", dir)
		}
		return nil
	}
	f.scan()
	f.handle(fsnotify.Event{Name: filepath.Join(dir, "data/drop/gpu02"), Op: fsnotify.Create})
	f.handle(fsnotify.Event{Name: filepath.Join(dir, "data/drop/gpu01/in"), Op: fsnotify.Create})
}

// Where the kernel gives no more watches, bookings come first, and the rest is
// left to the timer, which is said.
func TestTheKernelsLimit(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		if err := os.MkdirAll(filepath.Join(dir, fmt.Sprintf("data/drop/gpu%02d", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for errno, want := range map[syscall.Errno]string{syscall.ENOSPC: "watch:limit", syscall.EMFILE: "watch:limit", syscall.EACCES: "watch:unreadable"} {
		var watched []string
		codes := map[string]int{}
		f := &fileWatcher{paths: Paths{Data: filepath.Join(dir, "data"), Comments: filepath.Join(dir, "data/comments.json"), Aliases: filepath.Join(dir, "data/aliases.csv")},
			problem: func(p snapshot.Problem) { codes[p.Code]++ }, changed: func(change) {}}
		f.add = func(dir string) error {
			if len(watched) == 5 {
				return os.NewSyscallError("inotify_add_watch", errno)
			}
			watched = append(watched, dir)
			return nil
		}
		f.scan()
		if len(watched) != 5 || watched[0] != filepath.Join(dir, "data") {
			t.Errorf("%v: watched %v", errno, watched)
		}
		if n := codes[want]; n == 0 || want == "watch:limit" && n != 1 || len(codes) != 1 {
			t.Errorf("%v: problems %v", errno, codes)
		}
	}
}
