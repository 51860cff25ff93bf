package demo

import (
	"math"
	"strings"
	"time"

	"gpuboard/collector"
	"gpuboard/internal/snapshot"
)

// uptime is the time between reboots, which happen at other days on each host.
const uptime = 90 * 24 * time.Hour

// Snapshot returns the newest snapshot that a host has sent at this time: that of its last
// tick, or of the last one before it became silent. It is nil for an unknown host. It has
// no Errors: the collector finds them in what [WriteMachine] writes.
func (f *Fleet) Snapshot(host string, now time.Time) *snapshot.Snapshot {
	m := f.machine(host)
	if m == nil {
		return nil
	}
	return f.snapshot(m, lastNews(m, now))
}

// Collected returns the snapshot that the host collected at its last tick, whether or not
// it could send it.
func (f *Fleet) Collected(host string, now time.Time) *snapshot.Snapshot {
	m := f.machine(host)
	if m == nil {
		return nil
	}
	return f.snapshot(m, tick(m, now))
}

func (f *Fleet) snapshot(m *machine, at time.Time) *snapshot.Snapshot {
	boot, n := m.boot(at)
	s := &snapshot.Snapshot{
		Schema: snapshot.Schema, Host: m.Name, BootID: uuid("", mix(m.seed, uint64(n)+500))[1:],
		Seq: uint64(at.Sub(boot)/Interval) + 1, CollectedAt: snapshot.TimeOf(at), Collector: "demo",
		IntervalSeconds: int(Interval / time.Second), DriverVersion: m.driver, CUDAVersion: m.cuda,
		GPUs: []snapshot.GPU{}, GPUsComplete: true, Processes: []snapshot.Process{}, Errors: []snapshot.Problem{},
		Pulled: m.pulled,
	}
	if m.gpus[0].amd() {
		s.Tools, s.DriverVersion = []snapshot.Tool{{Vendor: snapshot.AMD, Name: "sysfs", Driver: m.driver}}, ""
	}
	work := 0.0
	for _, d := range m.gpus {
		work += d.read(s, at, boot) / 100
	}
	for i := range s.Processes { // a job that outlives a reboot was started anew
		if started := s.Processes[i].StartedAt; started != nil && started.Before(boot) {
			*started = snapshot.TimeOf(boot)
		}
	}
	m.node(&s.Node, at, boot, work)
	share(s)
	if m.stopped.has(at) && boot.Before(m.stopped.from) { // a driver that does not answer reports nothing
		s.DriverVersion, s.CUDAVersion, s.GPUs, s.GPUsComplete, s.Processes = "", "", nil, false, nil
	}
	return s
}

// share adds the memory of processes to the node's where its GPU has no other.
func share(s *snapshot.Snapshot) {
	for _, p := range s.Processes {
		if s.GPUs[p.GPU].MemoryShared {
			*s.Node.MemoryUsed += *p.UsedMemory
		}
	}
	collector.ShareNodeMemory(s)
}

// boot returns when the host last started, and the number of that boot.
func (m *machine) boot(at time.Time) (time.Time, int64) {
	offset := int64(mix(m.seed, 20) % uint64(uptime/time.Second))
	n := (at.Unix() - offset) / int64(uptime/time.Second)
	return tick(m, time.Unix(offset+n*int64(uptime/time.Second), 0)), n
}

