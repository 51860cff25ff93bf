package dropbox

import (
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// maxSources bounds the memory for addresses that failed to log in.
	maxSources = 4096
	// loginGrace is how long a connection may take to log in, however many wait.
	// After that it gives way to a new one where a limit is reached.
	loginGrace = 2 * time.Second
	// slowPause is the time between two connections of an address that failed too often.
	slowPause = time.Second
)

// gate counts who is inside and who has failed too often. Whoever has not logged
// in is limited by address first, so that one address cannot keep the others out;
// whoever has is limited by host.
type gate struct {
	limits Limits
	now    func() time.Time
	log    *slog.Logger

	mu         sync.Mutex
	total      int                 // connections
	handshakes int                 // of them not logged in
	waiting    map[string][]*visit // those by source, oldest first
	hosts      map[string]int      // the others by host
	failures   map[string]*failures
}

// visit is one connection that was let in.
type visit struct {
	source string
	since  time.Time
	hangUp func()
	gone   bool // it is no longer counted
}

// failures of one source within a window.
type failures struct {
	count int
	since time.Time
	let   time.Time // when a connection was let in since there are too many
}

// The ways in which a login ends.
type outcome int

const (
	loggedIn outcome = iota
	failed           // a wrong key, or silence until the time was over
	broken           // the line broke, which happens to honest nodes
)

func newGate(l Limits, now func() time.Time, log *slog.Logger) *gate {
	return &gate{limits: l, now: now, log: log, waiting: map[string][]*visit{}, hosts: map[string]int{}, failures: map[string]*failures{}}
}

// enter lets a connection in, or says why not. Where there is no room it drops
// the oldest connection that has not logged in, of this source if the limit is
// the source's, else of the source that has most of them. hangUp ends the
// connection and must not wait.
func (g *gate) enter(source string, hangUp func()) (_ *visit, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	f := g.failing(source, now)
	switch {
	case f != nil && now.Sub(f.let) < slowPause:
		return nil, "too many failed logins from this address"
	case len(g.waiting[source]) >= g.limits.SourceHandshakes && !g.drop(source, now):
		return nil, "too many logins at once from this address"
	case g.handshakes >= g.limits.Handshakes && !g.drop(g.busiest(), now):
		return nil, "too many logins at once"
	case g.total >= g.limits.Connections && !g.drop(g.busiest(), now):
		return nil, "too many connections"
	}
	if f != nil {
		f.let = now
	}
	v := &visit{source: source, since: now, hangUp: hangUp}
	g.total++
	g.handshakes++
	g.waiting[source] = append(g.waiting[source], v)
	return v, ""
}

// busiest is the source with the most connections that have not logged in; among
// equals the one that has waited longest. "" means that there is none.
func (g *gate) busiest() string {
	busiest := ""
	for source, own := range g.waiting {
		most := g.waiting[busiest]
		if len(own) > len(most) || len(own) == len(most) && own[0].since.Before(most[0].since) {
			busiest = source
		}
	}
	return busiest
}

// drop hangs up on the oldest connection of a source that has not logged in, and
// reports whether there was one that had the time to.
func (g *gate) drop(source string, now time.Time) bool {
	own := g.waiting[source]
	if len(own) == 0 || now.Sub(own[0].since) < loginGrace {
		return false
	}
	v := own[0]
	g.forget(v)
	g.total--
	v.gone = true
	v.hangUp()
	g.fail(source, now)
	return true
}

// forget takes a connection out of those that have not logged in.
func (g *gate) forget(v *visit) {
	own := g.waiting[v.source]
	i := slices.Index(own, v)
	if i < 0 {
		return
	}
	g.handshakes--
	if len(own) == 1 {
		delete(g.waiting, v.source)
		return
	}
	g.waiting[v.source] = slices.Delete(own, i, i+1)
}

// end notes how a login ended.
func (g *gate) end(v *visit, how outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v.gone {
		return // dropping it counted as a failure already
	}
	g.forget(v)
	if how == failed {
		g.fail(v.source, g.now())
	}
}

// leave ends a connection.
func (g *gate) leave(v *visit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v.gone {
		return
	}
	v.gone = true
	g.forget(v)
	g.total--
}

func (g *gate) fail(source string, now time.Time) {
	f := g.failures[source]
	if f == nil {
		if len(g.failures) >= maxSources {
			for old, f := range g.failures {
				if now.Sub(f.since) >= g.limits.AuthWindow {
					delete(g.failures, old)
				}
			}
			if len(g.failures) >= maxSources {
				return
			}
		}
		f = &failures{since: now}
		g.failures[source] = f
	}
	if now.Sub(f.since) >= g.limits.AuthWindow {
		*f = failures{since: now}
	}
	if f.count++; f.count == g.limits.AuthFailures {
		f.since, f.let = now, now // slowed down for a whole window from here
		g.log.Warn("slowing an address down: too many failed logins", "from", source, "failures", f.count)
	}
}

// failing returns the failures of a source that has too many, else nil.
func (g *gate) failing(source string, now time.Time) *failures {
	f := g.failures[source]
	if f == nil {
		return nil
	}
	if now.Sub(f.since) >= g.limits.AuthWindow {
		delete(g.failures, source)
		return nil
	}
	if f.count < g.limits.AuthFailures {
		return nil
	}
	return f
}

// enterHost counts the sessions of one host.
func (g *gate) enterHost(host string) (leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hosts[host] >= g.limits.PerHost {
		return nil, false
	}
	g.hosts[host]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.hosts[host]--; g.hosts[host] <= 0 {
			delete(g.hosts, host)
		}
	}, true
}

// source is what counts as one address: an IPv4 address, or a /64 of IPv6, of
// which one machine has as many addresses as it likes.
func source(addr net.Addr) string {
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return addr.String()
	}
	from := at.Addr().Unmap().WithZone("")
	if from.Is6() {
		return netip.PrefixFrom(from, 64).Masked().String()
	}
	return from.String()
}
