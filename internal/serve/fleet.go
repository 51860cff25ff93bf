package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"gpuboard/internal/booking"
	"gpuboard/sitegen/data"
)

// boardFile is where the site says which hosts and GPUs there are.
const (
	boardFile     = "api/v1/board.json"
	bookingsFile  = "api/v1/bookings.json"
	maxBoardBytes = 256 << 20
)

// A fleet is what the board of the last generation says about hosts: enough to
// know what can be booked.
type fleet struct {
	Hosts  []fleetHost `json:"hosts"`
	byName map[string]*fleetHost
	// cards is the number that the card of a booking has, by host and id.
	cards map[string]int
}

type fleetHost struct {
	Name  string     `json:"name"`
	Title string     `json:"title"`
	State string     `json:"state"`
	GPUs  []fleetGPU `json:"gpus"`
}

type fleetGPU struct {
	Index  int     `json:"index"`
	UUID   *string `json:"uuid"`
	Name   *string `json:"name"`
	State  string  `json:"state"`
	Memory *int64  `json:"memory_total_mib"`

	Slices []fleetGPU `json:"mig_devices"` // whose Index is that of the slice
}

// resolve tells the index that the GPU of a booking has now, for booking.Conflicts.
func (f *fleet) resolve(b booking.Booking) (int, bool) {
	if b.Target.UUID == "" {
		index, known := f.cards[b.Host+"/"+b.ID]
		return index, known
	}
	if h := f.byName[b.Host]; h != nil {
		same := func(g fleetGPU) bool { return g.UUID != nil && strings.EqualFold(*g.UUID, b.Target.UUID) }
		for i := range h.GPUs {
			if g := &h.GPUs[i]; same(*g) || slices.ContainsFunc(g.Slices, same) {
				return g.Index, true
			}
		}
	}
	return 0, false
}

// gpus is how many GPUs a host has, for booking.Limits.
func (f *fleet) gpus(host string) int {
	if h := f.byName[host]; h != nil {
		return len(h.GPUs)
	}
	return 0
}

// target finds what a path names: a GPU by its index, a slice by its UUID, or "all".
func (f *fleet) target(host, gpu string) (h *fleetHost, g *fleetGPU, t booking.Target, ok bool) {
	h = f.byName[host]
	if h == nil {
		return nil, nil, t, false
	}
	if gpu == "all" {
		return h, nil, booking.Target{All: true, Index: -1}, true
	}
	for i := range h.GPUs {
		g := &h.GPUs[i]
		if fmt.Sprint(g.Index) == gpu {
			return h, g, booking.Target{Index: g.Index}, true
		}
		for j := range g.Slices {
			if s := &g.Slices[j]; s.UUID != nil && *s.UUID == gpu && inPath(gpu) {
				return h, s, booking.Target{UUID: gpu, Index: -1}, true
			}
		}
	}
	return nil, nil, t, false
}

// inPath reports whether a UUID is one that a path can name. Those of old drivers
// hold slashes.
func inPath(uuid string) bool {
	target, hint := booking.ParseTarget(uuid)
	return hint == "" && target.UUID == uuid && !strings.Contains(uuid, "/")
}

// fleetFile reads the board again when there is a new generation.
type fleetFile struct {
	root *os.Root

	mu    sync.Mutex
	info  fs.FileInfo
	fleet *fleet
}

func (f *fleetFile) read() (*fleet, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := f.root.Open(boardFile)
	if err != nil {
		return nil, fmt.Errorf("opening the board: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("opening the board: %w", err)
	}
	if f.fleet != nil && os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size() {
		return f.fleet, nil
	}
	next := &fleet{byName: map[string]*fleetHost{}, cards: f.cards()}
	if err := json.NewDecoder(io.LimitReader(file, maxBoardBytes)).Decode(next); err != nil {
		return nil, fmt.Errorf("reading the board: %w", err)
	}
	for i := range next.Hosts {
		next.byName[next.Hosts[i].Name] = &next.Hosts[i]
	}
	f.fleet, f.info = next, info
	return next, nil
}

// cards reads which numbers the cards of the bookings have. Without that file
// each has the number that was written.
func (f *fleetFile) cards() map[string]int {
	file, err := f.root.Open(bookingsFile)
	if err != nil {
		return nil
	}
	defer file.Close()
	list, err := data.ReadBookings(file)
	if err != nil {
		return nil
	}
	return data.Cards(list)
}
