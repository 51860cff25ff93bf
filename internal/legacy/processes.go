package legacy

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/snapshot"
)

// lstartLayout is the time format of ps, in the node's zone.
const lstartLayout = "Jan 2 15:04:05 2006"

// oldest limits the age of a process.
const oldest = 10 * 365 * 24 * time.Hour

// owner is the user and the start of a process according to ps.
type owner struct {
	user    string
	started *snapshot.Time
}

// processes reads HOST_processes.csv (moment, uuid, memory (MiB), program, pid)
// with HOST_users.csv. A line counts if it has the newest time of the file and is not much
// older than the newest line of a GPU: after the last process has ended, the file keeps
// its lines.
func (r *reader) processes(files map[string][]byte, s *snapshot.Snapshot) []snapshot.Process {
	index := map[string]int{}
	for i, g := range s.GPUs {
		if g.UUID != "" {
			index[g.UUID] = g.Index
		} else {
			s.GPUs[i].ProcessesUnknown = "it has no UUID" // with which lines of processes name a GPU
		}
	}
	raw, there := files[processesFile]
	if !there {
		r.problem("legacy:processes", processesFile, 0, "it is not there: who uses these GPUs is not known")
		return nil
	}
	owners, children, asked := r.owners(files, s)
	type row struct {
		at time.Time
		p  snapshot.Process
	}
	var rows []row
	var newest time.Time
	r.table(processesFile, raw, 3, 1, func(f []string) bool {
		if f == nil {
			hide(s, "")
			return false
		}
		at, ok := r.local(stampLayout, f[0])
		pid, err := strconv.Atoi(f[4])
		if !ok || err != nil || pid <= 0 || pid > 1<<30 {
			if !ok || s.CollectedAt.Sub(at) <= processAge {
				hide(s, f[1])
			}
			return false
		}
		gpu, known := index[f[1]]
		if !known {
			return true // the GPU is gone, or its line is missing
		}
		if at.After(newest) {
			newest = at
		}
		rows = append(rows,
			row{at,
				snapshot.Process{GPU: gpu, GPUUUID: f[1], PID: pid, Type: snapshot.Compute, Program: program(f[3]),
					UsedMemory: reading[int64](f[2])}})
		return true
	})
	slices.SortStableFunc(rows, func(a, b row) int { return b.at.Compare(a.at) })
	type key struct{ gpu, pid int }
	taken := map[key]bool{}
	list := []snapshot.Process{}
	for _, row := range rows {
		p := row.p
		k := key{p.GPU, p.PID}
		if taken[k] || newest.Sub(row.at) > processGap || s.CollectedAt.Sub(row.at) > processAge {
			continue
		}
		taken[k] = true
		if asked {
			who, alive := owners[p.PID]
			p.Alive, p.User, p.StartedAt = &alive, who.user, who.started
			if !alive {
				for _, child := range children[p.PID] {
					if c, lives := owners[child]; lives && child != p.PID && len(p.Children) < snapshot.MaxChildren {
						p.Children = append(p.Children, snapshot.Child{PID: child, User: c.user})
					}
				}
			}
		}
		list = append(list, p)
	}
	slices.SortFunc(list,
		func(a, b snapshot.Process) int { return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.PID, b.PID)) })
	return list
}

// hide marks the processes of the GPU with this UUID as unknown, or those of all GPUs if
// there is no such GPU.
func hide(s *snapshot.Snapshot, uuid string) {
	of := func(g snapshot.GPU) bool { return uuid != "" && g.UUID == uuid }
	any := !slices.ContainsFunc(s.GPUs, of)
	for i := range s.GPUs {
		if any || of(s.GPUs[i]) {
			s.GPUs[i].ProcessesUnknown = "a line could not be understood"
		}
	}
}

// program returns the base name of a process_name, without the arguments that some drivers
// add.
func program(name string) string {
	name, _, _ = strings.Cut(text(name), " ")
	if name == "" {
		return ""
	}
	return path.Base(name)
}

// owners reads HOST_users.csv: a line of JSON with the pids that are below each
// GPU process (by parent or process group), then lines of ps: pid, user, start. asked is
// false if there is no output of ps, so that no process counts as dead.
func (r *reader) owners(
	files map[string][]byte, s *snapshot.Snapshot,
) (owners map[int]owner, children map[int][]int, asked bool) {
	owners, children = map[int]owner{}, map[int][]int{}
	raw, there := files[usersFile]
	if !there {
		r.problem("legacy:users", usersFile, 0, "it is not there: whose processes these are is not known")
		return owners, children, false
	}
	list := lines(raw)
	if len(list) == 0 {
		r.problem("legacy:users", usersFile, 0, "it is empty: whose processes these are is not known")
		return owners, children, false
	}
	var bad []int
	for i, line := range list {
		f := strings.Fields(line)
		switch {
		case i == 0 && strings.HasPrefix(strings.TrimSpace(line), "{"):
			if !readChildren(line, children) {
				bad = append(bad, 1)
			}
			continue
		case len(f) == 0 || f[0] == "PID":
			continue
		}
		pid, err := strconv.Atoi(f[0])
		if err != nil || pid <= 0 || len(f) < 2 {
			bad = append(bad, i+1)
			continue
		}
		who := owner{user: f[1]}
		if len(f) >= 7 {
			// Without the day of the week.
			if at, ok := r.local(lstartLayout, strings.Join(f[3:7], " ")); ok {
				age := s.CollectedAt.Sub(at)
				boot := oldest
				if up := s.Node.UptimeSeconds; up != nil && *up < int64(oldest/time.Second) {
					boot = time.Duration(*up)*time.Second + 2*time.Hour // the clock may have been set since
				}
				// An impossible start is ignored, because the node's zone may be wrong.
				if age >= -processGap && age <= boot {
					who.started = new(snapshot.TimeOf(at))
				}
			}
		}
		owners[pid] = who
	}
	r.unusable(usersFile, bad)
	return owners, children, true
}

func readChildren(line string, into map[int][]int) bool {
	var doc map[string][]json.Number
	if err := json.Unmarshal([]byte(line), &doc); err != nil {
		return false
	}
	for parent, list := range doc {
		pid, err := strconv.Atoi(parent)
		if err != nil {
			continue
		}
		for _, n := range list {
			if child, err := strconv.Atoi(n.String()); err == nil && child > 0 {
				into[pid] = append(into[pid], child)
			}
		}
		slices.Sort(into[pid])
		into[pid] = slices.Compact(into[pid])
	}
	return true
}
