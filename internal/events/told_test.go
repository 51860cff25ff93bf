package events

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
)

// held is a GPU that people have held since some time before a board, idle for as long as it says.
func held(idle time.Duration, people map[string]time.Duration) change {
	return func(b *board.Board, h *board.Host, g *board.GPU) {
		h.Address, b.IdleNotice = "atlas.lab", 6*time.Hour
		g.State = board.Busy
		if idle > 0 {
			g.IdleSince = b.GeneratedAt.Add(-idle)
		}
		for who, since := range people {
			p := board.Process{Person: who, Computes: true}
			p.PID, p.StartedAt = 4711, new(snapshot.TimeOf(b.GeneratedAt.Add(-since)))
			g.Processes = append(g.Processes, p)
		}
	}
}

// told returns what the second of two boards says.
func told(first, second change) []Event {
	_, memory := Diff(Memory{}, scene(start, nil))
	_, memory = Diff(memory, scene(start.Add(time.Minute), first))
	found, _ := Diff(memory, scene(start.Add(2*time.Minute), second))
	return found
}

func TestIdleIsToldToWhoHasHeldItForSoLong(t *testing.T) {
	both := map[string]time.Duration{"ada": 20 * time.Hour, "kai": 2 * time.Hour}
	idle := held(7*time.Hour, both)
	found := told(idle, idle)
	want := "atlas GPU 0 is held by ada and has been idle for 7 h; to end the program: ssh atlas.lab kill 4711"
	if len(found) != 1 || found[0].Kind != GPUIdle || !slices.Equal(found[0].Users, []string{"ada"}) ||
		found[0].Summary != want {
		t.Errorf("events %+v, want %q for ada alone", found, want)
	}
	for name, change := range map[string]change{
		"not for so long": held(5*time.Hour, both), "not known": held(0, both),
		"its processes are not known": func(b *board.Board, h *board.Host, g *board.GPU) {
			idle(b, h, g)
			g.ProcessesUnknown = "smi:processes"
		},
		"likely them": func(b *board.Board, h *board.Host, g *board.GPU) {
			idle(b, h, g)
			for i := range g.Processes {
				g.Processes[i].Person, g.Processes[i].Likely = "", g.Processes[i].Person
			}
		},
		"nobody knows when their program began": func(b *board.Board, h *board.Host, g *board.GPU) {
			idle(b, h, g)
			for i := range g.Processes {
				g.Processes[i].StartedAt = nil
			}
		},
	} {
		if found := told(change, change); len(found) != 0 {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// The command of each person ends what is theirs, and a masked site names nobody.
func TestContestedIsToldToBoth(t *testing.T) {
	contested := func(b *board.Board, h *board.Host, g *board.GPU) {
		held(0, map[string]time.Duration{"kai": time.Hour})(b, h, g)
		booking(-time.Hour, 8*time.Hour)(b, h, g)
		b.Bookings[0].Name = "ada l"
		g.State, g.Booking = board.Contested, &b.Bookings[0]
	}
	found := slices.DeleteFunc(told(contested, contested), func(e Event) bool { return e.Kind != GPUContested })
	what := "atlas GPU 0 is booked by ada l and used by kai"
	want := map[string]string{
		"kai":   what + "; to end the program: ssh atlas.lab kill 4711",
		"ada l": what + "; to end the booking: gpuboard release atlas:0 --name 'ada l'",
	}
	for _, e := range found {
		if len(e.Users) != 1 || e.Summary != want[e.Users[0]] || !strings.HasSuffix(e.ID, "/"+e.Users[0]) {
			t.Errorf("event %+v", e)
		}
		masked := e.Mask(func(string) string { return "someone" }, func(id string) string { return "b?" })
		if said := masked.ID + masked.Summary; strings.Contains(said, "ada") || strings.Contains(said, "kai") {
			t.Errorf("a masked site says %q", said)
		}
	}
	if len(found) != 2 {
		t.Errorf("events %+v", found)
	}
	more := func(b *board.Board, h *board.Host, g *board.GPU) {
		contested(b, h, g)
		g.MoreOthers = 1
	}
	for _, e := range told(more, more) {
		if e.Kind == GPUContested {
			t.Errorf("one of the bookings that are not listed may be kai's, and %+v", e)
		}
	}
}

func TestNoCommandThatMayNotWork(t *testing.T) {
	for name, change := range map[string]change{
		"in a container": func(_ *board.Board, _ *board.Host, g *board.GPU) { g.Processes[0].Container = "a1b2c3" },
		"another's account": func(_ *board.Board, _ *board.Host,
			g *board.GPU) {
			g.Processes[0].By = []snapshot.Claim{{User: "ada"}}
		},
		"an option of ssh": func(_ *board.Board, h *board.Host, _ *board.GPU) { h.Address = "-oProxyCommand=reboot" },
		"a port":           func(_ *board.Board, h *board.Host, _ *board.GPU) { h.Address = "atlas.lab:2222" },
	} {
		idle := func(b *board.Board, h *board.Host, g *board.GPU) {
			held(7*time.Hour, map[string]time.Duration{"ada": 20 * time.Hour})(b, h, g)
			change(b, h, g)
		}
		if found := told(idle, idle); len(found) != 1 || strings.Contains(found[0].Summary, "kill") {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// A booking of several GPUs is unused if all of them are known to be.
func TestUnusedIsTheWholeBooking(t *testing.T) {
	booked := func(second bool) change {
		return func(b *board.Board, h *board.Host, g *board.GPU) {
			booking(-3*time.Hour, 9*time.Hour)(b, h, g)
			b.Bookings[0].GPUs = nil
			twoGPUs(b, h, g)
			for i := range h.GPUs {
				h.GPUs[i].State, h.GPUs[i].Booking, h.GPUs[i].NoShow = board.Booked, &b.Bookings[0], i == 0 || second
			}
		}
	}
	want := "atlas is booked by mira and not in use; to end the booking: gpuboard release atlas --name mira"
	found := told(booked(false), booked(true))
	if len(found) != 1 || found[0].Kind != BookingUnused || found[0].Summary != want {
		t.Errorf("events %+v, want %q", found, want)
	}
	if found := told(booked(false), booked(false)); len(found) != 0 {
		t.Errorf("one of its GPUs is used, and %+v", found)
	}
}

// A card that is ill is said of once, to those who use its slices, too.
func TestFaultsOfACard(t *testing.T) {
	hot := func(b *board.Board, h *board.Host, g *board.GPU) {
		sliced(board.Busy, board.Busy)(b, h, g)
		for i, who := range []string{"kai", "ada"} {
			g.Slices[i].Processes = []board.Process{{Person: who, Computes: true}}
		}
		g.ThrottleReasons, g.Temperature = []string{"sw_thermal_slowdown"}, new(93)
		h.Problems = []snapshot.Problem{{Code: "gpu:xid", Message: `atlas says: "XID 79"`, GPU: new(0)},
			{Code: "gpu:xid", GPU: new(1)}}
	}
	found := told(hot, hot)
	said := map[Kind]string{
		GPUHot: "atlas GPU 0 is slowed down because it is too hot (93 °C)",
		GPUXID: `atlas GPU 0 has an error of its driver: atlas says: "XID 79"`,
	}
	for _, e := range found {
		if e.Summary != said[e.Kind] || !slices.Equal(e.Users, []string{"ada", "kai"}) {
			t.Errorf("event %+v", e)
		}
	}
	if len(found) != 2 {
		t.Errorf("events %+v", found)
	}
}
