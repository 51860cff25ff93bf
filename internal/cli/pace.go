package cli

import (
	"sync"
	"time"
)

// How changes become generations. A change that somebody made is on the page
// within two seconds. Hundreds of nodes push all the time, and what they push
// is gathered.
const (
	quiet    = 200 * time.Millisecond // a burst of changes has ended
	longest  = time.Second            // a burst that does not end is cut off here
	fastGap  = time.Second            // between the beginnings of two generations
	dropsGap = 5 * time.Second        // between two that nothing but pushes asked for; the interval if that is less
)

// An urgency is how soon a change has to be on the page.
type urgency int

const (
	soon    urgency = iota // somebody changed something: bookings, notices, hosts in Consul
	pushed                 // a node pushed
	urgents                // how many there are
)

// A pace decides when the next generation is due: after a change, and after an
// interval without one. It is safe for use by several goroutines.
type pace struct {
	every time.Duration
	wake  chan struct{} // holds one element after a change

	mu           sync.Mutex
	began, ended time.Time // of the last generation; zero before the first
	retry        bool      // it failed
	first, last  [urgents]time.Time
}

func newPace(every time.Duration) *pace {
	return &pace{every: max(every, time.Second), wake: make(chan struct{}, 1)}
}

// change notes that something changed.
func (p *pace) change(u urgency, at time.Time) {
	p.mu.Lock()
	if p.first[u].IsZero() {
		p.first[u] = at
	}
	p.last[u] = at
	p.mu.Unlock()
	p.nudge()
}

// atOnce makes a generation due now, whatever was before.
func (p *pace) atOnce() {
	p.mu.Lock()
	p.began, p.ended = time.Time{}, time.Time{}
	p.mu.Unlock()
	p.nudge()
}

func (p *pace) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// begin notes that a generation begins: it will show everything that changed
// until now, and what changes while it works is for the next.
func (p *pace) begin(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began, p.retry = at, false
	p.first, p.last = [urgents]time.Time{}, [urgents]time.Time{}
}

func (p *pace) end(at time.Time, failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended, p.retry = at, failed
}

// due is when the next generation should begin. Before the first it is the
// zero time: at once.
func (p *pace) due() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began.IsZero() {
		return time.Time{}
	}
	// Half of the time at most goes into generations, however much asks for one.
	rest := p.began.Add(max(fastGap, 2*p.ended.Sub(p.began)))
	at := later(p.began.Add(p.every), rest)
	gap := min(p.every, dropsGap)
	if p.retry {
		at = earlier(at, p.ended.Add(gap))
	}
	if t, ok := p.settled(soon); ok {
		at = earlier(at, later(t, rest))
	}
	if t, ok := p.settled(pushed); ok {
		at = earlier(at, later(later(t, p.ended.Add(gap)), rest))
	}
	return at
}

// settled is when the changes of one urgency have come to rest, as far as is
// known now; false when there are none.
func (p *pace) settled(u urgency) (time.Time, bool) {
	if p.first[u].IsZero() {
		return time.Time{}, false
	}
	return earlier(p.last[u].Add(quiet), p.first[u].Add(longest)), true
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
