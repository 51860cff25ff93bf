package board_test

import (
	"reflect"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

func TestStaleAtTheLimit(t *testing.T) {
	limit := time.Minute // three intervals of 20 s
	for _, tt := range []struct {
		age  time.Duration
		inv  inventory.Host
		want board.HostState
	}{
		{limit - time.Second, inventory.Host{}, board.Up},
		{limit, inventory.Host{}, board.Up},
		{limit + time.Second, inventory.Host{}, board.Stale},
		{limit + time.Second, inventory.Host{Check: inventory.Critical}, board.Down},
		{0, inventory.Host{Check: inventory.Critical}, board.Up},
		{24*time.Hour + time.Second, inventory.Host{}, board.Down},
		{-time.Minute, inventory.Host{}, board.Up},
		{-time.Minute - time.Second, inventory.Host{}, board.Stale},
		{-10 * 365 * 24 * time.Hour, inventory.Host{}, board.Stale},
		{time.Hour, inventory.Host{Maintenance: true}, board.Maintenance},
	} {
		h, g := scene{gpu: a100(), age: tt.age, inv: tt.inv}.row(t)
		if h.State != tt.want {
			t.Errorf("age %v, check %q: %s, want %s", tt.age, tt.inv.Check, h.State, tt.want)
		}
		if old := tt.want != board.Up; old && (g.MemoryUsed != nil || g.State == board.Free) {
			t.Errorf("age %v: an old reading is shown as live: %+v", tt.age, g)
		}
	}
}

func TestStaleAfterTheConfiguredTime(t *testing.T) {
	for age, want := range map[time.Duration]board.HostState{10 * time.Second: board.Up,
		11 * time.Second: board.Stale} {
		s := scene{gpu: a100(), age: age, setting: board.Settings{StaleAfter: 10 * time.Second}}
		if h, _ := s.row(t); h.State != want {
			t.Errorf("age %v: %s, want %s", age, h.State, want)
		}
	}
}

func TestClockBehindIsReported(t *testing.T) {
	h, _ := scene{gpu: a100(), age: time.Hour, seenAt: now.Add(-10 * time.Second)}.row(t)
	if h.State != board.Stale || h.ClockOffset >= 0 || !hasCode(h.Problems, "clock:behind") {
		t.Errorf("state %s, offset %v, problems %v; want stale, about -1h, clock:behind", h.State, h.ClockOffset,
			h.Problems)
	}
}

// Data that is old is called late news only while it is news.
func TestClockBehindNeedsRecentArrival(t *testing.T) {
	for name, s := range map[string]scene{
		"nobody knows when it came": {age: time.Hour},
		"it came an hour ago":       {age: 2 * time.Hour, seenAt: now.Add(-time.Hour)},
		"it came when it was made":  {age: time.Hour, seenAt: now.Add(-time.Hour)},
		"it came just in time":      {age: 70 * time.Second, seenAt: now.Add(-10 * time.Second)},
	} {
		s.gpu = a100()
		if h, _ := s.row(t); h.State != board.Stale || h.ClockOffset != 0 || hasCode(h.Problems, "clock:behind") {
			t.Errorf("%s: state %s, offset %v, problems %v", name, h.State, h.ClockOffset, h.Problems)
		}
	}
	if h, _ := (scene{gpu: a100(), age: 10 * time.Second, seenAt: now}).row(t); h.State != board.Up ||
		hasCode(h.Problems, "clock:behind") {
		t.Errorf("10 s old: %s, %v", h.State, h.Problems)
	}
}

// TestSinceCountsFromTheBooking: use by the one who booked counts from the later of
// the process and the booking, use without a booking from the process.
func TestSinceCountsFromTheBooking(t *testing.T) {
	process, booked := now.Add(-3*time.Hour), now.Add(-time.Hour)
	idle := &history.Recent{GPUs: map[history.Key]history.GPU{{Host: "gpu01", GPU: "GPU-1"}: {
		IdleSince: now.Add(-5 * time.Hour),
	}}}
	future := proc("eva", snapshot.Compute, 9000)
	future.StartedAt = &snapshot.Time{Time: now.Add(time.Hour)}
	for _, tt := range []struct {
		name  string
		scene scene
		state board.State
		want  time.Time
	}{
		{"without a booking", scene{procs: []snapshot.Process{proc("eva", snapshot.Compute, 9000)}}, board.Busy,
			process},
		{"with one",
			scene{
				procs:  []snapshot.Process{proc("eva", snapshot.Compute, 9000)},
				booked: []booking.Booking{by("eva", booking.Reserved)},
			}, board.InUse, booked},
		{"with another's",
			scene{
				procs:  []snapshot.Process{proc("eva", snapshot.Compute, 9000)},
				booked: []booking.Booking{by("jun", booking.Reserved)},
			}, board.Contested, booked},
		{"booked, and idle for longer", scene{recent: idle, booked: []booking.Booking{by("eva", booking.Reserved)}},
			board.Booked, booked},
		{"started in the future", scene{procs: []snapshot.Process{future}}, board.Busy, time.Time{}},
	} {
		tt.scene.gpu = a100()
		if _, g := tt.scene.row(t); g.State != tt.state || !g.Since.Equal(tt.want) {
			t.Errorf("%s: %s since %v, want %s since %v", tt.name, g.State, g.Since, tt.state, tt.want)
		}
	}
}

func TestIdleNeedsAWindowAndAHolder(t *testing.T) {
	recent := &history.Recent{GPUs: map[history.Key]history.GPU{{Host: "gpu01", GPU: "GPU-1"}: {
		IdleSince: now.Add(-5 * time.Hour), Utilization: []*float64{nil, new(12.0)},
	}}}
	for _, held := range []time.Duration{0, 16 * time.Second, 29 * time.Minute} {
		begun := proc("sam", snapshot.Compute, 9000)
		begun.StartedAt = &snapshot.Time{Time: now.Add(-held)}
		_, g := scene{gpu: a100(), recent: recent, procs: []snapshot.Process{begun}}.row(t)
		if g.State != board.Busy || !g.IdleSince.IsZero() || len(g.Utilization) != 2 {
			t.Errorf("%s for %v, idle since %v, %d steps of utilization", g.State, held, g.IdleSince,
				len(g.Utilization))
		}
	}
	_, g := scene{gpu: a100(), recent: recent, procs: []snapshot.Process{proc("sam", snapshot.Compute, 9000)}}.row(t)
	if g.State != board.Busy || g.IdleFor(now) != 3*time.Hour {
		t.Errorf("%s, idle for %v; want busy, idle for the 3 h that sam has held it", g.State, g.IdleFor(now))
	}
	_, g = scene{gpu: a100(), procs: []snapshot.Process{proc("sam", snapshot.Compute, 9000)}}.row(t)
	if !g.IdleSince.IsZero() {
		t.Errorf("one reading of 0 %% made it idle since %v", g.IdleSince)
	}
	_, g = scene{gpu: a100(), recent: recent}.row(t)
	if g.State != board.Free || !g.IdleSince.IsZero() || g.IdleFor(now) != 0 || !g.Since.Equal(now.Add(-5*time.Hour)) {
		t.Errorf("%s since %v, idle since %v; want free since 5 h, and idle for nobody", g.State, g.Since, g.IdleSince)
	}
}

func TestNoShow(t *testing.T) {
	early := by("ada", booking.Reserved)
	early.From = now.Add(-11 * time.Hour)
	s := scene{gpu: a100(), booked: []booking.Booking{early}}
	s.marks = board.Marks{GPUs: map[string]board.Mark{"gpu01/GPU-1": {
		State: board.Booked, Since: now.Add(-3 * time.Hour),
	}}}
	if _, g := s.row(t); !g.NoShow || !g.Since.Equal(now.Add(-3*time.Hour)) {
		t.Errorf("no-show %v since %v, want one since 3 h", g.NoShow, g.Since)
	}
	s.marks = board.Marks{GPUs: map[string]board.Mark{"gpu01/GPU-1": {State: board.Booked,
		Seen: now.Add(-3 * time.Hour)}}}
	if _, g := s.row(t); !g.NoShow {
		t.Error("seen booked and idle for three hours, and no no-show")
	}
	for ago, want := range map[time.Duration]bool{2 * time.Hour: true, 2*time.Hour - time.Second: false} {
		s.marks = board.Marks{GPUs: map[string]board.Mark{"gpu01/GPU-1": {State: board.Booked, Since: now.Add(-ago)}}}
		if _, g := s.row(t); g.NoShow != want {
			t.Errorf("booked and idle for %v: no-show %v, want %v", ago, g.NoShow, want)
		}
	}
	gap := board.Mark{
		State: board.Booked, Since: now.Add(-3 * time.Hour), Seen: now.Add(-3 * time.Hour),
		Card: &board.Card{UUID: "GPU-1"}, Last: &board.LastSeen{State: board.Booked, At: now.Add(-30 * time.Minute)},
	}
	s.marks = board.Marks{GPUs: map[string]board.Mark{"gpu01/GPU-1": gap}}
	if _, g := s.row(t); g.NoShow {
		t.Error("a no-show over half an hour of which nobody knows anything")
	}
	gap.Last.At = now.Add(-5 * time.Minute)
	if _, g := s.row(t); !g.NoShow {
		t.Error("no no-show, although the snapshot tells of the five minutes in between")
	}
	s.marks = board.Marks{}
	if _, g := s.row(t); g.NoShow {
		t.Error("a no-show at first sight: nobody knows what it did before")
	}
	s.marks = board.Marks{GPUs: map[string]board.Mark{"gpu01/GPU-1": {State: board.InUse,
		Since: now.Add(-3 * time.Hour)}}}
	if _, g := s.row(t); g.NoShow || !g.Since.Equal(now) {
		t.Errorf("no-show %v since %v, want none: it was in use a moment ago", g.NoShow, g.Since)
	}
}

func TestMarksKeepSince(t *testing.T) {
	s := scene{gpu: a100()}
	_, marks := s.merge()
	first := marks.GPUs["gpu01/GPU-1"]
	if first.State != board.Free || !first.Since.IsZero() || !first.Seen.Equal(now) {
		t.Fatalf("mark %+v, want free, seen now, since nobody knows when", first)
	}
	s.marks = marks
	if b, again := s.merge(); !b.Hosts[0].GPUs[0].Since.IsZero() ||
		!reflect.DeepEqual(again.GPUs["gpu01/GPU-1"], first) {
		t.Errorf("a second look made up when it began: %+v", again.GPUs["gpu01/GPU-1"])
	}
	s.marks = board.Marks{GPUs: map[string]board.Mark{"gpu01/GPU-1": {
		State: board.Busy, Since: now.Add(-time.Hour), Seen: now.Add(-time.Hour),
	}}}
	if b, _ := s.merge(); !b.Hosts[0].GPUs[0].Since.Equal(now) {
		t.Errorf("it changed just now, and since is %v", b.Hosts[0].GPUs[0].Since)
	}
	s.marks = board.Marks{GPUs: map[string]board.Mark{"gpu01/GPU-1": {State: board.Free, Since: now.Add(-time.Hour)}}}
	b, marks := s.merge()
	if g := b.Hosts[0].GPUs[0]; !g.Since.Equal(now.Add(-time.Hour)) || !marks.GPUs["gpu01/GPU-1"].Since.Equal(g.Since) {
		t.Errorf("since %v, mark %+v; want an hour ago in both", g.Since, marks.GPUs["gpu01/GPU-1"])
	}
	s.marks = board.Marks{GPUs: map[string]board.Mark{"gpu01/GPU-1": {State: board.Free, Since: now.Add(time.Hour)}}}
	if b, _ := s.merge(); b.Hosts[0].GPUs[0].Since.After(now) {
		t.Errorf("a mark from the future was believed")
	}
}

func TestClockAheadIsReported(t *testing.T) {
	h, _ := scene{gpu: a100(), age: -time.Hour, seenAt: now.Add(-10 * time.Second)}.row(t)
	if h.State != board.Stale || h.ClockOffset <= 0 || !hasCode(h.Problems, "clock:ahead") {
		t.Errorf("state %s, offset %v, problems %v; want stale, about +1h, clock:ahead", h.State, h.ClockOffset,
			h.Problems)
	}
}

// A node that runs from cron tells no interval: its news is old after three minutes.
func TestStaleWithoutAnInterval(t *testing.T) {
	for age, want := range map[time.Duration]board.HostState{
		3 * time.Minute: board.Up, 3*time.Minute + time.Second: board.Stale,
	} {
		snap := &snapshot.Snapshot{
			CollectedAt: snapshot.TimeOf(now.Add(-age)), GPUs: []snapshot.GPU{a100()}, GPUsComplete: true,
		}
		b, _ := board.Merge(board.Input{
			Now: now, Hosts: []inventory.Host{{Name: "gpu01"}},
			Reports: map[string]board.Report{"gpu01": {Snapshot: snap}},
		})
		if got := b.Hosts[0].State; got != want {
			t.Errorf("%v old: %s, want %s", age, got, want)
		}
	}
}

func TestDownAfterTheConfiguredTime(t *testing.T) {
	for age, want := range map[time.Duration]board.HostState{time.Hour: board.Stale,
		time.Hour + time.Second: board.Down} {
		if h, _ := (scene{gpu: a100(), age: age, setting: board.Settings{DownAfter: time.Hour}}).row(t); h.State != want {
			t.Errorf("%v old: %s, want %s", age, h.State, want)
		}
	}
}

// A card is lost from the answer that lacked it, and not from a time to come where the node's
// clock is ahead; when it was first listed is not forgotten.
func TestLostAndFirstSeen(t *testing.T) {
	for age, want := range map[time.Duration]time.Time{
		10 * time.Second: now.Add(-10 * time.Second), -30 * time.Second: now,
	} {
		s := scene{gpu: a100()}
		_, s.marks = s.merge()
		first := s.marks.GPUs["gpu01/GPU-1"].First
		s.gpu.UUID, s.gpu.PCIBusID, s.age = "GPU-2", "00000000:41:00.0", age
		_, marks := s.merge()
		if lost := marks.GPUs["gpu01/GPU-1"]; !lost.Lost.Equal(want) || !lost.First.Equal(first) {
			t.Errorf("an answer %v old: lost since %v, first seen %v; want %v and %v", age, lost.Lost, lost.First, want, first)
		}
		s.marks, s.age = marks, -50*time.Second
		if _, again := s.merge(); !again.GPUs["gpu01/GPU-2"].First.Equal(marks.GPUs["gpu01/GPU-2"].First) {
			t.Errorf("first seen %v, and then %v", marks.GPUs["gpu01/GPU-2"].First, again.GPUs["gpu01/GPU-2"].First)
		}
	}
}
