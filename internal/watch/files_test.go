package watch

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

// after does something and reports whether the kernel's events about it are taken for
// an edit. A last file, which means nothing, tells that they all came.
func after(t *testing.T, f *fileWatcher, events <-chan fsnotify.Event, mark string, do func()) bool {
	t.Helper()
	got := false
	f.changed = func() { got = true }
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
	f := &fileWatcher{add: w.Add,
		paths:   Paths{Data: path("data"), Comments: path("data/comments.json"), Aliases: path("data/aliases.csv")},
		problem: func(p snapshot.Problem) { t.Errorf("problem %v", p) }}
	f.scan()
	for _, tt := range []struct {
		name string
		do   func()
		want bool // an edit
	}{
		{"a file of nobody", func() { write("data/other.txt") }, false},
		{"an unfinished file of ours", func() {
			write("data/.tmp-comments.json-x")
			write("data/drop/gpu01/.tmp-latest")
			write("data/hosts/.gpu01.md")
			mkdir("data/drop/.trash")
		}, false},
		{"what the bookings' link points to",
			func() { write("elsewhere/.new"); rename("elsewhere/.new", "elsewhere/bookings.json") }, true},
		{"the link, which points elsewhere now", func() {
			if err := os.Symlink(path("other/bookings.json"), path("data/.link")); err != nil {
				t.Error(err)
			}
			rename("data/.link", "data/comments.json")
		}, true},
		{"what it points to", func() { write("other/.new"); rename("other/.new", "other/bookings.json") }, true},
		{"bookings, over the link", func() { write("data/.new"); rename("data/.new", "data/comments.json") }, true},
		{"aliases", func() { write("data/aliases.csv") }, true},
		{"a note on a host", func() { write("data/hosts/gpu01.md") }, true},
		{"an editor's file beside it", func() { write("data/hosts/.gpu01.md.swp"); write("data/hosts/gpu01.md~") },
			false},
		{"a push, which is seen at the interval",
			func() { write("data/drop/gpu01/.up"); rename("data/drop/gpu01/.up", "data/drop/gpu01/latest.json.gz") },
			false},
		{"its mode", func() {
			if err := os.Chmod(path("data/drop/gpu01/latest.json.gz"), 0o600); err != nil {
				t.Error(err)
			}
		}, false},
		{"the notes, gone and back", func() {
			rename("data/hosts", "data/old")
			mkdir("data/hosts")
		}, true},
		{"a note in them", func() { write("data/hosts/gpu02.md") }, true},
	} {
		if got := after(t, f, w.Events, path("data/.mark"), tt.do); got != tt.want {
			t.Errorf("%s: an edit: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Where the kernel gives no more watches, the rest is left to the interval, which is said.
func TestWatchLimitOfTheKernel(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data", "hosts"), 0o755); err != nil {
		t.Fatal(err)
	}
	for errno, want := range map[syscall.Errno]string{syscall.ENOSPC: "watch:limit", syscall.EMFILE: "watch:limit",
		syscall.EACCES: "watch:unreadable"} {
		var watched []string
		codes := map[string]int{}
		f := &fileWatcher{paths: Paths{Data: filepath.Join(dir, "data"),
			Comments: filepath.Join(dir, "data/comments.json"), Aliases: filepath.Join(dir, "data/aliases.csv")},
			problem: func(p snapshot.Problem) { codes[p.Code]++ }, changed: func() {}}
		f.add = func(dir string) error {
			if len(watched) == 1 {
				return os.NewSyscallError("inotify_add_watch", errno)
			}
			watched = append(watched, dir)
			return nil
		}
		f.scan()
		if len(watched) != 1 || watched[0] != filepath.Join(dir, "data") {
			t.Errorf("%v: watched %v", errno, watched)
		}
		if codes[want] == 0 || len(codes) != 1 {
			t.Errorf("%v: problems %v", errno, codes)
		}
	}
}
