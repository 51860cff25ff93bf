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

// A uidMap is /proc/PID/uid_map: which uids of the host the uids in a user namespace are.
type uidMap []uidRange

type uidRange struct{ inside, outside, count int64 }

func parseUIDMap(text string) (m uidMap) {
	for line := range strings.Lines(text) {
		var r uidRange
		if _, err := fmt.Sscan(line, &r.inside, &r.outside, &r.count); err != nil {
			return nil
		}
		m = append(m, r)
	}
	return m
}

// alone returns the uids that a line maps without others. An account without privileges can map only its own uid.
// Maps that root makes have ranges: those of processes without a user namespace of their own, and those of Docker's
// userns-remap.
func (m uidMap) alone() (uids []string) {
	for _, r := range m {
		if r.count == 1 {
			uids = append(uids, strconv.FormatInt(r.outside, 10))
		}
	}
	return uids
}

// maps reports whether a line other than that of the host itself maps this uid.
func (m uidMap) maps(uid int64) bool {
	for _, r := range m {
		if uid >= r.outside && uid-r.outside < r.count && (r.inside != 0 || r.outside != 0) {
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
