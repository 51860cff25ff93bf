package watch

import (
	"sync"
	"time"
)

// When a generation begins before the interval is over. An edit is on the page within two seconds.
const (
	editDelay = 200 * time.Millisecond // after an edit, for those that come with it
	minGap    = time.Second            // between the beginnings of two generations
	retryGap  = 5 * time.Second        // after a generation that failed; the interval if that is shorter
)

// A schedule decides when the next generation is due. It is safe for use by several goroutines.
type schedule struct {
	interval time.Duration
	wake     chan struct{} // holds an element after an edit

	mu           sync.Mutex
	began, ended time.Time // of the last generation; zero before the first
	failed       bool
	edited       time.Time // the first edit since the last generation began; zero for none
}

func newSchedule(interval time.Duration) *schedule {
	return &schedule{interval: max(interval, minGap), wake: make(chan struct{}, 1)}
}

// note notes an edit.
func (s *schedule) note(at time.Time) {
	s.mu.Lock()
	if s.edited.IsZero() {
		s.edited = at
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

// begin notes that a generation begins. It shows every edit until now; those that come while it
// works are for the next.
func (s *schedule) begin(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began, s.edited = at, time.Time{}
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
	wait := s.interval
	if s.failed {
		wait = min(wait, took+retryGap)
	}
	if !s.edited.IsZero() {
		wait = min(wait, s.edited.Sub(s.began)+editDelay)
	}
	// Generations take half of the time at most, whatever changes.
	return s.began.Add(max(wait, minGap, 2*took))
}
