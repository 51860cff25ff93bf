package board_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

var now = time.Date(2026, 11, 20, 10, 42, 0, 0, time.UTC)

// A scene is one host with one GPU: the smallest board that can go wrong.
type scene struct {
	age     time.Duration
	inv     inventory.Host
	gpu     snapshot.GPU
	procs   []snapshot.Process // none are known to be none
	hidden  bool               // the processes could not be read
	booked  []booking.Booking
	never   bool
	recent  *history.Recent
	marks   board.Marks
	person  func(string) string
	seenAt  time.Time
	errors  []snapshot.Problem
	setting board.Settings
}

func (s scene) merge() (*board.Board, board.Marks) {
	s.inv.Name = "gpu01"
	in := board.Input{
		Now: now, Interval: 20 * time.Second, Hosts: []inventory.Host{s.inv},
		Calendar: &booking.Calendar{File: "comments.json", Bookings: s.booked},
		Reports:  map[string]board.Report{}, Recent: s.recent, Marks: s.marks, Person: s.person, Settings: s.setting,
	}
	if !s.never {
		snap := &snapshot.Snapshot{
			Host: "gpu01", CollectedAt: snapshot.Time{Time: now.Add(-s.age)}, IntervalSeconds: 20,
			GPUs: []snapshot.GPU{s.gpu}, GPUsComplete: true, Processes: s.procs, Errors: s.errors,
		}
		if snap.Processes == nil && !s.hidden {
			snap.Processes = []snapshot.Process{}
		}
		in.Reports["gpu01"] = board.Report{SeenAt: s.seenAt, Snapshot: snap}
	}
	return board.Merge(in)
}

func (s scene) row(t *testing.T) (board.Host, board.GPU) {
	t.Helper()
	b, _ := s.merge()
	if len(b.Hosts) != 1 || len(b.Hosts[0].GPUs) == 0 {
		t.Fatalf("want one host with a GPU, have %+v", b.Hosts)
	}
	return b.Hosts[0], b.Hosts[0].GPUs[0]
}

func a100() snapshot.GPU {
	return snapshot.GPU{
		UUID: "GPU-1", Name: "NVIDIA A100-SXM4-40GB", Health: snapshot.HealthOK,
		MemoryTotal: new(int64(40960)), MemoryUsed: new(int64(4)), Readings: snapshot.Readings{UtilizationGPU: new(0)},
	}
}

func proc(user string, typ snapshot.ProcessType, memory int64) snapshot.Process {
	started := snapshot.Time{Time: now.Add(-3 * time.Hour)}
	return snapshot.Process{
		PID: 100 + len(user), User: user, Type: typ, Program: "train.py", UsedMemory: &memory, Alive: new(true),
		StartedAt: &started,
	}
}

func gone(memory int64) snapshot.Process {
	return snapshot.Process{PID: 48112, Type: snapshot.Compute, UsedMemory: &memory, Alive: new(false)}
}

func by(name string, kind booking.Kind) booking.Booking {
	return booking.Booking{
		Host: "gpu01", Name: name, Kind: kind, From: now.Add(-time.Hour), Until: now.Add(time.Hour), Line: 3, Col: 7,
	}
}

