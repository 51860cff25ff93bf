package booking

import (
	"slices"
	"strconv"
	"strings"
)

// overlaps reports bookings of different people for the same GPU at the same time.
// Forced bookings, maintenance, what cannot be read and bookings that are over at Options.Now
// are left out. A UUID and an index are compared by [Check].
func (r *reading) overlaps() {
	var list []*Booking
	for i := range r.cal.Bookings {
		if b := &r.cal.Bookings[i]; b.Kind == Reserved && b.Name != Unreadable && !b.Forced &&
			(r.opts.Now.IsZero() || !b.OverAt(r.opts.Now)) {
			list = append(list, b)
		}
	}
	slices.SortStableFunc(list, func(a, b *Booking) int { return a.From.Compare(b.From) })
	begun := map[slot]*latest{}
	of := func(host string, target Target) *latest {
		s := slot{host, target}
		if begun[s] == nil {
			begun[s] = &latest{}
		}
		return begun[s]
	}
	for _, b := range list {
		own, any := of(b.Host, b.Target), of(b.Host, Target{Index: -1})
		with := []*latest{own, of(b.Host, Target{All: true, Index: -1})}
		if b.Target.All {
			with = []*latest{any}
		}
		for _, l := range with {
			if other := l.overlapping(b); other != nil {
				r.overlap(other, b)
			}
		}
		own.add(b)
		any.add(b)
	}
}

// A latest has the booking that ends last, and the last of other people, so a long file costs no more.
type latest struct{ top, other *Booking }

// overlapping returns a booking of somebody else that is in force when b begins.
func (l *latest) overlapping(b *Booking) *Booking {
	for _, have := range []*Booking{l.top, l.other} {
		if have != nil && !samePerson(*have, *b) && !have.OverAt(b.From) {
			return have
		}
	}
	return nil
}

func (l *latest) add(b *Booking) {
	switch {
	case l.top == nil:
		l.top = b
	case samePerson(*l.top, *b):
		if endsLater(b, l.top) {
			l.top = b
		}
	case endsLater(b, l.top):
		l.top, l.other = b, l.top
	case l.other == nil || endsLater(b, l.other):
		l.other = b
	}
}

// endsLater reports whether a ends after b.
func endsLater(a, b *Booking) bool {
	return !b.Until.IsZero() && (a.Until.IsZero() || a.Until.After(b.Until))
}

// overlap reports two bookings at the one that stands later in the file.
func (r *reading) overlap(a, b *Booking) {
	if r.more {
		return // its message would not be kept
	}
	if b.Line < a.Line || b.Line == a.Line && b.Col < a.Col {
		a, b = b, a
	}
	r.hostProblem("booking:overlap", r.found[r.ids[b.ID]].entry, slot{b.Host, b.Target},
		"%s is booked here by %s and in line %d by %s for the same time%s: the two have to agree",
		thing(b.Host, b.Target, a.Target), quote(b.Written), a.Line, quote(a.Written), r.common(a, b))
}

func thing(host string, targets ...Target) string {
	for _, t := range targets {
		switch {
		case t.UUID != "":
			return "the GPU " + t.UUID + " of " + host
		case !t.All:
			return "GPU " + strconv.Itoa(t.Index) + " of " + host
		}
	}
	return "the host " + host
}

// common says which stretch of time two bookings share.
func (r *reading) common(a, b *Booking) string {
	from, until := later(a.From, b.From), a.Until
	if endsLater(a, b) {
		until = b.Until
	}
	const layout = "2006-01-02 15:04"
	out := ""
	if !from.IsZero() {
		out += " from " + from.In(r.zone.Location).Format(layout)
	}
	if !until.IsZero() {
		out += " until " + until.In(r.zone.Location).Format(layout)
	}
	return out
}

func samePerson(a, b Booking) bool { return strings.EqualFold(a.Name, b.Name) }
