package dropbox

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// loginGrace is how long a connection may take to log in before it can be closed in
// favour of a new one when a limit is reached.
const loginGrace = 2 * time.Second

// limiter limits connections. Those that have not logged in are limited by address,
// so that one address cannot lock out the others; sessions are limited by host.
type limiter struct {
	limits Limits
	now    func() time.Time

	mu      sync.Mutex
	total   int            // connections
	pending []*attempt     // of them not logged in, oldest first
	hosts   map[string]int // sessions, by host
}

// attempt is one connection that was accepted.
type attempt struct {
	source string
	since  time.Time
	abort  func()
	gone   bool // no longer counted
}

func newLimiter(limits Limits, now func() time.Time) *limiter {
	return &limiter{limits: limits, now: now, hosts: map[string]int{}}
}

// accept admits a connection, or says why not. At a limit it first closes the oldest
// connection that has not logged in: of this source if the limit is per source, else of
// any. abort closes the connection and must not block.
func (l *limiter) accept(source string, abort func()) (_ *attempt, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := 0
	for _, a := range l.pending {
		if a.source == source {
			own++
		}
	}
	switch {
	case own >= l.limits.SourceHandshakes && !l.dropOldest(func(a *attempt) bool { return a.source == source }):
		return nil, "too many logins at once from this address"
	case len(l.pending) >= l.limits.Handshakes && !l.dropOldest(anySource):
		return nil, "too many logins at once"
	case l.total >= l.limits.Connections && !l.dropOldest(anySource):
		return nil, "too many connections"
	}
	a := &attempt{source: source, since: l.now(), abort: abort}
	l.total++
	l.pending = append(l.pending, a)
	return a, ""
}

func anySource(*attempt) bool { return true }

// dropOldest closes the oldest of these connections if it has not logged in within
// loginGrace, and reports whether it did.
func (l *limiter) dropOldest(these func(*attempt) bool) bool {
	i := slices.IndexFunc(l.pending, these)
	if i < 0 || l.now().Sub(l.pending[i].since) < loginGrace {
		return false
	}
	a := l.pending[i]
	l.pending = slices.Delete(l.pending, i, i+1)
	l.total--
	a.gone = true
	a.abort()
	return true
}

// loginEnded takes a connection out of those that have not logged in.
func (l *limiter) loginEnded(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = slices.DeleteFunc(l.pending, func(other *attempt) bool { return other == a })
}

// closed takes a connection out of all counts.
func (l *limiter) closed(a *attempt) {
	l.loginEnded(a)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !a.gone {
		a.gone = true
		l.total--
	}
}

// acceptHost counts the sessions of one host and reports whether there may be one more.
func (l *limiter) acceptHost(host string) (leave func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts[host] >= l.limits.PerHost {
		return nil, false
	}
	l.hosts[host]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.hosts[host]--; l.hosts[host] <= 0 {
			delete(l.hosts, host)
		}
	}, true
}

// source is what counts as one address: an IPv4 address, or an IPv6 /64, because one
// machine can use every address of its /64.
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