func (m *machine) node(n *snapshot.Node, at, boot time.Time, work float64) {
	wave := func(salt uint64, period time.Duration) float64 {
		return math.Sin(2*math.Pi*float64(at.UnixMilli())/float64(period.Milliseconds()) + 6*unit(m.seed, salt))
	}
	load := func(calm float64) float64 {
		noise := unit(m.seed, uint64(at.UnixMilli())) - 0.5
		prepare := 0.4 * float64(m.cores) * max(0, wave(26, 7*time.Hour)) // data for the next jobs
		return math.Round(100*max(0.05, work*5+2+wave(21, 37*time.Minute)+prepare+calm*noise)) / 100
	}
	n.UptimeSeconds = new(int64(at.Sub(boot)/time.Second) + 60)
	n.Cores = new(m.cores)
	n.Load1, n.Load5, n.Load15 = new(load(3)), new(load(1)), new(load(0.3))
	n.MemoryTotal = new(m.memory)
	part := min(0.95, 0.12+0.08*work+0.05*wave(22, 5*time.Hour))
	n.MemoryUsed = new(int64(part * float64(m.memory)))
	scratch := min(0.97, 0.3+0.6*unit(m.seed, 23)+0.05*wave(24, 11*24*time.Hour))
	n.Disks = []snapshot.Disk{
		{Mount: "/", Total: 937_000, Used: int64(937_000 * (0.25 + 0.3*unit(m.seed, 25)))},
		{Mount: "/scratch", Total: 7_600_000, Used: int64(scratch * 7_600_000)},
	}
	n.Interfaces = []snapshot.Interface{{Name: "eno1", Addrs: []string{m.address}}}
	n.Kernel, n.OS = "6.8.0-71-generic", "Ubuntu 24.04.3 LTS"
}

// read appends the GPU and its processes, and returns its utilization.
func (d *device) read(s *snapshot.Snapshot, at, boot time.Time) float64 {
	g := snapshot.GPU{Index: d.index, UUID: d.uuid, PCIBusID: d.bus, Name: d.name, Health: snapshot.HealthOK}
	if d.lost.has(at) {
		g.Health, g.HealthReason = snapshot.HealthLost, "GPU is lost"
		g.ProcessesUnknown = g.HealthReason
		s.GPUs = append(s.GPUs, g)
		return 0
	}
	used, util, thermalLoad := int64(4), 0.0, 0.0
	if d.amd() {
		used = 283
	}
	if d.desktop {
		const xorg = 232 // MiB
		used += xorg
		s.Processes = append(s.Processes, snapshot.Process{
			GPU: d.index, GPUUUID: d.uuid, PID: 1863, Type: snapshot.Graphics, User: "root", UID: new(int64(0)),
			Program:    "Xorg",
			UsedMemory: new(int64(xorg)), Alive: new(true),
			StartedAt: new(snapshot.TimeOf(at.Truncate(24 * time.Hour).Add(-72 * time.Hour))),
		})
	}
	slices := make([]int64, len(d.mig))
	for _, l := range d.slots {
		j := l.at(at)
		if j == nil {
			continue
		}
		part := 1.0
		if len(d.slots) > 1 {
			part = float64(l.capacity) / float64(d.memory)
		}
		used += j.memory
		util += part * j.utilization(at)
		thermalLoad += part * j.thermalLoad(at)
		if d.mig != nil {
			slices[l.instance] += j.memory
		}
		s.Processes = append(s.Processes, d.process(j, l))
	}
	util, thermalLoad = min(100, util), min(100, thermalLoad)
	used += sliceOwn * int64(len(d.mig))
	d.readings(&g, at, used, util, thermalLoad)
	d.errors(&g, at, boot)
	for i, in := range d.mig {
		g.MIGDevices = append(g.MIGDevices, snapshot.MIGDevice{
			Index: i, GPUInstanceID: new(in.gi), ComputeInstanceID: new(in.ci), UUID: in.uuid, Profile: in.profile,
			MemoryTotal: new(in.memory), MemoryUsed: new(slices[i] + sliceOwn),
		})
	}
	s.GPUs = append(s.GPUs, g)
	return util
}

// sliceOwn is the memory in MiB that the driver uses of each MIG instance.
const sliceOwn = 12

// errors sets the errors that the driver has reported since boot.
func (d *device) errors(g *snapshot.GPU, at, boot time.Time) {
	f := d.fault
	if f == nil || at.Before(f.at) || f.at.Before(boot) {
		return
	}
	g.XID = &snapshot.XID{Code: f.xid, At: snapshot.TimeOf(f.at)}
	if f.errors > 0 {
		g.ECC.UncorrectedVolatile, g.ECC.UncorrectedAggregate = new(f.errors), new(f.errors)
	}
}