func TestStateOfOneGPU(t *testing.T) {
	with := func(change func(*snapshot.GPU)) snapshot.GPU { g := a100(); change(&g); return g }
	used := func(mib int64) snapshot.GPU { return with(func(g *snapshot.GPU) { g.MemoryUsed = &mib }) }
	mib := func(n int64) *int64 { // negative where it is not known
		if n < 0 {
			return nil
		}
		return &n
	}
	mig := func(parent, slice int64) snapshot.GPU {
		return with(func(g *snapshot.GPU) {
			g.MIGMode, g.MemoryUsed, g.UtilizationGPU = "enabled", mib(parent), nil
			g.MIGDevices = []snapshot.MIGDevice{
				{MemoryTotal: new(int64(20096)), MemoryUsed: mib(slice)},
				{MemoryTotal: new(int64(20096)), MemoryUsed: new(int64(12))},
			}
		})
	}
	for _, tt := range []struct {
		name   string
		scene  scene
		want   board.State
		reason string
	}{
		{"display server alone is free",
			scene{gpu: used(600), procs: []snapshot.Process{proc("root", snapshot.Graphics, 400)}}, board.Free, ""},
		{"a display server's memory does not count",
			scene{gpu: used(1100), procs: []snapshot.Process{proc("root", snapshot.Graphics, 400)}}, board.Free, ""},
		{"memory beyond the display server's is stuck",
			scene{gpu: used(5000), procs: []snapshot.Process{proc("root", snapshot.Graphics, 400)}}, board.Stuck,
			board.ReasonUnowned},
		{"graphics that also computes is use",
			scene{gpu: used(600), procs: []snapshot.Process{proc("lea", snapshot.ComputeGraphics, 400)}}, board.Busy, ""},
		{"at the threshold still free", scene{gpu: used(819)}, board.Free, ""},
		{"no memory at all", scene{gpu: used(0)}, board.Free, ""},
		{"all of its memory", scene{gpu: used(40960)}, board.Stuck, board.ReasonUnowned},
		{"beyond the threshold stuck", scene{gpu: used(820)}, board.Stuck, board.ReasonUnowned},
		{"dead process that let go of its memory", scene{gpu: a100(), procs: []snapshot.Process{gone(9000)}}, board.Free, ""},
		{"dead process that did not", scene{gpu: used(9000), procs: []snapshot.Process{gone(9000)}}, board.Stuck,
			board.ReasonDead},
		{"booked and stuck is of no use to the booker",
			scene{gpu: used(9000), booked: []booking.Booking{by("eva", booking.Reserved)}}, board.Stuck, board.ReasonUnowned},
		{"beyond the threshold, and its processes are not told",
			scene{gpu: with(func(g *snapshot.GPU) { g.MemoryUsed, g.ProcessesUnknown = new(int64(9000)), "N/A" })}, board.Busy,
			board.ReasonMemory},
		{"it computes, and its processes are not told", scene{gpu: with(func(g *snapshot.GPU) {
			g.MemoryUsed, g.UtilizationGPU, g.ProcessesUnknown = new(int64(9000)), new(80), "N/A"
		})}, board.Busy, board.ReasonUtilization},
		{"it computes, and no list of processes came",
			scene{gpu: with(func(g *snapshot.GPU) { g.UtilizationGPU = new(80) }), hidden: true}, board.Busy,
			board.ReasonUtilization},
		{"it computes for somebody unknown, and somebody has booked it",
			scene{
				gpu: with(func(g *snapshot.GPU) { g.UtilizationGPU = new(80) }), hidden: true,
				booked: []booking.Booking{by("eva", booking.Reserved)},
			}, board.InUse, board.ReasonUtilization},
		{"it idles, and no list of processes came", scene{gpu: a100(), hidden: true}, board.Free, ""},
		{"it computes, and its memory cannot be read",
			scene{gpu: with(func(g *snapshot.GPU) { g.MemoryUsed, g.UtilizationGPU = nil, new(96) })}, board.Busy,
			board.ReasonUtilization},
		{"a display server that does not tell its memory may own all of it",
			scene{gpu: used(9000), procs: []snapshot.Process{{PID: 7, Type: snapshot.Graphics, Alive: new(true)}}}, board.Busy,
			board.ReasonMemory},
		{"a display server that may be gone",
			scene{gpu: used(900), procs: []snapshot.Process{{PID: 7, Type: snapshot.Graphics, UsedMemory: new(int64(400))}}},
			board.Unknown, board.ReasonUnreadable},
		{"no reading and no process is not idleness",
			scene{gpu: with(func(g *snapshot.GPU) { g.MemoryUsed, g.UtilizationGPU = nil, nil })}, board.Unknown,
			board.ReasonUnreadable},
		{"nothing is known, and somebody has booked it",
			scene{
				gpu:    with(func(g *snapshot.GPU) { g.MemoryUsed, g.UtilizationGPU = nil, nil }),
				booked: []booking.Booking{by("eva", booking.Reserved)},
			}, board.Unknown, board.ReasonUnreadable},
		{"a process is use even without readings",
			scene{
				gpu:   with(func(g *snapshot.GPU) { g.MemoryUsed, g.UtilizationGPU = nil, nil }),
				procs: []snapshot.Process{proc("lea", snapshot.Compute, 1)},
			}, board.Busy, ""},
		{"a process is use even where others are not told",
			scene{
				gpu:   with(func(g *snapshot.GPU) { g.ProcessesUnknown = "N/A" }),
				procs: []snapshot.Process{proc("lea", snapshot.Compute, 1)},
			}, board.Busy, ""},
		{"a health that no collector has", scene{gpu: with(func(g *snapshot.GPU) { g.Health = "" })}, board.Unknown,
			board.ReasonUnasked},
		{"lost", scene{gpu: with(func(g *snapshot.GPU) { g.Health = snapshot.HealthLost })}, board.Lost, board.ReasonLost},
		{"an error", scene{gpu: with(func(g *snapshot.GPU) { g.Health = snapshot.HealthError })}, board.Lost,
			board.ReasonError},
		{"row remapping failed, and the collector did not know what that means",
			scene{gpu: with(func(g *snapshot.GPU) { g.RemappedRows = &snapshot.Remapped{Failure: new(true)} })}, board.Lost,
			board.ReasonRemap},
		{"uncorrectable errors, and a repair is due", scene{gpu: with(func(g *snapshot.GPU) {
			g.RemappedRows, g.ECC = &snapshot.Remapped{Pending: new(true)}, &snapshot.ECC{UncorrectedVolatile: new(int64(1))}
		})}, board.Lost, board.ReasonECC},
		{"a repair is due, and there are no errors", scene{gpu: with(func(g *snapshot.GPU) {
			g.RemappedRows, g.ECC = &snapshot.Remapped{Pending: new(true)}, &snapshot.ECC{UncorrectedVolatile: new(int64(0))}
		})}, board.Free, ""},
		{"row remapping failed, as the collector says", scene{gpu: with(func(g *snapshot.GPU) {
			g.Health, g.HealthReason, g.RemappedRows = snapshot.HealthError, "row remapping failed",
				&snapshot.Remapped{Failure: new(true)}
		})}, board.Lost, board.ReasonRemap},
		{"a row to be remapped after uncorrectable errors, as the collector says", scene{gpu: with(func(g *snapshot.GPU) {
			g.Health, g.HealthReason = snapshot.HealthError,
				"1 uncorrectable memory errors, and a row is remapped at the next reset"
			g.RemappedRows, g.ECC = &snapshot.Remapped{Pending: new(true)}, &snapshot.ECC{UncorrectedVolatile: new(int64(1))}
		})}, board.Lost, board.ReasonECC},
		{"the same where errors are not counted", scene{gpu: with(func(g *snapshot.GPU) {
			g.RemappedRows = &snapshot.Remapped{Uncorrectable: new(1), Pending: new(true)}
		})}, board.Lost, board.ReasonECC},
		{"another error, and rows that were remapped long ago", scene{gpu: with(func(g *snapshot.GPU) {
			g.Health, g.RemappedRows = snapshot.HealthError,
				&snapshot.Remapped{Uncorrectable: new(3), Pending: new(false), Failure: new(false)}
		})}, board.Lost, board.ReasonError},
		{"uncorrectable errors that need no repair", scene{gpu: with(func(g *snapshot.GPU) {
			g.RemappedRows, g.ECC = &snapshot.Remapped{Pending: new(false), Failure: new(false)},
				&snapshot.ECC{UncorrectedVolatile: new(int64(1))}
		})}, board.Free, ""},
		{"a partitioned GPU without anybody", scene{gpu: mig(4, 12)}, board.Free, ""},
		{"one whose slice is full", scene{gpu: mig(4, 9000)}, board.Stuck, board.ReasonUnowned},
		{"one whose slice tells nothing", scene{gpu: mig(4, -1)}, board.Unknown, board.ReasonUnreadable},
		{"one that tells nothing itself", scene{gpu: mig(-1, 12)}, board.Free, ""},
		{"one that tells nothing itself, and whose slice is full", scene{gpu: mig(-1, 9000), hidden: true}, board.Busy,
			board.ReasonMemory},
		{"one without slices", scene{gpu: with(func(g *snapshot.GPU) { g.MIGMode = "enabled" })}, board.Unknown,
			board.ReasonNoSlices},
		{"a user whom nobody knows is not somebody else",
			scene{
				gpu: used(9000), booked: []booking.Booking{by("eva", booking.Reserved)},
				procs: []snapshot.Process{{PID: 7, Type: snapshot.Compute}},
			}, board.InUse, ""},
		{"the case of a name does not matter",
			scene{
				gpu: used(9000), booked: []booking.Booking{by("Eva", booking.Reserved)},
				procs: []snapshot.Process{proc("eva", snapshot.Compute, 1)},
			}, board.InUse, ""},
		{"MPS serves others",
			scene{gpu: a100(), procs: []snapshot.Process{{
				PID: 9, Type: snapshot.Compute, Program: "nvidia-cuda-mps-server", User: "root", Alive: new(true),
			}}}, board.Free, ""},
		{"500 MiB of a small card",
			scene{gpu: with(func(g *snapshot.GPU) { g.MemoryTotal, g.MemoryUsed = new(int64(16384)), new(int64(500)) })},
			board.Free, ""},
		{"501 MiB of a small card",
			scene{gpu: with(func(g *snapshot.GPU) { g.MemoryTotal, g.MemoryUsed = new(int64(16384)), new(int64(501)) })},
			board.Stuck, board.ReasonUnowned},
		{"a booking that has just ended",
			scene{gpu: a100(), booked: []booking.Booking{{Host: "gpu01", Name: "eva", Kind: booking.Reserved, Until: now}}},
			board.Free, ""},
		{"a booking that begins now",
			scene{gpu: a100(), booked: []booking.Booking{{Host: "gpu01", Name: "eva", Kind: booking.Reserved, From: now}}},
			board.Booked, ""},
		{"a booking that began after the snapshot",
			scene{
				gpu: a100(), age: 30 * time.Second,
				booked: []booking.Booking{{Host: "gpu01", Name: "eva", Kind: booking.Reserved, From: now.Add(-10 * time.Second)}},
			}, board.Booked, ""},
		{"a booking by UUID of another card",
			scene{gpu: a100(), booked: []booking.Booking{{
				Host: "gpu01", Target: booking.Target{UUID: "GPU-77", Index: -1}, Name: "eva", Kind: booking.Reserved,
			}}}, board.Free, ""},
		{"a booking by this UUID with a wrong letter",
			scene{gpu: a100(), booked: []booking.Booking{{
				Host: "gpu01", Target: booking.Target{UUID: "GPU-2", Index: -1}, Name: "eva", Kind: booking.Reserved,
			}}}, board.Booked, ""},
		{"a booking by this UUID with a wrong letter may be the user's", scene{gpu: used(9000),
			booked: []booking.Booking{{
				Host: "gpu01", Target: booking.Target{UUID: "GPU-2", Index: -1}, Name: "eva", Kind: booking.Reserved,
			}},
			procs: []snapshot.Process{proc("lea", snapshot.Compute, 9000)}}, board.InUse, ""},
		{"a booking by this UUID",
			scene{gpu: a100(), booked: []booking.Booking{{
				Host: "gpu01", Target: booking.Target{UUID: "GPU-1", Index: -1}, Name: "eva", Kind: booking.Reserved,
			}}}, board.Booked, ""},
		{"the whole host",
			scene{gpu: a100(), booked: []booking.Booking{{
				Host: "gpu01", Target: booking.Target{All: true, Index: -1}, Name: "eva", Kind: booking.Reserved,
			}}}, board.Booked, ""},
		{"a booking that cannot be read",
			scene{gpu: a100(), booked: []booking.Booking{by(booking.Unreadable, booking.Reserved)}}, board.Booked, ""},
		{"a booking that cannot be read may be the user's", scene{gpu: used(9000),
			booked: []booking.Booking{by("eva", booking.Reserved), by(booking.Unreadable, booking.Reserved)},
			procs:  []snapshot.Process{proc("lea", snapshot.Compute, 9000)}}, board.InUse, ""},
		{"Consul's maintenance mode", scene{gpu: a100(), inv: inventory.Host{Check: inventory.Maintenance}}, board.Drained,
			board.ReasonHost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, g := tt.scene.row(t)
			if g.State != tt.want || g.Reason != tt.reason {
				t.Errorf("state %s (%s), want %s (%s)", g.State, g.Reason, tt.want, tt.reason)
			}
		})
	}
}

