// Package sitegen is one generation of the site: gather what the drops, the
// bookings and the inventory say, merge it into a board, render every file, and
// write those that changed.
package sitegen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// Options are what a Generator needs to know.
type Options struct {
	// Data, Site and State are the three directories: what comes in, what is
	// published, and what is remembered between two generations. Data must not
	// lie inside Site.
	Data, Site, State string
	// Drops is where snapshots are read from; nil for the directory drop below Data.
	Drops Drops
	// Comments and Aliases are files elsewhere than in Data; "" for
	// comments.json and aliases.csv there.
	Comments, Aliases string
	// Bookings is Comments as Look reads it, with another copy that may stand in for it than the one in State;
	// nil for that one.
	Bookings *booking.File
	// Templates is the directory of a site's own templates, "" for none.
	Templates string
	// Inventory answers which hosts should exist, given what the last answer knew.
	Inventory func(ctx context.Context, now time.Time, last inventory.Known) inventory.Inventory
	// Sites answers what is known of other boards, given what the last generation knew; nil for none.
	Sites func(ctx context.Context, now time.Time, last []board.Site) []board.Site
	// History is the store of samples, nil for none. Where it could not be opened
	// OpenHistory, when not nil, is called in each generation until it can; what it
	// opened is closed by [Generator.Close].
	History     *history.Store
	OpenHistory func(ctx context.Context, now time.Time) (*history.Store, error)
	// Settings are the numbers behind the states.
	Settings board.Settings
	// IdlePercent says when a GPU that is held counts as idle: its mean utilization over the window of the settings
	// is below. Default 5.
	IdlePercent float64
	// About is what the configuration says about the site itself.
	About render.Site
	// NoHelp leaves the documentation out of the site, and PublicHelp puts it into
	// the public one.
	NoHelp, PublicHelp bool
	// Demo marks every page as a demonstration.
	Demo bool
	// Privacy is how much of people the site shows. Its salt is made here.
	Privacy board.Privacy
	// Public is where a second site is written from the same generation, with
	// PublicPrivacy; "" for none.
	Public        string
	PublicPrivacy board.Privacy
	// Legacy is a directory that the older scripts write to: "" for Data, if
	// their files are in it, and NoLegacy for none. LegacyZone is where the times
	// in it are; nil for the site's zone.
	Legacy     string
	LegacyZone *time.Location
	// BookingZone is where the times in comments.json are; nil for the site's zone.
	BookingZone booking.Zone
	// CopyEvery is how often the site is copied to another place, or the public one if there is one; 0 for never.
	// By it, those who read it decide whether it is out of date.
	CopyEvery time.Duration
	// Announcer carries out what happened; nil for a feed and nothing else.
	Announcer Announcer
	// Pretend is for a generation at a moment that is not now: it finds no
	// events, remembers none and tells nobody.
	Pretend bool
	// Preview writes no site, and says in the report what would change there. The state directory is written as ever:
	// it should be a copy.
	Preview bool
}

// A Generator makes one generation after another.
type Generator struct {
	opt   Options
	drops Drops
	views []*view
	// opened is the history that this generator opened itself.
	opened *history.Store
	// fleet is the view of the fleet, which changes more slowly than the board; nil before it was read.
	fleet *fleetFile
	// readOnly means that nothing is written: see Look.
	readOnly bool
	// rendered is the HTML of the notes of the last generation, by their Markdown.
	rendered map[string]string
	// next is that of [Generator.Expect].
	next time.Duration
	// lost is what New found damaged. The next generation reports it.
	lost []snapshot.Problem
}

// ErrLocked is returned when another live generation holds the state directory.
var ErrLocked = errors.New("another generator is running")

// A Report is what one generation did.
type Report struct {
	Board *board.Board
	// Written, Same and Removed count the files of the site.
	Written, Same, Removed int
	// Changes are, of a preview, the files that would change: "add about/index.html", "change …", "remove …".
	Changes []string
}

// Degraded reports whether something that the site shows is not well.
func (r Report) Degraded() bool { return r.Board != nil && len(r.Board.Problems) > 0 }

// Look returns the board that a generation as of now would show, without history, and writes nothing. Without a
// state directory it remembers nothing.
func Look(ctx context.Context, o Options, now time.Time) (*board.Board, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if o.Bookings == nil {
		o.Bookings = booking.Open(o.Comments, o.BookingZone).WithCopy(o.State)
	}
	g := &Generator{opt: o, drops: o.Drops, readOnly: true}
	in, err := g.gather(ctx, now.Round(0), g.recall())
	if err != nil {
		return nil, err
	}
	b, _ := board.Merge(in)
	return b, nil
}

// complete makes paths absolute and sets defaults.
func (o *Options) complete() error {
	for _, dir := range []*string{&o.Data, &o.Site, &o.State, &o.Public} {
		if *dir == "" {
			continue
		}
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return fmt.Errorf("finding %s: %w", *dir, err)
		}
		*dir = abs
	}
	o.Comments = cmp.Or(o.Comments, filepath.Join(o.Data, "comments.json"))
	o.Aliases = cmp.Or(o.Aliases, filepath.Join(o.Data, "aliases.csv"))
	o.Settings = o.Settings.WithDefaults()
	if o.IdlePercent <= 0 {
		o.IdlePercent = 5
	}
	o.About = o.About.WithDefaults()
	o.BookingZone.Location = cmp.Or(o.BookingZone.Location, o.About.Zone)
	o.LegacyZone = cmp.Or(o.LegacyZone, o.About.Zone)
	return nil
}

