package collector

import (
	"cmp"
	"context"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gpuboard/collector/amdsmi"
	"gpuboard/internal/snapshot"
)

// amdState is what is kept of AMD's GPUs between readings.
type amdState struct {
	kernel          late[amdsmi.Kernel] // the driver's files
	key             string              // the cards that static and version are of
	static, version []byte
	first           int                      // the index of the first, which is behind NVIDIA's
	mayOpen         func(device string) bool // by access(2) if nil
}

// amdGPUs adds AMD's GPUs. On a node without them it looks for the driver, and does no more.
func (c *Collector) amdGPUs(ctx context.Context, s *snapshot.Snapshot) {
	named := strings.ContainsRune(c.opts.AMDSMI, '/') // as in WSL, where a program answers without the driver
	if ctx.Err() != nil || !amdsmi.Present(os.DirFS(c.opts.Roots.Sys)) && !named {
		return
	}
	deadline := time.Now().Add(c.opts.SMIBudget)
	if c.opts.Elsewhere != nil {
		c.amd.kernel.running = nil // what was brought before is gone
	}
	c.amd.kernel.begin(func() amdsmi.Kernel {
		return amdsmi.ReadKernel(os.DirFS(c.opts.Roots.Sys), os.DirFS(c.opts.Roots.Proc), c.opts.AMDIntegrated)
	})
	k, ok := c.amd.kernel.wait(ctx, c.opts.SMIBudget)
	if ctx.Err() != nil {
		return
	}
	if !ok {
		s.GPUsComplete = false
		s.Errors = slices.DeleteFunc(s.Errors, smiMissing)
		report(s, "amd:timeout", "the files of AMD's driver could not be read within %s: see `dmesg`", c.opts.SMIBudget)
		return
	}
	keys := k.Keys(c.opts.AMDIntegrated)
	var a amdsmi.Answer
	failed := ""
	if len(keys) > 0 || named {
		a, failed = c.askAMD(ctx, s, strings.Join(keys, " "), deadline)
	}
	c.addAMD(s, &k, &a, failed)
}

// addAMD puts AMD's GPUs behind those of NVIDIA, which keep their places while nvidia-smi does not answer.
func (c *Collector) addAMD(s *snapshot.Snapshot, k *amdsmi.Kernel, a *amdsmi.Answer, failed string) {
	if s.GPUsComplete {
		c.amd.first = 0
	}
	for _, g := range s.GPUs {
		c.amd.first = max(c.amd.first, g.Index+1)
	}
	r := amdsmi.Read(k, a, amdsmi.Options{First: c.amd.first, Integrated: c.opts.AMDIntegrated, Failed: failed,
		Unseen: c.opts.Elsewhere != nil})
	missing := slices.IndexFunc(s.Errors, smiMissing)
	switch {
	case len(r.GPUs) == 0:
		if missing >= 0 && r.Integrated {
			s.Errors[missing].Message += "; for the graphics of AMD's processor see --amd-integrated"
		}
		return
	case missing >= 0:
		s.Errors = slices.Delete(s.Errors, missing, missing+1)
		s.GPUs, s.GPUsComplete = []snapshot.GPU{}, true
	}
	s.GPUsComplete = s.GPUsComplete && r.Complete
	s.GPUs = append(s.GPUs, r.GPUs...)
	s.Processes = append(slices.Concat([]snapshot.Process{}, s.Processes), r.Processes...)
	s.Tools = append(s.Tools, r.Tool)
	if a.Tool.Name != "" || slices.ContainsFunc(r.GPUs, func(g snapshot.GPU) bool { return g.ProcessesUnknown != "" }) {
		c.amdAccess(s)
	}
}

