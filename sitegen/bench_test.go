package sitegen_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/demo"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/fleettest"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
)

// every is how often a node of a yard pushes.
const every = 20 * time.Second

// A yard is a fleet with 8 GPUs a host, bookings for three in ten of them, and
// a generator that goes on. It is what benchmarks and long tests share.
type yard struct {
	tb    testing.TB
	dir   string
	fleet *demo.Fleet
	names []string
	hosts []inventory.Host
	store *history.Store // nil without history
	at    time.Time
	g     *sitegen.Generator
}

// newYard makes one of n hosts; past gives them a day of samples, ten minutes
// apart, and lets the generator draw them.
func newYard(tb testing.TB, n int, past bool) *yard {
	tb.Helper()
	y := &yard{tb: tb, dir: tb.TempDir(), fleet: demo.NewLarge(1, start, n), at: start}
	for _, h := range y.fleet.Hosts() {
		y.names = append(y.names, h.Name)
		y.hosts = append(y.hosts, inventory.Host{Name: h.Name, Group: h.Group})
		y.must(os.MkdirAll(y.path("data", "drop", h.Name), 0o755))
	}
	y.must(os.MkdirAll(y.path("state"), 0o700))
	y.book()
	if past {
		y.remember()
	}
	y.g = y.generator("site", "state")
	return y
}

func (y *yard) must(err error) {
	y.tb.Helper()
	if err != nil {
		y.tb.Fatal(err)
	}
}

func (y *yard) path(elem ...string) string { return filepath.Join(append([]string{y.dir}, elem...)...) }

// generator makes one of the yard's data that writes elsewhere.
func (y *yard) generator(site, state string) *sitegen.Generator {
	y.tb.Helper()
	g, err := sitegen.New(sitegen.Options{
		Data: y.path("data"), Site: y.path(site), State: y.path(state), History: y.store,
		Inventory: func(_ context.Context, now time.Time, _ inventory.Known) inventory.Inventory {
			return inventory.Inventory{Hosts: y.hosts, AsOf: now}
		},
		About: render.Site{Title: "GPU board", Zone: time.UTC, Interval: every},
	})
	y.must(err)
	return g
}

func (y *yard) book() {
	comments, err := fleettest.Comments(y.fleet, y.at)
	y.must(err)
	y.must(os.WriteFile(y.path("data", "comments.json"), comments, 0o644))
}

// remember opens the history, and gives the hosts their last day.
func (y *yard) remember() {
	ctx := context.Background()
	var err error
	y.store, err = history.Open(ctx, y.path("state", "history.db"), y.at, history.Options{})
	y.must(err)
	y.tb.Cleanup(func() { y.store.Close() })
	y.must(fleettest.Remember(ctx, y.store, y.fleet, y.at))
}

// push lets these hosts report some time after the last time.
func (y *yard) push(wait time.Duration, names []string) {
	y.tb.Helper()
	y.at = y.at.Add(wait)
	for _, name := range names {
		s := y.fleet.Snapshot(name, y.at)
		raw, err := snapshot.EncodeBundle(&snapshot.Bundle{
			Host: name, BootID: s.BootID, Snapshot: s, Samples: []snapshot.Sample{s.Sample()},
		})
		y.must(err)
		temp := y.path("data", "drop", name, ".new")
		y.must(os.WriteFile(temp, raw, 0o644))
		y.must(os.Rename(temp, y.path("data", "drop", name, "latest.json.gz")))
	}
}

func (y *yard) generate() sitegen.Report {
	y.tb.Helper()
	r, err := y.g.Generate(context.Background(), y.at)
	y.must(err)
	return r
}

// BenchmarkGenerate is one generation with news of all hosts: of a process that
// goes on, and "once", that of a process of its own. With history, as everybody has it.
func BenchmarkGenerate(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		for _, news := range []string{"all", "once"} {
			b.Run(fmt.Sprintf("%s/%d-hosts", news, n), func(b *testing.B) { benchGenerate(b, n, news) })
		}
	}
}

func benchGenerate(b *testing.B, n int, news string) {
	y := newYard(b, n, true)
	y.push(every, y.names)
	before := processorTime(b)
	y.generate()
	b.ReportMetric(float64((processorTime(b) - before).Milliseconds()), "first-cpu-ms")
	for range 3 {
		y.push(every, y.names)
		y.generate()
	}
	var least, all time.Duration
	var files int
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		y.push(every, y.names)
		if news == "once" {
			y.g = y.generator("site", "state")
		}
		runtime.GC()
		b.StartTimer()
		before := processorTime(b)
		files = y.generate().Written
		used := processorTime(b) - before
		if all += used; least == 0 || used < least {
			least = used
		}
	}
	b.ReportMetric(float64(files), "files")
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
