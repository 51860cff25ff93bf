package render

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestUnusedIsCountedByTheStep holds the count against one that looks at each step.
func TestUnusedIsCountedByTheStep(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	steps := PastSteps()[1]
	for range 3000 {
		step := []time.Duration{0, time.Second, 2 * time.Hour, 7*time.Second + 3}[r.IntN(4)]
		all := time.Duration(steps) * step
		moment := func() time.Duration {
			return []time.Duration{0, math.MaxInt64, -all, all, time.Duration(r.IntN(steps+1)) * step, time.Duration(r.Int64N(int64(all + 2)))}[r.IntN(6)]
		}
		start, stop := moment(), max(0, moment())
		if start == math.MaxInt64 {
			start = 0
		}
		held := make([]int16, []int{0, steps - 3, steps}[r.IntN(3)])
		for k := range held {
			held[k] = []int16{PastUnknown, 0, 33, 100, 120}[r.IntN(5)]
		}
		var got, want UnusedBooking
		got.count(held, step, start, stop)
		for k := range steps {
			at := time.Duration(k) * step
			length := min(at+step, stop) - max(at, start)
			if length <= 0 {
				continue
			}
			want.Past += length
			if k < len(held) && held[k] != PastUnknown {
				want.Known += length
				want.Spare += length * time.Duration(100-min(100, held[k])) / 100
			}
		}
		if got != want {
			t.Fatalf("%d steps of %v, from %v to %v: %+v, want %+v", len(held), step, start, stop, got, want)
		}
	}
}
