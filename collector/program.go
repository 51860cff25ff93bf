package collector

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"gpuboard/collector/ps"
	"gpuboard/internal/snapshot"
)

// maxLookups limits how many processes are looked up in /proc for one purpose per reading.
const maxLookups = 512

// perPID returns look for one lookup of each pid, and the zero value past the limit: a
// process may be on several GPUs.
func perPID[T any](look func(pid int) T) func(pid int) T {
	found := map[int]T{}
	return func(pid int) T {
		v, known := found[pid]
		if !known && len(found) < maxLookups {
			v = look(pid)
			found[pid] = v
		}
		return v
	}
}

// programs sets the program of living processes, and of children of dead ones, from
// /proc/PID/cmdline. up is the uptime when ps was started: a process that is younger may
// not be the one that ps saw.
func programs(procRoot string, list []snapshot.Process, up time.Duration) {
	name := perPID(func(pid int) string { return programOf(procRoot, pid, up) })
	for i := range list {
		p := &list[i]
		if p.Alive != nil && *p.Alive {
			p.Program = cmp.Or(name(p.PID), p.Program)
		}
		for k := range p.Children {
			p.Children[k].Program = cmp.Or(name(p.Children[k].PID), p.Children[k].Program)
		}
	}
}

// programOf returns "" if the arguments cannot be read or may be those of another
// process. The directory is opened once, so that both files belong to one process.
func programOf(procRoot string, pid int, up time.Duration) string {
	dir, err := os.OpenRoot(filepath.Join(procRoot, strconv.Itoa(pid)))
	if err != nil {
		return ""
	}
	defer dir.Close()
	_, ticks, ok := parseStat(readIn(dir, "stat", maxStatBytes))
	// The start is in whole ticks, rounded down.
	if !ok || ticks > 1<<50 || time.Duration(ticks+1)*(time.Second/ticksPerSecond) > up {
		return ""
	}
	return ps.Program(readIn(dir, "cmdline", ps.MaxCommandLineBytes))
}

const maxStatBytes = 4 << 10

// readIn returns the beginning of a file; nil if it cannot be read.
func readIn(dir *os.Root, name string, limit int64) []byte {
	f, err := dir.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil
	}
	return text
}
