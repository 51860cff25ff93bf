package history_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
)

func TestReadingsHoldUntilTheNextSample(t *testing.T) {
	for _, c := range []struct {
		name string
		at   []int // s
		want []float64
	}{
		{"regular", []int{0, 20, 40}, []float64{20, 20, 50}},
		{"alone", []int{0}, []float64{50}},
		{"one is missing", []int{0, 20, 60, 80}, []float64{20, 40, 20, 50}},
		{"two are missing", []int{0, 20, 80, 100}, []float64{20, 50, 20, 50}},
		{"every five minutes", []int{0, 300, 600}, []float64{300, 300, 300}},
		{"every ten minutes is too seldom", []int{0, 600}, []float64{50, 50}},
		{"twice at one moment", []int{0, 0, 20}, []float64{0, 20, 50}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, history.Options{})
			var samples []snapshot.Sample // each sees somebody else
			for i, at := range c.at {
				samples = append(samples,
					snapshot.Sample{Seq: uint64(i), At: t0.Add(time.Duration(1200+at) * time.Second),
						GPUs: []snapshot.GPUSample{{Users: []snapshot.UserMemory{{User: fmt.Sprint("user", i),
							Memory: 7}}}}})
			}
			ingestHours(t, s, t0.Add(time.Hour), "gpu1", "boot", samples)
			users, err := userTotalsOf(s, t0, t0.Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]float64{}
			for _, u := range users {
				got[u.Name] = u.GPUHours * 3600
			}
			for i, want := range c.want {
				near(t, fmt.Sprintf("for how long sample %d stands", i), got[fmt.Sprint("user", i)], want, 1e-6)
			}
		})
	}
}

func TestImpossibleValuesAreUnknown(t *testing.T) {
	ctx := context.Background()
	s := open(t, history.Options{})
	held := func(list ...snapshot.UserMemory) []snapshot.UserMemory { return list }
	sample := snapshot.Sample{At: t0, GPUs: []snapshot.GPUSample{
		{UUID: "GPU-0", Utilization: ptr(105), MemoryUsed: ptr(int64(-1)), Temperature: ptr(1000), Power: ptr(-3.0),
			Users: held(snapshot.UserMemory{User: "b", Memory: -5}, snapshot.UserMemory{User: "a", Memory: 7},
				snapshot.UserMemory{User: "b", Memory: 7})},
		{UUID: "GPU-0", Utilization: ptr(1)},
		{UUID: "GPU-\x1b[31m", Users: held(snapshot.UserMemory{User: "c", Memory: 1 << 62},
			snapshot.UserMemory{User: "d", Memory: 1 << 62})},
	}}
	later := sample
	later.Seq, later.At = 1, t0.Add(2*time.Minute)
	ingest(t, s, later.At, "gpu1", "boot", []snapshot.Sample{sample, later})
	means, _, err := s.HostMeans(ctx, "gpu1", history.Steps(t0, t0.Add(5*time.Minute), 5*time.Minute),
		history.Utilization, history.Memory, history.Temperature, history.Power)
	if err != nil || len(means) != 2 || means[`GPU-\x1b[31m`] == nil {
		t.Fatal(means, err)
	}
	for gpu, lists := range means {
		for metric, list := range lists {
			if len(list) != 1 || !math.IsNaN(list[0]) {
				t.Errorf("metric %d of %s is %v", metric, gpu, list)
			}
		}
	}
	users, err := userTotalsOf(s, t0, t0.Add(5*time.Minute))
	if err != nil || len(users) != 4 {
		t.Fatal(users, err)
	}
	for _, u := range users {
		near(t, "seconds of "+u.Name, u.GPUHours*3600, 150, 1e-6)
	}
}

