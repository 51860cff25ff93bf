package sitegen

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gpuboard/atomicfile"
	"gpuboard/board"
	"gpuboard/snapshot"
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
	Marks board.Marks     `json:"marks"`
	Seen  map[string]seen `json:"seen"`
	// Hours is which hour files of each host history has taken in.
	Hours map[string]*hours `json:"hours"`

	problems []snapshot.Problem
	dir      string

	mu     sync.Mutex
	good   map[string]*snapshot.Bundle // of this generation
	old    map[string]*snapshot.Bundle // read from lastGoodFile when first needed
	loaded bool
	stale  bool // good differs from what the file holds
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

// recall reads what the last generation left. What cannot be read is
// forgotten, and said.
func (g *Generator) recall(time.Time) *memory {
	mem := &memory{dir: g.opt.State, good: map[string]*snapshot.Bundle{}}
	data, err := readBounded(filepath.Join(g.opt.State, memoryFile), maxMemoryBytes)
	if err == nil {
		err = json.Unmarshal(data, mem)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		mem.Marks, mem.Seen, mem.Hours = nil, nil, nil
		mem.problems = append(mem.problems, snapshot.Problem{Code: "state:forgotten", File: memoryFile,
			Message: fmt.Sprintf("what the last generation remembered cannot be read: %v", err)})
	}
	if mem.Seen == nil {
		mem.Seen = map[string]seen{}
	}
	if mem.Hours == nil {
		mem.Hours = map[string]*hours{}
	}
	return mem
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

func (m *memory) keep(host string, b *snapshot.Bundle) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.good[host] = b
}

// lastGood is the newest good snapshot of a host from earlier generations, nil for none.
func (m *memory) lastGood(host string) *snapshot.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loadOld()
	b := m.old[host]
	if b == nil {
		return nil
	}
	m.good[host] = b
	return b.Snapshot
}

// loadOld reads lastGoodFile once. A host whose entry does not decode has no
// last good snapshot.
func (m *memory) loadOld() {
	if m.loaded {
		return
	}
	m.loaded, m.old = true, map[string]*snapshot.Bundle{}
	data, err := readBounded(filepath.Join(m.dir, lastGoodFile), maxLastGoodBytes)
	if err != nil {
		return
	}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if err != nil {
			return
		}
		name := strings.TrimSuffix(h.Name, "/latest.json.gz")
		if b, err := snapshot.DecodeBundle(io.LimitReader(r, snapshot.MaxFileBytes)); err == nil {
			m.old[name] = b
		}
	}
}

// remember writes memory down for the next generation.
func (g *Generator) remember(m *memory) error {
	for host := range m.Seen {
		if m.good[host] == nil {
			delete(m.Seen, host)
			delete(m.Hours, host)
		}
	}
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("remembering: %w", err)
	}
	if _, err := atomicfile.Write(filepath.Join(g.opt.State, memoryFile), data, 0o600); err != nil {
		return fmt.Errorf("remembering: %w", err)
	}
	if !m.stale {
		return nil
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	names := make([]string, 0, len(m.good))
	for host := range m.good {
		names = append(names, host)
	}
	slices.Sort(names)
	for _, host := range names {
		raw, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: m.good[host].Host, BootID: m.good[host].BootID, Snapshot: m.good[host].Snapshot})
		if err != nil {
			continue // it was good enough to show, and is not worth failing for
		}
		if err := w.WriteHeader(&tar.Header{Name: host + "/latest.json.gz", Mode: 0o600, Size: int64(len(raw))}); err != nil {
			return fmt.Errorf("remembering the last good snapshots: %w", err)
		}
		if _, err := w.Write(raw); err != nil {
			return fmt.Errorf("remembering the last good snapshots: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("remembering the last good snapshots: %w", err)
	}
	if _, err := atomicfile.Write(filepath.Join(g.opt.State, lastGoodFile), buf.Bytes(), 0o600); err != nil {
		return fmt.Errorf("remembering the last good snapshots: %w", err)
	}
	return nil
}
