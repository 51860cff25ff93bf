package dropbox

import (
	"sync"
	"time"
)

// maxSources bounds the memory for addresses that failed to log in.
const maxSources = 4096

// gate counts who is inside and who has failed too often.
type gate struct {
	limits Limits
	now    func() time.Time

	mu         sync.Mutex
	total      int
	handshakes int
	sources    map[string]int
	hosts      map[string]int
	failures   map[string]*failures
}

type failures struct {
	count int
	since time.Time
}

func newGate(l Limits, now func() time.Time) *gate {
	return &gate{limits: l, now: now, sources: map[string]int{}, hosts: map[string]int{}, failures: map[string]*failures{}}
}

// enter lets a connection in, or says why not.
func (g *gate) enter(source string) (leave func(), why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.blocked(source):
		return nil, "too many failed logins"
	case g.total >= g.limits.Connections:
		return nil, "too many connections"
	case g.handshakes >= g.limits.Handshakes:
		return nil, "too many logins at once"
	case g.sources[source] >= g.limits.PerSource:
		return nil, "too many connections from this address"
	}
	g.total++
	g.handshakes++
	g.sources[source]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.total--
		less(g.sources, source)
	}, ""
}

// shaken ends the login of a connection that was let in.
func (g *gate) shaken(source string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handshakes--
	if ok {
		return
	}
	f := g.failures[source]
	if f == nil {
		if len(g.failures) >= maxSources {
			for old, f := range g.failures {
				if g.now().Sub(f.since) >= g.limits.AuthWindow {
					delete(g.failures, old)
				}
			}
			if len(g.failures) >= maxSources {
				return
			}
		}
		f = &failures{since: g.now()}
		g.failures[source] = f
	}
	if g.now().Sub(f.since) >= g.limits.AuthWindow {
		*f = failures{since: g.now()}
	}
	if f.count++; f.count == g.limits.AuthFailures {
		f.since = g.now() // turned away for a whole window from here
	}
}

func (g *gate) blocked(source string) bool {
	f := g.failures[source]
	if f == nil {
		return false
	}
	if g.now().Sub(f.since) >= g.limits.AuthWindow {
		delete(g.failures, source)
		return false
	}
	return f.count >= g.limits.AuthFailures
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
		less(g.hosts, host)
	}, true
}

func less(counts map[string]int, key string) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}