func TestAliasesMakeOnePerson(t *testing.T) {
	s := scene{
		gpu: a100(), booked: []booking.Booking{by("Eva Marsh", booking.Reserved)},
		procs: []snapshot.Process{proc("emarsh", snapshot.Compute, 9000)},
	}
	if _, g := s.row(t); g.State != board.Contested {
		t.Errorf("without aliases: %s, want contested", g.State)
	}
	s.person = func(n string) string {
		if n == "emarsh" {
			return "Eva Marsh"
		}
		return n
	}
	if _, g := s.row(t); g.State != board.InUse {
		t.Errorf("with aliases: %s, want in-use", g.State)
	}
}

func TestAddressIsTheNameIfNoneIsKnown(t *testing.T) {
	for given, want := range map[string]string{"": "gpu01", "10.0.0.1": "10.0.0.1"} {
		if h, _ := (scene{gpu: a100(), inv: inventory.Host{Address: given}}).row(t); h.Address != want {
			t.Errorf("address %q, want %q", h.Address, want)
		}
	}
}

func TestReasonOfMaintenanceIsInTheNote(t *testing.T) {
	for want, inv := range map[string]inventory.Host{
		"new fans": {Maintenance: true, MaintenanceReason: "new fans"},
		"new fans · no overnight jobs": {
			Check: inventory.Maintenance, MaintenanceReason: "new fans", Note: "no overnight jobs",
		},
		"no overnight jobs": {Note: "no overnight jobs"},
	} {
		if h, _ := (scene{gpu: a100(), inv: inv}).row(t); h.Note != want {
			t.Errorf("%+v: note %q, want %q", inv, h.Note, want)
		}
	}
}

