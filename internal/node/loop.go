package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpuboard/collector"
	"gpuboard/internal/atomicfile"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/publisher"
)

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
	pace      *pace // nil: there is one cycle
	slow      error // the last reading lasted longer than the interval
	last      cycle

	// One push at a time runs beside the readings.
	pushLimit time.Duration    // a push that takes longer hangs
	overdue   <-chan time.Time // fires at that limit; nil while no push runs
	attempts  chan error       // errors of attempts that are made again
	ended     chan error       // the outcome of the push
	missed    bool             // the push may lack the newest snapshot
}

// A cycle is the newest reading and the newest push.
type cycle struct {
	snap       *snapshot.Snapshot // nil when there is none
	collectErr error
	pushed     bool  // the newest push has ended
	pushErr    error // of the newest push; while it runs and has not failed, of the one before
}

// unread is why the GPUs or their users could not be read; nil if they could.
func (c cycle) unread() *snapshot.Problem {
	if c.snap == nil {
		return nil
	}
	for i, p := range c.snap.Errors {
		area, _, _ := strings.Cut(p.Code, ":")
		if area == "ps" || !c.snap.GPUsComplete && (area == "smi" || area == "amd" || p.Code == "gpu:hung") {
			return &c.snap.Errors[i]
		}
	}
	return nil
}