// askAMD runs the tool. failed says why its answer is missing, where the driver may be why.
func (c *Collector) askAMD(
	ctx context.Context, s *snapshot.Snapshot, key string, deadline time.Time,
) (a amdsmi.Answer, failed string) {
	program, err := c.find(c.opts.AMDSMI)
	if err != nil && c.opts.AMDSMI == "amd-smi" {
		program, err = c.find("rocm-smi")
	}
	if err != nil {
		return a, "" // the driver's files are enough
	}
	name := "amd-smi"
	if strings.Contains(filepath.Base(program), "rocm") {
		name = "rocm-smi"
	}
	if c.stillHung(s, name) {
		return a, name + " hangs"
	}
	var notes []byte
	exit := 0
	ask := func(args []string) []byte {
		if failed != "" || ctx.Err() != nil {
			return nil
		}
		r := c.run(ctx, program, args, environment("LC_ALL=C"), max(0, time.Until(deadline)), amdsmi.MaxOutputBytes)
		c.noteHung(s, name, r)
		switch {
		case r.hung != 0:
			failed = name + " hangs"
		case r.timedOut:
			failed = name + " did not answer in time"
			report(s, "amd:timeout", "%s did not answer within %s and was ended: see `dmesg`", name, c.opts.SMIBudget)
		case r.err != nil:
			failed = name + " could not be started"
			report(s, "amd:failed", "%s could not be started: %v: see --amd-smi", name, r.err)
		case r.cut:
			failed = name + " wrote too much"
			report(s, "amd:parse", "%s wrote more than %d MiB", name, amdsmi.MaxOutputBytes>>20)
		}
		exit = cmp.Or(exit, r.exit)
		notes = append(append(notes, r.stderr...), '\n')
		return r.stdout
	}
	if name == "rocm-smi" {
		a = amdsmi.ParseROCm(ask(amdsmi.ROCmArgs()))
	} else {
		if key != c.amd.key || c.amd.static == nil {
			c.amd.key, c.amd.static = key, ask(amdsmi.StaticArgs())
			status := exit
			c.amd.version = ask(amdsmi.VersionArgs())
			exit = status // an amd-smi that cannot say its version is read as well
		}
		a = amdsmi.ParseSMI(c.amd.version, c.amd.static, ask(amdsmi.MetricArgs()), ask(amdsmi.ProcessArgs()))
	}
	if failed == "" && ctx.Err() == nil && (!a.Said || exit != 0 && name == "amd-smi") {
		code, words, fatal := amdsmi.Explain(exit, string(notes)+a.Notes)
		report(s, code, "%s did not tell of the GPUs (exit status %d); the driver's files are read: %s", name, exit,
			words)
		if fatal {
			failed = name + " failed"
		}
	}
	if failed != "" || exit != 0 {
		c.amd.static = nil // asked for again
	}
	return a, failed
}

// amdAccess reports that this account may not use the devices. Access is tested, and not by the names of groups: rules
// of udev and access lists give it in other ways. Opening /dev/kfd would make this process one of its users.
func (c *Collector) amdAccess(s *snapshot.Snapshot) {
	mayOpen := c.amd.mayOpen
	if mayOpen == nil {
		const readWrite = 6
		mayOpen = func(device string) bool { return syscall.Access(device, readWrite) == nil }
	}
	devices, _ := filepath.Glob(filepath.Join(c.opts.Roots.Dev, "dri", "renderD*"))
	for _, device := range append([]string{filepath.Join(c.opts.Roots.Dev, "kfd")}, devices...) {
		info, err := os.Stat(device)
		if err != nil || mayOpen(device) {
			continue
		}
		group := "of its owner"
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			group = strconv.FormatUint(uint64(stat.Gid), 10)
			if g, err := user.LookupGroupId(group); err == nil {
				group = g.Name
			}
		}
		s.Errors = slices.DeleteFunc(s.Errors, func(p snapshot.Problem) bool { return p.Code == "amd:permission" })
		report(s, "amd:permission",
			"this account may not open %s, which belongs to the group %s: add the account to it "+
				"(`usermod -aG %s ACCOUNT`), and start the collector again", device, group, group)
		return
	}
}
