package sitegen_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen"
)

// TestAKnownGPUKeepsItsRow is the life of one node over generations, each of which
// is made by a program of its own: what is known of its GPUs, and which of them a
// booking by number means, lies in the state directory.
func TestAKnownGPUKeepsItsRow(t *testing.T) {
	for _, restart := range []bool{true, false} {
		l := &lab{t: t, dir: t.TempDir(), hosts: []string{"gpu01"}}
		l.write("data/comments.json",
			"{\n  \"gpu01\": {\"2\": {\"name\": \"eva\", \"date\": \"2026-12-24 12:00\"}}\n}\n")
		var g *sitegen.Generator
		at := start
		next := func(cards string, complete bool) *board.Board {
			t.Helper()
			at = at.Add(20 * time.Second)
			s := &snapshot.Snapshot{Schema: snapshot.Schema, Host: "gpu01", BootID: "b", Seq: uint64(at.Unix()),
				CollectedAt:     snapshot.TimeOf(at),
				IntervalSeconds: 20, GPUsComplete: complete, Processes: []snapshot.Process{}}
			for i, letter := range cards {
				s.GPUs = append(s.GPUs, snapshot.GPU{Index: i, UUID: "GPU-" + strings.Repeat(string(letter), 8),
					Name: "NVIDIA A100", Health: snapshot.HealthOK,
					MemoryTotal: new(int64(40960)), MemoryUsed: new(int64(4)),
					Readings: snapshot.Readings{UtilizationGPU: new(0)}})
			}
			raw, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: "gpu01", BootID: "b", Snapshot: s})
			if err != nil {
				t.Fatal(err)
			}
			l.write("data/drop/gpu01/latest.json.gz", string(raw))
			if g == nil || restart {
				if g, err = sitegen.New(l.options()); err != nil {
					t.Fatal(err)
				}
			}
			r, err := g.Generate(context.Background(), at)
			if err != nil {
				t.Fatal(err)
			}
			return r.Board
		}
		states := func(b *board.Board) string {
			var list []string
			for _, g := range b.Hosts[0].GPUs {
				list = append(list, string(g.State))
			}
			return strings.Join(list, " ")
		}
		losses := func() (n int) {
			for _, e := range l.feed().Entries {
				if strings.Contains(e.Title, " is lost") {
					n++
				}
			}
			return n
		}
		for _, step := range []struct {
			cards    string
			complete bool
			want     string
			losses   int
		}{
			{"abcd", true, "free free booked free", 0},
			{"", false, "unknown unknown unknown unknown", 0},
			{"a", false, "free unknown unknown unknown", 0},
			{"acd", true, "free booked free lost", 1},
			{"", false, "unknown unknown unknown lost", 1},
			{"acd", true, "free booked free lost", 1},
		} {
			b := next(step.cards, step.complete)
			if got := states(b); got != step.want || b.Totals.GPUs.All != 4 {
				t.Errorf("restart %v, after %q: %s of %d, want %s", restart, step.cards, got, b.Totals.GPUs.All,
					step.want)
			}
			if n := losses(); n != step.losses {
				t.Errorf("restart %v, after %q: the feed tells of %d losses, want %d", restart, step.cards, n,
					step.losses)
			}
			site := l.site()
			for _, page := range []string{"index.html", "hosts/gpu01/index.html"} {
				if strings.Contains(site[page], "has sent nothing yet from this host") {
					t.Errorf("restart %v, after %q: %s says that nothing ever came", restart, step.cards, page)
				}
			}
		}
		site := l.site()
		moved := "the booking of GPU 2 of gpu01 means the card GPU-cccccccc, which is number 1 now"
		if !strings.Contains(site["health.json"], moved) ||
			!strings.Contains(site["index.html"], "comments.json:2:18") ||
			!strings.Contains(site["api/v1/bookings.json"], `"gpus":[1]`) {
			t.Errorf("restart %v: the site does not say that the booking is of number 1 now", restart)
		}
		if b := next("abcd", true); states(b) != "free free booked free" ||
			slices.ContainsFunc(b.Problems,
				func(p snapshot.Problem) bool { return p.Code == "booking:moved" || p.Code == "gpu:missing" }) {
			t.Errorf("restart %v: it is back, and the board is %s with %+v", restart, states(b), b.Problems)
		}
		back := 0
		for _, e := range l.feed().Entries {
			if strings.Contains(e.Title, " is back") {
				back++
			}
		}
		if back != 1 {
			t.Errorf("restart %v: the feed tells %d times that it is back", restart, back)
		}
	}
}

// A host that sends news without any GPU is not one that never sent any.
func TestSnapshotWithoutGPUs(t *testing.T) {
	l := &lab{t: t, dir: t.TempDir(), hosts: []string{"gpu01", "gpu02"}}
	s := &snapshot.Snapshot{Schema: snapshot.Schema, Host: "gpu01", BootID: "b", Seq: 1,
		CollectedAt: snapshot.TimeOf(start), IntervalSeconds: 20,
		Errors: []snapshot.Problem{{Code: "smi:missing", Message: "there is no nvidia-smi"}}}
	raw, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: "gpu01", BootID: "b", Snapshot: s})
	if err != nil {
		t.Fatal(err)
	}
	l.write("data/drop/gpu01/latest.json.gz", string(raw))
	l.generate(start)
	site := l.site()
	if p := site["hosts/gpu01/index.html"]; strings.Contains(p, "has sent nothing yet") ||
		!strings.Contains(p, "none of its GPUs is known yet") {
		t.Error("the page of gpu01 says that nothing ever came")
	}
	if p := site["hosts/gpu02/index.html"]; !strings.Contains(p, "has sent nothing yet") {
		t.Error("the page of gpu02 does not say that nothing ever came")
	}
	// With a number of GPUs in the inventory there are rows, and no loss is claimed.
	b := l.generate(start.Add(time.Second), func(o *sitegen.Options) {
		o.Inventory = func(_ context.Context, now time.Time, _ inventory.Known) inventory.Inventory {
			return inventory.Inventory{Hosts: []inventory.Host{{Name: "gpu01", ExpectedGPUs: 2}}, AsOf: now}
		}
	}).Board
	if b.Totals.GPUs.ByState[board.Unknown] != 2 || strings.Contains(l.site()["health.json"], "gpu:missing") {
		t.Errorf("%+v with %+v, want two unknown ones that nobody misses", b.Totals, b.Problems)
	}
}
