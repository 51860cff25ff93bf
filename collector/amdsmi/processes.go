package amdsmi

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// held is what a process has of each GPU, by gpu_id.
type held map[string]hold

type hold struct {
	memory int64 // bytes
	queue  bool  // it has a queue, with which programs are started
	// doubt: whether it has one cannot be read.
	doubt bool
}

// readProcesses reads what KFD, the driver's part for computing, tells of its processes, in /sys/class/kfd/kfd/proc:
// a directory a process, with a file vram_ID for each GPU that it may use, and a directory for each of its queues.
// Further contexts of a process are directories within its own. All accounts are there, and their files have mode 0444
// (KFD_SYSFS_FILE_MODE in the kernel's drivers/gpu/drm/amd/amdkfd/kfd_priv.h).
func (k *Kernel) readProcesses(sys fs.FS) {
	const dir = "class/kfd/kfd/proc"
	k.processes = map[int]held{}
	entries, err := fs.ReadDir(sys, dir)
	k.allProcesses = err == nil && len(entries) <= maxProcesses
	for _, e := range entries[:min(len(entries), maxProcesses)] {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid < 1 || pid > maxPID {
			continue
		}
		h := held{}
		ok := h.read(sys, path.Join(dir, e.Name()), 0)
		if _, err := fs.Stat(sys, path.Join(dir, e.Name())); !ok && errors.Is(err, fs.ErrNotExist) {
			continue // it has ended
		}
		k.allProcesses = k.allProcesses && ok
		k.processes[pid] = h
	}
}

// read adds what one context of a process holds, and reports whether all of it could be read.
func (h held) read(sys fs.FS, dir string, depth int) bool {
	entries, err := fs.ReadDir(sys, dir)
	if err != nil {
		return false
	}
	all, queues, gpus := true, false, 0
	for _, e := range entries {
		name := e.Name()
		id, isMemory := strings.CutPrefix(name, "vram_")
		switch {
		case isMemory:
			n, err := strconv.ParseInt(read(sys, path.Join(dir, name)), 10, 64)
			x := h[id]
			x.memory = min(x.memory+max(n, 0), maxMemory<<20)
			h[id] = x
			all = all && err == nil && n >= 0 && n>>20 <= maxMemory
			gpus++
		case name == "queues":
			queues = h.queues(sys, path.Join(dir, name))
		case strings.HasPrefix(name, "context_") && depth == 0:
			all = h.read(sys, path.Join(dir, name), 1) && all
		}
	}
	if !queues { // without them, none that holds nothing is known to be no use
		for id, x := range h {
			x.doubt = x.doubt || x.memory == 0
			h[id] = x
		}
	}
	return all && (gpus > 0 || queues)
}

func (h held) queues(sys fs.FS, dir string) bool {
	entries, err := fs.ReadDir(sys, dir)
	if err != nil {
		return false
	}
	for _, e := range entries[:min(len(entries), 1024)] {
		id := read(sys, path.Join(dir, e.Name(), "gpuid"))
		if id == "" {
			return false
		}
		x := h[id]
		x.queue = true
		h[id] = x
	}
	return true
}

const (
	maxPIDs = 1 << 16
	maxFDs  = 4096 // of a process
)

// readClients reads what processes hold by their open files of the driver: also those that do not compute, such as
// a display's. A client counts once, however many files it has.
func (k *Kernel) readClients(proc fs.FS) {
	k.clients = map[int]map[string]int64{}
	entries, err := fs.ReadDir(proc, ".")
	k.unseen = err != nil
	for _, e := range entries[:min(len(entries), maxPIDs)] {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		files, err := fs.ReadDir(proc, e.Name()+"/fd")
		k.unseen = k.unseen || errors.Is(err, fs.ErrPermission)
		seen := map[string]bool{}
		for _, f := range files[:min(len(files), maxFDs)] {
			if to, err := fs.ReadLink(proc, e.Name()+"/fd/"+f.Name()); err != nil ||
				!strings.HasPrefix(to, "/dev/dri/") {
				continue
			}
			info := read(proc, e.Name()+"/fdinfo/"+f.Name())
			bus, client := address(property(info, "drm-pdev:")), property(info, "drm-client-id:")
			if property(info, "drm-driver:") != "amdgpu" || bus == "" || seen[bus+" "+client] {
				continue
			}
			seen[bus+" "+client] = true
			k.client(bus, pid, info)
		}
	}
}

// client adds what one client holds: memory of the card, and for the graphics of a processor that of the node.
func (k *Kernel) client(bus string, pid int, info string) {
	kinds := []string{"vram"}
	if slices.ContainsFunc(k.cards, func(c *card) bool { return c.bus == bus && c.integrated }) {
		kinds = append(kinds, "gtt")
	}
	for _, kind := range kinds {
		amount := fields{"": property(info, "drm-memory-"+kind+":")}
		if v := amount.number(0, maxMemory, false, ""); v != nil {
			if k.clients[pid] == nil {
				k.clients[pid] = map[string]int64{}
			}
			k.clients[pid][bus] = min(k.clients[pid][bus]+int64(*v), maxMemory)
		}
	}
}
