// Package collector reads this node once and returns a Snapshot: GPUs and
// their processes from nvidia-smi and from AMD's driver, who owns those from ps, the driver's errors
// from the kernel's log, and the host around them from /proc.
//
// Every state of a node (no driver, a lost GPU, a program that hangs) results in a
// Snapshot with Errors. No call takes longer than its budget. A program that cannot be
// killed is not started again while it exists.
package collector

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"gpuboard/collector/containers"
	"gpuboard/collector/hostinfo"
	"gpuboard/collector/kernellog"
	"gpuboard/collector/nvidiasmi"
	"gpuboard/collector/ps"
	"gpuboard/internal/snapshot"
)

// The default budgets of one reading.
const (
	DefaultSMIBudget = 10 * time.Second
	DefaultPSBudget  = 5 * time.Second
	hostBudget       = 2 * time.Second
)

// Options say what to read and how. The zero value reads this machine.
type Options struct {
	// Host is the node's name as [snapshot.ParseHost] returns it.
	Host string
	// Version is that of the program, for the snapshot.
	Version string
	// Pulled is true where the web host reads the node, and nothing runs on it.
	Pulled bool
	// NvidiaSMI and PS are the programs: paths, or names to look for.
	// Default nvidia-smi and ps.
	NvidiaSMI, PS string
	// AMDSMI is amd-smi or rocm-smi, likewise; "" for the driver's files alone. AMDIntegrated is true to list the
	// graphics of processors, too.
	AMDSMI        string
	AMDIntegrated bool
	// SMIBudget and PSBudget bound one run of each; SMIBudget also bounds all of AMD's.
	SMIBudget, PSBudget time.Duration
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// Roots says where the host is read.
	Roots hostinfo.Roots
	// Kmsg is the kernel's log, /dev/kmsg if "". Where it cannot be read, the program
	// Journal (journalctl) is run every few minutes; "" for none.
	Kmsg, Journal string
	// Containers is the file that root keeps about containers, [containers.Path] if "".
	Containers string
	// StateFile records an nvidia-smi that hangs, so that a later process does not start
	// another one; "" for no record. Other programs have files beside it.
	StateFile string
	// Elsewhere is the machine that is read, if it is not this one; Roots is then what was copied of it.
	Elsewhere *Elsewhere
}

// A Collector reads one node. It keeps state between readings, so a loop uses one
// Collector. It is safe for use by several goroutines; their readings do not overlap.
type Collector struct {
	opts Options

	mu    sync.Mutex
	stuck map[string]*hungProcess // by program
	amd   amdState
	known map[int]start
	// wholeTable: a process was gone at the last reading. noQuick: this ps cannot
	// list single processes.
	wholeTable, noQuick bool
	mig                 []nvidiasmi.Listed
	migKey              string
	host                late[hostinfo.Info]
	xids                kernellog.Log
	kmsg                *os.File // kept open, so that each record is read once
	journalAt           time.Time
	accounts            *accounts
	accountsAt          time.Time
	asker               asker
	found               found
}

// New returns a Collector.
func New(opts Options) *Collector {
	opts.NvidiaSMI = cmp.Or(opts.NvidiaSMI, "nvidia-smi")
	opts.PS = cmp.Or(opts.PS, "ps")
	opts.Roots.Proc, opts.Roots.Etc = cmp.Or(opts.Roots.Proc, "/proc"), cmp.Or(opts.Roots.Etc, "/etc")
	opts.Roots.Sys, opts.Roots.Dev = cmp.Or(opts.Roots.Sys, "/sys"), cmp.Or(opts.Roots.Dev, "/dev")
	opts.Containers = cmp.Or(opts.Containers, containers.Path)
	opts.Kmsg = cmp.Or(opts.Kmsg, "/dev/kmsg")
	opts.SMIBudget = cmp.Or(opts.SMIBudget, DefaultSMIBudget)
	opts.PSBudget = cmp.Or(opts.PSBudget, DefaultPSBudget)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Collector{
		opts: opts, xids: kernellog.Log{}, stuck: map[string]*hungProcess{},
		noQuick: opts.Elsewhere != nil, asker: asker{none: opts.Elsewhere != nil},
	}
}

