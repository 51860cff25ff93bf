package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// tick is a sample of each host: 8 GPUs whose utilization and power tremble
// while a job runs, half of them idle.
func tick(r *rand.Rand, hosts int, seq uint64, at time.Time) []history.Batch {
	out := make([]history.Batch, hosts)
	for host := range out {
		s := snapshot.Sample{Seq: seq, At: at.Add(time.Duration(r.IntN(50)) * time.Millisecond),
			Load: new(20 + r.IntN(10)), MemoryUsed: new(int64(200_000 + r.IntN(2000)))}
		for gpu := range 8 {
			utilization, memory, temperature, power := 0, int64(4), 31, 61.5+float64(r.IntN(8))/10
			g := snapshot.GPUSample{Index: gpu, UUID: fmt.Sprintf("GPU-%08x-0000-0000-0000-%012x", host, gpu),
				Users: []snapshot.UserMemory{}}
			if (host+gpu)%2 == 0 {
				utilization, memory, temperature, power = 88+r.IntN(12), 20000+100*int64((host*7+gpu)%50), 64+
					r.IntN(2), 380+r.Float64()*30
				g.Users = append(g.Users,
					snapshot.UserMemory{User: fmt.Sprintf("user%02d", (host+gpu/2)%40), Memory: memory})
			}
			g.Utilization, g.MemoryUsed, g.Temperature, g.Power = &utilization, &memory, &temperature, &power
			s.GPUs = append(s.GPUs, g)
		}
		out[host] = history.Batch{Host: fmt.Sprintf("gpu%04d", host), Boot: fmt.Sprintf("boot-%d", host),
			Samples: []snapshot.Sample{s}}
	}
	return out
}

// A window is what hosts send: with each sample those of the last quarter of an hour.
type window map[string][]snapshot.Sample

// bundles adds a tick, and returns what the hosts send.
func (w window) bundles(tick []history.Batch) []history.Batch {
	const kept = int(snapshot.BundleWindow / every)
	out := slices.Clone(tick)
	for i := range out {
		all := append(w[out[i].Host], out[i].Samples...)
		w[out[i].Host] = slices.Clone(all[max(0, len(all)-kept):])
		out[i].Samples = w[out[i].Host]
	}
	return out
}

// historyBytes keeps a day and more of samples, 20 s apart.
func (s *suite) historyBytes() error {
	ctx := context.Background()
	path := filepath.Join(s.dir, "bytes.db")
	hosts, ticks := 20, 3*60*48
	if s.quick {
		hosts, ticks = 10, 3*60*26
	}
	store, err := history.Open(ctx, path, noon, history.Options{})
	if err != nil {
		return err
	}
	others, err := s.others()
	if err != nil {
		return err
	}
	r, at, sent := rand.New(rand.NewPCG(1, 2)), noon, window{}
	for n := 0; n < ticks; n += 6 {
		var all []history.Batch
		var few []moment // of some hosts: their bytes do not depend on how many there are
		for k := range 6 {
			at = at.Add(every)
			batches := tick(r, hosts, uint64(n+k+1), at)
			all, few = sent.bundles(batches), append(few, moment{at, batches[:5]})
		}
		if err := store.IngestAll(ctx, at, all); err != nil {
			return err
		}
		if err := others.keep(ctx, few...); err != nil {
			return err
		}
	}
	rivals, besides, err := others.sizes()
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	values := float64(hosts * ticks * 8 * 6)
	s.add(
		row{id: "H1", what: fmt.Sprintf("the file of %d hosts' samples, roll-ups and indexes included", hosts),
			unit: "bytes a value", values: []float64{float64(info.Size()) / values}, target: 0.35, rivals: rivals,
			besides: besides})
	return nil
}

