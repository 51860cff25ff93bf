package sitegen

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
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
		return []snapshot.Problem{{Code: "history:unreadable", Message: atomicfile.WithCommand(err)}}
	}
	g.opt.History, g.opened = store, store
	return nil
}

// ingest gives history what arrived and asks it what the board shows. elsewhere is the GPUs of each host
// that count at another one. History may be missing, new or damaged: the board of now does not depend on it.
func (g *Generator) ingest(
	ctx context.Context, now time.Time, hosts []inventory.Host, elsewhere map[string]map[string]bool, mem *memory,
) (*history.Recent, []snapshot.Problem) {
	if g.opt.History == nil {
		return nil, nil
	}
	if began := g.opt.History.Created(); !began.Equal(mem.HistoryBegan) {
		// It knows nothing of the hours that another one took in.
		mem.HistoryBegan, mem.Hours = began, map[string]*hours{}
	}
	in := intake{history: g.opt.History, mem: mem, elsewhere: elsewhere}
	for _, h := range hosts {
		if b := mem.good[h.Name]; b.Bundle != nil && len(b.Samples) > 0 {
			in.batch(h.Name, b.BootID, b.Samples, false)
		}
	}
	problems := g.opt.History.Problems(now)
	for _, h := range hosts {
		problems = append(problems, g.finishedHours(h.Name, now, mem, func(name string, hour *snapshot.Hour) {
			in.add(ctx, now, h.Name, name, hour)
		})...)
	}
	in.give(ctx, now)
	problems = append(problems, in.problems...)
	recent, err := g.opt.History.Recent(ctx, now, g.opt.Settings.IdleWindow, g.opt.IdlePercent)
	if err != nil {
		problems = append(problems, snapshot.Problem{Code: "history:unreadable", Message: err.Error()})
	}
	return recent, problems
}

// maxReadings is how many readings of finished hours are in memory at once. A node can pack a
// quarter of a million of them, which are 40 MB, into a file of 3 KB.
const maxReadings = 1 << 19

// An intake gives samples to history, those of many finished hours in several calls.
type intake struct {
	history   *history.Store
	mem       *memory
	elsewhere map[string]map[string]bool
	batches   []history.Batch
	hours     []hourName // among the batches, or without content
	readings  int        // of them
	problems  []snapshot.Problem
}

func (in *intake) batch(host, boot string, samples []snapshot.Sample, whole bool) {
	in.batches = append(in.batches, history.Batch{
		Host: host, Boot: boot, Samples: samples, Elsewhere: in.elsewhere[host], Whole: whole,
	})
}

// hourName is the file of a finished hour.
type hourName struct{ host, name string }

// add takes a finished hour; nil is one without content.
func (in *intake) add(ctx context.Context, now time.Time, host, name string, hour *snapshot.Hour) {
	in.hours = append(in.hours, hourName{host, name})
	if hour == nil {
		return
	}
	in.batch(host, hour.BootID, hour.Samples, true)
	for i := range hour.Samples {
		in.readings += len(hour.Samples[i].GPUs)
	}
	if in.readings >= maxReadings {
		in.give(ctx, now)
	}
}

// give hands over what there is, and remembers the hours that history has taken in.
func (in *intake) give(ctx context.Context, now time.Time) {
	if err := in.history.IngestAll(ctx, now, in.batches); err != nil {
		in.problems = []snapshot.Problem{{Code: historyCode(err), Message: err.Error()}}
	} else {
		for _, h := range in.hours {
			in.mem.Hours[h.host].Taken[h.name] = true
		}
	}
	in.batches, in.hours, in.readings = nil, nil, 0
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

// finishedHours passes on the hour files of a host that history has not taken in
// yet, once in each of its periods. The content of a file never changes, so one
// that is invalid is reported once and counts as taken in, with nil for its content.
func (g *Generator) finishedHours(
	host string, now time.Time, mem *memory, take func(name string, hour *snapshot.Hour),
) (problems []snapshot.Problem) {
	h := mem.Hours[host]
	if h == nil {
		h = &hours{Taken: map[string]bool{}}
		mem.Hours[host] = h
	}
	if dropPeriod(host, now) == dropPeriod(host, h.Looked) {
		return nil
	}
	h.Looked = now
	files := g.drops.Hours(host)
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
			problems = append(problems, snapshot.Problem{
				Code: code(err), Host: host, File: f.Name, Message: fmt.Sprintf("a finished hour is left out: %v", err),
			})
			if spool.Passing(err) {
				continue
			}
		}
		take(f.Name, hour)
	}
	for name := range h.Taken {
		if !there[name] {
			delete(h.Taken, name) // gone from the drop, by its age
		}
	}
	return problems
}

// dropPeriod numbers the spans of lookEvery, shifted for each host so that not all
// drops are looked through in the same generation.
func dropPeriod(host string, at time.Time) int64 {
	hash := fnv.New32a()
	hash.Write([]byte(host))
	return (at.Unix() + int64(hash.Sum32()%uint32(lookEvery/time.Second))) / int64(lookEvery/time.Second)
}
