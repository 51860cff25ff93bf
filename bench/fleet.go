package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"gpuboard/demo"
	"gpuboard/history"
	"gpuboard/snapshot"
)

// every is how often a node of the fleet pushes.
const every = 20 * time.Second

// A fleet is the data of a web host: hosts with 8 GPUs each, bookings for three
// in ten of them, and their last day.
type fleet struct {
	*demo.Fleet
	dir   string // holds data, site and state
	names []string
	at    time.Time
	seq   uint64
	enc   snapshot.Encoder
}

// newFleet makes the data of so many hosts below dir.
func newFleet(dir string, hosts int, past bool) (*fleet, error) {
	at := time.Now().UTC().Truncate(time.Minute).Add(-time.Hour)
	f := &fleet{Fleet: demo.NewLarge(1, at, hosts), dir: dir, at: at}
	for _, h := range f.Hosts() {
		f.names = append(f.names, h.Name)
		if err := os.MkdirAll(f.path("data", "drop", h.Name), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(f.path("state"), 0o700); err != nil {
		return nil, err
	}
	if err := f.book(); err != nil {
		return nil, err
	}
	if past {
		if err := f.remember(); err != nil {
			return nil, err
		}
	}
	return f, f.push(f.names)
}

func (f *fleet) path(elem ...string) string {
	return filepath.Join(append([]string{f.dir}, elem...)...)
}

// book writes comments.json: three GPUs in ten are booked for some hours.
func (f *fleet) book() error {
	r := rand.New(rand.NewPCG(1, 2))
	all := map[string]map[string]any{}
	for _, name := range f.names {
		all[name] = map[string]any{}
		for gpu := range 8 {
			if r.IntN(10) < 3 {
				all[name][fmt.Sprint(gpu)] = map[string]string{
					"name": fmt.Sprintf("user%02d", r.IntN(40)), "comment": "training",
					"date": f.at.Add(time.Duration(2+r.IntN(60)) * time.Hour).Format("2006-01-02 15:04"),
				}
			}
		}
	}
	data, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(f.path("data", "comments.json"), data, 0o644)
}

// remember gives every host a day of samples, ten minutes apart.
func (f *fleet) remember() error {
	ctx := context.Background()
	store, err := history.Open(ctx, f.path("state", "history.db"), f.at, history.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	for hour := 24; hour > 0; hour-- {
		from := f.at.Add(-time.Duration(hour) * time.Hour)
		var batches []history.Batch
		for _, name := range f.names {
			s := f.Snapshot(name, from)
			b := history.Batch{Host: name, Boot: s.BootID}
			for step := range 6 {
				sample := s.Sample()
				sample.Seq, sample.At = uint64((24-hour)*6+step+1), from.Add(time.Duration(step)*10*time.Minute)
				b.Samples = append(b.Samples, sample)
			}
			batches = append(batches, b)
		}
		if _, err := store.IngestAll(ctx, from.Add(time.Hour), batches); err != nil {
			return err
		}
	}
	f.seq = 24 * 6
	return nil
}

// push lets these hosts report, one interval after the last time.
func (f *fleet) push(names []string) error { return f.pushAfter(every, names) }

// pushAfter lets these hosts report some time after the last time. Each bundle
// carries the samples of the last minute, as a node's does that is up to date.
func (f *fleet) pushAfter(wait time.Duration, names []string) error {
	f.at = f.at.Add(wait)
	f.seq += 3
	for _, name := range names {
		b := &snapshot.Bundle{Host: name}
		for back := 2; back >= 0; back-- {
			s := f.Snapshot(name, f.at.Add(-time.Duration(back)*every))
			s.Seq = f.seq - uint64(back)
			b.BootID, b.Snapshot = s.BootID, s
			b.Samples = append(b.Samples, s.Sample())
		}
		raw, err := f.enc.Bundle(b)
		if err != nil {
			return err
		}
		if err := os.WriteFile(f.path("data", "drop", name, ".new"), raw, 0o644); err != nil {
			return err
		}
		if err := os.Rename(f.path("data", "drop", name, ".new"), f.path("data", "drop", name, "latest.json.gz")); err != nil {
			return err
		}
	}
	return nil
}