// Collect reads the node. Seq stays 0, which the spool sets, and so does
// IntervalSeconds, which a loop sets. The only error is that of ctx,
// if ctx ended before the reading.
func (c *Collector) Collect(ctx context.Context) (*snapshot.Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	smiStarted := c.opts.Now()
	s := &snapshot.Snapshot{
		Schema: snapshot.Schema, Host: c.opts.Host,
		CollectedAt: snapshot.TimeOf(smiStarted),
		Collector:   snapshot.Text(c.opts.Version, snapshot.MaxNameBytes),
		Errors:      []snapshot.Problem{}, Pulled: c.opts.Pulled,
	}
	c.startHost()
	xids := make(chan []kernellog.Event, 1)
	go func() { xids <- c.kernelLogEvents(ctx, smiStarted) }()
	c.gpus(ctx, s)
	checkForgedNames(c.opts.Roots.Proc, s)
	c.amdGPUs(ctx, s)
	c.addXIDs(s, <-xids)
	if len(s.Processes) > 0 && ctx.Err() == nil {
		c.addOwners(ctx, s, smiStarted)
	}
	c.nameUnread(s)
	c.finishHost(ctx, s)
	ShareNodeMemory(s)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading this node: %w", context.Cause(ctx))
	}
	c.known = starts(s.Processes)
	s.Errors = limitProblems(s.Errors)
	return s, nil
}

// ShareNodeMemory sets the memory of GPUs without memory of their own to the node's.
func ShareNodeMemory(s *snapshot.Snapshot) {
	for i := range s.GPUs {
		g, n := &s.GPUs[i], &s.Node
		if !g.MemoryShared || g.Health == snapshot.HealthLost || g.MemoryTotal != nil || g.MemoryUsed != nil ||
			n.MemoryTotal == nil || n.MemoryUsed == nil {
			continue
		}
		g.MemoryTotal, g.MemoryUsed = new(*n.MemoryTotal), new(*n.MemoryUsed)
		g.MemoryFree = new(*n.MemoryTotal - *n.MemoryUsed)
	}
}

// limitProblems keeps one problem of each kind and place, up to the limit. Those about
// values differ by message.
func limitProblems(all []snapshot.Problem) []snapshot.Problem {
	kept := []snapshot.Problem{}
	for _, p := range all {
		same := func(k snapshot.Problem) bool {
			if k.Code != p.Code || (k.GPU == nil) != (p.GPU == nil) || p.GPU != nil && *k.GPU != *p.GPU {
				return false
			}
			return k.Message == p.Message || p.GPU != nil && p.Code != "smi:unknown-token" && p.Code != "smi:range"
		}
		if !slices.ContainsFunc(kept, same) {
			kept = append(kept, p)
		}
	}
	if more := len(kept) - (snapshot.MaxErrors - 1); more > 0 {
		kept = append(kept[:snapshot.MaxErrors-1], snapshot.NewProblem("host:limit", "+%d more problems", more))
	}
	return kept
}

// smiMissing reports whether a problem says that nvidia-smi is missing, which is none where another vendor's GPUs are.
func smiMissing(p snapshot.Problem) bool { return p.Code == "smi:missing" }

// report adds a problem to a snapshot.
func report(s *snapshot.Snapshot, code, format string, args ...any) {
	s.Errors = append(s.Errors, snapshot.NewProblem(code, format, args...))
}

func (c *Collector) startHost() {
	c.host.begin(func() hostinfo.Info { return hostinfo.Read(c.opts.Roots) })
}

func (c *Collector) finishHost(ctx context.Context, s *snapshot.Snapshot) {
	info, ok := c.host.wait(ctx, hostBudget)
	if !ok && ctx.Err() == nil {
		report(s, "host:timeout", "the node's own state could not be read within %s: does one of its disks hang?",
			hostBudget)
	}
	s.BootID, s.Node = info.BootID, info.Node
	s.Errors = append(s.Errors, info.Problems...)
}

