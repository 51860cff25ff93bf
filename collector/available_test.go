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
	}{{DefaultMaxUsedPercent, -1, []int{0, 5}}, {20, 1, []int{0}}, {20, 0, []int{}}, {100, -1, []int{0, 1, 5}}, {0, -1, []int{5}}} {
		if got := Available(s, c.percent, c.limit); !slices.Equal(got, c.want) || got == nil {
			t.Errorf("%v %d: %v, want %v", c.percent, c.limit, got, c.want)
		}
	}
}

// What is known of a GPU with a tenth of its memory used, and whether it is offered.
func TestWhatIsNotKnownIsNotAvailable(t *testing.T) {
	percent := func(n int) *int { return &n }
	for _, c := range []struct {
		name    string
		util    *int
		unknown string // processes
		all     bool   // no list of processes at all
		process snapshot.ProcessType
		want    bool
	}{
		{name: "no process", want: true},
		{name: "a display", process: snapshot.Graphics, want: true},
		{name: "computing", process: snapshot.Compute},
		{name: "computing, and idle", process: snapshot.Compute, util: percent(4), want: true},
		{name: "computing, and busy", process: snapshot.Compute, util: percent(5)},
		{name: "processes not known", unknown: "N/A"},
		{name: "processes not known, and idle", unknown: "N/A", util: percent(0), want: true},
		{name: "processes not known, and busy", unknown: "N/A", util: percent(96)},
		{name: "no list", all: true},
		{name: "no list, and busy", all: true, util: percent(96)},
	} {
		used, total := int64(10), int64(100)
		s := &snapshot.Snapshot{GPUs: []snapshot.GPU{{MemoryUsed: &used, MemoryTotal: &total, UtilizationGPU: c.util,
			ProcessesUnknown: c.unknown, Health: snapshot.HealthOK}}, Processes: []snapshot.Process{}}
		if c.process != "" {
			s.Processes = append(s.Processes, snapshot.Process{Type: c.process})
		}
		if c.all {
			s.Processes = nil
		}
		if got := len(Available(s, DefaultMaxUsedPercent, -1)) == 1; got != c.want {
			t.Errorf("%s: available is %v", c.name, got)
		}
		s.GPUs[0].MemoryShared, *s.GPUs[0].MemoryUsed = true, 90
		if got := len(Available(s, DefaultMaxUsedPercent, -1)) == 1; got != (c.want && c.unknown == "" && c.process != snapshot.Compute) {
			t.Errorf("%s, with the node's memory: available is %v", c.name, got)
		}
		s.GPUs[0].MemoryShared = false
		s.GPUs[0].MemoryUsed = nil
		if len(Available(s, DefaultMaxUsedPercent, -1)) != 0 {
			t.Errorf("%s: available although its memory is not known", c.name)
		}
	}
}

func TestInfos(t *testing.T) {
	for name, want := range map[string]int{"idle-8x-a100-550.xml": 8, "mixed-4x-processes-535.xml": 0, "lost-1of2-580.xml": 0} {
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
