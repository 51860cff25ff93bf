package board

import (
	"strings"
	"time"
)

// A sighting is where and when a card was listed.
type sighting struct {
	host        *Host
	first, last time.Time // when the host's driver listed it
	live        bool      // it is listed now
	sliced      bool
}

// newer reports whether a card counts at s and not at o: where it is listed now, else where it was
// listed last. Of two hosts that both list it, that is the one where it appeared later, so that it
// does not change with each snapshot.
func (s sighting) newer(o sighting) bool {
	switch {
	case o.host == nil:
		return true
	case s.live != o.live:
		return s.live
	case s.live && !s.first.Equal(o.first):
		return s.first.After(o.first)
	}
	return s.last.After(o.last)
}

func (p *place) sighting(h *Host) sighting {
	s := sighting{host: h, first: h.SnapshotAt, last: h.SnapshotAt, live: p.listed && h.fresh(), sliced: len(p.gpu.MIGDevices) > 0}
	if p.known != nil {
		s.first = p.known.First
	}
	if p.known != nil && !p.listed {
		s.last = p.known.lastAt()
	}
	return s
}

// countOnce leaves each card that several hosts list, after a migration or a clone, to the newest of them.
func (m *merger) countOnce(hosts []Host) {
	newest := map[string]sighting{}
	for i := range hosts {
		for uuid, p := range m.cards[hosts[i].Name] {
			if s := p.sighting(&hosts[i]); s.newer(newest[uuid]) {
				newest[uuid] = s
			}
		}
	}

	for i := range hosts {
		h := &hosts[i]
		left := map[*Host][]string{}
		for g := range h.Units() {
			at := newest[g.UUID]
			if g.Slice != nil {
				// Another host may have one slice of a card, or all of it.
				if whole := newest[g.Slice.GPUUUID]; whole.host != nil && !whole.sliced {
					at = whole
				}
			}
			if at.host != nil && at.host != h {
				left[at.host] = append(left[at.host], g.Label())
				g.leave(at.host.Name)
			}
		}
		if len(left) > 0 {
			h.sayLeft(hosts, left)
		}
	}
}

// leave makes a row one that counts at another host.
func (g *GPU) leave(host string) {
	g.State, g.Reason, g.CountedAt = Unknown, ReasonElsewhere, host
	g.Since, g.IdleSince, g.FreeFrom, g.FreeUntil = time.Time{}, time.Time{}, time.Time{}, time.Time{}
}

// sayLeft names the cards that count at other hosts, on both.
func (h *Host) sayLeft(hosts []Host, left map[*Host][]string) {
	const most = 8
	for i := range h.GPUs {
		g := &h.GPUs[i]
		for j := range g.Slices {
			if g.Slices[j].CountedAt != "" {
				g.leave("")
			}
		}
	}
	for i := range hosts {
		other := &hosts[i]
		if labels := left[other]; len(labels) > 0 {
			list := "GPU " + strings.Join(labels[:min(len(labels), most)], ", ")
			h.problem("gpu:elsewhere", list+": counted at "+other.Name+", where the same UUID was listed last")
			other.problem("gpu:elsewhere", "also listed by "+h.Name+" ("+list+"), and counted here")
		}
	}
}