// TestHostsThemselves: what a host does is kept beside its GPUs. It is unknown in what was kept before it was told.
func TestHostsThemselves(t *testing.T) {
	path := newPath(t)
	s := openAt(t, path, t0, history.Options{})
	seq := uint64(0)
	sample := func(after time.Duration, load *int, memory *int64) snapshot.Sample {
		seq++
		return snapshot.Sample{Seq: seq, At: t0.Add(after), Load: load, MemoryUsed: memory,
			GPUs: []snapshot.GPUSample{{UUID: "GPU-0", Utilization: ptr(50)}}}
	}
	var samples []snapshot.Sample
	for at := time.Duration(0); at < 10*time.Minute; at += 20 * time.Second {
		one := sample(at, nil, nil) // of the first five minutes
		if at >= 5*time.Minute {
			one.Load, one.MemoryUsed = ptr(160), ptr(int64(500<<10))
		}
		samples = append(samples, one)
	}
	ingest(t, s, t0.Add(10*time.Minute), "gpu1", "boot", samples)
	// A sample alone is kept as it is, here as it was before.
	ingest(t, s, t0.Add(10*time.Minute), "gpu1", "boot", []snapshot.Sample{sample(10*time.Minute, nil, nil)})
	s.Close()
	change(t, path, `update host set open = replace(open, ',"Host":[0,0]', '')`)
	s = openAt(t, path, t0, history.Options{})
	ingest(t, s, t0.Add(12*time.Minute), "gpu1", "boot",
		[]snapshot.Sample{sample(12*time.Minute, ptr(0), ptr(int64(1<<40)))})
	wants := []struct {
		gpu    string
		metric history.Metric
		want   [3]float64
	}{
		{"", history.HostLoad, [3]float64{math.NaN(), 160, 0}},
		{"", history.HostMemory, [3]float64{math.NaN(), 500 << 10, math.NaN()}},
		{"GPU-0", history.Utilization, [3]float64{50, 50, 50}},
	}
	for range 2 { // with the last five open, then closed
		for _, w := range wants {
			got, _ := meansOf(t, s, "gpu1", w.gpu, w.metric, history.Steps(t0, t0.Add(15*time.Minute), 5*time.Minute)...)
			if fmt.Sprint(got) != fmt.Sprint(w.want) {
				t.Errorf("metric %d of %q is %v, want %v", w.metric, w.gpu, got, w.want)
			}
		}
		ingest(t, s, t0.Add(40*time.Minute), "gpu1", "boot", []snapshot.Sample{sample(40*time.Minute, nil, nil)})
	}
	if got, _ := meansOf(t, s, "gpu1", "GPU-0", history.HostLoad, t0, t0.Add(15*time.Minute)); got != nil {
		t.Errorf("the load of a GPU is %v", got)
	}
	if got, _ := meansOf(t, s, "gpu1", "", history.HostLoad, t0, t0.Add(24*time.Hour)); math.Round(got[0]) != 80 {
		t.Errorf("the day's mean is %v", got) // five minutes of 160, and as long of 0
	}
}

// What rounds to nothing on disk is nothing in memory either: a third of a
// second of four free GPUs once was a GPU-second until the next restart.
func TestFractionOfASecondIsNothing(t *testing.T) {
	ctx := context.Background()
	for _, ms := range []int{300, 499, 500, 2000} {
		path := newPath(t)
		s := openAt(t, path, t0, history.Options{})
		var samples []snapshot.Sample
		for i := range 43 { // the last one stands for so much more than the third five
			free := snapshot.Sample{Seq: uint64(i), At: t0.Add(time.Duration(i*20_000+10_000+ms) * time.Millisecond)}
			for g := range 4 {
				free.GPUs = append(free.GPUs, snapshot.GPUSample{Index: g, Users: []snapshot.UserMemory{}})
			}
			samples = append(samples, free)
		}
		now := t0.Add(15 * time.Minute)
		ingest(t, s, now, "gpu1", "boot", samples)
		free := func(s *history.Store) float64 {
			r, err := s.Recent(ctx, now, 10*time.Minute, 20)
			if err != nil || r.FreeMean2h == nil {
				t.Fatal(r, err)
			}
			return *r.FreeMean2h
		}
		free(s) // now it has the week in memory
		now = now.Add(30 * time.Minute)
		if err := s.IngestAll(ctx, now, nil); err != nil { // it was silent for long
			t.Fatal(err)
		}
		if on, opened := free(s), free(openAt(t, path, now, history.Options{})); on != opened || ms < 500 && on != 4 {
			t.Errorf("%d ms: %v GPUs are free, and %v once it was opened again", ms, on, opened)
		}
	}
}
