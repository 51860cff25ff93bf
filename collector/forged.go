package collector

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"gpuboard/internal/snapshot"
)

// maxArguments is how much of a process's arguments is searched; the kernel
// takes no longer one.
const maxArguments = 128 << 10

// forgers looks for processes that are named like nvidia-smi's own output. Such
// a name, laid out as nvidia-smi does, adds processes to a list that no reader of
// it can tell from real ones, so the processes of their GPUs are not known.
func forgers(procRoot string, s *snapshot.Snapshot) {
	checked := map[int]bool{}
	for _, p := range s.Processes {
		forges, known := checked[p.PID]
		if !known && len(checked) < maxNamed {
			forges = named(procRoot, p.PID, "</process_name>")
			checked[p.PID] = forges
		}
		if !forges {
			continue
		}
		for i := range s.GPUs {
			g := &s.GPUs[i]
			if g.Index != p.GPU || g.ProcessesUnknown != "" {
				continue
			}
			index := g.Index
			g.ProcessesUnknown = "the name of a process holds a part of nvidia-smi's output"
			s.Errors = append(s.Errors, snapshot.Problem{Code: "smi:process-name", GPU: &index,
				Message: fmt.Sprintf("pid %d on GPU %d is named like a part of nvidia-smi's output: what else runs there is not known", p.PID, index)})
		}
	}
}

// named reports whether the arguments or the program's path of a process hold a text.
func named(procRoot string, pid int, text string) bool {
	dir, err := os.OpenRoot(filepath.Join(procRoot, strconv.Itoa(pid)))
	if err != nil {
		return false
	}
	defer dir.Close()
	exe, _ := dir.Readlink("exe")
	return bytes.Contains(readIn(dir, "cmdline", maxArguments), []byte(text)) || bytes.Contains([]byte(exe), []byte(text))
}
