package board

import (
	"cmp"
	"slices"
	"strings"

	"gpuboard/internal/booking"
	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
)

// Reasons that a GPU row may carry; pages and text have words for them.
const (
	ReasonHost        = "host"        // the whole host is drained
	ReasonBooking     = "booking"     // drained by a booking of kind maintenance
	ReasonStale       = "stale"       // the host's news is old
	ReasonUnasked     = "unasked"     // the driver could not be asked about it
	ReasonLost        = "lost"        // the driver says so
	ReasonError       = "error"       // the driver reports an error for it
	ReasonRemap       = "remap"       // its memory could not be repaired by remapping rows
	ReasonECC         = "ecc"         // uncorrectable memory errors, and a repair waits for a reset
	ReasonMissing     = "missing"     // it was there, or is expected, and the driver does not list it
	ReasonDead        = "dead"        // memory belongs to a pid that is gone
	ReasonUnowned     = "unowned"     // memory in use, and no process is listed
	ReasonUtilization = "utilization" // it computes, and by whom is not known
	ReasonMemory      = "memory"      // memory in use, and by whom is not known
	ReasonUnreadable  = "unreadable"  // there is not enough to tell
	ReasonNoSlices    = "no-slices"   // MIG is on, and no instance exists
	ReasonElsewhere   = "elsewhere"   // another host lists the same card, and it counts there
	ReasonShared      = "shared"      // whose the memory is cannot be told: another instance has it, too
)

// busyUtilization is the utilization (%) from which somebody computes on a GPU, if enough memory is in use.
const busyUtilization = 5

// row makes one row of g, which has its readings and its names.
func (m *merger) row(h *Host, g GPU, procs []snapshot.Process) GPU {
	g.Processes = m.processes(g.GPU, procs)
	state, reason := m.state(&g, m.schedule(&g).holders)
	if !h.fresh {
		g.State = state
		g.Last = g.lastSeen(h.SnapshotAt)
		g.forget()
	}
	return m.decided(h, g, state, reason)
}

// decided gives a row its state, which is another one if the GPU is taken out of use or
// the host's news is old, and what follows from it.
func (m *merger) decided(h *Host, g GPU, state State, reason string) GPU {
	s := m.schedule(&g)
	switch {
	case h.State == Maintenance:
		g.State, g.Reason = Drained, ReasonHost
	case s.booking != nil && s.booking.Kind == string(booking.Maintenance):
		g.State, g.Reason = Drained, ReasonBooking
	case !h.fresh:
		g.State, g.Reason = Unknown, ReasonStale
	default:
		g.State, g.Reason = state, reason
	}
	g.book(s)
	m.past(&g, h.Name)
	return g
}

// forget drops every reading, so that old numbers never look like live ones. The card's identity stays.
func (g *GPU) forget() {
	old := g.GPU
	g.GPU = cardOf(&old).gpu()
	g.MemoryShared, g.PowerLimit, g.Processes = old.MemoryShared, old.PowerLimit, nil
}

// use is what holds a GPU, as far as that is known.
type use struct {
	known bool // the processes are all that there are
	dead  bool // a listed process is gone
	// it is known that no more memory is in use than on a free GPU, or the memory is the node's or another vendor's
	// and says nothing
	small bool
	large bool // it is known that more is
	owned bool // a process that may live does not compute and does not tell its memory
	busy  bool // utilization says that it computes
	idle  bool // utilization says that it does not
	empty bool // no program's context fits into the memory in use, whatever utilization says
}

func (m *merger) use(g *GPU) use {
	u := use{known: g.ProcessesUnknown == ""}
	// What displays and service programs hold is owned, and does not stand in anybody's way.
	// One that may be gone is not a reason to call a GPU free, nor to call it stuck.
	var sure, perhaps int64
	for i := range g.Processes {
		p := &g.Processes[i]
		switch {
		case p.Dead():
			u.dead = true
		case p.Computes:
		case p.UsedMemory == nil:
			u.owned = true
		default:
			perhaps += *p.UsedMemory
			if p.Alive != nil {
				sure += *p.UsedMemory
			}
		}
	}
	if snapshot.TooBusyForDisplay(g.UtilizationGPU) {
		sure = 0 // one of them may compute
	}

	limit := m.set.freeMemory(g.MemoryTotal)
	switch {
	case g.MemoryShared:
		u.small = !u.dead || g.Maker() == snapshot.NVIDIA
	case g.Maker() != snapshot.NVIDIA && g.Slice != nil: // the numbers of a partition may be those of its card
		u.small = !u.dead
	case g.Maker() != snapshot.NVIDIA && readable(g.MemoryUsed, g.MemoryTotal):
		u.small = mayBeIdle(*g.MemoryUsed-sure, *g.MemoryTotal) && !u.dead
	case readable(g.MemoryUsed, g.MemoryTotal):
		left := *g.MemoryUsed - sure
		u.small, u.large = left <= limit, *g.MemoryUsed-perhaps > limit
		u.empty = left <= snapshot.DriverMemory
	}
	if g.UtilizationGPU != nil {
		u.busy = g.Works()
		u.idle = !u.busy && *g.UtilizationGPU >= 0
	}
	return u
}

// Works reports whether the utilization says that somebody computes on the GPU at this moment.
func (g *GPU) Works() bool { return g.UtilizationGPU != nil && *g.UtilizationGPU >= busyUtilization }

// Hot reports whether the driver slows the GPU down because it is too hot.
func (g *GPU) Hot() bool {
	return slices.ContainsFunc(g.ThrottleReasons, func(reason string) bool {
		return strings.HasSuffix(reason, "_thermal_slowdown")
	})
}

