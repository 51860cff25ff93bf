package atomicfile

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLockIsHeldOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	if _, err := OpenLock(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a lock that is not there: %v", err)
	}
	first, err := Lock(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if flags, err := unix.FcntlInt(first.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_ACCMODE != unix.O_RDWR {
		t.Errorf("opened with %#x, %v; NFS wants it open for writing", flags, err)
	}
	before := openFiles(t)
	if _, err := Lock(path, 0o600); !errors.Is(err, ErrLocked) {
		t.Errorf("a second holder: %v, want ErrLocked", err)
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d files were open before the second holder, and %d after", before, after)
	}
	first.Close()
	again, err := Lock(path, 0o600)
	if err != nil {
		t.Fatalf("after it was given back: %v", err)
	}
	defer again.Close()

	// A lock on a file that was removed keeps nobody out of the new one.
	old, err := OpenLock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	again.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if held, err := TryLock(old); held || err != nil {
		t.Errorf("a lock without a name is held: %v, %v", held, err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if held, err := TryLock(old); held || err != nil {
		t.Errorf("a lock whose name another file has is held: %v, %v", held, err)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// A lock that this user may not write to, or that is on a file system mounted read-only,
// is opened for reading.
func TestLockThatIsReadOnly(t *testing.T) {
	for _, name := range []string{"EACCES", "EROFS"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a.lock")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		trace, said, err := straced(t, "lock", dir, "-P", path, "-e", "trace=openat,flock", "-e",
			"inject=openat:error="+name+":when=1")
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, said)
		}
		inOrder(t, trace, `openat\(.*O_RDWR.* = -1 `+name, `openat\(.*O_RDONLY`, `flock\(.* = 0`)
	}
}

// A child that was forked and does not yet run its own program has a copy of each
// descriptor, as this test has.
func TestUnlockReleasesTheCopies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	first, err := Lock(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := unix.Dup(int(first.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(copied)
	if err := Unlock(first); err != nil {
		t.Fatal(err)
	}
	second, err := Lock(path, 0o600)
	if err != nil {
		t.Fatalf("while a child has a copy of the descriptor: %v", err)
	}
	if err := Unlock(second); err != nil {
		t.Error(err)
	}
}

// Whatever stands in a lock's place is refused at once: to open a FIFO waits for
// somebody who writes to it, for ever.
func TestLockIsARegularFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := unix.Mkfifo(at("FIFO"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(at("read-only"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at("directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", at("symlink")); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	before := openFiles(t)
	for _, path := range []string{at("FIFO"), at("read-only"), at("directory"), at("symlink"), at("socket"),
		os.DevNull} {
		for name, open := range map[string]func(string) (*os.File, error){"OpenLock": OpenLock,
			"Lock": func(path string) (*os.File, error) { return Lock(path, 0o600) }} {
			if _, err := open(path); !errors.Is(err, ErrNotRegular) || !strings.Contains(err.Error(), "remove it") {
				t.Errorf("%s of %s: %v, want ErrNotRegular and what to do", name, path, err)
			}
		}
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d files were open before, and %d after", before, after)
	}
	if _, err := os.Lstat(at("elsewhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a symlink was followed, and its target made: %v", err)
	}
}
