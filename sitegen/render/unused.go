package render

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gpuboard/internal/board"
)

// UnusedBooking is how much of a booking so far nobody held the GPU.
type UnusedBooking struct {
	Booking      *board.Booking
	GPU          *board.GPU    // or slice
	Past         time.Duration // of the booking, within the last seven days
	Known, Spare time.Duration // of that: known, and not held
}

// maxUnused is how many bookings that were not used are listed, and maxCompared how many GPUs and
// slices of one host are compared with a booking.
const (
	maxUnused   = 512
	maxCompared = 8 * MaxListed
)

// UnusedBookings compares bookings that have begun with what their GPUs did in
// the last seven days, the most unused time first, of the first bookings of each host.
func UnusedBookings(b *board.Board, h *History) []UnusedBooking {
	if h == nil {
		return nil
	}
	hosts := map[string]*board.Host{}
	for i := range b.Hosts {
		hosts[b.Hosts[i].Name] = &b.Hosts[i]
	}
	counted, compared := map[string]int{}, map[string]int{} // by host
	var out []UnusedBooking
	for i := range b.Bookings {
		bk := &b.Bookings[i]
		host, past := hosts[bk.Host], h.Hosts[bk.Host]
		if host == nil || past == nil || bk.Kind == "maintenance" || !bk.ByPerson() {
			continue
		}
		if counted[bk.Host]++; counted[bk.Host] > MaxListed {
			continue
		}
		span := &past.Spans[1]
		for g := range host.Units() {
			if compared[bk.Host] == maxCompared {
				break
			}
			if !bk.Covers(g) {
				continue
			}
			compared[bk.Host]++
			u := UnusedBooking{Booking: bk, GPU: g}
			gpu, seen := span.GPUs[g.Key()]
			// All of it counted from the beginning of the chart.
			start, stop := bk.From.Sub(span.From), time.Duration(math.MaxInt64)
			for _, t := range []time.Time{bk.Until, b.GeneratedAt} {
				if !t.IsZero() {
					stop = max(0, min(stop, t.Sub(span.From)))
				}
			}
			var held []int16
			if seen {
				held = gpu[PastHeld]
			}
			u.count(held, span.Step(), start, stop)
			if u.Past > 0 {
				out = append(out, u)
			}
		}
	}
	slices.SortStableFunc(out, func(x, y UnusedBooking) int { return cmp.Compare(y.Spare, x.Spare) })
	return out[:min(len(out), maxUnused)]
}

// count adds up what is known of a GPU between two moments, both counted from the
// beginning of its chart, which has a step for each value of held; nil where nothing
// is known.
func (u *UnusedBooking) count(held []int16, step, start, stop time.Duration) {
	for k := range PastSteps()[1] {
		at := time.Duration(k) * step
		length := min(at+step, stop) - max(at, start)
		if length <= 0 {
			continue
		}
		u.Past += length
		if k < len(held) && held[k] != PastUnknown {
			u.Known += length
			u.Spare += length * time.Duration(100-min(100, held[k])) / 100
		}
	}
}
