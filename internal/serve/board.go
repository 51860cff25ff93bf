package serve

import (
	"fmt"
	"os"

	"gpuboard/internal/board"
	"gpuboard/sitegen/data"
)

// The files that say which hosts and GPUs there are, and what is booked.
const (
	boardPath    = "api/v1/board.json"
	bookingsPath = "api/v1/bookings.json"
)

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
