package history_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
)

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func tick(r *rand.Rand, hosts int, seq uint64, at time.Time) []history.Batch {
	bs := make([]history.Batch, hosts)
	for h := range bs {
		bs[h] = history.Batch{
			Host: fmt.Sprintf("gpu%04d", h), Boot: fmt.Sprintf("boot-%d", h),
			Samples: []snapshot.Sample{noisy(r, h, seq, at)},
		}
	}
	return bs
}

// bundles is what the hosts send with a tick: with each sample those of the last quarter of an hour.
func bundles(sent map[string][]snapshot.Sample, tick []history.Batch) []history.Batch {
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
	s := open(b, history.Options{})
	r := rand.New(rand.NewPCG(1, 2))
	at, seq, sent := t0, uint64(0), map[string][]snapshot.Sample{}
	step := func() []history.Batch {
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
func fill(b testing.TB, s *history.Store, host int, from time.Time, length, every time.Duration) {
	r := rand.New(rand.NewPCG(uint64(host), 3))
	seq := uint64(0)
	for at := from; at.Before(from.Add(length)); {
		var samples []snapshot.Sample
		for end := at.Add(time.Hour); at.Before(end); at = at.Add(every) {
			seq++
			samples = append(samples, noisy(r, host, seq, at))
		}
		if err := s.IngestAll(context.Background(), at, []history.Batch{{
			Host: fmt.Sprintf("gpu%04d", host), Boot: from.String(), Samples: samples, Whole: true,
		}}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBytes is H1: what a value costs on disk, file and log together.
func BenchmarkBytes(b *testing.B) {
	for b.Loop() {
		path := newPath(b)
		s := openAt(b, path, t0, history.Options{})
		r := rand.New(rand.NewPCG(1, 2))
		at, seq := t0, uint64(0)
		for range 3 * 24 * 30 { // two minutes a call, as cron would
			var all []history.Batch
			for range 6 {
				seq++
				at = at.Add(20 * time.Second)
				all = append(all, tick(r, 20, seq, at)...)
			}
			if err := s.IngestAll(context.Background(), at, all); err != nil {
				b.Fatal(err)
			}
		}
		values := float64(3 * 24 * 180 * 20 * 8 * 6)
		pages := number(b, path, "select page_count-freelist_count from pragma_page_count, pragma_freelist_count")
		b.ReportMetric(number(b, path, "select sum(length(data)) from hour")/values, "fives-B/value")
		b.ReportMetric(number(b, path, "select sum(length(hours)) from day")/values, "hours-B/value")
		b.ReportMetric(pages*pageSize/values, "file-B/value")
	}
}

func BenchmarkQueries(b *testing.B) {
	ctx := context.Background()
	s := open(b, history.Options{})
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
				vs, _, err := s.HostMeans(ctx, "gpu0000", history.Steps(end.Add(-q.length), end, q.step),
					history.Utilization)
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
	path := newPath(b)
	before := heap()
	s := openAt(b, path, t0, history.Options{})
	r := rand.New(rand.NewPCG(5, 6))
	at, seq, sent := t0, uint64(0), map[string][]snapshot.Sample{}
	for range 24 { // a day, coarsely
		var all []history.Batch
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
			s, err := history.Open(ctx, path, at, history.Options{})
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
