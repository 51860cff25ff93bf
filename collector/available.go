package collector

import (
	"gpuboard/snapshot"
)

// DefaultMaxUsedPercent is how much of a GPU's memory may be used for it to
// still count as available.
const DefaultMaxUsedPercent = 20.0

// An Info is one GPU as somebody wants it who is about to choose one.
type Info struct {
	Index int
	Name  string
	UUID  string
	// MemoryUsed and MemoryTotal are in MiB; nil when not known.
	MemoryUsed, MemoryTotal *int64
	// MemoryUsedPercent is 0 to 100; nil when not known.
	MemoryUsedPercent *float64
	Healthy           bool
}

// Infos returns the GPUs of a snapshot in the order of their indices.
func Infos(s *snapshot.Snapshot) []Info {
	list := make([]Info, 0, len(s.GPUs))
	for _, g := range s.GPUs {
		i := Info{Index: g.Index, Name: g.Name, UUID: g.UUID, MemoryUsed: g.MemoryUsed, MemoryTotal: g.MemoryTotal,
			Healthy: g.Health == snapshot.HealthOK}
		if g.MemoryUsed != nil && g.MemoryTotal != nil && *g.MemoryTotal > 0 {
			percent := 100 * float64(*g.MemoryUsed) / float64(*g.MemoryTotal)
			i.MemoryUsedPercent = &percent
		}
		list = append(list, i)
	}
	return list
}

// Available returns the indices of the healthy GPUs of which at most
// maxUsedPercent of the memory is used, in order, and no more than limit of
// them (all, if limit is negative). A GPU whose memory is not known is
// available when its processes are known and none of them computes on it.
func Available(s *snapshot.Snapshot, maxUsedPercent float64, limit int) []int {
	list := []int{}
	for _, i := range Infos(s) {
		if limit >= 0 && len(list) >= limit {
			break
		}
		if i.Healthy && free(s, i, maxUsedPercent) {
			list = append(list, i.Index)
		}
	}
	return list
}

func free(s *snapshot.Snapshot, i Info, maxUsedPercent float64) bool {
	if i.MemoryUsedPercent != nil {
		return *i.MemoryUsedPercent <= maxUsedPercent
	}
	// Unified memory (GB10, Orin): nvidia-smi has no numbers, but it does list processes.
	if !s.ProcessesKnown() {
		return false
	}
	for _, p := range s.Processes {
		if p.GPU == i.Index && p.Type.Computes() {
			return false
		}
	}
	return true
}
