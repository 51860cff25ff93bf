package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"gpuboard/internal/snapshot"
)

// What was replaced between the check and the opening is not read, and a directory that
// was removed is an error.
func TestReplacedEntry(t *testing.T) {
	base := t.TempDir()
	write(t, filepath.Join(base, "secret"), []byte("secret"))
	write(t, filepath.Join(base, "file"), []byte("good"))
	root, err := os.OpenRoot(base)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	info, err := root.Lstat("file")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(root.Rename("file", "old"), root.Symlink("secret", "file")); err != nil {
		t.Fatal(err)
	}
	if data, err := readSame(root, "file", info); !errors.Is(err, errReplaced) {
		t.Errorf("read %q, %v", data, err)
	}
	if err := os.RemoveAll(base); err != nil {
		t.Fatal(err)
	}
	if entries, _, err := list(root, 10); err == nil {
		t.Errorf("a directory that is gone has %v", entries)
	}
}

// A file may have the largest size, and not grow beyond it while it is read.
func TestLargestFile(t *testing.T) {
	base := t.TempDir()
	path := filepath.Join(base, LatestName)
	write(t, path, make([]byte, snapshot.MaxFileBytes))
	root, err := os.OpenRoot(base)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if data, err := readRegular(root, LatestName); err != nil || len(data) != snapshot.MaxFileBytes {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	info, err := root.Lstat(LatestName)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, make([]byte, snapshot.MaxFileBytes+1))
	if _, err := readSame(root, LatestName, info); snapshot.CodeOf(err) != snapshot.BadTooLarge {
		t.Errorf("one byte more: %v", err)
	}
}

// TestReplacedEntriesAreNotFollowed opens a file and a directory while another process
// puts symlinks and a FIFO in their place. A second name of another file is not among
// them: while a rename takes it away, the kernel counts one name too few for a moment.
func TestReplacedEntriesAreNotFollowed(t *testing.T) {
	base := t.TempDir()
	for _, name := range []string{"gpu01", "gpu02"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(base, name, "owner"), []byte(name))
	}
	path := func(name string) string { return filepath.Join(base, name) }
	write(t, path("secret"), []byte("secret"))
	root, err := os.OpenRoot(base)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()

	stop := make(chan struct{})
	var attacker sync.WaitGroup
	attacker.Go(func() {
		replace := func(make error, name string) {
			if make == nil {
				os.Rename(path("new"), path(name))
			}
		}
		for {
			select {
			case <-stop:
				return
			default:
			}
			replace(os.WriteFile(path("new"), []byte("good"), 0o644), LatestName)
			replace(os.Symlink("secret", path("new")), LatestName)
			replace(unix.Mkfifo(path("new"), 0o644), LatestName)
			os.Rename(path("gpu01"), path("old"))
			os.Symlink("gpu02", path("gpu01"))
			os.Remove(path("gpu01"))
			os.Rename(path("old"), path("gpu01"))
		}
	})
	read, opened := 0, 0
	for n := 0; n < 5000 || read == 0 || opened == 0; n++ {
		data, err := readRegular(root, LatestName)
		switch {
		case err == nil && (string(data) == "good" || len(data) == 0):
			read++
		case err == nil:
			t.Errorf("read %q", data)
		case !errors.Is(err, fs.ErrNotExist) && snapshot.CodeOf(err) == "":
			t.Errorf("an error without a code: %v", err)
		}
		if dir, err := openDir(root, "gpu01"); err == nil {
			if owner, err := dir.ReadFile("owner"); err != nil || string(owner) != "gpu01" {
				t.Errorf("opened the directory of %q, %v", owner, err)
			}
			dir.Close()
			opened++
		}
	}
	close(stop)
	attacker.Wait()
}

func TestTooManyDrops(t *testing.T) {
	data, drop := fleet(t)
	parent := filepath.Dir(drop)
	first := filepath.Join(parent, ".0")
	write(t, first, nil)
	for i := 1; i < maxHosts; i++ {
		if i == maxHosts-1 { // with gpu01 there are as many entries as there may be
			if hosts, problems := drops(t, data).Hosts(); len(hosts) != 1 || len(problems) != 0 {
				t.Errorf("hosts %v, problems %v", hosts, problems)
			}
		}
		if err := os.Link(first, filepath.Join(parent, fmt.Sprintf(".%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, problems := drops(t, data).Hosts(); len(problems) != 1 || problems[0].Code != snapshot.BadTooMany {
		t.Errorf("problems %v, want that there are too many", problems)
	}
}

func TestProblemsOfNodesAreLimited(t *testing.T) {
	data := t.TempDir()
	parent := filepath.Join(data, "drop")
	if err := os.Mkdir(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range snapshot.MaxErrors {
		write(t, filepath.Join(parent, fmt.Sprint(i)), nil)
	}
	if _, all := drops(t, data).Hosts(); len(all) != snapshot.MaxErrors || all[len(all)-1].Code != badNotRegular {
		t.Errorf("%d problems, want %d: the last is %+v", len(all), snapshot.MaxErrors, all[len(all)-1])
	}
	write(t, filepath.Join(parent, "more"), nil)
	if _, all := drops(t, data).Hosts(); len(all) != snapshot.MaxErrors+1 ||
		!strings.HasSuffix(all[len(all)-1].Message, "+1 more") {
		t.Errorf("%d problems, the last is %q", len(all), all[len(all)-1].Message)
	}
}
