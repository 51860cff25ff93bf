package sitegen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/inventory"
	"gpuboard/internal/legacy"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/sitegen/render"
)

// Drops is where snapshots arrive, as far as a generation needs it.
type Drops interface {
	Hosts() ([]string, []snapshot.Problem)
	Latest(host string) (*snapshot.Bundle, []byte, error)
	Hours(host string) []spool.HourFile
	ReadHour(spool.HourFile) (*snapshot.Hour, error)
	Sweep(host string, now, clock time.Time) (spool.Usage, error)
}

// gather reads everything that a board is made from. Only what makes a board
// impossible is an error; the rest are problems on it.
func (g *Generator) gather(ctx context.Context, now time.Time, mem *memory) (in board.Input, err error) {
	in = board.Input{
		Now: now, Interval: g.opt.About.Interval, Next: g.next, Settings: g.opt.Settings, Demo: g.opt.Demo,
		Marks: mem.Marks, Problems: mem.problems, ID: g.id(),
	}
	if g.drops == nil {
		d, err := spool.OpenDrops(g.opt.Data)
		if err != nil {
			return in, fmt.Errorf("opening the drops: %w", err)
		}
		g.drops = d
	}
	inv := g.opt.Inventory(ctx, now, mem.Hosts)
	in.Hosts, mem.Hosts = inv.Hosts, inv.Known
	var ofHosts []snapshot.Problem // that are shown with their hosts
	for _, p := range inv.Problems {
		if strings.HasPrefix(p.Code, "pull:") {
			ofHosts = append(ofHosts, p)
		} else {
			in.Problems = append(in.Problems, p)
		}
	}
	if inv.AsOf.Before(now.Add(-time.Minute)) {
		in.InventoryAsOf = inv.AsOf
	}

	aliases, _, problems := g.people()
	in.Problems = append(in.Problems, problems...)
	in.Person = aliases.Canonical
	options := booking.Options{Aliases: aliases, Now: now}
	var reading sync.WaitGroup
	var unkept error
	if g.opt.Sites != nil && !g.readOnly {
		reading.Go(func() { mem.Sites = g.opt.Sites(ctx, now, mem.Sites) })
	}
	reading.Go(func() { // while the drops are read: a file of thousands of bookings takes as long as they do
		if g.readOnly {
			in.Calendar = g.opt.Bookings.Load(options)
		} else {
			in.Calendar, unkept = booking.Load(g.opt.Comments, g.opt.State, g.opt.BookingZone, options)
		}
	})
	older, problems := g.older(now)
	in.Reports = g.reports(ctx, in.Hosts, now, mem, older)
	for _, p := range ofHosts {
		report := in.Reports[p.Host]
		report.Problems = append(report.Problems, p)
		in.Reports[p.Host] = report
	}
	reading.Wait()
	in.Sites = mem.Sites
	if unkept != nil {
		in.Problems = append(in.Problems,
			snapshot.Problem{Code: "state:unwritable", Message: atomicfile.WithCommand(unkept)})
	}
	in.Problems = slices.Concat(in.Problems, g.zoneChange(mem, options), problems)
	return in, ctx.Err()
}

// reports reads the drops of these hosts, several at a time. A drop that
// cannot be read affects its own host alone.
func (g *Generator) reports(
	ctx context.Context, hosts []inventory.Host, now time.Time, mem *memory, older map[string]legacy.Host,
) map[string]board.Report {
	reports := make(map[string]board.Report, len(hosts))
	var mu sync.Mutex
	_ = render.InParallel(len(hosts), func(i int) error { // gather says that ctx has ended
		r := g.report(hosts[i].Name, now, mem, older)
		mu.Lock()
		defer mu.Unlock()
		reports[hosts[i].Name] = r
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
			r.Problems = append(r.Problems, snapshot.Problem{
				Code: "bad:internal", Message: fmt.Sprintf("reading it failed inside gpuboard: %v", fault),
			})
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

// zoneChange reports that another zone of comments.json moves bookings, until none is moved any more. The file does
// not say which times are meant, so a person has to choose.
func (g *Generator) zoneChange(mem *memory, opts booking.Options) []snapshot.Problem {
	now := g.opt.BookingZone.Location
	if mem.BookingZone == "" {
		mem.BookingZone = now.String()
	}
	if mem.BookingZone == now.String() {
		return nil
	}
	was, err := time.LoadLocation(mem.BookingZone)
	if err != nil {
		return nil
	}
	moves, err := booking.Open(g.opt.Comments, g.opt.BookingZone).Moved(was, opts)
	if err != nil {
		return nil // the file is broken, and the calendar says so
	}
	if len(moves) == 0 {
		if !g.opt.Pretend {
			mem.BookingZone = now.String()
		}
		return nil
	}
	first := moves[0]
	message := fmt.Sprintf("times without an offset were read in %s before, and are read in %s now, "+
		"which moves %s, such as %s: %s before, and %s now. "+
		"If the times of before are meant: gpuboard bookings --keep times; "+
		"if the words in the file are meant: gpuboard bookings --keep words",
		was, now, board.Number(len(moves), "booking"), first.Now.Place(),
		booking.Describe(first.Was.From, first.Was.Until, opts.Now, was),
		booking.Describe(first.Now.From, first.Now.Until, opts.Now, now))
	return []snapshot.Problem{{
		Code: "booking:zone", File: filepath.Base(g.opt.Comments),
		Message: snapshot.Text(message, snapshot.MaxTextBytes),
	}}
}

// BookingZone returns the zone in which times without an offset in comments.json were last read without a doubt. It
// is kept in the state directory.
func BookingZone(state string) (*time.Location, error) {
	m := (&Generator{opt: Options{State: state}}).recall()
	if len(m.problems) > 0 || m.BookingZone == "" {
		return nil, fmt.Errorf("no zone of the bookings can be read in %s", filepath.Join(state, memoryFile))
	}
	return time.LoadLocation(m.BookingZone)
}
