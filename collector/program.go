package collector

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"gpuboard/collector/ps"
	"gpuboard/internal/snapshot"
)

// maxNamed is how many processes have their arguments looked at in one reading.
const maxNamed = 512

// programs names the living processes and the children of the dead after their
// own list of arguments, in which an argument's end is known, as it is not in
// a line of ps. up is how long the node had been up when ps was started: under
// the pid of a process that is younger, ps may have seen another one.
func programs(procRoot string, list []snapshot.Process, up time.Duration) {
	names := map[int]string{}
	rename := func(pid int, program *string) {
		name, known := names[pid]
		if !known && len(names) < maxNamed {
			name = programOf(procRoot, pid, up)
			names[pid] = name
		}
		if name != "" {
			*program = name
		}
	}
	for i := range list {
		p := &list[i]
		if p.Alive != nil && *p.Alive {
			rename(p.PID, &p.Program)
		}
		for k := range p.Children {
			rename(p.Children[k].PID, &p.Children[k].Program)
		}
	}
}

// programOf returns "" where the arguments cannot be read, or may be those of
// another process. The folder is opened once, so that both files are of one process.
func programOf(procRoot string, pid int, up time.Duration) string {
	dir, err := os.OpenRoot(filepath.Join(procRoot, strconv.Itoa(pid)))
	if err != nil {
		return ""
	}
	defer dir.Close()
	_, ticks, ok := parseStat(readIn(dir, "stat", maxStatBytes))
	// A start is told in whole ticks, rounded down.
	if !ok || ticks > 1<<50 || time.Duration(ticks+1)*(time.Second/ticksPerSecond) > up {
		return ""
	}
	return ps.Program(readIn(dir, "cmdline", ps.MaxCommandLineBytes))
}

const maxStatBytes = 4 << 10

// readIn returns the beginning of a file, nil when it cannot be read.
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