func TestOutputOfACheckThatDoesNotPassIsAProblem(t *testing.T) {
	for check, want := range map[inventory.Check]string{
		inventory.Passing: "", inventory.Warning: "consul:warning", inventory.Critical: "consul:critical",
	} {
		h, _ := scene{gpu: a100(), inv: inventory.Host{Check: check, CheckOutput: "disk at 93 %"}}.row(t)
		if want == "" && len(h.Problems) == 0 {
			continue
		}
		if len(h.Problems) != 1 || h.Problems[0].Code != want || h.Problems[0].Message != `Consul says: "disk at 93 %"` {
			t.Errorf("%s: %+v, want %q", check, h.Problems, want)
		}
	}
}

func TestHostInMaintenanceShowsReadings(t *testing.T) {
	for age, fresh := range map[time.Duration]bool{0: true, time.Hour: false} {
		_, g := scene{gpu: a100(), age: age, inv: inventory.Host{Maintenance: true}}.row(t)
		if g.State != board.Drained || (g.MemoryUsed != nil) != fresh || (g.Last == nil) != fresh {
			t.Errorf("data %v old: state %s, memory %v, last seen %v", age, g.State, g.MemoryUsed, g.Last)
		}
	}
}

func TestStaleHostKeepsLastSeen(t *testing.T) {
	h, g := scene{gpu: a100(), age: time.Hour, procs: []snapshot.Process{proc("tomas", snapshot.Compute, 9000)}}.row(t)
	if g.State != board.Unknown || g.Reason != board.ReasonStale {
		t.Errorf("state %s (%s), want unknown (stale)", g.State, g.Reason)
	}
	if g.Last == nil || g.Last.State != board.Busy || fmt.Sprint(g.Last.Users) != "[tomas]" ||
		!g.Last.At.Equal(h.SnapshotAt) {
		t.Errorf("last seen %+v, want busy by tomas at %v", g.Last, h.SnapshotAt)
	}
	if len(g.Processes) != 0 || h.Node.Cores != nil {
		t.Errorf("processes or host readings of an hour ago are shown as live")
	}
	if g.Name == "" || g.MemoryTotal == nil {
		t.Errorf("what the card is was forgotten")
	}
}

