package board

import (
	"slices"
	"strings"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

// maxOthers is how many further bookings in force one GPU lists; each of a whole host is on all its GPUs.
// hostOthers is how many the rows of a host list together, unless each lists one.
const (
	maxOthers  = 16
	hostOthers = 512
)

// A schedule is what the bookings of one GPU or slice mean for its row.
type schedule struct {
	holders  []*booking.Booking // those for work, not maintenance, that were in force at the time of the readings
	freeFrom time.Time          // the end of those that are in force now and of those that follow them

	// What the row shows:
	booking, next *Booking
	others        []Booking
	more          int // in force, and not shown
}

// schedule looks up the bookings of a GPU or slice: of the host, of the card by number or by
// UUID, and of the card of a slice. Rows with the same bookings share one.
func (m *merger) schedule(g *GPU) *schedule {
	places := []string{"*", itoa(g.Index), g.UUID}
	if g.Slice != nil && g.Slice.GPUUUID != g.UUID {
		places = append(places, g.Slice.GPUUUID)
	}
	places = slices.DeleteFunc(places, func(place string) bool { return len(m.here[place]) == 0 })
	key := strings.Join(places, " ")
	if s := m.schedules[key]; s != nil {
		return s
	}
	var all []*booking.Booking
	for _, place := range places {
		all = append(all, m.here[place]...)
	}
	sortByStart(all)
	active := selected(all, func(b *booking.Booking) bool { return b.ActiveAt(m.Now) })
	coming := selected(all, func(b *booking.Booking) bool { return b.From.After(m.Now) })
	s := &schedule{
		holders:  selected(all, func(b *booking.Booking) bool { return b.ActiveAt(m.at) && forWork(b) }),
		freeFrom: FreeFrom(slices.Concat(active, coming)),
	}
	if len(coming) > 0 {
		s.next = new(m.shown(coming[0]))
	}
	m.show(s, active)
	m.schedules[key] = s
	return s
}

func forWork(b *booking.Booking) bool { return b.Kind != booking.Maintenance }

// show chooses what a row shows of the bookings in force: one, before others the first
// maintenance, and a bounded number of the others.
func (m *merger) show(s *schedule, active []*booking.Booking) {
	first := max(0, slices.IndexFunc(active, func(b *booking.Booking) bool { return !forWork(b) }))
	for i, b := range active {
		switch {
		case i == first:
			s.booking = new(m.shown(b))
		case len(s.others) < m.mostOthers:
			s.others = append(s.others, m.shown(b))
		default:
			s.more++
		}
	}
}

// book sets the bookings of a row, and from or until when the GPU is free.
func (g *GPU) book(s *schedule) {
	g.Booking, g.Next, g.Others, g.MoreOthers = s.booking, s.next, s.others, s.more
	if g.Next != nil && g.State == Free {
		g.FreeUntil = g.Next.From
	}
	if g.Booking != nil && g.State != Free {
		g.FreeFrom = s.freeFrom
	}
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

// FreeFrom is the end of the bookings that follow each other, by start; zero if one is open-ended.
func FreeFrom(chain []*booking.Booking) time.Time {
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

// Shown is a booking as boards have it at a moment, but for its file and the numbers of its GPUs.
func Shown(b *booking.Booking, now time.Time) Booking {
	s := Booking{
		ID: b.ID, Host: b.Host, Name: b.Name, From: b.From, Until: b.Until, Comment: b.Comment, Kind: string(b.Kind),
		By: b.By, Forced: b.Forced, Line: b.Line, Col: b.Col, Active: b.ActiveAt(now), Expired: b.OverAt(now),
	}
	if !byNumber(b) {
		s.UUID = b.Target.UUID
	}
	return s
}

func (m *merger) shown(b *booking.Booking) Booking {
	s := Shown(b, m.Now)
	s.File = m.Calendar.File
	switch p := m.facts(b.Host).cards[b.Target.UUID]; {
	case p != nil:
		s.GPUs = []int{p.gpu.Index}
		of := func(d snapshot.MIGDevice) bool { return d.UUID == b.Target.UUID }
		if i := slices.IndexFunc(p.gpu.MIGDevices, of); i >= 0 {
			s.Slice = new(p.gpu.MIGDevices[i].Index)
		}
	case byNumber(b):
		s.GPUs = []int{b.Target.Index}
	}
	return s
}

// bookings lists what the bookings page shows, by start.
func (m *merger) bookings() []Booking {
	var current []*booking.Booking
	for i := range m.booked {
		if b := &m.booked[i]; !m.outdated(b) {
			current = append(current, b)
		}
	}
	slices.SortStableFunc(current, func(x, y *booking.Booking) int {
		if order := x.From.Compare(y.From); order != 0 {
			return order
		}
		return NaturalCompare(x.Host, y.Host)
	})
	list := make([]Booking, len(current))
	for i, b := range current {
		list[i] = m.shown(b)
	}
	return list
}

// BookingsByHost returns the bookings of each host, in the order of the board.
func (b *Board) BookingsByHost() map[string][]*Booking {
	booked := map[string][]*Booking{}
	for i := range b.Bookings {
		bk := &b.Bookings[i]
		booked[bk.Host] = append(booked[bk.Host], bk)
	}
	return booked
}

// BookingsByName returns the bookings of each person who is a key of names, in the order of the board.
func (b *Board) BookingsByName(names map[string]string) map[string][]*Booking {
	booked := map[string][]*Booking{}
	for i := range b.Bookings {
		if bk := &b.Bookings[i]; names[bk.Name] != "" {
			booked[bk.Name] = append(booked[bk.Name], bk)
		}
	}
	return booked
}

// strayBookings are the problems of bookings for no host or GPU on the board. All are
// accepted for a host whose driver did not answer in full.
func (m *merger) strayBookings(b *Board) []snapshot.Problem {
	fleet := booking.Fleet{Hosts: b.knownHosts()}
	for name := range fleet.Hosts {
		if snap := m.facts(name).snap; snap == nil || !snap.GPUsComplete {
			fleet.Hosts[name] = booking.KnownHost{}
		}
	}
	return booking.Check(&booking.Calendar{File: m.Calendar.File, Bookings: m.booked}, fleet, m.Now)
}

// Fleet is what bookings are checked against: the hosts of a board with their
// GPUs, and the number that the GPU of each of its bookings has now.
func (b *Board) Fleet() booking.Fleet {
	f := booking.Fleet{Hosts: b.knownHosts(), Cards: map[string]int{}}
	for i := range b.Bookings {
		if bk := &b.Bookings[i]; bk.ID != "" && len(bk.GPUs) == 1 {
			f.Cards[bk.Host+"/"+bk.ID] = bk.GPUs[0]
		}
	}
	return f
}

func (b *Board) knownHosts() map[string]booking.KnownHost {
	hosts := make(map[string]booking.KnownHost, len(b.Hosts))
	for i := range b.Hosts {
		h := &b.Hosts[i]
		known := booking.KnownHost{UUIDs: map[string]int{}}
		for g := range h.Rows() {
			known.GPUs = max(known.GPUs, g.Index+1)
			if g.UUID != "" {
				known.UUIDs[booking.CanonicalUUID(g.UUID)] = g.Index
			} else if g.Slice != nil {
				known.Incomplete = true
			}
		}
		hosts[h.Name] = known
	}
	return hosts
}
