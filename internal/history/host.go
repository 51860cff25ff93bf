package history

import (
	"gpuboard/internal/snapshot"
)

// Bounds of a host's dictionary. A node that makes up names loses only its own
// detail: further GPUs are left out, further users are the nameless one.
const (
	maxGPUNames  = 1024
	maxUserNames = 4096
)

// names is a dictionary of one host: numbers from 0 in order of appearance.
type names struct {
	text  []string
	ids   map[string]uint32
	limit int
	saved int // how many are in the database
}

func newNames(limit int) names { return names{ids: map[string]uint32{}, limit: limit} }

// id returns the number of a name, and gives it one. It is false, and 0, when
// the dictionary is full; number 0 of the users is "", nobody known.
func (n *names) id(name string) (uint32, bool) {
	if id, ok := n.ids[name]; ok {
		return id, true
	}
	name = snapshot.Text(name, snapshot.MaxNameBytes)
	if id, ok := n.ids[name]; ok {
		return id, true
	}
	if len(n.text) >= n.limit {
		return 0, false
	}
	id := uint32(len(n.text))
	n.text = append(n.text, name)
	n.ids[name] = id
	return id, true
}

func (n *names) name(id uint32) string {
	if int(id) < len(n.text) {
		return n.text[id]
	}
	return ""
}

// A host is what the store keeps in memory of one host.
type host struct {
	id     int64 // 0 until it is in the database
	name   string
	gpus   names
	users  names
	lastAt int64  // ms; the newest sample
	boot   uint64 // that is going on
	closed int64  // ms; up to here its fives are in their hours
	// window is the readings of this boot since closed, and those shortly before it. saved
	// says that they are kept in the database, too.
	window []reading
	saved  bool
	// live is the fives since closed; without a frame they have to be added up.
	live table
	// week is what Recent needs, kept between calls; nil when it has to be read.
	week *week
}

// isSlice reports whether the GPU of a number is a MIG device. Whatever adds up
// GPUs leaves it out: its GPU is among them.
func (h *host) isSlice(gpu uint32) bool { return snapshot.IsSlice(h.gpus.name(gpu)) }

func newHost(name string) *host {
	h := &host{name: name, gpus: newNames(maxGPUNames), users: newNames(maxUserNames)}
	h.users.id("")
	return h
}

// newest is when the newest reading of the window was taken.
func (h *host) newest() int64 { return h.window[len(h.window)-1].At }

// open adds up the fives that are not closed.
func (h *host) open(idlePercent float64) table {
	if h.live.frame != nil {
		return h.live
	}
	h.live = table{&frame{}, 0, fiveMinutes}
	if len(h.window) > 0 {
		lo := max(floorDiv(h.closed, fiveMinutes), floorDiv(h.window[0].At, fiveMinutes))
		if hi := floorDiv(h.newest()+maxHold-1, fiveMinutes); lo <= hi {
			fives := h.fives(h.window, lo, hi, idlePercent)
			h.live.start, h.live.slots = lo*fiveMinutes, len(fives)
			h.live.put(0, fives)
		}
	}
	return h.live
}
