package watch

import "time"

// When a generation begins. An edit is on the page within two seconds.
const (
	autoGap   = 5 * time.Second        // between the beginnings of two, where nobody has set it
	autoCosts = 10                     // or so many times the processor time of one
	editDelay = 200 * time.Millisecond // after an edit, for those that come with it
	minGap    = time.Second            // between the beginnings of two generations
	retryGap  = 5 * time.Second        // after a generation that failed; the usual gap if that is shorter
)

// A schedule decides when the next generation is due. The zero value is that before the first.
type schedule struct {
	gap          time.Duration // between the beginnings of the last generation and the next
	began, ended time.Time     // of the last generation; zero before the first
	failed       bool
	edited       time.Time // the first edit since the last generation began; zero for none
}

// note notes an edit.
func (s *schedule) note(at time.Time) {
	if s.edited.IsZero() {
		s.edited = at
	}
}

// now makes a generation due at once.
func (s *schedule) now() { s.began = time.Time{} }

// begin notes that a generation begins. It shows every edit until now; those that come while it
// works are for the next.
func (s *schedule) begin(at time.Time) { s.began, s.edited = at, time.Time{} }

// end notes that it has ended. gap is the time from its beginning to that of the next one.
func (s *schedule) end(at time.Time, gap time.Duration, failed bool) {
	s.ended, s.gap, s.failed = at, gap, failed
}

// due is when the next generation should begin: the zero time for at once.
func (s *schedule) due() time.Time {
	if s.began.IsZero() {
		return time.Time{}
	}
	// All durations count from the beginning of the last generation.
	took := s.ended.Sub(s.began)
	wait := s.gap
	if s.failed {
		wait = min(wait, took+retryGap)
	}
	if !s.edited.IsZero() {
		wait = min(wait, s.edited.Sub(s.began)+editDelay)
	}
	// Generations take half of the time at most, whatever changes.
	return s.began.Add(max(wait, minGap, 2*took))
}
