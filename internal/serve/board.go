package serve

import (
	"fmt"

	"gpuboard/internal/board"
	"gpuboard/sitegen/data"
)

// readBoard reads the board.
func (s *server) readBoard() (*board.Board, error) {
	file, _, err := s.open(data.BoardPath)
	if err != nil {
		return nil, fmt.Errorf("opening the board: %w", err)
	}
	defer file.Close()
	p, err := data.ReadPublished(file)
	if err != nil {
		return nil, err
	}
	if file, _, err := s.open(data.BookingsPath); err == nil { // without it the numbers count that were written
		defer file.Close()
		p.Board.Bookings, _ = data.ReadBookings(file)
	}
	return p.Board, nil
}
