package booking

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"gpuboard/internal/atomicfile"
)

// lockPause is how long to wait between two looks at a lock.
const lockPause = 20 * time.Millisecond

// lock waits for flock(2) on the lock file until ctx ends; the error then wraps
// [ErrLocked]. The kernel releases it when the process dies.
func (f *File) lock(ctx context.Context) (unlock func(), err error) {
	for {
		file, err := f.openLock()
		if err != nil {
			return nil, err
		}
		held, err := atomicfile.TryLock(file)
		if held {
			return func() { _ = atomicfile.Unlock(file) }, nil
		}
		file.Close()
		if err != nil {
			return nil, err
		}
		if sleep(ctx, lockPause) != nil {
			return nil, fmt.Errorf("%w: %s", ErrLocked, f.beside(lockSuffix))
		}
	}
}

// openLock opens the lock file, and makes it where there is none: under another
// name first, because everybody who may change the bookings has to be able to
// open it as soon as it is there.
func (f *File) openLock() (*os.File, error) {
	path := f.beside(lockSuffix)
	for range 20 {
		file, err := atomicfile.OpenLock(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := f.make(path); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		}
		info, err := file.Stat()
		if err != nil {
			file.Close()
			return nil, err
		}
		if like, err := f.like(); err == nil && singleName(info) {
			_ = belong(file, like) // its mode may be of a time when the bookings had another
		}
		return file, nil
	}
	return nil, fmt.Errorf("opening %s: %w", path, ErrChanged)
}

// singleName reports whether a file has no other name. One that has could be
// anybody's, linked here so that root gives it away.
func singleName(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 1
}

// make makes an empty file beside comments.json. It has its mode when it appears.
func (f *File) make(path string) error {
	staged := f.beside(madeSuffix + rand.Text())
	if err := f.stage(staged, nil); err != nil {
		return err
	}
	err := f.appear(staged, path)
	if errors.Is(err, ErrChanged) || errors.Is(err, fs.ErrNotExist) {
		err = nil // somebody else has made it, and may have removed ours
	}
	if removeErr := os.Remove(staged); err == nil && !errors.Is(removeErr, fs.ErrNotExist) {
		err = removeErr
	}
	return err
}
