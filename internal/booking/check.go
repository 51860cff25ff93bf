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
			p.Message = fmt.Sprintf("%s books GPU %d of %s, which has %d, counted from 0", quote(b.Written),
				b.Target.Index, quote(b.Host), host.GPUs)
		}
		if problems = append(problems, p); len(problems) == MaxProblems {
			break
		}
	}
	return problems
}

// On returns the calendar with the names of the hosts of a fleet. A name stands for the host that differs from it
// by a domain alone. A name that may mean several hosts, such as "gpu01-gpu04", books each of them for [Unreadable].
func (c *Calendar) On(fleet Fleet) *Calendar {
	unknown := func(b Booking) bool { _, known := fleet.Hosts[b.Host]; return !known }
	if len(fleet.Hosts) == 0 || !slices.ContainsFunc(c.Bookings, unknown) {
		return c
	}

	on := *c
	on.Bookings, on.Problems = make([]Booking, 0, len(c.Bookings)), slices.Clone(c.Problems)
	meant := fleet.meant()
	reported := map[string]bool{}
	changed := false
	for _, b := range c.Bookings {
		if !unknown(b) {
			on.Bookings = append(on.Bookings, b)
			continue
		}

		hosts, certain := meant(b.Host)
		switch {
		case b.guess: // reported with its key
		case len(hosts) == 0: // reported by Check
			hosts, certain = []string{b.Host}, true
		case !reported[b.Host] && len(on.Problems) < MaxProblems:
			reported[b.Host] = true
			message := fmt.Sprintf("the host %s is read as %s: write %s", quote(b.Host), hosts[0], quote(hosts[0]))
			if !certain {
				message = "the host " + quote(b.Host) + mayBe(hosts)
			}
			on.Problems = append(on.Problems, snapshot.Problem{
				Code: "booking:host", Message: message, Host: hosts[0], File: c.File, Line: b.Line, Col: b.Col,
			})
		}
		changed = changed || b.guess || hosts[0] != b.Host

		if !certain {
			b.Disown()
			b.guess = true
			if digits(b.Host[strings.LastIndexAny(b.Host, "-.")+1:]) { // which may be the number of a GPU
				b.Target = Target{All: true, Index: -1}
			}
		}
		for _, host := range hosts {
			if b.Host = host; len(on.Bookings) < 2*MaxBookings {
				on.Bookings = append(on.Bookings, b)
			}
		}
	}
	if !changed {
		return c
	}
	slices.SortStableFunc(on.Bookings, func(a, b Booking) int { return inOrder(&a, &b) })
	on.Bookings = slices.CompactFunc(on.Bookings, func(a, b Booking) bool {
		return a.guess && a.content() == b.content()
	})
	return &on
}

// meant returns a function that finds the hosts which a name may mean that is not a host's, and whether that
// is certain.
func (f Fleet) meant() func(name string) (hosts []string, certain bool) {
	byLabel := map[string][]string{}
	for _, host := range slices.Sorted(maps.Keys(f.Hosts)) {
		label, _, _ := strings.Cut(host, ".")
		byLabel[label] = append(byLabel[label], host)
	}
	return func(name string) (hosts []string, certain bool) {
		label, domain, _ := strings.Cut(name, ".")
		for _, host := range byLabel[label] {
			if strings.HasPrefix(host, name+".") || strings.HasPrefix(name, host+".") {
				hosts = append(hosts, host)
			}
		}
		if len(hosts) > 0 {
			return hosts, len(hosts) == 1 && !digits(domain)
		}

		// A range: each hyphen may be the one between its ends.
		for i := range len(label) {
			if label[i] != '-' {
				continue
			}
			for last := range strings.SplitSeq(label[i+1:], "-") {
				names := nameRange(label[:i], last)
				if digits(last) {
					names = append(names, label[:i]) // "gpu01-0" may be its GPU 0
				}
				for _, one := range names {
					hosts = append(hosts, byLabel[one]...)
				}
			}
		}
		slices.Sort(hosts)
		return slices.Compact(hosts), false
	}
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

// Near returns the host that an unknown name is a letter or two away from, or another domain; "" for none.
func (f Fleet) Near(name string) string { return similarHost(name, slices.Sorted(maps.Keys(f.Hosts))) }

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
