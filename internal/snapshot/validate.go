package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Limits of what is not among [Readings]. A value outside them comes from a broken driver or is
// forged, and becomes unknown. They are generous, because a wrong "unknown" hides a GPU.
const (
	maxIndex   = 1 << 20
	maxMiB     = 1 << 32 // 4 PiB
	maxCount   = 1 << 53 // error counters; what a JSON number holds exactly
	maxCores   = 1 << 20
	maxLoad    = 1e7
	maxSeconds = 1 << 40
	maxXID     = 9999 // the catalogue ends below 200
	// startSlack is by how much the start of a process may precede the boot, or a time may
	// be later than the reading: the clock may be set in between.
	startSlack = time.Minute
)

// Validate limits s: it makes texts safe and short, cuts lists to their limits, and makes
// impossible readings unknown. It returns what it has changed. It does not change Schema,
// Host, BootID, Seq and CollectedAt.
func (s *Snapshot) Validate() []Problem {
	v := &validator{odd: map[string]bool{}}
	v.shape(&s.Collector, "collector")
	v.shape(&s.DriverVersion, "version")
	v.shape(&s.CUDAVersion, "version")
	s.Tools = keep(limit(v, s.Tools, MaxTools, "tools"), func(t *Tool) bool {
		v.shape((*string)(&t.Vendor), "vendor")
		v.shape(&t.Name, "tool")
		v.shape(&t.Version, "version")
		v.shape(&t.Driver, "version")
		return t.Vendor != "" && t.Name != ""
	})
	if s.IntervalSeconds < 0 || s.IntervalSeconds > 7*24*3600 {
		v.add(BadRange, "interval_seconds is %d", s.IntervalSeconds)
		s.IntervalSeconds = 0
	}
	v.node(&s.Node)
	listed := len(s.GPUs)
	s.GPUs = v.unique(limit(v, s.GPUs, MaxGPUs, "gpus"))
	s.GPUsComplete = s.GPUsComplete && s.GPUs != nil && len(s.GPUs) == listed
	for i := range s.GPUs {
		v.gpu = &s.GPUs[i].Index
		v.device(&s.GPUs[i])
		v.xid(&s.GPUs[i], s.CollectedAt)
	}
	v.gpu = nil
	v.processes(s)
	s.Errors = limit(v, s.Errors, MaxErrors, "errors")
	for i := range s.Errors {
		e := &s.Errors[i]
		text(&e.Code, MaxProgramBytes)
		text(&e.Message, MaxTextBytes)
		text(&e.File, MaxNameBytes)
		text(&e.Host, MaxNameBytes)
	}
	if v.more > 0 {
		v.found = append(v.found, NewProblem(BadTooMany, "problems: +%d more", v.more))
	}
	return v.found
}

// validator collects problems; gpu is the index of the current device, and odd the kinds
// of texts of which one did not have its shape.
type validator struct {
	odd   map[string]bool
	found []Problem
	more  int
	gpu   *int
}

func (v *validator) add(code, format string, args ...any) {
	if len(v.found) >= MaxErrors {
		v.more++
		return
	}
	p := Problem{Code: code, Message: fmt.Sprintf(format, args...)}
	if v.gpu != nil {
		p.GPU = new(*v.gpu)
	}
	v.found = append(v.found, p)
}

func text(s *string, max int) { *s = Text(*s, max) }

// limit cuts a list to its limit and reports how much was left out. What was left out does not
// stay in memory with the rest.
func limit[T any](v *validator, list []T, max int, what string) []T {
	if len(list) <= max {
		return list
	}
	v.add(BadTooMany, "%s: +%d more", what, len(list)-max)
	return slices.Clone(list[:max])
}

