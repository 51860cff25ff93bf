package booking

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Resolver tells the index that the GPU of a booking has now, as the board
// knows it: so bookings by UUID and by index can be compared, and one by index
// stays with its card when the numbers change. For a booking of a MIG slice it is
// that of the slice's GPU. It may be nil.
type Resolver func(b Booking) (index int, ok bool)

// Conflicts returns the bookings that stand in the way of a wanted one: those
// of other people, and any maintenance, that share a GPU and a stretch of time
// with it. An entry with the wanted one's ID is itself, and no conflict. A
// wanted booking that begins now has to say so in From, or those that are over
// stand in its way too.
func Conflicts(cal *Calendar, wanted Booking, resolve Resolver) []Booking {
	var found []Booking
	for _, b := range cal.Bookings {
		if b.Host != wanted.Host || b.ID == wanted.ID && wanted.ID != "" {
			continue
		}
		if b.Kind == Reserved && samePerson(b, wanted) {
			continue
		}
		if sameGPU(b, wanted, resolve) && sameTime(b, wanted) {
			found = append(found, b)
		}
	}
	slices.SortStableFunc(found, func(a, b Booking) int { return a.From.Compare(b.From) })
	return found
}

func sameGPU(a, b Booking, resolve Resolver) bool {
	if a.Target.All || b.Target.All || a.Target.UUID != "" && a.Target.UUID == b.Target.UUID {
		return true
	}
	if a.Target.slice() && b.Target.slice() {
		return false // two slices, of one GPU or not
	}
	index := func(x Booking) int {
		if resolve != nil {
			if i, ok := resolve(x); ok {
				return i
			}
		}
		return x.Target.Index // -1 for a UUID
	}
	i := index(a)
	return i >= 0 && i == index(b)
}

func sameTime(a, b Booking) bool {
	return (a.Until.IsZero() || a.Until.After(b.From)) && (b.Until.IsZero() || b.Until.After(a.From))
}

// Limits are what one person may book. A zero value is no limit.
type Limits struct {
	MaxGPUs     int           // booked at the same time, over all hosts
	MaxDuration time.Duration // of one booking; open-ended ones are then refused
	MaxAhead    time.Duration // from now until a booking begins
}

// Check returns an error that says which limit the wanted bookings break, given
// those that stand. They are made together by one person. gpus tells how many a
// host has, for bookings of whole hosts; it may be nil, and each counts as one then.
// Limits are not for maintenance.
func (l Limits) Check(cal *Calendar, wanted []Booking, now time.Time, gpus func(host string) int) error {
	for _, w := range wanted {
		from := w.From
		if from.Before(now) {
			from = now
		}
		switch {
		case w.Kind == Maintenance:
			continue
		case l.MaxDuration > 0 && w.Until.IsZero():
			return fmt.Errorf("a booking without an end is not allowed here: it may last %s at most", Length(l.MaxDuration))
		case l.MaxDuration > 0 && calendarLonger(from, w.Until, l.MaxDuration):
			return fmt.Errorf("the booking would last %s, and %s is the most allowed", Length(w.Until.Sub(from)), Length(l.MaxDuration))
		case l.MaxAhead > 0 && from.Sub(now) > l.MaxAhead:
			return fmt.Errorf("the booking would begin in %s, and %s ahead is the most allowed", Length(from.Sub(now)), Length(l.MaxAhead))
		}
	}
	if l.MaxGPUs <= 0 {
		return nil
	}
	for _, w := range wanted {
		if w.Kind == Maintenance {
			continue
		}
		if n := mostAtOnce(cal, wanted, w, now, gpus); n > l.MaxGPUs {
			return fmt.Errorf("%s would hold %d GPUs at the same time, and %d is the most allowed", quote(w.Name), n, l.MaxGPUs)
		}
	}
	return nil
}

// calendarLonger allows for the hour that a change of clocks adds.
func calendarLonger(from, until time.Time, most time.Duration) bool {
	days := int(most / (24 * time.Hour))
	rest := most % (24 * time.Hour)
	return until.Sub(from) > most && until.After(from.AddDate(0, 0, days).Add(rest))
}

// mostAtOnce is the largest number of GPUs that the person of w holds at any
// moment of w, standing and wanted bookings together.
func mostAtOnce(cal *Calendar, wanted []Booking, w Booking, now time.Time, gpus func(host string) int) int {
	type change struct {
		at time.Time
		n  int
	}
	var changes []change
	seen := map[string]bool{}
	for _, list := range [][]Booking{wanted, cal.Bookings} {
		for _, b := range list {
			if b.Kind == Maintenance || !samePerson(b, w) || !sameTime(b, w) || !b.Until.IsZero() && !b.Until.After(now) || b.ID != "" && seen[b.ID] {
				continue
			}
			seen[b.ID] = b.ID != ""
			n := 1
			if b.Target.All && gpus != nil {
				n = max(1, gpus(b.Host))
			}
			changes = append(changes, change{b.From, n})
			if !b.Until.IsZero() {
				changes = append(changes, change{b.Until, -n})
			}
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.n, b.n)) })
	held, most := 0, 0
	for _, c := range changes {
		// Whatever shares time with w and begins before it is in force when w
		// begins, so that no larger sum can lie outside of w.
		held += c.n
		most = max(most, held)
	}
	return most
}
