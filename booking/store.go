package booking

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// The errors of changing bookings where others change them too.
var (
	// ErrChanged says that the file is not the one that was read any more.
	ErrChanged = errors.New("the bookings were changed by somebody else at the same moment")
	// ErrLocked says that somebody else held the lock for as long as one was willing to wait.
	ErrLocked = errors.New("somebody else is changing the bookings")
)

// A Place is where comments.json lies: a local file, or one on the web host
// reached over SFTP.
type Place interface {
	// Read returns the content and a version that is different for different
	// contents. A file that does not exist has no bytes and a version of its own.
	Read(ctx context.Context) (data []byte, version string, err error)
	// ReplaceIf makes data the content, whole or not at all, provided that the
	// file still has the version; otherwise the error wraps [ErrChanged] and the
	// file is as somebody else left it.
	ReplaceIf(ctx context.Context, version string, data []byte) error
}

// A Locker is a [Place] that programs can reserve for themselves. People with
// an editor do not see the lock; that is what ReplaceIf is for.
type Locker interface {
	// Lock waits for the lock until ctx ends; the error then wraps [ErrLocked].
	Lock(ctx context.Context) (unlock func() error, err error)
}

// A Store is a Place that can be locked.
type Store interface {
	Place
	Locker
}

// updateBudget bounds one Update, so that a lock is never held for longer than
// it takes others to think it dead.
const updateBudget = 20 * time.Second

// Version is the version of a content: what [Place] implementations return, "absent"
// for nil.
func Version(data []byte) string {
	if data == nil {
		return "absent"
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Update changes the bookings: it takes the lock, reads, lets edit make the new
// content, replaces the file if it is still the one that was read, and reads it
// back. When somebody saved the file in between, edit is called again with what
// they wrote, so it must not have effects of its own; their change is kept.
//
// A nil error means that the change is in the file, and was seen there.
func Update(ctx context.Context, place Place, edit func(data []byte) ([]byte, error)) (err error) {
	ctx, cancel := context.WithTimeout(ctx, updateBudget)
	defer cancel()
	if locker, ok := place.(Locker); ok {
		unlock, err := locker.Lock(ctx)
		if err != nil {
			return fmt.Errorf("locking the bookings: %w", err)
		}
		// The change is made by then: a lock that stays behind is broken by the next one.
		defer func() { _ = unlock() }()
	}
	for try := 0; ; try++ {
		data, version, err := place.Read(ctx)
		if err != nil {
			return fmt.Errorf("reading the bookings: %w", err)
		}
		if len(data) > MaxFileBytes {
			return fmt.Errorf("reading the bookings: the file is larger than %d KiB", MaxFileBytes>>10)
		}
		next, err := edit(data)
		if err != nil {
			return err
		}
		if data != nil && bytes.Equal(next, data) {
			return nil
		}
		err = place.ReplaceIf(ctx, version, next)
		if errors.Is(err, ErrChanged) && try < 20 && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("replacing the bookings: %w", err)
		}
		back, _, err := place.Read(ctx)
		if err != nil {
			return fmt.Errorf("reading the bookings back: %w", err)
		}
		if !bytes.Equal(back, next) {
			return fmt.Errorf("reading the bookings back: %w: look whether your change is there", ErrChanged)
		}
		return nil
	}
}
