package booking

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Conflicts returns the bookings of everybody that share a GPU and a period with a wanted one, in
// order of start. The booking with the wanted one's ID is left out. A booking from now
// on needs From: without it, bookings that are over conflict as well.
func Conflicts(cal *Calendar, wanted Booking, fleet Fleet) []Booking {
	var found []Booking
	for _, b := range cal.Bookings {
		other := b.Host == wanted.Host && (b.ID != wanted.ID || wanted.ID == "")
		if other && sameGPU(b, wanted, fleet) && sameTime(b, wanted) {
			found = append(found, b)
		}
	}
	slices.SortStableFunc(found, func(a, b Booking) int { return a.From.Compare(b.From) })
	return found
}

// Others are the conflicts with a wanted booking that are not the person's own: those of other people, and any
// maintenance.
func Others(conflicts []Booking, wanted Booking) []Booking {
	return selected(conflicts, func(b Booking) bool { return b.Kind != Reserved || !samePerson(b, wanted) })
}

// sameGPU reports whether two bookings of one host have a GPU in common.
func sameGPU(a, b Booking, fleet Fleet) bool {
	if a.Target.All || b.Target.All || a.Target.UUID != "" && a.Target.UUID == b.Target.UUID {
		return true
	}
	if a.Target.slice() && b.Target.slice() {
		return false // two different slices
	}
	i, known := fleet.Index(a)
	j, alsoKnown := fleet.Index(b)
	return known && alsoKnown && i == j
}

func sameTime(a, b Booking) bool { return !a.OverAt(b.From) && !b.OverAt(a.From) }

// Limits are what one person may book. A zero value is no limit.
type Limits struct {
	MaxGPUs     int           // booked at the same time, over all hosts
	MaxDuration time.Duration // of one booking; open-ended ones are then refused
	MaxAhead    time.Duration // from now until a booking begins
}

// Check returns an error that says which limit the wanted bookings of one person
// exceed, together with the existing ones. A booking of a whole host counts as all GPUs
// that the fleet has for it, or as one if their number is not known. Limits do not apply
// to maintenance.
func (l Limits) Check(cal *Calendar, wanted []Booking, now time.Time, fleet Fleet) error {
	for _, w := range wanted {
		from := later(w.From, now)
		switch {
		case w.Kind == Maintenance:
			continue
		case l.MaxDuration > 0 && w.Until.IsZero():
			return fmt.Errorf("a booking without an end is not allowed here: it may last %s at most",
				Length(l.MaxDuration))
		case l.MaxDuration > 0 && calendarLonger(from, w.Until, l.MaxDuration):
			return fmt.Errorf("the booking would last %s; the limit is %s", Length(w.Until.Sub(from)),
				Length(l.MaxDuration))
		case l.MaxAhead > 0 && from.Sub(now) > l.MaxAhead:
			return fmt.Errorf("the booking would begin in %s; the limit is %s ahead", Length(from.Sub(now)),
				Length(l.MaxAhead))
		}
		if n := mostAtOnce(cal, wanted, w, now, fleet); l.MaxGPUs > 0 && n > l.MaxGPUs {
			return fmt.Errorf("%s would have booked %d GPUs at the same time; the limit is %d", quote(w.Name), n,
				l.MaxGPUs)
		}
	}
	return nil
}

// calendarLonger reports whether a period is longer than allowed. A change of clocks may add an hour.
func calendarLonger(from, until time.Time, most time.Duration) bool {
	const day = 24 * time.Hour
	return until.Sub(from) > most && until.After(after(from, int(most/day), most%day, from.Location()))
}

// mostAtOnce is the most GPUs that the person of w has at any time of w, wanted ones included.
func mostAtOnce(cal *Calendar, wanted []Booking, w Booking, now time.Time, fleet Fleet) int {
	type change struct {
		at time.Time
		n  int
	}
	var changes []change
	seen := map[string]bool{}
	for _, list := range [][]Booking{wanted, cal.Bookings} {
		for _, b := range list {
			if b.Kind == Maintenance || !samePerson(b, w) || !sameTime(b, w) || b.OverAt(now) || b.ID != "" &&
				seen[b.ID] {
				continue
			}
			seen[b.ID] = b.ID != ""
			n := 1
			if b.Target.All {
				n = max(1, fleet.Hosts[b.Host].GPUs)
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
		// A booking that overlaps with w and begins earlier is in force when w begins, so
		// no larger sum can occur outside of w.
		held += c.n
		most = max(most, held)
	}
	return most
}
