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

// A Store is a Place that can be locked, and is in order then.
type Store interface {
	Beside
	Locker
}

// A Beside is a Place that is locked together with another one.
type Beside interface {
	Place
	// Recover puts in order what a program left that died while it changed the
	// file; see [Keeper.Recover]. A Store does so when it is locked.
	Recover(ctx context.Context) error
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
// A nil error means that the change is in the file, and was seen there. Of an
// error that is an [*KeptError] somebody has to be told: it names what else was saved.
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
	var before, next []byte
	for try := 0; ; try++ {
		data, version, err := readSaved(ctx, place)
		if err != nil {
			return err
		}
		if try > 0 {
			// Who saved meanwhile may have had the change before them already.
			if made, _ := compare(before, next, data); made {
				return nil
			}
		}
		before = data
		next, err = edit(data)
		if err != nil {
			return err
		}
		if data != nil && bytes.Equal(next, data) {
			return nil
		}
		err = place.ReplaceIf(ctx, version, next)
		if again(ctx, err, try) {
			continue
		}
		if err != nil {
			return fmt.Errorf("replacing the bookings: %w", err)
		}
		back, _, err := place.Read(ctx)
		if err != nil {
			return fmt.Errorf("reading the bookings back: %w", err)
		}
		switch made, lost := compare(data, next, back); {
		case made:
			return nil
		case lost && again(ctx, ErrChanged, try):
			// Somebody who had read the file before saved over the change.
		default:
			return fmt.Errorf("reading the bookings back: %w: look whether your change is there", ErrChanged)
		}
	}
}

func again(ctx context.Context, err error, try int) bool {
	var kept *KeptError
	return errors.Is(err, ErrChanged) && !errors.As(err, &kept) && try < 20 && ctx.Err() == nil
}

// How long one waits for somebody who is in the middle of saving: an editor, or
// a program that copies a file over a network, empties it first and fills it then.
const (
	savingTries = 5
	savingPause = 100 * time.Millisecond
)

// readSaved reads the file, and once more after a while when it is empty.
func readSaved(ctx context.Context, place Place) (data []byte, version string, err error) {
	for try := 0; ; try++ {
		data, version, err = place.Read(ctx)
		if err != nil {
			return nil, "", fmt.Errorf("reading the bookings: %w", err)
		}
		if len(data) > MaxFileBytes {
			return nil, "", fmt.Errorf("reading the bookings: the file is larger than %d KiB", MaxFileBytes>>10)
		}
		if data == nil || len(data) > 0 || try == savingTries {
			return data, version, nil
		}
		if err := sleep(ctx, savingPause); err != nil {
			return nil, "", err
		}
	}
}

// compare tells of a file that was changed from before to after, and is now
// something else, because a person saved it since: whether the change is in it,
// and whether nothing of the change is.
func compare(before, after, now []byte) (made, lost bool) {
	if bytes.Equal(after, now) {
		return true, false
	}
	count := func(data []byte) map[Booking]int {
		have := map[Booking]int{}
		if data != nil {
			r := read("comments.json", data, time.UTC, Options{})
			if r.cal.Broken {
				return nil
			}
			for _, b := range r.cal.Bookings {
				have[b.content()]++
			}
		}
		return have
	}
	old, want, have := count(before), count(after), count(now)
	if old == nil || want == nil || have == nil {
		return false, false
	}
	made, lost = true, true
	differs := false
	for b := range want {
		if d := want[b] - old[b]; d > 0 {
			differs = true
			made, lost = made && have[b] >= want[b], lost && have[b] <= old[b]
		}
	}
	for b := range old {
		if d := old[b] - want[b]; d > 0 {
			differs = true
			made, lost = made && have[b] <= want[b], lost && have[b] >= old[b]
		}
	}
	return made && differs, lost && differs
}