func TestHostWithoutASnapshot(t *testing.T) {
	b, _ := scene{never: true, inv: inventory.Host{ExpectedGPUs: 8}}.merge()
	if h := b.Hosts[0]; h.State != board.Never || len(h.GPUs) != 0 {
		t.Errorf("state %s with %d GPUs, want never with none", h.State, len(h.GPUs))
	}
	b, _ = scene{never: true, inv: inventory.Host{Check: inventory.Critical}}.merge()
	if h := b.Hosts[0]; h.State != board.Down {
		t.Errorf("critical and silent: %s, want down", h.State)
	}
}

// What was known of a host stays known: that it was there, and what a lost card has.
func TestKnownFromBefore(t *testing.T) {
	_, marks := scene{gpu: a100()}.merge()
	b, _ := scene{never: true, marks: marks}.merge()
	if h := b.Hosts[0]; h.State != board.Down || len(h.GPUs) != 1 {
		t.Errorf("silent: %s with %d GPUs, want down with one", h.State, len(h.GPUs))
	}
	_, old := scene{gpu: a100(), age: time.Hour, procs: []snapshot.Process{proc("tomas", snapshot.Compute, 9000)}}.merge()
	b, _ = scene{never: true, marks: old}.merge()
	if last := b.Hosts[0].GPUs[0].Last; last == nil || last.State != board.Busy {
		t.Errorf("first seen when it was old: last seen %+v, want busy", last)
	}
	s := scene{gpu: a100(), marks: marks}
	s.gpu.MemoryTotal = nil
	if _, g := s.row(t); g.MemoryTotal != nil {
		t.Error("a card that is well has memory that it did not report")
	}
	s.gpu.Health = snapshot.HealthLost
	if _, g := s.row(t); g.MemoryTotal == nil || *g.MemoryTotal != 40960 {
		t.Errorf("a lost card has %v", g.MemoryTotal)
	}
}

