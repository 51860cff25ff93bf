package board

import (
	"slices"
	"time"

	"gpuboard/internal/booking"
)

// A Wish is what somebody wants to book: so many GPUs of a kind, for a stretch of time.
type Wish struct {
	Request
	GPUs        int
	OneHost     bool      // all of them on one host
	From, Until time.Time // no Until: without an end
}

// An Offer is what there is for a wish.
type Offer struct {
	Units     []Unit    // what would be booked; nil if there is not so much
	Fit, Open int       // how many GPUs are of the kind, and how many of these can be booked
	Next      time.Time // when so many can be booked for as long, if Units is nil; zero if that is not known
	Later     []Unit    // which these are at Next
}

// A bookable is a GPU that can be booked, with its bookings that are not over.
type bookable struct {
	Unit
	booked []booking.Booking
}

// Offer chooses GPUs that nobody has booked until the end. What is to be used from
// now on has to be free on the board as well.
func (w *Wish) Offer(b *Board, cal *booking.Calendar, now time.Time) Offer {
	byHost := map[string]*booking.Calendar{}
	for _, bk := range cal.Bookings {
		if byHost[bk.Host] == nil {
			byHost[bk.Host] = &booking.Calendar{}
		}
		byHost[bk.Host].Bookings = append(byHost[bk.Host].Bookings, bk)
	}
	fleet := b.Fleet()
	var all []bookable
	for _, u := range w.List(b, func(_ *Host, g *GPU) bool { _, ok := g.Target(); return ok }) {
		one := bookable{Unit: u}
		if of := byHost[u.Host.Name]; of != nil {
			target, _ := u.GPU.Target()
			// A booking that ended earlier in this minute does not count.
			one.booked = booking.Conflicts(of, booking.Booking{Host: u.Host.Name, Target: target, From: now}, fleet)
		}
		all = append(all, one)
	}
	begin, soon := w.From, !w.From.After(now)
	if soon {
		begin = now
	}
	usable := func(g *GPU) bool { return g.State != Lost && !g.Missing && (!soon || g.State == Free) }
	open := w.openFrom(all, begin, usable)
	// GPUs whose use ends with a booking come first: how long the others are in use nobody knows.
	units := w.pick(w.openFrom(all, begin, func(g *GPU) bool { return usable(g) && g.endsByBooking() }))
	if others := w.pick(open); units == nil || areAlike(others) && !areAlike(units) {
		units = others
	}
	o := Offer{Units: units, Fit: len(all), Open: len(open)}
	if o.Units == nil && o.Fit >= w.GPUs {
		o.Next, o.Later = w.next(all, begin)
	}
	return o
}

// Moved returns the same wish for as long from another time on, in whole minutes, as people write it.
func (w *Wish) Moved(from time.Time) Wish {
	moved := *w
	moved.From = booking.WholeMinute(from)
	if !w.Until.IsZero() {
		moved.Until = moved.From.Add(w.Until.Sub(w.From))
	}
	return moved
}

// pick takes as many GPUs as are wanted, of one model if there are enough of one: who wants several wants them alike.
func (w *Wish) pick(open []Unit) []Unit {
	var models []string
	for _, u := range open {
		if !slices.Contains(models, u.GPU.Name) {
			models = append(models, u.GPU.Name)
		}
	}
	for _, oneHost := range []bool{true, w.OneHost} {
		for _, model := range models {
			alike := slices.DeleteFunc(slices.Clone(open), func(u Unit) bool { return u.GPU.Name != model })
			if units := Pick(alike, w.GPUs, oneHost, true); units != nil && w.GPUs > 1 {
				return units
			}
		}
	}
	return Pick(open, w.GPUs, w.OneHost, true)
}

// areAlike reports whether GPUs are of one model.
func areAlike(units []Unit) bool {
	return !slices.ContainsFunc(units, func(u Unit) bool { return u.GPU.Name != units[0].GPU.Name })
}

// openFrom returns the GPUs that nobody has booked from begin on, for as long as is wanted.
func (w *Wish) openFrom(all []bookable, begin time.Time, usable func(*GPU) bool) []Unit {
	end := w.Until
	if !end.IsZero() {
		end = begin.Add(w.Until.Sub(w.From))
	}
	var open []Unit
	for _, one := range all {
		if usable(one.GPU) && !slices.ContainsFunc(one.booked, func(bk booking.Booking) bool {
			return !bk.OverAt(begin) && (end.IsZero() || bk.From.Before(end))
		}) {
			open = append(open, one.Unit)
		}
	}
	return open
}

// endsByBooking reports whether a GPU is free as soon as no booking covers it. How long unbooked use lasts is not known.
func (g *GPU) endsByBooking() bool {
	switch g.State {
	case Free, Booked, InUse:
		return true
	}
	return g.State == Drained && g.Reason == ReasonBooking
}

// next is the end of a booking from which there are enough GPUs.
func (w *Wish) next(all []bookable, after time.Time) (time.Time, []Unit) {
	var ends []time.Time
	for _, one := range all {
		for _, bk := range one.booked {
			if bk.Until.After(after) && one.GPU.endsByBooking() {
				ends = append(ends, bk.Until)
			}
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	for _, end := range slices.CompactFunc(ends, time.Time.Equal) {
		if units := Pick(w.openFrom(all, end, (*GPU).endsByBooking), w.GPUs, w.OneHost, true); units != nil {
			return end, units
		}
	}
	return time.Time{}, nil
}
