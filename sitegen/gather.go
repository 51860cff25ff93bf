package sitegen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/legacy"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/sitegen/render"
)

// Drops is where snapshots arrive, as far as a generation needs it.
type Drops interface {
	Hosts() ([]string, []snapshot.Problem)
	Latest(host string) (*snapshot.Bundle, []byte, error)
	Hours(host string) ([]spool.HourFile, []snapshot.Problem)
	ReadHour(spool.HourFile) (*snapshot.Hour, error)
	Sweep(host string, now, clock time.Time) (spool.Usage, error)
}

// gather reads everything that a board is made from. Only what makes a board
// impossible is an error; the rest are problems on it.
func (g *Generator) gather(ctx context.Context, now time.Time, mem *memory) (in board.Input, err error) {
	in = board.Input{Now: now, Interval: g.opt.About.Interval, Settings: g.opt.Settings, Demo: g.opt.Demo, Marks: mem.Marks, Problems: mem.problems}
	if g.drops == nil {
		d, err := spool.OpenDrops(g.opt.Data)
		if err != nil {
			return in, fmt.Errorf("opening the drops: %w", err)
		}
		g.drops = d
	}
	inv := g.opt.Inventory(ctx, now)
	in.Hosts = inv.Hosts
	in.Problems = append(in.Problems, inv.Problems...)
	if inv.AsOf.Before(now.Add(-time.Minute)) {
		in.InventoryAsOf = inv.AsOf
	}

	aliases, _, problems := g.people()
	in.Problems = append(in.Problems, problems...)
	in.Person = aliases.Canonical
	in.Calendar, err = booking.Load(g.opt.Comments, g.opt.State, g.opt.BookingZone, booking.Options{Aliases: aliases, Now: now, DayStarts: g.opt.DayStarts})
	if err != nil {
		in.Problems = append(in.Problems, snapshot.Problem{Code: "state:unwritable", Message: atomicfile.WithCommand(err)})
	}

	names := make([]string, 0, len(in.Hosts))
	for _, h := range in.Hosts {
		names = append(names, h.Name)
	}
	older, problems := g.older(now)
	in.Problems = append(in.Problems, problems...)
	in.Reports = g.reports(ctx, names, now, mem, older)
	return in, ctx.Err()
}

// reports reads the drops of these hosts, several at a time. A drop that
// cannot be read affects its own host alone.
func (g *Generator) reports(ctx context.Context, names []string, now time.Time, mem *memory, older map[string]legacy.Host) map[string]board.Report {
	reports := make(map[string]board.Report, len(names))
	var mu sync.Mutex
	_ = render.InParallel(len(names), func(i int) error { // gather says that ctx has ended
		r := g.report(names[i], now, mem, older)
		mu.Lock()
		defer mu.Unlock()
		reports[names[i]] = r
		return ctx.Err()
	})
	return reports
}

// report reads one drop. When its content is no good, the last good snapshot
// stands in, which ages as it should. A host without a drop may be one of the
// older scripts'.
func (g *Generator) report(name string, now time.Time, mem *memory, older map[string]legacy.Host) (r board.Report) {
	defer func() {
		if fault := recover(); fault != nil {
			// A defect of gpuboard that the data of one host triggers must not end the generation.
			r.Problems = append(r.Problems, snapshot.Problem{Code: "bad:internal", Message: fmt.Sprintf("reading it failed inside gpuboard: %v", fault)})
		}
	}()
	bundle, raw, err := g.drops.Latest(name)
	switch {
	case err == nil:
		if replay := mem.accept(name, bundle, now, now.Add(g.opt.Settings.ClockTolerance)); replay != nil {
			r.Problems = append(r.Problems, *replay)
			if r.Snapshot = mem.lastGood(name); r.Snapshot != nil {
				r.SeenAt = mem.seenAt(name)
				break
			}
		}
		r.Snapshot = bundle.Snapshot
		r.SeenAt = mem.see(name, bundle.Snapshot, now)
		mem.keep(name, bundle, raw)
	case errors.Is(err, fs.ErrNotExist):
		if old, there := older[name]; there {
			return olderReport(old, now, mem)
		}
		r.Snapshot = mem.lastGood(name)
	default:
		r.Snapshot = mem.lastGood(name)
		r.Problems = []snapshot.Problem{{Code: code(err), Message: err.Error()}}
	}
	if twins := mem.twins(name, now); twins != nil {
		r.Problems = append(r.Problems, *twins)
	}
	return r
}

// code is the reason code of a drop that cannot be read.
func code(err error) string {
	if c := snapshot.CodeOf(err); c != "" {
		return c
	}
	return "bad:unreadable"
}
