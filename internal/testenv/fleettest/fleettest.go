// Package fleettest is what benchmarks and long tests know of a fleet of demo's that is large: its bookings and its
// last day.
package fleettest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"gpuboard/internal/demo"
	"gpuboard/internal/history"
)

// Comments is a comments.json in which three GPUs in ten are booked for some
// hours from at, of eight on each host.
func Comments(f *demo.Fleet, at time.Time) ([]byte, error) {
	r := rand.New(rand.NewPCG(1, 2))
	all := map[string]map[string]any{}
	for _, h := range f.Hosts() {
		all[h.Name] = map[string]any{}
		for gpu := range 8 {
			if r.IntN(10) < 3 {
				all[h.Name][strconv.Itoa(gpu)] = map[string]string{
					"name": fmt.Sprintf("user%02d", r.IntN(40)), "comment": "training",
					"date": at.Add(time.Duration(2+r.IntN(60)) * time.Hour).Format("2006-01-02 15:04"),
				}
			}
		}
	}
	return json.MarshalIndent(all, "", " ")
}

// Samples is how many each host has after [Remember].
const Samples = 24 * 6

// Remember gives every host the samples of the day before at, ten minutes apart.
func Remember(ctx context.Context, store *history.Store, f *demo.Fleet, at time.Time) error {
	for hour := 24; hour > 0; hour-- {
		from := at.Add(-time.Duration(hour) * time.Hour)
		var batches []history.Batch
		for _, h := range f.Hosts() {
			s := f.Snapshot(h.Name, from)
			b := history.Batch{Host: h.Name, Boot: s.BootID}
			for step := range 6 {
				sample := s.Sample()
				sample.Seq, sample.At = uint64((24-hour)*6+step+1), from.Add(time.Duration(step)*10*time.Minute)
				b.Samples = append(b.Samples, sample)
			}
			batches = append(batches, b)
		}
		if err := store.IngestAll(ctx, from.Add(time.Hour), batches); err != nil {
			return err
		}
	}
	return nil
}
