package render_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
)

func TestMaskedPast(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	total := 0.0
	for _, u := range in.History.Fleet.Windows[2].Users {
		total += u.GPUHours
	}
	in.History = in.History.Mask(func(string) string { return "someone" })
	w := in.History.Fleet.Windows[2]
	if len(w.Users) != 2 || w.Users[0].Name != "someone" || w.Users[1].Name != "" ||
		math.Abs(w.Users[0].GPUHours+w.Users[1].GPUHours-total) > 1e-9 || w.Teams != nil {
		t.Errorf("masked: %+v, teams %+v", w.Users, w.Teams)
	}
	for i, span := range in.History.Fleet.Spans {
		if len(span.Steps) == 0 || span.People != nil {
			t.Errorf("masked span %d: %+v", i, span.People)
		}
	}
	if again := boardtest.Remembered(boardtest.Lab()).History.Fleet.Windows[2]; again.Users[0].Name == "someone" {
		t.Error("the mask has changed what it was given")
	}
	if (*render.History)(nil).Mask(nil) != nil {
		t.Error("no history has become one")
	}
}

func TestUnusedBookings(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	b := in.Board
	b.Bookings = []board.Booking{*boardtest.Booked("atlas", []int{4}, "eva", boardtest.Now.Add(-24*time.Hour),
		boardtest.Now.Add(24*time.Hour), "")}
	span := &in.History.Hosts["atlas"].Spans[1]
	span.From = boardtest.Now.Truncate(2 * time.Hour).Add(2*time.Hour - 7*24*time.Hour)
	gpu := span.GPUs[b.Hosts[0].GPUs[4].Key()]
	for i := range gpu[render.PastHeld] {
		gpu[render.PastHeld][i] = 100
		if i >= 76 { // the last 16 hours
			gpu[render.PastHeld][i] = 25
		}
		if i == 78 {
			gpu[render.PastHeld][i] = render.PastUnknown
		}
	}
	list := render.UnusedBookings(b, in.History)
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	last := boardtest.Now.Sub(span.From.Add(76 * 2 * time.Hour))
	u := list[0]
	if u.Past != 24*time.Hour || u.Known != 22*time.Hour || (u.Spare-(last-2*time.Hour)*3/4).Abs() > time.Minute {
		t.Errorf("%v booked, %v known, %v unused; the quarter is used of %v", u.Past, u.Known, u.Spare, last)
	}
}

// A host with a thousand slices has the first of its bookings compared with them, not each with each.
func TestUnusedBookingsOfManySlicesAreBounded(t *testing.T) {
	b := &board.Board{GeneratedAt: boardtest.Now, Hosts: []board.Host{{Name: "atlas", GPUs: make([]board.GPU, 1000)}}}
	span := render.PastSpan{From: boardtest.Now.Add(-7 * 24 * time.Hour), Seconds: 7200,
		GPUs: map[string]render.PastGPU{}}
	past := &render.History{Hosts: map[string]*render.HostPast{"atlas": {}}}
	for i := range b.Hosts[0].GPUs {
		g := &b.Hosts[0].GPUs[i]
		g.Index, g.UUID = i, fmt.Sprint("GPU-", i)
		var gpu render.PastGPU
		gpu[render.PastHeld] = make([]int16, render.PastSteps()[1])
		span.GPUs[g.Key()] = gpu
	}
	past.Hosts["atlas"].Spans[1] = span
	for i := range 400 { // those that come later were unused for longer
		b.Bookings = append(b.Bookings,
			*boardtest.Booked("atlas", nil, fmt.Sprint("name", i),
				boardtest.Now.Add(-time.Duration(i+1)*10*time.Minute),
				time.Time{}, ""))
	}
	list := render.UnusedBookings(b, past)
	if len(list) != 512 || list[0].Booking.Name != "name4" || list[0].Spare != 50*time.Minute {
		t.Errorf("%d are listed, the first of %s", len(list), list[0].Booking.Name)
	}
}
