package render

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gpuboard/internal/board"
)

// nowRows lists what somebody should look at now, the longest first.
func (v *view) nowRows(p *historyPage) {
	type found struct {
		row  nowView
		time time.Duration
	}
	var idle, noShow, stuck []found
	b := v.in.Board
	for i := range b.Hosts {
		h := &b.Hosts[i]
		for g := range h.Units() {
			heldIdle := !g.IdleSince.IsZero() && (g.State == board.Busy || g.State == board.InUse || g.State == board.Contested)
			if g.State != board.Stuck && !(g.NoShow && g.Booking != nil) && !heldIdle {
				continue
			}
			row := nowView{Where: h.Name + " " + g.Label(), Href: "../hosts/" + h.Name + "/index.html#" + v.gpuID(h.Name, g)}
			if g.MemoryUsed != nil {
				row.Memory = v.words.quantity(gib(*g.MemoryUsed), "gib")
			}
			owner := func(name string) {
				if name != "" && !slices.ContainsFunc(row.Who, func(w personView) bool { return w.Name == clean(name) }) {
					row.Who = append(row.Who, personView{Name: clean(name), Href: v.userHref("../", name)})
				}
			}
			row.Since = v.words.near(g.Since, b.GeneratedAt)
			switch {
			case g.State == board.Stuck:
				stuck = append(stuck, found{row, b.GeneratedAt.Sub(g.Since)})
			case g.NoShow && g.Booking != nil:
				owner(g.Booking.Name)
				spare := g.IdleFor(b.GeneratedAt)
				if spare == 0 && !g.Since.IsZero() {
					spare = b.GeneratedAt.Sub(g.Since)
				}
				if spare > 0 {
					row.For = v.words.length(spare)
				}
				noShow = append(noShow, found{row, spare})
			default:
				for k := range g.Processes {
					if g.Processes[k].Type.Computes() {
						owner(g.Processes[k].Person)
					}
				}
				spare := g.IdleFor(b.GeneratedAt)
				row.For = v.words.length(spare)
				idle = append(idle, found{row, spare})
			}
		}
	}
	list := func(from []found) (rows []nowView) {
		slices.SortStableFunc(from, func(x, y found) int { return cmp.Compare(y.time, x.time) })
		for i, f := range from {
			if i == maxNowRows {
				p.NowMore += len(from) - i
				break
			}
			rows = append(rows, f.row)
		}
		return rows
	}
	p.Idle, p.NoShows, p.Stuck = list(idle), list(noShow), list(stuck)
}

// UnusedBooking is how much of a booking so far nobody held the GPU.
type UnusedBooking struct {
	Booking      *board.Booking
	GPU          *board.GPU    // or slice
	Past         time.Duration // of the booking, within the last seven days
	Known, Spare time.Duration // of that: known, and not held
}

// maxUnused is how many bookings that were not used are listed.
const maxUnused = 512

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
	counted := map[string]int{} // by host
	var out []UnusedBooking
	for i := range b.Bookings {
		bk := &b.Bookings[i]
		host, past := hosts[bk.Host], h.Hosts[bk.Host]
		if host == nil || past == nil || bk.Kind == "maintenance" {
			continue
		}
		if counted[bk.Host]++; counted[bk.Host] > maxListed {
			continue
		}
		span := &past.Spans[1]
		for g := range host.Units() {
			if !covers(bk, g) {
				continue
			}
			u := UnusedBooking{Booking: bk, GPU: g}
			gpu, seen := span.GPUs[pastKey(g)]
			// All of it counted from the beginning of the chart.
			start, stop := time.Duration(0), time.Duration(math.MaxInt64)
			if !bk.From.IsZero() {
				start = bk.From.Sub(span.From)
			}
			for _, t := range []time.Time{bk.Until, b.GeneratedAt} {
				if !t.IsZero() {
					stop = max(0, min(stop, t.Sub(span.From)))
				}
			}
			var held []int16
			if seen {
				held = gpu[PastHeld]
			}
			u.count(held, span.Step, start, stop)
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
	end := min(stop, time.Duration(PastSteps()[1])*step)
	start = max(0, start)
	if end <= start {
		return
	}
	u.Past = end - start
	part := func(k, length time.Duration) {
		if h := held[k]; h != PastUnknown {
			u.Known += length
			u.Spare += length * time.Duration(100-min(100, h)) / 100
		}
	}
	first, last := start/step, min(end/step, time.Duration(len(held))) // of the whole steps
	if first*step < start {
		if first < time.Duration(len(held)) {
			part(first, min(first*step+step, end)-start)
		}
		first++
	}
	for k := first; k < last; k++ {
		part(k, step)
	}
	if last >= first && last*step < end && last < time.Duration(len(held)) {
		part(last, end-last*step)
	}
}

func (v *view) unused() (rows []unusedView) {
	for _, u := range UnusedBookings(v.in.Board, v.in.History) {
		if len(rows) == maxNowRows || u.Spare < 30*time.Minute {
			break
		}
		rows = append(rows, unusedView{
			Where: u.Booking.Host + " " + u.GPU.Label(), Href: "../hosts/" + u.Booking.Host + "/index.html#" + v.gpuID(u.Booking.Host, u.GPU),
			Name: clean(u.Booking.Name), NameHref: v.userHref("../", u.Booking.Name),
			From: v.words.near(u.Booking.From, v.in.Board.GeneratedAt), Until: v.words.near(u.Booking.Until, v.in.Board.GeneratedAt),
			Booked: digits(u.Past.Hours()), Unused: digits(u.Spare.Hours()), Part: partOf(float64(u.Spare) / float64(u.Known)),
			Unknown: digits((u.Past - u.Known).Hours()),
		})
	}
	return rows
}
