package board

import (
	"slices"
	"testing"
	"time"

	"gpuboard/internal/snapshot"
)

func TestAge(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		interval, age time.Duration
		late, dead    bool
	}{
		{20 * time.Second, 50 * time.Second, false, false},
		{20 * time.Second, 51 * time.Second, true, false},
		{20 * time.Second, 200 * time.Second, true, false},
		{20 * time.Second, 201 * time.Second, true, true},
		{0, 150 * time.Second, false, false}, // a minute, if that is not known
		{0, 151 * time.Second, true, false},
		{0, 601 * time.Second, true, true},
	} {
		b := &Board{Interval: tt.interval, GeneratedAt: now.Add(-tt.age)}
		if b.Late(now) != tt.late || b.Dead(now) != tt.dead || b.Age(now) != tt.age {
			t.Errorf("%+v: age %v, late %v, dead %v", tt, b.Age(now), b.Late(now), b.Dead(now))
		}
	}
}

// TestTimesOfAPublishedBoard: what a board says of itself is what a reader learns, also of one of an earlier version,
// which was due after an interval.
func TestTimesOfAPublishedBoard(t *testing.T) {
	made := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for _, b := range []Board{
		{Interval: 20 * time.Second, Next: 6 * time.Second},
		{Interval: time.Minute},
		{Interval: time.Second, Next: time.Second},
	} {
		b.GeneratedAt = made
		read := Board{GeneratedAt: made}
		read.SetTimes(b.Due(), b.LateAt())
		if read.Interval != b.Interval || !read.Due().Equal(b.Due()) {
			t.Errorf("of %v and %v: %v and %v", b.Interval, b.Next, read.Interval, read.Next)
		}
	}
	earlier := Board{GeneratedAt: made}
	earlier.SetTimes(made.Add(20*time.Second), time.Time{})
	if earlier.Interval != 20*time.Second || earlier.Late(made.Add(50*time.Second)) ||
		!earlier.Late(made.Add(51*time.Second)) {
		t.Errorf("an earlier version's interval is %v", earlier.Interval)
	}
	for _, due := range []time.Time{{}, made, made.Add(-time.Hour), made.AddDate(900, 0, 0)} {
		odd := Board{GeneratedAt: made}
		if odd.SetTimes(due, time.Time{}); odd.Interval != 0 || odd.Due() != made.Add(time.Minute) {
			t.Errorf("due at %v: interval %v, due at %v", due, odd.Interval, odd.Due())
		}
	}
}

// An expired board says what was, and nothing that is.
func TestExpire(t *testing.T) {
	then := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	eva, jun := Process{Person: "eva", Computes: true}, Process{Person: "jun", Computes: true}
	before := &LastSeen{State: Stuck}
	b := &Board{Hosts: []Host{
		{Name: "never", State: Never},
		{Name: "up", State: Up, SnapshotAt: then, Node: snapshot.Node{Kernel: "6.1"}, GPUs: []GPU{
			{
				GPU: snapshot.GPU{UUID: "GPU-1", MemoryUsed: new(int64(9))}, State: Busy, Since: then,
				Processes: []Process{eva, {}, jun, eva}, Booking: &Booking{Name: "eva"},
			},
			{State: Unknown, Last: before},
			{State: Free, Slices: []GPU{{State: Free}}},
		}},
	}}
	b.Count()
	b.Expire()
	h := &b.Hosts[1]
	if b.Hosts[0].State != Never || h.State != Stale || h.Node.Kernel != "" || b.Totals.GPUs.ByState[Unknown] != 3 ||
		len(b.FreeNow) != 0 {
		t.Errorf("hosts %+v, totals %+v", b.Hosts, b.Totals)
	}
	g := h.GPUs[0]
	if g.State != Unknown || g.Reason != ReasonStale || g.MemoryUsed != nil || g.Processes != nil ||
		!g.Since.IsZero() ||
		g.UUID != "GPU-1" || g.Booking == nil {
		t.Errorf("the GPU is %+v", g)
	}
	if g.Last.State != Busy || !g.Last.At.Equal(then) || !slices.Equal(g.Last.Users, []string{"eva", "jun"}) {
		t.Errorf("it was %+v", g.Last)
	}
	if h.GPUs[1].Last != before || h.GPUs[2].Slices[0].Last == nil {
		t.Errorf("what was known before is %+v, the slice was %+v", h.GPUs[1].Last, h.GPUs[2].Slices[0].Last)
	}
}
