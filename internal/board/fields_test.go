package board_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// TestHostCarriesInventoryAndSnapshot: what the inventory and the node say of a host arrives on the board.
func TestHostCarriesInventoryAndSnapshot(t *testing.T) {
	collected := snapshot.Time{Time: now.Add(-10 * time.Second)}
	node := snapshot.Node{Kernel: "6.1", Cores: new(64), Load1: new(1.5)}
	in := board.Input{
		Now: now,
		Hosts: []inventory.Host{{
			Name: "gpu01", Title: "Vision 1", Group: "vision", Owner: "eva", Note: "no overnight jobs",
			Address:    "gpu01.lab",
			Datacenter: "dc1",
			Tags:       []string{"a100"}, Check: inventory.Warning, CheckOutput: "disk at 93 %",
			GoneSince: now.Add(-time.Hour),
		}},
		Reports: map[string]board.Report{"gpu01": {
			Problems: []snapshot.Problem{{Code: "drop:damaged", Message: "latest.json.gz is cut"}},
			Snapshot: &snapshot.Snapshot{
				Host: "gpu01", CollectedAt: collected, IntervalSeconds: 20, DriverVersion: "570.86",
				CUDAVersion: "12.8",
				Node:        node,
				GPUs:        []snapshot.GPU{a100()}, GPUsComplete: true,
				Errors: []snapshot.Problem{{Code: "ps:failed", Message: "ps did not answer"}},
			},
		}},
	}
	b, _ := board.Merge(in)
	want := board.Host{
		Name: "gpu01", Title: "Vision 1", Group: "vision", Owner: "eva", Note: "no overnight jobs",
		Address:    "gpu01.lab",
		Datacenter: "dc1",
		Tags:       []string{"a100"}, State: board.Up, Check: "warning", SnapshotAt: collected.Time,
		GoneSince: now.Add(-time.Hour), Interval: 20 * time.Second,
		Problems: []snapshot.Problem{
			{Code: "drop:damaged", Message: "latest.json.gz is cut"},
			{Code: "consul:warning", Message: `Consul says: "disk at 93 %"`, Host: "gpu01"},
			{Code: "ps:failed", Message: "ps did not answer"},
		},
		Driver: "570.86", CUDA: "12.8", Node: node,
		Totals: board.Totals{Hosts: 1, ByHost: map[board.HostState]int{board.Up: 1},
			Slices: board.Count{ByState: map[board.State]int{}},
			GPUs:   board.Count{All: 1, ByState: map[board.State]int{board.Free: 1}}},
		Models: []board.Model{{
			Name: "A100-SXM4-40GB", FullName: "NVIDIA A100-SXM4-40GB", MemoryTotal: new(int64(40960)), Total: 1,
			Free: 1,
		}},
	}
	if diff := cmp.Diff(want,
		b.Hosts[0], cmpopts.IgnoreFields(board.Host{}, "GPUs"), cmpopts.IgnoreUnexported(board.Host{})); diff != "" {
		t.Errorf("the host (-want +got):\n%s", diff)
	}
	in.Now = now.Add(time.Hour)
	if b, _ := board.Merge(in); b.Hosts[0].Node.Kernel != "" || b.Hosts[0].Driver != "570.86" {
		t.Errorf("an hour later the host still says %+v of now", b.Hosts[0].Node)
	}
}

