package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen"
)

// A watch makes one generation after another: when somebody changed something,
// when nodes pushed, and when an interval has passed.
type watch struct {
	app       *app
	generator *sitegen.Generator
	now       func() time.Time // that generations are made for; app.now paces them
	pace      *pace
	candidate *candidate // nil: there is no election
	rescan    func()     // looks for directories that are new
	verbose   bool
	problems  map[string]bool // that have been said
	slow      bool            // the last generation lasted longer than the interval
}

// watch makes generations until the context ends. A generation that fails is
// said, and the next one tried: the disk may have room again.
func (a *app) watch(ctx context.Context, cfg *config.Config, g *sitegen.Generator, now func() time.Time, verbose bool) error {
	w := &watch{app: a, generator: g, now: now, pace: newPace(cfg.Duration("interval")), verbose: verbose, problems: map[string]bool{}}
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait() // the lead is given back before the process ends
	defer cancel()

	var stop func()
	w.rescan, stop = a.watchFiles(cfg, func(u urgency) { w.pace.change(u, a.now()) })
	defer stop()
	if a.asksConsul(cfg) {
		consul, err := a.consul(cfg)
		if err != nil {
			return err
		}
		beside.Go(func() {
			_ = consul.Watch(ctx, func(inventory.Change) { w.pace.change(soon, a.now()) })
		})
	}
	if cfg.Bool("consul.leader") {
		consul, err := a.consul(cfg)
		if err != nil {
			return err
		}
		w.candidate = newCandidate(a, consul.NewLeader(cfg.String("consul.leader_key")), w.pace.atOnce)
		beside.Go(func() { w.candidate.stand(ctx) })
	}
	return w.run(ctx)
}

func (w *watch) run(ctx context.Context) error {
	scanned := w.app.now()
	for {
		if w.candidate != nil && !w.candidate.leader.Held() {
			select {
			case <-w.pace.wake: // leading, or something changed
			case <-ctx.Done():
				return nil
			}
			continue
		}
		now := w.app.now()
		if wait := w.pace.due().Sub(now); wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-w.pace.wake: // it may be due sooner
			case <-ctx.Done():
				timer.Stop()
				return nil
			}
			timer.Stop()
			continue
		}
		w.pace.begin(now)
		err := w.generate(ctx)
		if ctx.Err() != nil {
			return nil
		}
		w.pace.end(w.app.now(), err != nil)
		w.sayPace(w.app.now().Sub(now))
		if now.Sub(scanned) >= w.pace.every {
			scanned = now
			w.rescan()
		}
	}
}

// generate makes one generation, and gives it up when the lead is lost.
func (w *watch) generate(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if w.candidate != nil {
		defer w.candidate.whenLost(cancel)()
	}
	report, err := w.generator.Generate(ctx, w.now().UTC())
	switch {
	case ctx.Err() != nil: // asked to end, or not leading any more
	case err != nil:
		w.say("generate\x00"+err.Error(), func() {
			fmt.Fprintf(w.app.stderr, "gpuboard: %s\n", failure.Line(err.Error(), failure.CodeOf(generateError(err))))
		})
	default:
		w.sayNew(report.Board)
		if w.verbose {
			w.app.sayDone(report)
		}
	}
	return errors.Join(err, ctx.Err())
}

// sayPace says once that generations last longer than the interval. The next
// begins when one has ended, so nothing piles up.
func (w *watch) sayPace(took time.Duration) {
	slow := took > w.pace.every
	if slow && !w.slow {
		w.app.complain(snapshot.Problem{Code: "generate:slow", Message: fmt.Sprintf("a generation took %v, and one is to begin every %v; the page changes less often", took.Round(100*time.Millisecond), w.pace.every)})
	}
	w.slow = slow
}

// say calls f unless it has been called for this.
func (w *watch) say(what string, f func()) {
	if !w.problems[what] {
		f()
	}
	w.problems[what] = true
}

// sayNew writes the problems that were not there a generation ago.
func (w *watch) sayNew(b *board.Board) {
	now := map[string]bool{}
	for _, p := range b.Problems {
		k := p.Code + "\x00" + p.Where()
		w.say(k, func() { w.app.complain(p) })
		now[k] = true
	}
	w.problems = now
}
