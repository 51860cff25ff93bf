package board

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

// maxOthers is how many further bookings in force one GPU has. As many bookings
// as one likes can be of a whole host, and each of its GPUs would repeat them.
const maxOthers = 64

// book sets the bookings of one row: the one in force, others at the same
// time, the next, and from or until when the GPU is free. active are those in force.
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
	var coming []*booking.Booking
	for b := range m.covering(host, g) {
		if b.From.After(m.Now) {
			coming = append(coming, b)
		}
	}
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

// A targetKey is what a booking is for: a UUID, else an index.
type targetKey struct {
	uuid  string
	index int
}

// wholeHost is the index of a booking of all GPUs of a host.
const wholeHost = -1

func keyOf(t booking.Target) targetKey {
	switch {
	case t.All:
		return targetKey{index: wholeHost}
	case t.UUID != "":
		return targetKey{uuid: t.UUID}
	default:
		return targetKey{index: t.Index}
	}
}

// indexBookings orders the bookings of a host by start, and finds them by target, so
// that a row does not look through all of them.
func (m *merger) indexBookings(host string) {
	list := m.byHost[host]
	slices.SortStableFunc(list, func(x, y *booking.Booking) int { return x.From.Compare(y.From) })
	m.byTarget = map[targetKey][]int{}
	for i, b := range list {
		key := keyOf(b.Target)
		m.byTarget[key] = append(m.byTarget[key], i)
	}
}

// covering yields the bookings of the present host that are for a GPU or slice
// ([GPU.CoveredBy]), by start.
func (m *merger) covering(host string, g *GPU) iter.Seq[*booking.Booking] {
	return func(yield func(*booking.Booking) bool) {
		lists := [][]int{m.byTarget[targetKey{index: wholeHost}], m.byTarget[targetKey{index: g.Index}]}
		if g.UUID != "" {
			lists = append(lists, m.byTarget[targetKey{uuid: g.UUID}])
		}
		if g.Slice != nil && g.Slice.GPUUUID != "" {
			lists = append(lists, m.byTarget[targetKey{uuid: g.Slice.GPUUUID}])
		}
		for {
			first := -1 // of the lists, by the start of its next booking
			for l, list := range lists {
				if len(list) > 0 && (first < 0 || list[0] < lists[first][0]) {
					first = l
				}
			}
			if first < 0 || !yield(m.byHost[host][lists[first][0]]) {
				return
			}
			lists[first] = lists[first][1:]
		}
	}
}

// freeFrom follows bookings that touch each other, by start, to the end of the
// last; zero when one of them is open-ended.
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

// inForce reports whether a booking has begun and not ended.
func inForce(b *booking.Booking, at time.Time) bool { return !b.From.After(at) && !over(b, at) }

// over reports whether a booking has ended.
func over(b *booking.Booking, at time.Time) bool { return !b.Until.IsZero() && !b.Until.After(at) }

func (m *merger) shown(b *booking.Booking) Booking {
	s := Booking{
		ID: b.ID, Host: b.Host, GPUs: m.indices(b), Slice: m.slice(b), Name: b.Name, From: b.From, Until: b.Until,
		Comment: b.Comment, Kind: string(b.Kind), By: b.By, Forced: b.Forced, File: m.Calendar.File, Line: b.Line, Col: b.Col,
		Active:  inForce(b, m.Now),
		Expired: over(b, m.Now),
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

// strayBookings names the bookings that are for no host or GPU on the board.
// A host whose driver did not answer in full is given the benefit of the doubt.
func (m *merger) strayBookings(hosts []Host) []snapshot.Problem {
	byName := hostsByName(hosts)
	var problems []snapshot.Problem
	for i := range m.booked {
		b := &m.booked[i]
		if over(b, m.Now) {
			continue // over: of no consequence
		}
		h := byName[b.Host]
		p := snapshot.Problem{File: m.Calendar.File, Line: b.Line, Col: b.Col, Host: b.Host}
		switch {
		case h == nil:
			p.Code = "booking:unknown-host"
			p.Message = fmt.Sprintf("%s books %q, which is no host of this board; write its name as the board shows it", b.Name, b.Host)
		case m.full[h.Name] && !covered(h, b.Target):
			p.Code = "booking:unknown-gpu"
			p.Message = fmt.Sprintf("%s books a GPU that %s does not have (it lists %d)", b.Name, b.Host, len(h.GPUs))
		default:
			continue
		}
		problems = append(problems, p)
	}
	return problems
}

func hostsByName(hosts []Host) map[string]*Host {
	byName := make(map[string]*Host, len(hosts))
	for i := range hosts {
		byName[hosts[i].Name] = &hosts[i]
	}
	return byName
}

// covered reports whether a target is there. While a slice has no UUID, it may be
// any slice that is booked.
func covered(h *Host, t booking.Target) bool {
	for g := range h.Rows() {
		if g.CoveredBy(t) || g.Slice != nil && g.UUID == "" && strings.HasPrefix(t.UUID, "MIG-") {
			return true
		}
	}
	return false
}
