package collector

import (
	"time"

	"gpuboard/collector/ps"
	"gpuboard/internal/snapshot"
)

// startTolerance is by how much the start of a process may differ between two readings,
// because ps has a resolution of one second.
const startTolerance = 2 * time.Second

// An attribution joins the processes of nvidia-smi with those of ps.
type attribution struct {
	// table is the output of ps; nil when ps failed.
	table []ps.Process
	// partial is true when the table may lack living processes.
	partial bool
	// smiStarted and psStarted are when the two programs were started.
	smiStarted, psStarted time.Time
	// exists reports whether the kernel knows a pid that the table lacks: with hidepid on
	// /proc, ps does not see processes of other users. Nil for false.
	exists func(pid int) bool
	// began returns the exact start of a process, if it is known.
	began func(pid int) (time.Time, bool)
	// known has the starts of the previous reading, by pid.
	known map[int]start
}

type start struct {
	uid int64
	at  time.Time
}

// apply sets owner, start and Alive of every process, and the living children
// of those that are gone. It returns the number of processes that exist and that ps does
// not show.
func (a attribution) apply(list []snapshot.Process) (unseen int) {
	if a.table == nil {
		return 0
	}
	byPID := make(map[int]*ps.Process, len(a.table))
	for i := range a.table {
		byPID[a.table[i].PID] = &a.table[i]
	}
	gone := map[int][]snapshot.Child{}
	for i := range list {
		p := &list[i]
		entry := byPID[p.PID]
		if entry == nil && a.partial {
			continue // it may be in the rest of the table
		}
		if entry == nil && a.exists != nil && a.exists(p.PID) {
			unseen++
			continue
		}
		a.process(p, entry)
		// If the pid was reused, the children are those of the new process.
		if entry == nil || entry.Zombie() {
			gone[p.PID] = nil
		}
	}
	if len(gone) > 0 {
		a.children(gone)
		for i := range list {
			list[i].Children = gone[list[i].PID]
		}
	}
	return unseen
}

// process sets the fields of one process. entry is the line of ps for its pid.
func (a attribution) process(p *snapshot.Process, entry *ps.Process) {
	switch {
	case entry == nil:
		p.Alive = new(false)
	case entry.Zombie():
		// A zombie has an owner, and a parent that can reap it.
		p.Alive, p.User, p.UID = new(false), entry.User, &entry.UID
	default:
		later, known := a.startedLater(entry)
		if !known {
			return // until the next reading
		}
		p.Alive = new(!later) // else the pid was reused
		if !later {
			p.User, p.UID = entry.User, &entry.UID
			p.StartedAt = a.startedAt(entry)
		}
	}
}

// startedLater reports whether a process started after nvidia-smi was run, so that its
// pid belonged to another process then. If the whole seconds of ps do not decide, the
// exact start does.
func (a attribution) startedLater(entry *ps.Process) (later, known bool) {
	latest, ok := a.latestStart(entry)
	if ok && !latest.After(a.smiStarted) {
		return false, true
	}
	if a.began != nil {
		if at, ok := a.began(entry.PID); ok {
			// Both clocks have a resolution of 10 ms; a start in the same tick counts as before.
			return at.After(a.smiStarted.Add(20 * time.Millisecond)), true
		}
	}
	later = ok && latest.Add(-time.Second).After(a.smiStarted)
	return later, later
}

// latestStart returns the latest time at which a process can have started according to
// ps, if that is known.
func (a attribution) latestStart(entry *ps.Process) (latest time.Time, ok bool) {
	if entry.Elapsed < 0 {
		return time.Time{}, false
	}
	return a.psStarted.Add(-time.Duration(entry.Elapsed) * time.Second), true
}

// startedAt returns when a process started; nil if that is not known.
func (a attribution) startedAt(entry *ps.Process) *snapshot.Time {
	at, ok := a.latestStart(entry)
	if !ok && a.began != nil {
		at, ok = a.began(entry.PID)
	}
	if !ok {
		return nil
	}
	at = at.UTC().Truncate(time.Second)
	if before, ok := a.known[entry.PID]; ok && before.uid == entry.UID && before.at.Sub(at).Abs() <= startTolerance {
		at = before.at
	}
	return &snapshot.Time{Time: at}
}

// children finds, for every pid that is gone, the living processes of which it is the
// parent or the process group.
func (a attribution) children(gone map[int][]snapshot.Child) {
	for i := range a.table {
		p := &a.table[i]
		if p.Zombie() {
			continue
		}
		for k, pid := range [2]int{p.PPID, p.PGID} {
			list, ok := gone[pid]
			if !ok || p.PID == pid || k == 1 && p.PPID == p.PGID || len(list) >= snapshot.MaxChildren {
				continue
			}
			gone[pid] = append(list, snapshot.Child{PID: p.PID, User: p.User})
		}
	}
}

// starts returns the starts of processes for the next reading.
func starts(list []snapshot.Process) map[int]start {
	known := make(map[int]start, len(list))
	for _, p := range list {
		if p.StartedAt != nil && p.UID != nil {
			known[p.PID] = start{uid: *p.UID, at: p.StartedAt.Time}
		}
	}
	return known
}