// historyIngest takes in one tick of the fleet, durably, with everything that
// follows from it.
func (s *suite) historyIngest() error {
	ctx := context.Background()
	store, err := history.Open(ctx, filepath.Join(s.dir, "ingest.db"), noon, history.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	r, at, sent := rand.New(rand.NewPCG(1, 2)), noon, window{}
	hosts := s.big()
	rows, err := newTable(filepath.Join(s.dir, "ticks.db"))
	if err != nil {
		return err
	}
	defer rows.close()
	file, err := s.plainFile("ticks")
	if err != nil {
		return err
	}
	defer file.f.Close()
	var sum, inRows, appended float64
	var ms []float64
	for n := range 65 + s.times(60) {
		at = at.Add(every)
		batch := tick(r, hosts, uint64(n+1), at)
		bundles := sent.bundles(batch)
		u, err := mine(func() error { return store.IngestAll(ctx, at, bundles) })
		if err != nil {
			return err
		}
		if n >= 65 { // from here on fives are closed, as they always will be
			ms, sum = append(ms, u.ms()), sum+u.ms()
		}
		if u, err = mine(func() error { return rows.insert(ctx, moment{at, batch}) }); err != nil {
			return err
		}
		inRows += u.ms()
		if u, err = mine(func() error { return file.insert(at, batch) }); err != nil {
			return err
		}
		appended += u.ms()
	}
	mean := sum / float64(len(ms))
	count := float64(65 + len(ms))
	var besides []beside
	if _, found := s.peer("rrdtool", "history"); found {
		update, fetch, graph, err := s.rrd()
		if err != nil {
			return err
		}
		s.rrdFetch, s.rrdGraph = fetch, graph
		besides = []beside{{"rrdtool update of one host, a process", update},
			{fmt.Sprintf("as many for %d hosts", hosts), update * float64(hosts)}}
	}
	s.add(
		row{id: "H2", what: fmt.Sprintf("one tick of %d hosts, mean of %d", hosts, len(ms)), unit: "ms",
			values: []float64{mean},
			rivals: []rival{{"rows of SQLite, one for each GPU", inRows / count, 0.56},
				{"appending them to a file as JSON", appended / count, 0}},
			besides: besides})
	return nil
}

// historyCharts reads what a host's charts are drawn from.
func (s *suite) historyCharts() error {
	ctx := context.Background()
	store, err := history.Open(ctx, filepath.Join(s.dir, "charts.db"), noon, history.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	r, at, seq := rand.New(rand.NewPCG(1, 2)), noon, uint64(0)
	others, err := s.others()
	if err != nil {
		return err
	}
	defer others.rows.close()
	fill := func(days int, apart time.Duration) error {
		for n := range days * 24 {
			var b history.Batch
			var hour []moment
			for end := at.Add(time.Hour); at.Before(end); at = at.Add(apart) {
				seq++
				t := tick(r, 1, seq, at)[0]
				b.Host, b.Boot, b.Samples, b.Whole = t.Host, t.Boot, append(b.Samples, t.Samples...), true
				hour = append(hour, moment{at, []history.Batch{t}})
			}
			if apart == every && n >= (days-1)*24 { // others have the last day alone
				if err := others.keep(ctx, hour...); err != nil {
					return err
				}
				others.seal()
			}
			if err := store.IngestAll(ctx, at, []history.Batch{b}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := fill(362, 10*time.Minute); err != nil {
		return err
	}
	if err := fill(3, every); err != nil {
		return err
	}
	rows, besides, err := s.days(ctx, others, at)
	if err != nil {
		return err
	}
	for _, q := range []struct {
		name         string
		length, step time.Duration
		asked        float64 // of a day of the same host from rows of SQLite
	}{{"24 h", 24 * time.Hour, 5 * time.Minute, 0.03}, {"30 d", 30 * 24 * time.Hour, time.Hour, 0.17}, {"1 y",
		365 * 24 * time.Hour, 24 * time.Hour, 1.8}} {
		var ms []float64
		for range s.times(12) {
			u, err := mine(func() error {
				_, _, err := store.HostMeans(ctx, "gpu0000", history.Steps(at.Add(-q.length), at, q.step),
					history.Utilization)
				return err
			})
			if err != nil {
				return err
			}
			ms = append(ms, u.ms())
		}
		s.add(row{id: "H3", what: q.name + " of one host", unit: "ms", values: ms, least: true,
			rivals: []rival{{"a day from rows of SQLite", rows, q.asked}}, besides: besides})
	}
	return nil
}

// days is what a day of one host takes from what others keep: from rows of SQLite, in ms, and from the rest.
func (s *suite) days(ctx context.Context, o *others, to time.Time) (float64, []beside, error) {
	const day, step = 24 * time.Hour, 5 * time.Minute
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return 0, nil, err
	}
	defer dec.Close()
	rows, err := least(s.times(12),
		func() error { _, err := o.rows.series(ctx, 0, to.Add(-day), to, step); return err })
	if err != nil {
		return 0, nil, err
	}
	lines, err := least(s.times(12), func() error { _, err := o.lines.series(dec, to.Add(-day), to, step); return err })
	if err != nil {
		return 0, nil, err
	}
	besides := []beside{{"lines of JSON, zstd an hour, a day", lines}}
	if s.rrdFetch > 0 {
		besides = append(besides, beside{"rrdtool fetch of 48 series, a process", s.rrdFetch})
	}
	if s.rrdGraph > 0 {
		besides = append(besides, beside{"rrdtool graph of one series, a process", s.rrdGraph})
	}
	return rows, besides, nil
}
