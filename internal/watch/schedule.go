package watch

import (
	"sync"
	"time"
)

// When a change becomes a generation. An edit is on the page within two seconds. Hundreds of nodes
// push all the time, so pushes are gathered.
const (
	settle  = 200 * time.Millisecond // after a change, for those that come with it
	minGap  = time.Second            // between the beginnings of two generations
	pushGap = 5 * time.Second        // from one generation to the next that only pushes ask for; the interval if that is shorter
)

// A change is what changed.
type change int

const (
	edit change = iota // bookings, notices
	push               // a node pushed
)

// A schedule decides when the next generation is due. It is safe for use by several goroutines.
type schedule struct {
	interval time.Duration
	wake     chan struct{} // holds an element after a change

	mu           sync.Mutex
	began, ended time.Time // of the last generation; zero before the first
	failed       bool
	first        [2]time.Time // by change, the first since the last generation began; zero for none
}

func newSchedule(interval time.Duration) *schedule {
	return &schedule{interval: max(interval, minGap), wake: make(chan struct{}, 1)}
}

// note notes a change.
func (s *schedule) note(c change, at time.Time) {
	s.mu.Lock()
	if s.first[c].IsZero() {
		s.first[c] = at
	}
	s.mu.Unlock()
	s.wakeUp()
}

// now makes a generation due at once.
func (s *schedule) now() {
	s.mu.Lock()
	s.began = time.Time{}
	s.mu.Unlock()
	s.wakeUp()
}

func (s *schedule) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// begin notes that a generation begins. It shows every change until now; those that come while it
// works are for the next.
func (s *schedule) begin(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began, s.first = at, [2]time.Time{}
}

func (s *schedule) end(at time.Time, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.failed = at, failed
}

// due is when the next generation should begin: the zero time for at once.
func (s *schedule) due() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began.IsZero() {
		return time.Time{}
	}
	// All durations count from the beginning of the last generation.
	took := s.ended.Sub(s.began)
	gathered := took + min(s.interval, pushGap)
	wait := s.interval
	if s.failed {
		wait = min(wait, gathered)
	}
	if at := s.first[edit]; !at.IsZero() {
		wait = min(wait, at.Sub(s.began)+settle)
	}
	if at := s.first[push]; !at.IsZero() {
		wait = min(wait, max(at.Sub(s.began)+settle, gathered))
	}
	// Generations take half of the time at most, whatever changes.
	return s.began.Add(max(wait, minGap, 2*took))
}
