package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gpuboard/collector"
	"gpuboard/internal/atomicfile"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/publisher"
)

// MinInterval is the shortest interval: on a node with many GPUs nvidia-smi takes about a second.
const MinInterval = 2 * time.Second

// A Loop collects a snapshot and pushes it, once or at every interval.
type Loop struct {
	dir       string // of the spool
	now       func() time.Time
	collector *collector.Collector
	publisher *publisher.Publisher // nil: only collect
	consul    *consulReporter      // nil: do not report to Consul
	lock      *os.File
	spool     *spool.Spool
	log       *failure.Log
	beat      Heartbeat
	slow      error // the last cycle lasted longer than the interval
}

// A cycle is the outcome of collecting and pushing once.
type cycle struct {
	snap       *snapshot.Snapshot // nil when there is none
	collectErr error
	pushed     bool // a push was tried
	pushErr    error
}

// Loop opens the loop of the node: its spool and its lock. once is for a single cycle, of which the
// interval is known only if it is set.
func (n Node) Loop(once bool) (l *Loop, err error) {
	every := n.Config.Duration("every")
	if every < MinInterval {
		return nil, failure.Usage("", "every from %s: %v is less than %v", n.Config.Origin("every"), every, MinInterval)
	}
	if once && !n.Config.Given("every") {
		every = 0
	}
	host, err := n.Host()
	if err != nil {
		return nil, err
	}
	pid := os.Getpid()
	l = &Loop{
		dir: n.dir(), now: n.Now, collector: n.Collector(host, every), log: failure.NewLog(n.Stderr, n.Now),
		beat: Heartbeat{
			PID: pid, Start: startTime(pid), Host: host, Every: every, Started: n.Now().UTC(),
			Version: n.Version, Unit: unit(n.Getenv), Settings: n.loopSettings(),
		},
	}
	if to := n.Config.String("to"); to != "" {
		if target, err := publisher.ParseTarget(to); err == nil && target.Scheme == "sftp" && target.User == "" && !once {
			l.log.Say(fmt.Sprintf("%s names no user: the one with whom ssh %s logs in is taken; sftp://USER@… names another", to, target.Host))
		}
		if l.publisher, err = n.Publisher(every > 0 && every <= publisher.KeepBelow); err != nil {
			return nil, err
		}
	}
	if n.Config.Bool("register.enabled") {
		if l.consul, err = n.consulReporter(l.log); err != nil {
			return nil, err
		}
	}
	if l.spool, err = n.OpenSpool(); err != nil {
		return nil, err
	}
	l.lock, err = atomicfile.Lock(filepath.Join(l.dir, LockFile), 0o600)
	if errors.Is(err, atomicfile.ErrLocked) {
		return nil, &failure.Error{Exit: failure.ExitTryAgain, Code: "loop:busy", Err: errors.New("a loop runs for this spool already"),
			Hint: "gpuboard check says which, gpuboard check kill ends it"}
	}
	if err != nil {
		return nil, unusable(fmt.Errorf("taking the loop's lock: %w", err))
	}
	return l, nil
}

// Close closes the publisher and gives the locks back.
func (l *Loop) Close() {
	if l.publisher != nil {
		_ = l.publisher.Close()
	}
	_ = l.spool.Close()
	_ = atomicfile.Unlock(l.lock)
}

// Once runs one cycle and returns its snapshot, or the first error.
func (l *Loop) Once(ctx context.Context) (*snapshot.Snapshot, error) {
	c := l.collectAndPush(ctx)
	var reportErr error
	if l.consul != nil && ctx.Err() == nil {
		if err := l.consul.report(ctx, c); err != nil {
			reportErr = &failure.Error{Exit: failure.ExitTryAgain, Err: fmt.Errorf("telling Consul: %w", err), Hint: failure.Explain(err).Hint}
		}
	}
	if err := cmp.Or(c.collectErr, c.pushErr, reportErr); err != nil {
		return nil, err
	}
	return c.snap, nil
}

// Run works until the context ends. The first cycle begins at once, because a node that was
// restarted should be back on the page; the others begin at the host's own offset within the
// interval, because a thousand nodes should not push in the same second.
func (l *Loop) Run(ctx context.Context) (err error) {
	if l.consul != nil {
		stop := l.consul.start()
		defer func() { stop(err) }()
	}
	// The state of the pushes goes on where an earlier loop pushed to the same drop.
	if old, err := ReadHeartbeat(l.dir); err == nil && old.Settings["to"] == l.beat.Settings["to"] {
		l.beat.Push = old.Push
	}
	l.writeHeartbeat()
	for {
		began := l.now()
		if err := l.watched(ctx); err != nil {
			return err
		}
		now := l.now()
		if ctx.Err() == nil { // else the cycle was cut short
			l.slow = slow(now.Sub(began), l.beat.Every)
			l.log.Report("interval", codeSlow, l.slow)
		}
		select {
		case <-time.After(publisher.UntilPush(l.beat.Host, l.beat.Every, now)):
		case <-ctx.Done():
			return nil
		}
	}
}

const codeSlow = "loop:slow"

// slow is an error when a cycle lasted longer than the interval. Cycles never overlap.
func slow(took, every time.Duration) error {
	if took <= every {
		return nil
	}
	return fmt.Errorf("a cycle took %v, and one begins every %v: moments left out: %d", took.Round(100*time.Millisecond), every, took/every)
}

// watched runs one cycle with a time limit. A cycle that hangs in spite of its own limits must not
// hold the lock forever: the loop ends, and check or systemd starts another.
func (l *Loop) watched(ctx context.Context) error {
	limit := 2*l.beat.Every + 30*time.Second
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.cycle(ctx)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(limit):
		return &failure.Error{Exit: failure.ExitTryAgain, Code: "loop:hangs", Err: fmt.Errorf("one cycle took longer than %v", limit),
			Hint: "gpuboard check starts the loop again"}
	}
}

// cycle runs one cycle of a loop and records its outcome.
func (l *Loop) cycle(ctx context.Context) {
	c := l.collectAndPush(ctx)
	l.log.Report("collecting", "spool:unwritable", c.collectErr)
	l.beat.Beat = l.now().UTC()
	if ctx.Err() == nil { // else the cycle was cut short
		l.beat.Push.record(c, l.beat.Beat)
	}
	l.writeHeartbeat()
	if c.pushed {
		l.log.Report("publishing", publisher.CodeLost, c.pushErr)
	}
	if l.consul != nil && ctx.Err() == nil {
		l.consul.send(c)
	}
}

// collectAndPush collects a snapshot, spools it, and pushes what the spool holds, also from before.
func (l *Loop) collectAndPush(ctx context.Context) (c cycle) {
	c.snap, c.collectErr = l.collector.Collect(ctx)
	if c.collectErr == nil {
		if l.slow != nil {
			c.snap.Errors = append(c.snap.Errors, snapshot.Problem{Code: codeSlow, Message: l.slow.Error()})
		}
		c.collectErr = Add(l.spool, c.snap)
	}
	c.pushed = l.publisher != nil && ctx.Err() == nil
	if c.pushed {
		_, c.pushErr = l.publisher.Publish(ctx, l.spool)
	}
	return c
}

func (l *Loop) writeHeartbeat() {
	l.log.Report("heartbeat", "spool:unwritable", l.beat.Write(l.dir))
}
