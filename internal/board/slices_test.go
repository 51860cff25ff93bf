package board_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// sliced is an A100 in slices of 10 GiB, each in a GPU instance of its own:
// 1/0, 2/0, 3/0. Its own memory is what the driver happens to say.
func sliced(n int) snapshot.GPU {
	g := a100()
	g.MIGMode, g.UtilizationGPU, g.MemoryUsed = "enabled", nil, nil
	for i := range n {
		g.MIGDevices = append(g.MIGDevices, snapshot.MIGDevice{
			Index: i, GPUInstanceID: new(i + 1), ComputeInstanceID: new(0), UUID: fmt.Sprintf("MIG-%d", i),
			Profile:     "2g.10gb",
			MemoryTotal: new(int64(9984)), MemoryUsed: new(int64(12)),
		})
	}
	return g
}

// on puts a process on an instance.
func on(p snapshot.Process, gi, ci int) snapshot.Process {
	p.GPUInstanceID, p.ComputeInstanceID = &gi, &ci
	return p
}

func states(g board.GPU) string {
	s := string(g.State)
	if g.Reason != "" {
		s += "(" + g.Reason + ")"
	}
	for i := range g.Slices {
		s += " " + string(g.Slices[i].State)
		if r := g.Slices[i].Reason; r != "" {
			s += "(" + r + ")"
		}
	}
	return s
}