// gpus runs nvidia-smi and adds its output to the snapshot.
func (c *Collector) gpus(ctx context.Context, s *snapshot.Snapshot) {
	if c.stillHung(s, "nvidia-smi") {
		return
	}
	program, err := c.find(c.opts.NvidiaSMI)
	if err != nil {
		report(s, "smi:missing", "nvidia-smi cannot be started: %v: "+
			"install the NVIDIA driver, or name the program with --nvidia-smi", err)
		return
	}
	r := c.run(ctx, program, nvidiasmi.Args(), environment("LC_ALL=C"), c.opts.SMIBudget, nvidiasmi.MaxOutputBytes+1)
	if r.err != nil {
		if ctx.Err() == nil {
			report(s, "smi:missing", "nvidia-smi cannot be started: %v: see --nvidia-smi", r.err)
		}
		c.noteHung(s, "nvidia-smi", r)
		return
	}
	reading := nvidiasmi.Parse(r.stdout, r.stderr)
	reading.End(r.exit)
	s.GPUsComplete = reading.Complete && !r.cut && !r.timedOut && r.hung == 0
	s.DriverVersion, s.CUDAVersion = reading.Driver, reading.CUDA
	s.GPUs, s.Processes = reading.GPUs, reading.Processes
	c.explain(s, r, reading)
	s.Errors = append(s.Errors, reading.Problems...)
	c.noteHung(s, "nvidia-smi", r)
	if r.hung == 0 && !r.timedOut {
		c.labelMIG(ctx, program, s)
	}
	if inContainer(c.opts.Roots.Proc) {
		markHiddenProcesses(s)
	}
}

// explain reports why nvidia-smi failed.
func (c *Collector) explain(s *snapshot.Snapshot, r run, reading nvidiasmi.Reading) {
	switch {
	case r.hung != 0:
		return // noteHung says so
	case r.timedOut:
		report(s, "smi:timeout", "nvidia-smi did not answer within %s and was ended: "+
			"enable persistence mode (`nvidia-smi -pm 1`), and see `dmesg`", c.opts.SMIBudget)
		return
	case r.exit != 0 || len(reading.GPUs) == 0:
		if p, ok := nvidiasmi.Explain(r.exit, reading.Notes); ok {
			s.Errors = append(s.Errors, p)
			return
		}
	}
	said := func(p snapshot.Problem) bool { return p.Code == "smi:truncated" || p.Code == "smi:no-gpus" }
	switch {
	case reading.GPUs != nil:
	case len(bytes.TrimSpace(r.stdout)) == 0:
		report(s, "smi:empty", "nvidia-smi wrote nothing")
	case !slices.ContainsFunc(reading.Problems, said):
		report(s, "smi:parse", "nvidia-smi did not write XML: %s", reading.Notes)
	}
}

// labelMIG adds the UUIDs and profiles of MIG devices, which are not in the XML. It runs
// `nvidia-smi -L` once per layout, because a new layout has new instance ids.
func (c *Collector) labelMIG(ctx context.Context, program string, s *snapshot.Snapshot) {
	if !nvidiasmi.NeedsList(s.GPUs) {
		return
	}
	key := layout(s.GPUs)
	if key == c.migKey && nvidiasmi.Label(s.GPUs, c.mig) {
		return
	}
	r := c.run(ctx, program, nvidiasmi.ListArgs(), environment("LC_ALL=C"), c.opts.SMIBudget, nvidiasmi.MaxOutputBytes)
	list := nvidiasmi.ParseList(r.stdout)
	c.noteHung(s, "nvidia-smi", r)
	if nvidiasmi.Label(s.GPUs, list) {
		c.mig, c.migKey = list, key
		return
	}
	report(s, "smi:mig-list", "`nvidia-smi -L` (exit status %d) does not name every MIG device; "+
		"their UUIDs are not known", r.exit)
}

// layout returns what differs between two layouts of MIG devices.
func layout(gpus []snapshot.GPU) string {
	var devices []snapshot.MIGDevice
	for _, g := range gpus {
		for _, d := range g.MIGDevices {
			devices = append(devices,
				snapshot.MIGDevice{UUID: g.UUID, Index: d.Index, GPUInstanceID: d.GPUInstanceID,
					ComputeInstanceID: d.ComputeInstanceID})
		}
	}
	key, _ := json.Marshal(devices)
	return string(key)
}

