package snapshot

import (
	"math"
	"slices"
	"strings"
)

// CodeProcesses is the code in [Snapshot.Errors] for processes that could not be read:
// those of the GPU that the problem names, else all.
const CodeProcesses = "smi:processes"

// ProcessesKnown reports whether processes could be read at all. See
// [Snapshot.ProcessesKnownOf] for a single GPU.
func (s *Snapshot) ProcessesKnown() bool {
	return s.Processes != nil && !slices.ContainsFunc(s.Errors, func(e Problem) bool { return e.Code == CodeProcesses && e.GPU == nil })
}

// ProcessesKnownOf reports whether the list has all processes of one GPU. If not, a GPU
// without listed processes may still be in use.
func (s *Snapshot) ProcessesKnownOf(g *GPU) bool {
	return s.ProcessesKnown() && g.ProcessesUnknown == ""
}

// Sample returns the compact record of s: its GPUs, and after them as many of their MIG
// devices as fit into [MaxGPUs]. Users counts compute processes only (see
// [ProcessType.Computes]); a process of unknown size counts as 0 MiB. It is nil for a GPU
// whose processes are not known.
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
			watts := math.Round(*g.PowerDraw*10) / 10 // the resolution of the file
			to.Power = &watts
		}
		to.Users = usersOf(held[g.Index])
	}
	for i := range s.GPUs {
		for _, row := range s.slices(&s.GPUs[i]) {
			if len(sample.GPUs) < MaxGPUs {
				sample.GPUs = append(sample.GPUs, row)
			}
		}
	}
	return sample
}

// slices returns the MIG devices of a GPU whose memory is known. Their users are unknown
// if a process of the GPU may be on any of them.
func (s *Snapshot) slices(g *GPU) []GPUSample {
	held := make([]map[string]int64, len(g.MIGDevices))
	if len(held) > 0 && s.ProcessesKnownOf(g) {
		for i := range held {
			held[i] = map[string]int64{}
		}
		for i := range s.Processes {
			p := &s.Processes[i]
			if p.GPU != g.Index || !p.Type.Computes() {
				continue
			}
			d := MIGDeviceOf(g.MIGDevices, p)
			if d < 0 {
				clear(held)
				break
			}
			held[d][p.User] += value(p.UsedMemory)
		}
	}
	var rows []GPUSample
	for i := range g.MIGDevices {
		if d := &g.MIGDevices[i]; IsSlice(d.UUID) && d.MemoryUsed != nil {
			rows = append(rows, GPUSample{Index: g.Index, UUID: d.UUID, MemoryUsed: d.MemoryUsed, Users: usersOf(held[i])})
		}
	}
	return rows
}

// usersOf returns the memory of each user, sorted by name; nil for nil.
func usersOf(held map[string]int64) []UserMemory {
	if held == nil {
		return nil
	}
	users := make([]UserMemory, 0, len(held))
	for name, memory := range held {
		users = append(users, UserMemory{User: name, Memory: memory})
	}
	slices.SortFunc(users, func(a, b UserMemory) int { return strings.Compare(a.User, b.User) })
	return users
}

func value(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}
