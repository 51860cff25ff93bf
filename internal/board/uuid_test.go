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
	snap := &snapshot.Snapshot{Host: "gpu01", CollectedAt: snapshot.TimeOf(now), IntervalSeconds: 20,
		Processes: []snapshot.Process{}, GPUsComplete: true,
		GPUs: []snapshot.GPU{card('A', 'A', 0), card('A', 'B', 1), card('C', 'C', 2)}}
	snap.GPUs[1].MemoryUsed, snap.GPUs[1].UtilizationGPU = new(int64(30000)), new(96)
	in := board.Input{Now: now, Hosts: []inventory.Host{{Name: "gpu01"}},
		Calendar: &booking.Calendar{File: "comments.json"},
		Reports:  map[string]board.Report{"gpu01": {Snapshot: snap}}}
	states := func(b *board.Board) string {
		var words []string
		for _, g := range b.Hosts[0].GPUs {
			words = append(words, b.Hosts[0].Device(&g)+" "+string(g.State))
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
	for key, since := range map[string]time.Duration{
		"GPU-A": time.Hour, "index:0": 2 * time.Hour, "index:1": 3 * time.Hour,
	} {
		in.Recent.GPUs[history.Key{Host: "gpu01", GPU: key}] = history.GPU{IdleSince: now.Add(-since)}
	}
	var b *board.Board
	for range 3 {
		b, in.Marks = board.Merge(in)
		if got, want := states(b), "0 free, 1 busy, GPU-C free"; got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		if a, b := b.Hosts[0].GPUs[0].Since, b.Hosts[0].GPUs[1].IdleSince; !a.Equal(now.Add(-2*time.Hour)) ||
			!b.Equal(now.Add(-3*time.Hour)) {
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
	if got, want := strings.Join(said,
		"\n"), "gpu:same-uuid gpu01 several GPUs or slices have the same UUID and are named by index: GPU 0 (GPU-A), "+
		"GPU 1 (GPU-A)"; got != want {
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
		g.MIGDevices = append(g.MIGDevices,
			snapshot.MIGDevice{Index: i, GPUInstanceID: new(i), ComputeInstanceID: new(0),
				UUID:        uuid,
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

// hostWith is a host as it was some time ago, with cards by their letters.
func hostWith(name string, age time.Duration, cards string) (inventory.Host, board.Report) {
	s := &snapshot.Snapshot{
		Host: name, CollectedAt: snapshot.TimeOf(now.Add(-age)), IntervalSeconds: 20, Processes: []snapshot.Process{},
		GPUsComplete: true,
	}
	for i, letter := range cards {
		s.GPUs = append(s.GPUs, card(letter, letter, i))
	}
	return inventory.Host{Name: name}, board.Report{Snapshot: s}
}

// faces are what several places say of one board: each row, the counts, what is handed out.
func faces(b *board.Board) string {
	var words []string
	for i := range b.Hosts {
		h := &b.Hosts[i]
		for g := range h.Rows() {
			word := h.Name + ":" + g.Label() + " " + string(g.State)
			if g.CountedAt != "" {
				word += " at " + g.CountedAt
			} else if g.Booking != nil && g.State != board.Unknown {
				word += " by " + g.Booking.Name
			}
			words = append(words, word)
		}
	}
	return strings.Join(words, ", ")
}

// TestOneCardUnderTwoHosts: it counts once, where it is listed now or was listed last, and both hosts say so.
func TestOneCardUnderTwoHosts(t *testing.T) {
	type at struct {
		host  string
		age   time.Duration
		cards string
	}
	for _, c := range []struct {
		name  string
		hosts []at
		want  string
		gpus  int
		free  int
	}{
		{"a migration", []at{{"a", time.Hour, "AB"}, {"b", time.Second, "A"}},
			"a:0 unknown at b, a:1 unknown, b:0 free", 2,
			1},
		{"back again", []at{{"a", time.Second, "AB"}, {"b", time.Hour, "A"}}, "a:0 free, a:1 free, b:0 unknown at a", 2,
			2},
		{"a clone", []at{{"a", 5 * time.Second, "A"}, {"b", time.Second, "A"}}, "a:0 unknown at b, b:0 free", 1, 1},
		{"both silent", []at{{"a", time.Hour, "A"}, {"b", 2 * time.Hour, "A"}}, "a:0 unknown, b:0 unknown at a", 1, 0},
		{"three", []at{{"a", 9 * time.Second, "A"}, {"b", time.Second, "A"}, {"c", 5 * time.Second, "A"}},
			"a:0 unknown at b, b:0 free, c:0 unknown at b", 1, 1},
		{"others", []at{{"a", time.Second, "AB"}, {"b", time.Second, "CD"}}, "a:0 free, a:1 free, b:0 free, b:1 free",
			4, 4},
	} {
		in := board.Input{Now: now, Calendar: &booking.Calendar{}, Reports: map[string]board.Report{}}
		for _, h := range c.hosts {
			inv, report := hostWith(h.host, h.age, h.cards)
			in.Hosts, in.Reports[h.host] = append(in.Hosts, inv), report
		}
		b, marks := board.Merge(in)
		if got := faces(b); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
		offered := 0
		for _, u := range (&board.Request{}).Choose(b, func(string) bool { return true }) {
			if u.GPU.State == board.Free {
				offered++
			}
		}
		models, states := 0, 0
		for _, m := range b.Models {
			models += m.Total
		}
		for _, n := range b.Totals.GPUs.ByState {
			states += n
		}
		if b.Totals.GPUs.All != c.gpus || models != c.gpus || states != c.gpus || b.Totals.GPUs.Free() != c.free ||
			len(b.FreeNow) != c.free || offered != c.free {
			t.Errorf("%s: %d GPUs, %d by model, %d by state; %d free, %d listed, %d offered; want %d and %d",
				c.name, b.Totals.GPUs.All, models, states, b.Totals.GPUs.Free(), len(b.FreeNow), offered, c.gpus,
				c.free)
		}
		// Each host of a pair names the other.
		for i := range b.Hosts {
			for _, g := range b.Hosts[i].GPUs {
				if g.CountedAt == "" {
					continue
				}
				said := 0
				for _, p := range b.Problems {
					from, to := b.Hosts[i].Name, g.CountedAt
					if p.Code == "gpu:elsewhere" &&
						(p.Host == from && strings.Contains(p.Message, "counted at "+to) ||
							p.Host == to && strings.Contains(p.Message, "listed by "+from)) {
						said++
					}
				}
				if said != 2 || g.Reason != board.ReasonElsewhere {
					t.Errorf("%s: %s for %q, and %v", c.name, g.Label(), g.Reason, b.Problems)
				}
			}
		}
		// The next generation says the same, whichever of two that live pushed last.
		in.Marks = marks
		for host, r := range in.Reports {
			if age := now.Sub(r.Snapshot.CollectedAt.Time); age < time.Minute {
				_, in.Reports[host] = hostWith(host, 10*time.Second-age,
					strings.Repeat("A", min(1, len(r.Snapshot.GPUs))))
			}
		}
		if c.name == "a clone" || c.name == "three" {
			if b, _ := board.Merge(in); faces(b) != c.want {
				t.Errorf("%s, later: %s\nwant %s", c.name, faces(b), c.want)
			}
		}
		// Once the board is old, it counts as many.
		b.Expire()
		counts := strings.Count(faces(b), " at ")
		if b.Totals.GPUs.All != c.gpus || b.Totals.GPUs.Free() != 0 || counts != strings.Count(c.want, " at ") {
			t.Errorf("%s, when the board is old: %d GPUs, and %d are counted elsewhere: %s",
				c.name, b.Totals.GPUs.All, counts, faces(b))
		}
		for i := range b.Hosts {
			for g := range b.Hosts[i].Rows() {
				if (g.Reason == board.ReasonElsewhere) != (g.CountedAt != "") {
					t.Errorf("%s, when the board is old: %s %s is %s", c.name, b.Hosts[i].Name, g.Label(), g.Reason)
				}
			}
		}
	}
}

// TestBookingsOfACardUnderTwoHosts: a card is held by the bookings under each of its names.
func TestBookingsOfACardUnderTwoHosts(t *testing.T) {
	gpu := func(uuid string, index int) booking.Target { return booking.Target{UUID: uuid, Index: index} }
	for _, c := range []struct {
		host   string
		target booking.Target
		kind   booking.Kind
		want   string
	}{
		{"old", gpu("", 0), booking.Reserved, "new:0 free, new:1 booked by eva, old:0 unknown at new, old:1 unknown"},
		{"old", gpu("GPU-A", -1), booking.Reserved,
			"new:0 free, new:1 booked by eva, old:0 unknown at new, old:1 unknown"},
		{"old", gpu("", 1), booking.Reserved, "new:0 free, new:1 free, old:0 unknown at new, old:1 unknown"},
		{"old", booking.Target{All: true}, booking.Reserved,
			"new:0 free, new:1 booked by eva, old:0 unknown at new, old:1 unknown"},
		{"old", gpu("", 0), booking.Maintenance,
			"new:0 free, new:1 maintenance by eva, old:0 unknown at new, old:1 unknown"},
		{"old", booking.Target{All: true}, booking.Maintenance,
			"new:0 free, new:1 free, old:0 unknown at new, old:1 maintenance by eva"},
		{"new", gpu("", 0), booking.Reserved, "new:0 booked by eva, new:1 free, old:0 unknown at new, old:1 unknown"},
		{"new", booking.Target{All: true}, booking.Reserved,
			"new:0 booked by eva, new:1 booked by eva, old:0 unknown at new, old:1 unknown"},
	} {
		bk := by("eva", c.kind)
		bk.Host, bk.Target = c.host, c.target
		in := board.Input{
			Now: now, Calendar: &booking.Calendar{Bookings: []booking.Booking{bk}}, Reports: map[string]board.Report{},
		}
		for host, age := range map[string]time.Duration{"old": time.Hour, "new": time.Second} {
			inv, report := hostWith(host, age, map[string]string{"old": "AB", "new": "CA"}[host])
			in.Hosts, in.Reports[host] = append(in.Hosts, inv), report
		}
		b, _ := board.Merge(in)
		held := 0
		for i := range b.Hosts {
			for g := range b.Hosts[i].Units() {
				held += len(g.Bookers())
			}
		}
		reserved := 0
		for _, u := range b.Users {
			reserved += u.Reserved
		}
		if got := faces(b); got != c.want || reserved != held || len(b.Bookings) != 1 {
			t.Errorf("booked %s of %s for %s: %s\nwant %s; %d reserved, %d held, %d bookings",
				c.target, c.host, c.kind, got, c.want, reserved, held, len(b.Bookings))
		}
	}
}

// TestAHostKeepsTheCardsThatItGoesOnListing: another host cannot take them away by naming their UUIDs.
func TestAHostKeepsTheCardsThatItGoesOnListing(t *testing.T) {
	owner, _ := hostWith("owner", 0, "A")
	other, _ := hostWith("other", 0, "A")
	in := board.Input{
		Now: now, Hosts: []inventory.Host{owner}, Calendar: &booking.Calendar{}, Reports: map[string]board.Report{},
	}
	for round, want := range []string{"owner:0 free", "other:0 unknown at owner, owner:0 free",
		"other:0 unknown at owner, owner:0 free"} {
		in.Now = now.Add(time.Duration(round) * 20 * time.Second)
		_, in.Reports["owner"] = hostWith("owner", now.Sub(in.Now), "A")
		_, in.Reports["other"] = hostWith("other", now.Sub(in.Now)+time.Second, "A")
		var b *board.Board
		b, in.Marks = board.Merge(in)
		if got := faces(b); got != want {
			t.Errorf("generation %d: %s, want %s", round, got, want)
		}
		in.Hosts = []inventory.Host{owner, other}
	}
}

// TestACardThatAHostNoLongerLists: it is not lost there, but counts where it is listed now.
func TestACardThatAHostNoLongerLists(t *testing.T) {
	inv, report := hostWith("a", time.Minute, "AB")
	first := board.Input{
		Now: now.Add(-time.Minute), Hosts: []inventory.Host{inv}, Calendar: &booking.Calendar{},
		Reports: map[string]board.Report{"a": report},
	}
	_, marks := board.Merge(first)
	in := board.Input{
		Now: now, Hosts: []inventory.Host{inv}, Calendar: &booking.Calendar{}, Reports: map[string]board.Report{},
		Marks: marks,
	}
	_, in.Reports["a"] = hostWith("a", 0, "A")
	inv, in.Reports["b"] = hostWith("b", 10*time.Second, "B")
	in.Hosts = append(in.Hosts, inv)
	b, _ := board.Merge(in)
	if got, want := faces(b), "a:0 free, a:1 unknown at b, b:0 free"; got != want || b.Totals.GPUs.All != 2 {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestSlicesUnderTwoHosts: a container that has one slice takes no other away, and a card
// counts in slices or whole, not both.
func TestSlicesUnderTwoHosts(t *testing.T) {
	slices := func(uuids ...string) (list []snapshot.MIGDevice) {
		for i, uuid := range uuids {
			list = append(list,
				snapshot.MIGDevice{Index: i, GPUInstanceID: new(i), ComputeInstanceID: new(0), UUID: uuid,
					MemoryTotal: new(int64(4864)), MemoryUsed: new(int64(12))})
		}
		return list
	}
	for _, c := range []struct {
		a, b []snapshot.MIGDevice
		want string
	}{
		{slices("MIG-1", "MIG-2"), slices("MIG-2"),
			"a:0 unknown, a:0:0 free, a:0:1 unknown at b, b:0 free, b:0:0 free"},
		{slices("MIG-1", "MIG-2"), nil, "a:0 unknown, a:0:0 unknown at b, a:0:1 unknown at b, b:0 free"},
		{nil, slices("MIG-1", "MIG-2"), "a:0 unknown at b, b:0 free, b:0:0 free, b:0:1 free"},
	} {
		in := board.Input{Now: now, Calendar: &booking.Calendar{}, Reports: map[string]board.Report{}}
		for name, devices := range map[string][]snapshot.MIGDevice{"a": c.a, "b": c.b} {
			age := time.Second
			if name == "a" {
				age = 5 * time.Second
			}
			inv, report := hostWith(name, age, "A")
			report.Snapshot.GPUs[0].MIGDevices = devices
			in.Hosts, in.Reports[name] = append(in.Hosts, inv), report
		}
		if b, _ := board.Merge(in); faces(b) != c.want {
			t.Errorf("%s\nwant %s", faces(b), c.want)
		}
	}
}
