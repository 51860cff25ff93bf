package booking

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"gpuboard/internal/snapshot"
)

// The errors of the editing functions, for [errors.Is].
var (
	ErrBroken   = errors.New("the bookings cannot be changed while the file has an error")
	ErrNotFound = errors.New("there is no such booking")
	ErrOver     = errors.New("the booking is over")
	ErrInvalid  = errors.New("the booking is not valid")
	errReadBack = fmt.Errorf("%w: it does not read back from the file", ErrInvalid)
)

const header = `// Who has reserved which GPU. Change this file with "gpuboard book" and
// "gpuboard release", or by hand: per host a list (first GPU first) or a
// dictionary by GPU index, GPU UUID or "*" for the whole host. An entry is
// { "name": "...", "date": "2026-11-20 18:00", "comment": "..." }, booked until
// that date. Comments like this one are kept.
`

// A Zone is the zone of the times in comments.json. All readers of the file use it.
type Zone struct {
	*time.Location // nil: UTC
	// Offsets adds its offset to each time that is written, for programs that do not
	// know the zone of the file.
	Offsets bool
	// DayStarts ends a booking by date alone when that day begins, as the older GPU Monitor's
	// page did.
	DayStarts bool
}

// Add writes bookings into the file, which may be empty. It returns the new content and
// the bookings as they read there. Everything else keeps its bytes, encoding and line
// ends included. Line, Col and Written are ignored. Conflicts are not looked for; see
// [Conflicts].
func Add(data []byte, zone Zone, bookings ...Booking) ([]byte, []Booking, error) {
	r, err := editable(data, zone)
	out := make([]Booking, 0, len(bookings))
	for _, b := range bookings {
		if err == nil {
			data, r, b, err = r.addOne(b)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("adding a booking: %w", err)
		}
		out = append(out, b)
	}
	return data, out, nil
}

// addOne returns the new content, how it reads, and the booking in it.
func (r *reading) addOne(b Booking) ([]byte, *reading, Booking, error) {
	fail := func(err error) ([]byte, *reading, Booking, error) { return nil, nil, b, err }
	if err := valid(&b); err != nil {
		return fail(err)
	}
	if _, taken := r.ids[b.ID]; taken && b.ID != "" {
		return fail(fmt.Errorf("%w: the id %s is taken", ErrInvalid, quote(b.ID)))
	}
	if b.ID == "" {
		written := b
		written.Written = b.Name
		b.ID = r.newID(written)
	}
	if err := r.add(b); err != nil {
		return fail(err)
	}
	next, after, err := r.pack()
	if err != nil {
		return fail(err)
	}
	added, removed := difference(r.cal.Bookings, after.cal.Bookings)
	if len(added) != 1 || len(removed) != 0 {
		return fail(errReadBack)
	}
	return next, after, added[0], nil
}

// difference returns the bookings that a change added and removed; of equal ones the last.
func difference(before, after []Booking) (added, removed []Booking) {
	count := map[Booking]int{}
	for _, b := range before {
		count[b.content()]++
	}
	for _, b := range after {
		if k := b.content(); count[k] > 0 {
			count[k]--
		} else {
			added = append(added, b)
		}
	}
	for _, b := range slices.Backward(before) {
		if k := b.content(); count[k] > 0 {
			count[k]--
			removed = append(removed, b)
		}
	}
	slices.Reverse(removed)
	return added, removed
}

func overError(b Booking, zone *time.Location) error {
	return fmt.Errorf("%w: it ended %s", ErrOver, b.Until.In(zone).Format("Mon 2 Jan 2006 15:04 MST"))
}

// content is the booking without the fields that change when other entries do.
func (b Booking) content() Booking {
	b.Line, b.Col, b.ID, b.shared = 0, 0, "", ""
	b.From, b.Until = b.From.UTC(), b.Until.UTC()
	return b
}

// valid checks a booking before it is written, and makes its texts safe.
func valid(b *Booking) error {
	host, err := snapshot.ParseHost(b.Host)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	b.Host = host
	b.Kind = cmp.Or(b.Kind, Reserved)
	t := b.Target
	if !t.All && t.UUID == "" && (t.Index < 0 || t.Index >= snapshot.MaxGPUs) || t.UUID != "" && !isUUID(t.UUID) {
		return fmt.Errorf("%w: %s names no GPU", ErrInvalid, quote(t.String()))
	}
	if b.Name = strings.TrimSpace(b.Name); b.Name == "" && b.Kind == Reserved {
		return fmt.Errorf("%w: it has no name", ErrInvalid)
	}
	for _, f := range []struct {
		what  string
		text  *string
		limit int
	}{{"name", &b.Name, MaxNameBytes}, {"comment", &b.Comment, MaxCommentBytes}, {"by", &b.By, MaxNameBytes}, {"id",
		&b.ID, MaxIDBytes}} {
		*f.text = snapshot.Text(strings.TrimSpace(*f.text), 6*len(*f.text)+16)
		if len(*f.text) > f.limit {
			return fmt.Errorf("%w: its %s is %d bytes long; the limit is %d", ErrInvalid, f.what, len(*f.text), f.limit)
		}
	}
	b.From, b.Until = b.From.Truncate(time.Second), b.Until.Truncate(time.Second)
	for _, t := range []time.Time{b.From, b.Until} {
		if !t.IsZero() && (t.UTC().Year() <= MinYear || t.UTC().Year() >= MaxYear) {
			return fmt.Errorf("%w: the year %d is out of range", ErrInvalid, t.Year())
		}
	}
	if !b.Until.IsZero() && !b.Until.After(b.From) {
		return fmt.Errorf("%w: it ends before it begins", ErrInvalid)
	}
	return nil
}

