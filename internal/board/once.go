package board

import "time"

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

// countOnce leaves each card that several hosts list, after a migration or a clone, to the newest of them.
func (m *merger) countOnce(hosts []Host) {
	newest := map[string]sighting{}
	for i := range hosts {
		for uuid, p := range m.cards[hosts[i].Name] {
			if s := (sighting{&hosts[i], p}); newest[uuid].host == nil || s.newer(newest[uuid]) {
				newest[uuid] = s
			}
		}
	}

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
