package booking

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"gpuboard/internal/atomicfile"
)

// lockPause is the time between two attempts to take the lock.
const lockPause = 20 * time.Millisecond

// lock waits for flock(2) on the lock file until ctx ends; the error then wraps
// [ErrLocked]. [atomicfile.Unlock] releases it, and so does the end of the process.
func (f *File) lock(ctx context.Context) (*os.File, error) {
	for {
		lock, err := f.openShared(f.beside(lockSuffix), atomicfile.OpenLock)
		if err != nil {
			return nil, err
		}
		held, err := atomicfile.TryLock(lock)
		if held {
			return lock, nil
		}
		lock.Close()
		if err != nil {
			return nil, err
		}
		if sleep(ctx, lockPause) != nil {
			return nil, fmt.Errorf("%w: %s", ErrLocked, f.beside(lockSuffix))
		}
	}
}

// errLockLost says that the lock file is another one now, so that others may have a lock, too.
var errLockLost = fmt.Errorf("%w: the lock file was replaced meanwhile", ErrLocked)

// stillLocked returns an error that wraps errLockLost if a lock counts no more.
func stillLocked(lock *os.File) error {
	held, err := atomicfile.TryLock(lock)
	if held {
		return nil
	}
	return errors.Join(errLockLost, err)
}

// openShared opens a file for all who may change the bookings, and creates it if necessary.
func (f *File) openShared(path string, open func(path string) (*os.File, error)) (*os.File, error) {
	for range 20 {
		file, err := open(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := f.createEmpty(path); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		}
		info, err := file.Stat()
		if owner, ownerErr := f.ownership(); err == nil && ownerErr == nil && singleName(info) {
			_ = setOwnership(file, owner) // the mode of the bookings may have changed since
		}
		return file, nil
	}
	return nil, fmt.Errorf("opening %s: %w", path, ErrChanged)
}

// singleName reports whether a file has no other hard link, which could be a file of somebody else.
func singleName(info fs.FileInfo) bool { return info.Sys().(*syscall.Stat_t).Nlink == 1 }

// createEmpty creates an empty file that has its mode before its name, so that others can open it at once.
func (f *File) createEmpty(path string) error {
	staged, err := f.stage(nil)
	if err != nil {
		return err
	}
	err = f.linkNew(staged, path)
	if errors.Is(err, ErrChanged) {
		err = nil // another process has created it
	}
	if removeErr := os.Remove(staged); err == nil && !errors.Is(removeErr, fs.ErrNotExist) {
		err = removeErr
	}
	return err
}
