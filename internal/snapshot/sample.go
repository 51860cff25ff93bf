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
	return s.Processes != nil &&
		!slices.ContainsFunc(s.Errors, func(e Problem) bool { return e.Code == CodeProcesses && e.GPU == nil })
}

// ProcessesKnownOf reports whether the list has all processes of one GPU. If not, a GPU
// without listed processes may still be in use.
func (s *Snapshot) ProcessesKnownOf(g *GPU) bool {
	return s.ProcessesKnown() && g.ProcessesUnknown == ""
}

// RepeatedUUIDs returns the UUIDs that several GPUs or MIG devices have. They name none of
// them, neither to CUDA nor in a booking nor over time.
func (s *Snapshot) RepeatedUUIDs() map[string]bool {
	seen, repeated := map[string]bool{}, map[string]bool{}
	see := func(uuid string) {
		if uuid != "" && seen[uuid] {
			repeated[uuid] = true
		}
		seen[uuid] = true
	}
	for i := range s.GPUs {
		see(s.GPUs[i].UUID)
		for _, d := range s.GPUs[i].MIGDevices {
			see(d.UUID)
		}
	}
	return repeated
}

// LoadShare returns the load of the last minute as a share of the cores: above 1 where processes wait for one.
// ok is false where either is not known.
func (n *Node) LoadShare() (share float64, ok bool) {
	if n.Load1 == nil || n.Cores == nil || *n.Cores <= 0 {
		return 0, false
	}
	return *n.Load1 / float64(*n.Cores), true
}

// loadPercent is [Node.LoadShare] in %, at most [maxLoadPercent]; nil where it is not known.
func (n *Node) loadPercent() *int {
	share, ok := n.LoadShare()
	if !ok {
		return nil
	}
	return new(int(math.Round(min(100*share, maxLoadPercent))))
}

// Sample returns the compact record of s: its host, its GPUs, and after them as many of their MIG
// devices as fit into [MaxGPUs]. Users counts processes that compute (see [Computing] and
// [Owner.Name]), and dead ones as those of an unknown user, because what they hold is not free; a
// process of unknown size counts as 0 MiB. It is nil for a GPU whose processes are not known.
func (s *Snapshot) Sample() Sample {
	sample := Sample{Seq: s.Seq, At: TimeOf(s.CollectedAt.Time).Time, Load: s.Node.loadPercent(),
		MemoryUsed: s.Node.MemoryUsed}
	if s.GPUs == nil {
		return sample
	}
	sample.GPUs = make([]GPUSample, len(s.GPUs))
	repeated := s.RepeatedUUIDs()
	for i := range s.GPUs {
		g, named := &s.GPUs[i], s.GPUs[i]
		if repeated[g.UUID] {
			named.UUID = ""
		}
		sample.GPUs[i] = GPUSample{Index: g.Index, UUID: named.Identity(), Utilization: g.UtilizationGPU,
			MemoryUsed:  g.MemoryUsed,
			Temperature: g.Temperature, Users: s.usersOf(g, -1)}
		if g.PowerDraw != nil {
			sample.GPUs[i].Power = new(math.Round(*g.PowerDraw*10) / 10) // the resolution of the file
		}
	}
	for i := range s.GPUs {
		g := &s.GPUs[i]
		for k, d := range g.MIGDevices {
			if IsSlice(d.UUID) && !repeated[d.UUID] && d.MemoryUsed != nil && len(sample.GPUs) < MaxGPUs {
				sample.GPUs = append(sample.GPUs,
					GPUSample{Index: g.Index, UUID: d.UUID, MemoryUsed: d.MemoryUsed, Users: s.usersOf(g, k)})
			}
		}
	}
	return sample
}

// usersOf returns the memory of each user of a GPU, or of one of its MIG devices if device
// is not -1, sorted by name. It is nil if that is not known, as when a process of the GPU
// may be on any of its devices.
func (s *Snapshot) usersOf(g *GPU, device int) []UserMemory {
	if !s.ProcessesKnownOf(g) {
		return nil
	}
	procs, known := s.processesOn(g, device)
	if !known {
		return nil
	}
	utilization := g.UtilizationGPU
	if device >= 0 {
		utilization = nil // it is that of the whole GPU
	}
	computing := Computing(utilization, procs)
	held := map[string]int64{}
	for i, p := range procs {
		switch {
		case computing[i]:
			held[p.sampleName()] += value(p.UsedMemory)
		case p.Dead():
			held[""] += value(p.UsedMemory)
		}
	}
	users := make([]UserMemory, 0, len(held))
	for name, memory := range held {
		users = append(users, UserMemory{User: name, Memory: memory})
	}
	slices.SortFunc(users, func(a, b UserMemory) int { return strings.Compare(a.User, b.User) })
	return users
}

// sampleName is [Owner.Name]. Who is likely by anything but the account is left out: a site that trusts the accounts
// in containers trusts nothing else.
func (p *Process) sampleName() string {
	owner, by := p.Whose()
	if owner.Likely != "" && !slices.ContainsFunc(by, func(c Claim) bool { return c.Source == ByUID }) {
		return ""
	}
	return owner.Name()
}

// processesOn returns the processes of a GPU, or of one of its MIG devices if device is not -1. It returns false
// if a process that may use the GPU may be on any of its devices.
func (s *Snapshot) processesOn(g *GPU, device int) (procs []*Process, known bool) {
	for i := range s.Processes {
		p := &s.Processes[i]
		if p.GPU != g.Index {
			continue
		}
		if device >= 0 {
			on := MIGDeviceOf(g.MIGDevices, p)
			if on < 0 && !p.background() {
				return nil, false
			}
			if on != device {
				continue
			}
		}
		procs = append(procs, p)
	}
	return procs, true
}

func value(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}
