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
	// loginGrace is how long a connection may take to log in before it can be closed
	// in favour of a new one when a limit is reached.
	loginGrace = 2 * time.Second
	// slowPause is the time between two connections from an address with too many
	// failed logins.
	slowPause = time.Second
)

// limiter limits connections. Those that have not logged in are limited by address,
// so that one address cannot lock out the others; sessions are limited by host.
type limiter struct {
	limits Limits
	now    func() time.Time
	log    *slog.Logger

	mu         sync.Mutex
	total      int                   // connections
	handshakes int                   // of them not logged in
	pending    map[string][]*attempt // connections not logged in, by source, oldest first
	hosts      map[string]int        // sessions, by host
	failures   map[string]*failures
}

// attempt is one connection that was accepted.
type attempt struct {
	source string
	since  time.Time
	abort  func()
	gone   bool // no longer counted
}

// failures of one source within a window.
type failures struct {
	count    int
	since    time.Time
	accepted time.Time // when a connection was last accepted after too many failures
}

// The ways in which a login ends.
type outcome int

const (
	loggedIn outcome = iota
	failed           // a wrong key, or silence until the time was over
	broken           // the connection was lost, which is no fault of the node
)

func newLimiter(limits Limits, now func() time.Time, log *slog.Logger) *limiter {
	return &limiter{limits: limits, now: now, log: log, pending: map[string][]*attempt{}, hosts: map[string]int{}, failures: map[string]*failures{}}
}

// accept admits a connection, or says why not. At a limit it first closes the
// oldest connection that has not logged in: of this source if the limit is per
// source, else of the source with the most. abort closes the connection and must
// not block.
func (l *limiter) accept(source string, abort func()) (_ *attempt, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	f := l.failing(source, now)
	switch {
	case f != nil && now.Sub(f.accepted) < slowPause:
		return nil, "too many failed logins from this address"
	case len(l.pending[source]) >= l.limits.SourceHandshakes && !l.drop(source, now):
		return nil, "too many logins at once from this address"
	case l.handshakes >= l.limits.Handshakes && !l.drop(l.busiest(), now):
		return nil, "too many logins at once"
	case l.total >= l.limits.Connections && !l.drop(l.busiest(), now):
		return nil, "too many connections"
	}
	if f != nil {
		f.accepted = now
	}
	a := &attempt{source: source, since: now, abort: abort}
	l.total++
	l.handshakes++
	l.pending[source] = append(l.pending[source], a)
	return a, ""
}

// busiest is the source with the most connections that have not logged in; of
// several, the one with the oldest. "" means that there is none.
func (l *limiter) busiest() string {
	busiest := ""
	for source, own := range l.pending {
		most := l.pending[busiest]
		if len(own) > len(most) || len(own) == len(most) && own[0].since.Before(most[0].since) {
			busiest = source
		}
	}
	return busiest
}

// drop closes the oldest connection of a source that has not logged in within
// loginGrace, and reports whether there was one.
func (l *limiter) drop(source string, now time.Time) bool {
	own := l.pending[source]
	if len(own) == 0 || now.Sub(own[0].since) < loginGrace {
		return false
	}
	a := own[0]
	l.forget(a)
	l.total--
	a.gone = true
	a.abort()
	l.fail(source, now)
	return true
}

// forget removes a connection from those that have not logged in.
func (l *limiter) forget(a *attempt) {
	own := l.pending[a.source]
	i := slices.Index(own, a)
	if i < 0 {
		return
	}
	l.handshakes--
	if len(own) == 1 {
		delete(l.pending, a.source)
		return
	}
	l.pending[a.source] = slices.Delete(own, i, i+1)
}

// loginEnded records how a login ended.
func (l *limiter) loginEnded(a *attempt, how outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.gone {
		return // drop has counted the failure
	}
	l.forget(a)
	if how == failed {
		l.fail(a.source, l.now())
	}
}

// closed takes a connection out of all counts.
func (l *limiter) closed(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.gone {
		return
	}
	a.gone = true
	l.forget(a)
	l.total--
}

func (l *limiter) fail(source string, now time.Time) {
	f := l.failures[source]
	if f == nil {
		if len(l.failures) >= maxSources {
			for old, f := range l.failures {
				if now.Sub(f.since) >= l.limits.AuthWindow {
					delete(l.failures, old)
				}
			}
			if len(l.failures) >= maxSources {
				return
			}
		}
		f = &failures{since: now}
		l.failures[source] = f
	}
	if now.Sub(f.since) >= l.limits.AuthWindow {
		*f = failures{since: now}
	}
	if f.count++; f.count == l.limits.AuthFailures {
		f.since, f.accepted = now, now // slowed down for a whole window from here
		l.log.Warn("slowing an address down: too many failed logins", "from", source, "failures", f.count)
	}
}

// failing returns the failures of a source that has too many of them, else nil.
func (l *limiter) failing(source string, now time.Time) *failures {
	f := l.failures[source]
	if f == nil {
		return nil
	}
	if now.Sub(f.since) >= l.limits.AuthWindow {
		delete(l.failures, source)
		return nil
	}
	if f.count < l.limits.AuthFailures {
		return nil
	}
	return f
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
