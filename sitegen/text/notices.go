package text

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// The kinds of a [Notice]. Programs read them, so they do not change.
const (
	BookingBegins = "booking-begins" // a booking of the person begins soon
	BookingEnding = "booking-ending" // it ends soon
	BookingNoShow = "booking-noshow" // it has begun, and is not used
	GPUIdle       = "gpu-idle"       // the person has the GPU, and nothing computes on it
	GPUContested  = "gpu-contested"  // somebody else uses what the person has booked
	GPUTaken      = "gpu-taken"      // the person uses what somebody else has booked
	GPUProblem    = "gpu-problem"    // something is wrong with a GPU that the person has
)

// xidNews is for how long an error of the driver is news.
const xidNews = 24 * time.Hour

// A Notice is something on a board that concerns one person.
type Notice struct {
	Kind    string `json:"kind"`
	Host    string `json:"host"`
	Place   string `json:"place"`             // the GPUs or the host, as commands take it
	Booking string `json:"booking,omitempty"` // the ID of one that is for this place alone
	Text    string `json:"text"`              // without the place
}

// Notices returns what concerns the person who has a name now: those of their bookings that begin or end within a
// length of time, and the GPUs that they use or have booked. GPUs of a host of which there is the same to say share
// a notice.
func Notices(
	b *board.Board, is func(name string) bool, bookings []board.Booking,
	now time.Time, within time.Duration, zone *time.Location,
) []Notice {
	n := &notices{textPage: newTextPage(b, Options{Zone: zone}), is: is, now: now}
	for i := range bookings {
		n.booking(&bookings[i], within)
	}
	for h, g := range b.Units() {
		n.gpu(h, g)
	}
	return n.list
}

type notices struct {
	*textPage
	is   func(string) bool
	now  time.Time
	list []Notice
}

func (n *notices) booking(b *board.Booking, within time.Duration) {
	what, kind, verb, at := "your booking", BookingBegins, " begins ", b.From
	if !n.is(b.Name) {
		what += " for " + n.safe(b.Name)
	}
	if !b.From.After(n.now) {
		kind, verb, at = BookingEnding, " ends ", b.Until
	}
	left := at.Sub(n.now)
	if left <= 0 || left > within {
		return
	}

	place := b.Host
	if labels := b.Labels(); labels != nil {
		place += ":" + strings.Join(labels, ",")
	} else if b.UUID != "" {
		place += ":" + b.UUID
	}
	text := what + verb + n.moment(at) + ", in " + snapshot.Length(max(left.Round(time.Minute), time.Minute))
	n.list = append(n.list, Notice{kind, b.Host, place, b.ID, text})
}

// gpu adds what there is to say of a GPU, if the person has it.
func (n *notices) gpu(h *board.Host, g *board.GPU) {
	booked, used, others := n.booked(g), false, []string(nil)
	for _, p := range g.Holding() {
		used = used || p.Of(n.is)
		if other := n.safe(p.Owner().String() + " (" + p.Program + ")"); !p.Of(n.is) &&
			!slices.Contains(others, other) {
			others = append(others, other)
		}
	}
	if booked == nil && !used && (g.Last == nil || !slices.ContainsFunc(g.Last.Users, n.is)) {
		return
	}

	has, since := "used by you", g.Since
	if booked != nil {
		has, since = "booked by you", booked.From
		if !booked.Until.IsZero() {
			has += " until " + n.moment(booked.Until)
		}
	}
	switch idle := g.IdleFor(n.now); {
	case g.State == board.Contested && booked != nil:
		n.add(GPUContested, h, g, booked, "used by "+strings.Join(others, ", ")+", and "+has)
	case g.State == board.Contested:
		n.add(GPUTaken, h, g, nil, has+", and "+n.textPage.booked(g))
	case slices.Contains([]board.State{board.Lost, board.Stuck, board.Unknown, board.Drained}, g.State):
		n.add(GPUProblem, h, g, booked, n.why(g))
	case booked != nil && g.NoShow:
		n.add(BookingNoShow, h, g, booked, has+", and not in use")
	case idle > 0:
		n.add(GPUIdle, h, g, booked, "idle for "+snapshot.Length(idle.Round(time.Minute))+", and "+has)
	}
	if x := g.XID; x != nil && n.now.Sub(x.At.Time) <= xidNews && !x.At.Before(since) {
		n.add(GPUProblem, h, g, booked,
			fmt.Sprintf("the driver reported XID %d, %s: %s", x.Code, n.moment(x.At.Time), render.EnglishXID(x.Code)))
	}
}

// booked is the booking in force by which the person has a GPU; nil for none.
func (n *notices) booked(g *board.GPU) *board.Booking {
	all := slices.Clone(g.Others)
	if g.Booking != nil {
		all = append(all, *g.Booking)
	}
	i := slices.IndexFunc(all,
		func(b board.Booking) bool { return b.ByPerson() && b.Kind != "maintenance" && n.is(b.Name) })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// add adds a notice of a GPU, or adds the GPU to one that says the same.
func (n *notices) add(kind string, h *board.Host, g *board.GPU, b *board.Booking, text string) {
	one := Notice{Kind: kind, Host: h.Name, Place: board.Unit{Host: h, GPU: g}.String(), Text: text}
	if b != nil && (len(b.GPUs) > 0 || b.UUID != "") {
		one.Booking = b.ID
	}
	for i := range n.list {
		same := &n.list[i]
		if one.Kind == same.Kind && one.Host == same.Host && one.Booking == same.Booking && one.Text == same.Text {
			same.Place += "," + strings.TrimPrefix(one.Place, h.Name+":")
			return
		}
	}
	n.list = append(n.list, one)
}
