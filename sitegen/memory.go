package sitegen

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	json "github.com/go-json-experiment/json/v1" // reads large files in half the time

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// Files of the state directory. All of them can be deleted at the price of
// what they remember.
const (
	memoryFile   = "memory.json"
	lastGoodFile = "lastgood.tar" // latest.json.gz of every host, as it was last good
	manifestFile = "manifest.json"
)

// Bounds of what is read back from the state directory.
const (
	maxMemoryBytes   = 64 << 20
	maxLastGoodBytes = 1 << 30
)

// memory is what one generation leaves for the next.
type memory struct {
	Hosts inventory.Known `json:"hosts"`
	Marks board.Marks     `json:"marks"`
	Seen  map[string]seen `json:"seen"`
	// Senders is who sent as each host lately, the one that is shown first.
	Senders map[string][]sender `json:"senders"`
	// Hours is which hour files of each host history has taken in.
	Hours map[string]*hours `json:"hours"`
	// HistoryBegan is when that history was made.
	HistoryBegan time.Time `json:"history_began"`
	// Drawn is when the charts of each host were last drawn.
	Drawn map[string]time.Time `json:"drawn"`
	// Colors are those of people ([board.ColorsOf]).
	Colors map[string]int `json:"colors"`
	// Sites are the boards of other clusters.
	Sites []board.Site `json:"sites,omitempty"`
	// Swept is when the last sweep that left nothing to do or to say began, by our own clock.
	Swept time.Time `json:"swept,omitzero"`
	// BookingZone is the zone in which times without an offset in comments.json were last read without a doubt; ""
	// before the first generation.
	BookingZone string `json:"booking_zone"`

	problems   []snapshot.Problem
	dir        string
	unreadable bool // the file is there, and could not be read

	mu     sync.Mutex
	good   map[string]bundle // of this generation
	old    map[string]bundle // read from lastGoodFile when first needed
	loaded bool
	stale  bool // good differs from what the file holds
}

// bundle is what a host last sent that could be read, and the bytes of it, nil
// where it did not come as a bundle. The zero value is none.
type bundle struct {
	*snapshot.Bundle
	raw []byte
}

// encoded is the bundle as a file. What nodes sent is kept as it came: encoding
// a thousand of them anew took more time than any other part of a generation.
func (b bundle) encoded() ([]byte, error) {
	if b.raw != nil {
		return b.raw, nil
	}
	s := *b.Snapshot
	s.Errors = nil // our own words about the files of the older scripts, which would be read back as the node's
	return snapshot.EncodeBundle(&snapshot.Bundle{Host: b.Host, BootID: b.BootID, Snapshot: &s})
}

// seen is when a snapshot was first seen here, by our own clock.
type seen struct {
	BootID string `json:"boot_id"`
	Seq    uint64 `json:"seq"`
	// At is zero for what was there when this generator first looked.
	At time.Time `json:"at"`
}

// hours is how far history has come with the finished hours of one host.
type hours struct {
	Looked time.Time       `json:"looked"`
	Taken  map[string]bool `json:"taken"`
}

// forgetHours is how long it stays known which finished hours of a host were read, after the
// host has left the list. If it comes back later, its hours are read again, and history
// takes in only what it does not have.
const forgetHours = 24 * time.Hour

// recall reads what the last generation left. What cannot be read is
// forgotten, and said.
func (g *Generator) recall() *memory {
	mem := newMemory(g.opt.State)
	if mem.dir == "" {
		return mem
	}
	data, err := atomicfile.Read(filepath.Join(mem.dir, memoryFile), maxMemoryBytes)
	unreadable := err != nil
	if err == nil {
		err = json.Unmarshal(data, mem)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		mem = newMemory(g.opt.State)
		mem.unreadable = unreadable
		mem.problems = []snapshot.Problem{{Code: "state:forgotten", File: memoryFile,
			Message: fmt.Sprintf("the state of the last generation cannot be read: %v", err)}}
	}
	return mem
}

// newMemory is that of a first generation with a state directory; "" for none.
func newMemory(state string) *memory {
	return &memory{
		Seen: map[string]seen{}, Senders: map[string][]sender{}, Hours: map[string]*hours{},
		dir: state, loaded: state == "", good: map[string]bundle{},
	}
}

