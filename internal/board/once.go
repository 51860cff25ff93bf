package board

import (
	"maps"
	"slices"
	"time"

	"gpuboard/internal/booking"
)

// A sighting is a card on a host.
type sighting struct {
	host *Host
	*place
}

// times reports whether the host lists the card now, and when it did first and last.
func (s sighting) times() (live bool, first, last time.Time) {
	live, first, last = s.listed && s.host.fresh(), s.host.SnapshotAt, s.host.SnapshotAt
	if s.known != nil {
		first = s.known.First
	}
	if s.known != nil && !s.listed {
		last = s.known.lastAt()
	}
	return live, first, last
}

// newer reports whether the card counts at s and not at o: where it is listed now, else where it was listed
// last. A host that goes on listing a card keeps it, so no other host can take it away by naming its UUID.
func (s sighting) newer(o sighting) bool {
	live, first, last := s.times()
	otherLive, otherFirst, otherLast := o.times()
	switch {
	case live != otherLive:
		return live
	case live && first.After(otherFirst):
		return !otherLast.After(first)
	case live && otherFirst.After(first):
		return last.After(otherFirst)
	}
	return last.After(otherLast)
}

// newest finds the host at which each card counts, by UUID, where several hosts list it after a migration or
// a clone.
func (m *merger) newest(hosts []Host) map[string]sighting {
	newest := map[string]sighting{}
	for i := range hosts {
		for uuid, p := range m.cards[hosts[i].Name] {
			if s := (sighting{&hosts[i], p}); newest[uuid].host == nil || s.newer(newest[uuid]) {
				newest[uuid] = s
			}
		}
	}
	return newest
}

// shareBookings lets the bookings of a card under the name of another host hold it where it counts.
func (m *merger) shareBookings(newest map[string]sighting) {
	for _, host := range slices.Sorted(maps.Keys(m.cards)) {
		left := map[string]*place{}
		for uuid, p := range m.cards[host] {
			if newest[uuid].host.Name != host {
				left[uuid] = p
			}
		}
		if len(left) == 0 {
			continue
		}

		for _, b := range m.byHost[host] {
			for _, uuid := range leftOf(b, left) {
				to := newest[uuid].host.Name
				held := *b
				held.Target = booking.Target{UUID: uuid, Index: -1}
				m.byHost[to] = append(m.byHost[to], &held)
				sortByStart(m.byHost[to])
			}
		}
	}
}

// leftOf returns which of the cards that a host has left to others a booking holds. Maintenance of the whole
// host is not the card's.
func leftOf(b *booking.Booking, left map[string]*place) (uuids []string) {
	switch {
	case !b.Target.All:
		if left[b.Target.UUID] != nil {
			uuids = append(uuids, b.Target.UUID)
		}
	case b.Kind != booking.Maintenance:
		for uuid, p := range left {
			if p.gpu.UUID == uuid {
				uuids = append(uuids, uuid)
			}
		}
	}
	return uuids
}

// countOnce leaves each card to the host at which it counts.
func (m *merger) countOnce(hosts []Host, newest map[string]sighting) {
	said := map[[2]*Host]bool{}
	for i := range hosts {
		h, whole := &hosts[i], &GPU{}
		for g := range h.Rows() {
			at := newest[g.UUID]
			if g.Slice == nil {
				whole = g
			} else if of := newest[g.Slice.GPUUUID]; of.host != nil && len(of.gpu.MIGDevices) == 0 {
				at = of // which has all of the card
			}
			if len(g.Slices) > 0 || at.host == nil || at.host == h {
				continue
			}
			whole.leave("")
			g.leave(at.host.Name)
			if pair := [2]*Host{h, at.host}; !said[pair] {
				said[pair] = true
				h.problem("gpu:elsewhere", "GPU "+g.Label()+", and each other one whose row says so, is counted at "+
					at.host.Name+", where the same UUID was listed last")
				at.host.problem("gpu:elsewhere", "GPUs with the same UUIDs are also listed by "+h.Name+", and counted here")
			}
		}
	}
}

// leave makes a row one that counts at another host; without one, that of a GPU some of whose slices do.
func (g *GPU) leave(host string) {
	g.State, g.Reason, g.CountedAt = Unknown, ReasonElsewhere, host
	g.Since, g.IdleSince, g.FreeFrom, g.FreeUntil = time.Time{}, time.Time{}, time.Time{}, time.Time{}
}