func TestExpectedGPUIsMissing(t *testing.T) {
	b, _ := scene{gpu: a100(), inv: inventory.Host{ExpectedGPUs: 3}}.merge()
	h := b.Hosts[0]
	if len(h.GPUs) != 3 || !h.GPUs[2].Missing || h.GPUs[2].State != board.Lost || h.GPUs[2].Index != 2 {
		t.Fatalf("rows %+v, want two lost ones behind the first", h.GPUs)
	}
	if !hasCode(b.Problems, "gpu:missing") {
		t.Errorf("problems %v, want gpu:missing", b.Problems)
	}
}

func TestNaturalCompare(t *testing.T) {
	want := []string{"", "atlas", "gpu", "GPU1", "gpu1", "gpu2", "gpu02a", "gpu9", "gpu10", "gpua", "n1-2", "n1-10",
		"n2-1"}
	for i, x := range want {
		for j, y := range want {
			if got := cmp.Compare(board.NaturalCompare(x, y), 0); got != cmp.Compare(i, j) {
				t.Errorf("%q and %q: %d", x, y, got)
			}
		}
	}
}

func hasCode(problems []snapshot.Problem, code string) bool {
	return slices.ContainsFunc(problems, func(p snapshot.Problem) bool { return p.Code == code })
}

// A GPU that was busy when it was last seen was busy, although it is drained now.
func TestLastSeenOfAGPUInMaintenance(t *testing.T) {
	ops := by("ops", booking.Maintenance)
	ops.From = now.Add(-2 * time.Hour)
	_, g := scene{
		gpu: a100(), age: time.Hour, procs: []snapshot.Process{proc("tomas", snapshot.Compute, 9000)},
		booked: []booking.Booking{ops},
	}.row(t)
	if g.State != board.Drained || g.Last == nil || g.Last.State != board.Busy {
		t.Errorf("%s, last seen %+v; want maintenance, last seen busy", g.State, g.Last)
	}
}

