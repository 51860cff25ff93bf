package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"gpuboard/internal/snapshot"
)

// TombstoneFor is how long a host that its source no longer names is still shown.
const TombstoneFor = 24 * time.Hour

// An answer with fewer of the last known hosts is not accepted.
const shrinkTenths = 7

// A QueryFunc asks one source which hosts there are. An error means that the
// source did not answer; [Consul.Query] is one.
type QueryFunc func(ctx context.Context) (Answer, error)

// A Resolver answers which hosts exist, given the last known ones: a source
// that does not answer, or suddenly names none or far fewer hosts, does not remove
// hosts from the board. The zero value queries nothing.
type Resolver struct {
	// Consul and Drops are queried when they are set. The last known hosts of a
	// source that is not queried are kept, and not shown.
	Consul, Drops QueryFunc
	// List is the hosts of the configuration ([List]). A host that is removed from it
	// is gone at once.
	List []Host
	// AcceptShrink accepts an answer that lacks many hosts. An answer without any
	// hosts is never accepted.
	AcceptShrink bool
}

// Resolve queries all sources and merges their answers with what the last inventory knew.
// Errors are among the problems of the inventory.
func (r *Resolver) Resolve(ctx context.Context, now time.Time, last Known) Inventory {
	now = now.UTC().Truncate(time.Millisecond)
	last = last.usable(now)
	inv := Inventory{AsOf: now, Known: maps.Clone(last)}
	parts := [][]Host{r.List}
	for _, s := range []struct {
		source source
		query  QueryFunc
	}{{fromConsul, r.Consul}, {fromDrops, r.Drops}} {
		if s.query == nil {
			continue
		}
		answer, err := s.query(ctx)
		kept, problems := r.reconcile(s.source, last[s.source], answer, err, now)
		inv.Problems = append(inv.Problems, problems...)
		inv.Known[s.source] = kept
		part := make([]Host, len(kept))
		for i, h := range kept {
			part[i] = h.Host
			if h.GoneSince.IsZero() && h.SeenAt.Before(inv.AsOf) {
				inv.AsOf = h.SeenAt
			}
		}
		parts = append(parts, part)
	}
	inv.Hosts = merge(parts...)
	return inv
}

// reconcile merges the answer of one source with its last known hosts.
func (r *Resolver) reconcile(
	source source, last []keptHost, a Answer, asked error, now time.Time,
) ([]keptHost, []snapshot.Problem) {
	problems := slices.Clone(a.Problems)
	complain := func(code, format string, args ...any) {
		problems = append(problems, problem(code, "", format, args...))
	}
	who := source.name()
	var live, gone []keptHost
	for _, h := range last {
		switch {
		case h.GoneSince.IsZero():
			live = append(live, h)
		case now.Sub(h.GoneSince) < TombstoneFor:
			gone = append(gone, h)
		}
	}
	if asked != nil {
		hint := ""
		if h, ok := errors.AsType[interface {
			error
			Hint() string
		}](asked); ok && h.Hint() != "" {
			hint = ": " + h.Hint()
		}
		complain("discovery:unreachable", "%s did not answer (%v); %s%s", who, asked, known(live, now), hint)
		return append(live, gone...), problems
	}
	for _, datacenter := range slices.Sorted(maps.Keys(a.Missing)) {
		there := slices.DeleteFunc(slices.Clone(live), func(h keptHost) bool { return h.Datacenter != datacenter })
		complain("discovery:unreachable", "datacenter %s did not answer (%s); %s",
			datacenter, a.Missing[datacenter], known(there, now))
	}
	if len(a.Hosts) == 0 {
		if source == fromConsul || len(live) > 0 {
			complain("discovery:empty", "%s returned no hosts%s; %s", who, source.emptyHint(), known(live, now))
		}
		return append(live, gone...), problems
	}

	named := map[string]bool{}
	kept := make([]keptHost, 0, len(a.Hosts)+len(live))
	for _, h := range a.Hosts {
		named[h.Name] = true
		h.GoneSince = time.Time{}
		kept = append(kept, keptHost{Host: h, SeenAt: now})
	}
	expected, lacking := 0, []keptHost{}
	for _, h := range live {
		_, silent := a.Missing[h.Datacenter]
		switch {
		case silent && h.Datacenter != "":
			if !named[h.Name] {
				kept = append(kept, h)
			}
			continue
		case !named[h.Name]:
			lacking = append(lacking, h)
		}
		expected++
	}
	// A single host may always leave, although it is a large share of a small cluster.
	shrunk := len(lacking) > 1 && (expected-len(lacking))*10 < expected*shrinkTenths
	if shrunk && !r.AcceptShrink {
		complain("discovery:shrunk",
			"%s returned only %d of %d known hosts; the others are kept as they were %s ago, until you accept the shorter "+
				"list (--accept-shrink)",
			who, expected-len(lacking), expected, snapshot.Length(now.Sub(oldest(lacking))))
		kept = append(kept, lacking...)
	} else {
		for _, h := range lacking {
			h.GoneSince, h.Check, h.CheckOutput = now, "", ""
			kept = append(kept, h)
		}
	}
	for _, h := range gone {
		if !named[h.Name] {
			kept = append(kept, h)
		}
	}
	return bound(kept), problems
}

// bound sorts by name, and drops the last ones that exceed the limit: those that are gone.
func bound(kept []keptHost) []keptHost {
	kept = kept[:min(len(kept), 2*MaxHosts)]
	slices.SortStableFunc(kept, func(a, b keptHost) int { return byName(a.Host, b.Host) })
	return slices.CompactFunc(kept, func(a, b keptHost) bool { return a.Name == b.Name })
}

// name is how messages call a source, and emptyHint what may be wrong when it names no hosts.
func (s source) name() string {
	if s == fromDrops {
		return "the drop directory"
	}
	return "Consul"
}

func (s source) emptyHint() string {
	if s == fromDrops {
		return " (is the disk mounted?)"
	}
	return " (is the service's name right, and may the token read it? If there are to be none, leave consul out of " +
		"hosts_from)"
}

// known describes the last known hosts that replace an answer.
func known(hosts []keptHost, now time.Time) string {
	age := snapshot.Length(now.Sub(oldest(hosts)))
	switch len(hosts) {
	case 0:
		return "no hosts are known from before"
	case 1:
		return fmt.Sprintf("the last known host is shown, as it was %s ago", age)
	}
	return fmt.Sprintf("the last known %d hosts are shown, as they were %s ago", len(hosts), age)
}

func oldest(hosts []keptHost) time.Time {
	var t time.Time
	for _, h := range hosts {
		if t.IsZero() || h.SeenAt.Before(t) {
			t = h.SeenAt
		}
	}
	return t
}
