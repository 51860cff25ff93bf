package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestBatchStaysInside(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "hosts")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "inside"), 0o755),
		os.Symlink("inside", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../x", "/x", "a/../../x", "", ".", "a//b", "hosts/x", "link/x"} {
		b, err := NewBatch(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Add(name, []byte("x"), 0o644); err == nil {
			t.Errorf("%q was taken", name)
		}
		if err := b.Add("good", nil, 0o644); err == nil {
			t.Errorf("after %q was refused, another file was taken", name)
		}
		if err := errors.Join(b.Abort(), b.Abort()); err != nil {
			t.Error(err)
		}
	}
	if _, err := NewBatch(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
		t.Errorf("outside there is %v, %v", entries, err)
	}
}

func TestBatch(t *testing.T) {
	dir := t.TempDir()
	write := func(files ...string) *Batch {
		t.Helper()
		b, err := NewBatch(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if err := b.Add(name, []byte(name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return b
	}
	b := write("a", "hosts/gpu01/index.html", "hosts/gpu02/index.html")
	if _, err := os.Stat(filepath.Join(dir, "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before the commit: %v", err)
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	if b.Written != 3 || b.Skipped != 0 ||
		content(t, filepath.Join(dir, "hosts/gpu02/index.html")) != "hosts/gpu02/index.html" {
		t.Errorf("written %d, skipped %d", b.Written, b.Skipped)
	}
	b = write("a", "b")
	for _, name := range []string{"never/was", "hosts/gpu01/index.html", "hosts/gpu01"} {
		if err := b.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Commit(); err != nil || b.Written != 1 || b.Skipped != 1 {
		t.Errorf("written %d, skipped %d, %v", b.Written, b.Skipped, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "hosts/gpu01")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was removed: %v", err)
	}
	b = write("c")
	if err := errors.Join(b.Abort(), b.Abort()); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("committing what was aborted: %v", err)
	}
	if err := b.Add("d", nil, 0o644); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("adding to what was aborted: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "c")); !errors.Is(err, fs.ErrNotExist) || temps(t, dir) != 0 {
		t.Errorf("after the abort: %v, %d temporary files", err, temps(t, dir))
	}
}

// TestBatchErrors: nothing new is visible after a removal that fails before the
// renames, and Abort says what it could not remove.
func TestBatchErrors(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"full/page", "new"} {
		b, err := NewBatch(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Add(name, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		if name == "new" {
			err = b.RemoveFirst("full")
		}
		if err := errors.Join(err, b.Commit()); errors.Is(err, unix.ENOTEMPTY) != (name == "new") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "new")); !errors.Is(err, fs.ErrNotExist) || temps(t, dir) != 0 {
		t.Errorf("%v, and %d temporary files", err, temps(t, dir))
	}
	b, err := NewBatch("/proc/self")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Add("new/page", nil, 0o644); err == nil || !strings.Contains(err.Error(), "mkdir") {
		t.Errorf("a directory that cannot be made: %v", err)
	}
	b.Abort()
	b, err = NewBatch(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Remove("full"), b.Commit()); !errors.Is(err, unix.ENOTEMPTY) {
		t.Errorf("removing a directory that is not empty: %v", err)
	}
	b, err = NewBatch(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Add("other", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(dir, b.staged[0].temp)
	if err := errors.Join(os.Remove(temp), os.MkdirAll(filepath.Join(temp, "x"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := b.Abort(); !errors.Is(err, unix.ENOTEMPTY) {
		t.Errorf("a temporary name that became a directory: %v", err)
	}
}

// TestOrder lets the second rename fail: only the file that Order put first is there.
func TestOrder(t *testing.T) {
	dir := t.TempDir()
	b, err := NewBatch(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := b.Add(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b.Order(func(rel, other string) int { return strings.Compare(other, rel) })
	unfinished, err := filepath.Glob(filepath.Join(dir, tempPrefix+"b-*"))
	if err != nil || len(unfinished) != 1 {
		t.Fatalf("%q, %v", unfinished, err)
	}
	if err := os.Remove(unfinished[0]); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a rename of what is gone: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "c" {
		t.Errorf("there are %v, %v", entries, err)
	}
}

// TestRemovedFirst lets the first rename fail: what was to be gone before it is
// gone, and what was to go after the last one is still there.
func TestRemovedFirst(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"first", "last"} {
		if _, err := Write(filepath.Join(dir, name), []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := NewBatch(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Add("new", []byte("new"), 0o644), b.Remove("last"), b.RemoveFirst("first"),
		b.RemoveFirst("never/was")); err != nil {
		t.Fatal(err)
	}
	unfinished, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
	if err != nil || len(unfinished) != 1 {
		t.Fatalf("%q, %v", unfinished, err)
	}
	if err := os.Remove(unfinished[0]); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(); err == nil {
		t.Error("nothing went wrong")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "last" {
		t.Errorf("left are %v, %v", entries, err)
	}
	if err := b.RemoveFirst("more"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("after the end: %v", err)
	}
}
