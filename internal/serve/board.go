package serve

import (
	"fmt"
	"os"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/sitegen/data"
)

// The files that say which hosts and GPUs there are, and what is booked.
const (
	boardPath    = "api/v1/board.json"
	bookingsPath = "api/v1/bookings.json"
)

// onBoard reports whether a board has what a target names.
func onBoard(b *board.Board, host string, target booking.Target) bool {
	for i := range b.Hosts {
		if h := &b.Hosts[i]; h.Name == host {
			for g := range h.Rows() {
				if target.Covers(g.Index, booking.CanonicalUUID(g.UUID)) && (g.Slice == nil || target.UUID != "") {
					return true
				}
			}
			return target.All
		}
	}
	return false
}

// readBoard reads the board.
func readBoard(root *os.Root) (*board.Board, error) {
	file, err := root.Open(boardPath)
	if err != nil {
		return nil, fmt.Errorf("opening the board: %w", err)
	}
	defer file.Close()
	p, err := data.ReadPublished(file)
	if err != nil {
		return nil, err
	}
	if file, err := root.Open(bookingsPath); err == nil { // without it the numbers count that were written
		defer file.Close()
		p.Board.Bookings, _ = data.ReadBookings(file)
	}
	return p.Board, nil
}
