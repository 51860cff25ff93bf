package remotefile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"gpuboard/booking"
	"gpuboard/publisher"
	"gpuboard/snapshot"
)

const (
	lockPause    = 40 * time.Millisecond
	unlockBudget = 5 * time.Second
	// asideKept is how long a lock that a killed program moved aside may lie
	// before it is swept; whoever moved it is surely gone by then.
	asideKept = 10 * time.Minute
)

// Lock implements [booking.Locker].
func (f *File) Lock(ctx context.Context) (unlock func() error, err error) {
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("locking %s: %w: this program itself", f.given, booking.ErrLocked)
	}
	defer func() {
		if err != nil {
			<-f.turn
		}
	}()
	name, err := f.path(ctx)
	if err != nil {
		return nil, err
	}
	lock := path.Base(beside(name, ".lock"))
	dir := &lockDir{f: f, ctx: ctx, dir: path.Dir(name)}
	f.touch("lock")
	held, letGo, err := booking.AcquireLock(ctx, dir, lock, f.owner,
		func(ctx context.Context) error { return wait(ctx, lockPause) })
	if err != nil {
		if dir.seen != nil && !errors.Is(err, booking.ErrLocked) && (ctx.Err() != nil || publisher.Code(err) == publisher.CodeTimeout) {
			// The time ended in the middle of a look at the lock.
			err = fmt.Errorf("%w: it has been locked by %q", booking.ErrLocked, dir.holder())
		}
		return nil, fmt.Errorf("locking %s: %w", f.given, err)
	}
	f.touch("locked")
	if dir.broke {
		f.sweep(ctx, name)
	}
	if err := f.keeper.Recover(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("putting in order what a program left that died while it changed %s: %w", f.given, err), letGo())
	}
	f.keeper.Locked(held)
	return func() error {
		f.keeper.Locked(nil)
		defer func() { <-f.turn }()
		if f.keeper.Stuck() {
			return nil // the lock stays until somebody breaks it, and recovers
		}
		// The time for the change may be spent, and the lock has to go all the same.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockBudget)
		defer cancel()
		dir.ctx = ctx
		f.touch("unlock")
		return letGo()
	}, nil
}

// sweep removes what those left behind who died at the lock, or while an older
// version of this program changed the file for them: they kept what they had
// replaced under another name.
func (f *File) sweep(ctx context.Context, name string) {
	base := path.Base(name)
	_ = f.line.with(ctx, func(s *publisher.Session) error {
		infos, err := s.Names(ctx, path.Dir(name))
		if err != nil {
			return err // an account that may not list leaves it to those who may
		}
		for _, info := range infos {
			full := path.Join(path.Dir(name), info.Name())
			switch {
			case strings.HasPrefix(info.Name(), "."+base+".clock-"):
				_ = s.Remove(ctx, full)
			case strings.HasPrefix(info.Name(), "."+base+".was-"):
				_ = s.Replace(ctx, full, beside(name, ".previous"))
			case strings.HasPrefix(info.Name(), "."+base+".lock.") && f.now().Sub(info.ModTime()) > asideKept:
				_ = s.Remove(ctx, full)
			}
		}
		return nil
	})
}

// lockDir is the directory beside the file as the lock needs it.
type lockDir struct {
	f     *File
	ctx   context.Context // of the lock; the interface has no room for one a call
	dir   string
	broke bool          // a lock was found too old
	seen  []byte        // what the lock held when it was last read
	skew  time.Duration // of the server's clock against ours
	asked bool
}

var _ booking.LockDir = (*lockDir)(nil)

func (d *lockDir) at(name string) string { return path.Join(d.dir, name) }

func (d *lockDir) Create(name string, content []byte) error {
	return d.f.line.create(d.ctx, d.at(name), content, 0o644)
}

func (d *lockDir) ReadFile(name string) (data []byte, err error) {
	if d.ctx.Err() != nil && d.seen != nil {
		return d.seen, nil // to say who it was that one waited for in vain
	}
	err = d.f.line.with(d.ctx, func(s *publisher.Session) error {
		data, _, err = s.Read(d.ctx, d.at(name), 512)
		return err
	})
	if err == nil {
		d.seen = data
	}
	return data, err
}

// holder is who held the lock when it was last read.
func (d *lockDir) holder() string {
	_, owner, _ := strings.Cut(string(d.seen), "\n")
	return snapshot.Text(strings.TrimSpace(owner), 60)
}

// Age asks the server what time it is by making a file: its clock and ours may
// differ by more than a lock may live.
func (d *lockDir) Age(name string) (time.Duration, error) {
	info, err := d.f.line.stat(d.ctx, d.at(name))
	if err != nil {
		return 0, err
	}
	if !d.asked {
		probe := beside(d.at(path.Base(d.f.given)), ".clock-"+rand.Text())
		before := d.f.now()
		if err := d.f.line.create(d.ctx, probe, nil, 0o600); err != nil {
			return 0, err
		}
		made, err := d.f.line.stat(d.ctx, probe)
		if err := errors.Join(err, d.f.line.remove(d.ctx, probe)); err != nil {
			return 0, err
		}
		d.skew, d.asked = made.ModTime().Sub(before), true
	}
	return d.f.now().Add(d.skew).Sub(info.ModTime()), nil
}

func (d *lockDir) Rename(from, to string) error {
	d.broke = true
	return d.f.line.replace(d.ctx, d.at(from), d.at(to))
}

func (d *lockDir) PutBack(from, to string) error {
	return d.f.line.move(d.ctx, d.at(from), d.at(to))
}

func (d *lockDir) Remove(name string) error { return d.f.line.remove(d.ctx, d.at(name)) }
