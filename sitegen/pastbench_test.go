package sitegen_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"gpuboard/demo"
	"gpuboard/history"
	"gpuboard/inventory"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
	"gpuboard/snapshot"
)

// BenchmarkPast is a generation with news of every host and a day of history,
// charts and sums included; the first generation, which has none yet, is told apart.
func BenchmarkPast(b *testing.B) {
	for _, n := range []int{10, 60, 100, 1000} {
		for _, past := range []bool{false, true} {
			name := strconv.Itoa(n) + map[bool]string{false: "-without", true: "-with"}[past]
			b.Run(name, func(b *testing.B) { benchPast(b, n, past) })
		}
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchPast(b *testing.B, n int, charts bool) {
	dir := b.TempDir()
	fleet := demo.NewLarge(1, start, n)
	state := filepath.Join(dir, "state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		b.Fatal(err)
	}
	var store *history.Store
	if charts {
		var err error
		if store, err = history.Open(b.Context(), filepath.Join(state, "history.db"), start, history.Options{}); err != nil {
			b.Fatal(err)
		}
		defer store.Close()
	}
	var hosts []inventory.Host
	for _, h := range fleet.Hosts() {
		hosts = append(hosts, inventory.Host{Name: h.Name, Group: h.Group})
		batch := history.Batch{Host: h.Name, Boot: "before"}
		for at := start.Add(-25 * time.Hour); at.Before(start); at = at.Add(5 * time.Minute) {
			s := fleet.Snapshot(h.Name, at).Sample()
			batch.Samples = append(batch.Samples, s)
		}
		if _, err := store.IngestAll(b.Context(), start, []history.Batch{batch}); err != nil {
			b.Fatal(err)
		}
	}
	push := func(at time.Time) {
		for _, h := range hosts {
			s := fleet.Snapshot(h.Name, at)
			raw, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: h.Name, BootID: s.BootID, Snapshot: s, Samples: []snapshot.Sample{s.Sample()}})
			if err != nil {
				b.Fatal(err)
			}
			drop := filepath.Join(dir, "data", "drop", h.Name)
			if err := os.MkdirAll(drop, 0o755); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(drop, "latest.json.gz"), raw, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	g, err := sitegen.New(sitegen.Options{
		Data: filepath.Join(dir, "data"), Site: filepath.Join(dir, "site"), State: state, History: store,
		Inventory: func(_ context.Context, now time.Time) inventory.Inventory {
			return inventory.Inventory{Hosts: hosts, AsOf: now}
		},
		About: render.Site{Title: "GPU board", Zone: time.UTC, Interval: 20 * time.Second},
	})
	if err != nil {
		b.Fatal(err)
	}
	at := start
	next := func() {
		if _, err := g.Generate(b.Context(), at); err != nil {
			b.Fatal(err)
		}
	}
	push(at)
	before := cpuTime()
	next()
	first := cpuTime() - before
	used, worst := time.Duration(0), time.Duration(0)
	for b.Loop() {
		b.StopTimer()
		at = at.Add(20 * time.Second)
		push(at)
		b.StartTimer()
		before := cpuTime()
		next()
		used += cpuTime() - before
		worst = max(worst, cpuTime()-before)
	}
	b.ReportMetric(float64(first.Milliseconds()), "first-cpu-ms")
	b.ReportMetric(float64(used.Microseconds())/1000/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(worst.Milliseconds()), "worst-cpu-ms")
}
