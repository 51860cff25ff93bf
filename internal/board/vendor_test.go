package board_test

import (
	"slices"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// mi300x is an idle card whose processes are known.
func mi300x(index int, uuid, bus string) snapshot.GPU {
	return snapshot.GPU{
		Index: index, Vendor: snapshot.AMD, UUID: uuid, PCIBusID: bus, Name: "AMD Instinct MI300X",
		Health:      snapshot.HealthOK,
		MemoryTotal: new(int64(196592)), MemoryUsed: new(int64(283)),
		Readings: snapshot.Readings{UtilizationGPU: new(0)},
	}
}

// TestProcessesDecideForOtherVendors: what an idle card of AMD's holds is not known, so its processes have to be, and no
// amount of memory makes it stuck.
func TestProcessesDecideForOtherVendors(t *testing.T) {
	gone := proc("", snapshot.Compute, 9000)
	gone.Alive = new(false)
	for _, tt := range []struct {
		name   string
		change func(*scene)
		want   board.State
		reason string
	}{
		{"idle", func(*scene) {}, board.Free, ""},
		{"idle, and holds more than NVIDIA's", func(s *scene) { s.gpu.MemoryUsed = new(int64(3400)) }, board.Free, ""},
		{"without utilization", func(s *scene) { s.gpu.UtilizationGPU = nil }, board.Free, ""},
		{"processes unknown", func(s *scene) { s.gpu.ProcessesUnknown = "no permission" }, board.Unknown,
			board.ReasonUnreadable},
		{"the same, and empty", func(s *scene) {
			s.gpu.ProcessesUnknown, s.gpu.MemoryUsed = "no permission", new(int64(0))
		}, board.Unknown, board.ReasonUnreadable},
		{"at work", func(s *scene) { s.gpu.UtilizationGPU = new(5) }, board.Busy, board.ReasonUtilization},
		{"at work, and nothing fits into its memory", func(s *scene) {
			s.gpu.UtilizationGPU, s.gpu.MemoryUsed = new(99), new(int64(10))
		}, board.Busy, board.ReasonUtilization},
		{"most of its memory in use by nobody", func(s *scene) { s.gpu.MemoryUsed = new(int64(150000)) }, board.Unknown,
			board.ReasonUnreadable},
		{"memory unknown", func(s *scene) { s.gpu.MemoryUsed = nil }, board.Unknown, board.ReasonUnreadable},
		{"a process", func(s *scene) { s.procs = []snapshot.Process{proc("eva", snapshot.Compute, 0)} }, board.Busy,
			""},
		{"a process that is gone", func(s *scene) { s.procs = []snapshot.Process{gone} }, board.Unknown,
			board.ReasonUnreadable},
		{"an APU", func(s *scene) {
			s.gpu.MemoryShared, s.gpu.MemoryTotal, s.gpu.MemoryUsed = true, new(int64(512)), new(int64(420))
		}, board.Free, ""},
		{"an APU, a process that is gone", func(s *scene) {
			s.gpu.MemoryShared, s.procs = true, []snapshot.Process{gone}
		}, board.Unknown, board.ReasonUnreadable},
		{"an APU, processes unknown", func(s *scene) {
			s.gpu.MemoryShared, s.gpu.ProcessesUnknown = true, "no permission"
		}, board.Unknown, board.ReasonUnreadable},
	} {
		s := scene{gpu: mi300x(0, "GPU-00000000000000a1", "0000:05:00.0")}
		tt.change(&s)
		if _, g := s.row(t); g.State != tt.want || g.Reason != tt.reason {
			t.Errorf("%s: %s (%s), want %s (%s)", tt.name, g.State, g.Reason, tt.want, tt.reason)
		}
	}
}

// TestPartitions: what the numbers of a partition are of is not known; its own processes decide, and power is the card's.
func TestPartitions(t *testing.T) {
	card := mi300x(0, "GPU-00000000000000a1", "0000:05:00.0")
	card.PowerDraw = new(130.0)
	for i := range 2 {
		card.MIGDevices = append(card.MIGDevices, snapshot.MIGDevice{
			Index: i, GPUInstanceID: new(i), Profile: "DPX NPS1", MemoryTotal: new(int64(98296)),
			MemoryUsed: new(int64(90000)),
		})
	}
	on := proc("eva", snapshot.Compute, 9000)
	on.GPUInstanceID = new(1)
	nowhere := proc("eva", snapshot.Compute, 9000)
	for _, tt := range []struct {
		name        string
		procs       []snapshot.Process
		utilization int
		unknown     string
		want        [2]board.State
	}{
		{"idle", nil, 0, "", [2]board.State{board.Free, board.Free}},
		{"a process on one", []snapshot.Process{on}, 90, "", [2]board.State{board.Free, board.Busy}},
		{"a process somewhere", []snapshot.Process{nowhere}, 90, "", [2]board.State{board.Unknown, board.Unknown}},
		{"the card works, and nobody is there", nil, 90, "", [2]board.State{board.Unknown, board.Unknown}},
		{"processes unknown", nil, 0, "no permission", [2]board.State{board.Unknown, board.Unknown}},
	} {
		g := card
		g.UtilizationGPU, g.ProcessesUnknown = &tt.utilization, tt.unknown
		_, row := scene{gpu: g, procs: tt.procs}.row(t)
		for i, s := range row.Slices {
			if s.State != tt.want[i] || s.PowerDraw != nil || s.UtilizationGPU != nil {
				t.Errorf("%s: partition %d is %s (%s), draws %v", tt.name, i, s.State, s.Reason, s.PowerDraw)
			}
			if s.ShortName != "MI300X DPX NPS1" || s.Name != "AMD Instinct MI300X DPX NPS1" ||
				s.Vendor != snapshot.AMD {
				t.Errorf("a partition is a %q, %q of %q", s.ShortName, s.Name, s.Vendor)
			}
		}
	}
}

// twoVendors is a host with cards of both, at a time.
func twoVendors(at time.Time, gpus ...snapshot.GPU) board.Report {
	return board.Report{Snapshot: &snapshot.Snapshot{
		Host: "gpu01", CollectedAt: snapshot.TimeOf(at), IntervalSeconds: 20, DriverVersion: "570.86",
		GPUsComplete: true,
		Tools:        []snapshot.Tool{{Vendor: snapshot.AMD, Name: "amd-smi", Version: "26.2.0", Driver: "6.12.12"}},
		GPUs:         gpus, Processes: []snapshot.Process{},
	}}
}

// TestCardsOfOtherVendorsAreKnownByBus: AMD's index moves with the account. A card without a UUID keeps its history and
// its booking by its bus address.
func TestCardsOfOtherVendorsAreKnownByBus(t *testing.T) {
	first, second := mi300x(0, "", "0000:05:00.0"), mi300x(1, "", "000f:26:00.0")
	idle := now.Add(-3 * time.Hour)
	sample := twoVendors(now, first, second).Snapshot.Sample()
	in := board.Input{
		Now: now, Hosts: []inventory.Host{{Name: "gpu01"}},
		Reports: map[string]board.Report{"gpu01": twoVendors(now, first, second)},
		Calendar: &booking.Calendar{Bookings: []booking.Booking{{
			Host: "gpu01", Target: booking.Target{Index: 1}, Name: "eva", From: now.Add(-time.Hour), Kind: "reserved",
		}}},
		Recent: &history.Recent{GPUs: map[history.Key]history.GPU{
			{Host: "gpu01", GPU: sample.GPUs[0].UUID}: {IdleSince: idle},
		}},
	}
	b, marks := board.Merge(in)
	if g := b.Hosts[0].GPUs; g[0].State != board.Free || !g[0].Since.Equal(idle) || g[1].State != board.Booked {
		t.Fatalf("%s since %s, and %s", g[0].State, g[0].Since, g[1].State)
	}

	first.Index, second.Index = 1, 0
	in.Now, in.Marks = now.Add(time.Minute), marks
	in.Reports = map[string]board.Report{"gpu01": twoVendors(in.Now, second, first)}
	b, marks = board.Merge(in)
	g := b.Hosts[0].GPUs
	if g[0].State != board.Booked || g[1].State != board.Free || !g[1].Since.Equal(idle) {
		t.Errorf("after the indices moved: %s, and %s since %s", g[0].State, g[1].State, g[1].Since)
	}
	if len(b.Problems) != 1 || b.Problems[0].Code != "booking:moved" {
		t.Errorf("problems: %+v", b.Problems)
	}
	in.Now, in.Marks = in.Now.Add(time.Minute), marks
	if b, _ = board.Merge(in); b.Hosts[0].GPUs[0].State != board.Booked {
		t.Errorf("a minute later: %s", b.Hosts[0].GPUs[0].State)
	}
}

// TestTwoVendors: an index is over all, AMD's runtime counts its own, and a program gets GPUs of one vendor.
func TestTwoVendors(t *testing.T) {
	nvidia := a100()
	nvidia.Index, nvidia.UUID = 0, "GPU-00000000-1111-4222-8333-000000000000"
	known, unnamed := mi300x(1, "GPU-00000000000000a1", "0000:05:00.0"), mi300x(2, "", "0000:26:00.0")
	b, _ := board.Merge(board.Input{
		Now: now, Hosts: []inventory.Host{{Name: "gpu01", ExpectedGPUs: 4}},
		Reports: map[string]board.Report{"gpu01": twoVendors(now, nvidia, known, unnamed)},
	})
	h := &b.Hosts[0]
	var devices, states []string
	for i := range h.GPUs {
		devices = append(devices, h.Device(&h.GPUs[i]))
		states = append(states, string(h.GPUs[i].State))
	}
	if want := []string{"free", "free", "free", "lost"}; !slices.Equal(states, want) {
		t.Fatalf("states: %q", states)
	}
	if want := []string{nvidia.UUID, known.UUID, "1"}; !slices.Equal(devices[:3], want) {
		t.Errorf("devices: %q", devices)
	}
	if got := h.DriverOf(&h.GPUs[0]) + " " + h.DriverOf(&h.GPUs[1]); got != "570.86 6.12.12" {
		t.Errorf("drivers: %s", got)
	}
	open := (&board.Request{}).Choose(b, func(string) bool { return false })
	for n, want := range map[int]int{0: 1, 1: 1, 2: 2, 3: 2} {
		if of := board.OneVendor(open, n); len(of) != want {
			t.Errorf("of %d GPUs for %d: %d, want %d", len(open), n, len(of), want)
		}
	}
	if found := (&board.Request{Model: "mi300x"}).Choose(b, func(string) bool { return false }); len(found) != 2 {
		t.Errorf("of the model mi300x there are %d", len(found))
	}
	if masked := b.Mask(board.Privacy{Users: board.UsersNone}).Hosts[0]; masked.GPUs[1].Vendor != snapshot.AMD ||
		len(masked.Tools) != 1 {
		t.Errorf("a masked site says %q, %v", masked.GPUs[1].Vendor, masked.Tools)
	}
}
