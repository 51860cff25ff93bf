package watch

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/failure"
)

// simulate runs a schedule from 0 to end with edits at the given moments and
// generations that take so long, and returns when they began.
func simulate(every, takes, end time.Duration, edits []time.Duration) []time.Duration {
	zero := time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)
	s := &schedule{}
	var began []time.Duration
	var until time.Duration // that a generation is at work
	for at := time.Duration(0); at < end; at += 10 * time.Millisecond {
		if slices.Contains(edits, at) {
			s.note(zero.Add(at))
		}
		if at < until {
			continue
		}
		if len(began) > 0 && at == until {
			s.end(zero.Add(at), every, false)
		}
		if !s.due().After(zero.Add(at)) {
			s.begin(zero.Add(at))
			began = append(began, at)
			until = at + takes
		}
	}
	return began
}

func each(from, to, step time.Duration) []time.Duration {
	var all []time.Duration
	for at := from; at < to; at += step {
		all = append(all, at)
	}
	return all
}

func TestSchedule(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, tt := range []struct {
		name              string
		every, takes, end time.Duration
		edits             []time.Duration
		want              []time.Duration
	}{
		{"nothing happens", 20 * s, 100 * ms, 50 * s, nil, []time.Duration{0, 20 * s, 40 * s}},
		{"a booking", 10 * time.Minute, 100 * ms, 60 * s, []time.Duration{30 * s},
			[]time.Duration{0, 30*s + 200*ms}},
		{"a burst of bookings is two at most", 10 * time.Minute, 100 * ms, 60 * s, each(30*s, 30*s+500*ms, 100*ms),
			[]time.Duration{0, 30*s + 200*ms, 31*s + 200*ms}},
		{"an editor that never rests", 10 * time.Minute, 100 * ms, 34 * s, each(30*s, 40*s, 50*ms),
			[]time.Duration{0, 30*s + 200*ms, 31*s + 200*ms, 32*s + 200*ms, 33*s + 200*ms}},
		{"a booking during a generation is in the next", 10 * time.Minute, 400 * ms, 60 * s, []time.Duration{200 * ms},
			[]time.Duration{0, 1 * s}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := simulate(tt.every, tt.takes, tt.end, tt.edits)
			if len(got) != len(tt.want) {
				t.Fatalf("generations at %v, want %v", got, tt.want)
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Fatalf("generations at %v, want %v", got, tt.want)
				}
			}
		})
	}
}

// Edits without end do not take the machine over.
func TestGenerationsLeaveHalfTheTimeIdle(t *testing.T) {
	const takes = 4 * time.Second
	began := simulate(time.Second, takes, time.Minute, each(0, time.Minute, 100*time.Millisecond))
	for i := 1; i < len(began); i++ {
		if gap := began[i] - began[i-1]; gap < 2*takes {
			t.Fatalf("generations at %v", began)
		}
	}
	if len(began) < 7 {
		t.Errorf("generations at %v", began)
	}
}

func TestAGenerationThatFailedIsTriedAgainSoon(t *testing.T) {
	zero := time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)
	s := &schedule{}
	s.begin(zero)
	s.end(zero.Add(time.Second), 10*time.Minute, true)
	if got := s.due().Sub(zero); got != time.Second+retryGap {
		t.Errorf("due after %v", got)
	}
	s.now()
	if !s.due().IsZero() {
		t.Errorf("due at %v, want at once", s.due())
	}
}

// TestASlowGeneratorSaysSoOnce: when it begins to be slow, and when it is so again.
func TestASlowGeneratorSaysSoOnce(t *testing.T) {
	var b bytes.Buffer
	log := failure.NewLog(&b, time.Now)
	for _, took := range []time.Duration{time.Second, 30 * time.Second, 40 * time.Second, time.Second,
		21 * time.Second} {
		log.Report("interval", "generate:slow", slow(took, 20*time.Second))
	}
	if got := strings.Count(b.String(), "[generate:slow]\n"); got != 2 {
		t.Errorf("said %d times, want 2:\n%s", got, b.String())
	}
}

// TestGap is about what an operator sets, and where the site lies.
func TestGap(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for name, c := range map[string]struct {
		o    Options
		cost time.Duration
		want time.Duration
	}{
		"a cheap one in memory":    {Options{Interval: 20 * s, SiteInMemory: true}, 70 * ms, 5 * s},
		"a tenth of one processor": {Options{Interval: 20 * s, SiteInMemory: true}, 900 * ms, 9 * s},
		"the interval at most":     {Options{Interval: 20 * s, SiteInMemory: true}, 4 * s, 20 * s},
		"a short interval":         {Options{Interval: 2 * s, SiteInMemory: true}, 70 * ms, 2 * s},
		"on a disk":                {Options{Interval: 20 * s}, 70 * ms, 20 * s},
		"set, on a disk":           {Options{Interval: 20 * s, Every: 8 * s}, 70 * ms, 8 * s},
		"set, and not the interval's": {Options{Interval: 20 * s, Every: time.Minute, SiteInMemory: true}, 70 * ms,
			20 * s},
	} {
		if got := c.o.gap(c.cost); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestProcessorTimeGrows(t *testing.T) {
	before := processorTime()
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
		continue
	}
	if processorTime() <= before {
		t.Error("50 ms of work have not been counted")
	}
}
