package booking

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/spelling"
)

// A Fleet describes the hosts that can be booked, as the board shows them. The zero
// value has none.
type Fleet struct {
	Hosts map[string]KnownHost
	// Cards is the present index of the GPU of a booking, by host and booking ID, as in
	// "gpu01/ID". A booking by index stays with its GPU when the indices change.
	Cards map[string]int
}

// KnownHost is what is known about one host.
type KnownHost struct {
	// GPUs is their number. 0 means unknown, and every index is accepted.
	GPUs int
	// UUIDs has the index of each GPU by its UUID. The UUID of a MIG slice has the
	// index of its GPU.
	UUIDs map[string]int
	// Incomplete is true if a slice has no known UUID, so that every UUID is accepted.
	Incomplete bool
}

// Index returns the present index of the GPU of a booking; for a slice, that of its GPU.
// ok is false for a whole host and for an unknown UUID.
func (f Fleet) Index(b Booking) (index int, ok bool) {
	switch {
	case b.Target.All:
		return 0, false
	case b.Target.UUID != "":
		known := f.Hosts[b.Host].UUIDs
		if index, ok = known[b.Target.UUID]; !ok {
			index, ok = known[NearUUID(b.Target.UUID, maps.Keys(known))]
		}
		return index, ok
	}
	if index, ok = f.Cards[b.Host+"/"+b.ID]; ok {
		return index, true
	}
	return b.Target.Index, true
}

// Check reports the bookings that are not over at now and are for no existing host or GPU.
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
			p.Message = fmt.Sprintf("%s books %s, which is not in %s: ", quote(b.Written), b.Target.UUID, quote(b.Host))
			if near := NearUUID(b.Target.UUID, maps.Keys(host.UUIDs)); near != "" {
				p.Message += "write " + near + held(slot{b.Host, Target{UUID: near, Index: -1}})
			} else {
				p.Message += "it may have been moved or replaced"
			}
		default:
			if host.GPUs == 0 || b.Target.Index < host.GPUs {
				continue
			}
			p.GPU = new(b.Target.Index)
			p.Code = "booking:unknown-gpu"
			p.Message = fmt.Sprintf("%s books GPU %d of %s, which has %d, counted from 0", quote(b.Written), b.Target.Index, quote(b.Host), host.GPUs)
		}
		if problems = append(problems, p); len(problems) == MaxProblems {
			break
		}
	}
	return problems
}

// NearUUID is the UUID of a GPU that one wrong letter makes into this one, which no GPU has; "" for none.
func NearUUID(written string, known iter.Seq[string]) (near string) {
	for uuid := range known {
		different := 0
		for i := 0; i < len(uuid) && len(uuid) == len(written) && different < 2; i++ {
			if uuid[i] != written[i] {
				different++
			}
		}
		if different == 1 && (near == "" || uuid < near) {
			near = uuid
		}
	}
	return near
}

// similarHost looks for a host with another domain or a slightly different name.
func similarHost(name string, names []string) string {
	short, _, _ := strings.Cut(name, ".")
	for _, n := range names {
		if s, _, _ := strings.Cut(n, "."); s == short {
			return n
		}
	}
	return spelling.Nearest(name, names, 2)
}
