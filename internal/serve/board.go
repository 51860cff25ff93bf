package serve

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
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

// findTarget finds what a path names: a GPU by its index, a slice by its UUID, or
// "all" for the whole host.
func findTarget(b *board.Board, host, gpu string) (h *board.Host, g *board.GPU, t booking.Target, ok bool) {
	for i := range b.Hosts {
		if h = &b.Hosts[i]; h.Name != host {
			continue
		}
		if gpu == "all" {
			return h, nil, booking.Target{All: true, Index: -1}, true
		}
		for g := range h.Rows() {
			if t, ok := g.Target(); ok && gpu != "" && gpuPath(g) == gpu {
				return h, g, t, true
			}
		}
	}
	return nil, nil, t, false
}

// gpuPath is the path of the form of a GPU or slice; "" for a slice whose UUID a
// path cannot hold. Those of old drivers contain slashes.
func gpuPath(g *board.GPU) string {
	if g.Slice == nil {
		return strconv.Itoa(g.Index)
	}
	target, hint := booking.ParseTarget(g.UUID)
	if hint != "" || target.UUID != g.UUID || strings.Contains(g.UUID, "/") {
		return ""
	}
	return g.UUID
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
