package page

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// A span is a stretch of time that a picture shows, with the moment in it that is now. The picture is at least so
// many pixels wide on a phone, on a narrow screen and on a wide one.
type span struct {
	from, now, until    time.Time
	phone, narrow, wide float64
}

// at is where a moment lies, from 0 to 1. What is outside lies at the nearer end.
func (s span) at(t time.Time) float64 {
	return min(1, max(0, float64(t.Sub(s.from))/float64(s.until.Sub(s.from))))
}

// shows reports whether some of a booking lies within.
func (s span) shows(b *board.Booking) bool {
	return b.From.Before(s.until) && (b.Until.IsZero() || b.Until.After(s.from))
}

// end is when a booking ends, or the span.
func (s span) end(b *board.Booking) time.Time {
	if b.Until.IsZero() || b.Until.After(s.until) {
		return s.until
	}
	return b.Until
}

// fits is the class of a text that needs so many pixels of a part of the picture: "" if it fits on every screen,
// "needs-medium" or "needs-wide" if it does on wider ones, noRoom if on none.
func (s span) fits(pixels, part float64) string {
	switch {
	case pixels <= part*s.phone:
		return ""
	case pixels <= part*s.narrow:
		return "needs-medium"
	case pixels <= part*s.wide:
		return "needs-wide"
	}
	return noRoom
}

const noRoom = "no-room"

// textWidth is about how many pixels a text of 12 pixels takes.
func textWidth(text string) float64 { return 7 * float64(render.TextWidth(text)) }

// unbooked is the kind of what is no booking: use that nobody has booked.
const unbooked = "unbooked"

const (
	barGap     = 9  // pixels before and behind a name
	barComment = 80 // bytes of a comment
	thinnest   = 0.002
)

// A bar is a booking as a picture shows it.
type bar struct {
	templates.Bar
	of    *board.Booking
	level int // of those that overlap, each has its own
	place int // among the bars of its host
}

// alike reports whether two bookings have the same name, kind and times. They are drawn as one.
func alike(x, y *board.Booking) bool {
	return x.Name == y.Name && x.Kind == y.Kind && x.From.Equal(y.From) && x.Until.Equal(y.Until)
}

// bars are the bookings of one GPU within a span, which are sorted by start, and how many levels they take. A name is
// inside its bar where that has room, right of now if it is running, else beside it if the next one leaves room.
func (v *view) bars(list []*board.Booking, s span) (bars []bar, levels int) {
	var ends []time.Time // of each level
	for _, b := range list {
		last := len(bars) - 1
		if !s.shows(b) || last >= 0 && alike(bars[last].of, b) {
			continue
		}
		begin, end := s.at(b.From), s.at(s.end(b))
		level := slices.IndexFunc(ends, func(e time.Time) bool { return !e.After(b.From) })
		if level < 0 {
			level, ends = len(ends), append(ends, time.Time{})
		}
		ends[level] = s.end(b)
		bars = append(bars, bar{of: b, level: level, Bar: templates.Bar{
			X: percent(begin), W: percent(max(thinnest, end-begin)),
			Name: render.Clean(b.Name), Title: v.barTitle(b), Class: v.barClass(b),
		}})
		if b.Kind == unbooked {
			bars[last+1].Name = v.words.T("bookings.unbooked", bars[last+1].Name)
		}
	}
	for i := range bars {
		next := 1.0 // where the next bar of the level begins
		if j := slices.IndexFunc(bars[i+1:], func(o bar) bool { return o.level == bars[i].level }); j >= 0 {
			next = s.at(bars[i+1+j].of.From)
		}
		s.label(&bars[i], next)
	}
	return bars, len(ends)
}

// label decides where the name of a bar stands, and whether its comment does.
func (s span) label(b *bar, next float64) {
	begin, now, end := s.at(b.of.From), s.at(s.now), s.at(s.end(b.of))
	text, need := begin, textWidth(b.Name)+barGap
	if b.TextX = "0"; b.of.Comment != "" {
		b.Comment = " "
	}
	if begin < now && now < end {
		text = now
		b.TextX = percent((now - begin) / (end - begin))
	}
	if b.Fits = s.fits(need+barGap, end-text); b.Fits != noRoom && b.of.Kind != unbooked {
		if b.Comment != "" && s.fits(need+5*barGap, end-text) != noRoom {
			b.Comment += plainComment(b.of)
		}
		return
	}
	b.Beside, b.TextX, b.Fits = true, "100", s.fits(need, next-end)
}

// barClass is what a bar looks like: in the colour of who has booked, or as maintenance.
func (v *view) barClass(b *board.Booking) string {
	switch b.Kind {
	case "maintenance":
		return "under-maintenance"
	case unbooked:
		return v.colorOf(b.Name) + " run"
	}
	return v.colorOf(b.Name)
}

// barTitle is a booking in words: who, from when until when, and why.
func (v *view) barTitle(b *board.Booking) string {
	title := v.nameAndTimes(b.Name, b.From, b.Until)
	if b.Comment != "" {
		title += ": " + plainComment(b)
	}
	return title
}