// Loop opens the loop of the node: its spool and its lock. once is for a single cycle, of which the
// interval is known only if it is set.
func (n Node) Loop(once bool) (l *Loop, err error) {
	every := n.Config.Duration("every") // 0 for auto
	if every < MinInterval && n.Config.String("every") != "auto" {
		return nil, failure.Usage("", "every from %s: %v is less than %v", n.Config.Origin("every"), every, MinInterval)
	}
	host, err := n.Host()
	if err != nil {
		return nil, err
	}
	pid := os.Getpid()
	l = &Loop{
		pushLimit: n.Config.Duration("push_timeout") + 30*time.Second,
		attempts:  make(chan error, 1), ended: make(chan error, 1),
		dir: n.dir(), now: n.Now, collector: n.Collector(host, !once), log: failure.NewLog(n.Stderr, n.Now),
		beat: Heartbeat{
			PID: pid, Start: startTime(pid), Host: host, Every: every, Started: n.Now().UTC(),
			Version: n.Version, Unit: unit(n.Getenv), Settings: n.loopSettings(),
		},
	}
	to := n.Config.String("to")
	target, _ := publisher.ParseTarget(to) // Publisher says what is wrong with it
	if target.Scheme == "s3" && every == 0 {
		every = MaxAuto // each push costs money
	}
	if !once {
		l.pace = &pace{fixed: every}
		l.beat.Every = l.pace.interval()
	}
	if target.Scheme == "sftp" && target.User == "" && !once {
		l.log.Say(fmt.Sprintf("%s names no user: the one with whom ssh %s logs in is taken; sftp://USER@… names another",
			to, target.Host))
	}
	if to != "" {
		if l.publisher, err = n.Publisher(!once && every <= publisher.KeepBelow, l.failing); err != nil {
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
		return nil, &failure.Error{Exit: failure.ExitTryAgain, Code: "loop:busy",
			Err:  errors.New("a loop runs for this spool already"),
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
	l.collect(ctx)
	if l.push(ctx) {
		l.last.pushErr = <-l.ended
	}
	var reportErr error
	if l.consul != nil && ctx.Err() == nil {
		if err := l.consul.report(ctx, l.last); err != nil {
			reportErr = &failure.Error{Exit: failure.ExitTryAgain, Err: fmt.Errorf("telling Consul: %w", err),
				Hint: failure.Explain(err).Hint}
		}
	}
	if err := cmp.Or(l.last.collectErr, l.last.pushErr, reportErr); err != nil {
		return nil, err
	}
	return l.last.snap, nil
}

// Run works until the context ends. The first cycle begins at once, because a node that was
// restarted should be back on the page; the others begin at the host's own offset within the
// interval, because a thousand nodes should not push in the same second. A push that waits for
// its server does not keep the node from being read. It sends the newest file when it gets through.
func (l *Loop) Run(ctx context.Context) (err error) {
	if l.consul != nil {
		stop := l.consul.start()
		defer func() { stop(err) }()
	}
	// An earlier loop may have pushed to the same drop.
	if old, err := ReadHeartbeat(l.dir); err == nil && old.Settings["to"] == l.beat.Settings["to"] {
		l.beat.Push.Worked = old.Push.Worked
	}
	l.writeHeartbeat()

	for next := time.After(0); ; {
		select {
		case <-next:
			if err := l.read(ctx); err != nil {
				return err
			}
			if !l.push(ctx) {
				l.report(ctx)
			}
			next = time.After(publisher.UntilPush(l.beat.Host, l.beat.Every, l.now()))
		case l.last.pushErr = <-l.attempts:
			l.record(ctx)
		case err := <-l.ended:
			l.pushEnded(ctx, err)
		case <-l.overdue:
			return hangs("push", l.pushLimit)
		case <-ctx.Done():
			if l.overdue != nil {
				select {
				case <-l.ended:
				case <-l.overdue:
				}
			}
			return nil
		}
	}
}

// read reads the node with a time limit. What hangs in spite of its own limits must not hold the
// lock forever: the loop ends, and check or systemd starts another.
func (l *Loop) read(ctx context.Context) error {
	began, limit := l.now(), 2*l.beat.Every+30*time.Second
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.collect(ctx)
	}()
	select {
	case <-done:
	case <-time.After(limit):
		return hangs("reading", limit)
	}
	if ctx.Err() == nil { // else it was cut short
		l.slow = slow(l.now().Sub(began), l.beat.Every)
		l.log.Report("interval", codeSlow, l.slow)
	}
	return nil
}

func hangs(what string, limit time.Duration) error {
	return &failure.Error{
		Exit: failure.ExitTryAgain, Code: "loop:hangs",
		Err:  fmt.Errorf("one %s took longer than %v", what, limit),
		Hint: "gpuboard check starts the loop again",
	}
}

const codeSlow = "loop:slow"

// slow is an error when a reading lasted longer than the interval. Readings never overlap.
func slow(took, every time.Duration) error {
	if took <= every {
		return nil
	}
	return fmt.Errorf("reading the node took %v, and a reading begins every %v: moments left out: %d",
		took.Round(100*time.Millisecond), every, took/every)
}

// collect takes a snapshot and spools it.
func (l *Loop) collect(ctx context.Context) {
	began := l.now()
	snap, err := l.collector.Collect(ctx)
	if err == nil {
		if l.pace != nil {
			l.pace.took(l.now().Sub(began))
			l.beat.Every = l.pace.interval()
		}
		snap.IntervalSeconds = int(l.beat.Every / time.Second)
		if l.slow != nil {
			snap.Errors = append(snap.Errors, snapshot.Problem{Code: codeSlow, Message: l.slow.Error()})
		}
		err = Add(l.spool, snap)
	}
	l.last.snap, l.last.collectErr = snap, err
}

// push begins to push what the spool holds, also from before, and reports whether it did.
func (l *Loop) push(ctx context.Context) (begun bool) {
	l.missed = l.overdue != nil
	if l.publisher == nil || l.missed || ctx.Err() != nil {
		return false
	}
	l.overdue, l.last.pushed = time.After(l.pushLimit), false
	go func() {
		_, err := l.publisher.Publish(ctx, l.spool)
		l.ended <- err
	}()
	return true
}

// failing takes the error of an attempt that is made again. It replaces an error that was not read yet.
func (l *Loop) failing(err error) {
	l.forgetAttempts()
	l.attempts <- err
}

func (l *Loop) forgetAttempts() {
	select {
	case <-l.attempts:
	default:
	}
}

// pushEnded takes the outcome of a push. If it may lack the newest snapshot, another push begins; after an error,
// the next cycle begins it.
func (l *Loop) pushEnded(ctx context.Context, err error) {
	l.forgetAttempts()
	l.overdue, l.last.pushed, l.last.pushErr = nil, true, err
	l.report(ctx)
	l.log.Report("publishing", publisher.CodeLost, err)
	if l.missed && err == nil {
		l.push(ctx)
	}
}

// report logs a cycle, writes the heartbeat, and reports to Consul. The first cycle lasts until its push has ended.
func (l *Loop) report(ctx context.Context) {
	l.log.Report("collecting", "spool:unwritable", l.last.collectErr)
	if l.overdue == nil || !l.beat.Beat.IsZero() {
		l.beat.Beat = l.now().UTC()
	}
	l.record(ctx)
	if l.consul != nil && ctx.Err() == nil {
		l.consul.send(l.last)
	}
}

// record writes the heartbeat, with the outcome of a cycle that was not cut short.
func (l *Loop) record(ctx context.Context) {
	if ctx.Err() == nil {
		l.beat.Push.record(l.last, l.now().UTC())
	}
	l.writeHeartbeat()
}

func (l *Loop) writeHeartbeat() {
	l.log.Report("heartbeat", "spool:unwritable", l.beat.Write(l.dir))
}
