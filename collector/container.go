package collector

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gpuboard/internal/snapshot"
)

const (
	maxCgroupBytes = 16 << 10
	maxCgroupFiles = 512 // processes looked up in one reading
)

var (
	// Docker, containerd, CRI-O and podman name a cgroup after 64 hex digits.
	hexContainer = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?:/|$)`) })
	lxcContainer = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`/lxc(?:\.payload\.|/)([A-Za-z0-9][A-Za-z0-9_.-]{0,62})(?:/|$)`)
	})
)

// parseCgroup returns the short id of the container that /proc/PID/cgroup
// tells of, and "" for a process of the host.
func parseCgroup(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		_, rest, _ := strings.Cut(line, ":")
		_, path, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		// Patterns cost the most where they find nothing, which is nearly everywhere.
		if len(path) >= 64 {
			if m := hexContainer().FindStringSubmatch(path); m != nil {
				return m[1][:12]
			}
		}
		if strings.Contains(path, "/lxc") {
			if m := lxcContainer().FindStringSubmatch(path); m != nil {
				return snapshot.Text(m[1], snapshot.MaxNameBytes)
			}
		}
	}
	return ""
}

// containers fills in the container of every process that lives. What cannot
// be read is left out without a word: most nodes have no containers.
func containers(procRoot string, list []snapshot.Process) {
	found := map[int]string{}
	for i := range list {
		p := &list[i]
		if p.Alive == nil || !*p.Alive {
			continue
		}
		id, known := found[p.PID]
		if !known && len(found) < maxCgroupFiles {
			id = parseCgroup(readSmall(filepath.Join(procRoot, strconv.Itoa(p.PID), "cgroup"), maxCgroupBytes))
			found[p.PID] = id
		}
		p.Container = id
	}
}

func readSmall(name string, limit int64) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return ""
	}
	return string(text)
}

// bootID is the kernel's id of this boot, "" when it cannot be had.
func bootID(procRoot string) string {
	return strings.TrimSpace(readSmall(filepath.Join(procRoot, "sys/kernel/random/boot_id"), 64))
}

// hostPIDs is the name of the pid namespace that the kernel starts with; its
// number is part of the kernel's interface.
const hostPIDs = "pid:[4026531836]"

// contextMiB is less memory than any process takes that computes on a GPU.
const contextMiB = 32

// hidden marks the GPUs of which a collector in a container may not see the
// processes: nvidia-smi lists those that have a pid there, and no others.
func hidden(s *snapshot.Snapshot) {
	for i := range s.GPUs {
		g := &s.GPUs[i]
		listed := slices.ContainsFunc(s.Processes, func(p snapshot.Process) bool { return p.GPU == g.Index })
		unused := g.MemoryUsed != nil && *g.MemoryUsed < contextMiB
		if g.ProcessesUnknown == "" && !listed && !unused {
			g.ProcessesUnknown = "none is listed, and a container does not see those of others"
		}
	}
}

// contained reports whether this process sees other pids than the host does.
func contained(procRoot string) bool {
	name, err := os.Readlink(filepath.Join(procRoot, "self/ns/pid"))
	return err == nil && name != hostPIDs
}