// see returns when this snapshot was first seen, and remembers it if that is now.
func (m *memory) see(host string, s *snapshot.Snapshot, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, known := m.Seen[host]
	if known && old.BootID == s.BootID && old.Seq == s.Seq && !old.At.After(now) {
		return old.At
	}
	m.stale = true
	mark := seen{BootID: s.BootID, Seq: s.Seq}
	if known {
		mark.At = now
	} // else it may have been lying there for long: nothing follows about when it came
	m.Seen[host] = mark
	return mark.At
}

// seenAt is when the snapshot that is shown of a host was first seen.
func (m *memory) seenAt(host string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Seen[host].At
}

func (m *memory) keep(host string, b *snapshot.Bundle, raw []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.good[host] = bundle{b, raw}
}

// lastGood is the newest good snapshot of a host from earlier generations, nil for none.
func (m *memory) lastGood(host string) *snapshot.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loadOld()
	b := m.old[host]
	if b.Bundle == nil {
		return nil
	}
	m.good[host] = b
	return b.Snapshot
}

// samples are what the hosts have sent of the last quarter of an hour.
func (m *memory) samples() map[string][]snapshot.Sample {
	all := make(map[string][]snapshot.Sample, len(m.good))
	for host, b := range m.good {
		all[host] = b.Samples
	}
	return all
}

// loadOld reads lastGoodFile once. A host whose entry does not decode has no
// last good snapshot.
func (m *memory) loadOld() {
	if m.loaded {
		return
	}
	m.loaded, m.old = true, map[string]bundle{}
	data, err := atomicfile.Read(filepath.Join(m.dir, lastGoodFile), maxLastGoodBytes)
	if err != nil {
		return
	}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if err != nil {
			return
		}
		name := strings.TrimSuffix(h.Name, "/latest.json.gz")
		raw, err := io.ReadAll(io.LimitReader(r, snapshot.MaxFileBytes))
		if err != nil {
			return
		}
		if b, err := snapshot.DecodeBundle(bytes.NewReader(raw)); err == nil {
			b.Quote()
			b.Samples = nil // history has them
			m.old[name] = bundle{b, raw}
		}
	}
}

// writeMemory replaces the file, unless it could not be read for a moment: what it
// holds is worth more than what is known without it.
func (g *Generator) writeMemory(m *memory) error {
	path := filepath.Join(g.opt.State, memoryFile)
	if m.unreadable {
		if _, err := atomicfile.Read(path, maxMemoryBytes); err == nil {
			return nil
		}
	}
	return writeState(path, m)
}

// writeState replaces a file of the state directory.
func writeState(path string, what any) error {
	data, err := json.Marshal(what)
	if err == nil {
		_, err = atomicfile.Write(path, data, 0o600)
	}
	return err
}

// remember writes memory down for the next generation.
func (g *Generator) remember(m *memory, now time.Time) error {
	for host := range m.Seen {
		if m.good[host].Bundle == nil {
			delete(m.Seen, host)
			delete(m.Senders, host)
		}
	}
	for host, h := range m.Hours {
		if now.Sub(h.Looked) > forgetHours {
			delete(m.Hours, host)
		}
	}
	if err := g.writeMemory(m); err != nil {
		return fmt.Errorf("remembering: %w", err)
	}
	if !m.stale {
		return nil
	}
	if _, err := atomicfile.Write(filepath.Join(g.opt.State, lastGoodFile), m.goodTar(), 0o600); err != nil {
		return fmt.Errorf("remembering the last good snapshots: %w", err)
	}
	return nil
}

// goodTar is the content of lastGoodFile.
func (m *memory) goodTar() []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, host := range slices.Sorted(maps.Keys(m.good)) {
		raw, err := m.good[host].encoded()
		if err != nil {
			continue // it was good enough to show, and is not worth failing for
		}
		// A buffer in memory cannot fail.
		_ = w.WriteHeader(&tar.Header{Name: host + "/latest.json.gz", Mode: 0o600, Size: int64(len(raw))})
		_, _ = w.Write(raw)
	}
	_ = w.Close()
	return buf.Bytes()
}
