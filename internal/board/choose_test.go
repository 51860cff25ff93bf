package board

import (
	"fmt"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

// An amount of memory is what the box of a card says.
func TestParseMemory(t *testing.T) {
	for s, want := range map[string]int64{
		"40G": 38146, "80GB": 76293, "40Gi": 40960, "40GiB": 40960, " 24 g ": 22888, "500M": 476, "500MB": 476,
		"500Mi":  500,
		"500MiB": 500, "999999GiB": 1023998976, "0.5Gi": 512, "0G": 0,
	} {
		if got, err := ParseMemory(s); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "40", "G", "-1G", "x40G", "1000000G", "1e300G", "NaNG", "InfG", "40T"} {
		if got, err := ParseMemory(s); err == nil {
			t.Errorf("%q was read as %d", s, got)
		}
	}
	// as H100, A100, A10, L40S and T4 report it
	for name, mib := range map[string]int64{"80G": 81559, "40G": 40536, "24G": 23028, "48G": 46068, "16G": 15360} {
		w := Request{}
		w.Memory, _ = ParseMemory(name)
		if g := (GPU{GPU: snapshot.GPU{MemoryTotal: &mib}}); !w.Fits(&Host{}, &g) {
			t.Errorf("a card of %s with %d MiB is none", name, mib)
		}
	}
	if w := (Request{Memory: 1}); w.Fits(&Host{}, &GPU{}) {
		t.Error("memory that nobody knows is enough")
	}
}

// A shell sees what is printed, and nothing in it may be more than a name.
func TestDevicesAreSafeInAShell(t *testing.T) {
	gpu := func(uuid string) *GPU { return &GPU{GPU: snapshot.GPU{Index: 3, UUID: uuid}} }
	for _, c := range []struct {
		gpu  *GPU
		want string
	}{
		{gpu("GPU-0a1b-2c"), "GPU-0a1b-2c"}, {gpu(""), "3"}, {gpu("GPU-$(reboot)"), "3"}, {gpu("GPU-1 X=2"), "3"},
		{gpu("a,b"), "3"}, {gpu("GPU-é"), "3"},
		{gpu("MIG-GPU-1/7/0"), "MIG-GPU-1/7/0"}, {gpu("`x`"), "3"},
	} {
		if got := new(Host).Device(c.gpu); got != c.want {
			t.Errorf("%q: %q, want %q", c.gpu.UUID, got, c.want)
		}
	}
}

func TestOpenTo(t *testing.T) {
	eva := booking.Aliases{"eva": "Eva Lind", "elind": "Eva Lind"}.Mine("Eva")
	by := func(name string) *Booking { return &Booking{Name: name} }
	for _, c := range []struct {
		name string
		gpu  GPU
		want bool
	}{
		{"free", GPU{State: Free}, true},
		{"one's own", GPU{State: Booked, Booking: by("eva lind")}, true},
		{"one's own by another login", GPU{State: Booked, Booking: by("elind")}, true},
		{"somebody else's", GPU{State: Booked, Booking: by("bob")}, false},
		{"one's own twice", GPU{State: Booked, Booking: by("eva"), Others: []Booking{*by("Eva Lind")}}, true},
		{"also somebody else's", GPU{State: Booked, Booking: by("eva"), Others: []Booking{*by("bob")}}, false},
		{"booked by nobody", GPU{State: Booked}, false},
	} {
		if got := OpenTo(&c.gpu, eva); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	for _, s := range States() {
		if open := OpenTo(&GPU{State: s, Booking: by("eva")}, eva); open != (s == Free || s == Booked) {
			t.Errorf("%s with a booking of one's own: %v", s, open)
		}
	}
}

// --max-used gives what the older tool gave, whoever computes; but nothing that
// is of no use, that nobody knows about, or that somebody else has booked.
func TestMaxUsedAsksForMemory(t *testing.T) {
	eva := booking.Aliases(nil).Mine("eva")
	by := func(name string) *Booking { return &Booking{Name: name} }
	for _, c := range []struct {
		name        string
		gpu         GPU
		used, total int64 // MiB; negative where they are not known
		want        bool
	}{
		{"free", GPU{State: Free}, 20, 100, true},
		{"free, and more is used", GPU{State: Free}, 21, 100, false},
		{"a process on 7 %", GPU{State: Busy}, 7, 100, true},
		{"by somebody unknown", GPU{State: Busy, Reason: ReasonMemory}, 7, 100, true},
		{"stuck on 7 %", GPU{State: Stuck}, 7, 100, false},
		{"lost", GPU{State: Lost}, 7, 100, false},
		{"unknown", GPU{State: Unknown}, 7, 100, false},
		{"drained", GPU{State: Drained, Booking: by("eva")}, 7, 100, false},
		{"one's own", GPU{State: InUse, Booking: by("eva")}, 7, 100, true},
		{"somebody else's", GPU{State: InUse, Booking: by("bob")}, 7, 100, false},
		{"somebody else's, and idle", GPU{State: Booked, Booking: by("bob")}, 7, 100, false},
		{"one's own, and another's", GPU{State: InUse, Booking: by("eva"), Others: []Booking{*by("bob")}}, 7, 100,
			false},
		{"contested", GPU{State: Contested, Booking: by("eva")}, 7, 100, false},
		{"memory that nobody knows", GPU{State: Busy}, -1, 100, false},
		{"a total that nobody knows", GPU{State: Busy}, 7, -1, false},
		{"more than there is", GPU{State: Busy}, 101, 100, false},
		{"slices", GPU{State: Busy, GPU: snapshot.GPU{MIGDevices: []snapshot.MIGDevice{{}}}}, 7, 100, false},
		{"the node's memory", GPU{State: Busy, GPU: snapshot.GPU{MemoryShared: true}}, 7, 100, false},
		{"the node's memory, and free", GPU{State: Free, GPU: snapshot.GPU{MemoryShared: true}}, 70, 100, true},
	} {
		if c.used >= 0 {
			c.gpu.MemoryUsed = &c.used
		}
		if c.total >= 0 {
			c.gpu.MemoryTotal = &c.total
		}
		w := Request{MaxUsed: new(20.0)}
		if got := w.open(&c.gpu, eva); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// N GPUs are N whole GPUs. Slices are had where they are asked for; one without a UUID that is
// safe in a shell is no use.
func TestChoose(t *testing.T) {
	gpu := func(index int, used, watts int64) GPU {
		power := float64(watts)
		return GPU{State: Free, GPU: snapshot.GPU{
			Index: index, Name: "NVIDIA A100", MemoryTotal: new(int64(100)), MemoryUsed: &used,
			Readings: snapshot.Readings{PowerLimit: &power},
		}}
	}
	slice := func(uuid string) GPU {
		return GPU{
			State: Free, ShortName: "A100 1g.5gb", Slice: &Slice{},
			GPU: snapshot.GPU{UUID: uuid, Name: "NVIDIA A100 MIG 1g.5gb"},
		}
	}
	busy := gpu(9, 0, 900)
	busy.State = Busy
	parted := GPU{Slices: []GPU{slice("MIG-1"), slice(""), slice("x y")}}
	nothing := GPU{State: Free, ShortName: "H100", GPU: snapshot.GPU{Index: 3}}
	own := gpu(4, 90, 100)
	own.State, own.Booking = Booked, &Booking{Name: "eva"}
	theirs := own
	theirs.Index, theirs.Others = 5, []Booking{{Name: "bob"}}
	b := &Board{Hosts: []Host{
		{Name: "a", GPUs: []GPU{parted, gpu(1, 50, 250), busy, gpu(2, 10, 300), nothing, own, theirs}},
		{Name: "b", GPUs: []GPU{gpu(0, 30, 400)}},
	}}
	for _, tt := range []struct {
		request Request
		want    string
	}{
		{Request{}, "[a:1 a:2 a:3 a:4 b:0]"},
		{Request{Order: "index"}, "[a:1 a:2 a:3 a:4 b:0]"},
		{Request{Order: "memory"}, "[a:2 b:0 a:1 a:4 a:3]"},
		{Request{Order: "power"}, "[b:0 a:2 a:1 a:4 a:3]"},
		{Request{Hosts: []string{"b"}}, "[b:0]"},
		{Request{Model: "a1"}, "[a:1 a:2 a:4 b:0]"},
		{Request{Model: "h1"}, "[a:3]"},
		{Request{Memory: 100}, "[a:1 a:2 a:4 b:0]"},
		{Request{Memory: 101}, "[]"},
		{Request{MIG: true}, "[a:MIG-1]"},
		{Request{MIG: true, Model: "a100"}, "[a:MIG-1]"},
		{Request{MIG: true, Model: "h100"}, "[]"},
		{Request{Model: "1G.5GB"}, "[a:MIG-1]"},
		{Request{Model: "a100 1g.5gb"}, "[a:MIG-1]"},
		{Request{Model: "mig"}, "[a:MIG-1]"},
		{Request{Model: "2g.10gb"}, "[]"},
		{Request{Booked: true}, "[a:4]"},
		{Request{Booked: true, MIG: true}, "[]"},
	} {
		eva := booking.Aliases(nil).Mine("eva")
		if got := fmt.Sprint(tt.request.Choose(b, eva)); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.request, got, tt.want)
		}
	}

	// A booking that cannot be read is nobody's, whatever somebody calls themselves.
	unread := gpu(6, 10, 300)
	unread.State, unread.Booking = Booked, &Booking{Name: booking.Unreadable}
	b.Hosts[0].GPUs = []GPU{unread}
	if got := (&Request{}).Choose(b, booking.Aliases(nil).Mine(booking.Unreadable)); len(got) > 0 &&
		got[0].Host.Name == "a" {
		t.Errorf("what a booking that cannot be read holds is given to %q", booking.Unreadable)
	}
}

// TestMayBeIn: a board is asked only if its sums may hold what is wanted, and always if they do.
func TestMayBeIn(t *testing.T) {
	sums := func(free, booked int, m Model) *Sums {
		m.Total, m.Free = 8, free
		count := Count{All: 8, ByState: map[State]int{Free: free, Booked: booked}}
		s := &Sums{Totals: Totals{GPUs: count}, Models: []Model{{Name: "GTX 1080 Ti", Total: 8}, m}}
		if m.MIG {
			s.Totals.GPUs, s.Totals.Slices = Count{All: 8}, count
		}
		return s
	}
	a100 := Model{Name: "A100-SXM4-40GB", MemoryTotal: new(int64(40960))}
	renamed := Model{Name: "big", FullName: "NVIDIA H100 80GB HBM3", MemoryTotal: new(int64(81559))}
	slice := Model{Name: "A100 MIG 1g.5gb", MIG: true, MemoryTotal: new(int64(4864))}
	for _, tt := range []struct {
		request Request
		sums    *Sums
		want    bool
	}{
		{Request{}, sums(1, 0, a100), true},
		{Request{}, sums(0, 0, a100), false},
		{Request{}, sums(0, 1, a100), true},
		{Request{MaxUsed: new(20.0)}, sums(0, 0, a100), true},
		{Request{}, &Sums{}, false},
		{Request{Model: "a100"}, sums(1, 0, a100), true},
		{Request{Model: "NVIDIA A100-SXM4"}, sums(1, 0, a100), true},
		{Request{Model: "nvidia"}, sums(1, 0, a100), true},
		{Request{Model: "GeForce"}, sums(1, 0, a100), true}, // what is left out of a name may be
		{Request{Model: "h100"}, sums(1, 0, a100), false},
		{Request{Model: "h100 80GB"}, sums(1, 0, renamed), true},
		{Request{Model: "BIG"}, sums(1, 0, renamed), true},
		{Request{Memory: 40960}, sums(1, 0, a100), true},
		{Request{Memory: 81559 + 1024}, sums(1, 0, renamed), true}, // a sum is of cards that differ by so much
		{Request{Memory: 81559}, sums(1, 0, a100), false},
		{Request{Memory: 1}, sums(1, 0, Model{Name: "A100"}), false},
		{Request{MIG: true}, sums(1, 0, a100), false},
		{Request{MIG: true}, sums(1, 0, slice), true},
		{Request{Model: "1g.5gb"}, sums(0, 1, slice), true},
		{Request{}, sums(1, 0, slice), false},
	} {
		if got := tt.request.MayBeIn(tt.sums); got != tt.want {
			t.Errorf("%+v in %+v: %t", tt.request, tt.sums.Models[max(0, len(tt.sums.Models)-1):], got)
		}
	}
}

func TestPick(t *testing.T) {
	var list []Unit
	for i, n := range []int{1, 3, 2} {
		h := &Host{Name: string(rune('a' + i))}
		for k := range n {
			list = append(list, Unit{h, &GPU{GPU: snapshot.GPU{Index: k}}})
		}
	}
	for _, tt := range []struct {
		n               int
		oneHost, fewest bool
		want            string
	}{
		{1, false, false, "[a:0]"}, {2, false, false, "[b:0 b:1]"}, {2, false, true, "[c:0 c:1]"},
		{3, true, true, "[b:0 b:1 b:2]"},
		{4, true, false, "[]"}, {4, false, false, "[a:0 b:0 b:1 b:2]"}, {4, false, true, "[b:0 b:1 b:2 c:0]"},
		{6, false, false, "[a:0 b:0 b:1 b:2 c:0 c:1]"}, {7, false, false, "[]"},
	} {
		if got := fmt.Sprint(Pick(list, tt.n, tt.oneHost, tt.fewest)); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}

// What is free is chosen as long as nobody else's booking begins too early; what one has booked oneself stays.
func TestChooseForSoLong(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	free := func(index int, until time.Time) GPU {
		return GPU{GPU: snapshot.GPU{Index: index}, State: Free, FreeUntil: until}
	}
	b := &Board{Hosts: []Host{{Name: "gpu01", GPUs: []GPU{
		free(0, time.Time{}), free(1, at.Add(2*time.Hour)), free(2, at.Add(4*time.Hour)),
		{GPU: snapshot.GPU{Index: 3}, State: Booked, Booking: &Booking{Name: "eva", Until: at.Add(time.Hour)}},
	}}}}
	for _, c := range []struct {
		until time.Time
		want  string
	}{
		{time.Time{}, "[gpu01:0 gpu01:1 gpu01:2 gpu01:3]"},
		{at.Add(2 * time.Hour), "[gpu01:0 gpu01:1 gpu01:2 gpu01:3]"},
		{at.Add(3 * time.Hour), "[gpu01:0 gpu01:2 gpu01:3]"},
		{at.Add(5 * time.Hour), "[gpu01:0 gpu01:3]"},
	} {
		r := Request{FreeUntil: c.until}
		if got := fmt.Sprint(r.Choose(b, func(name string) bool { return name == "eva" })); got != c.want {
			t.Errorf("until %s: %s, want %s", c.until, got, c.want)
		}
	}
}

// A part of a board counts what is in it, and the board stays as it was.
func TestOnly(t *testing.T) {
	slice := func(index int, state State) GPU {
		return GPU{GPU: snapshot.GPU{Index: 1, UUID: fmt.Sprint("MIG-", index)}, State: state,
			Slice: &Slice{Index: index}}
	}
	b := &Board{Hosts: []Host{
		{Name: "gpu01",
			GPUs: []GPU{{State: Free}, {GPU: snapshot.GPU{Index: 1}, Slices: []GPU{slice(0, Free), slice(1, Busy)}}}},
		{Name: "gpu02", GPUs: []GPU{{State: Busy}}},
	}}
	b.Count()
	whole := b.Only(func(_ *Host, g *GPU) bool { return g.Slice == nil })
	mig := b.Only(func(h *Host, g *GPU) bool { return h.Name == "gpu01" && g.Slice != nil && g.Slice.Index == 0 })
	for _, c := range []struct {
		name               string
		b                  *Board
		gpus, slices, rows int
	}{{"whole GPUs", whole, 2, 0, 2}, {"a slice", mig, 0, 1, 1}, {"all", b, 2, 2, 3}} {
		rows := 0
		for i := range c.b.Hosts {
			rows += len(c.b.Hosts[i].GPUs)
		}
		if c.b.Totals.GPUs.All != c.gpus || c.b.Totals.Slices.All != c.slices || rows != c.rows || len(c.b.Hosts) != 2 {
			t.Errorf("%s: %+v, %d rows of %d hosts", c.name, c.b.Totals, rows, len(c.b.Hosts))
		}
	}
}
