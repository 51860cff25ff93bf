package events

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
)

var start = time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)

// scene is a board of one host with one GPU, and what a test changes of it.
func scene(at time.Time, change func(*board.Board, *board.Host, *board.GPU)) *board.Board {
	g := board.GPU{State: board.Free}
	g.UUID = "GPU-1"
	b := &board.Board{GeneratedAt: at,
		Hosts: []board.Host{{Name: "atlas", State: board.Up, SnapshotAt: at.Add(-10 * time.Second),
			GPUs: []board.GPU{g}}}}
	if change != nil {
		change(b, &b.Hosts[0], &b.Hosts[0].GPUs[0])
	}
	return b
}

type change = func(*board.Board, *board.Host, *board.GPU)

func state(s board.State, people ...string) change {
	return func(_ *board.Board, _ *board.Host, g *board.GPU) {
		g.State = s
		for _, p := range people {
			g.Processes = append(g.Processes,
				board.Process{Person: p, Computes: true, Process: snapshot.Process{Type: snapshot.Compute}})
		}
	}
}

func silent(s board.HostState, since time.Duration) change {
	return func(b *board.Board, h *board.Host, g *board.GPU) {
		h.State, h.SnapshotAt, g.State = s, start.Add(since), board.Unknown
		g.Processes = nil
	}
}

func booking(from, until time.Duration) change {
	return func(b *board.Board, h *board.Host, g *board.GPU) {
		bk := board.Booking{ID: "b1", Host: "atlas", GPUs: []int{0}, Name: "mira", From: start.Add(from)}
		if until != 0 {
			bk.Until = start.Add(until)
		}
		b.Bookings = []board.Booking{bk}
	}
}

// step is one generation: when, what the board is then, and what is to happen.
type step struct {
	after time.Duration
	change
	want string // kinds, in order
}

