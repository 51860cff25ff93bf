package snapshot

import (
	"math"
	"slices"
	"sort"
)

// ErrProcesses is the code, in [Snapshot.Errors], of processes that could not
// be read: those of one GPU, whose ProcessesUnknown says so, too, where the
// problem names it, and all otherwise.
const ErrProcesses = "smi:processes"

// ProcessesKnown reports whether the list of processes has all of some GPU, be
// it an empty one. See [Snapshot.ProcessesKnownOf] for a single GPU.
func (s *Snapshot) ProcessesKnown() bool {
	return s.Processes != nil && !slices.ContainsFunc(s.Errors, func(e Problem) bool { return e.Code == ErrProcesses && e.GPU == nil })
}

// ProcessesKnownOf reports whether the list of processes has all of one GPU.
// When it has not, a GPU without processes may still be in use.
func (s *Snapshot) ProcessesKnownOf(g *GPU) bool {
	return s.ProcessesKnown() && g.ProcessesUnknown == ""
}

// Sample returns the compact record of s. Users counts compute processes only
// (see [ProcessType.Computes]), a process without a known size as 0 MiB; it is
// nil on every GPU unless [Snapshot.ProcessesKnownOf] it.
func (s *Snapshot) Sample() Sample {
	sample := Sample{Seq: s.Seq, At: TimeOf(s.CollectedAt.Time).Time}
	if s.GPUs == nil {
		return sample
	}
	sample.GPUs = make([]GPUSample, len(s.GPUs))
	held := map[int]map[string]int64{}
	if s.ProcessesKnown() {
		for i := range s.GPUs {
			if g := &s.GPUs[i]; s.ProcessesKnownOf(g) {
				held[g.Index] = map[string]int64{}
			}
		}
		for _, p := range s.Processes {
			if users := held[p.GPU]; users != nil && p.Type.Computes() {
				users[p.User] += value(p.UsedMemory)
			}
		}
	}
	for i, g := range s.GPUs {
		to := &sample.GPUs[i]
		*to = GPUSample{Index: g.Index, UUID: g.UUID, Utilization: g.UtilizationGPU, MemoryUsed: g.MemoryUsed, Temperature: g.Temperature}
		if g.PowerDraw != nil {
			watts := math.Round(*g.PowerDraw*10) / 10 // what a file keeps of it
			to.Power = &watts
		}
		if users := held[g.Index]; users != nil {
			to.Users = make([]UserMemory, 0, len(users))
			for name, memory := range users {
				to.Users = append(to.Users, UserMemory{User: name, Memory: memory})
			}
			sort.Slice(to.Users, func(i, j int) bool { return to.Users[i].User < to.Users[j].User })
		}
	}
	return sample
}

func value(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}