// keep returns the elements that are valid, in place.
func keep[T any](list []T, valid func(*T) bool) []T {
	kept := list[:0]
	for i := range list {
		if valid(&list[i]) {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// within makes a reading unknown if it is not between low and high.
func within[T int | int64 | float64](v *validator, p **T, low, high T, what string) {
	if *p != nil && !(**p >= low && **p <= high) { // also false for NaN
		v.add(BadRange, "%s is %v", what, **p)
		*p = nil
	}
}

func (v *validator) node(n *Node) {
	within(v, &n.UptimeSeconds, 0, maxSeconds, "uptime_seconds")
	within(v, &n.Cores, 0, maxCores, "cores")
	within(v, &n.Load1, 0, maxLoad, "load1")
	within(v, &n.Load5, 0, maxLoad, "load5")
	within(v, &n.Load15, 0, maxLoad, "load15")
	v.memory(&n.MemoryTotal, &n.MemoryUsed)
	v.shape(&n.Kernel, "kernel")
	v.shape(&n.OS, "os")
	n.Disks = keep(limit(v, n.Disks, MaxDisks, "disks"), func(d *Disk) bool {
		text(&d.Mount, MaxNameBytes)
		if d.Total < 0 || d.Total > maxMiB || d.Used < 0 || d.Used > d.Total {
			v.add(BadRange, "disk %s is %d of %d MiB full", quote(d.Mount), d.Used, d.Total)
			return false
		}
		return true
	})
	n.DiskUsers = keep(limit(v, n.DiskUsers, MaxDiskUsers, "disk_users"), func(u *DiskUser) bool {
		text(&u.Path, MaxNameBytes)
		text(&u.User, MaxNameBytes)
		if u.Used < 0 || u.Used > maxMiB {
			v.add(BadRange, "%s keeps %d MiB in %s", quote(u.User), u.Used, quote(u.Path))
			return false
		}
		return true
	})
	n.Interfaces = limit(v, n.Interfaces, MaxInterfaces, "interfaces")
	for i := range n.Interfaces {
		face := &n.Interfaces[i]
		v.shape(&face.Name, "interface")
		face.Addrs = keep(limit(v, face.Addrs, MaxAddrs, "addrs"),
			func(s *string) bool { return v.shape(s, "address") })
	}
}

// memory checks total and used memory.
func (v *validator) memory(total, used **int64) {
	within(v, total, 0, maxMiB, "memory_total_mib")
	within(v, used, 0, maxMiB, "memory_used_mib")
	if *total != nil && **total == 0 {
		v.add(BadRange, "memory_total_mib is 0")
		*total, *used = nil, nil
	}
	if *total != nil && *used != nil && **used > **total {
		v.add(BadRange, "memory_used_mib is %d of %d", **used, **total)
		*used = nil
	}
}

// unique leaves out GPUs with a repeated or impossible index.
func (v *validator) unique(gpus []GPU) []GPU {
	seen := make(map[int]bool, len(gpus))
	return keep(gpus, func(g *GPU) bool {
		switch {
		case g.Index < 0 || g.Index > maxIndex:
			v.add(BadRange, "the index of a GPU is %d", g.Index)
			return false
		case seen[g.Index]:
			v.add(BadRepeated, "GPU %d is listed twice", g.Index)
			return false
		}
		seen[g.Index] = true
		return true
	})
}

func (v *validator) device(g *GPU) {
	if !v.shape((*string)(&g.Vendor), "vendor") {
		g.Vendor = "unknown" // "" would mean NVIDIA
	}
	if g.Vendor == NVIDIA {
		g.Vendor = ""
	}
	v.shape(&g.UUID, "uuid")
	v.shape(&g.PCIBusID, "pci_bus_id")
	v.shape(&g.Name, "name")
	v.shape(&g.PState, "pstate")
	v.shape(&g.MIGMode, "mig_mode")
	v.shape(&g.HealthReason, "reason")
	if !v.shape(&g.ProcessesUnknown, "reason") {
		g.ProcessesUnknown = "unknown" // "" would mean that they are known
	}
	if g.MemoryTotal != nil && *g.MemoryTotal == 0 {
		g.MemoryFree = nil
	}
	v.memory(&g.MemoryTotal, &g.MemoryUsed)
	within(v, &g.MemoryFree, 0, maxMiB, "memory_free_mib")
	if g.MemoryTotal != nil && g.MemoryFree != nil && *g.MemoryFree > *g.MemoryTotal {
		v.add(BadRange, "memory_free_mib is %d of %d", *g.MemoryFree, *g.MemoryTotal)
		g.MemoryFree = nil
	}
	v.readings(&g.Readings)
	within(v, &g.RetiredPages, 0, maxIndex, "retired_pages")
	g.ThrottleReasons = limit(v, g.ThrottleReasons, MaxErrors, "throttle_reasons")
	for i := range g.ThrottleReasons {
		if !v.shape(&g.ThrottleReasons[i], "throttle reason") {
			g.ThrottleReasons[i] = "unknown"
		}
	}
	if e := g.ECC; e != nil {
		e.Mode = Shaped("mig_mode", e.Mode) // which has the same words
		within(v, &e.CorrectedVolatile, 0, maxCount, "corrected_volatile")
		within(v, &e.UncorrectedVolatile, 0, maxCount, "uncorrected_volatile")
		within(v, &e.CorrectedAggregate, 0, maxCount, "corrected_aggregate")
		within(v, &e.UncorrectedAggregate, 0, maxCount, "uncorrected_aggregate")
	}
	if r := g.RemappedRows; r != nil {
		within(v, &r.Correctable, 0, maxIndex, "remapped_rows correctable")
		within(v, &r.Uncorrectable, 0, maxIndex, "remapped_rows uncorrectable")
	}
	if f := g.Fabric; f != nil {
		v.shape(&f.State, "fabric")
		v.shape(&f.Status, "fabric")
		v.shape(&f.ClusterUUID, "uuid")
		within(v, &f.CliqueID, 0, 1<<32-1, "fabric clique_id")
	}
	g.MIGDevices = limit(v, g.MIGDevices, MaxMIGDevices, "mig_devices")
	for i := range g.MIGDevices {
		m := &g.MIGDevices[i]
		v.shape(&m.UUID, "uuid")
		v.shape(&m.Profile, "profile")
		v.memory(&m.MemoryTotal, &m.MemoryUsed)
	}
	g.Health = cmp.Or(g.Health, HealthUnknown)
	if !slices.Contains([]Health{HealthOK, HealthLost, HealthError, HealthUnknown}, g.Health) {
		v.add(BadRange, "health is %s", quote(string(g.Health)))
		g.Health = HealthUnknown
	}
}

// xid checks the last XID of a GPU, which must not be in the future.
func (v *validator) xid(g *GPU, collected Time) {
	x := g.XID
	if x == nil {
		return
	}
	if x.Code < 1 || x.Code > maxXID || x.At.IsZero() || !collected.IsZero() && x.At.Sub(collected.Time) > startSlack {
		v.add(BadRange, "xid is %d at %s", x.Code, x.At)
		g.XID = nil
	}
}

// processes checks the list of processes. If a process is left out, the processes of its
// GPU count as unknown.
func (v *validator) processes(s *Snapshot) {
	unknown := func(p *Process, why string) {
		for i := range s.GPUs {
			if g := &s.GPUs[i]; (g.Index == p.GPU || p.GPU < 0 || p.GPU > maxIndex) && g.ProcessesUnknown == "" {
				g.ProcessesUnknown = why
			}
		}
	}
	all := s.Processes
	s.Processes = limit(v, all, MaxProcesses, "processes")
	for i := len(s.Processes); i < len(all); i++ {
		unknown(&all[i], "more than are read")
	}
	s.Processes = keep(s.Processes, func(p *Process) bool {
		if !v.process(p) {
			unknown(p, "one of them is out of range")
			return false
		}
		s.start(p)
		return true
	})
}

// start makes the start of a process unknown if it is before the boot or after the
// reading. This is not reported, because ps is known to be wrong at times.
func (s *Snapshot) start(p *Process) {
	if p.StartedAt == nil || s.CollectedAt.IsZero() {
		return
	}
	early := s.Node.UptimeSeconds != nil &&
		int64((s.CollectedAt.Sub(p.StartedAt.Time)-startSlack)/time.Second) > *s.Node.UptimeSeconds
	if early || p.StartedAt.Sub(s.CollectedAt.Time) > startSlack {
		p.StartedAt = nil
	}
}

// process limits one process, and reports whether it is kept.
func (v *validator) process(p *Process) bool {
	if p.PID < 0 || p.PID > 1<<31 || p.GPU < 0 || p.GPU > maxIndex {
		v.add(BadRange, "a process has pid %d on GPU %d", p.PID, p.GPU)
		return false
	}
	v.shape(&p.GPUUUID, "uuid")
	text(&p.User, MaxNameBytes)
	text(&p.Program, MaxProgramBytes)
	v.shape(&p.Container, "container")
	v.shape(&p.ContainerName, "container name")
	v.shape(&p.Pod, "pod")
	v.shape(&p.Unit, "unit")
	v.shape(&p.Job, "job")
	p.Claims = keep(limit(v, p.Claims, MaxClaims, "claims"), func(c *Claim) bool {
		return v.shape(&c.User, "login") && v.shape((*string)(&c.Source), "source") && c.User != ""
	})
	if !v.shape((*string)(&p.Type), "process type") {
		p.Type = UnknownType
	}
	within(v, &p.UID, 0, 1<<32-1, "uid")
	within(v, &p.UsedMemory, 0, maxMiB, "used_memory_mib")
	p.Children = limit(v, p.Children, MaxChildren, "children")
	for i := range p.Children {
		text(&p.Children[i].User, MaxNameBytes)
		text(&p.Children[i].Program, MaxProgramBytes)
	}
	return true
}
