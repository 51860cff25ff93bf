package sitegen_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gpuboard/demo"
	"gpuboard/inventory"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
	"gpuboard/snapshot"
)

func BenchmarkGenerate(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run("all-new/"+itoa(n), func(b *testing.B) { benchGenerate(b, n, true) })
		b.Run("nothing-new/"+itoa(n), func(b *testing.B) { benchGenerate(b, n, false) })
	}
}

func itoa(n int) string {
	return map[int]string{10: "10-hosts", 100: "100-hosts", 1000: "1000-hosts"}[n]
}

func benchGenerate(b *testing.B, n int, news bool) {
	dir := b.TempDir()
	fleet := demo.NewLarge(1, start, n)
	var hosts []inventory.Host
	for _, h := range fleet.Hosts() {
		hosts = append(hosts, inventory.Host{Name: h.Name, Group: h.Group})
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
	push(start)
	g, err := sitegen.New(sitegen.Options{
		Data: filepath.Join(dir, "data"), Site: filepath.Join(dir, "site"), State: filepath.Join(dir, "state"),
		Inventory: func(_ context.Context, now time.Time) inventory.Inventory {
			return inventory.Inventory{Hosts: hosts, AsOf: now}
		},
		About: render.Site{Title: "GPU board", Zone: time.UTC, Interval: 20 * time.Second},
	})
	if err != nil {
		b.Fatal(err)
	}
	at := start
	for range 3 { // until every file has its spare
		at = at.Add(20 * time.Second)
		push(at)
		if _, err := g.Generate(context.Background(), at); err != nil {
			b.Fatal(err)
		}
	}
	written := 0
	var least, all time.Duration
	for b.Loop() {
		if news {
			b.StopTimer()
			at = at.Add(20 * time.Second)
			push(at)
			b.StartTimer()
		}
		before := processorTime(b)
		r, err := g.Generate(context.Background(), at)
		if err != nil {
			b.Fatal(err)
		}
		used := processorTime(b) - before
		if all += used; least == 0 || used < least {
			least = used
		}
		written = r.Written
	}
	b.ReportMetric(float64(written), "files")
	b.ReportMetric(float64(all.Microseconds())/1000/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(least.Microseconds())/1000, "cpu-ms-least")
}

// processorTime is what this process has used, user and system: on a machine
// that others use too, it says more than the clock.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
