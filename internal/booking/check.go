package booking

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/spelling"
)

// A Fleet is what the board says about the hosts that can be booked. The zero
// value knows nothing.
type Fleet struct {
	Hosts map[string]KnownHost
	// Cards is the number that the GPU of a booking has now, by host and booking
	// ID, as in "gpu01/ID". A booking by number stays with its GPU when the
	// numbers change.
	Cards map[string]int
}

// KnownHost is what is known about one host.
type KnownHost struct {
	// GPUs is how many there are. 0 means that nobody knows, and every index passes.
	GPUs int
	// UUIDs has the index of each GPU by its UUID. The UUID of a MIG slice has the
	// index of its GPU.
	UUIDs map[string]int
	// Incomplete is true if a slice has no UUID, so that any UUID may be its.
	Incomplete bool
}

// Index returns the index that the GPU of a booking has now, or the index of the
// GPU that a booked slice is a part of. It is false for a whole host, and for a
// UUID that is not known.
func (f Fleet) Index(b Booking) (index int, ok bool) {
	switch {
	case b.Target.All:
		return 0, false
	case b.Target.UUID != "":
		index, ok = f.Hosts[b.Host].UUIDs[b.Target.UUID]
		return index, ok
	}
	if index, ok = f.Cards[b.Host+"/"+b.ID]; ok {
		return index, true
	}
	return b.Target.Index, true
}

// Check reports the bookings that are not over at now and are for a host or a GPU
// that does not exist. Such a booking protects nothing.
func Check(cal *Calendar, fleet Fleet, now time.Time) []snapshot.Problem {
	var problems []snapshot.Problem
	names := slices.Sorted(maps.Keys(fleet.Hosts))
	for _, b := range cal.Bookings {
		if b.OverAt(now) {
			continue
		}
		p := snapshot.Problem{Host: b.Host, File: cal.File, Line: b.Line, Col: b.Col}
		host, known := fleet.Hosts[b.Host]
		switch {
		case !known:
			p.Code = "booking:unknown-host"
			p.Message = fmt.Sprintf("%s books the host %s, which does not exist", quote(b.Written), quote(b.Host))
			if near := similarHost(b.Host, names); near != "" {
				p.Message += fmt.Sprintf(": did you mean %s?", quote(near))
			}
		case b.Target.All:
			continue
		case b.Target.UUID != "":
			if _, there := host.UUIDs[b.Target.UUID]; there || len(host.UUIDs) == 0 || host.Incomplete {
				continue
			}
			p.Code = "booking:unknown-gpu"
			p.Message = fmt.Sprintf("%s books %s, which is not in %s: it may have been moved or replaced", quote(b.Written), b.Target.UUID, quote(b.Host))
		default:
			if host.GPUs == 0 || b.Target.Index < host.GPUs {
				continue
			}
			index := b.Target.Index
			p.GPU = &index
			p.Code = "booking:unknown-gpu"
			p.Message = fmt.Sprintf("%s books GPU %d of %s, which has %d, counted from 0", quote(b.Written), index, quote(b.Host), host.GPUs)
		}
		if problems = append(problems, p); len(problems) == MaxProblems {
			break
		}
	}
	return problems
}

// similarHost looks for a host that differs by a domain or by a slip of the finger.
func similarHost(name string, names []string) string {
	short, _, _ := strings.Cut(name, ".")
	for _, n := range names {
		if s, _, _ := strings.Cut(n, "."); s == short {
			return n
		}
	}
	return spelling.Nearest(name, names, 2)
}
