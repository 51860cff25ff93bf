package board

import (
	"maps"
	"slices"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

// times reports whether the host lists the card now, and when it did first and last.
func (p *place) times() (live bool, first, last time.Time) {
	live, first, last = p.listed && p.host.fresh, p.host.SnapshotAt, p.host.SnapshotAt
	if p.known != nil {
		first = p.known.First
	}
	if p.known != nil && !p.listed {
		last = p.known.lastAt()
	}
	return live, first, last
}

// newer reports whether the card counts at p and not at o: where it is listed now, else where it was listed
// last. A host that goes on listing a card keeps it, so no other host can take it away by naming its UUID.
func (p *place) newer(o *place) bool {
	live, first, last := p.times()
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

// newest finds the place at which each card counts, by UUID, where several hosts list it after a migration or
// a clone.
func (m *merger) newest(hosts []Host) map[string]*place {
	newest := map[string]*place{}
	for i := range hosts {
		for uuid, p := range m.facts(hosts[i].Name).cards {
			if newest[uuid] == nil || p.newer(newest[uuid]) {
				newest[uuid] = p
			}
		}
	}
	return newest
}

// shareBookings lets the bookings of a card under the name of another host hold it where it counts.
func (m *merger) shareBookings(newest map[string]*place) {
	for _, host := range slices.Sorted(maps.Keys(m.hosts)) {
		of := m.hosts[host]
		for uuid, p := range of.cards {
			at := newest[uuid].host.Name
			if at == host {
				continue
			}
			for _, b := range of.booked {
				// Maintenance of the whole host is not the card's.
				whole := b.Target.All && forWork(b) && p.gpu.UUID == uuid
				if whole || b.Target.UUID == uuid {
					m.hosts[at].hold(b, booking.Target{UUID: uuid, Index: -1})
				}
			}
		}
	}
}

// elsewhere finds the other host at which a card of a host counts, or a slice of the card of; nil for none.
func (d *Draft) elsewhere(h *Host, uuid, of string) *Host {
	at := d.newest[uuid]
	if whole := d.newest[of]; whole != nil && len(whole.gpu.MIGDevices) == 0 {
		at = whole // which has all of the card
	}
	if at == nil || at.host == h {
		return nil
	}
	return at.host
}

// Elsewhere returns the UUIDs of the cards that each host lists now and that count at another host, so that
// what they do is added up once. What a host sends later of a card that it had before still counts.
func (d *Draft) Elsewhere() map[string]map[string]bool {
	elsewhere := map[string]map[string]bool{}
	for i := range d.hosts {
		h := &d.hosts[i]
		if !h.fresh {
			continue
		}
		for _, p := range d.m.facts(h.Name).places {
			if !p.listed || !d.leaves(h, &p.gpu) {
				continue
			}
			if elsewhere[h.Name] == nil {
				elsewhere[h.Name] = map[string]bool{}
			}
			elsewhere[h.Name][p.gpu.UUID] = true
		}
	}
	return elsewhere
}

// leaves reports whether a card counts at another host; a partitioned one when all of its slices do.
func (d *Draft) leaves(h *Host, card *snapshot.GPU) bool {
	for _, slice := range card.MIGDevices {
		if d.elsewhere(h, slice.UUID, card.UUID) == nil {
			return false
		}
	}
	return len(card.MIGDevices) > 0 || d.elsewhere(h, card.UUID, "") != nil
}

// countOnce leaves each card of a host to the one at which it counts.
func (d *Draft) countOnce(h *Host) {
	said := map[*Host]bool{}
	whole := &GPU{}
	for g := range h.Rows() {
		of := ""
		if g.Slice == nil {
			whole = g
		} else {
			of = g.Slice.GPUUUID
		}
		at := d.elsewhere(h, g.UUID, of)
		if len(g.Slices) > 0 || at == nil {
			continue
		}
		whole.leave("")
		g.leave(at.Name)
		if !said[at] {
			said[at] = true
			h.problem("gpu:elsewhere", "GPU "+g.Label()+", and each other one whose row says so, is counted at "+
				at.Name+", where the same UUID was listed last")
			at.problem("gpu:elsewhere", "GPUs with the same UUIDs are also listed by "+h.Name+", and counted here")
		}
	}
}

// leave makes a row one that counts at another host; without one, that of a GPU some of whose slices do.
func (g *GPU) leave(host string) {
	g.State, g.Reason, g.CountedAt = Unknown, ReasonElsewhere, host
	g.Since, g.IdleSince, g.FreeFrom, g.FreeUntil = time.Time{}, time.Time{}, time.Time{}, time.Time{}
}