func TestDiff(t *testing.T) {
	const h, m = time.Hour, time.Minute
	noShow := func(b *board.Board, host *board.Host, g *board.GPU) {
		booking(-3*h, 9*h)(b, host, g)
		g.State, g.NoShow, g.Booking = board.Booked, true, &b.Bookings[0]
	}
	for name, steps := range map[string][]step{
		"the first board is no news": {{0, state(board.Lost), ""}, {m, state(board.Lost), ""}},
		"host goes and comes": {
			{0, nil, ""}, {10 * m, silent(board.Stale, 0), "host-stale"}, {11 * m, silent(board.Stale, 0), ""},
			{40 * m, silent(board.Down, 0), "host-down"}, {50 * m, silent(board.Down, 0), ""}, {h, nil, "host-up"},
			{h + m, nil, ""},
		},
		"a backlog after an outage is not being back": {
			{0, nil, ""}, {h, silent(board.Down, 0), "host-down"}, {h + m, silent(board.Stale, 30*m), ""},
			{2 * h, silent(board.Down, 30*m), ""}, {3 * h, nil, "host-up"},
		},
		"straight to down": {{0, nil, ""}, {h, silent(board.Down, 0), "host-down"}},
		"a slice that is stuck, and that comes free after long use": {
			{0, sliced(board.Busy, board.Free), ""}, {m, sliced(board.Stuck, board.Free), "gpu-stuck"},
			{9 * h, sliced(board.Stuck, board.Free), ""},
			{9*h + m, sliced(board.Free, board.Free), ""}, {10 * h, sliced(board.Free, board.Free), "gpu-freed"},
		},
		"slices are lost with their GPU, of which that is said once": {
			{0, sliced(board.Busy, board.Free), ""}, {m, sliced(board.Lost, board.Lost), "gpu-lost"},
			{2 * m, sliced(board.Busy, board.Free), "gpu-back"},
		},
		"a GPU that is partitioned anew has lost nothing": {
			{0, sliced(board.Busy, board.Free), ""}, {m, sliced(board.Free), ""}, {2 * m, nil, ""},
		},
		"maintenance is no alarm": {
			{0, nil, ""}, {m, silent(board.Maintenance, 0), ""}, {9 * h, nil, ""},
		},
		"host appears and leaves": {
			{0, func(b *board.Board, _ *board.Host, _ *board.GPU) { b.Hosts = nil }, ""}, {m, nil, "host-new"},
			{2 * m, func(b *board.Board, _ *board.Host, _ *board.GPU) { b.Hosts = nil }, "host-gone"},
			{3 * m, func(b *board.Board, _ *board.Host, _ *board.GPU) { b.Hosts = nil }, ""},
		},
		"gpu lost, silent, back": {
			{0, nil, ""}, {m, state(board.Lost), "gpu-lost"}, {2 * m, state(board.Lost), ""},
			{h, silent(board.Stale, 2*m), "host-stale"}, {2 * h, state(board.Lost), "host-up"},
			{2*h + m, nil, "gpu-back"},
		},
		"a gpu that cannot be asked stays what it was": {
			{0, state(board.Lost), ""}, {m, state(board.Unknown), ""}, {2 * m, state(board.Lost), ""},
			{3 * m, state(board.Drained), ""}, {4 * m, nil, "gpu-back"},
		},
		"drained while it is used": {
			{0, state(board.Busy, "mira"), ""}, {7 * h, state(board.Drained), ""},
			{8 * h, state(board.Busy, "mira"), ""}, {9 * h, nil, ""}, {9*h + 6*m, nil, "gpu-freed"},
		},
		"a full answer lacks one": {
			{0, twoGPUs, ""}, {m, second(board.Lost, true), "gpu-lost"}, {2 * m, second(board.Lost, true), ""},
			{3 * m, second(board.Unknown, true), ""}, {4 * m, second(board.Lost, true), ""},
			{5 * m, twoGPUs, "gpu-back"}, {6 * m, twoGPUs, ""},
		},
		"an answer that was cut loses none": {
			{0, twoGPUs, ""}, {m, second(board.Unknown, false), ""}, {2 * m, twoGPUs, ""},
		},
		"a row that ends is not lost": {{0, twoGPUs, ""}, {m, nil, ""}, {2 * m, twoGPUs, ""}},
		"a driver that lists nothing lost nothing": {
			{0, nil, ""}, {m, state(board.Unknown), ""}, {2 * m, nil, ""},
		},
		"an expected gpu that never was is not lost again": {
			{0, nil, ""}, {m, func(_ *board.Board, host *board.Host, _ *board.GPU) {
				host.GPUs = append(host.GPUs, board.GPU{Missing: true, State: board.Lost})
			}, ""},
		},
		"stuck": {{0, state(board.Busy, "kai"), ""}, {m, state(board.Stuck), "gpu-stuck"},
			{2 * m, state(board.Stuck), ""}},
		"freed after a long use": {
			{0, state(board.Busy, "mira"), ""}, {7 * h, state(board.Busy, "mira"), ""}, {7*h + m, nil, ""},
			{7*h + 4*m, nil, ""},
			{7*h + 7*m, nil, "gpu-freed"}, {8 * h, nil, ""},
		},
		"freed after a short use": {{0, nil, ""}, {m, state(board.Busy, "mira"), ""}, {h, nil, ""}, {2 * h, nil, ""}},
		"a gap within a sweep": {
			{0, state(board.Busy, "mira"), ""}, {7 * h, nil, ""}, {7*h + 2*m, state(board.Busy, "mira"), ""},
			{7*h + 4*m, nil, ""}, {7*h + 10*m, nil, "gpu-freed"},
		},
		"released to somebody's booking": {
			{0, state(board.Busy, "mira"), ""}, {7 * h, state(board.Booked), ""}, {30 * h, nil, ""}, {31 * h, nil, ""},
		},
		"a booking from start to end": {
			{0, booking(h, 4*h), ""}, {h, booking(h, 4*h), "booking-start"}, {h + m, booking(h, 4*h), ""},
			{3*h + m, booking(h, 4*h), "booking-ending"},
			{3*h + 2*m, booking(h, 4*h), ""}, {4 * h, booking(h, 4*h), "booking-end"}, {4*h + m, booking(h, 4*h), ""},
		},
		"extended": {
			{0, booking(-h, 30*m), ""}, {10 * m, booking(-h, 8*h), ""}, {7*h + m, booking(-h, 8*h), "booking-ending"},
			{8 * h, booking(-h, 8*h), "booking-end"},
		},
		"open-ended":           {{0, nil, ""}, {m, booking(-h, 0), "booking-start"}, {90 * h, booking(-h, 0), ""}},
		"over when first seen": {{0, nil, ""}, {m, booking(-9*h, -h), ""}, {2 * m, booking(-9*h, -h), ""}},
		"missed as a whole":    {{0, booking(h, 2*h), ""}, {9 * h, booking(h, 2*h), "booking-end"}},
		"no-show":              {{0, booking(-3*h, 9*h), ""}, {m, noShow, "booking-unused"}, {2 * m, noShow, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			var mem Memory
			ids := map[string]bool{}
			for _, s := range steps {
				now := scene(start.Add(s.after), s.change)
				got, next := Diff(mem, now)
				if k := kinds(got); k != s.want {
					t.Errorf("after %v: %q, want %q", s.after, k, s.want)
				}
				for _, e := range got {
					if ids[e.ID] {
						t.Errorf("%s for the second time", e.ID)
					}
					ids[e.ID] = true
					if e.Summary == "" || e.At.IsZero() || e.At.After(now.GeneratedAt) {
						t.Errorf("event %+v", e)
					}
				}
				// A run that died before it could remember finds the same causes a little later.
				later := scene(start.Add(s.after+20*time.Second), s.change)
				again, _ := Diff(mem, later)
				for _, e := range got {
					if !slices.ContainsFunc(again, func(a Event) bool { return a.ID == e.ID }) {
						t.Errorf("after a crash %s has another id: %+v", e.ID, again)
					}
				}
				mem = roundTrip(t, next)
			}
		})
	}
}

