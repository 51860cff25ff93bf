package node

import (
	"slices"
	"time"
)

const (
	// MinInterval is the shortest interval: on a node with many GPUs nvidia-smi takes about a second.
	MinInterval = 2 * time.Second
	// MinAuto and MaxAuto bound the interval that a loop chooses itself.
	MinAuto = 5 * time.Second
	MaxAuto = time.Minute

	// A loop that chooses its interval spends at most this part of the time on reading.
	autoShare = 20
	// The interval follows the median of so many readings: the first one after a start may have to wait for
	// the driver.
	autoReadings = 5
)

// A pace is the interval of a loop.
type pace struct {
	fixed    time.Duration   // 0: by how long readings take
	readings []time.Duration // the newest ones, oldest first
}

// took takes in how long a reading took.
func (p *pace) took(d time.Duration) {
	p.readings = append(p.readings, d)
	p.readings = p.readings[max(0, len(p.readings)-autoReadings):]
}

// interval is the time from the beginning of one reading to the next. Auto has few steps, so that the interval
// stays the same while readings take a little more or less; each is a part of a minute, so that a node keeps its
// moments within the minute.
func (p *pace) interval() time.Duration {
	if p.fixed > 0 {
		return p.fixed
	}
	if len(p.readings) == 0 {
		return MinAuto
	}
	sorted := slices.Sorted(slices.Values(p.readings))
	median := sorted[(len(sorted)-1)/2]
	for _, step := range []time.Duration{MinAuto, 10 * time.Second, 15 * time.Second, 20 * time.Second,
		30 * time.Second} {
		if autoShare*median <= step {
			return step
		}
	}
	return MaxAuto
}
