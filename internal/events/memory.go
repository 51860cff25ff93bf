package events

import (
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
)

// MemorySchema is the format of [Memory]. A memory of another format is discarded.
const MemorySchema = 1

// Bounds of a Memory. It describes what is on the board, so it does not grow with time.
const (
	MaxBookings = 20000
	maxUsers    = 16
	maxText     = 512 // bytes of a summary or an id
	maxName     = 128 // bytes of a name
	// ahead is how long before its start a booking is remembered. Only the end of one that begins and ends between
	// two boards depends on that.
	ahead = 7 * 24 * time.Hour
)

// Memory is what [Diff] needs to know of earlier boards. It is kept as JSON. The zero
// value is that before the first board.
type Memory struct {
	Schema   int                      `json:"schema"`
	At       time.Time                `json:"at"`
	Hosts    map[string]HostMemory    `json:"hosts"`
	GPUs     map[string]GPUMemory     `json:"gpus"` // by [board.MarkKey]
	Bookings map[string]BookingMemory `json:"bookings"`
}

// HostMemory is the state of a host in its last event.
type HostMemory struct {
	State    board.HostState `json:"state"`
	LastNews time.Time       `json:"last_news"`
}

// GPUMemory is the last known state of a GPU.
type GPUMemory struct {
	Index int         `json:"index"`
	State board.State `json:"state"`
	// Since is the snapshot that first showed this state.
	Since time.Time `json:"since"`
	// UsedSince is when the present use began, or one that has just ended.
	UsedSince time.Time `json:"used_since"`
	Users     []string  `json:"users,omitempty"`
	// Occasions are those that go on.
	Occasions map[Kind]Occasion `json:"occasions,omitempty"`
}

// BookingMemory is the last known end of a booking, and whether that nobody uses it was an event.
type BookingMemory struct {
	Until  time.Time `json:"until"`
	Unused bool      `json:"unused,omitempty"`
}

// used reports whether a GPU in this state is in use, or blocked.
func used(s board.State) bool {
	return s == board.Busy || s == board.InUse || s == board.Contested || s == board.Stuck
}

// gpus compares the GPUs of a host. While the host sends nothing, they keep their state.
func (d *diff) gpus(h *board.Host) {
	fresh := h.State == board.Up
	seen := map[string]bool{}
	for g := range h.Rows() {
		if g.Missing && g.Last == nil {
			continue // an expected GPU that was never seen
		}
		key := board.MarkKey(h.Name, g)
		if seen[key] {
			continue
		}
		seen[key] = true
		was, known := d.prev.GPUs[key]
		// A slice is lost together with its GPU, which has the event.
		if !fresh || g.State == board.Unknown || g.State == board.Drained || g.Slice != nil && g.State == board.Lost {
			if known {
				d.next.GPUs[key] = was
			}
			continue
		}
		d.next.GPUs[key] = d.gpu(h, g, was, known)
	}
}

// gpu compares one GPU of a host that has sent a snapshot.
func (d *diff) gpu(h *board.Host, g *board.GPU, was GPUMemory, known bool) GPUMemory {
	is := GPUMemory{Index: g.Index, State: g.State, Since: h.SnapshotAt, UsedSince: was.UsedSince, Users: was.Users,
		Occasions: map[Kind]Occasion{}}
	if known && was.State == g.State {
		is.Since = was.Since
	}
	r := row{d, h, g, &is}
	lost := known && was.State == board.Lost
	switch {
	case g.State == board.Lost && known && !lost:
		why := g.HealthReason
		switch {
		case g.Missing:
			why = "the driver does not list it any more"
			if was.Index != g.Index {
				why += " (it was number " + strconv.Itoa(was.Index) + ")"
			}
		case why == "":
			why = "the driver reports an error"
		default:
			why = snapshot.Says("the driver", why)
		}
		r.say(GPULost, was.Since, named(g.Users(), was.Users), "is lost: "+why, "")
	case g.State != board.Lost && lost:
		r.say(GPUBack, was.Since, nil, "is back", "")
	}
	r.occasions(was)
	if len(g.Slices) > 0 {
		return is // the other events are those of its slices
	}
	if g.State == board.Stuck && known && was.State != board.Stuck {
		words, by := "holds memory that no living process owns", ", left by "
		for _, o := range g.Left() {
			words, by = words+by+o.String(), ", "
		}
		r.say(GPUStuck, was.Since, named(board.PeopleOf(g.Left()), nil), words, "")
	}

	switch {
	case used(g.State):
		if is.UsedSince.IsZero() {
			is.UsedSince = h.SnapshotAt
			if !g.Since.IsZero() && g.Since.Before(is.UsedSince) {
				is.UsedSince = g.Since
			}
		}
		if owners := g.Owners(); len(owners) > 0 {
			is.Users = named(board.PeopleOf(owners), nil)
		}
	case g.State == board.Free && !is.UsedSince.IsZero():
		if h.SnapshotAt.Sub(is.Since) < FreeAfter {
			break
		}
		if span := is.Since.Sub(is.UsedSince); span >= LongUse {
			who := ""
			if len(is.Users) > 0 {
				who = ", used by " + strings.Join(is.Users, ", ")
			}
			r.say(GPUFreed, is.Since, is.Users, "is free after "+snapshot.Length(span.Truncate(time.Minute))+who, "")
		}
		is.UsedSince, is.Users = time.Time{}, nil
	case g.State != board.Free:
		is.UsedSince, is.Users = time.Time{}, nil
	}
	return is
}

// named returns the first people in a list; before if there are none.
func named(people, before []string) []string {
	if len(people) == 0 {
		return before
	}
	return people[:min(len(people), maxUsers)]
}
