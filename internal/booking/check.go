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

// KnownHost is what is known about a host that bookings are checked against.
type KnownHost struct {
	// GPUs is how many there are; 0 when nobody knows, and then every index passes.
	GPUs int
	// UUIDs are those of its GPUs and of their MIG slices. Empty when nobody knows.
	UUIDs []string
}

// Check names the bookings still to be kept at now that are for a host or a GPU
// that is not there. Such a booking protects nothing, and the one who made it
// believes that it does.
func Check(cal *Calendar, hosts map[string]KnownHost, now time.Time) []snapshot.Problem {
	var problems []snapshot.Problem
	names := slices.Sorted(maps.Keys(hosts))
	for _, b := range cal.Bookings {
		if !b.Until.IsZero() && !b.Until.After(now) {
			continue
		}
		p := snapshot.Problem{Host: b.Host, File: cal.File, Line: b.Line, Col: b.Col}
		host, known := hosts[b.Host]
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
			if len(host.UUIDs) == 0 || slices.Contains(host.UUIDs, b.Target.UUID) {
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
