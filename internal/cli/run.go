package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/collector"
	"gpuboard/internal/atomicfile"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/publisher"
)

// minEvery is the shortest interval: nvidia-smi itself takes about a second on
// a node with many GPUs.
const minEvery = 2 * time.Second

func (a *app) runCommand() *cobra.Command {
	var once bool
	c := &cobra.Command{
		Use: "run", Short: "collect and publish for ever (check starts this)", GroupID: groupNode, Args: cobra.NoArgs,
		Long: "run takes a snapshot at every interval and pushes it. Nodes start at different moments\n" +
			"within the interval, so that a thousand of them do not call at once. One run per spool:\n" +
			"a second one exits with 75. With --once it ends after one snapshot and one push, which costs\n" +
			"less than collect and publish; --every then tells how often that is done.\n" + exitStatus,
		Example: "  gpuboard run --to sftp://n-gpu01@web.example.org/in\n  gpuboard run --every 1m --to file:///srv/gpuboard/data",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load(c)
			if err != nil {
				return err
			}
			every := cfg.Duration("every")
			if every < minEvery {
				return usagef("", "every from %s: %v is less than %v", cfg.Origin("every"), every, minEvery)
			}
			if once && !cfg.Given("every") {
				every = 0 // nobody has said when the next one is
			}
			l, err := a.newLoop(cfg, every)
			if err != nil {
				return err
			}
			defer l.close()
			if once {
				snap, err := l.once(c.Context())
				if err != nil {
					return err
				}
				return a.degraded(snap)
			}
			if l.herald != nil {
				l.herald.start()
			}
			err = l.run(c.Context())
			if l.herald != nil {
				why := "the collector was stopped"
				if err != nil {
					why = "the collector ended: " + err.Error()
				}
				l.herald.stop(why)
			}
			return err
		},
	}
	a.flags(c, config.NodeKeys()...)
	c.Flags().BoolVar(&once, "once", false, "take one snapshot, push it and end (for cron, where nothing may stay)")
	return c
}

// loop is the node's side, kept alive.
type loop struct {
	dir, host string
	every     time.Duration
	lock      *os.File
	spool     *spool.Spool
	collector *collector.Collector
	publisher *publisher.Publisher // nil: only collect
	herald    *herald              // nil: Consul is not told
	now       func() time.Time
	log       *failure.Log
	beat      heartbeat
	slow      error // that the last cycle lasted longer than the interval
}

func (a *app) newLoop(cfg *config.Config, every time.Duration) (l *loop, err error) {
	host, err := a.host(cfg)
	if err != nil {
		return nil, err
	}
	s, err := openSpool(cfg)
	if err != nil {
		return nil, err
	}
	l = &loop{dir: cfg.String("spool"), host: host, every: every, spool: s, now: a.now, log: failure.NewLog(a.stderr, a.now)}
	opened := l
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	l.lock, err = atomicfile.Lock(filepath.Join(l.dir, loopLock), 0o600)
	if err != nil && !errors.Is(err, atomicfile.ErrLocked) {
		return nil, because("spool:unusable", fail(exitUsage, fmt.Errorf("taking the loop's lock: %w", err), ""))
	}
	if err != nil {
		return nil, because("loop:busy", fail(exitTempFail, errors.New("a loop runs for this spool already"), "gpuboard check says which, gpuboard check kill ends it"))
	}
	l.collector = a.collector(cfg, host, every)
	if cfg.String("to") != "" {
		if l.publisher, err = a.publisher(cfg, every > 0 && every <= publisher.KeepBelow); err != nil {
			return nil, err
		}
	}
	if cfg.Bool("register.enabled") {
		if l.herald, err = a.newHerald(cfg); err != nil {
			return nil, err
		}
	}
	pid := os.Getpid()
	l.beat = heartbeat{PID: pid, Start: startTime(pid), Host: host, Every: every, Started: a.now().UTC(), Version: version(), Settings: loopSettings(cfg)}
	return l, nil
}

func (l *loop) close() {
	if l.publisher != nil {
		_ = l.publisher.Close()
	}
	_ = l.spool.Close()
	_ = l.lock.Close()
}

