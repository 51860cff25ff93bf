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

// Lock takes the lock of a file, which it creates with the permission bits perm if
// it is missing. It does not wait: when another process holds the lock, the error
// wraps [ErrLocked]. Otherwise errors are those of [OpenLock]. [Unlock] releases the
// lock, and so does the end of the process.
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

// Unlock releases the lock of a file and closes it. Closing alone is not enough: a
// child that this process has forked shares the lock until it runs its own program.
func Unlock(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// OpenLock opens an existing lock file without taking the lock. A symlink, FIFO,
// socket, device or directory is an error that wraps [ErrNotRegular].
func OpenLock(path string) (*os.File, error) { return openLock(path, 0, 0) }

// Held reports whether somebody holds the lock of a file. Nobody holds that of a file that does not exist.
func Held(path string) (bool, error) {
	lock, err := OpenLock(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("opening the lock: %w", err)
	}
	defer Unlock(lock)
	free, err := TryLock(lock)
	return !free, err
}

// openLock opens the file for writing, which NFS requires for a lock, or else for reading.
func openLock(path string, create int, perm fs.FileMode) (*os.File, error) {
	const flags = unix.O_NOFOLLOW | unix.O_NONBLOCK
	f, err := os.OpenFile(path, os.O_RDWR|create|flags, perm)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		if read, readErr := os.OpenFile(path, os.O_RDONLY|flags, 0); readErr == nil {
			f, err = read, nil
		}
	}
	if err != nil {
		// The system's errors for a symlink, a socket or a directory do not name them.
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
	return &fs.PathError{Op: "opening the lock", Path: path,
		Err: fmt.Errorf("%w: it is a %s; look who put it there, and remove it", ErrNotRegular, Kind(info.Mode()))}
}

// TryLock takes the lock of an open file and reports whether it holds it now. The
// lock of a file that was renamed or removed does not count, because another process
// would lock a new file of that name.
func TryLock(f *os.File) (held bool, err error) {
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	opened, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(opened, named), nil
}
