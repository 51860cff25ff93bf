package board_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// An answer is what a driver says in one generation. A card is a letter, its
// place in the string its number; the bus id follows the card, unless slots
// names others. "-" after the cards is an answer that was cut.
type answer struct {
	after  time.Duration // since the first generation
	cards  string
	slots  string
	silent time.Duration // how old the answer is
	gone   bool          // there is no snapshot at all
	inv    inventory.Host
	booked []booking.Booking
	change func(*snapshot.Snapshot)
	want   string // the rows: number, card, state
}

func card(letter, slot rune, index int) snapshot.GPU {
	g := a100()
	g.Index, g.UUID, g.PCIBusID = index, "GPU-"+string(letter), fmt.Sprintf("00000000:%02X:00.0", slot)
	return g
}

// generations merges one answer after the other; what is remembered goes through
// a file each time, as between two processes.
func generations(t *testing.T, list []answer) (last *board.Board) {
	t.Helper()
	var marks board.Marks
	for i, a := range list {
		at := now.Add(a.after)
		a.inv.Name = "gpu01"
		in := board.Input{Now: at, Hosts: []inventory.Host{a.inv}, Marks: marks, Reports: map[string]board.Report{},
			Calendar: &booking.Calendar{File: "comments.json", Bookings: a.booked}}
		if !a.gone {
			s := &snapshot.Snapshot{Host: "gpu01", CollectedAt: snapshot.TimeOf(at.Add(-a.silent)), IntervalSeconds: 20}
			cards, cut := strings.CutSuffix(a.cards, "-")
			s.GPUsComplete = !cut
			for index, letter := range cards {
				slot := letter
				if a.slots != "" {
					slot = rune(a.slots[index])
				}
				s.GPUs = append(s.GPUs, card(letter, slot, index))
			}
			if a.change != nil {
				a.change(s)
			}
			in.Reports["gpu01"] = board.Report{Snapshot: s}
		}
		given := func() string {
			data, err := json.Marshal([]any{in.Marks, in.Reports, in.Calendar, in.Hosts})
			if err != nil {
				t.Fatal(err)
			}
			return string(data)
		}
		before := given()
		b, next := board.Merge(in)
		if given() != before {
			t.Errorf("generation %d changed its input", i)
		}
		if got := rows(b); got != a.want {
			t.Errorf("generation %d: rows %s\nwant %s", i, got, a.want)
		}
		sliced := 0
		for _, g := range b.Hosts[0].GPUs {
			sliced += min(1, len(g.Slices))
		}
		if b.Totals.GPUs.All+sliced != len(b.Hosts[0].GPUs) {
			t.Errorf("generation %d: %d GPUs in all, %d with slices, and %d rows",
				i, b.Totals.GPUs.All, sliced, len(b.Hosts[0].GPUs))
		}
		last = b
		data, err := json.Marshal(next)
		if err != nil {
			t.Fatal(err)
		}
		marks = board.Marks{}
		if err := json.Unmarshal(data, &marks); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

func rows(b *board.Board) string {
	var out []string
	for _, g := range b.Hosts[0].GPUs {
		out = append(out, fmt.Sprintf("%d%s:%s", g.Index, strings.TrimPrefix(g.UUID, "GPU-"), g.State))
	}
	return strings.Join(out, " ")
}

// free is rows of these cards in order, all free.
func free(cards string) string {
	var out []string
	for i, letter := range cards {
		out = append(out, fmt.Sprintf("%d%c:free", i, letter))
	}
	return strings.Join(out, " ")
}

func TestAGPUThatWasKnownKeepsItsRow(t *testing.T) {
	const m, d = time.Minute, 24 * time.Hour
	four := inventory.Host{ExpectedGPUs: 4}
	all := answer{cards: "ABCD", want: free("ABCD")}
	expected := answer{cards: "ABCD", inv: four, want: free("ABCD")}
	for name, list := range map[string][]answer{
		"the driver hangs, and answers again": {all,
			{after: m, cards: "-", want: "0A:unknown 1B:unknown 2C:unknown 3D:unknown"},
			{after: 2 * m, cards: "-", want: "0A:unknown 1B:unknown 2C:unknown 3D:unknown"},
			{after: 3 * m, cards: "ABCD", want: free("ABCD")}},
		"an answer that is cut loses none": {all,
			{after: m, cards: "AB-", want: "0A:free 1B:free 2C:unknown 3D:unknown"},
			{after: 2 * m, cards: "ABCD", want: free("ABCD")}},
		"a full answer without one": {all,
			{after: m, cards: "ABC", want: free("ABC") + " 3D:lost"},
			{after: 2 * m, cards: "AB-", want: "0A:free 1B:free 2C:unknown 3D:lost"},
			{after: 3 * m, cards: "ABC", want: free("ABC") + " 3D:lost"},
			{after: 4 * m, cards: "ABCD", want: free("ABCD")}},
		"the others move up": {all,
			{after: m, cards: "ACD", want: "0A:free 1C:free 2D:free 3B:lost"},
			{after: 2 * m, cards: "A-", want: "0A:free 1C:unknown 2D:unknown 3B:lost"},
			{after: 3 * m, cards: "ABCD", want: free("ABCD")}},
		"the numbers of a cut answer are another's": {all,
			{after: m, cards: "ACD-", want: "0A:free 1C:free 2D:free 3B:unknown"}},
		"a lost one is remembered for 30 days": {all,
			{after: m, cards: "ABC", want: free("ABC") + " 3D:lost"},
			{after: 30*d + m, cards: "ABC", want: free("ABC") + " 3D:lost"},
			{after: 30*d + 2*m, cards: "ABC", want: free("ABC")}},
		"a host that is silent": {all,
			{after: d, cards: "ABCD", silent: d, want: "0A:unknown 1B:unknown 2C:unknown 3D:unknown"},
			{after: 2 * d, gone: true, want: "0A:unknown 1B:unknown 2C:unknown 3D:unknown"}},
		"a lost one of a host that is silent": {all,
			{after: m, cards: "ABC", want: free("ABC") + " 3D:lost"},
			{after: d, cards: "ABC", silent: d, want: "0A:unknown 1B:unknown 2C:unknown 3D:unknown"}},
		"maintenance": {all,
			{
				after: m, cards: "AB-", inv: inventory.Host{Maintenance: true},
				want: "0A:maintenance 1B:maintenance 2C:maintenance 3D:maintenance",
			}},
		"one is expected, and was never seen": {
			{cards: "ABC", inv: four, want: free("ABC") + " 3:lost"},
			{after: m, cards: "AB-", inv: four, want: "0A:free 1B:free 2C:unknown 3:unknown"},
			{after: 2 * m, cards: "ABCD", inv: four, want: free("ABCD")}},
		"some are expected, and the driver was never asked": {
			{cards: "-", inv: four, want: "0:unknown 1:unknown 2:unknown 3:unknown"},
			{after: m, cards: "", inv: four, want: "0:lost 1:lost 2:lost 3:lost"}},
		"one is lost, and replaced": {expected,
			{after: m, cards: "ABC", inv: four, want: free("ABC") + " 3D:lost"},
			{after: 2 * m, cards: "ABCX", slots: "ABCQ", inv: four, want: free("ABCX")}},
		"one is lost, and is not expected any more": {all,
			{after: m, cards: "ABC", want: free("ABC") + " 3D:lost"},
			{after: 2 * m, cards: "ABC", inv: inventory.Host{ExpectedGPUs: 3}, want: free("ABC")},
			{after: 3 * m, cards: "ABC", want: free("ABC")}},
		"one of two is lost, and one is expected": {{cards: "AB", want: free("AB")},
			{after: m, cards: "A", inv: inventory.Host{ExpectedGPUs: 1}, want: free("A")}},
		"one that never told anything is lost": {
			{
				cards: "AB", want: "0A:free 1B:unknown",
				change: func(s *snapshot.Snapshot) { s.GPUs[1].Health = snapshot.HealthUnknown },
			},
			{after: m, cards: "A", want: "0A:free 1B:lost"}},
		"one takes the slot of two, the second of which came later": {{cards: "A", want: free("A")},
			{after: m, cards: "AB", want: free("AB")},
			{after: 2 * m, cards: "X", slots: "A", want: "0X:free 1B:lost 2A:lost"}},
		"one is replaced in its slot": {all,
			{after: m, cards: "ABCX", slots: "ABCD", want: free("ABCX")},
			{after: 2 * m, cards: "ABCX", slots: "ABCD", want: free("ABCX")}},
		"one is lost, and replaced in its slot later, seen first in a cut answer": {all,
			{after: m, cards: "ABC", want: free("ABC") + " 3D:lost"},
			{after: 2 * m, cards: "AXB-", slots: "ADB", want: "0A:free 1X:free 2B:free 3D:lost 4C:unknown"},
			{after: 3 * m, cards: "AXBC", slots: "ADBC", want: free("AXBC")}},
		"a new one in another slot replaces none": {all,
			{after: m, cards: "ABCX", want: free("ABCX") + " 4D:lost"}},
		"another of those that were there is in its slot after a reboot": {all,
			{after: m, cards: "ACDX", slots: "ABDQ", want: free("ACDX") + " 4B:lost"}},
		"two are gone, and a new one is in the slot of one": {all,
			{after: m, cards: "ABX", slots: "ABC", want: free("ABX") + " 3D:lost 4C:lost"}},
		"a lost one that the driver names by its place alone": {all,
			{after: m, cards: "ABCD", change: func(s *snapshot.Snapshot) {
				s.GPUs[1] = snapshot.GPU{Index: 1, PCIBusID: "0000:42:00.0", Health: snapshot.HealthLost}
			}, want: "0A:free 1B:lost 2C:free 3D:free"},
			{after: 2 * m, cards: "ACD", want: "0A:free 1C:free 2D:free 3B:lost"}},
		"GPUs without a UUID are known by their number": {
			{cards: "ABC", change: nameless, want: "0:free 1:free 2:free"},
			{after: m, cards: "A-", change: nameless, want: "0:free 1:unknown 2:unknown"},
			{after: 2 * m, cards: "AB", change: nameless, want: "0:free 1:free 2:lost"},
			{after: 3 * m, cards: "ABC", want: free("ABC")},
			{after: 4 * m, cards: "AB", want: free("AB") + " 2C:lost"}},
	} {
		t.Run(name, func(t *testing.T) { generations(t, list) })
	}
}

func nameless(s *snapshot.Snapshot) {
	for i := range s.GPUs {
		s.GPUs[i].UUID, s.GPUs[i].PCIBusID = "", ""
	}
}

func TestUnlistedGPUKeepsLastSeen(t *testing.T) {
	busy := answer{cards: "AB", want: "0A:free 1B:busy", change: func(s *snapshot.Snapshot) {
		p := proc("tomas", snapshot.Compute, 9000)
		p.GPU, p.GPUInstanceID = 1, new(7)
		s.GPUs[1].MemoryUsed = new(int64(9000))
		s.GPUs[1].MIGMode, s.GPUs[1].MIGDevices = "enabled",
			[]snapshot.MIGDevice{{UUID: "MIG-1", Profile: "1g.10gb", MemoryTotal: new(int64(9728)),
				MemoryUsed: new(int64(12))}}
		s.Processes = []snapshot.Process{p}
	}}
	b := generations(t, []answer{busy,
		{after: time.Minute, cards: "-", want: "0A:unknown 1B:unknown"},
		{after: time.Hour, cards: "-", want: "0A:unknown 1B:unknown"}})
	g := b.Hosts[0].GPUs[1]
	if g.Last == nil || g.Last.State != board.Busy || fmt.Sprint(g.Last.Users) != "[tomas]" || !g.Last.At.Equal(now) {
		t.Errorf("last seen %+v, want busy by tomas at %v", g.Last, now)
	}
	if g.Reason != board.ReasonUnasked || g.Health != snapshot.HealthUnknown || g.Missing ||
		g.ShortName != "A100-SXM4-40GB" || g.MemoryTotal == nil || g.MemoryUsed != nil || g.PCIBusID == "" {
		t.Errorf("row %+v: want what the card is, and no reading", g)
	}
	if g.MIGMode != "enabled" || len(g.Slices) != 1 || g.Slices[0].UUID != "MIG-1" || g.Slices[0].MemoryUsed != nil ||
		g.Slices[0].State != board.Unknown {
		t.Errorf("slices %+v, want one that is unknown", g.Slices)
	}
	if len(b.Models) != 2 || b.Models[0].Total != 1 || b.Models[1].Total != 1 {
		t.Errorf("models %+v, want a card and a slice", b.Models)
	}
	// A full answer that says too little of one keeps what was known, too.
	b = generations(t, []answer{busy, {after: time.Minute, cards: "AB", want: "0A:free 1B:unknown",
		change: func(s *snapshot.Snapshot) {
			s.GPUs[1].Health = snapshot.HealthUnknown
		}}})
	if g := b.Hosts[0].GPUs[1]; g.Last == nil || g.Last.State != board.Busy {
		t.Errorf("last seen %+v, want busy", g.Last)
	}
	b = generations(t, []answer{busy, {after: time.Minute, cards: "A", want: "0A:free 1B:lost"}})
	if g := b.Hosts[0].GPUs[1]; !g.Missing || g.Reason != board.ReasonMissing || g.Health != snapshot.HealthLost ||
		g.Last == nil || g.Last.State != board.Busy {
		t.Errorf("row %+v: want a lost one, last seen busy", g)
	}
}

// A lost GPU keeps its number, also number 0, unless the driver lists another one under it.
func TestALostGPUKeepsItsNumber(t *testing.T) {
	numbered := func(numbers ...int) func(*snapshot.Snapshot) {
		return func(s *snapshot.Snapshot) {
			for i, n := range numbers {
				s.GPUs[i].Index = n
			}
		}
	}
	generations(t, []answer{{cards: "BA", want: free("BA")},
		{after: time.Minute, cards: "A", change: numbered(1), want: "0B:lost 1A:free"},
		{after: 2 * time.Minute, cards: "C", change: numbered(1), want: "0B:lost 1C:free 2A:lost"}})
}

func TestMissingIsReportedAfterAnAnswer(t *testing.T) {
	all := answer{cards: "ABCD", want: free("ABCD")}
	four := inventory.Host{ExpectedGPUs: 4}
	for _, tt := range []struct {
		name string
		lost bool // one is already
		next answer
		want string
	}{
		{"lost", false, answer{cards: "ABD", want: "0A:free 1B:free 2D:free 3C:lost"},
			"the driver lists 3 GPUs, and GPU 2 (GPU-C) no more"},
		{"expected and lost", false, answer{cards: "ABD", inv: four, want: "0A:free 1B:free 2D:free 3C:lost"},
			"the inventory expects 4 GPUs and the driver lists 3, and GPU 2 (GPU-C) no more"},
		{"expected and never seen", false,
			answer{cards: "ABCD", inv: inventory.Host{ExpectedGPUs: 5}, want: free("ABCD") + " 4:lost"},
			"the inventory expects 5 GPUs and the driver lists 4"},
		{"all but the only one that is expected", false,
			answer{cards: "", inv: inventory.Host{ExpectedGPUs: 1}, want: "0A:lost"},
			"the inventory expects 1 GPUs and the driver lists 0, and GPU 0 (GPU-A) no more"},
		{"cut", false, answer{cards: "AB-", inv: four, want: "0A:free 1B:free 2C:unknown 3D:unknown"}, ""},
		{"not asked", false, answer{cards: "-", inv: four, want: "0A:unknown 1B:unknown 2C:unknown 3D:unknown"}, ""},
		{"cut after a loss", true, answer{cards: "AB-", want: "0A:free 1B:free 2C:unknown 3D:lost"}, ""},
		{"old", false, answer{cards: "ABC", silent: time.Hour, want: "0A:unknown 1B:unknown 2C:unknown 3D:unknown"},
			""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.next.after = 2 * time.Minute
			list := []answer{all, tt.next}
			if tt.lost {
				list = []answer{all, {after: time.Minute, cards: "ABC", want: free("ABC") + " 3D:lost"}, tt.next}
			}
			got := ""
			for _, p := range generations(t, list).Problems {
				if p.Code == "gpu:missing" {
					got += p.Message
				}
			}
			if got != tt.want {
				t.Errorf("gpu:missing says %q, want %q", got, tt.want)
			}
		})
	}
}

// No more than four of those that are gone are named.
func TestMissingNamesFour(t *testing.T) {
	last := generations(t, []answer{{cards: "ABCDEF", want: free("ABCDEF")}, {
		after: time.Minute, cards: "A", want: "0A:free 1B:lost 2C:lost 3D:lost 4E:lost 5F:lost",
	}})
	want := "gpu01: the driver lists 1 GPUs, and GPU 1 (GPU-B), GPU 2 (GPU-C), GPU 3 (GPU-D), GPU 4 (GPU-E) no more"
	if got := said(last, "gpu:missing"); len(got) != 1 || got[0] != want {
		t.Errorf("said %q, want %q", got, want)
	}
}

// TestKnownGPUsAreBounded: a node that makes up new cards all the time, in answers
// that are cut and in full ones, has no more rows than a node can have.
func TestKnownGPUsAreBounded(t *testing.T) {
	for _, full := range []bool{false, true} {
		var marks board.Marks
		for i := range 300 {
			at := now.Add(time.Duration(i) * time.Minute)
			s := &snapshot.Snapshot{CollectedAt: snapshot.TimeOf(at), GPUsComplete: full}
			for j := range 8 {
				g := a100()
				g.Index, g.UUID = j, fmt.Sprintf("GPU-%d-%d", i, j)
				s.GPUs = append(s.GPUs, g)
			}
			var b *board.Board
			b, marks = board.Merge(board.Input{
				Now: at, Hosts: []inventory.Host{{Name: "gpu01"}}, Marks: marks,
				Reports: map[string]board.Report{"gpu01": {Snapshot: s}},
			})
			if n := len(b.Hosts[0].GPUs); n > snapshot.MaxGPUs || len(marks.GPUs) > snapshot.MaxGPUs {
				t.Fatalf("full %v: %d rows, %d remembered after %d generations", full, n, len(marks.GPUs), i)
			}
			numbers := map[int]bool{}
			for _, g := range b.Hosts[0].GPUs {
				if numbers[g.Index] {
					t.Fatalf("full %v: number %d twice", full, g.Index)
				}
				numbers[g.Index] = true
			}
		}
		if _, newest := marks.GPUs["gpu01/GPU-298-0"]; !newest {
			t.Errorf("full %v: the newest of those that are gone is forgotten", full)
		}
		_, marks = board.Merge(board.Input{Now: now, Marks: marks})
		if len(marks.GPUs) != 0 {
			t.Errorf("%d GPUs are remembered of a host that has left the board", len(marks.GPUs))
		}
	}
}
