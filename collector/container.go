package collector

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

const maxCgroupBytes = 16 << 10

var (
	// Docker, containerd, CRI-O and podman name a cgroup after 64 hex digits.
	hexContainer = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?:/|$)`) })
	lxcContainer = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`/lxc(?:\.payload\.|/)([A-Za-z0-9][A-Za-z0-9_.-]{0,62})(?:/|$)`)
	})
)

// parseCgroup returns the short id of the container in /proc/PID/cgroup, and "" for a
// process of the host.
func parseCgroup(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		_, rest, _ := strings.Cut(line, ":")
		_, path, ok := strings.Cut(strings.TrimSuffix(rest, " (deleted)"), ":") // of a zombie
		if !ok {
			continue
		}
		// The cheap checks come first, because regular expressions are slow and rarely match.
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

// containers sets, for each process that ps shows, the container and whether its user namespace maps its account
// alone. Zombies have a container, too. Errors are not reported, because most nodes have no containers.
func containers(procRoot string, list []snapshot.Process) {
	read := func(pid int, file string) string {
		text, _ := atomicfile.Read(filepath.Join(procRoot, strconv.Itoa(pid), file), maxCgroupBytes)
		return string(text)
	}
	container := perPID(func(pid int) string { return parseCgroup(read(pid, "cgroup")) })
	uidMap := perPID(func(pid int) string { return read(pid, "uid_map") })
	for i := range list {
		p := &list[i]
		if p.UID == nil {
			continue
		}
		if p.Container = container(p.PID); p.Container != "" {
			p.OwnUserNamespace = mapsAlone(uidMap(p.PID), *p.UID)
		}
	}
}

// mapsAlone reports whether a line of /proc/PID/uid_map maps this uid of the host and no other. An account without
// privileges can map only its own uid. Maps that root makes have ranges: those of processes without a user
// namespace of their own, and those of Docker's userns-remap.
func mapsAlone(uidMap string, uid int64) bool {
	for line := range strings.Lines(uidMap) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[1] == strconv.FormatInt(uid, 10) && fields[2] == "1" {
			return true
		}
	}
	return false
}

// bootID returns the kernel's id of this boot, "" if it cannot be read.
func bootID(procRoot string) string {
	id, _ := atomicfile.Read(filepath.Join(procRoot, "sys/kernel/random/boot_id"), 64)
	return string(bytes.TrimSpace(id))
}

// hostPIDs is the name of the initial pid namespace; its number is fixed in the kernel.
const hostPIDs = "pid:[4026531836]"

// contextMiB is less memory than any computing process uses on a GPU.
const contextMiB = 32

// markHiddenProcesses marks the GPUs whose processes a collector in a container may not
// see: nvidia-smi lists only those with a pid in the container.
func markHiddenProcesses(s *snapshot.Snapshot) {
	for i := range s.GPUs {
		g := &s.GPUs[i]
		listed := slices.ContainsFunc(s.Processes, func(p snapshot.Process) bool {
			return p.GPU == g.Index && p.Type != snapshot.Graphics && !p.Service()
		})
		unused := !g.MemoryShared && g.MemoryUsed != nil && *g.MemoryUsed < contextMiB
		if g.ProcessesUnknown == "" && !listed && !unused {
			g.ProcessesUnknown = "none is listed, and a container does not see those of others"
		}
	}
}

// inContainer reports whether this process is in another pid namespace than the host.
func inContainer(procRoot string) bool {
	name, err := os.Readlink(filepath.Join(procRoot, "self/ns/pid"))
	return err == nil && name != hostPIDs
}