// nameAndTimes is a name with the time from when until when; what has no end is open.
func (v *view) nameAndTimes(name string, from, until time.Time) string {
	begins, ends := v.words.near(from, v.in.Board.GeneratedAt), v.words.near(until, v.in.Board.GeneratedAt)
	text := render.Clean(name)
	if begins != nil {
		text += " " + begins.Text
	}
	if begins != nil || ends != nil {
		text += " –"
	}
	if ends != nil {
		text += " " + ends.Text
	}
	return text
}

// taken are the times within a span in which there is one of these bookings, which are sorted by start.
func (s span) taken(list []*board.Booking) (times []span) {
	for _, b := range list {
		end := s.end(b)
		switch last := len(times) - 1; {
		case !s.shows(b):
		case last < 0 || b.From.After(times[last].until):
			times = append(times, span{from: b.From, until: end})
		case end.After(times[last].until):
			times[last].until = end
		}
	}
	return times
}

// openFrom is from when on nothing is taken, in two lists of times.
func openFrom(begin time.Time, lists ...[]span) time.Time {
	for moved := true; moved; {
		moved = false
		for _, times := range lists {
			for _, t := range times {
				if !t.from.After(begin) && t.until.After(begin) {
					begin, moved = t.until, true
				}
			}
		}
	}
	return begin
}

// A count is of whole GPUs and of slices.
type count struct{ gpus, slices int }

// String is "8", "2 MIG" or "8 + 2 MIG".
func (c count) String() string { return cmp.Or(render.WithSlices(c.gpus, c.slices, strconv.Itoa), "0") }

func (c count) plus(o count) count { return count{c.gpus + o.gpus, c.slices + o.slices} }

func (c count) least(o count) count { return count{min(c.gpus, o.gpus), min(c.slices, o.slices)} }

// one counts a GPU or slice.
func one(g *board.GPU) count {
	if g.Slice != nil {
		return count{slices: 1}
	}
	return count{gpus: 1}
}

// A part is a time in which so many GPUs of a host are free.
type part struct {
	from, until time.Time
	free        count
	off         bool // for maintenance
}

// free counts what nobody has booked of a host. Shortly after now, what runs unbooked is not free either.
func (w *week) free(h *board.Host) (parts []part) {
	type change struct {
		free       count
		hosts, off int
	}
	changes := map[int64]change{w.from.Unix(): {}, w.now.Unix(): {}, w.until.Unix(): {}}
	add := func(at time.Time, by change) {
		if at.Before(w.from) {
			at = w.from
		}
		c := changes[at.Unix()]
		changes[at.Unix()] = change{c.free.plus(by.free), c.hosts + by.hosts, c.off + by.off}
	}
	for g := range h.Units() {
		if !usable(g) {
			continue
		}
		n := one(g)
		add(w.from, change{free: n})
		for _, t := range w.taken(w.booked.of(h, g)) {
			add(t.from, change{free: count{-n.gpus, -n.slices}})
			add(t.until, change{free: n})
		}
	}
	for _, b := range w.booked.whole(h) {
		off := 0
		if b.Kind == "maintenance" {
			off = 1
		}
		add(b.From, change{hosts: 1, off: off})
		add(w.end(b), change{hosts: -1, off: -off})
	}

	var sum change
	times := slices.Sorted(maps.Keys(changes))
	for i, at := range times[:len(times)-1] {
		c := changes[at]
		sum = change{sum.free.plus(c.free), sum.hosts + c.hosts, sum.off + c.off}
		p := part{from: time.Unix(at, 0), until: time.Unix(times[i+1], 0), free: sum.free, off: sum.off > 0}
		if sum.hosts > 0 {
			p.free = count{}
		}
		if at == w.now.Unix() {
			now := p
			now.free = p.free.least(count{h.Totals.GPUs.Free(), h.Totals.Slices.Free()})
			if end := w.now.Add(useLasts); now.free != p.free && now.until.After(end) {
				now.until = end
			}
			parts, p.from = join(parts, now), now.until
		}
		if p.from.Before(p.until) {
			parts = join(parts, p)
		}
	}
	return parts
}

// join appends a part, or makes the last one longer if it is the same.
func join(parts []part, p part) []part {
	if last := len(parts) - 1; last >= 0 && parts[last].free == p.free && parts[last].off == p.off {
		parts[last].until = p.until
		return parts
	}
	return append(parts, p)
}

// coarse makes steps of the parts: how many GPUs are free all through each.
func (w *week) coarse(parts []part, step time.Duration) (steps []part) {
	for from := w.from; from.Before(w.until); from = from.Add(step) {
		p := part{from: from, until: from.Add(step), free: count{math.MaxInt, math.MaxInt}}
		if p.until.After(w.until) {
			p.until = w.until
		}
		for _, q := range parts {
			if q.from.Before(p.until) && q.until.After(p.from) {
				p.free, p.off = p.free.least(q.free), q.off
			}
		}
		steps = join(steps, p)
	}
	return steps
}