// TestSlicesHaveStates is the rule for MIG, case by case: the state of the GPU
// and then that of each slice.
func TestSlicesHaveStates(t *testing.T) {
	slice := func(s *scene, i int) *snapshot.MIGDevice { return &s.gpu.MIGDevices[i] }
	for _, c := range []struct {
		name string
		set  func(*scene)
		want string
	}{
		{"all empty", func(s *scene) {}, "free free free"},
		{"one in use", func(s *scene) {
			slice(s, 0).MemoryUsed = new(int64(8000))
			s.procs = []snapshot.Process{on(proc("eva", snapshot.Compute, 7900), 1, 0)}
		}, "busy busy free"},
		{"a process that holds hardly anything", func(s *scene) {
			s.procs = []snapshot.Process{on(proc("eva", snapshot.Compute, 3), 2, 0)}
		}, "busy free busy"},
		{"full, and nobody there", func(s *scene) { slice(s, 1).MemoryUsed = new(int64(8000)) },
			"stuck(unowned) free stuck(unowned)"},
		{"one in use, the other full, and nobody there", func(s *scene) {
			slice(s, 0).MemoryUsed, slice(s, 1).MemoryUsed = new(int64(8000)), new(int64(8000))
			s.procs = []snapshot.Process{on(proc("eva", snapshot.Compute, 7900), 1, 0)}
		}, "busy busy stuck(unowned)"},
		{"full, and a display server there", func(s *scene) {
			slice(s, 1).MemoryUsed = new(int64(8000))
			s.procs = []snapshot.Process{on(proc("root", snapshot.Graphics, 100), 2, 0)}
		}, "stuck(unowned) free stuck(unowned)"},
		{"one slice, and the mode is not told",
			func(s *scene) { s.gpu.MIGMode, s.gpu.MIGDevices = "", s.gpu.MIGDevices[:1] },
			"free free"},
		{"no instances, and lost", func(s *scene) { s.gpu.MIGDevices, s.gpu.Health = nil, snapshot.HealthLost },
			"lost(lost)"},
		{"full, and the processes not told", func(s *scene) {
			slice(s, 1).MemoryUsed, s.gpu.ProcessesUnknown = new(int64(8000)), "N/A"
		}, "busy(memory) unknown(unreadable) busy(memory)"},
		{"memory not told", func(s *scene) { slice(s, 0).MemoryUsed = nil },
			"unknown(unreadable) unknown(unreadable) free"},
		{"a process without an instance",
			func(s *scene) { s.procs = []snapshot.Process{proc("eva", snapshot.Compute, 7900)} },
			"unknown(unreadable) unknown(unreadable) unknown(unreadable)"},
		{"a display server without an instance",
			func(s *scene) { s.procs = []snapshot.Process{proc("root", snapshot.Graphics, 4)} },
			"unknown(unreadable) unknown(unreadable) unknown(unreadable)"},
		{"an instance that is not there", func(s *scene) {
			s.procs = []snapshot.Process{on(proc("eva", snapshot.Compute, 7900), 9, 0)}
		}, "unknown(unreadable) unknown(unreadable) unknown(unreadable)"},
		{"slices without instances, and a process", func(s *scene) {
			slice(s, 0).GPUInstanceID, slice(s, 1).GPUInstanceID = nil, nil
			s.procs = []snapshot.Process{on(proc("eva", snapshot.Compute, 7900), 1, 0)}
		}, "unknown(unreadable) unknown(unreadable) unknown(unreadable)"},
		{"no instances", func(s *scene) { s.gpu.MIGDevices = nil }, "unknown(no-slices)"},
		{"lost", func(s *scene) { s.gpu.Health = snapshot.HealthLost }, "lost(lost) lost(lost) lost(lost)"},
		{"could not be asked", func(s *scene) { s.gpu.Health = snapshot.HealthUnknown },
			"unknown(unasked) unknown(unasked) unknown(unasked)"},
		{"drained", func(s *scene) { s.inv = inventory.Host{Maintenance: true} },
			"maintenance(host) maintenance(host) maintenance(host)"},
		{"old", func(s *scene) { s.age = time.Hour }, "unknown(stale) unknown(stale) unknown(stale)"},
		{"a slice booked", func(s *scene) { s.booked = []booking.Booking{of("eva", "MIG-1")} }, "booked free booked"},
		{"a slice booked and used", func(s *scene) {
			s.booked = []booking.Booking{of("eva", "MIG-1")}
			s.procs = []snapshot.Process{on(proc("eva", snapshot.Compute, 7900), 2, 0)}
		}, "in-use free in-use"},
		{"a slice booked by one and used by another", func(s *scene) {
			s.booked = []booking.Booking{of("eva", "MIG-1")}
			s.procs = []snapshot.Process{on(proc("jun", snapshot.Compute, 7900), 2, 0)}
		}, "contested free contested"},
		{"the GPU booked by its index", func(s *scene) { s.booked = []booking.Booking{by("eva", booking.Reserved)} },
			"booked booked booked"},
		{"the GPU booked by its UUID", func(s *scene) { s.booked = []booking.Booking{of("eva", "GPU-1")} },
			"booked booked booked"},
		{"a slice drained", func(s *scene) {
			b := of("ops", "MIG-0")
			b.Kind = booking.Maintenance
			s.booked = []booking.Booking{b}
		}, "maintenance(booking) maintenance(booking) free"},
	} {
		s := scene{gpu: sliced(2)}
		c.set(&s)
		_, g := s.row(t)
		if got := states(g); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func of(name, uuid string) booking.Booking {
	b := by(name, booking.Reserved)
	b.Target = booking.Target{UUID: uuid, Index: -1}
	return b
}

// TestComputeInstancesShareMemory: both show the memory of their GPU instance.
// Who has it is decided by the processes of each; where that leaves a doubt, none
// of them is free.
func TestComputeInstancesShareMemory(t *testing.T) {
	for _, c := range []struct {
		name  string
		used  int64
		procs []snapshot.Process
		want  string
	}{
		{"nothing", 12, nil, "free free free"},
		{"the first works", 6012, []snapshot.Process{on(proc("eva", snapshot.Compute, 6000), 1, 0)}, "busy busy free"},
		{"the second works", 6012, []snapshot.Process{on(proc("eva", snapshot.Compute, 6000), 1, 1)}, "busy free busy"},
		{"both work", 9012,
			[]snapshot.Process{on(proc("eva", snapshot.Compute, 6000), 1, 0),
				on(proc("jun", snapshot.Compute, 3000), 1, 1)},
			"busy busy busy"},
		{"more is held than its processes hold", 9012,
			[]snapshot.Process{on(proc("eva", snapshot.Compute, 6000), 1, 0)},
			"busy busy unknown(shared)"},
		{"a process does not tell its memory", 6012, []snapshot.Process{on(untold("eva"), 1, 0)},
			"busy busy unknown(shared)"},
		{"nobody is there", 6012, nil, "stuck(unowned) stuck(unowned) stuck(unowned)"},
		{"its process is gone", 6012, []snapshot.Process{on(gone(6000), 1, 0)},
			"stuck(dead) stuck(dead) stuck(unowned)"},
		{"the compute instance is not told", 6012, []snapshot.Process{half(proc("eva", snapshot.Compute, 6000))},
			"busy(memory) busy(memory) busy(memory)"},
	} {
		s := scene{gpu: sliced(2), procs: c.procs}
		for i := range s.gpu.MIGDevices {
			d := &s.gpu.MIGDevices[i]
			d.GPUInstanceID, d.ComputeInstanceID, d.MemoryUsed = new(1), new(i), new(c.used)
		}
		_, g := s.row(t)
		if got := states(g); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		for _, row := range g.Slices {
			if row.MemoryUsed == nil || *row.MemoryUsed != c.used {
				t.Errorf("%s: shows %v MiB", c.name, row.MemoryUsed)
			}
		}
	}
}

func untold(user string) snapshot.Process {
	p := proc(user, snapshot.Compute, 0)
	p.UsedMemory = nil
	return p
}

func half(p snapshot.Process) snapshot.Process {
	p.GPUInstanceID = new(1)
	return p
}

// TestSlicesAreCounted: every slice is one of what people can have, and their
// GPU is none.
func TestSlicesAreCounted(t *testing.T) {
	s := scene{gpu: sliced(3), booked: []booking.Booking{of("eva", "MIG-2")}}
	s.procs = []snapshot.Process{on(proc("jun", snapshot.Compute, 4992), 1, 0)}
	b, marks := s.merge()
	h := &b.Hosts[0]
	for _, totals := range []board.Totals{b.Totals, h.Totals} {
		c := totals.Slices
		if totals.GPUs.All != 0 || c.All != 3 || c.Free() != 1 || c.ByState[board.Busy] != 1 ||
			c.ByState[board.Booked] != 1 {
			t.Errorf("totals %+v", totals)
		}
	}
	if len(b.Models) != 1 || b.Models[0].Name != "A100-SXM4-40GB 2g.10gb" || b.Models[0].Total != 3 ||
		b.Models[0].Free != 1 || *b.Models[0].MemoryTotal != 9984 {
		t.Errorf("models %+v", b.Models)
	}
	if len(b.FreeNow) != 1 || b.FreeNow[0].GPU.UUID != "MIG-1" || b.FreeNow[0].GPU.Label() != "0:1" ||
		!b.FreeNow[0].GPU.FreeUntil.IsZero() || b.FreeNow[0].GPU.ShortName != "A100-SXM4-40GB 2g.10gb" {
		t.Errorf("free now %+v", b.FreeNow)
	}
	if b.NextFree == nil || b.NextFree.GPU.UUID != "MIG-2" || b.NextFree.GPU.Booking.Name != "eva" {
		t.Errorf("next free %+v", b.NextFree)
	}
	for _, u := range b.Users {
		switch u.Name {
		case "jun":
			if u.Used != 0 || u.Slices.Used != 1 || u.Memory != 4992 || u.Processes != 1 || len(u.Where[0].GPUs) != 0 ||
				!slices.Equal(u.Where[0].Slices, []string{"0:0"}) {
				t.Errorf("%+v", u)
			}
		case "eva":
			if u.Reserved != 0 || u.Slices.Reserved != 1 {
				t.Errorf("%+v", u)
			}
		}
	}
	if len(b.Users) != 2 || len(marks.GPUs) != 4 {
		t.Errorf("%d users, %d marks", len(b.Users), len(marks.GPUs))
	}
	if g := h.GPUs[0]; !g.Since.IsZero() || g.Slices[0].Since.IsZero() || g.MIGDevices != nil {
		t.Errorf("in use since %v, and its slice since %v; devices %v", g.Since, g.Slices[0].Since, g.MIGDevices)
	}
	if bk := b.Bookings[0]; !slices.Equal(bk.GPUs, []int{0}) || bk.Slice == nil || *bk.Slice != 2 ||
		bk.UUID != "MIG-2" {
		t.Errorf("booking %+v", bk)
	}
	if p := h.GPUs[0].Slices[0].Processes; len(p) != 1 || *p[0].Share != 0.5 ||
		len(h.GPUs[0].Slices[1].Processes) != 0 ||
		len(h.GPUs[0].Processes) != 1 {
		t.Errorf("processes %+v", p)
	}
}

// TestUnplaced: a process that is on no slice, and one that is on one of another instance.
func TestUnplaced(t *testing.T) {
	s := scene{gpu: sliced(2)}
	s.procs = []snapshot.Process{on(proc("jun", snapshot.Compute, 9), 1, 0), on(proc("jun", snapshot.Compute, 8), 9, 0),
		on(proc("jun", snapshot.Compute, 5), 1, 3), half(proc("eva", snapshot.Compute, 7)),
		proc("eva", snapshot.Compute, 6)}
	_, g := s.row(t)
	var left []int64
	for _, p := range g.Unplaced() {
		left = append(left, *p.UsedMemory)
	}
	if !slices.Equal(left, []int64{8, 6, 5}) || g.FreeSlices() != 0 {
		t.Errorf("unplaced are those of %v MiB, %d slices are free", left, g.FreeSlices())
	}
	_, g = scene{gpu: sliced(3), procs: s.procs[:1]}.row(t)
	if len(g.Unplaced()) != 0 || g.FreeSlices() != 2 {
		t.Errorf("unplaced are %v, %d slices are free", g.Unplaced(), g.FreeSlices())
	}
}

// A partitioned GPU is free until the next booking of all of it.
func TestSlicesAreFreeUntilTheNextBooking(t *testing.T) {
	next := by("eva", booking.Reserved)
	next.From, next.Until = now.Add(time.Hour), now.Add(2*time.Hour)
	if _, g := (scene{gpu: sliced(2), booked: []booking.Booking{next}}).row(t); g.State != board.Free ||
		!g.FreeUntil.Equal(next.From) || !g.Slices[1].FreeUntil.Equal(next.From) {
		t.Errorf("%s until %v, its slice until %v", g.State, g.FreeUntil, g.Slices[1].FreeUntil)
	}
	if _, g := (scene{gpu: sliced(2)}).row(t); !g.FreeUntil.IsZero() {
		t.Errorf("without a booking it is free until %v", g.FreeUntil)
	}
}

func TestLabels(t *testing.T) {
	for want, b := range map[string]board.Booking{
		"[]": {}, "[0 2]": {GPUs: []int{0, 2}}, "[1:3]": {GPUs: []int{1}, Slice: new(3)},
	} {
		if got := fmt.Sprint(b.Labels()); got != want {
			t.Errorf("%+v: %s", b, got)
		}
	}
	h := board.Host{GPUs: []board.GPU{{Slices: make([]board.GPU, 2)}, {}}}
	for range h.Rows() {
		break
	}
	n := 0
	for range h.Rows() {
		if n++; n == 2 {
			break
		}
	}
	for range h.Units() {
		break
	}
}

// TestSliceWithoutUUID: `nvidia-smi -L` failed. The slice is known by its place,
// and cannot be booked; a booking by UUID may be for it.
func TestSliceWithoutUUID(t *testing.T) {
	s := scene{gpu: sliced(2), booked: []booking.Booking{of("eva", "MIG-1")}}
	for i := range s.gpu.MIGDevices {
		s.gpu.MIGDevices[i].UUID, s.gpu.MIGDevices[i].Profile = "", ""
	}
	b, marks := s.merge()
	g := b.Hosts[0].GPUs[0]
	if _, ok := g.Slices[1].Target(); ok || g.Slices[1].Label() != "0:1" ||
		g.Slices[1].ShortName != "A100-SXM4-40GB MIG" {
		t.Errorf("%+v", g.Slices[1])
	}
	if hasCode(b.Problems, "booking:unknown-gpu") {
		t.Error("a booking of a slice whose UUID is not known is called a stray")
	}
	if len(marks.GPUs) != 3 {
		t.Errorf("marks %v", marks)
	}
	s.gpu = sliced(1)
	if b, _ := s.merge(); !hasCode(b.Problems, "booking:unknown-gpu") {
		t.Error("a booking of a slice that is gone is no stray")
	}
}

// TestStaleHostKeepsSlices: what they are stays known, what they show does not.
func TestStaleHostKeepsSlices(t *testing.T) {
	s := scene{gpu: sliced(2), age: time.Hour, procs: []snapshot.Process{on(proc("eva", snapshot.Compute, 7900), 1, 0)}}
	_, g := s.row(t)
	if r := g.Slices[0]; r.UUID != "MIG-0" || r.Slice.Profile != "2g.10gb" || *r.MemoryTotal != 9984 ||
		r.MemoryUsed != nil || len(r.Processes) != 0 {
		t.Errorf("%+v", r)
	}
	if g.Last == nil || g.Last.State != board.Busy || g.Slices[1].Last.State != board.Free {
		t.Errorf("last seen: %+v, slice %+v", g.Last, g.Slices[1].Last)
	}
	for n := 1; n <= 2; n++ { // of the whole GPU too little was told, and one slice was full
		s.gpu, s.procs = sliced(n), nil
		s.gpu.MIGDevices[0].MemoryUsed = new(int64(8000))
		if _, g := s.row(t); g.Last.State != board.Stuck {
			t.Errorf("one of %d slices was stuck, and the GPU was %s", n, g.Last.State)
		}
	}
	s.gpu = sliced(0)
	if _, g := s.row(t); g.State != board.Unknown || g.Last == nil || len(g.Slices) != 0 {
		t.Errorf("partitioned, and without slices: %+v", g)
	}
}

func TestStateOfItsOwn(t *testing.T) {
	for _, c := range []struct {
		state  board.State
		reason string
		own    bool
	}{
		{board.Lost, board.ReasonLost, true}, {board.Drained, "", true}, {board.Unknown, board.ReasonStale, true},
		{board.Unknown, board.ReasonUnasked, true},
		{board.Unknown, board.ReasonNoSlices, true}, {board.Unknown, board.ReasonUnreadable, false},
		{board.Busy, "", false},
		{board.Free, "", false},
	} {
		if g := (board.GPU{State: c.state, Reason: c.reason}); g.OwnState() != c.own {
			t.Errorf("%s (%s): %v, want %v", c.state, c.reason, g.OwnState(), c.own)
		}
	}
}

func TestLostGPUKeepsSlices(t *testing.T) {
	s := scene{gpu: sliced(2)}
	_, s.marks = s.merge()
	s.gpu = a100()
	s.gpu.Index, s.gpu.UUID, s.gpu.PCIBusID = 1, "GPU-2", "00000000:41:00.0"
	s.inv.ExpectedGPUs = 2
	_, g := s.row(t)
	if !g.Missing || len(g.Slices) != 2 || !g.Slices[1].Missing || g.Slices[1].UUID != "MIG-1" || g.MIGDevices != nil {
		t.Errorf("%+v, want a lost GPU with its slices as rows alone", g)
	}
}

// TestMIGDeviceOf: a process is on an instance when it can be no other.
func TestMIGDeviceOf(t *testing.T) {
	devices := []snapshot.MIGDevice{
		{GPUInstanceID: new(1), ComputeInstanceID: new(0)}, {GPUInstanceID: new(1), ComputeInstanceID: new(1)},
		{GPUInstanceID: new(2)}, {},
	}
	for _, c := range []struct{ gi, ci, want int }{
		{1, 0, 0}, {1, 1, 1}, {1, 2, 3}, {1, -1, -1}, {2, 0, -1}, {2, -1, -1}, {3, 0, 3}, {-1, 0, -1},
	} {
		p := snapshot.Process{GPUInstanceID: &c.gi, ComputeInstanceID: &c.ci}
		if c.gi < 0 {
			p.GPUInstanceID = nil
		}
		if c.ci < 0 {
			p.ComputeInstanceID = nil
		}
		if got := snapshot.MIGDeviceOf(devices, &p); got != c.want {
			t.Errorf("%d/%d is on %d, want %d", c.gi, c.ci, got, c.want)
		}
		if got := snapshot.MIGDeviceOf(devices[:2], &p); got != min(c.want, 1) && c.want < 2 || got >= 0 &&
			c.want >= 2 {
			t.Errorf("%d/%d is on %d of the first two, want %d", c.gi, c.ci, got, c.want)
		}
	}
}

// BenchmarkManyBookings is a host of 64 GPUs with 1,024 slices and 20,000 bookings
// in force, of all of it and of one GPU each.
func BenchmarkManyBookings(b *testing.B) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	snap := &snapshot.Snapshot{CollectedAt: snapshot.TimeOf(at), GPUsComplete: true}
	for i := range 64 {
		g := sliced(16)
		g.Index, g.UUID, g.PCIBusID = i, fmt.Sprint("GPU-", i), ""
		for d := range g.MIGDevices {
			g.MIGDevices[d].UUID = fmt.Sprintf("MIG-%d-%d", i, d)
		}
		snap.GPUs = append(snap.GPUs, g)
	}
	for name, target := range map[string]func(i int) booking.Target{
		"all": func(int) booking.Target { return booking.Target{All: true, Index: -1} },
		"one": func(i int) booking.Target { return booking.Target{Index: i % 64} },
	} {
		b.Run(name, func(b *testing.B) {
			calendar := &booking.Calendar{}
			for i := range 20_000 {
				calendar.Bookings = append(calendar.Bookings,
					booking.Booking{ID: fmt.Sprint(i), Host: "atlas", Target: target(i),
						Name: fmt.Sprint("user", i),
						From: at.Add(-time.Duration(i%977) * time.Minute), Until: at.Add(time.Hour)})
			}
			in := board.Input{
				Now: at, Hosts: []inventory.Host{{Name: "atlas"}},
				Reports:  map[string]board.Report{"atlas": {Snapshot: snap}},
				Calendar: calendar,
			}
			for b.Loop() {
				board.Merge(in)
			}
		})
	}
}

// Who computes on two slices of a GPU uses two slices, and no GPU.
func TestUserOfTwoSlices(t *testing.T) {
	b, _ := scene{gpu: sliced(2), procs: []snapshot.Process{on(proc("eva", snapshot.Compute, 7900), 1, 0),
		on(proc("eva", snapshot.Compute, 7900), 2, 0)}}.merge()
	u := b.Users[0]
	if u.Used != 0 || u.Slices.Used != 2 || len(u.Where) != 1 || len(u.Where[0].GPUs) != 0 ||
		!slices.Equal(u.Where[0].Slices, []string{"0:0", "0:1"}) {
		t.Errorf("%+v, want two slices of GPU 0", u)
	}
}
