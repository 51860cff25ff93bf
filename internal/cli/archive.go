package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/failure"
)

// pruneAfter is how long a booking stays in comments.json after its end unless
// --before says otherwise.
const pruneAfter = 30 * 24 * time.Hour

// archiveName is the file that old bookings are moved to, the n-th of them: a
// full one is left as it is.
func archiveName(n int) string {
	if n == 1 {
		return "comments.archive.json"
	}
	return fmt.Sprintf("comments.archive.%d.json", n)
}

// prune moves bookings that ended before a moment into the archive.
func (e *editor) prune(ctx context.Context, before string) error {
	end := e.Now.Add(-pruneAfter)
	if before != "" {
		if length, err := booking.ParseDuration(before); err == nil {
			end = e.Now.Add(-length)
		} else if end, _, err = booking.ParseMoment(before, e.Now, e.Zone); err != nil {
			return failure.Usage("for instance --before 30d", "--before: %w", err)
		} else if end.After(e.Now) {
			return failure.Usage("", "--before: %s is not over", before)
		}
	}
	var moved []booking.Booking
	var into string
	err := e.file.Update(ctx, e.by(), func(data []byte) ([]byte, error) {
		moved = nil
		if data == nil {
			return nil, errNothing
		}
		next, old, err := booking.Prune(data, e.FileZone.Location, end)
		if err != nil {
			return nil, err
		}
		if len(old) == 0 {
			return nil, errNothing
		}
		// Into the archive first: whoever dies in between has them twice, and the
		// next time finds them there. It is the same file for every try.
		if into, err = e.archive(old); err != nil {
			return nil, err
		}
		moved = old
		return next, nil
	})
	if err != nil && !errors.Is(err, errNothing) {
		return err
	}
	if len(moved) == 0 {
		fmt.Fprintf(e.app.stdout, "no booking ended before %s\n", e.moment(end))
		return nil
	}
	_, err = fmt.Fprintf(e.app.stdout, "moved %s that ended before %s to %s\n", counted(len(moved), "booking"), e.moment(end), into)
	return err
}

// errNothing ends a change that would be none.
var errNothing = errors.New("there is nothing to change")

// archive writes bookings behind those in the archive, each as a line of JSON.
// Those that are there already are not written twice.
func (e *editor) archive(old []booking.Booking) (name string, err error) {
	for n := 1; n <= 1000; n++ {
		name = archiveName(n)
		data, err := e.file.ReadBeside(name)
		if err != nil {
			return name, fmt.Errorf("reading %s: %w", name, err)
		}
		next, missing, err := archived(data, old)
		if err != nil || missing == 0 {
			return name, err
		}
		if len(next) <= booking.MaxFileBytes { // else this one is full
			return name, e.file.WriteBeside(name, next)
		}
	}
	return name, fmt.Errorf("writing %s: there are too many archives", name)
}

// archived appends to data what is not in it yet.
func archived(data []byte, old []booking.Booking) (next []byte, missing int, err error) {
	have := map[string]bool{}
	for line := range bytes.Lines(data) {
		have[string(bytes.TrimSpace(line))] = true
	}
	next = bytes.Clone(data)
	if len(next) > 0 && next[len(next)-1] != '\n' {
		next = append(next, '\n')
	}
	for _, b := range old {
		line, err := json.Marshal(oneJSON(b))
		if err != nil {
			return nil, 0, fmt.Errorf("writing a booking of %s as JSON: %w", b.Host, err)
		}
		if have[string(line)] {
			continue
		}
		missing++
		next = append(append(next, line...), '\n')
	}
	return next, missing, nil
}
