package collector

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"gpuboard/internal/snapshot"
)

// maxArguments limits how much of a process's arguments is searched. It is the longest
// single argument that the kernel accepts.
const maxArguments = 128 << 10

// checkForgedNames looks for processes whose name contains output of nvidia-smi. Such a
// name can add processes that a parser cannot tell from real ones, so the processes of
// that GPU count as unknown.
func checkForgedNames(procRoot string, s *snapshot.Snapshot) {
	forges := perPID(func(pid int) bool { return nameContains(procRoot, pid, "</process_name>") })
	for _, p := range s.Processes {
		if !forges(p.PID) {
			continue
		}
		for i := range s.GPUs {
			g := &s.GPUs[i]
			if g.Index != p.GPU || g.ProcessesUnknown != "" {
				continue
			}
			g.ProcessesUnknown = "the name of a process holds a part of nvidia-smi's output"
			found := snapshot.NewProblem("smi:process-name",
				"pid %d on GPU %d is named like a part of nvidia-smi's output: its other processes are unknown", p.PID, g.Index)
			found.GPU = new(g.Index)
			s.Errors = append(s.Errors, found)
		}
	}
}

// nameContains reports whether the arguments or the path of a process contain a text.
func nameContains(procRoot string, pid int, text string) bool {
	dir, err := os.OpenRoot(filepath.Join(procRoot, strconv.Itoa(pid)))
	if err != nil {
		return false
	}
	defer dir.Close()
	exe, _ := dir.Readlink("exe")
	return bytes.Contains(readIn(dir, "cmdline", maxArguments), []byte(text)) ||
		bytes.Contains([]byte(exe), []byte(text))
}
