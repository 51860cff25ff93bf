package sitegen

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"time"

	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
)

// lookEvery is how often a drop is looked through for finished hours. They only
// matter after an outage, so each host is looked at every few minutes.
const lookEvery = 5 * time.Minute

// openHistory opens history if that is still to be done. A disk that was full or
// a database that was held may be well by now, so it is tried every time.
func (g *Generator) openHistory(ctx context.Context, now time.Time) []snapshot.Problem {
	if g.opt.History != nil || g.opt.OpenHistory == nil {
		return nil
	}
	store, err := g.opt.OpenHistory(ctx, now)
	switch {
	case errors.Is(err, history.ErrNoSpace):
		return []snapshot.Problem{{Code: "history:nospace", Message: err.Error()}}
	case err != nil:
		return []snapshot.Problem{{Code: "history:unreadable", Message: err.Error()}}
	}
	g.opt.History, g.opened = store, store
	return nil
}

// ingest gives history what arrived and asks it what the board shows. History may
// be missing, new or damaged: the board of now does not depend on it.
func (g *Generator) ingest(ctx context.Context, now time.Time, hosts []string, mem *memory) (*history.Recent, []snapshot.Problem) {
	if g.opt.History == nil || g.drops == nil {
		return nil, nil
	}
	var batches []history.Batch
	var problems []snapshot.Problem
	taken := map[string][]string{} // by host, the names of hours among the batches
	for _, host := range hosts {
		if b := mem.good[host]; b.Bundle != nil && len(b.Samples) > 0 {
			batches = append(batches, history.Batch{Host: host, Boot: b.BootID, Samples: b.Samples})
		}
		more, names, bad := g.finishedHours(host, now, mem)
		batches = append(batches, more...)
		problems = append(problems, bad...)
		taken[host] = names
	}
	problems = append(problems, g.opt.History.Problems(now)...)
	if _, err := g.opt.History.IngestAll(ctx, now, batches); err != nil {
		problems = append(problems, snapshot.Problem{Code: historyCode(err), Message: err.Error()})
	} else {
		for host, names := range taken {
			for _, name := range names {
				mem.Hours[host].Taken[name] = true
			}
		}
	}
	recent, err := g.opt.History.Recent(ctx, now, g.opt.IdleWindow, g.opt.IdlePercent)
	if err != nil {
		problems = append(problems, snapshot.Problem{Code: "history:unreadable", Message: err.Error()})
	}
	return recent, problems
}

func historyCode(err error) string {
	switch {
	case errors.Is(err, history.ErrNoSpace):
		return "history:nospace"
	case errors.Is(err, history.ErrRebuilt):
		return "history:rebuilt"
	default:
		return "history:unwritable"
	}
}

// finishedHours reads the hour files of a host that history has not taken in
// yet, once in each of its periods. The content of a file never changes, so one
// that is invalid is reported once and counts as taken in.
func (g *Generator) finishedHours(host string, now time.Time, mem *memory) (batches []history.Batch, names []string, problems []snapshot.Problem) {
	h := mem.Hours[host]
	if h == nil {
		h = &hours{Taken: map[string]bool{}}
		mem.Hours[host] = h
	}
	if dropPeriod(host, now) == dropPeriod(host, h.Looked) {
		return nil, nil, nil
	}
	h.Looked = now
	files, _ := g.drops.Hours(host) // files that are no hour files are ignored
	there := map[string]bool{}
	for _, f := range files {
		there[f.Name] = true
		if h.Taken[f.Name] {
			continue
		}
		hour, err := g.drops.ReadHour(f)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // replaced or removed since it was listed
		case err != nil:
			problems = append(problems, snapshot.Problem{Code: code(err), Host: host, File: f.Name, Message: fmt.Sprintf("a finished hour is left out: %v", err)})
			if spool.Passing(err) {
				continue
			}
		default:
			batches = append(batches, history.Batch{Host: host, Boot: hour.BootID, Samples: hour.Samples})
		}
		names = append(names, f.Name)
	}
	for name := range h.Taken {
		if !there[name] {
			delete(h.Taken, name) // gone from the drop, by its age
		}
	}
	return batches, names, problems
}

// dropPeriod numbers the spans of lookEvery, shifted for each host so that not all
// drops are looked through in the same generation.
func dropPeriod(host string, at time.Time) int64 {
	hash := fnv.New32a()
	hash.Write([]byte(host))
	return (at.Unix() + int64(hash.Sum32()%uint32(lookEvery/time.Second))) / int64(lookEvery/time.Second)
}
