package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/snapshot"
)

// A noisy host is 8 GPUs as they are: utilization and power tremble while a job
// runs, memory hardly moves, half of the GPUs are idle.
func noisy(r *rand.Rand, host int, seq uint64, at time.Time) snapshot.Sample {
	s := snapshot.Sample{Seq: seq, At: at.Add(time.Duration(r.IntN(50)) * time.Millisecond)}
	for g := range 8 {
		gs := snapshot.GPUSample{Index: g, UUID: fmt.Sprintf("GPU-%08x-0000-1111-2222-%012x", host, g),
			Users:       []snapshot.UserMemory{},
			Utilization: ptr(0), MemoryUsed: ptr(int64(4)), Temperature: ptr(31), Power: ptr(61.5 + float64(r.IntN(8))/10)}
		if (host+g)%2 == 0 {
			mem := int64(20000 + 100*((host*7+g)%50))
			gs.Utilization, gs.MemoryUsed = ptr(88+r.IntN(12)), ptr(mem+600)
			gs.Temperature, gs.Power = ptr(64+r.IntN(2)), ptr(380+r.Float64()*30)
			gs.Users = append(gs.Users, snapshot.UserMemory{User: fmt.Sprintf("user%02d", (host+g/2)%40), Memory: mem})
			if g == 4 {
				gs.Users = append(gs.Users, snapshot.UserMemory{User: "zoe", Memory: 600})
			}
		}
		s.GPUs = append(s.GPUs, gs)
	}
	return s
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heap is what the program keeps in memory.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func tick(r *rand.Rand, hosts int, seq uint64, at time.Time) []Batch {
	bs := make([]Batch, hosts)
	for h := range bs {
		bs[h] = Batch{
			Host: fmt.Sprintf("gpu%04d", h), Boot: fmt.Sprintf("boot-%d", h), Samples: []snapshot.Sample{noisy(r, h, seq, at)},
		}
	}
	return bs
}

// bundles is what the hosts send with a tick: with each sample those of the last quarter of an hour.
func bundles(sent map[string][]snapshot.Sample, tick []Batch) []Batch {
	for i := range tick {
		all := append(sent[tick[i].Host], tick[i].Samples...)
		sent[tick[i].Host] = slices.Clone(all[max(0, len(all)-45):])
		tick[i].Samples = sent[tick[i].Host]
	}
	return tick
}

// BenchmarkIngestTick is H2, with everything that follows from a tick (chunks,
// roll-ups, retention) paid for in it: run it with -benchtime=200x or more.
func BenchmarkIngestTick(b *testing.B) {
	s := open(b, Options{})
	r := rand.New(rand.NewPCG(1, 2))
	at, seq, sent := t0, uint64(0), map[string][]snapshot.Sample{}
	step := func() []Batch {
		seq++
		at = at.Add(20 * time.Second)
		return bundles(sent, tick(r, 1000, seq, at))
	}
	for range 65 {
		if err := s.IngestAll(context.Background(), at, step()); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	var used time.Duration
	for b.Loop() {
		b.StopTimer()
		bs := step()
		b.StartTimer()
		before := cpu()
		if err := s.IngestAll(context.Background(), at, bs); err != nil {
			b.Fatal(err)
		}
		used += cpu() - before
	}
	b.ReportMetric(float64(used.Microseconds())/1000/float64(b.N), "cpu-ms/tick")
}

// fill gives one host days of samples, an hour a call.
func fill(b testing.TB, s *Store, host int, from time.Time, length, every time.Duration) {
	r := rand.New(rand.NewPCG(uint64(host), 3))
	seq := uint64(0)
	for at := from; at.Before(from.Add(length)); {
		var samples []snapshot.Sample
		for end := at.Add(time.Hour); at.Before(end); at = at.Add(every) {
			seq++
			samples = append(samples, noisy(r, host, seq, at))
		}
		if err := s.IngestAll(context.Background(), at, []Batch{{
			Host: fmt.Sprintf("gpu%04d", host), Boot: from.String(), Samples: samples, Whole: true,
		}}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBytes is H1: what a value costs on disk, file and log together.
func BenchmarkBytes(b *testing.B) {
	for b.Loop() {
		path := filepath.Join(b.TempDir(), "history.db")
		s := openAt(b, path, t0, Options{})
		r := rand.New(rand.NewPCG(1, 2))
		at, seq := t0, uint64(0)
		for range 3 * 24 * 30 { // two minutes a call, as cron would
			var all []Batch
			for range 6 {
				seq++
				at = at.Add(20 * time.Second)
				all = append(all, tick(r, 20, seq, at)...)
			}
			if err := s.IngestAll(context.Background(), at, all); err != nil {
				b.Fatal(err)
			}
		}
		var fives, days, pages float64
		values := float64(3 * 24 * 180 * 20 * 8 * 6)
		ctx := context.Background()
		s.db.QueryRowContext(ctx, "select sum(length(data)) from hour").Scan(&fives)
		s.db.QueryRowContext(ctx, "select sum(length(hours)) from day").Scan(&days)
		s.db.QueryRowContext(ctx,
			"select page_count-freelist_count from pragma_page_count, pragma_freelist_count").Scan(&pages)
		b.ReportMetric(fives/values, "fives-B/value")
		b.ReportMetric(days/values, "hours-B/value")
		b.ReportMetric(pages*pageSize/values, "file-B/value")
	}
}

func BenchmarkQueries(b *testing.B) {
	ctx := context.Background()
	s := open(b, Options{})
	end := t0.Add(365 * 24 * time.Hour)
	fill(b, s, 0, t0, 335*24*time.Hour, 200*time.Second)
	fill(b, s, 0, t0.Add(335*24*time.Hour), 30*24*time.Hour, 20*time.Second)
	for _, q := range []struct {
		name         string
		length, step time.Duration
	}{
		{"24h", 24 * time.Hour, 5 * time.Minute},
		{"30d", 30 * 24 * time.Hour, time.Hour}, {"1y", 365 * 24 * time.Hour, 24 * time.Hour},
	} {
		b.Run(q.name, func(b *testing.B) {
			for b.Loop() {
				vs, _, err := s.HostMeans(ctx, "gpu0000", Steps(end.Add(-q.length), end, q.step), Utilization)
				if err != nil || len(vs) != 8 {
					b.Fatal(len(vs), err)
				}
			}
		})
	}
	b.Run("user-totals-30d", func(b *testing.B) {
		for b.Loop() {
			if _, err := userTotalsOf(s, end.Add(-30*24*time.Hour), end); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRecent is what the board costs with 1,000 hosts: in a process that
// stays, after a tick, and in one that has just begun.
func BenchmarkRecent(b *testing.B) {
	ctx := context.Background()
	path := filepath.Join(b.TempDir(), "history.db")
	before := heap()
	s := openAt(b, path, t0, Options{})
	r := rand.New(rand.NewPCG(5, 6))
	at, seq, sent := t0, uint64(0), map[string][]snapshot.Sample{}
	for range 24 { // a day, coarsely
		var all []Batch
		for k := range 12 {
			at = at.Add(5 * time.Minute)
			seq++
			bs := tick(r, 1000, seq, at)
			if k == 0 {
				all = bs
				continue
			}
			for h := range bs {
				all[h].Samples = append(all[h].Samples, bs[h].Samples...)
			}
		}
		if err := s.IngestAll(ctx, at, all); err != nil {
			b.Fatal(err)
		}
	}
	for range 180 { // and an hour of ticks
		at = at.Add(20 * time.Second)
		seq++
		if err := s.IngestAll(ctx, at, bundles(sent, tick(r, 1000, seq, at))); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := s.Recent(ctx, at, 30*time.Minute, 5); err != nil {
		b.Fatal(err)
	}
	kept := float64(heap()-before) / 1000 / 1024
	b.Run("warm", func(b *testing.B) {
		var used time.Duration
		for b.Loop() {
			b.StopTimer()
			at = at.Add(20 * time.Second)
			seq++
			if err := s.IngestAll(ctx, at, bundles(sent, tick(r, 1000, seq, at))); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			before := cpu()
			if _, err := s.Recent(ctx, at, 30*time.Minute, 5); err != nil {
				b.Fatal(err)
			}
			used += cpu() - before
		}
		b.ReportMetric(kept, "KiB/host")
		b.ReportMetric(float64(used.Microseconds())/1000/float64(b.N), "cpu-ms/op")
	})
	b.Run("idle", func(b *testing.B) {
		var used time.Duration
		for b.Loop() {
			at = at.Add(time.Second)
			before := cpu()
			if _, err := s.Recent(ctx, at, 30*time.Minute, 5); err != nil {
				b.Fatal(err)
			}
			used += cpu() - before
		}
		b.ReportMetric(float64(used.Microseconds())/1000/float64(b.N), "cpu-ms/op")
	})
	b.Run("cold", func(b *testing.B) {
		var used time.Duration
		for b.Loop() {
			before := cpu()
			s, err := Open(ctx, path, at, Options{})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := s.Recent(ctx, at, 30*time.Minute, 5); err != nil {
				b.Fatal(err)
			}
			s.Close()
			used += cpu() - before
		}
		b.ReportMetric(float64(used.Microseconds())/1000/float64(b.N), "cpu-ms/op")
	})
}
