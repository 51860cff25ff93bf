package serve

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"gpuboard/internal/booking"
)

// A refusal is why nothing was saved, for the form to say: words under a key of
// the word list, and what is known beyond them.
type refusal struct {
	status  int
	say     string // "book.say."+say
	detail  string // in English, from the rooms that know
	field   string // of the form, that it is about
	clashes []booking.Booking
}

func (r *refusal) Error() string { return r.say + " " + r.detail }

// A changer makes changes to the bookings in the name of one person.
type changer struct {
	me      string // canonical
	now     time.Time
	zone    *time.Location // that people mean
	in      booking.Zone   // of the file
	aliases booking.Aliases
	fleet   *fleet
	limits  booking.Limits
}

func (c *changer) read(data []byte) *booking.Calendar {
	return booking.Parse("comments.json", data, c.in.Location, booking.Options{Aliases: c.aliases, Now: c.now})
}

// mine reports whether a person may change a booking: it is theirs, or they
// made it for somebody else.
func mine(me string, b booking.Booking, aliases booking.Aliases) bool {
	return strings.EqualFold(b.Name, me) || b.By != "" && strings.EqualFold(aliases.Canonical(b.By), me)
}

// book adds a booking, unless somebody is in the way. A zero From is now.
func (c *changer) book(data []byte, want booking.Booking) ([]byte, error) {
	cal := c.read(data)
	if want.From.Before(c.now) {
		want.From = c.begin(cal, want)
	}
	if clashes := booking.Conflicts(cal, want, c.fleet.resolve); len(clashes) > 0 {
		return nil, &refusal{status: http.StatusConflict, say: "conflict", clashes: clashes}
	}
	// The same twice is a form that was sent twice.
	other := want
	other.Name = want.Name + "\x00"
	for _, b := range booking.Conflicts(cal, other, c.fleet.resolve) {
		return nil, &refusal{status: http.StatusConflict, say: "already", clashes: []booking.Booking{b}}
	}
	if err := c.limits.Check(cal, []booking.Booking{want}, c.now, c.fleet.gpus); err != nil {
		return nil, &refusal{status: http.StatusUnprocessableEntity, say: "limit", detail: err.Error(), field: "until"}
	}
	next, _, err := booking.Add(data, c.in, want)
	return next, err
}

// begin is now, in whole minutes, because the file is for people; to the second
// where somebody has let go of the GPU within this minute.
func (c *changer) begin(cal *booking.Calendar, want booking.Booking) time.Time {
	want.Name, want.From = want.Name+"\x00", c.now.Truncate(time.Minute)
	if len(booking.Conflicts(cal, want, c.fleet.resolve)) > 0 {
		return c.now.Truncate(time.Second)
	}
	return want.From
}

// find looks for a booking of the person's among those of a target.
func (c *changer) find(cal *booking.Calendar, id string) (booking.Booking, error) {
	for _, b := range cal.Bookings {
		switch {
		case b.ID != id:
		case !mine(c.me, b, c.aliases):
			return b, &refusal{status: http.StatusForbidden, say: "not-yours", clashes: []booking.Booking{b}}
		default:
			return b, nil
		}
	}
	return booking.Booking{}, &refusal{status: http.StatusConflict, say: "gone"}
}

// extend moves the end of a booking. A length of time counts from its present end.
func (c *changer) extend(data []byte, id, until string) ([]byte, error) {
	cal := c.read(data)
	b, err := c.find(cal, id)
	if err != nil {
		return nil, err
	}
	from := b.From
	if _, err := booking.ParseDuration(until); err == nil {
		from = b.Until
	}
	if from.Before(c.now) {
		from = c.now.Truncate(time.Minute)
	}
	end, _, err := booking.ParseUntil(until, from, c.now, c.zone)
	if err != nil {
		return nil, &refusal{status: http.StatusUnprocessableEntity, say: "time", detail: err.Error(), field: "end"}
	}
	want := b
	want.Until = end
	if want.From.Before(c.now) {
		want.From = c.now
	}
	// What it has already is not asked for anew, even where others booked over it.
	if end.After(b.Until) && !b.Until.IsZero() {
		more := want
		if b.Until.After(more.From) {
			more.From = b.Until
		}
		if clashes := booking.Conflicts(cal, more, c.fleet.resolve); len(clashes) > 0 {
			return nil, &refusal{status: http.StatusConflict, say: "conflict", clashes: clashes}
		}
		if err := c.limits.Check(cal, []booking.Booking{want}, c.now, c.fleet.gpus); err != nil {
			return nil, &refusal{status: http.StatusUnprocessableEntity, say: "limit", detail: err.Error(), field: "end"}
		}
	}
	next, _, err := booking.Extend(data, c.in, id, end, c.now)
	return next, err
}

// release ends a booking now, or takes out one that has not begun.
func (c *changer) release(data []byte, id string) ([]byte, error) {
	cal := c.read(data)
	if _, err := c.find(cal, id); err != nil {
		return nil, err
	}
	next, _, err := booking.Release(data, c.in, id, c.now)
	return next, err
}

// refused turns the errors of a change into what the form says. What is not
// anybody's doing is not a refusal, and stays as it is.
func refused(err error) (*refusal, bool) {
	var r *refusal
	var encoding *booking.EncodingError
	switch {
	case errors.As(err, &r):
	case errors.Is(err, booking.ErrBroken):
		r = &refusal{status: http.StatusConflict, say: "broken", detail: mistake(err)}
	case errors.Is(err, booking.ErrNotFound):
		r = &refusal{status: http.StatusConflict, say: "gone"}
	case errors.Is(err, booking.ErrOver):
		r = &refusal{status: http.StatusConflict, say: "over"}
	case errors.Is(err, booking.ErrInvalid):
		r = &refusal{status: http.StatusUnprocessableEntity, say: "invalid", detail: err.Error()}
	case errors.As(err, &encoding):
		r = &refusal{status: http.StatusUnprocessableEntity, say: "invalid", detail: err.Error(), field: "comment"}
	case errors.Is(err, booking.ErrLocked), errors.Is(err, booking.ErrChanged):
		r = &refusal{status: http.StatusServiceUnavailable, say: "busy", detail: err.Error()}
	default:
		return nil, false
	}
	return r, true
}

// mistakeIn is the first thing that keeps bookings from being changed.
func mistakeIn(cal *booking.Calendar) string {
	for _, p := range cal.Problems {
		switch p.Code {
		case "booking:syntax", "booking:encoding", "booking:emptied", "booking:unreadable", "booking:toolarge":
			if where := p.Where(); p.Line > 0 {
				return where + ": " + p.Message
			}
			return p.Message
		}
	}
	return ""
}

// mistake is what ErrBroken says beyond itself: where the mistake is.
func mistake(err error) string {
	_, where, found := strings.Cut(err.Error(), booking.ErrBroken.Error()+": ")
	if !found {
		return err.Error()
	}
	return where
}