// Extend moves the end of the booking with this ID; a zero until means open-ended. It
// returns the new content of the file and the booking as it reads there, with its ID. The error
// for a booking that was over at now is [ErrOver].
func Extend(data []byte, zone Zone, id string, until, now time.Time) ([]byte, Booking, error) {
	return changeEnd(data, zone, id, until, now, "extending")
}

// Release ends the booking with this ID at a time. A booking that has begun keeps its
// entry, with the new end. One that has not begun, or cannot be read, is removed, and returned as
// it was. The error for one that is over is [ErrOver].
func Release(data []byte, zone Zone, id string, at time.Time) ([]byte, Booking, error) {
	r, f, err := lookup(data, zone, id)
	if err != nil {
		return nil, Booking{}, fmt.Errorf("releasing %s: %w", quote(id), err)
	}
	at = at.Truncate(time.Second)
	if f.Name != Unreadable && (f.From.IsZero() || f.From.Before(at)) {
		return changeEnd(data, zone, id, at, at, "releasing")
	}
	r.remove(map[*hujson.Value]bool{f.entry: true})
	next, _, err := r.pack()
	if err != nil {
		return nil, Booking{}, fmt.Errorf("releasing %s: %w", quote(id), err)
	}
	return next, f.Booking, nil
}

func changeEnd(data []byte, zone Zone, id string, until, now time.Time, doing string) ([]byte, Booking, error) {
	fail := func(err error) ([]byte, Booking, error) {
		return nil, Booking{}, fmt.Errorf("%s %s: %w", doing, quote(id), err)
	}
	r, f, err := lookup(data, zone, id)
	if err != nil {
		return fail(err)
	}
	switch {
	case f.OverAt(now):
		return fail(overError(f.Booking, r.zone.Location))
	case f.Name == Unreadable:
		return fail(fmt.Errorf("%w: correct line %d, column %d of the file first", ErrInvalid, f.Line, f.Col))
	}
	want := f.Booking
	want.Until = until
	if err := valid(&want); err != nil {
		return fail(err)
	}
	r.set(f.entry, "date", r.stamp(want.Until, true))
	r.set(f.entry, "id", f.ID)
	next, after, err := r.pack()
	if err != nil {
		return fail(err)
	}
	for _, b := range after.cal.Bookings {
		if b.ID == f.ID && b.Until.Equal(want.Until) {
			return next, b, nil
		}
	}
	return fail(errReadBack)
}

// prune removes the bookings that ended before a time. The GPUs in lists keep their indices.
func prune(data []byte, zone Zone, before time.Time) ([]byte, []Booking, error) {
	r, err := editable(data, zone)
	if err != nil {
		return nil, nil, fmt.Errorf("pruning bookings: %w", err)
	}
	var old []Booking
	gone := map[*hujson.Value]bool{}
	for _, f := range r.found {
		if !f.Until.IsZero() && f.Until.Before(before) {
			old = append(old, f.Booking)
			gone[f.entry] = true
		}
	}
	if len(old) == 0 {
		return data, nil, nil
	}
	r.remove(gone)
	next, _, err := r.pack()
	if err != nil {
		return nil, nil, fmt.Errorf("pruning bookings: %w", err)
	}
	return next, old, nil
}

// editable reads a file for a change. One with an error of syntax is refused.
func editable(data []byte, zone Zone) (*reading, error) {
	r := read("comments.json", data, zone, Options{})
	if r.blank() {
		before := r.doc.text
		after := "{\n}\n"
		if strings.TrimSpace(before) == "" {
			after = header + after
		}
		if before != "" && !strings.HasSuffix(before, "\n") {
			after = "\n" + after
		}
		if strings.Contains(before, "\r\n") {
			after = strings.ReplaceAll(after, "\n", "\r\n")
		}
		r = read(r.cal.File, append(bytes.Clone(data), after...), r.zone, r.opts)
	}
	return r, r.cal.changeable()
}

// changeable returns an error that wraps [ErrBroken] for a broken file.
func (c *Calendar) changeable() error {
	if c.Broken {
		return fmt.Errorf("%w: %s", ErrBroken, c.Mistake())
	}
	return nil
}

func lookup(data []byte, zone Zone, id string) (*reading, *found, error) {
	r, err := editable(data, zone)
	if err != nil {
		return nil, nil, err
	}
	named := r.cal.Named(id)
	if len(named) == 0 {
		return nil, nil, ErrNotFound
	}
	f := r.found[r.ids[named[0].ID]]
	var all []Booking // those of the entry, whose key may be for several GPUs
	for _, other := range r.found {
		if other.entry == f.entry {
			all = append(all, other.Booking)
		}
	}
	if len(all) == 1 {
		return r, f, nil
	}
	r.remove(map[*hujson.Value]bool{f.entry: true})
	if data, _, err = r.pack(); err == nil {
		data, _, err = Add(data, zone, all...)
	}
	if err != nil {
		return nil, nil, err
	}
	return lookup(data, zone, f.ID)
}

// pack returns the changed file and how it reads, and checks that it is well-formed.
func (r *reading) pack() ([]byte, *reading, error) {
	out, err := r.doc.pack()
	if err != nil {
		return nil, nil, err
	}
	if len(out) > MaxFileBytes {
		return nil, nil, fmt.Errorf("%w: the file would grow beyond %d KiB: prune old bookings first", ErrInvalid,
			MaxFileBytes>>10)
	}
	after := read(r.cal.File, out, r.zone, r.opts)
	if after.cal.Broken {
		return nil, nil, fmt.Errorf("checking the changed file: %s", after.cal.Mistake())
	}
	return out, after, nil
}
