package atomicfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// put writes one file with a batch that remembers.
func put(t *testing.T, dir string, k *Known, data string) (written int, err error) {
	t.Helper()
	b, err := NewBatch(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Abort()
	b.Remember(k)
	if err := b.Add("hosts/a/index.html", []byte(data), 0o644); err != nil {
		return 0, err
	}
	return b.Written, b.Commit()
}

func TestKnownFileThatSomebodyChanged(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere every file is read")
	}
	const good = "the page of a"
	for name, spoil := range map[string]func(path string) error{
		"deleted": os.Remove,
		"longer":  func(path string) error { return os.WriteFile(path, []byte(good+"!"), 0o644) },
		"as long, and its time set back": func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(path, bytes.Repeat([]byte("x"), len(good)), 0o644); err != nil {
				return err
			}
			return os.Chtimes(path, info.ModTime(), info.ModTime())
		},
		"replaced by another, its time set back": func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(path+"2", bytes.Repeat([]byte("x"), len(good)), 0o644); err != nil {
				return err
			}
			if err := os.Chtimes(path+"2", info.ModTime(), info.ModTime()); err != nil {
				return err
			}
			return os.Rename(path+"2", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "hosts", "a", "index.html")
			k := &Known{settled: time.Nanosecond}
			for i, want := range []int{1, 0, 0} {
				if n, err := put(t, dir, k, good); n != want || err != nil {
					t.Fatalf("batch %d wrote %d files, want %d (%v)", i, n, want, err)
				}
			}
			if k.files["hosts/a/index.html"].mark == (mark{}) {
				t.Fatal("nothing is remembered of a file that was read and is the same")
			}
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			if n, err := put(t, dir, k, good); n != 1 || err != nil {
				t.Errorf("wrote %d files, want 1 (%v)", n, err)
			}
			if got := content(t, path); got != good {
				t.Errorf("it holds %q", got)
			}
		})
	}
}

func TestKnownFileThatIsNoFileAnyMore(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere every file is read")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "hosts", "a", "index.html")
	k := &Known{settled: time.Nanosecond}
	for range 2 {
		if _, err := put(t, dir, k, "page"); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(path, filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../elsewhere", path); err != nil {
		t.Fatal(err)
	}
	if _, err := put(t, dir, k, "page"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a symlink to the same file: %v, want ErrNotRegular", err)
	}
	if k.Holds("hosts/a/index.html", []byte("page")) {
		t.Error("it is still believed to hold the page")
	}
}

// A change right after we looked may leave the same times behind.
func TestFreshFileIsNotReliedUpon(t *testing.T) {
	dir := t.TempDir()
	k := &Known{settled: time.Hour}
	for range 3 {
		if _, err := put(t, dir, k, "page"); err != nil {
			t.Fatal(err)
		}
	}
	if k.files["hosts/a/index.html"].mark != (mark{}) {
		t.Error("a file of this instant is relied upon")
	}
}

func TestKnownIsWhatWasCommitted(t *testing.T) {
	dir := t.TempDir()
	k := &Known{}
	if k.Holds("a", []byte("one")) {
		t.Error("something is known at the start")
	}
	stage := func(data string) *Batch {
		b, err := NewBatch(dir)
		if err != nil {
			t.Fatal(err)
		}
		b.Remember(k)
		if err := b.Add("a", []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		return b
	}
	if err := stage("one").Commit(); err != nil {
		t.Fatal(err)
	}
	if !k.Holds("a", []byte("one")) || k.Holds("a", []byte("two")) {
		t.Error("what was written is not what is known")
	}
	if err := stage("two").Abort(); err != nil {
		t.Fatal(err)
	}
	if k.Holds("a", []byte("two")) {
		t.Error("what was given up is known as written")
	}
	b := stage("one")
	if err := b.Remove("a"); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	if k.Holds("a", []byte("one")) {
		t.Error("a removed file is known")
	}
}
