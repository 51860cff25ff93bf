package kernellog

import (
	"slices"
	"time"
)

// Codes that follow from another error: the driver cleans up, or says which recovery is
// needed.
const (
	cleanup  = 45
	recovery = 154
)

// follows is how long after an error those codes count as its consequence.
const follows = time.Minute

// FatalFor is how long an error that needs a reset is reported as a problem.
const FatalFor = 24 * time.Hour

// A Last is what is known of one GPU's errors.
type Last struct {
	// Event is the last event, without the ones that follow from it.
	Event
	// Fatal is the last event after which the GPU does not work without a reset; nil for
	// none.
	Fatal *Event
}

// A Log is the last events by [Event.Bus].
type Log map[string]Last

// Add adds events in the order in which they happened. Older events than the last one
// are ignored.
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

// fatal reports whether a code means that the GPU, its memory, its links or its firmware
// has failed. Codes that a program can cause are not among them.
func fatal(code int) bool {
	return slices.Contains([]int{48, 62, 64, 74, 79, 95, 119, 120, 136, 140, 143, recovery}, code)
}
