package spool

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gpuboard/internal/snapshot"
)

// TestAFileThatWasExchangedIsNotRead exchanges a file between the look at it and
// its opening.
func TestAFileThatWasExchangedIsNotRead(t *testing.T) {
	for name, exchange := range map[string]func(t *testing.T, dir string){
		"another file": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "other"), []byte("other"))
			if err := os.Rename(filepath.Join(dir, "other"), filepath.Join(dir, LatestName)); err != nil {
				t.Fatal(err)
			}
		},
		"a second name of another file": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "secret"), []byte("secret"))
			remove(t, filepath.Join(dir, LatestName))
			if err := os.Link(filepath.Join(dir, "secret"), filepath.Join(dir, LatestName)); err != nil {
				t.Fatal(err)
			}
		},
		"a symlink": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "secret"), []byte("secret"))
			remove(t, filepath.Join(dir, LatestName))
			if err := os.Symlink("secret", filepath.Join(dir, LatestName)); err != nil {
				t.Fatal(err)
			}
		},
		"a FIFO": func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, LatestName))
			if err := unix.Mkfifo(filepath.Join(dir, LatestName), 0o644); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, LatestName), []byte("looked at"))
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			before, err := statRegular(root, LatestName, snapshot.MaxFileBytes)
			if err != nil {
				t.Fatal(err)
			}
			if data, _, err := readUnchanged(root, LatestName, snapshot.MaxFileBytes, before); err != nil || string(data) != "looked at" {
				t.Fatalf("before the exchange: %q, %v", data, err)
			}
			// The descriptor keeps the inode, so that no new file gets its number.
			held, err := os.Open(filepath.Join(dir, LatestName))
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			exchange(t, dir)
			data, _, err := readUnchanged(root, LatestName, snapshot.MaxFileBytes, before)
			if err == nil {
				t.Errorf("after the exchange: read %q", data)
			}
			if name == "another file" && !errors.Is(err, errReplaced) {
				t.Errorf("after the exchange: %v; an honest rename has to be tried again", err)
			}
		})
	}
}

// TestADirectoryThatWasExchangedIsNotOpened puts a symlink in the place of a
// directory between the look at it and its opening.
func TestADirectoryThatWasExchangedIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"gpu01", "gpu02"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	before, err := statDir(root, "gpu01")
	if err != nil {
		t.Fatal(err)
	}
	if opened, err := openUnchanged(root, "gpu01", before); err != nil {
		t.Fatalf("before the exchange: %v", err)
	} else {
		opened.Close()
	}
	if err := os.Rename(filepath.Join(dir, "gpu01"), filepath.Join(dir, "old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("gpu02", filepath.Join(dir, "gpu01")); err != nil {
		t.Fatal(err)
	}
	if opened, err := openUnchanged(root, "gpu01", before); err == nil {
		opened.Close()
		t.Error("the drop of another host is opened")
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
