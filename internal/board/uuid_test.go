package board_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// TestTwoGPUsOfOneUUID: such GPUs are named by index, to CUDA, over time and in bookings, and
// a booking of the UUID holds each of them.
func TestTwoGPUsOfOneUUID(t *testing.T) {
	snap := &snapshot.Snapshot{Host: "gpu01", CollectedAt: snapshot.TimeOf(now), IntervalSeconds: 20, Processes: []snapshot.Process{}, GPUsComplete: true,
		GPUs: []snapshot.GPU{card('A', 'A', 0), card('A', 'B', 1), card('C', 'C', 2)}}
	snap.GPUs[1].MemoryUsed, snap.GPUs[1].UtilizationGPU = new(int64(30000)), new(96)
	in := board.Input{Now: now, Hosts: []inventory.Host{{Name: "gpu01"}}, Calendar: &booking.Calendar{File: "comments.json"},
		Reports: map[string]board.Report{"gpu01": {Snapshot: snap}}}
	states := func(b *board.Board) string {
		var words []string
		for _, g := range b.Hosts[0].GPUs {
			words = append(words, board.DeviceID(&g)+" "+string(g.State))
		}
		return strings.Join(words, ", ")
	}

	// Before, one of them was there alone, and its marks and bookings have its UUID.
	alone := *snap
	alone.GPUs = snap.GPUs[:1]
	first := in
	first.Now = now.Add(-time.Hour)
	alone.CollectedAt = snapshot.TimeOf(first.Now)
	first.Reports = map[string]board.Report{"gpu01": {Snapshot: &alone}}
	_, in.Marks = board.Merge(first)

	in.Recent = &history.Recent{GPUs: map[history.Key]history.GPU{}}
	for key, since := range map[string]time.Duration{"GPU-A": time.Hour, "index:0": 2 * time.Hour, "index:1": 3 * time.Hour} {
		in.Recent.GPUs[history.Key{Host: "gpu01", GPU: key}] = history.GPU{IdleSince: now.Add(-since)}
	}
	var b *board.Board
	for range 3 {
		b, in.Marks = board.Merge(in)
		if got, want := states(b), "0 free, 1 busy, GPU-C free"; got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		if a, b := b.Hosts[0].GPUs[0].Since, b.Hosts[0].GPUs[1].IdleSince; !a.Equal(now.Add(-2*time.Hour)) || !b.Equal(now.Add(-3*time.Hour)) {
			t.Errorf("the past is of %s and %s", a, b)
		}
		var keys []string
		for key := range in.Marks.GPUs {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		if got, want := strings.Join(keys, " "), "gpu01/GPU-C gpu01/index:0 gpu01/index:1"; got != want {
			t.Errorf("remembered are %s, want %s", got, want)
		}
	}
	var said []string
	for _, p := range b.Problems {
		said = append(said, p.Code+" "+p.Host+" "+p.Message)
	}
	if got, want := strings.Join(said, "\n"), "gpu:same-uuid gpu01 several GPUs or slices have the same UUID and are named by index: GPU 0 (GPU-A), GPU 1 (GPU-A)"; got != want {
		t.Errorf("problems %s\nwant %s", got, want)
	}
	if snap.GPUs[0].UUID != "GPU-A" {
		t.Error("the input is changed")
	}

	for _, c := range []struct {
		target booking.Target
		want   string
	}{
		{booking.Target{Index: 0}, "0 booked, 1 busy, GPU-C free"},
		{booking.Target{Index: 1}, "0 free, 1 in-use, GPU-C free"},
		{booking.Target{UUID: "GPU-A", Index: -1}, "0 booked, 1 in-use, GPU-C free"},
		{booking.Target{UUID: "GPU-C", Index: -1}, "0 free, 1 busy, GPU-C booked"},
	} {
		bk := by("eva", booking.Reserved)
		bk.Target = c.target
		in.Calendar.Bookings = []booking.Booking{bk}
		b, _ := board.Merge(in)
		if got := states(b); got != c.want || len(b.Bookings) != 1 {
			t.Errorf("booked %s: %s, want %s; %d bookings", c.target, got, c.want, len(b.Bookings))
		}
	}

	// Nor do samples mix them.
	var names []string
	for _, g := range snap.Sample().GPUs {
		names = append(names, g.UUID)
	}
	if got := strings.Join(names, ","); got != ",,GPU-C" {
		t.Errorf("samples name %q", got)
	}
}

// TestTwoSlicesOfOneUUID: CUDA knows a slice by its UUID alone, so neither is handed out.
func TestTwoSlicesOfOneUUID(t *testing.T) {
	g := a100()
	g.MIGMode = "enabled"
	for i, uuid := range []string{"MIG-1", "MIG-1", "MIG-2"} {
		g.MIGDevices = append(g.MIGDevices, snapshot.MIGDevice{Index: i, GPUInstanceID: new(i), ComputeInstanceID: new(0), UUID: uuid,
			MemoryTotal: new(int64(4864)), MemoryUsed: new(int64(12))})
	}
	b, marks := scene{gpu: g}.merge()
	var open []string
	for _, u := range (&board.Request{MIG: true}).Choose(b, func(string) bool { return false }) {
		open = append(open, u.GPU.UUID)
	}
	if got := strings.Join(open, ","); got != "MIG-2" || len(marks.GPUs) != 4 {
		t.Errorf("handed out are %q, remembered %v", got, marks.GPUs)
	}
}
