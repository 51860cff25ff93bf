package history_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
)

// What is known of slices changes no sum over GPUs, hosts and people, whether
// samples are pending or in roll-ups.
func TestSlicesDoNotCountBesideTheirGPU(t *testing.T) {
	ctx := context.Background()
	plain, cut := open(t, history.Options{}), open(t, history.Options{})
	tr := &truth{host: "gpu1", gpus: 2, every: 20 * time.Second, from: t0, to: t0.Add(26 * time.Hour),
		jobs: []job{{0, "ada", t0, t0.Add(20 * time.Hour), 3000, 40},
			{0, "bob", t0.Add(time.Hour), t0.Add(25 * time.Hour),
				1000, 2}}}
	all := tr.samples()
	live(t, plain, "gpu1", "boot", all)
	for i := range all {
		all[i].GPUs = append(all[i].GPUs[:2:2],
			snapshot.GPUSample{
				UUID: "MIG-a", MemoryUsed: ptr(int64(3000)), Users: []snapshot.UserMemory{{User: "ada", Memory: 3000}},
			},
			snapshot.GPUSample{UUID: "MIG-b", MemoryUsed: ptr(int64(12)), Users: []snapshot.UserMemory{}},
			snapshot.GPUSample{UUID: "MIG-c", MemoryUsed: ptr(int64(12))})
	}
	live(t, cut, "gpu1", "boot", all)

	sums := func(s *history.Store) []any {
		var out []any
		keep := func(v any, err error) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, v)
		}
		for _, at := range [][]time.Time{
			{t0, tr.to},
			{t0.Add(90 * time.Minute), tr.to.Add(-time.Minute)},
			{t0, t0.Add(24 * time.Hour)},
		} {
			users, err := userTotalsOf(s, at[0], at[1])
			keep(users, err)
			hosts, err := hostTotalsOf(s, at[0], at[1])
			keep(hosts, err)
			fleet, err := fleetSteps(s, at)
			keep(fleet, err)
			free, err := freeByClass(s, at, func(history.Key) string { return "all" })
			keep(free, err)
		}
		recent, err := s.Recent(ctx, tr.to, time.Hour, 5)
		if err != nil {
			t.Fatal(err)
		}
		return append(out, recent.Users, *recent.FreeMean2h, *recent.FreeMean24h, *recent.FreeMean1w)
	}
	if diff := cmp.Diff(sums(plain), sums(cut)); diff != "" {
		t.Errorf("sums without and with slices (-without +with):\n%s", diff)
	}

	for gpu, want := range map[string]float64{"MIG-a": 3000, "MIG-b": 12, "MIG-c": 12} {
		memory, _ := meansOf(t, cut, "gpu1", gpu, history.Memory, t0, tr.to)
		if len(memory) != 1 || memory[0] != want {
			t.Errorf("%s used %v MiB, want %v", gpu, memory, want)
		}
	}
	for gpu, want := range map[string]float64{"MIG-a": 100, "MIG-b": 0} {
		if held, _ := meansOf(t, cut, "gpu1", gpu, history.Held, t0, tr.to); len(held) != 1 || held[0] != want {
			t.Errorf("%s was held %v %% of the time, want %v", gpu, held, want)
		}
	}
	recent, err := cut.Recent(ctx, tr.to, time.Hour, 5)
	if err != nil {
		t.Fatal(err)
	}
	g := recent.GPUs[history.Key{Host: "gpu1", GPU: "MIG-b"}]
	if len(g.Utilization) != history.SparkSteps || !g.IdleSince.IsZero() {
		t.Errorf("without utilization it is not known since when a slice is idle: %v", g.IdleSince)
	}
}
