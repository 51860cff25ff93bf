package booking

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// LockTimeout is the age at which a lock counts as left behind by a program
// that died: longer than any Update may take.
const LockTimeout = 30 * time.Second

// A LockDir is the directory beside comments.json as far as a lock needs it,
// local or over SFTP. Errors about a file that is there or is not wrap
// [fs.ErrExist] and [fs.ErrNotExist].
type LockDir interface {
	// Create makes a file that must not exist yet, in one step (O_EXCL).
	Create(name string, content []byte) error
	// ReadFile returns at most a few hundred bytes.
	ReadFile(name string) ([]byte, error)
	// Age is how old a file is by the clock of the machine that it lies on.
	Age(name string) (time.Duration, error)
	// Rename moves a file in one step (over SFTP posix-rename; the plain one
	// links and unlinks, and two who break a lock could take away a third's).
	Rename(from, to string) error
	// PutBack moves a file and never replaces one (SFTP's plain rename).
	PutBack(from, to string) error
	Remove(name string) error
}

// AcquireLock makes a lock file and returns how to let go of it. It waits for
// another holder until ctx ends, trying again after each pause; the error then
// wraps [ErrLocked] and says who that is. A lock older than [LockTimeout] is
// broken, by exactly one of those who wait for it.
//
// held reports whether the lock is still ours, for a holder that was asleep for
// long; owner is for people to read.
func AcquireLock(ctx context.Context, dir LockDir, name, owner string, pause func(context.Context) error) (held func() bool, unlock func() error, err error) {
	token := rand.Text()
	content := []byte(token + "\n" + strings.ReplaceAll(owner, "\n", " ") + "\n")
	ours := func() bool {
		have, err := dir.ReadFile(name)
		return err == nil && tokenOf(have) == token
	}
	for {
		err := dir.Create(name, content)
		if err == nil {
			return ours, func() error {
				if !ours() {
					return fmt.Errorf("unlocking: %w: the lock was broken", ErrLocked)
				}
				return dir.Remove(name)
			}, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, nil, fmt.Errorf("making the lock %s: %w", name, err)
		}
		broken, err := breakStale(dir, name, token)
		if err != nil {
			return nil, nil, err
		}
		if broken {
			continue
		}
		if err := pause(ctx); err != nil {
			return nil, nil, fmt.Errorf("%w: %s has been locked by %s", ErrLocked, name, holder(dir, name))
		}
	}
}

// breakStale takes away a lock that is too old, or is gone by now, and reports
// whether it is worth trying at once. Many may see the same old lock; whoever
// makes the file beside it has the right to break it, and looks once more
// whether it still is that lock.
func breakStale(dir LockDir, name, token string) (again bool, err error) {
	seen, old, err := tooOld(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil || !old {
		return false, err
	}
	right := name + ".break"
	err = dir.Create(right, []byte(token+"\n"))
	if errors.Is(err, fs.ErrExist) {
		if _, old, err := tooOld(dir, right); err == nil && old {
			_ = dir.Remove(right) // whoever had the right is dead, too
		}
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("breaking the lock %s: %w", name, err)
	}
	defer func() {
		if removeErr := dir.Remove(right); err == nil && removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
			err = fmt.Errorf("breaking the lock %s: %w", name, removeErr)
		}
	}()
	if now, err := dir.ReadFile(name); err != nil || string(now) != string(seen) {
		return true, nil
	}
	return true, takeAway(dir, name, token, seen)
}

// tooOld reads a lock and reports whether its holder counts as dead.
func tooOld(dir LockDir, name string) (content []byte, old bool, err error) {
	content, err = dir.ReadFile(name)
	if err != nil {
		return nil, false, fmt.Errorf("reading the lock %s: %w", name, err)
	}
	age, err := dir.Age(name)
	if err != nil {
		return nil, false, fmt.Errorf("reading the age of the lock %s: %w", name, err)
	}
	return content, age > LockTimeout, nil
}

// takeAway moves the lock to a name of one's own before it is deleted: should
// its holder have let go of it at the last moment, and somebody have made a new
// one, that one is put back.
func takeAway(dir LockDir, name, token string, seen []byte) error {
	mine := name + "." + token
	if err := dir.Rename(name, mine); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("breaking the lock %s: %w", name, err)
	}
	moved, err := dir.ReadFile(mine)
	if err == nil && string(moved) != string(seen) && dir.PutBack(mine, name) == nil {
		return nil
	}
	if err := dir.Remove(mine); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("breaking the lock %s: %w", name, err)
	}
	return nil
}

func tokenOf(content []byte) string {
	token, _, _ := strings.Cut(string(content), "\n")
	return token
}

func holder(dir LockDir, name string) string {
	content, err := dir.ReadFile(name)
	if err != nil {
		return "somebody"
	}
	_, owner, _ := strings.Cut(string(content), "\n")
	return quote(strings.TrimSpace(owner))
}