// TestBoardCarriesItsInput: what was given to a merge as it is arrives on the board, and each problem names its host.
func TestBoardCarriesItsInput(t *testing.T) {
	given := snapshot.Problem{Code: "consul:unreachable", Message: "asked in vain"}
	inFile := snapshot.Problem{
		Code: "booking:syntax", Message: "a brace is missing", File: "comments.json", Line: 4, Col: 1,
	}
	in := board.Input{
		Now: now, Interval: 30 * time.Second, InventoryAsOf: now.Add(-time.Hour), Demo: true,
		Hosts: []inventory.Host{{Name: "gpu02", Group: "b"}, {Name: "gpu10", Group: "a"},
			{Name: "gpu9", Group: "a"}},
		Problems: []snapshot.Problem{given},
		Reports:  map[string]board.Report{"gpu02": {Problems: []snapshot.Problem{{Code: "drop:damaged"}}}},
		Calendar: &booking.Calendar{File: "comments.json", Broken: true, LastGood: now.Add(-time.Minute),
			Problems: []snapshot.Problem{inFile},
			Bookings: []booking.Booking{{
				Host: "gpu77", Target: booking.Target{All: true, Index: -1}, Name: "eva", Kind: booking.Reserved,
				Line: 2, Col: 3,
			}}},
	}
	b, _ := board.Merge(in)
	if b.GeneratedAt != now || b.Interval != in.Interval || b.InventoryAsOf != in.InventoryAsOf || !b.Demo ||
		b.BookingsStaleSince != in.Calendar.LastGood {
		t.Errorf("the board says %v, %v, %v, %v, %v",
			b.GeneratedAt, b.Interval, b.InventoryAsOf, b.Demo, b.BookingsStaleSince)
	}
	var names, codes []string
	for _, h := range b.Hosts {
		names = append(names, h.Name)
	}
	for _, p := range b.Problems {
		codes = append(codes, p.Code+" "+p.Host)
	}
	if want := []string{"gpu9", "gpu10", "gpu02"}; !slices.Equal(names, want) {
		t.Errorf("hosts %v, want %v", names, want)
	}
	if want := []string{"consul:unreachable ", "drop:damaged gpu02", "booking:syntax ",
		"booking:unknown-host gpu77"}; !slices.Equal(codes, want) {
		t.Errorf("problems %q, want %q", codes, want)
	}
	in.Now = time.Now() // it has a reading of the process's own clock
	if b, _ := board.Merge(in); b.GeneratedAt != in.Now.Round(0) {
		t.Errorf("generated at %v", b.GeneratedAt)
	}
	in.Calendar.Broken = false
	if b, _ := board.Merge(in); !b.BookingsStaleSince.IsZero() {
		t.Errorf("bookings that can be read are stale since %v", b.BookingsStaleSince)
	}
}

// TestFleetOfABoard: bookings are checked against the GPUs of each host, and the number that the card of each booking
// has now.
func TestFleetOfABoard(t *testing.T) {
	gpu := func(index int, uuid string) board.GPU {
		return board.GPU{GPU: snapshot.GPU{Index: index, UUID: uuid}}
	}
	parted := gpu(1, "GPU-P")
	parted.Slices = []board.GPU{{Slice: &board.Slice{}, GPU: snapshot.GPU{Index: 1, UUID: "MIG-1"}}}
	nameless := parted
	nameless.Slices = []board.GPU{{Slice: &board.Slice{}, GPU: snapshot.GPU{Index: 1}}}
	b := &board.Board{
		Hosts: []board.Host{
			{Name: "a", GPUs: []board.GPU{gpu(0, ""), parted}},
			{Name: "b", GPUs: []board.GPU{nameless}},
			{Name: "c"},
		},
		Bookings: []board.Booking{
			{Host: "a", ID: "one", GPUs: []int{1}}, {Host: "a", ID: "all"}, {Host: "a", GPUs: []int{0}},
		},
	}
	want := booking.Fleet{
		Hosts: map[string]booking.KnownHost{
			"a": {GPUs: 2, UUIDs: map[string]int{"GPU-p": 1, "MIG-1": 1}},
			"b": {GPUs: 2, UUIDs: map[string]int{"GPU-p": 1}, Incomplete: true},
			"c": {UUIDs: map[string]int{}},
		},
		Cards: map[string]int{"a/one": 1},
	}
	if diff := cmp.Diff(want, b.Fleet()); diff != "" {
		t.Errorf("the fleet (-want +got):\n%s", diff)
	}
}
