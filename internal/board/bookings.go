package board

import (
	"slices"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

// maxOthers is how many further bookings in force one GPU lists; each of a whole host is on all its GPUs.
const maxOthers = 64

// book sets the bookings of a row, and from or until when the GPU is free. active are those in force.
func (m *merger) book(g *GPU, host string, active []*booking.Booking) {
	for _, b := range active {
		if len(g.Others) == maxOthers && b.Kind != booking.Maintenance {
			g.MoreOthers++
			continue
		}
		shown := m.shown(b)
		switch {
		case g.Booking == nil:
			g.Booking = &shown
		case g.Booking.Kind == string(booking.Maintenance) || b.Kind != booking.Maintenance:
			g.Others = append(g.Others, shown)
		default: // maintenance comes first
			g.Others = append(g.Others, *g.Booking)
			g.Booking = &shown
		}
	}
	coming := selected(m.covering(host, g), func(b *booking.Booking) bool { return b.From.After(m.Now) })
	if len(coming) > 0 {
		next := m.shown(coming[0])
		g.Next = &next
		if g.State == Free {
			g.FreeUntil = coming[0].From
		}
	}
	if g.Booking != nil && g.State != Free {
		g.FreeFrom = freeFrom(append(active, coming...))
	}
}

// covering returns the bookings of a host that are for a GPU or slice, by start.
func (m *merger) covering(host string, g *GPU) []*booking.Booking {
	return selected(m.byHost[host], func(b *booking.Booking) bool { return g.CoveredBy(b.Target) })
}

func sortByStart(list []*booking.Booking) {
	slices.SortStableFunc(list, func(x, y *booking.Booking) int { return x.From.Compare(y.From) })
}

func selected(list []*booking.Booking, keep func(*booking.Booking) bool) (out []*booking.Booking) {
	for _, b := range list {
		if keep(b) {
			out = append(out, b)
		}
	}
	return out
}

// freeFrom is the end of the bookings that follow each other, by start; zero if one is open-ended.
func freeFrom(chain []*booking.Booking) time.Time {
	var end time.Time
	for i, b := range chain {
		if i > 0 && b.From.After(end) {
			break
		}
		if b.Until.IsZero() {
			return time.Time{}
		}
		end = latest(end, b.Until)
	}
	return end
}

func (m *merger) shown(b *booking.Booking) Booking {
	s := Booking{
		ID: b.ID, Host: b.Host, GPUs: m.indices(b), Slice: m.slice(b), Name: b.Name, From: b.From, Until: b.Until,
		Comment: b.Comment, Kind: string(b.Kind), By: b.By, Forced: b.Forced, File: m.Calendar.File, Line: b.Line, Col: b.Col,
		Active:  b.ActiveAt(m.Now),
		Expired: b.OverAt(m.Now),
	}
	if !byNumber(b) {
		s.UUID = b.Target.UUID
	}
	return s
}

// bookings lists what the bookings page shows, by start.
func (m *merger) bookings() []Booking {
	var list []Booking
	for i := range m.booked {
		if b := &m.booked[i]; !m.outdated(b) {
			list = append(list, m.shown(b))
		}
	}
	slices.SortStableFunc(list, func(x, y Booking) int {
		if c := x.From.Compare(y.From); c != 0 {
			return c
		}
		return NaturalCompare(x.Host, y.Host)
	})
	return list
}

// strayBookings are the problems of bookings for no host or GPU on the board. All are
// accepted for a host whose driver did not answer in full.
func (m *merger) strayBookings(b *Board) []snapshot.Problem {
	fleet := b.Fleet()
	for name := range fleet.Hosts {
		if !m.full[name] {
			fleet.Hosts[name] = booking.KnownHost{}
		}
	}
	return booking.Check(&booking.Calendar{File: m.Calendar.File, Bookings: m.booked}, fleet, m.Now)
}
