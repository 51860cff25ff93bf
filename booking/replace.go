package booking

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"
)

// A Dir is the directory that comments.json lies in, on this machine or over
// SFTP, as far as changing the file needs it. Names are those of files in it.
// Errors about a file that is there or is not wrap [fs.ErrExist] and
// [fs.ErrNotExist]; one after which nobody knows whether the request was heard
// wraps [ErrUnsure].
type Dir interface {
	// Names lists the directory; the error wraps [fs.ErrPermission] for those who may not.
	Names(ctx context.Context) ([]string, error)
	// Read returns the content of a regular file, never nil, and of one that is
	// longer than [MaxFileBytes] at least one byte more than that.
	Read(ctx context.Context, name string) (data []byte, info fs.FileInfo, err error)
	// Stage makes a file, whole and on the disk, with the mode, the owner and
	// the group of another as far as one may, and with a mode of its own for nil.
	Stage(ctx context.Context, name string, data []byte, like fs.FileInfo) error
	// Exchange moves name to taken, where nothing lies, and at once afterwards
	// gives staged that name, provided that it is free then. It tells of each.
	Exchange(ctx context.Context, name, taken, staged string) (took, put error)
	// Link gives a file a second name, which must be free.
	Link(ctx context.Context, from, to string) error
	// Put gives a file a name, which must be free; its old one may stay as well.
	Put(ctx context.Context, from, to string) error
	// Rename moves a file, over another if there is one.
	Rename(ctx context.Context, from, to string) error
	// Remove deletes a file. That there is none is no error.
	Remove(ctx context.Context, name string) error
}

// ErrUnsure says that a connection ended before the answer came.
var ErrUnsure = errors.New("it is not known whether it was done")

// settleBudget bounds what has to be finished after the file was touched, even
// when the time for the change is over. With [updateBudget] and the time for
// unlocking it stays below [LockTimeout].
const settleBudget = 4 * time.Second

// A Keeper changes one file in a [Dir] that people and programs change. It may
// be used by several goroutines; who calls Recover and Replace holds the lock.
type Keeper struct {
	dir   Dir
	name  string
	pause time.Duration // between two looks at a file that is being exchanged

	mu       sync.Mutex
	held     func() bool // see Locked
	previous []string    // what the file held before the last change, as found by Recover
	stuck    bool
}

var _ Beside = (*Keeper)(nil)

// NewKeeper returns the Keeper of the file of this name.
func NewKeeper(dir Dir, name string) *Keeper {
	return &Keeper{dir: dir, name: name, pause: standingPause}
}

// Locked has ReplaceIf ask held, right before the file is touched, whether the
// lock is still the caller's, who may have been asleep for long. Nil: there is none.
func (k *Keeper) Locked(held func() bool) {
	k.mu.Lock()
	k.held = held
	k.mu.Unlock()
}

// stillHeld is the last look before the file changes.
func (k *Keeper) stillHeld() error {
	k.mu.Lock()
	held := k.held
	k.mu.Unlock()
	if held != nil && !held() {
		return fmt.Errorf("replacing %s: %w: the lock was broken", k.name, ErrLocked)
	}
	return nil
}

// Stuck reports, once, that a change could not be finished. The lock has to stay
// then, until somebody breaks it and recovers.
func (k *Keeper) Stuck() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	stuck := k.stuck
	k.stuck = false
	return stuck
}

// Read returns what stands at the name, see [Place]; in the moment in which
// nothing does, what was taken away from there.
func (k *Keeper) Read(ctx context.Context) (data []byte, version string, err error) {
	data, _, _, err = k.standing(ctx)
	if err != nil {
		return nil, "", err
	}
	return data, Version(data), nil
}

// ReplaceIf is that of [Place].
//
// What stands at the name is never replaced. It is taken away under a name of
// its own, and the new content is put where nothing is: so whatever an editor
// saved until then is at hand afterwards, and what it saves from then on is in
// nobody's way. Only then is what was taken compared with what the change was
// made upon. If somebody's save is among it, that goes back into place, and the
// caller has to make the change anew; see [settling].
func (k *Keeper) ReplaceIf(ctx context.Context, version string, data []byte) error {
	settled, err := k.replace(ctx, version, data)
	if !settled {
		k.mu.Lock()
		k.stuck = true
		k.mu.Unlock()
	}
	return err
}

