package booking

import (
	"fmt"
	"strings"
	"time"
)

// overlaps reports bookings of different people for the same GPU at the same
// time. One that was forced knows about it, and maintenance may lie over
// anything. What a UUID and an index have in common is [Check]'s business.
func (r *reading) overlaps() {
	type pair struct{ a, b *Booking }
	reported := map[pair]bool{}
	var whole []*Booking // of the present host
	bookings := r.cal.Bookings
	for start := 0; start < len(bookings); {
		end := start + 1
		for end < len(bookings) && bookings[end].Host == bookings[start].Host && bookings[end].Target == bookings[start].Target {
			end++
		}
		if start == 0 || bookings[start-1].Host != bookings[start].Host {
			whole = nil
		}
		var list []*Booking
		for i := start; i < end; i++ {
			if b := &bookings[i]; b.Kind == Reserved && (r.opts.Now.IsZero() || !b.OverAt(r.opts.Now)) {
				list = append(list, b)
			}
		}
		sweep(mergeByStart(whole, list), func(a, b *Booking) {
			if reported[pair{a, b}] {
				return
			}
			reported[pair{a, b}] = true
			if b.Line < a.Line || b.Line == a.Line && b.Col < a.Col {
				a, b = b, a
			}
			r.hostProblem("booking:overlap", r.entryOf(b), slot{b.Host, b.Target},
				fmt.Sprintf("%s is booked here by %s and in line %d by %s for the same time%s: the two have to agree",
					thing(b.Host, b.Target, a.Target), quote(b.Written), a.Line, quote(a.Written), r.common(a, b)))
		})
		if bookings[start].Target.All {
			whole = list
		}
		start = end
	}
}

func (r *reading) entryOf(b *Booking) *node {
	return r.found[r.ids[b.ID]].entry
}

func thing(host string, targets ...Target) string {
	for _, t := range targets {
		switch {
		case t.UUID != "":
			return "the GPU " + t.UUID + " of " + host
		case !t.All:
			return "GPU " + itoa(t.Index) + " of " + host
		}
	}
	return "the host " + host
}

// common says which stretch of time two bookings share.
func (r *reading) common(a, b *Booking) string {
	from := a.From
	if b.From.After(from) {
		from = b.From
	}
	until := a.Until
	if until.IsZero() || !b.Until.IsZero() && b.Until.Before(until) {
		until = b.Until
	}
	const layout = "2006-01-02 15:04"
	out := ""
	if !from.IsZero() {
		out += " from " + from.In(r.zone).Format(layout)
	}
	if !until.IsZero() {
		out += " until " + until.In(r.zone).Format(layout)
	}
	return out
}

func mergeByStart(a, b []*Booking) []*Booking {
	out := make([]*Booking, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if b[0].From.Before(a[0].From) {
			out, b = append(out, b[0]), b[1:]
		} else {
			out, a = append(out, a[0]), a[1:]
		}
	}
	return append(append(out, a...), b...)
}

// sweep goes through bookings in order of start and reports each that begins
// while one of somebody else is in force. It remembers only the latest end of
// two different people, so that a hostile file costs no more than a long one.
func sweep(list []*Booking, report func(earlier, later *Booking)) {
	var top, second *Booking            // the latest end, and the latest of anybody else
	later := func(a, b *Booking) bool { // a ends after b
		return b == nil || !b.Until.IsZero() && (a.Until.IsZero() || a.Until.After(b.Until))
	}
	running := func(b *Booking, at time.Time) bool { return b != nil && !b.OverAt(at) }
	for _, b := range list {
		for _, other := range []*Booking{top, second} {
			if other != nil && !samePerson(*other, *b) && running(other, b.From) && !b.Forced && !other.Forced {
				report(other, b)
				break
			}
		}
		switch {
		case top == nil || samePerson(*top, *b):
			if later(b, top) {
				top = b
			}
		case later(b, top):
			top, second = b, top
		case later(b, second):
			second = b
		}
	}
}

func samePerson(a, b Booking) bool { return strings.EqualFold(a.Name, b.Name) }
