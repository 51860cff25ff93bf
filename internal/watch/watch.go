// Package watch is the loop of the generator: a generation at every interval, and sooner when somebody
// edits a file, by one of several generators that compete for the lead.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen"
)

// Options are what the loop works with.
type Options struct {
	Generator *sitegen.Generator
	// GenerationTime is the moment that generations are made for; Now is the clock.
	GenerationTime, Now func() time.Time
	// Interval is the longest time between the beginnings of two generations. Every is the usual one; 0 chooses it
	// by what a generation costs, and is Interval unless the site lies in memory.
	Interval, Every time.Duration
	SiteInMemory    bool
	Paths           Paths
	Leader          *inventory.Leader // nil: there is no election
	Log             io.Writer
	// Done is called after every generation that worked, with the time from its beginning to that of the next one.
	// It may be nil.
	Done func(report sitegen.Report, gap time.Duration)
}

// Generate makes one generation. Its errors have an exit status, a code and a hint.
func Generate(ctx context.Context, g *sitegen.Generator, at time.Time) (sitegen.Report, error) {
	report, err := g.Generate(ctx, at.UTC())
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return report, err
	case errors.Is(err, sitegen.ErrLocked):
		err = &failure.Error{Exit: failure.ExitTryAgain, Code: "state:in-use", Err: err}
	case errors.Is(err, os.ErrPermission):
		hint := "the user who runs this must own the site and state directories: gpuboard doctor web names them"
		if file := (*fs.PathError)(nil); errors.As(err, &file) && filepath.IsAbs(file.Path) {
			hint = "see which directory keeps this user out: namei -l " + shell.Quote(file.Path)
		}
		err = &failure.Error{Exit: failure.ExitError, Code: "file:permission", Err: err, Hint: hint}
	case errors.Is(err, atomicfile.ErrNotRegular): // it stays there until somebody removes it
		err = &failure.Error{Exit: failure.ExitError, Code: "file:kind", Err: err, Hint: atomicfile.SetAside(err)}
	default:
		err = &failure.Error{Exit: failure.ExitTryAgain, Code: "site:failed", Err: err,
			Hint: "the site is as it was before"}
	}
	return report, err
}

// A loop makes one generation after another.
type loop struct {
	Options
	log      *failure.Log
	schedule schedule
	problems map[string]bool                    // of the last board
	edits    chan time.Time                     // holds the first edit that is not in the schedule
	led      chan struct{}                      // holds an element once this generator leads
	cancel   atomic.Pointer[context.CancelFunc] // ends the last generation; nil before the first
}

// Run makes generations until the context ends. One that fails is logged, and the next one tried:
// the disk may have room again.
func Run(ctx context.Context, o Options) {
	o.Generator.Expect(o.gap(0)) // until one has been made
	l := &loop{
		Options: o, log: failure.NewLog(o.Log, o.Now), problems: map[string]bool{},
		edits: make(chan time.Time, 1), led: make(chan struct{}, 1),
	}
	ctx, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait() // the lead is given back before the process ends
	defer cancel()
	background.Go(func() {
		watchFiles(ctx, o.Paths, o.Interval, l.log, func() { offer(l.edits, o.Now()) })
	})
	if o.Leader != nil {
		background.Go(func() { _ = o.Leader.Run(ctx, l.elected) })
	}
	for {
		now := o.Now()
		wait := l.schedule.due().Sub(now)
		switch {
		case !l.leads():
			wait = time.Hour // elected wakes it
		case wait <= 0:
			select {
			case <-l.edits: // it is shown
			default:
			}
			l.schedule.begin(now)
			gap, err := l.generate(ctx)
			if ctx.Err() != nil {
				return
			}
			l.schedule.end(o.Now(), gap, err != nil)
			l.log.Report("interval", "generate:slow", slow(o.Now().Sub(now), o.Interval))
			continue
		}
		select {
		case <-time.After(wait):
		case at := <-l.edits:
			l.schedule.note(at)
		case <-l.led:
			l.schedule.now()
		case <-ctx.Done():
			return
		}
	}
}

// offer puts a value into a channel that has room for one, unless it holds one.
func offer[T any](to chan T, value T) {
	select {
	case to <- value:
	default:
	}
}

// gap returns the time from the beginning of a generation that cost this much processor time to the next one. The
// clock would count what else the machine does.
func (o Options) gap(cost time.Duration) time.Duration {
	every := o.Every
	if every == 0 && o.SiteInMemory {
		every = max(autoGap, autoCosts*cost)
	}
	if every == 0 {
		return o.Interval
	}
	return min(every, o.Interval)
}

// processorTime is what this process has used of the processors.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func (l *loop) leads() bool { return l.Leader == nil || l.Leader.Held() }

// generate makes one generation, and gives it up when the lead is lost. gap is the time from its beginning to that of
// the next one.
func (l *loop) generate(ctx context.Context) (gap time.Duration, err error) {
	before, began := processorTime(), time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.cancel.Store(&cancel)
	if !l.leads() { // it was lost before anybody could cancel
		return 0, context.Canceled
	}
	report, err := Generate(ctx, l.Generator, l.GenerationTime())
	if ctx.Err() != nil { // asked to end, or not leading any more
		return 0, ctx.Err()
	}
	gap = l.gap(processorTime() - before)
	l.Generator.Expect((gap + time.Since(began)).Round(time.Second))
	l.log.Report("generating", "site:failed", err)
	if err == nil {
		l.logProblems(report.Board)
		if l.Done != nil {
			l.Done(report, gap)
		}
	}
	return gap, err
}

// elected takes the standing of this generator in the election.
func (l *loop) elected(s inventory.LeaderStatus) {
	switch {
	case s.Held:
		l.log.Say("leading: this generator writes the site")
		offer(l.led, struct{}{})
		return
	case s.Err != nil:
		text := fmt.Sprintf("standing by: %v", s.Err)
		if hint := failure.Explain(s.Err).Hint; hint != "" {
			text += "\ngpuboard: hint: " + hint
		}
		l.log.Say(text)
	case s.Holder != "":
		l.log.Say("standing by: another generator leads (" + s.Holder + ")")
	}
	if cancel := l.cancel.Load(); cancel != nil {
		(*cancel)()
	}
}

// slow is an error when a generation lasted longer than the interval. Generations never overlap.
func slow(took, interval time.Duration) error {
	if took <= interval {
		return nil
	}
	return fmt.Errorf("a generation took %v, and one is to begin every %v; the page changes less often",
		took.Round(100*time.Millisecond), interval)
}

// logProblems logs the problems that the last board did not have.
func (l *loop) logProblems(b *board.Board) {
	problems := map[string]bool{}
	for _, p := range b.Problems {
		key := identity(p)
		if !l.problems[key] && !problems[key] {
			l.log.Problem(p)
		}
		problems[key] = true
	}
	l.problems = problems
}

// identity tells problems apart from one generation to the next. It leaves out line numbers, because an edit above a
// mistake changes them.
func identity(p snapshot.Problem) string {
	if p.File == "" || p.Line == 0 {
		return p.Code + "\x00" + p.Where()
	}
	p.Line, p.Col = 0, 0
	return strings.Join([]string{p.Code, p.Where(), p.Host, lineNumber().ReplaceAllString(p.Message, "")}, "\x00")
}

var lineNumber = snapshot.Pattern(`line \d+`)
