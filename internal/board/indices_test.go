package board_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// A GPU that is booked by its number stays booked when the numbers change.
func TestBookingsByIndexFollowTheCard(t *testing.T) {
	number := func(index int, id string) booking.Booking {
		b := by("eva", booking.Reserved)
		b.ID, b.Target, b.Line, b.Col = id, booking.Target{Index: index}, 12, 5
		b.Until = now.Add(100 * time.Hour)
		return b
	}
	later := number(2, "later")
	later.Name, later.From = "jun", now.Add(50*time.Hour)
	list := []booking.Booking{number(2, "one"), later}
	first := answer{cards: "ABCD", booked: list, want: "0A:free 1B:free 2C:booked 3D:free"}
	moved := answer{after: time.Minute, cards: "ACD", booked: list, want: "0A:free 1C:booked 2D:free 3B:lost"}

	t.Run("moved", func(t *testing.T) {
		b := generations(t, []answer{first, moved})
		g := b.Hosts[0].GPUs[1]
		if g.Booking == nil || !slices.Equal(g.Booking.GPUs, []int{1}) || g.Booking.UUID != "" || g.Next == nil ||
			g.Next.ID != "later" || !g.FreeFrom.Equal(list[0].Until) {
			t.Errorf("row %+v: want both bookings, of number 1", g)
		}
		for _, bk := range b.Bookings {
			if !slices.Equal(bk.GPUs, []int{1}) {
				t.Errorf("%s is listed for %v, want number 1", bk.ID, bk.GPUs)
			}
		}
		if d := b.Hosts[0].GPUs[2]; d.Booking != nil || d.Next != nil {
			t.Errorf("the card that has the number now is booked: %+v", d)
		}
		want := "comments.json:12:5: the booking of GPU 2 of gpu01 means the card GPU-C, which is number 1 now; write its " +
			"UUID or the new number"
		if got := said(b, "booking:moved"); len(got) != 2 || got[0] != want {
			t.Errorf("said %q, want twice %q", got, want)
		}
	})
	t.Run("and back", func(t *testing.T) {
		back := first
		back.after = 2 * time.Minute
		if got := said(generations(t, []answer{first, moved, back}), "booking:moved"); got != nil {
			t.Errorf("said %q", got)
		}
	})
	t.Run("after bookings of a UUID and of a number that is not there", func(t *testing.T) {
		named := number(-1, "named")
		named.Target.UUID = "GPU-A"
		all := append([]booking.Booking{named, number(7, "none")}, list...)
		generations(t, []answer{{cards: "ABCD", booked: all, want: "0A:booked 1B:free 2C:booked 3D:free"},
			{after: time.Minute, cards: "ACD", booked: all, want: "0A:booked 1C:booked 2D:free 3B:lost"}})
	})
	t.Run("edited", func(t *testing.T) {
		edited := []booking.Booking{number(2, "another id"), later}
		again := answer{after: 2 * time.Minute, cards: "ACD", booked: edited, want: "0A:free 1C:free 2D:booked 3B:lost"}
		generations(t, []answer{first, moved, again})
	})
	t.Run("the number is only that of a lost row", func(t *testing.T) {
		odd := []booking.Booking{number(3, "odd")}
		generations(t, []answer{{cards: "ABCD", want: free("ABCD")},
			{after: time.Minute, cards: "ACD", booked: odd, want: "0A:free 1C:free 2D:free 3B:lost"},
			{after: 2 * time.Minute, cards: "ABCD", booked: odd, want: "0A:free 1B:free 2C:free 3D:booked"}})
	})
	t.Run("its card is lost", func(t *testing.T) {
		lost := answer{after: time.Minute, cards: "ABD", booked: list, want: "0A:free 1B:free 2D:free 3C:lost"}
		b := generations(t, []answer{first, lost})
		if g := b.Hosts[0].GPUs[3]; g.Booking == nil || !slices.Equal(g.Booking.GPUs, []int{3}) {
			t.Errorf("the lost row has no booking: %+v", g)
		}
		want := "comments.json:12:5: the booking of GPU 2 of gpu01 means the card GPU-C, which the driver lists no more; " +
			"book another"
		if got := said(b, "booking:moved"); len(got) != 2 || got[0] != want {
			t.Errorf("said %q, want %q", got, want)
		}
	})
	t.Run("its card was replaced", func(t *testing.T) {
		generations(t, []answer{first, {
			after: time.Minute, cards: "ABXD", slots: "ABCD", booked: list, want: "0A:free 1B:free 2X:booked 3D:free",
		}})
	})
	t.Run("the driver hangs meanwhile", func(t *testing.T) {
		generations(t, []answer{first,
			{after: time.Minute, cards: "-", booked: list, want: "0A:unknown 1B:unknown 2C:unknown 3D:unknown"},
			{after: 2 * time.Minute, cards: "ACD", booked: list, want: moved.want}})
	})
	t.Run("first seen while an answer is cut", func(t *testing.T) {
		cut := answer{cards: "AB-", booked: list, want: "0A:free 1B:free"}
		whole := first
		whole.after = time.Minute
		again := moved
		again.after = 2 * time.Minute
		generations(t, []answer{cut, whole, again})
	})
	t.Run("first seen while its card is not listed", func(t *testing.T) {
		all, cut, again := first,
			answer{after: time.Minute, cards: "AB-", booked: list, want: "0A:free 1B:free 2C:unknown 3D:unknown"}, moved
		all.booked, all.want, again.after = nil, free("ABCD"), 2*time.Minute
		generations(t, []answer{all, cut, again})
	})
	t.Run("beside a card and a slice without a UUID", func(t *testing.T) {
		two := []snapshot.GPU{card('A', 'A', 0), card('B', 'B', 1)}
		two[0].UUID, two[0].MIGDevices = "", []snapshot.MIGDevice{{}}
		b := number(1, "one")
		_, marks := board.Merge(board.Input{Now: now, Hosts: []inventory.Host{{Name: "gpu01"}},
			Calendar: &booking.Calendar{Bookings: []booking.Booking{b}},
			Reports: map[string]board.Report{"gpu01": {Snapshot: &snapshot.Snapshot{
				CollectedAt: snapshot.TimeOf(now), GPUs: two, GPUsComplete: true,
			}}}})
		if len(marks.Bookings) != 1 {
			t.Errorf("remembered %v, want the card of the booking", marks.Bookings)
		}
	})
	t.Run("the file cannot be read meanwhile", func(t *testing.T) {
		var marks board.Marks
		for i, cal := range []*booking.Calendar{{Bookings: list}, {Broken: true}, {Bookings: list}} {
			cards := []string{"ABCD", "ACD", "ACD"}[i]
			s := &snapshot.Snapshot{CollectedAt: snapshot.TimeOf(now), GPUsComplete: true}
			for index, letter := range cards {
				s.GPUs = append(s.GPUs, card(letter, letter, index))
			}
			var b *board.Board
			b, marks = board.Merge(
				board.Input{Now: now, Hosts: []inventory.Host{{Name: "gpu01"}}, Marks: marks, Calendar: cal,
					Reports: map[string]board.Report{"gpu01": {Snapshot: s}}})
			if i == 2 && rows(b) != moved.want {
				t.Errorf("rows %s, want %s", rows(b), moved.want)
			}
		}
	})
	t.Run("what is over is forgotten", func(t *testing.T) {
		_, marks := board.Merge(board.Input{Now: now, Marks: board.Marks{
			Bookings: map[string]string{"gpu01/2/one/x": "GPU-C"},
		}})
		if len(marks.Bookings) != 0 {
			t.Errorf("remembered %v", marks.Bookings)
		}
		past := number(2, "past")
		past.Host, past.Until = "gpu77", now.Add(-49*time.Hour)
		key := "gpu77/2/past/" + past.From.UTC().Format(time.RFC3339)
		for until, want := range map[time.Time]int{now.Add(-47 * time.Hour): 1, now.Add(-49 * time.Hour): 0} {
			past.Until = until
			_, marks := board.Merge(board.Input{
				Now: now, Marks: board.Marks{Bookings: map[string]string{key: "GPU-C"}},
				Calendar: &booking.Calendar{Bookings: []booking.Booking{past}},
			})
			if len(marks.Bookings) != want {
				t.Errorf("over since %v: remembered %v", until, marks.Bookings)
			}
		}
	})
}

func said(b *board.Board, code string) (list []string) {
	for _, p := range b.Problems {
		if p.Code == code {
			list = append(list, p.Where()+": "+p.Message)
		}
	}
	return list
}

// TestBookingMarksOutliveTheirHost: what a booking means is kept while its host is away.
func TestBookingMarksOutliveTheirHost(t *testing.T) {
	b := by("eva", booking.Reserved)
	b.ID, b.Target = "one", booking.Target{Index: 0}
	s := scene{gpu: a100(), booked: []booking.Booking{b}}
	_, marks := s.merge()
	if len(marks.Bookings) != 1 {
		t.Fatalf("remembered %v, want one booking", marks.Bookings)
	}
	_, after := board.Merge(board.Input{Now: now, Marks: marks, Calendar: &booking.Calendar{Bookings: s.booked}})
	if !reflect.DeepEqual(after.Bookings, marks.Bookings) {
		t.Errorf("remembered %v, want %v", after.Bookings, marks.Bookings)
	}
}
