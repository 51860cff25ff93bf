package events

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gpuboard/internal/board"
)

// MemorySchema is the number of the format of [Memory]. A memory of another
// number is forgotten: the next board is then the first.
const MemorySchema = 1

// Bounds of a Memory. It holds what is on the board; nothing in it grows with time.
const (
	MaxBookings = 20000
	maxUsers    = 16
	maxText     = 512 // bytes of a summary or an id
	maxName     = 128 // bytes of a name
)

// Memory is what [Diff] needs to know of earlier boards. It is plain JSON, and
// the zero value remembers nothing.
type Memory struct {
	Schema   int                      `json:"schema"`
	At       time.Time                `json:"at"`
	Hosts    map[string]HostMemory    `json:"hosts"`
	GPUs     map[string]GPUMemory     `json:"gpus"` // by host/uuid, or host/#index
	Bookings map[string]BookingMemory `json:"bookings"`
}

// HostMemory is what was last announced of a host.
type HostMemory struct {
	State    board.HostState `json:"state"`
	LastNews time.Time       `json:"last_news"`
}

// GPUMemory is what was last known of a GPU. News that a host does not send
// changes nothing in it.
type GPUMemory struct {
	Index int         `json:"index"`
	State board.State `json:"state"`
	// Since is the snapshot that first showed this state.
	Since time.Time `json:"since"`
	// UsedSince is when the use began that is going on, or that has just ended.
	UsedSince time.Time `json:"used_since"`
	Users     []string  `json:"users,omitempty"`
}

// BookingMemory is what was announced of a booking.
type BookingMemory struct {
	Until   time.Time `json:"until"`
	Started bool      `json:"started,omitempty"`
	Ending  bool      `json:"ending,omitempty"`
	Ended   bool      `json:"ended,omitempty"`
	NoShow  bool      `json:"no_show,omitempty"`
}

func gpuKey(host string, g *board.GPU) string {
	if g.UUID != "" {
		return host + "/" + safe(g.UUID, maxName)
	}
	return host + "/#" + g.Label()
}

// used reports whether somebody works on, or blocks, a GPU in this state.
func used(s board.State) bool {
	return s == board.Busy || s == board.InUse || s == board.Contested || s == board.Stuck
}

// gpus compares the GPUs of a host. While there is no news they stay what they were.
func (d *diff) gpus(h *board.Host) {
	fresh := h.State == board.Up
	seen := map[string]bool{}
	for g := range h.Rows() {
		if g.Missing && g.Last == nil {
			continue // a place that was always empty
		}
		key := gpuKey(h.Name, g)
		if seen[key] {
			continue
		}
		seen[key] = true
		was, known := d.prev.GPUs[key]
		// A slice is lost with its GPU, of which that is said.
		if !fresh || g.State == board.Unknown || g.State == board.Drained || g.Slice != nil && g.State == board.Lost {
			if known {
				d.next.GPUs[key] = was
			}
			continue
		}
		d.next.GPUs[key] = d.gpu(h, g, was, known)
	}
}

// gpu compares one GPU that there is news of.
func (d *diff) gpu(h *board.Host, g *board.GPU, was GPUMemory, known bool) GPUMemory {
	index := g.Index
	is := GPUMemory{Index: index, State: g.State, Since: h.SnapshotAt, UsedSince: was.UsedSince, Users: was.Users}
	if known && was.State == g.State {
		is.Since = was.Since
	}
	say := func(kind Kind, cause time.Time, users []string, summary string) {
		d.emit(Event{Kind: kind, Host: h.Name, GPU: &index, UUID: g.UUID, At: h.SnapshotAt, Users: users,
			Summary: name(h, g) + " " + summary}, cause)
	}
	lost := known && was.State == board.Lost
	switch {
	case g.State == board.Lost && known && !lost:
		why := g.HealthReason
		switch {
		case g.Missing:
			why = "the driver does not list it any more"
			if was.Index != index {
				why += " (it was number " + strconv.Itoa(was.Index) + ")"
			}
		case why == "":
			why = "the driver reports an error"
		}
		say(GPULost, was.Since, users(g, was.Users), "is lost: "+why)
	case g.State != board.Lost && lost:
		say(GPUBack, was.Since, nil, "is back")
	}
	if len(g.Slices) > 0 {
		return is // the rest is said of its slices
	}
	if g.State == board.Stuck && known && was.State != board.Stuck {
		say(GPUStuck, was.Since, users(g, was.Users), "holds memory that no living process owns")
	}

	switch {
	case used(g.State):
		if is.UsedSince.IsZero() {
			is.UsedSince = h.SnapshotAt
			if !g.Since.IsZero() && g.Since.Before(is.UsedSince) {
				is.UsedSince = g.Since
			}
		}
		if now := users(g, nil); len(now) > 0 {
			is.Users = now
		}
	case g.State == board.Free && !is.UsedSince.IsZero():
		if h.SnapshotAt.Sub(is.Since) < SettledAfter {
			break
		}
		if span := is.Since.Sub(is.UsedSince); span >= LongUse {
			who := ""
			if len(is.Users) > 0 {
				who = ", used by " + strings.Join(is.Users, ", ")
			}
			say(GPUFreed, is.Since, is.Users, "is free after "+board.Span(span.Truncate(time.Minute))+who)
		}
		is.UsedSince, is.Users = time.Time{}, nil
	case g.State != board.Free:
		is.UsedSince, is.Users = time.Time{}, nil
	}
	return is
}

// users are the people on a GPU, each once, in order; before when nobody is listed.
func users(g *board.GPU, before []string) []string {
	var list []string
	for i := range g.Processes {
		p := &g.Processes[i]
		who := p.Person
		if who == "" {
			who = p.User
		}
		if who != "" && p.Type.Computes() && !slices.Contains(list, who) && len(list) < maxUsers {
			list = append(list, safe(who, maxName))
		}
	}
	if len(list) == 0 {
		return before
	}
	slices.Sort(list)
	return list
}

// plain reports whether a text is printable ASCII, as names are.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// safe makes a text of somebody else fit to print anywhere and to keep: what a
// terminal would obey or an eye would not see becomes a visible escape.
func safe(s string, most int) string {
	if plain(s) && len(s) <= most {
		return s
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		s = strconv.QuoteToGraphic(s)
		s = s[1 : len(s)-1]
	}
	if len(s) <= most {
		return s
	}
	most -= len("…")
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}
