package board

import (
	"slices"
	"strings"
	"time"

	"gpuboard/booking"
	"gpuboard/history"
	"gpuboard/inventory"
	"gpuboard/snapshot"
)

// Reasons that a GPU row may carry; pages and text have words for them.
const (
	ReasonHost        = "host"        // the whole host is drained
	ReasonBooking     = "booking"     // drained by a booking of kind maintenance
	ReasonStale       = "stale"       // the host's news is old
	ReasonUnasked     = "unasked"     // the driver could not be asked about it
	ReasonLost        = "lost"        // the driver says so
	ReasonMissing     = "missing"     // expected, and not listed
	ReasonDead        = "dead"        // memory belongs to a pid that is gone
	ReasonUnowned     = "unowned"     // memory in use, and no process is listed
	ReasonUtilization = "utilization" // no process is listed, yet it computes
	ReasonUnreadable  = "unreadable"  // there is not enough to tell
)

// busyUtilization is the utilization (%) from which a GPU without listed
// processes is believed to compute: the idle threshold of the states table.
const busyUtilization = 5

// gpu makes one row.
func (m *merger) gpu(h *Host, inv inventory.Host, sg snapshot.GPU, procs []snapshot.Process, fresh bool) GPU {
	g := GPU{GPU: sg, ShortName: m.shortName(sg.Name)}
	g.Processes = m.processes(sg, procs)
	at := m.Now
	if !fresh {
		at = h.SnapshotAt
	}
	use := m.use(&g)
	state, reason := m.state(&g, h.Name, use, at)
	drained, drainReason := m.drained(&g, h, inv)

	switch {
	case drained:
		g.State, g.Reason = Drained, drainReason
	case !fresh:
		g.State, g.Reason = Unknown, ReasonStale
	default:
		g.State, g.Reason = state, reason
	}
	if !fresh {
		g.Last = &LastSeen{State: state, Users: use.people, At: h.SnapshotAt}
		g.forget()
	}
	m.book(&g, h.Name)
	m.past(&g, h.Name, use)
	return g
}

// forget drops every reading, so that old numbers never look like live ones.
// What the card is stays.
func (g *GPU) forget() {
	old := g.GPU
	g.GPU = snapshot.GPU{
		Index: old.Index, UUID: old.UUID, PCIBusID: old.PCIBusID, Name: old.Name,
		MemoryTotal: old.MemoryTotal, PowerLimit: old.PowerLimit, MIGMode: old.MIGMode,
		Health: snapshot.HealthUnknown,
	}
	g.Processes = nil
}

// use is who and what holds a GPU.
type use struct {
	living []Process // that compute
	people []string  // behind them, in order of name; unknown users are not among them
	dead   bool      // a listed process is gone
	memory bool      // more memory is in use than a free GPU has
	busy   bool      // utilization says that it computes
}

func (m *merger) use(g *GPU) use {
	var u use
	graphics := int64(0)
	for _, p := range g.Processes {
		switch {
		case p.Alive != nil && !*p.Alive:
			u.dead = true
		case !p.Type.Computes() || slices.Contains(m.set.ServicePrograms, p.Program):
			if p.UsedMemory != nil {
				graphics += *p.UsedMemory
			}
		default:
			u.living = append(u.living, p)
			if p.Person != "" && !slices.Contains(u.people, p.Person) {
				u.people = append(u.people, p.Person)
			}
		}
	}
	slices.Sort(u.people)
	// What display servers hold is owned, and does not stand in anybody's way.
	u.memory = g.MemoryUsed != nil && *g.MemoryUsed-graphics > m.set.freeMemory(g.MemoryTotal)
	u.busy = g.UtilizationGPU != nil && *g.UtilizationGPU >= busyUtilization
	return u
}

