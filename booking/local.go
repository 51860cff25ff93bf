package booking

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"gpuboard/atomicfile"
)

// LocalStore returns the Store that is a file on this machine. Owner says who
// changes it, for those who have to wait. The file need not exist; its directory must.
//
// Three dot files come to lie beside it: the lock, which is gone when nobody
// changes anything; an empty one for flock(2), which the kernel releases when
// its holder dies; and what the file held before its last change.
// now is the machine's clock. It may be used by several goroutines.
func LocalStore(path, owner string, now func() time.Time) Store {
	return newLocal(path, owner, now)
}

func newLocal(path, owner string, now func() time.Time) *local {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // replace the file, not the link to it
	}
	return &local{path: path, owner: owner, now: now, turn: make(chan struct{}, 1)}
}

type local struct {
	path  string
	owner string
	now   func() time.Time
	turn  chan struct{} // holds one element while the lock is ours
	mu    sync.Mutex
	held  func() bool // whether the lock is still ours; nil without one
	// between, when not nil, is called between staging and exchanging, so that
	// a test can be an editor that saves at the worst moment.
	between func()
}

var _ Store = (*local)(nil)

func (l *local) beside(suffix string) string {
	return filepath.Join(filepath.Dir(l.path), "."+filepath.Base(l.path)+suffix)
}

func (l *local) Read(ctx context.Context) ([]byte, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	data, _, err := readRegular(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Version(nil), nil
	}
	if err != nil {
		return nil, "", err
	}
	return data, Version(data), nil
}

// readRegular reads a regular file up to the bound, without ever waiting for a
// FIFO that somebody put there.
func readRegular(path string) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("reading %s: %w", path, atomicfile.ErrNotRegular)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if data == nil {
		data = []byte{}
	}
	return data, info, nil
}

func (l *local) ReplaceIf(ctx context.Context, version string, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	held := l.held
	l.mu.Unlock()
	if held != nil && !held() {
		return fmt.Errorf("replacing %s: %w: the lock was broken", l.path, ErrLocked)
	}
	current, info, err := readRegular(l.path)
	mode := fs.FileMode(0o664)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		current = nil
	case err != nil:
		return err
	default:
		mode = info.Mode().Perm()
	}
	if Version(current) != version {
		return fmt.Errorf("replacing %s: %w", l.path, ErrChanged)
	}
	other := l.beside(".previous")
	if _, err := atomicfile.Write(other, data, mode); err != nil {
		return err
	}
	if info != nil {
		keepOwner(other, info)
	}
	if l.between != nil {
		l.between()
	}
	if current == nil {
		err = l.create(other)
	} else {
		err = l.exchange(other, version, data, mode)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(l.path))
}

// create gives the staged file its name, unless the name is taken by now.
func (l *local) create(staged string) error {
	err := os.Link(staged, l.path)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making %s: %w", l.path, ErrChanged)
	}
	if err != nil {
		return err
	}
	return os.Remove(staged)
}

// exchange swaps the staged file and the one in place in one step. Checking
// before a rename would leave a moment in which an editor's save is
// overwritten; here whatever was in place is at hand afterwards, and goes back
// if it is not what was read.
func (l *local) exchange(staged, version string, data []byte, mode fs.FileMode) error {
	err := swap(staged, l.path)
	if errors.Is(err, errors.ErrUnsupported) {
		current, _, err := readRegular(l.path)
		if err != nil || Version(current) != version {
			return fmt.Errorf("replacing %s: %w", l.path, ErrChanged)
		}
		_, err = atomicfile.Write(l.path, data, mode)
		return err
	}
	if err != nil {
		return fmt.Errorf("replacing %s: %w", l.path, err)
	}
	if old, _, err := readRegular(staged); err == nil && Version(old) == version {
		return nil
	}
	// Somebody saved the file after it was read. What they saved goes back; if
	// that pushes out something that is not ours, they saved once more meanwhile,
	// and that is what has to stay.
	for range 2 {
		if err := swap(staged, l.path); err != nil {
			return fmt.Errorf("putting back what somebody saved in %s (it is in %s): %w", l.path, staged, err)
		}
		if out, _, err := readRegular(staged); err == nil && Version(out) == Version(data) {
			break
		}
	}
	return fmt.Errorf("replacing %s: %w", l.path, ErrChanged)
}

// keepOwner gives the new file the owner and group of the old one, as far as
// one may.
func keepOwner(path string, old fs.FileInfo) {
	if st, ok := old.Sys().(*syscall.Stat_t); ok {
		if os.Lchown(path, int(st.Uid), int(st.Gid)) != nil {
			_ = os.Lchown(path, -1, int(st.Gid)) // who is no member of the group leaves his own
		}
		_ = os.Chmod(path, old.Mode().Perm()) // a change of owner may have cleared bits
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}

// Lock takes flock(2) first, which settles the matter among programs of this
// machine and never outlives them, then the lock file, which those on other
// machines see.
func (l *local) Lock(ctx context.Context) (unlock func() error, err error) {
	dir := lockDir{filepath.Dir(l.path), l.now}
	name := filepath.Base(l.beside(".lock"))
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %s has been locked by %s", ErrLocked, name, holder(dir, name))
	}
	kernel := flock.New(l.beside(".flock"), flock.SetPermissions(0o666), flock.SetFlag(os.O_CREATE|os.O_RDONLY))
	release := func() error {
		err := kernel.Close()
		<-l.turn
		return err
	}
	got, err := kernel.TryLockContext(ctx, lockPause)
	if err == nil && got {
		var held func() bool
		var letGo func() error
		held, letGo, err = AcquireLock(ctx, dir, name, l.owner, pause)
		if err == nil {
			l.setHeld(held)
			return func() error {
				l.setHeld(nil)
				return errors.Join(letGo(), release())
			}, nil
		}
	} else if ctx.Err() != nil {
		err = fmt.Errorf("%w: %s has been locked by %s", ErrLocked, name, holder(dir, name))
	}
	_ = release()
	return nil, fmt.Errorf("locking %s: %w", l.path, err)
}

func (l *local) setHeld(held func() bool) {
	l.mu.Lock()
	l.held = held
	l.mu.Unlock()
}

// lockPause is how long to wait between two looks at a lock.
const lockPause = 20 * time.Millisecond

func pause(ctx context.Context) error {
	timer := time.NewTimer(lockPause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// lockDir is a LockDir on this machine.
type lockDir struct {
	dir string
	now func() time.Time
}

func (d lockDir) Create(name string, content []byte) error {
	f, err := os.OpenFile(filepath.Join(d.dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func (d lockDir) ReadFile(name string) ([]byte, error) {
	f, err := os.OpenFile(filepath.Join(d.dir, name), os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 512))
}

func (d lockDir) Age(name string) (time.Duration, error) {
	info, err := os.Lstat(filepath.Join(d.dir, name))
	if err != nil {
		return 0, err
	}
	return d.now().Sub(info.ModTime()), nil
}

func (d lockDir) Rename(from, to string) error {
	return unix.Rename(filepath.Join(d.dir, from), filepath.Join(d.dir, to))
}

func (d lockDir) PutBack(from, to string) error {
	from, to = filepath.Join(d.dir, from), filepath.Join(d.dir, to)
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}

func (d lockDir) Remove(name string) error { return os.Remove(filepath.Join(d.dir, name)) }
