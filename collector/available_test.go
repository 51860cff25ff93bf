package collector

import (
	"slices"
	"testing"

	"gpuboard/collector/nvidiasmi"
	"gpuboard/snapshot"
)

func TestAvailable(t *testing.T) {
	mib := func(n int64) *int64 { return &n }
	gpu := func(index int, used, total *int64, h snapshot.Health) snapshot.GPU {
		return snapshot.GPU{Index: index, MemoryUsed: used, MemoryTotal: total, Health: h}
	}
	s := &snapshot.Snapshot{
		GPUs: []snapshot.GPU{
			gpu(0, mib(20), mib(100), snapshot.HealthOK), gpu(1, mib(21), mib(100), snapshot.HealthOK), gpu(2, mib(0), mib(100), snapshot.HealthLost),
			gpu(3, nil, nil, snapshot.HealthOK), gpu(4, nil, nil, snapshot.HealthOK), gpu(5, mib(0), mib(100), snapshot.HealthOK), gpu(6, mib(0), mib(0), snapshot.HealthOK),
		},
		Processes: []snapshot.Process{{GPU: 3, Type: snapshot.Compute}, {GPU: 4, Type: snapshot.Graphics}},
	}
	for _, c := range []struct {
		percent float64
		limit   int
		want    []int
	}{{DefaultMaxUsedPercent, -1, []int{0, 4, 5, 6}}, {20, 2, []int{0, 4}}, {20, 0, []int{}}, {100, -1, []int{0, 1, 4, 5, 6}}, {0, -1, []int{4, 5, 6}}} {
		if got := Available(s, c.percent, c.limit); !slices.Equal(got, c.want) || got == nil {
			t.Errorf("%v %d: %v, want %v", c.percent, c.limit, got, c.want)
		}
	}
	s.Processes = nil
	if got := Available(s, 20, -1); !slices.Equal(got, []int{0, 5}) {
		t.Errorf("memory and processes are not known, and yet %v", got)
	}
}

func TestInfos(t *testing.T) {
	for name, want := range map[string]int{"idle-8x-a100-550.xml": 8, "mixed-4x-processes-535.xml": 0, "lost-1of2-580.xml": 1} {
		r := nvidiasmi.Parse([]byte(readSmall(capturePath(t, name), 1<<20)), nil)
		s := &snapshot.Snapshot{GPUs: r.GPUs, Processes: r.Processes}
		if got := Available(s, DefaultMaxUsedPercent, -1); name != "mixed-4x-processes-535.xml" && len(got) != want {
			t.Errorf("%s: %v are available, want %d", name, got, want)
		}
		for i, info := range Infos(s) {
			if info.Index != i || info.UUID == "" || info.Name == "" {
				t.Errorf("%s: %+v", name, info)
			}
		}
	}
}
