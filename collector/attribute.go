package collector

import (
	"time"

	"gpuboard/collector/ps"
	"gpuboard/internal/snapshot"
)

// jitter is by how much the start of one process may seem to move between two
// readings: ps tells whole seconds only.
const jitter = 2 * time.Second

// An attribution joins what nvidia-smi says of processes to what ps says.
type attribution struct {
	// table is ps's; nil when ps could not be asked.
	table []ps.Process
	// partial is true when the table may lack processes that are alive.
	partial bool
	// asked is when nvidia-smi was started, looked when ps was.
	asked, looked time.Time
	// exists tells whether the kernel knows a pid that the table lacks: with
	// hidepid on /proc, ps does not see other people's processes. Nil for no.
	exists func(pid int) bool
	// began tells exactly when a process started, if that can be had.
	began func(pid int) (time.Time, bool)
	// known is what the reading before said of starts, by pid.
	known map[int]start
}

type start struct {
	uid int64
	at  time.Time
}

// apply fills in owner, program, start and life of every process, and the
// living children of those that are gone. It returns how many there are that
// ps does not show, although they exist.
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
			continue // it may be in the part that was not read
		}
		if entry == nil && a.exists != nil && a.exists(p.PID) {
			unseen++
			continue
		}
		a.one(p, entry)
		// Under a pid that was given out again, children are the new process's.
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

// one is the rule for a single process. entry is ps's line for its pid.
func (a attribution) one(p *snapshot.Process, entry *ps.Process) {
	alive := false
	switch {
	case entry == nil:
		p.Alive = &alive
	case entry.Zombie():
		// It still has an owner, and it still has a parent who could end it.
		p.Alive, p.User, p.UID = &alive, entry.User, &entry.UID
		if entry.Program != "" {
			p.Program = entry.Program
		}
	default:
		switch a.younger(entry) {
		case yes:
			p.Alive = &alive // the pid is somebody else's by now
		case no:
			alive = true
			p.Alive, p.User, p.UID = &alive, entry.User, &entry.UID
			if entry.Program != "" {
				p.Program = entry.Program
			}
			p.StartedAt = a.startedAt(entry)
		}
		// Otherwise nobody can tell; the next reading will.
	}
}

type answer int

const (
	no answer = iota
	yes
	perhaps
)

// younger tells whether a process started after nvidia-smi was asked, so that
// the one nvidia-smi saw under its pid is another. ps tells whole seconds, so
// where those leave it open the exact start decides.
func (a attribution) younger(entry *ps.Process) answer {
	latest, ok := a.latestStart(entry)
	earliest := latest.Add(-time.Second)
	if ok && !latest.After(a.asked) {
		return no
	}
	if a.began != nil {
		if at, ok := a.began(entry.PID); ok {
			// Both clocks tick in hundredths; a start in the same one counts as before.
			if at.After(a.asked.Add(20 * time.Millisecond)) {
				return yes
			}
			return no
		}
	}
	if ok && earliest.After(a.asked) {
		return yes
	}
	return perhaps
}

// latestStart is the latest moment at which a process can have started by what
// ps says of it, if that can be.
func (a attribution) latestStart(entry *ps.Process) (latest time.Time, ok bool) {
	if entry.Elapsed < 0 {
		return time.Time{}, false
	}
	return a.looked.Add(-time.Duration(entry.Elapsed) * time.Second), true
}

// startedAt is when a process started; nil when that cannot be told.
func (a attribution) startedAt(entry *ps.Process) *snapshot.Time {
	at, ok := a.latestStart(entry)
	if !ok && a.began != nil {
		at, ok = a.began(entry.PID)
	}
	if !ok {
		return nil
	}
	at = at.UTC().Truncate(time.Second)
	if before, ok := a.known[entry.PID]; ok && before.uid == entry.UID && before.at.Sub(at).Abs() <= jitter {
		at = before.at
	}
	return &snapshot.Time{Time: at}
}

// children finds, for every pid that is gone, the living processes that have it
// for a parent or for their group.
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
			gone[pid] = append(list, snapshot.Child{PID: p.PID, User: p.User, Program: p.Program})
		}
	}
}

// starts is what the next reading should know of this one.
func starts(list []snapshot.Process) map[int]start {
	known := make(map[int]start, len(list))
	for _, p := range list {
		if p.StartedAt != nil && p.UID != nil {
			known[p.PID] = start{uid: *p.UID, at: p.StartedAt.Time}
		}
	}
	return known
}
