package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"gpuboard/internal/demo"
	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/fleettest"
)

// every is how often a node of the fleet pushes.
const every = 20 * time.Second

// A fleet is the data of a web host: hosts with 8 GPUs each, bookings for three
// in ten of them, and their last day.
type fleet struct {
	*demo.Fleet
	dir string // holds data and state
	// memory holds the site, and what is written for comparison with it.
	memory string
	names  []string
	at     time.Time
	seq    uint64
	// pace is how many times as fast as usual jobs begin and end from began on; 0 for as usual.
	pace  float64
	began time.Time
	// spoil changes what the first host pushes; nil for not.
	spoil func(*snapshot.Snapshot)
}

// newFleet makes the data of so many hosts below dir, and its site below memory.
func newFleet(dir, memory string, hosts int, past bool) (*fleet, error) {
	at := time.Now().UTC().Truncate(time.Minute).Add(-time.Hour)
	f := &fleet{Fleet: demo.NewLarge(1, at, hosts), dir: dir, memory: filepath.Join(memory, filepath.Base(dir)), at: at}
	if err := os.MkdirAll(f.site(), 0o755); err != nil {
		return nil, err
	}
	for _, h := range f.Hosts() {
		f.names = append(f.names, h.Name)
		if err := os.MkdirAll(f.path("data", "drop", h.Name), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(f.path("state"), 0o700); err != nil {
		return nil, err
	}
	comments, err := fleettest.Comments(f.Fleet, f.at)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(f.path("data", "comments.json"), comments, 0o644); err != nil {
		return nil, err
	}
	if past {
		if err := f.remember(); err != nil {
			return nil, err
		}
	}
	return f, f.push(f.names)
}

// remove gives back the disk that a fleet takes.
func (f *fleet) remove() {
	_ = os.RemoveAll(f.dir)
	_ = os.RemoveAll(f.memory)
}

func (f *fleet) path(elem ...string) string {
	return filepath.Join(append([]string{f.dir}, elem...)...)
}

// site is where the site lies.
func (f *fleet) site(elem ...string) string {
	return filepath.Join(append([]string{f.memory, "site"}, elem...)...)
}

// remember gives the hosts their last day.
func (f *fleet) remember() error {
	ctx := context.Background()
	store, err := history.Open(ctx, f.path("state", "history.db"), f.at, history.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	f.seq = fleettest.Samples
	return fleettest.Remember(ctx, store, f.Fleet, f.at)
}

// push lets these hosts report, one interval after the last time.
func (f *fleet) push(names []string) error { return f.pushAfter(every, names) }

// pushAfter lets these hosts report some time after the last time. Each bundle
// carries the samples of the last minute, as a node's does that is up to date.
func (f *fleet) pushAfter(wait time.Duration, names []string) error {
	f.at = f.at.Add(wait)
	f.seq += 3
	for _, name := range names {
		raw, err := snapshot.EncodeBundle(f.bundle(name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(f.path("data", "drop", name, ".new"), raw, 0o644); err != nil {
			return err
		}
		if err := os.Rename(f.path("data", "drop", name, ".new"),
			f.path("data", "drop", name, "latest.json.gz")); err != nil {
			return err
		}
	}
	return nil
}

// bundle is what a host pushes now: its snapshot, and the samples of the last minute.
func (f *fleet) bundle(name string) *snapshot.Bundle {
	b := &snapshot.Bundle{Host: name}
	for back := 2; back >= 0; back-- {
		s := f.snapshot(name, f.at.Add(-time.Duration(back)*every))
		s.Seq = f.seq - uint64(back)
		if f.spoil != nil && name == f.names[0] {
			f.spoil(s)
		}
		b.BootID, b.Snapshot = s.BootID, s
		b.Samples = append(b.Samples, s.Sample())
	}
	return b
}

// snapshot is what a host collected last. At a pace of its own, the fleet is what it would be later, and says that
// it is so now.
func (f *fleet) snapshot(name string, at time.Time) *snapshot.Snapshot {
	if f.pace == 0 || at.Before(f.began) {
		return f.Snapshot(name, at)
	}
	s := f.Snapshot(name, f.began.Add(time.Duration(f.pace*float64(at.Sub(f.began)))))
	f.slow(&s.CollectedAt)
	for i := range s.Processes {
		if started := s.Processes[i].StartedAt; started != nil {
			f.slow(started)
		}
	}
	return s
}

// slow makes a moment of a fast fleet the one at which it is seen.
func (f *fleet) slow(t *snapshot.Time) {
	if since := t.Sub(f.began); since > 0 {
		*t = snapshot.TimeOf(f.began.Add(time.Duration(float64(since) / f.pace)))
	}
}
