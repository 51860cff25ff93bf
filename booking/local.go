package booking

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
// its holder dies; and what the file held before its last change. A program that
// dies leaves more, see [Keeper.Recover].
// now is the machine's clock. It may be used by several goroutines.
func LocalStore(path, owner string, now func() time.Time) Store {
	return newLocal(path, owner, now)
}

func newLocal(path, owner string, now func() time.Time) *local {
	path = behindLinks(path) // replace the file, not the link to it
	return &local{
		path: path, owner: owner, now: now, turn: make(chan struct{}, 1),
		file: NewKeeper(&localDir{dir: filepath.Dir(path), swap: swap}, filepath.Base(path)),
	}
}

// behindLinks is where a file lies, or would, that links lead to.
func behindLinks(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	for range 8 { // the file is not there, and links to it may be
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return path
}

type local struct {
	path  string
	owner string
	now   func() time.Time
	turn  chan struct{} // holds one element while the lock is ours
	file  *Keeper
}

var _ Store = (*local)(nil)

func (l *local) beside(suffix string) string {
	return filepath.Join(filepath.Dir(l.path), "."+filepath.Base(l.path)+suffix)
}

func (l *local) Read(ctx context.Context) ([]byte, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	return l.file.Read(ctx)
}

func (l *local) ReplaceIf(ctx context.Context, version string, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := l.file.ReplaceIf(ctx, version, data)
	return errors.Join(err, syncDir(filepath.Dir(l.path)))
}

// Recover implements [Beside].
func (l *local) Recover(ctx context.Context) error { return l.file.Recover(ctx) }

// readRegular reads a regular file up to the bound.
func readRegular(path string) ([]byte, fs.FileInfo, error) {
	f, info, err := atomicfile.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if data == nil {
		data = []byte{}
	}
	return data, info, nil
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
			if err = l.file.Recover(ctx); err == nil {
				l.sweep()
				l.file.Locked(held)
				return func() error {
					l.file.Locked(nil)
					if l.file.Stuck() {
						return release()
					}
					return errors.Join(letGo(), release())
				}, nil
			}
			err = errors.Join(fmt.Errorf("putting in order what a program left that died: %w", err), letGo())
		}
	} else if ctx.Err() != nil {
		err = fmt.Errorf("%w: %s has been locked by %s", ErrLocked, name, holder(dir, name))
	}
	_ = release()
	return nil, fmt.Errorf("locking %s: %w", l.path, err)
}

// sweep removes what a program left that was killed while it wrote a file that
// it was going to stage, or while it broke a lock. Who holds the lock is the only
// one to make such files.
func (l *local) sweep() {
	dir, base := filepath.Dir(l.path), filepath.Base(l.path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // they harm nobody
	}
	for _, e := range entries {
		name := e.Name()
		ours := atomicfile.IsTemp(name) && strings.HasPrefix(name, ".tmp-."+base+".") || strings.HasPrefix(name, "."+base+".lock.")
		if info, err := e.Info(); ours && err == nil && info.Mode().IsRegular() && l.now().Sub(info.ModTime()) > leftAfter {
			_ = os.Remove(filepath.Join(dir, name))
		}
	}
}

// leftAfter is the age at which such a file is surely nobody's: a program that
// was asleep for so long has lost the lock.
const leftAfter = 2 * LockTimeout

// lockPause is how long to wait between two looks at a lock.
const lockPause = 20 * time.Millisecond

func pause(ctx context.Context) error { return sleep(ctx, lockPause) }

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
