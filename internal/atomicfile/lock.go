package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked is wrapped by the error about a lock that somebody else holds.
var ErrLocked = errors.New("somebody else holds the lock")

// Lock takes the lock of a file, which it makes with the permission bits perm
// where there is none. It waits for nobody: the error wraps [ErrLocked] when
// somebody else holds it, and [ErrNotRegular] as that of [OpenLock] does. To
// close the file gives the lock back, and so does the end of the process.
func Lock(path string, perm fs.FileMode) (*os.File, error) {
	f, err := openLock(path, os.O_CREATE, perm)
	if err != nil {
		return nil, err
	}
	held, err := TryLock(f)
	if err == nil && !held {
		err = fmt.Errorf("%w: %s", ErrLocked, path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// OpenLock opens the file of a lock that is there, and does not take it. A
// symlink, FIFO, socket, device or directory at its name is an error that wraps
// [ErrNotRegular] and says what to type.
func OpenLock(path string) (*os.File, error) { return openLock(path, 0, 0) }

// openLock opens for writing, which NFS wants for an exclusive lock, and for
// reading where that is not allowed.
func openLock(path string, create int, perm fs.FileMode) (*os.File, error) {
	const flags = unix.O_NOFOLLOW | unix.O_NONBLOCK
	f, err := os.OpenFile(path, os.O_RDWR|create|flags, perm)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		if read, readErr := os.OpenFile(path, os.O_RDONLY|flags, 0); readErr == nil {
			f, err = read, nil
		}
	}
	if err != nil {
		// A symlink, a socket and a directory have errors of their own, which name none of them.
		if info, lookErr := os.Lstat(path); lookErr == nil && !info.Mode().IsRegular() {
			return nil, notALock(path, info)
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notALock(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func notALock(path string, info fs.FileInfo) error {
	return fmt.Errorf("opening the lock %s: %w: it is a %s; look who put it there, and remove it", path, ErrNotRegular, Kind(info.Mode()))
}

// TryLock takes the lock of an open file, and reports whether it is held now. A
// file that has lost its name is not: a lock on it holds nobody off.
func TryLock(f *os.File) (held bool, err error) {
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(mine, named), nil
}
