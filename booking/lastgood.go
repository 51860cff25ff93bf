package booking

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gpuboard/atomicfile"
	"gpuboard/snapshot"
)

// LastGoodName is the copy of comments.json that Load keeps in the state directory.
const LastGoodName = "comments.last-good.json"

// Load reads comments.json at path for the board. As long as the file is not
// well-formed, or cannot be read, the last content that was stands in for those
// hosts and GPUs that are affected, as kept in the directory stateDir, "" for
// none; opts.Now also is the moment of this reading. A file that does not exist
// is no problem: nobody has booked anything. A directory that does not exist is.
//
// The calendar is never nil. The error is only about keeping the copy.
func Load(path, stateDir string, zone *time.Location, opts Options) (*Calendar, error) {
	data, info, err := readRegular(behindLinks(path))
	copyAt := filepath.Join(stateDir, LastGoodName)
	var r *reading
	if err == nil {
		r = read(path, data, zone, opts)
		if !r.cal.Broken {
			if stateDir == "" {
				return r.cal, nil
			}
			return r.cal, keepGood(copyAt, data, info.ModTime(), opts.Now)
		}
	} else {
		r = read(path, []byte("{}"), zone, opts)
		if errors.Is(err, fs.ErrNotExist) && isDir(filepath.Dir(path)) {
			return r.cal, nil
		}
		message := "the bookings cannot be read: " + reason(err)
		r.broken("booking:unreadable", snapshot.Text(message, snapshot.MaxTextBytes))
		r.cal.Problems[0].Line, r.cal.Problems[0].Col = 0, 0
	}
	if stateDir == "" {
		return r.cal, nil
	}
	good, goodInfo, err := readRegular(copyAt)
	if err != nil {
		return r.cal, nil // there is none: what could be read has to do
	}
	r.standIn(read(path, good, zone, opts), goodInfo.ModTime())
	return r.cal, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// reason is an error without the path, which the problem names already.
func reason(err error) string {
	var pathError *fs.PathError
	switch {
	case errors.As(err, &pathError):
		return pathError.Err.Error()
	case errors.Is(err, atomicfile.ErrNotRegular):
		return "there is something other than a regular file"
	}
	return err.Error()
}

// keepGood keeps the content with the time of this reading as its own.
func keepGood(path string, data []byte, modified, now time.Time) error {
	changed, err := atomicfile.Write(path, data, 0o600)
	if err != nil {
		return fmt.Errorf("keeping the last good bookings: %w", err)
	}
	at := now
	if at.IsZero() {
		at = modified
	}
	if info, err := os.Stat(path); changed || err == nil && info.ModTime().Before(at) {
		if err := os.Chtimes(path, at, at); err != nil {
			return fmt.Errorf("keeping the last good bookings: %w", err)
		}
	}
	return nil
}

// standIn brings in bookings of the last good reading for what could not be
// read of this one: the targets and hosts with damage in them, and, when whole
// hosts may be missing, those that are not there.
func (r *reading) standIn(good *reading, at time.Time) {
	have, ids := map[Booking]bool{}, map[string]bool{}
	for _, b := range r.cal.Bookings {
		have[b.content()], ids[b.ID] = true, true
	}
	var brought []Booking
	for _, b := range good.cal.Bookings {
		s := slot{b.Host, b.Target}
		_, host := r.hosts[b.Host]
		_, place := r.slots[s]
		unsure := r.badSlots[s] || !place && (r.badHosts[b.Host] || r.lost && !host)
		if !unsure || have[b.content()] || ids[b.ID] {
			continue
		}
		b.Line, b.Col = 0, 0 // places in a file that is not there any more
		brought = append(brought, b)
	}
	if len(brought) == 0 && !r.lost {
		return
	}
	r.cal.LastGood = at
	r.cal.Bookings = append(r.cal.Bookings, brought...)
	slices.SortStableFunc(r.cal.Bookings, compareBookings)
}