// state decides what a GPU is at a moment, from its readings and the bookings.
// Staleness and maintenance are decided by the caller.
func (m *merger) state(g *GPU, host string, u use, at time.Time) (State, string) {
	switch {
	case g.Health == snapshot.HealthLost || g.Health == snapshot.HealthError:
		return Lost, ReasonLost
	case g.Health == snapshot.HealthUnknown:
		return Unknown, ReasonUnasked
	}
	var holders []string
	for _, b := range m.active(host, g.Index, g.UUID, at) {
		if b.Kind != booking.Maintenance {
			holders = append(holders, b.Name)
		}
	}
	unlisted := len(g.Processes) == 0 && u.busy
	switch {
	case len(u.living) > 0 && len(holders) > 0:
		for _, person := range u.people {
			if !containsFold(holders, person) {
				return Contested, ""
			}
		}
		return InUse, ""
	case len(u.living) > 0:
		return Busy, ""
	case u.memory && u.dead:
		return Stuck, ReasonDead
	case unlisted && u.memory && len(holders) == 0:
		// Someone computes whom the driver does not list: a container without
		// the host's pids, or a driver that does not tell.
		return Busy, ReasonUtilization
	case unlisted && u.memory:
		return InUse, ReasonUtilization
	case u.memory:
		return Stuck, ReasonUnowned
	case len(holders) > 0:
		return Booked, ""
	case g.MemoryUsed == nil && g.UtilizationGPU == nil && g.MIGMode != "enabled":
		// No process, and no reading at all: absence of news is not idleness.
		return Unknown, ReasonUnreadable
	default:
		return Free, ""
	}
}

func (m *merger) drained(g *GPU, h *Host, inv inventory.Host) (bool, string) {
	if h.State == Maintenance {
		return true, ReasonHost
	}
	for _, b := range m.active(h.Name, g.Index, g.UUID, m.Now) {
		if b.Kind == booking.Maintenance {
			return true, ReasonBooking
		}
	}
	return false, ""
}

// active returns the bookings in force for one GPU, by start.
func (m *merger) active(host string, index int, uuid string, at time.Time) []booking.Booking {
	var found []booking.Booking
	for _, b := range m.byHost[host] {
		if b.Target.Covers(index, uuid) && inForce(&b, at) {
			found = append(found, b)
		}
	}
	slices.SortStableFunc(found, func(x, y booking.Booking) int { return x.From.Compare(y.From) })
	return found
}

// past sets what history and the processes tell about time.
func (m *merger) past(g *GPU, host string, u use) {
	recent := m.recent.GPUs[history.Key{Host: host, GPU: gpuKey(g.UUID, g.Index)}]
	g.Utilization = recent.Utilization
	switch g.State {
	case InUse, Busy, Contested:
		for _, p := range u.living {
			if p.StartedAt != nil && !p.StartedAt.After(m.Now) {
				g.Since = earliest(g.Since, p.StartedAt.Time)
			}
		}
		if !recent.IdleSince.IsZero() {
			// Idle only since somebody has been holding it.
			if since := latest(recent.IdleSince, g.Since); since.Before(m.Now) {
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

// processes resolves the people and the shares.
func (m *merger) processes(g snapshot.GPU, procs []snapshot.Process) []Process {
	var out []Process
	for _, p := range procs {
		bp := Process{Process: p}
		if p.User != "" {
			bp.Person = m.personOn(m.person(p.User))
		}
		if p.UsedMemory != nil && g.MemoryTotal != nil && *g.MemoryTotal > 0 {
			share := min(float64(*p.UsedMemory)/float64(*g.MemoryTotal), 1)
			bp.Share = &share
		}
		out = append(out, bp)
	}
	slices.SortStableFunc(out, func(x, y Process) int {
		if c := int(memoryOf(y) - memoryOf(x)); c != 0 {
			return c
		}
		return x.PID - y.PID
	})
	return out
}

func memoryOf(p Process) int64 {
	if p.UsedMemory == nil {
		return 0
	}
	return *p.UsedMemory
}

// shortName is what the configuration says, else the product name without the
// vendor's and the line's name.
func (m *merger) shortName(name string) string {
	if short := m.set.ShortNames[name]; short != "" {
		return short
	}
	for _, prefix := range []string{"NVIDIA ", "Tesla ", "GeForce "} {
		name = strings.TrimPrefix(name, prefix)
	}
	return name
}

func containsFold(list []string, s string) bool {
	return slices.ContainsFunc(list, func(x string) bool { return strings.EqualFold(x, s) })
}
