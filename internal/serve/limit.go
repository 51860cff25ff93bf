package serve

import (
	"maps"
	"net/netip"
	"sync"
	"time"
)

// A limiter lets each key do something burst times at once, and then once in each pause.
type limiter struct {
	now   func() time.Time
	burst int
	every time.Duration // until one more is allowed

	mu   sync.Mutex
	used map[string]time.Time // by key: when all that it did no longer counts
}

// maxKeys bounds what a limiter remembers: strangers choose the keys.
const maxKeys = 10_000

func newLimiter(now func() time.Time, burst int, every time.Duration) *limiter {
	return &limiter{now: now, burst: burst, every: every, used: map[string]time.Time{}}
}

// take counts once more for every key, or for none and returns how long to wait.
func (l *limiter) take(keys ...string) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		wait = max(wait, l.present(key)+l.every-time.Duration(l.burst)*l.every)
	}
	if wait > 0 {
		return wait
	}
	if len(l.used) >= maxKeys { // first go the keys of which nothing counts any more, else all
		maps.DeleteFunc(l.used, func(key string, _ time.Time) bool { return l.present(key) == 0 })
	}
	if len(l.used) >= maxKeys {
		clear(l.used)
	}
	for _, key := range keys {
		l.used[key] = l.now().Add(l.present(key) + l.every)
	}
	return 0
}

// giveBack undoes a take of a key.
func (l *limiter) giveBack(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used[key] = l.now().Add(l.present(key) - l.every)
}

// present is how long what a key did still counts.
func (l *limiter) present(key string) time.Duration { return max(0, l.used[key].Sub(l.now())) }

// addressKey is what counts as one client: an IPv4 address, or an IPv6 network.
func addressKey(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if network, err := a.Prefix(64); err == nil { // an IPv4 address has no prefix of that length
		return network.String()
	}
	return a.String()
}