// second is a host whose second GPU is not listed.
func second(s board.State, missing bool) change {
	return func(b *board.Board, h *board.Host, g *board.GPU) {
		twoGPUs(b, h, g)
		g = &h.GPUs[1]
		g.State, g.Missing, g.Last = s, missing, &board.LastSeen{State: board.Free, At: start}
	}
}

func twoGPUs(_ *board.Board, h *board.Host, _ *board.GPU) {
	g := board.GPU{State: board.Free}
	g.Index, g.UUID = 1, "GPU-2"
	h.GPUs = append(h.GPUs, g)
}

// sliced partitions the GPU into slices of these states.
func sliced(states ...board.State) change {
	return func(_ *board.Board, _ *board.Host, g *board.GPU) {
		g.State = states[0]
		for i, s := range states {
			row := board.NewSlice(g, &snapshot.MIGDevice{Index: i, UUID: fmt.Sprintf("MIG-%d", i)})
			row.State = s
			g.Slices = append(g.Slices, row)
		}
	}
}

func kinds(list []Event) string {
	var k []string
	for _, e := range list {
		k = append(k, string(e.Kind))
	}
	return strings.Join(k, " ")
}

// roundTrip is what a state file does to a memory.
func roundTrip(t *testing.T, m Memory) Memory {
	t.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var back Memory
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

// A booking for months ahead is not remembered until a week before it begins, and has its events all the same.
func TestBookingsFarAheadAreNotRemembered(t *testing.T) {
	in := func(at, from time.Duration) *board.Board {
		return scene(start.Add(at), func(b *board.Board, _ *board.Host, _ *board.GPU) {
			b.Bookings = []board.Booking{{ID: "b1", Host: "atlas", Name: "mira", From: start.Add(from),
				Until: start.Add(from + 48*time.Hour)}}
		})
	}
	_, mem := Diff(Memory{}, in(0, ahead+time.Minute))
	if len(mem.Bookings) != 0 {
		t.Errorf("a booking that begins after more than a week is remembered: %v", mem.Bookings)
	}
	skipped, _ := Diff(mem, in(ahead+time.Hour, ahead+time.Minute))
	if got := kinds(skipped); got != "booking-start" {
		t.Errorf("it began since, and the events are %q", got)
	}
	_, mem = Diff(mem, in(2*time.Minute, ahead+time.Minute))
	if len(mem.Bookings) != 1 {
		t.Error("a booking that begins within a week is not remembered")
	}
	gone, _ := Diff(mem, in(ahead+72*time.Hour, ahead+time.Minute))
	if got := kinds(gone); got != "booking-end" {
		t.Errorf("it began and ended since, and the events are %q", got)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	var mem Memory
	sizes := []int{}
	for day := range 200 {
		b := scene(start.Add(time.Duration(day)*24*time.Hour), func(b *board.Board, h *board.Host, g *board.GPU) {
			g.UUID = fmt.Sprint("GPU-", day) // a node that makes up a new card each day
			if day > 190 {
				h.Name = fmt.Sprint("host", day)
			}
			for i := range 50 {
				b.Bookings = append(b.Bookings, board.Booking{ID: fmt.Sprint(day, "-", i), Host: h.Name, From: start})
			}
		})
		_, mem = Diff(mem, b)
		out, err := json.Marshal(mem)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(out))
		if len(mem.GPUs) > 32 {
			t.Fatalf("day %d: %d GPUs are remembered", day, len(mem.GPUs))
		}
	}
	if slices.Max(sizes) > 3*sizes[20] {
		t.Errorf("the memory grew from %d to %d bytes", sizes[20], slices.Max(sizes))
	}
	if len(mem.Bookings) != 50 || len(mem.Hosts) != 1 {
		t.Errorf("%d bookings and %d hosts are remembered", len(mem.Bookings), len(mem.Hosts))
	}

	flood := scene(start, func(b *board.Board, h *board.Host, g *board.GPU) {
		for i := range MaxBookings + 100 {
			b.Bookings = append(b.Bookings, board.Booking{ID: fmt.Sprint(i)})
		}
	})
	if _, mem := Diff(Memory{}, flood); len(mem.Bookings) != MaxBookings {
		t.Errorf("%d bookings are remembered", len(mem.Bookings))
	}
}

func TestEventsAreSafeToPrint(t *testing.T) {
	_, mem := Diff(Memory{}, scene(start, nil))
	got, _ := Diff(mem, scene(start.Add(time.Minute), func(b *board.Board, h *board.Host, g *board.GPU) {
		g.State, g.HealthReason = board.Lost, "\x1b[2J\u202e"+strings.Repeat("x", 9000)
		b.Bookings = []board.Booking{{ID: "\x1b]0;x\x07", Name: "\n\x9b\xff", Host: "atlas"}}
	}))
	if len(got) != 2 {
		t.Fatalf("events %+v", got)
	}
	for _, e := range got {
		for _, s := range append(e.Users, e.ID, e.Summary) {
			if s != snapshot.Text(s, maxText) {
				t.Errorf("%q", s)
			}
		}
	}
}

func TestEventLogIsBounded(t *testing.T) {
	var log []Event
	for i := range 3 * MaxLog {
		e := Event{ID: fmt.Sprint(i), At: start.Add(time.Duration(i) * time.Second)}
		log = Keep(log, []Event{e, e})
		log = Keep(log, []Event{e})
	}
	if len(log) != MaxLog || log[MaxLog-1].ID != fmt.Sprint(3*MaxLog-1) || log[0].ID != fmt.Sprint(2*MaxLog) {
		t.Errorf("%d events, from %s to %s", len(log), log[0].ID, log[len(log)-1].ID)
	}
}

// A GPU that somebody unknown had last was not freed by the person before them.
func TestUnknownUsersAreNotNamed(t *testing.T) {
	var memory Memory
	var found []Event
	for _, s := range []step{
		{0, state(board.Busy, "mira"), ""}, {time.Minute, state(board.Busy, ""), ""}, {9 * time.Hour, nil, ""},
		{10 * time.Hour, nil, ""},
	} {
		var happened []Event
		happened, memory = Diff(memory, scene(start.Add(s.after), s.change))
		found = append(found, happened...)
	}
	if len(found) != 1 || found[0].Kind != GPUFreed || len(found[0].Users) > 0 ||
		strings.Contains(found[0].Summary, "used by") {
		t.Errorf("events %+v, want one of a GPU that nobody known has freed", found)
	}
}

// A booking that cannot be read is nobody's, so there is nobody to tell.
func TestBookingsThatCannotBeReadAreNoEvents(t *testing.T) {
	for name, want := range map[string]int{"mira": 1, "?": 0} {
		booked := func(b *board.Board, _ *board.Host, _ *board.GPU) {
			b.Bookings = []board.Booking{{ID: "b1", Host: "atlas", GPUs: []int{0}, Name: name,
				From: start.Add(time.Second)}}
		}
		_, memory := Diff(Memory{}, scene(start, nil))
		if found, _ := Diff(memory, scene(start.Add(time.Minute), booked)); len(found) != want {
			t.Errorf("a booking of %q begins: %+v", name, found)
		}
	}
}

// The event goes to whoever left the memory if that is certainly a person. Its summary names them in any case.
func TestStuckNamesWhoLeftTheMemory(t *testing.T) {
	left := func(_ *board.Board, _ *board.Host, g *board.GPU) {
		g.State = board.Stuck
		for _, p := range []board.Process{{Person: "kai"}, {Likely: "lou"}, {Process: snapshot.Process{User: "root"}}} {
			p.Type, p.Alive = snapshot.Compute, new(false)
			g.Processes = append(g.Processes, p)
		}
	}
	_, memory := Diff(Memory{}, scene(start, state(board.Busy, "kai")))
	found, _ := Diff(memory, scene(start.Add(time.Minute), left))
	if len(found) != 1 || !slices.Equal(found[0].Users, []string{"kai"}) ||
		!strings.HasSuffix(found[0].Summary, ", left by kai, lou?, unknown (root)") {
		t.Errorf("events %+v", found)
	}
}
