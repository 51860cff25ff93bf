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
	marks  marks
	lastAt int64 // ms; the newest sample
	// flushed is the last row of the journal whose samples are in chunk and day.
	flushed int64
	// sealed and then recent hold, in order, every sample since memFrom, and those
	// not flushed.
	sealed  []sealed
	recent  []reading
	memFrom int64
	// firstRow and firstAt are the oldest journal row that is not flushed, and
	// when it came; 0 when there is none.
	firstRow int64
	firstAt  int64
	pendLo   int64 // ms; what is pending lies within [pendLo, pendHi]
	pendHi   int64
	urgent   bool // something late came, and memory may not hold what is around it
	// week is what Recent needs, kept between calls; nil when it has to be read.
	week *week
}

// isSlice reports whether the GPU of a number is a MIG device. Whatever adds up
// GPUs leaves it out: its GPU is among them.
func (h *host) isSlice(gpu uint32) bool { return snapshot.IsSlice(h.gpus.name(gpu)) }

func newHost(name string) *host {
	h := &host{name: name, gpus: newNames(maxGPUNames), users: newNames(maxUserNames), marks: marks{}}
	h.users.id("")
	return h
}

// pend notes that a reading of the given row and time is not flushed yet.
func (h *host) pend(row, rowAt, at int64) {
	if h.firstRow == 0 {
		h.firstRow, h.firstAt, h.pendLo, h.pendHi = row, rowAt, at, at
		return
	}
	h.pendLo, h.pendHi = min(h.pendLo, at), max(h.pendHi, at)
}

func (h *host) pending() bool { return h.firstRow != 0 }