// readings sets the readings. Temperature and power follow the utilization.
func (d *device) readings(g *snapshot.GPU, at time.Time, used int64, util, thermalLoad float64) {
	noise := unit(d.slots[0].seed, uint64(at.UnixMilli())+7)
	g.MemoryShared = d.shared
	if !d.shared { // else the node tells
		g.MemoryTotal, g.MemoryUsed, g.MemoryFree = new(d.memory), new(used), new(d.memory-used)
	}
	if d.mig == nil { // the driver has no utilization of a card that is cut up
		g.UtilizationGPU = new(int(util))
		g.UtilizationMemory = new(int(util * 0.55))
		g.UtilizationEncoder = new(0)
	}
	g.Temperature = new(d.cool + int(float64(d.hot-d.cool)*thermalLoad/100+2*noise))
	g.PowerDraw = new(
		math.Round(
			100*min(d.watts, d.idle+(d.watts*0.97-d.idle)*math.Pow(util/100, 0.85)*(0.94+0.06*noise)+noise)) / 100)
	g.PowerLimit = new(d.watts)
	g.ClockSM, g.ClockMemory, g.PState = new(210), new(405), "P8"
	if util > 0 || used > 1000 {
		g.ClockSM, g.ClockMemory, g.PState = new(d.sm-15*int(4*noise)), new(d.mem), "P0"
	}
	if util > 98 && *g.PowerDraw > 0.95*d.watts {
		g.ThrottleReasons = []string{"sw_power_cap"}
	}
	g.PCIeWidth, g.PCIeWidthMax = new(16), new(16)
	if d.shared { // the driver tells less of it
		g.UtilizationMemory, g.PowerLimit, g.ClockMemory, g.PCIeWidth, g.PCIeWidthMax = new(0), nil, nil, nil, nil
	}
	if d.fan {
		g.Fan = new(30 + int(thermalLoad*0.5))
	}
	if d.ecc {
		g.ECC = &snapshot.ECC{Mode: "enabled", CorrectedVolatile: new(int64(0)), UncorrectedVolatile: new(int64(0)),
			CorrectedAggregate: new(int64(mix(d.slots[0].seed, 8) % 4)), UncorrectedAggregate: new(int64(0))}
		g.RemappedRows = &snapshot.Remapped{Correctable: new(0), Uncorrectable: new(0), Pending: new(false),
			Failure: new(false)}
	}
	if strings.Contains(d.name, "HBM") { // on a board with switches
		g.Fabric = &snapshot.Fabric{State: "Completed", Status: "Success", CliqueID: new(0)}
	}
	if d.amd() {
		g.Vendor, g.UtilizationEncoder, g.PState, g.ThrottleReasons = snapshot.AMD, nil, "", nil
	}
	if d.hidden {
		g.ProcessesUnknown = "KFD does not tell of this GPU"
	}
	if d.card.mig {
		g.MIGMode = "disabled"
	}
	if d.mig != nil {
		g.MIGMode = "enabled"
	}
}

// thermalLoad returns the mean utilization of the last two minutes.
func (j *job) thermalLoad(at time.Time) (mean float64) {
	for t := at; t.After(at.Add(-2*time.Minute)) && j.has(t); t = t.Add(-20 * time.Second) {
		mean += j.utilization(t) / 6
	}
	return mean
}

func (d *device) process(j *job, l *slot) snapshot.Process {
	p := snapshot.Process{
		GPU: d.index, GPUUUID: d.uuid, PID: j.pid(), Type: snapshot.Compute,
		UsedMemory: new(j.memory), Alive: new(true), Container: j.container, OwnUserNamespace: j.container != "",
	}
	if d.mig != nil {
		in := d.mig[l.instance]
		p.GPUInstanceID, p.ComputeInstanceID = new(in.gi), new(in.ci)
	}
	if j.workload == dead {
		p.Alive = new(false)
		p.Children = []snapshot.Child{{PID: j.pid() + 17, User: "kai", Program: "python3"}}
		return p
	}
	p.User, p.UID, p.Program, p.StartedAt = j.user, new(uid(j.user)), j.program, new(snapshot.TimeOf(j.from))
	return p
}
