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
// maxUsedPercent of the memory is used and that are known not to be used, in
// order, and no more than limit of them (all, if limit is negative).
func Available(s *snapshot.Snapshot, maxUsedPercent float64, limit int) []int {
	list := []int{}
	for n, i := range Infos(s) {
		if limit >= 0 && len(list) >= limit {
			break
		}
		if i.Healthy && free(s, &s.GPUs[n], i.MemoryUsedPercent, maxUsedPercent) {
			list = append(list, i.Index)
		}
	}
	return list
}

// idlePercent is the utilization from which a GPU counts as used.
const idlePercent = 5

// free reports whether a GPU is known not to be used: little of its memory is,
// and either no process computes, or its utilization is low. What is not known
// is no sign of it. Memory that is the node's says nothing, so there it takes
// both.
func free(s *snapshot.Snapshot, g *snapshot.GPU, usedPercent *float64, maxUsedPercent float64) bool {
	unused := s.ProcessesKnownOf(g)
	for _, p := range s.Processes {
		unused = unused && !(p.GPU == g.Index && p.Type.Computes())
	}
	if g.MemoryShared {
		return unused && (g.UtilizationGPU == nil || *g.UtilizationGPU < idlePercent)
	}
	return usedPercent != nil && *usedPercent <= maxUsedPercent &&
		(unused || g.UtilizationGPU != nil && *g.UtilizationGPU < idlePercent)
}
