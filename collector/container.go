package collector

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

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

// mappedBy reports whether a line of /proc/PID/uid_map other than that of the host itself maps this uid.
func mappedBy(uidMap string, uid int64) bool {
	for line := range strings.Lines(uidMap) {
		var inside, outside, count int64
		if n, err := fmt.Sscan(line, &inside, &outside, &count); n != 3 || err != nil {
			continue
		}
		if uid >= outside && uid-outside < count && (inside != 0 || outside != 0) {
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