// New makes the directories that are missing and refuses what can never work.
func New(o Options) (*Generator, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.State, 0o700); err != nil {
		return nil, fmt.Errorf("making the state directory: %w", err)
	}
	views, lost, err := newViews(&o)
	if err != nil {
		return nil, err
	}
	return &Generator{opt: o, drops: o.Drops, views: views, lost: lost}, nil
}

// Expect says how long after the beginning of each generation from now on the next one will be complete. Without it,
// that is an interval.
func (g *Generator) Expect(next time.Duration) { g.next = next }

// within reports whether path is dir or lies below it.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Generate makes one generation as of now. A host, a booking or a source that
// is not well is in the report's board. After an error from writing the site or the
// state, a part of the new files may be in place; any other error changes nothing.
func (g *Generator) Generate(ctx context.Context, now time.Time) (Report, error) {
	lock, err := g.lock()
	if err != nil {
		return Report{}, err
	}
	defer atomicfile.Unlock(lock)

	interrupted := begin(lock)
	now = now.Round(0) // what is remembered is of the clock on the wall, as in a file
	mem := g.recall()
	var unopened []snapshot.Problem
	var opening sync.WaitGroup
	opening.Go(func() { unopened = g.openHistory(ctx, now) }) // at the same time: both read megabytes
	in, err := g.gather(ctx, now, mem)
	opening.Wait()
	if err != nil {
		return Report{}, err
	}
	draft := board.NewDraft(in)
	recent, lost := g.ingest(ctx, now, in.Hosts, draft.Elsewhere(), mem)
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	b, marks := draft.Board(recent)
	b.Problems = append(b.Problems, lost...)
	b.Colors = board.ColorsOf(b, mem.Colors)
	if !g.opt.Pretend {
		mem.Colors = b.Colors
	}
	happened := g.news(b, now)
	past, problems := g.pageHistory(ctx, now, b, in.Who, mem)
	b.Problems = slices.Concat(b.Problems, g.lost, unopened, problems, g.sweep(now, mem, interrupted))
	report, err := g.publish(b, recent, past, mem.samples(), happened.Log)
	if err != nil {
		return Report{}, err
	}
	report.Board = b
	mem.Marks = marks
	if err := g.remember(mem, now); err != nil {
		return report, err
	}
	if err := g.rememberNews(happened); err != nil {
		return report, err
	}
	g.announce(ctx, b, now)
	g.lost = nil
	_ = lock.Truncate(0) // it ended; else the next one only sweeps more
	return report, nil
}

// begin marks in the lock file that a generation is in progress, and reports whether the
// last one did not end.
func begin(lock *os.File) (interrupted bool) {
	info, err := lock.Stat()
	_, _ = lock.WriteAt([]byte("in progress\n"), 0)
	return err == nil && info.Size() > 0
}

// lock makes this process the only one that changes the state directory.
func (g *Generator) lock() (*os.File, error) {
	lock, err := atomicfile.Lock(filepath.Join(g.opt.State, "generate.lock"), 0o600)
	if errors.Is(err, atomicfile.ErrLocked) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, fmt.Errorf("taking the lock: %w", err)
	}
	return lock, nil
}

// CopyState copies a state directory, if there is one. The error is [ErrLocked] while a generation changes it. Where
// this account may not write the lock, it copies without.
func CopyState(to, state string) error {
	if _, err := os.Stat(state); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := (&Generator{opt: Options{State: state}}).lock()
	if errors.Is(err, ErrLocked) {
		return err
	}
	if err == nil {
		defer atomicfile.Unlock(lock)
	}
	if err := os.CopyFS(to, os.DirFS(state)); err != nil {
		return fmt.Errorf("copying the state directory: %w", err)
	}
	return nil
}

// Close gives up what the generator keeps from one generation to the next. It
// closes the history that the generator opened, so that all of it lies in one
// file, and the next process has no journal to read. It returns what could not be carried out in the end.
func (g *Generator) Close() (problems []snapshot.Problem, err error) {
	if g.opt.Announcer != nil {
		problems = g.opt.Announcer.Close()
	}
	if g.opened != nil {
		err, g.opened = g.opened.Close(), nil
	}
	return problems, err
}

// maxMarkdownBytes bounds a notice or a note on a host.
const maxMarkdownBytes = 64 << 10

// markdown reads a Markdown file of the data directory, "" if there is none.
// What cannot be read is a problem on the board, and no more than that.
func (g *Generator) markdown(name string, b *board.Board) string {
	data, err := atomicfile.Read(filepath.Join(g.opt.Data, name), maxMarkdownBytes)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			b.Problems = append(b.Problems, snapshot.Problem{
				Code: "note:unreadable", File: filepath.ToSlash(name), Message: err.Error(),
			})
		}
		return ""
	}
	return string(data)
}

// people reads which names mean the same person, and the members of each team.
func (g *Generator) people() (booking.Aliases, map[string][]string, []snapshot.Problem) {
	data, err := atomicfile.Read(g.opt.Aliases, booking.MaxAliasBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, []snapshot.Problem{{Code: "aliases:unreadable", File: "aliases.csv", Message: err.Error()}}
	}
	aliases, problems := booking.ParseAliases(data)
	teams, more := booking.ParseTeams(data)
	return aliases, teams, append(problems, more...)
}
