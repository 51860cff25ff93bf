package demo_test

import (
	"slices"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/demo"
	"gpuboard/internal/inventory"
)

// merge is the board of the demonstration at a moment, as a generation makes it
// of that and of what the one before it remembers.
func merge(t *testing.T, f *demo.Fleet, at time.Time, before board.Marks) (*board.Board, board.Marks) {
	t.Helper()
	aliases, problems := booking.ParseAliases(f.Files(at)["aliases.csv"])
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	in := board.Input{
		Now: at, Interval: time.Minute, Demo: true, Marks: before, Person: aliases.Canonical,
		Reports: map[string]board.Report{},
		Calendar: booking.Parse("comments.json", f.Files(at)["comments.json"], booking.Zone{Location: time.UTC},
			booking.Options{Aliases: aliases, Now: at}),
	}
	for _, h := range f.Hosts() {
		in.Hosts = append(in.Hosts,
			inventory.Host{Name: h.Name, Group: h.Group, Owner: h.Owner, Note: h.Note, ExpectedGPUs: h.GPUs})
		in.Reports[h.Name] = board.Report{Snapshot: f.Snapshot(h.Name, at)}
	}
	return board.Merge(in)
}

// Whoever opens the demonstration sees every state there is, and one mistake in the
// bookings: no less, so that each can be looked at, and no more, so that it looks like a
// lab and not like a heap of errors.
func TestEveryStateIsThere(t *testing.T) {
	start := time.Date(2026, 11, 20, 9, 42, 10, 0, time.UTC)
	for _, seed := range []int64{1, 2, 3, 42} {
		f := demo.New(seed, start)
		for _, after := range []time.Duration{0, time.Minute, 19 * time.Minute, 119 * time.Minute,
			23*time.Hour + 50*time.Minute, 25*time.Hour + 50*time.Minute, 13*24*time.Hour + 110*time.Minute} {
			b, _ := merge(t, f, start.Add(after), board.Marks{})
			for _, s := range board.States() {
				if b.Totals.GPUs.ByState[s] == 0 {
					t.Errorf("seed %d, after %v: no GPU is %s: %v", seed, after, s, b.Totals.GPUs.ByState)
				}
			}
			if len(b.Problems) != 1 || b.Problems[0].Code != "booking:date" {
				t.Errorf("seed %d, after %v: problems %+v", seed, after, b.Problems)
			}
			for _, h := range b.Hosts {
				for _, g := range h.GPUs {
					if g.State == board.InUse && h.Name == "dione" && g.Index == 0 &&
						(g.Booking.Name != "tomas" || !g.Booking.Until.IsZero()) {
						t.Errorf("the open-ended booking under another name is %+v", g.Booking)
					}
				}
			}
		}
	}
}

// Each slice of a GPU is used and booked by itself. A node whose memory is its
// GPU's too is busy by whom computes there. A driver
// that stopped takes no GPU from the board, and makes none free.
func TestUnusualNodes(t *testing.T) {
	start := time.Date(2026, 11, 20, 9, 42, 10, 0, time.UTC)
	f := demo.New(1, start)
	find := func(b *board.Board, host string) *board.Host {
		for i := range b.Hosts {
			if b.Hosts[i].Name == host {
				return &b.Hosts[i]
			}
		}
		t.Fatalf("there is no %s", host)
		return nil
	}
	b, marks := merge(t, f, start, board.Marks{})
	if h := find(b, "iris"); h.GPUs[0].State != board.Busy || h.GPUs[1].State != board.Free {
		t.Errorf("at first iris is %+v", h.GPUs)
	}
	ceres := find(b, "ceres").GPUs[2].Slices
	var states []board.State
	for i := range ceres {
		states = append(states, ceres[i].State)
	}
	if want := []board.State{board.Busy, board.Booked, board.Busy, board.Free}; !slices.Equal(states, want) ||
		ceres[1].Booking.Name != "lea" || ceres[0].Processes[0].Person != "kai" {
		t.Errorf("the slices of ceres are %v: %+v", states, ceres)
	}
	if g := find(b, "helios").GPUs[0]; g.State != board.Busy || g.Processes[0].Person != "ada" ||
		*g.MemoryTotal < 100_000 {
		t.Errorf("helios is %+v", g)
	}
	for _, after := range []time.Duration{3 * time.Minute, 10 * time.Minute} {
		b, marks = merge(t, f, start.Add(after), marks)
		h := find(b, "iris")
		if h.State != board.Up || len(h.GPUs) != 2 {
			t.Fatalf("after %v iris is %s with %d GPUs", after, h.State, len(h.GPUs))
		}
		for i, was := range []board.State{board.Busy, board.Free} {
			g := &h.GPUs[i]
			if g.State != board.Unknown || g.Reason != board.ReasonUnasked || g.UUID == "" || g.ShortName != "L40S" ||
				g.Last == nil || g.Last.State != was {
				t.Errorf("after %v iris %d is %+v", after, i, g)
			}
		}
	}
}