// addOwners runs ps and adds its output to the processes of the snapshot.
func (c *Collector) addOwners(ctx context.Context, s *snapshot.Snapshot, smiStarted time.Time) {
	program, err := c.find(c.opts.PS)
	if err != nil {
		report(s, "ps:missing", "ps cannot be started: %v: install procps, or name the program with --ps", err)
		return
	}
	var psStarted time.Time
	var up time.Duration
	var table []ps.Process
	var problems []snapshot.Problem
	var r run
	list := func(args []string) {
		psStarted = c.opts.Now()
		up, _ = c.bootClock()
		r = c.run(ctx, program, args, environment(ps.Env()...), c.opts.PSBudget, ps.MaxOutputBytes+1)
		table, problems = ps.Parse(r.stdout)
	}
	// If all processes are alive, listing just these is enough. To find the children of
	// a process that is gone, the whole table is needed.
	if pids := pidsOf(s.Processes); !c.wholeTable && !c.noQuick && len(pids) <= maxQuickPIDs {
		list(ps.ArgsOf(pids))
		c.noQuick = r.exit != 0 && len(r.stderr) > 0
	}
	if r.err == nil && !r.timedOut && !(r.exit == 0 && len(problems) == 0 && allAlive(s.Processes, table)) {
		list(ps.Args())
		c.wholeTable = !allAlive(s.Processes, table)
	}
	switch {
	case r.err != nil && ctx.Err() != nil:
		return
	case r.err != nil:
		report(s, "ps:missing", "ps cannot be started: %v: see --ps", r.err)
		return
	case r.timedOut:
		report(s, "ps:timeout", "ps did not answer within %s and was ended; "+
			"who owns the processes is not known", c.opts.PSBudget)
		return
	}
	s.Errors = append(s.Errors, problems...)
	if len(table) == 0 || r.exit != 0 {
		line, _, _ := bytes.Cut(bytes.TrimSpace(r.stderr), []byte{'\n'})
		report(s, "ps:failed", "ps failed (exit status %d); who owns the processes is not known: %s", r.exit, line)
		return
	}
	there, contained := c.exists, inContainer(c.opts.Roots.Proc)
	if contained {
		// The pids are those of the host; here they are unused or belong to others.
		there = func(int) bool { return true }
	}
	unseen := attribution{
		table: table, partial: len(problems) > 0, smiStarted: smiStarted, psStarted: psStarted,
		exists: there, began: c.began(c.opts.Now()), known: c.known,
	}.apply(s.Processes)
	switch {
	case unseen > 0 && contained:
		report(s, "ps:namespace", "ps does not show %d processes that nvidia-smi lists: "+
			"this collector runs in a container; give it the host's pids (docker run --pid=host)", unseen)
	case unseen > 0:
		report(s, "ps:hidden", "ps does not show %d processes that exist: "+
			"/proc is mounted with hidepid; put this account into the group of its gid= option", unseen)
	}
	programs(c.opts.Roots.Proc, s.Processes, up)
	c.claims(s)
}

// claims adds what tells whose the processes are besides their accounts.
func (c *Collector) claims(s *snapshot.Snapshot) {
	if now := c.opts.Now(); c.accounts == nil || c.opts.Elsewhere != nil || now.Sub(c.accountsAt).Abs() > keepAccounts {
		c.accountsAt, c.asker.left = now, askBudget
		c.accounts = readAccounts(c.opts.Roots.Etc, c.asker.ask)
	}
	file, err := containers.Read(c.opts.Containers)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		report(s, "host:partial", "whose the containers are cannot be read: %v", err)
	}
	e := evidence{procRoot: c.opts.Roots.Proc, accounts: c.accounts, containers: file.Containers}
	e.apply(s.Processes)
}

// maxQuickPIDs is how many processes are listed by pid.
const maxQuickPIDs = 512

// pidsOf returns the pids, each once: a process may be on several GPUs.
func pidsOf(list []snapshot.Process) []int {
	var pids []int
	for _, p := range list {
		pids = append(pids, p.PID)
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// allAlive reports whether ps lists every process as alive.
func allAlive(list []snapshot.Process, table []ps.Process) bool {
	alive := make(map[int]bool, len(table))
	for _, p := range table {
		alive[p.PID] = !p.Zombie()
	}
	return !slices.ContainsFunc(list, func(p snapshot.Process) bool { return !alive[p.PID] })
}

// began returns a function that returns the exact start of a process.
func (c *Collector) began(now time.Time) func(int) (time.Time, bool) {
	up, ok := c.bootClock()
	if !ok {
		return nil
	}
	return func(pid int) (time.Time, bool) {
		_, ticks, ok := ProcStat(c.opts.Roots.Proc, pid)
		if !ok || ticks > 1<<50 {
			return time.Time{}, false
		}
		return now.Add(-(up - time.Duration(ticks)*(time.Second/ticksPerSecond))), true
	}
}
