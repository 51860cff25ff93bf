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
// whether it is worth trying at once. Many may see the same old lock; moving it
// to a name of one's own is what only one of them can do. Who moves a lock that
// was made anew in the meantime puts it back.
func breakStale(dir LockDir, name, token string) (bool, error) {
	seen, err := dir.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the lock %s: %w", name, err)
	}
	age, err := dir.Age(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the age of the lock %s: %w", name, err)
	}
	if age <= LockTimeout {
		return false, nil
	}
	mine := name + "." + token
	if err := dir.Rename(name, mine); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		return false, fmt.Errorf("breaking the lock %s: %w", name, err)
	}
	moved, err := dir.ReadFile(mine)
	if err == nil && string(moved) != string(seen) {
		if err := dir.PutBack(mine, name); err == nil {
			return false, nil
		}
	}
	if err := dir.Remove(mine); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("breaking the lock %s: %w", name, err)
	}
	return true, nil
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
