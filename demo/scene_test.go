package demo_test

import (
	"testing"
	"time"

	"gpuboard/board"
	"gpuboard/booking"
	"gpuboard/demo"
	"gpuboard/inventory"
)

// merge is the board of the demonstration at a moment, as a generation makes it.
func merge(t *testing.T, f *demo.Fleet, at time.Time) *board.Board {
	t.Helper()
	aliases, problems := booking.ParseAliases(f.Aliases())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	in := board.Input{
		Now: at, Interval: time.Minute, Demo: true, Person: aliases.Canonical, Reports: map[string]board.Report{},
		Calendar: booking.Parse("comments.json", f.Comments(at), time.UTC, booking.Options{Aliases: aliases, Now: at}),
	}
	for _, h := range f.Hosts() {
		in.Hosts = append(in.Hosts, inventory.Host{Name: h.Name, Group: h.Group, Owner: h.Owner, Note: h.Note, ExpectedGPUs: h.GPUs})
		in.Reports[h.Name] = board.Report{Snapshot: f.Snapshot(h.Name, at)}
	}
	b, _ := board.Merge(in)
	return b
}

// Whoever opens the demonstration sees every state there is, and one mistake in
// the bookings: no less, so that each can be looked at, and no more, so that it
// looks like a lab and not like a heap of errors.
func TestEveryStateIsThere(t *testing.T) {
	start := time.Date(2026, 11, 20, 9, 42, 10, 0, time.UTC)
	for _, seed := range []int64{1, 2, 3, 42} {
		f := demo.New(seed, start)
		for _, after := range []time.Duration{0, time.Minute, 19 * time.Minute, 119 * time.Minute, 23*time.Hour + 50*time.Minute, 25*time.Hour + 50*time.Minute, 13*24*time.Hour + 110*time.Minute} {
			b := merge(t, f, start.Add(after))
			for _, s := range board.States() {
				if b.Totals.ByState[s] == 0 {
					t.Errorf("seed %d, after %v: no GPU is %s: %v", seed, after, s, b.Totals.ByState)
				}
			}
			if len(b.Problems) != 1 || b.Problems[0].Code != "booking:date" {
				t.Errorf("seed %d, after %v: problems %+v", seed, after, b.Problems)
			}
			for _, h := range b.Hosts {
				for _, g := range h.GPUs {
					if g.State == board.InUse && h.Name == "dione" && g.Index == 0 && (g.Booking.Name != "tomas" || !g.Booking.Until.IsZero()) {
						t.Errorf("the open-ended booking under another name is %+v", g.Booking)
					}
				}
			}
		}
	}
}