// Processes come by memory and then by pid, and a person is looked up once, because that may be slow.
func TestProcessesAreSorted(t *testing.T) {
	s := scene{gpu: a100()}
	for _, p := range []struct {
		pid    int
		memory int64
	}{{7, 100}, {3, 100}, {9, 200}, {5, 100}} {
		one := proc("eva", snapshot.Compute, p.memory)
		one.PID = p.pid
		s.procs = append(s.procs, one)
	}
	_, g := s.row(t)
	var pids []int
	for _, p := range g.Processes {
		pids = append(pids, p.PID)
	}
	if want := []int{9, 3, 5, 7}; !slices.Equal(pids, want) {
		t.Errorf("pids %v, want %v", pids, want)
	}
}

// What a process holds is shown as a share of the memory, at most all of it.
func TestSharesOfMemory(t *testing.T) {
	for _, tt := range []struct {
		used, total int64
		want        *float64
	}{{10240, 40960, new(0.25)}, {50000, 40960, new(1.0)}, {10, 0, nil}} {
		s := scene{gpu: a100(), procs: []snapshot.Process{proc("eva", snapshot.Compute, tt.used)}}
		s.gpu.MemoryTotal = &tt.total
		_, g := s.row(t)
		if got := g.Processes[0].Share; (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%d of %d MiB: share %v", tt.used, tt.total, got)
		}
	}
}

// What was last seen of a GPU was decided by the bookings of that time.
func TestLastSeenIsOfItsTime(t *testing.T) {
	ended := by("eva", booking.Reserved)
	ended.From, ended.Until = now.Add(-2*time.Hour), now.Add(-30*time.Minute)
	_, g := scene{
		gpu: a100(), age: time.Hour, procs: []snapshot.Process{proc("eva", snapshot.Compute, 9000)},
		booked: []booking.Booking{ended},
	}.row(t)
	if g.Booking != nil || g.Last.State != board.InUse {
		t.Errorf("booked now: %v, last seen %s; want no booking, last seen in-use", g.Booking, g.Last.State)
	}
}

// People are named in order, whatever they hold, and a model as it is configured.
func TestNamesOfARow(t *testing.T) {
	s := scene{gpu: a100(), age: time.Hour,
		setting: board.Settings{ShortNames: map[string]string{"NVIDIA A100-SXM4-40GB": "A100 40"}},
		procs:   []snapshot.Process{proc("zoe", snapshot.Compute, 9000), proc("adam", snapshot.Compute, 100)}}
	if _, g := s.row(t); !slices.Equal(g.Last.Users, []string{"adam", "zoe"}) || g.ShortName != "A100 40" {
		t.Errorf("a %s, last used by %v", g.ShortName, g.Last.Users)
	}
}