// unused reports whether nobody uses a GPU, given that little of its memory is in use. If that proves nothing, the
// processes have to be known.
func (u *use) unused(processesDecide bool) bool {
	if processesDecide {
		return u.known && !u.owned && !u.busy
	}
	return u.idle || u.known && (!u.busy || u.empty)
}

// readable reports whether readings of memory can be true.
func readable(used, total *int64) bool {
	return used != nil && total != nil && *used >= 0 && *used <= *total && *total > 0
}

// state decides what a GPU is from its readings and the bookings for work that are in force.
// Staleness and maintenance are decided by the caller.
//
// What is not known is never free and never stuck. A sign of use is use by
// somebody unknown, and where somebody has booked, that may be them.
func (m *merger) state(g *GPU, holders []*booking.Booking) (State, string) {
	u := m.use(g)
	if state, reason := healthy(g); state != "" {
		return state, reason
	}
	used, unused := Busy, Free
	if len(holders) > 0 {
		used, unused = InUse, Booked
	}
	switch {
	case len(g.Computing()) > 0:
		for _, person := range g.Users() {
			mayHold := func(b *booking.Booking) bool {
				return b.Name == booking.Unreadable || strings.EqualFold(b.Name, person)
			}
			if len(holders) > 0 && !slices.ContainsFunc(holders, mayHold) {
				return Contested, ""
			}
		}
		return used, ""
	case u.large && u.known && !u.owned && !u.busy:
		if u.dead {
			return Stuck, ReasonDead
		}
		return Stuck, ReasonUnowned
	case u.small && u.unused(processesDecide(g)):
		return unused, ""
	case u.busy:
		return used, ReasonUtilization
	case u.large:
		return used, ReasonMemory
	default:
		return Unknown, ReasonUnreadable
	}
}

// healthy returns the state of a GPU that is not healthy, and "" for one that is.
func healthy(g *GPU) (State, string) {
	rows := g.RemappedRows
	switch {
	case g.Health == snapshot.HealthLost:
		return Lost, ReasonLost
	case g.Health != snapshot.HealthOK && g.Health != snapshot.HealthError:
		return Unknown, ReasonUnasked
	case rows != nil && orZero(rows.Failure):
		return Lost, ReasonRemap
	case rows != nil && orZero(rows.Pending) && uncorrectable(g):
		return Lost, ReasonECC
	case g.Health == snapshot.HealthError:
		return Lost, ReasonError
	}
	return "", ""
}

// uncorrectable reports whether a GPU with remapped rows had uncorrectable memory errors since the last reset.
// Without ECC counters, rows that were remapped after such errors are a sign of them.
func uncorrectable(g *GPU) bool {
	if g.ECC != nil && g.ECC.UncorrectedVolatile != nil {
		return *g.ECC.UncorrectedVolatile > 0
	}
	return orZero(g.RemappedRows.Uncorrectable) > 0
}

// past sets what history and the processes tell about time.
func (m *merger) past(g *GPU, host string) {
	recent := m.Recent.GPUs[history.Key{Host: host, GPU: g.Key()}]
	g.Utilization, g.Holders = recent.Utilization, renamed(recent.Holders, m.Who)
	switch g.State {
	case InUse, Busy, Contested:
		for _, p := range g.Computing() {
			if p.StartedAt != nil && !p.StartedAt.After(m.Now) {
				g.Since = earliest(g.Since, p.StartedAt.Time)
			}
		}
		if !recent.IdleSince.IsZero() {
			// Whoever has just begun is not idle because nobody computed before.
			if since := latest(recent.IdleSince, g.Since); m.Now.Sub(since) >= m.set.IdleWindow {
				g.IdleSince = since
			}
		}
		if g.State != Busy && g.Booking != nil {
			g.Since = latest(g.Since, g.Booking.From)
		}
	case Booked:
		if g.Booking != nil && !recent.IdleSince.IsZero() {
			g.Since = latest(recent.IdleSince, g.Booking.From)
		}
	case Free:
		g.Since = recent.IdleSince
	}
}

// renamed gives each name its new one. Most names are the same as the one before, which is not asked for again.
func renamed(names []string, as func(string) string) []string {
	out := slices.Clone(names)
	for i, name := range names {
		if i > 0 && name == names[i-1] {
			out[i] = out[i-1]
		} else {
			out[i] = as(name)
		}
	}
	return out
}

// processes resolves the people and the shares.
func (m *merger) processes(g snapshot.GPU, procs []snapshot.Process) []Process {
	pointers := make([]*snapshot.Process, len(procs))
	for i := range procs {
		pointers[i] = &procs[i]
	}
	computing := snapshot.Computing(g.UtilizationGPU, pointers)
	var out []Process
	for i, p := range procs {
		of, by := m.whose(&p)
		who := m.owner(of)
		bp := Process{Process: p, Person: m.personOn(who.Person), Likely: who.Likely, Computes: computing[i]}
		bp.Claims = nil
		bp.setBy(of, by)
		if p.UsedMemory != nil && orZero(g.MemoryTotal) > 0 {
			bp.Share = new(min(float64(*p.UsedMemory)/float64(*g.MemoryTotal), 1))
		}
		out = append(out, bp)
	}
	slices.SortStableFunc(out, func(x, y Process) int {
		return cmp.Or(cmp.Compare(orZero(y.UsedMemory), orZero(x.UsedMemory)), x.PID-y.PID)
	})
	return out
}

// shortName is the configured name, else the product's without the vendor and the product line.
func (m *merger) shortName(name string) string {
	if short := m.set.ShortNames[name]; short != "" {
		return short
	}
	for _, prefix := range makers {
		name = strings.TrimPrefix(name, prefix)
	}
	return name
}

// makers are words that short names lack.
var makers = []string{"NVIDIA ", "Tesla ", "GeForce ", "AMD ", "Instinct ", "Radeon "}
