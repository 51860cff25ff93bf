package board

import (
	"testing"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

// An amount of memory is what the box of a card says.
func TestParseMemory(t *testing.T) {
	for s, want := range map[string]int64{
		"40G": 38146, "80GB": 76293, "40Gi": 40960, "40GiB": 40960, " 24 g ": 22888, "500M": 476, "500MiB": 500, "0.5Gi": 512, "0G": 0,
	} {
		if got, err := ParseMemory(s); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "40", "G", "-1G", "x40G", "1e300G", "NaNG", "InfG", "40T"} {
		if got, err := ParseMemory(s); err == nil {
			t.Errorf("%q was read as %d", s, got)
		}
	}
	for name, mib := range map[string]int64{"80G": 81559, "40G": 40536, "24G": 23028, "48G": 46068, "16G": 15360} { // as H100, A100, A10, L40S and T4 report it
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
		{gpu("GPU-0a1b-2c"), "GPU-0a1b-2c"}, {gpu(""), "3"}, {gpu("GPU-$(reboot)"), "3"}, {gpu("GPU-1 X=2"), "3"}, {gpu("a,b"), "3"}, {gpu("GPU-é"), "3"},
		{gpu("MIG-GPU-1/7/0"), "MIG-GPU-1/7/0"}, {gpu("`x`"), "3"},
	} {
		if got := DeviceID(c.gpu); got != c.want {
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
		{"one's own, and another's", GPU{State: InUse, Booking: by("eva"), Others: []Booking{*by("bob")}}, 7, 100, false},
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