// run works until the context ends. The first cycle is at once, so that a
// restarted node is back on the page; the others keep to the host's own moment
// within the interval.
func (l *loop) run(ctx context.Context) error {
	// The heartbeat is this loop's from now on. What an earlier one knew of the
	// same drop goes on.
	if old, err := readBeat(l.dir); err == nil && old.Settings["to"] == l.beat.Settings["to"] {
		l.beat.Push = old.Push
	}
	l.log.Report("heartbeat", "spool:unwritable", writeBeat(l.dir, l.beat))
	phase := publisher.StaggerOffset(l.host, l.every)
	for {
		began := l.now()
		if err := l.cycleWatched(ctx); err != nil {
			return err
		}
		if ctx.Err() == nil { // else it was cut short
			l.slow = slowCycle(l.now().Sub(began), l.every)
			l.log.Report("pace", codeSlow, l.slow)
		}
		if pause(ctx, untilNext(l.now(), l.every, phase)) != nil {
			return nil // asked to end: a clean one
		}
	}
}

// slowCycle says that a cycle lasted longer than the interval, nil when it did
// not. The moments that it missed are left out, so nothing piles up; but the node
// is seen less often than its configuration says.
func slowCycle(took, every time.Duration) error {
	if took <= every {
		return nil
	}
	return fmt.Errorf("a cycle took %v, and one begins every %v: moments left out: %d", took.Round(100*time.Millisecond), every, took/every)
}

const codeSlow = "loop:slow"

// untilNext is how long to wait for the next moment that lies phase after a
// multiple of every. A cycle that took longer than the interval skips, and
// never piles up.
func untilNext(now time.Time, every, phase time.Duration) time.Duration {
	since := time.Duration((now.UnixNano() - int64(phase)) % int64(every))
	if since < 0 {
		since += every
	}
	return every - since
}

// cycleWatched is one cycle under a watchdog: whatever hangs in spite of its
// own budget must not keep the lock for ever. Cron's check starts a new loop.
func (l *loop) cycleWatched(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.cycle(ctx)
	}()
	watchdog := time.NewTimer(2*l.every + 30*time.Second)
	defer watchdog.Stop()
	select {
	case <-done:
		return nil
	case <-watchdog.C:
		return because("loop:hangs", fail(exitTempFail, fmt.Errorf("one cycle took longer than %v", 2*l.every+30*time.Second), "gpuboard check starts the loop again"))
	}
}

func (l *loop) cycle(ctx context.Context) {
	var n news
	n.snap, n.collect = l.collector.Collect(ctx)
	if n.collect == nil {
		if l.slow != nil {
			n.snap.Errors = append(n.snap.Errors, snapshot.Problem{Code: codeSlow, Message: l.slow.Error()})
		}
		n.collect = l.spool.Add(n.snap)
	}
	l.log.Report("collecting", "spool:unwritable", n.collect)
	pushed := l.publisher != nil && ctx.Err() == nil
	if pushed {
		_, n.push = l.publisher.Publish(ctx, l.spool)
	}
	l.beat.Beat = l.now().UTC()
	if ctx.Err() == nil { // else it was cut short
		l.beat.Push.note(n, pushed, l.beat.Beat)
	}
	l.log.Report("heartbeat", "spool:unwritable", writeBeat(l.dir, l.beat))
	if pushed {
		l.log.Report("publishing", publisher.CodeLost, n.push)
	}
	if l.herald != nil && ctx.Err() == nil {
		l.herald.hear(n)
	}
}

// once is one cycle of a process that ends with it: what went wrong is its
// error, and nothing is left running.
func (l *loop) once(ctx context.Context) (*snapshot.Snapshot, error) {
	var n news
	n.snap, n.collect = l.collector.Collect(ctx)
	if n.collect == nil {
		n.collect = spoolError(l.spool.Add(n.snap))
	}
	if l.publisher != nil && ctx.Err() == nil { // also what waits from before
		_, n.push = l.publisher.Publish(ctx, l.spool)
	}
	var told error
	if l.herald != nil && ctx.Err() == nil {
		if told = l.herald.tell(ctx, n); told != nil {
			told = fail(exitTempFail, fmt.Errorf("telling Consul: %w", told), failure.Explain(told).Hint)
		}
	}
	switch {
	case n.collect != nil:
		return nil, n.collect
	case n.push != nil:
		return nil, n.push
	case told != nil:
		return nil, told
	}
	return n.snap, nil
}
