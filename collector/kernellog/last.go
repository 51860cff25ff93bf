package kernellog

import "time"

// The codes that only follow from another error: the driver cleans up after
// it, or says what has to be done next.
const (
	cleanup  = 45
	recovery = 154
)

// follows is for how long after an error those codes are taken for its consequence.
const follows = time.Minute

// FatalFor is for how long an error that needs somebody's hand is a problem.
const FatalFor = 24 * time.Hour

// A Last is what is known of one GPU's errors.
type Last struct {
	// Event is the last one; of several that follow from each other, the cause.
	Event
	// Fatal is the last one after which the GPU does not work until somebody
	// resets it, or at all; nil when there was none.
	Fatal *Event
}

// A Log is the last errors by [Event.Bus].
type Log map[string]Last

// Add takes events in the order in which they happened. One that is known
// already changes nothing.
func (l Log) Add(events ...Event) {
	for _, e := range events {
		last, known := l[e.Bus]
		if known && e.At.Before(last.At) {
			continue
		}
		if fatal(e.Code) && !(e.Code == recovery && last.Fatal != nil && e.At.Sub(last.Fatal.At) <= follows) {
			last.Fatal = &e
		}
		if !known || e.Code != cleanup && e.Code != recovery || e.At.Sub(last.At) > follows {
			last.Event = e
		}
		l[e.Bus] = last
	}
}

// fatal reports the codes that say of a GPU, its memory, its links or its
// firmware that they do not work any more. Those that a program can cause are
// not among them.
func fatal(code int) bool {
	switch code {
	case 48, 62, 64, 74, 79, 95, 119, 120, 136, 140, 143, recovery:
		return true
	}
	return false
}
