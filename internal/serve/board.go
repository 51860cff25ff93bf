package serve

import (
	"fmt"
	"io/fs"
	"os"
	"sync"

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

// A boardFile reads the board again if there is a new generation.
type boardFile struct {
	root *os.Root

	mu    sync.Mutex
	info  fs.FileInfo
	board *board.Board
	fleet booking.Fleet
}

func (f *boardFile) read() (*board.Board, booking.Fleet, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := f.root.Open(boardPath)
	if err != nil {
		return nil, f.fleet, fmt.Errorf("opening the board: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, f.fleet, fmt.Errorf("opening the board: %w", err)
	}
	if f.board != nil && os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size() {
		return f.board, f.fleet, nil
	}
	p, err := data.ReadPublished(file)
	if err != nil {
		return nil, f.fleet, err
	}
	if file, err := f.root.Open(bookingsPath); err == nil { // without it the numbers count that were written
		defer file.Close()
		p.Board.Bookings, _ = data.ReadBookings(file)
	}
	f.board, f.fleet, f.info = p.Board, p.Board.Fleet(), info
	return f.board, f.fleet, nil
}