func (k *Keeper) replace(ctx context.Context, version string, data []byte) (settled bool, err error) {
	dir, name := k.dir, k.name
	current, info, err := readOrNil(ctx, dir, name)
	if err != nil {
		return true, err
	}
	if Version(current) != version {
		if current == nil {
			// Taken away by a request that was thought lost, and heard late.
			err = k.Recover(ctx)
		}
		return err == nil, errors.Join(changed(name), err)
	}
	staged := stagedName(name)
	if err := dir.Stage(ctx, staged, data, info); err != nil {
		return true, err
	}
	if err := k.stillHeld(); err != nil {
		_ = dir.Remove(ctx, staged)
		return true, err
	}
	if current == nil {
		return true, appear(ctx, dir, staged, name)
	}
	t := newTurn(name, fingerprint(current), fingerprint(data))
	took, put := dir.Exchange(ctx, name, t.taken, staged)
	s := k.settling([]turn{t})
	s.placed = put == nil
	k.mu.Lock()
	s.previous, k.previous = k.previous, nil
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleBudget)
	defer cancel()
	// From here on the new content cannot come to stand any more, whenever a
	// request that was lost may still be heard.
	if err := dir.Remove(ctx, staged); err != nil {
		return false, errors.Join(took, put, err)
	}
	switch {
	case errors.Is(took, ErrUnsure) || errors.Is(put, ErrUnsure):
		return s.unsure(ctx, errors.Join(took, put))
	case took != nil && put == nil && errors.Is(took, fs.ErrNotExist):
		// The file was deleted after it was read, so this content is out of date.
		undo := newTurn(name, t.ours, nobodys)
		s.turns, s.placed = append(s.turns, undo), false
		if err := dir.Rename(ctx, name, undo.taken); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	case took != nil && !errors.Is(took, fs.ErrNotExist):
		return true, fmt.Errorf("taking %s away: %w", name, took)
	}
	if err := s.run(ctx); err != nil {
		return false, fmt.Errorf("putting %s in order: %w", name, err)
	}
	switch {
	case len(s.kept) > 0:
		return true, &KeptError{Name: name, Files: s.kept}
	case took == nil && put == nil && !s.moved:
		return true, nil
	case took == nil && put != nil && !errors.Is(put, fs.ErrExist):
		return true, fmt.Errorf("putting the new %s in place: %w", name, put)
	}
	return true, changed(name)
}

// appear gives a first content its name, unless the name is taken by now.
func appear(ctx context.Context, dir Dir, staged, name string) error {
	// Whoever died may have left the file under another name, see [Recover].
	if _, err := dir.Names(ctx); err != nil {
		_ = dir.Remove(ctx, staged)
		return fmt.Errorf("looking whether %s lies under another name: %w", name, err)
	}
	err := dir.Put(ctx, staged, name)
	_ = dir.Remove(ctx, staged)
	if errors.Is(err, fs.ErrExist) {
		return changed(name)
	}
	return err
}

// unsure finds out by what lies there whether a change whose answer was lost
// was made.
func (s *settling) unsure(ctx context.Context, lost error) (settled bool, err error) {
	t := s.turns[0]
	if _, _, err := s.dir.Read(ctx, t.taken); err != nil {
		// Not taken yet, and it may still be: the next one will see.
		return false, lost
	}
	if err := s.run(ctx); err != nil {
		return false, errors.Join(lost, err)
	}
	now, _, err := readOrNil(ctx, s.dir, s.name)
	switch {
	case err != nil:
		return true, errors.Join(lost, err)
	case len(s.kept) > 0:
		return true, &KeptError{Name: s.name, Files: s.kept}
	case now != nil && fingerprint(now) == t.ours:
		return true, nil
	}
	return true, changed(s.name)
}

func changed(name string) error { return fmt.Errorf("replacing %s: %w", name, ErrChanged) }

// readOrNil returns nil for a file that is not there.
func readOrNil(ctx context.Context, dir Dir, name string) ([]byte, fs.FileInfo, error) {
	data, info, err := dir.Read(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	return data, info, err
}

// A KeptError says that two people saved the file at the same moment, and that
// neither holds what the other wrote: one stands, and Files are where the others
// lie. Nothing else was changed.
type KeptError struct {
	Name  string
	Files []string
}

// Is makes it an [ErrChanged] for those who only want to know whether to try again.
func (e *KeptError) Is(target error) bool { return target == ErrChanged }

func (e *KeptError) Error() string {
	return fmt.Sprintf("two people saved %s at the same moment, and one of them stands: the other is in %s", e.Name, quotedList(e.Files))
}
