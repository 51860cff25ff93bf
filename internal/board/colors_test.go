package board_test

import (
	"fmt"
	"maps"
	"testing"

	"gpuboard/internal/board"
)

// TestColorsOf is the rule by which people get a color.
func TestColorsOf(t *testing.T) {
	mean := func(name string, mean float64) board.User { return board.User{Name: name, Mean1w: &mean} }
	// all have a color each, from 1 on.
	all := map[string]int{}
	var everybody []board.User
	for i := range board.PersonColors {
		name := fmt.Sprintf("p%02d", i+1)
		all[name] = i + 1
		everybody = append(everybody, mean(name, 1))
	}
	with := func(changes map[string]int) map[string]int {
		m := maps.Clone(all)
		maps.Copy(m, changes)
		maps.DeleteFunc(m, func(_ string, color int) bool { return color == 0 })
		return m
	}

	for _, tt := range []struct {
		name     string
		before   map[string]int
		users    []board.User
		bookings []board.Booking
		holders  []string
		want     map[string]int
	}{
		{name: "nobody", want: map[string]int{}},
		{
			name:  "by use in the last week, then by name",
			users: []board.User{mean("ada", 1), mean("u10", 2), mean("u9", 2)},
			want:  map[string]int{"u9": 1, "u10": 2, "ada": 3},
		},
		{
			name: "by use now, where nothing is known of the week",
			users: []board.User{
				{Name: "whole", Holding: board.Holding{Used: 1}}, {Name: "slice", Slices: board.Holding{Used: 0.5}},
			},
			want: map[string]int{"slice": 1, "whole": 2},
		},
		{
			name: "whoever only booked has none",
			users: []board.User{{Name: "eva", Holding: board.Holding{Reserved: 3}}, mean("zero", 0),
				mean("ada", 0.1)},
			bookings: []board.Booking{{Name: "jun"}},
			want:     map[string]int{"ada": 1},
		},
		{
			name:   "whoever has one keeps it, and others get those that are free",
			before: map[string]int{"ada": 2}, users: []board.User{mean("eva", 9), mean("jun", 5), mean("ada", 1)},
			want: map[string]int{"ada": 2, "eva": 1, "jun": 3},
		},
		{
			name:   "also who is gone, while there are others",
			before: map[string]int{"ada": 1}, users: []board.User{mean("eva", 9)},
			want: map[string]int{"ada": 1, "eva": 2},
		},
		{
			name: "none is left", before: all, users: append([]board.User{mean("eva", 99)}, everybody...), want: all,
		},
		{
			name: "that of somebody who is gone", before: all,
			users: append([]board.User{mean("eva", 99), mean("jun", 9)}, everybody[1:]...),
			want:  with(map[string]int{"p01": 0, "eva": 1}),
		},
		{
			name: "not that of who booked or held something", before: all,
			users:    append([]board.User{mean("eva", 99)}, everybody[2:]...),
			bookings: []board.Booking{{Name: "p01"}}, holders: []string{"", "p02"},
			want: all,
		},
		{
			name:   "what cannot be is given anew",
			before: map[string]int{"ada": 0, "bob": board.PersonColors + 1, "cyd": -1, "eva": 1, "jun": 1},
			users:  []board.User{mean("ada", 1), mean("jun", 2)},
			want:   map[string]int{"eva": 1, "jun": 2, "ada": 3},
		},
	} {
		b := &board.Board{
			Users: tt.users, Bookings: tt.bookings,
			Hosts: []board.Host{{GPUs: []board.GPU{{Slices: []board.GPU{{Holders: tt.holders}}}}}},
		}
		before := maps.Clone(tt.before)
		if got := board.ColorsOf(b, tt.before); !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		if !maps.Equal(before, tt.before) {
			t.Errorf("%s: those before became %v", tt.name, tt.before)
		}
	}
}
