package booking

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
// is no problem: nobody has booked anything. A directory that does not exist is,
// and so is a file that a program took away, to change it, and died: what it
// held counts as long as nothing stands at its name.
//
// The calendar is never nil. The error is only about keeping the copy.
func Load(path, stateDir string, zone *time.Location, opts Options) (*Calendar, error) {
	return new(Loader).Load(path, stateDir, zone, opts)
}

// A Loader loads the same file again and again, and parses it when something in
// it may have become different. The zero value is ready. Calendars that it
// returned share their bookings: they are to be read only.
type Loader struct {
	last *reading // well-formed; nil for none
	data []byte   // that it is of
}

// Load is the function of this name.
func (l *Loader) Load(path, stateDir string, zone *time.Location, opts Options) (*Calendar, error) {
	data, info, from, err := readStanding(path)
	copyAt := filepath.Join(stateDir, LastGoodName)
	var r *reading
	if err == nil {
		r = l.read(path, data, zone, opts)
		r.besides(path, from)
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

// read is a reading that has become the caller's as far as its list of problems.
func (l *Loader) read(path string, data []byte, zone *time.Location, opts Options) *reading {
	if l.last == nil || !bytes.Equal(data, l.data) || !l.last.holds(path, zone, opts) {
		l.last, l.data = nil, nil
		r := read(path, data, zone, opts)
		if r.cal.Broken {
			return r
		}
		l.last, l.data = &reading{name: r.name, zone: r.zone, opts: opts, cal: r.cal}, data
	}
	cal := *l.last.cal
	cal.Problems = slices.Clip(cal.Problems)
	return &reading{name: l.last.name, cal: &cal}
}

// holds reports whether the same bytes read now would come out the same. What is
// over by then is the only thing that the clock changes.
func (r *reading) holds(path string, zone *time.Location, opts Options) bool {
	if zone == nil {
		zone = time.UTC
	}
	if r.name != filepath.Base(path) || r.zone != zone || !maps.Equal(r.opts.Aliases, opts.Aliases) ||
		r.opts.Now.IsZero() != opts.Now.IsZero() || opts.Now.Before(r.opts.Now) {
		return false
	}
	return !slices.ContainsFunc(r.cal.Bookings, func(b Booking) bool {
		return b.Until.After(r.opts.Now) && !b.Until.After(opts.Now)
	})
}

// readStanding reads the file, or what was taken away from its name; from is
// where that lies.
func readStanding(path string) (data []byte, info fs.FileInfo, from string, err error) {
	path = behindLinks(path)
	data, info, from, err = NewKeeper(&localDir{dir: filepath.Dir(path), swap: swap}, filepath.Base(path)).standing(context.Background())
	if err == nil && data == nil {
		err = fmt.Errorf("reading %s: %w", path, fs.ErrNotExist)
	}
	return data, info, from, err
}

// ReadStanding reads comments.json at path as Load does. From is "", or the name
// of the file in the same directory that what it holds was taken away to by a
// program that died.
func ReadStanding(path string) (data []byte, from string, err error) {
	data, _, from, err = readStanding(path)
	return data, from, err
}

// besides names the files beside this one that somebody has to look at: from,
// if that is not empty, and what two people saved at the same moment.
func (r *reading) besides(path, from string) {
	if from != "" {
		r.cal.Problems = append(r.cal.Problems, snapshot.Problem{Code: "booking:taken", File: r.name, Message: snapshot.Text(
			"a program died while it changed the file: what it held is in "+from+" and counts; the next booking puts it back", snapshot.MaxTextBytes)})
	}
	for _, name := range Saved(path) {
		r.cal.Problems = append(r.cal.Problems, SavedProblem(r.name, name))
	}
}

// SavedProblem is what there is to say about one of the files of [Saved], beside
// the bookings at path.
func SavedProblem(path, saved string) snapshot.Problem {
	return snapshot.Problem{Code: "booking:saved", File: filepath.Base(path), Message: snapshot.Text(
		"somebody saved the file while another change was made, and that is in "+saved+": bring over what is missing, and remove it", snapshot.MaxTextBytes)}
}

// Saved lists what somebody has to look at beside the bookings, because it was
// saved and could not stand beside something else: the names of files in the
// same directory.
func Saved(path string) []string {
	path = behindLinks(path)
	var saved []string
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil // said where the directory is needed
	}
	base := filepath.Base(path)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), base+savedMark) {
			saved = append(saved, e.Name())
		}
		if was, ok := previousOf(base, e.Name()); ok {
			data, _, err := readRegular(filepath.Join(filepath.Dir(path), e.Name()))
			if err == nil && fingerprint(data) != was {
				saved = append(saved, e.Name())
			}
		}
	}
	return saved
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
