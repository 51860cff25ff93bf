package atomicfile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestChangedFilesAreWrittenAgain: whether a file holds the same bytes is found by
// reading it, whatever its times say.
func TestChangedFilesAreWrittenAgain(t *testing.T) {
	const good = "the page of a"
	other := bytes.Repeat([]byte("x"), len(good))
	for name, change := range map[string]func(path string, info os.FileInfo) error{
		"deleted": func(path string, _ os.FileInfo) error { return os.Remove(path) },
		"longer":  func(path string, _ os.FileInfo) error { return os.WriteFile(path, []byte(good+"!"), 0o644) },
		"as long, and its time set back": func(path string, info os.FileInfo) error {
			if err := os.WriteFile(path, other, 0o644); err != nil {
				return err
			}
			return os.Chtimes(path, info.ModTime(), info.ModTime())
		},
		"replaced by another, its time set back": func(path string, info os.FileInfo) error {
			if err := os.WriteFile(path+"2", other, 0o644); err != nil {
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
			put := func(want int) {
				t.Helper()
				b, err := NewBatch(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer b.Abort()
				if err := b.Add("hosts/a/index.html", []byte(good), 0o644); err != nil {
					t.Fatal(err)
				}
				if err := b.Commit(); err != nil || b.Written != want {
					t.Errorf("%d files were written, want %d (%v)", b.Written, want, err)
				}
			}
			put(1)
			put(0)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := change(path, info); err != nil {
				t.Fatal(err)
			}
			put(1)
			if got := content(t, path); got != good {
				t.Errorf("it holds %q", got)
			}
		})
	}
}

// A file that has become shorter or longer while it is read does not have the content.
func TestSameContent(t *testing.T) {
	for text, want := range map[string]bool{"page": true, "pag": false, "pages": false, "pane": false, "": false} {
		if got := sameContent(strings.NewReader(text), []byte("page")); got != want {
			t.Errorf("%q is the content of the page: %v", text, got)
		}
	}
	large := bytes.Repeat([]byte("x"), 100<<10)
	if !sameContent(bytes.NewReader(large), large) || sameContent(bytes.NewReader(large[1:]), large) {
		t.Error("a file of several buffers is compared wrongly")
	}
}
