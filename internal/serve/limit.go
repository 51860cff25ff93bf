package serve

import (
	"net/netip"
	"sync"
	"time"
)

// A limiter lets each key do something a number of times at once, and then once
// in a while. It is for keys that strangers choose, so it forgets some when
// there are very many.
type limiter struct {
	now   func() time.Time
	burst int
	every time.Duration // until one more is allowed

	mu   sync.Mutex
	used map[string]usage
}

// maxKeys bounds what a limiter remembers.
const maxKeys = 10_000

type usage struct {
	n  float64 // of the burst
	at time.Time
}

func newLimiter(now func() time.Time, burst int, every time.Duration) *limiter {
	return &limiter{now: now, burst: burst, every: every, used: map[string]usage{}}
}

// take counts once more for every key, or for none of them and says how long to
// wait before it is allowed.
func (l *limiter) take(keys ...string) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, key := range keys {
		if over := l.present(key, now).n + 1 - float64(l.burst); over > 0 {
			wait = max(wait, time.Duration(over*float64(l.every)))
		}
	}
	if wait > 0 {
		return wait
	}
	for _, key := range keys {
		u := l.present(key, now)
		u.n++
		if _, known := l.used[key]; !known && len(l.used) >= maxKeys {
			l.forget(now)
		}
		l.used[key] = u
	}
	return 0
}

// giveBack undoes a take of these keys.
func (l *limiter) giveBack(keys ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		u := l.present(key, l.now())
		u.n = max(0, u.n-1)
		l.used[key] = u
	}
}

func (l *limiter) present(key string, now time.Time) usage {
	u := l.used[key]
	u.n = max(0, u.n-max(0, float64(now.Sub(u.at))/float64(l.every)))
	u.at = now
	return u
}

// forget makes room for many more, so that it is not called for each: first go
// the keys that have done nothing for long, then those that did something once,
// then anyone.
func (l *limiter) forget(now time.Time) {
	for _, most := range []float64{0, 1, float64(l.burst)} {
		for key := range l.used {
			if len(l.used) <= maxKeys/2 {
				return
			}
			if l.present(key, now).n <= most {
				delete(l.used, key)
			}
		}
	}
}

// addressKey is what counts as one client: an IPv4 address, or a network of
// IPv6, of which one machine has as many addresses as it likes.
func addressKey(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}
