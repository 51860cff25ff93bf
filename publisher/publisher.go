// Package publisher carries what a spool holds into a drop, over SFTP or to a local folder.
//
// A reader of the drop sees a whole file or none: each file is written under a
// temporary name in the same directory and renamed into place. No call lasts
// longer than its budget. The server's host key is always checked. A server that
// cannot replace a file atomically is refused. The account on the server needs
// only open, close, write, fsync, posix-rename, remove and realpath.
package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"gpuboard/internal/objectstore"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/internal/sshclient"

	"github.com/cenkalti/backoff/v5"
)

const (
	// DefaultBudget bounds one Publish, including dialing and retries.
	DefaultBudget = 20 * time.Second
	// DefaultBacklog is how many hour files one Publish sends after the latest file.
	// It keeps a fleet that returns from an outage from flooding the server.
	DefaultBacklog = 12
	// KeepBelow is the longest interval at which keeping the connection open costs
	// the server less than a new connection for each push. No keepalive is sent: at
	// these intervals a push comes before a NAT device forgets the connection.
	KeepBelow = 30 * time.Second
	// LatestName is the file that is replaced at each push and always sent first.
	LatestName = spool.LatestName

	retryBase = 500 * time.Millisecond
	retryCap  = 8 * time.Second
)

// Source is what Publish reads from: a [*spool.Spool]. Publish calls it from
// the goroutine of its caller.
type Source interface {
	// Pending lists the names of the files that target has not received yet: the latest
	// file first, then hour files from the newest to the oldest.
	Pending(target string) ([]string, error)
	// Read returns the whole content of a file. An error that wraps [fs.ErrNotExist]
	// means that the file need not be sent any more.
	Read(name string) ([]byte, error)
	// Delivered is called once the file is in the drop under its name, with what was sent.
	Delivered(target, name string, data []byte) error
	// Obsolete lists delivered files that have expired. Where a node's account may
	// only write, nobody but the node can remove them.
	Obsolete(target string) []string
	// Withdrawn is called once these files are gone from the drop.
	Withdrawn(target string, names ...string) error
}

// Options say where to and how. Zero values mean what the comments say.
type Options struct {
	Target Target
	// Host is this node's name, already checked; a file target needs it.
	Host string
	// Budget bounds one Publish; default [DefaultBudget].
	Budget time.Duration
	// Backlog bounds how many files beside the latest one Publish sends; default [DefaultBacklog].
	Backlog int
	// Keep keeps the connection from one Publish to the next.
	Keep bool
	// Identity and KnownHosts are files that replace those of ssh_config.
	Identity, KnownHosts []string
	// ResolveConfig returns what `ssh -G host` prints. When it is nil or its error wraps
	// [fs.ErrNotExist], because ssh is not installed, no ssh_config is used.
	ResolveConfig func(ctx context.Context, host string) ([]byte, error)
	// Properties says what a store is to tell of each file to those who read it, for an s3 target; nil for a node's files.
	Properties func(name string) objectstore.Properties
	// StateDir is a local directory for records of uploads under way, which an sftp target
	// needs. With them, a push can remove the temporary files that a killed one left on
	// the server. It is private to this user and created if it is missing.
	StateDir string
	// Log receives details at debug level; default: none.
	Log *slog.Logger
	// Failing is called with the error of an attempt that Publish makes again, in the goroutine of Publish; it may be
	// nil. It is not called if a kept connection broke, because the next attempt opens a new one.
	Failing func(error)

	clock func() time.Time
}

// Report says what one Publish did, also when it returned an error.
type Report struct {
	Delivered []string // names of files
	Waiting   int      // files left for the next Publish
	Bytes     int64    // of content delivered
	Attempts  int      // connections that were tried or used
	Dialed    int      // new connections
}

// Publisher pushes to one target. Its methods may be called from several goroutines.
type Publisher struct {
	opts    Options
	target  string
	records uploadRecords
	life    context.Context // ends with Close
	end     context.CancelFunc

	mu      sync.Mutex
	backoff sshclient.Backoff
	conn    *connection // kept connection, or nil
	bucket  *bucket     // of an s3 target
}

// New checks the options and connects to nothing.
func New(o Options) (*Publisher, error) {
	if name, err := snapshot.ParseHost(o.Host); o.Target.Scheme == "file" && (err != nil || name != o.Host) {
		return nil, sshclient.Permanent(CodeTarget, "name this node: --host NAME",
			"publishing to %s: %q is not a host name", o.Target, snapshot.Clip(o.Host, 80))
	}
	o.Budget = cmp.Or(max(o.Budget, 0), DefaultBudget)
	o.Backlog = cmp.Or(max(o.Backlog, 0), DefaultBacklog)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.clock == nil {
		o.clock = time.Now
	}
	p := &Publisher{opts: o, target: o.Target.String(), records: newUploadRecords(o.StateDir, o.Target, o.Budget)}
	if o.Target.Scheme == "s3" {
		var err error
		if p.bucket, err = openBucket(o); err != nil {
			return nil, err
		}
	}
	p.life, p.end = context.WithCancel(context.Background())
	return p, nil
}

// Close ends a kept connection and a Publish under way. It does not wait for the server.
func (p *Publisher) Close() error {
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disconnect()
	return nil
}

func (p *Publisher) disconnect() {
	if p.conn == nil {
		return
	}
	if p.conn.tempLeft {
		p.records.fail(p.conn.temp)
	}
	p.conn.close()
	p.conn = nil
}

// Publish delivers what waits in src: the latest file first, then hour files from
// the newest to the oldest. Lost connections and busy servers are retried within
// the budget; refused keys, unknown servers and denied requests are not. After a
// login that somebody has to fix, Publish does not connect for a while and returns
// the same error. An error is an [*Error].
func (p *Publisher) Publish(ctx context.Context, src Source) (Report, error) {
	var r Report
	// The budget includes waiting for a push under way.
	ctx, cancel := context.WithTimeout(ctx, p.opts.Budget)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.Err() != nil {
		return r, &Error{Code: sshclient.CodeCancelled, Err: errors.New("publishing: the publisher is closed")}
	}
	files, err := src.Pending(p.target)
	if err != nil {
		return r, &Error{Code: CodeSpool, Err: fmt.Errorf("listing what waits for %s: %w", p.target, err)}
	}
	most := p.opts.Backlog
	if len(files) > 0 && files[0] == LatestName {
		most++
	}
	batch := files[:min(len(files), most)]
	left := &queue{src: src, target: p.target, files: batch, report: &r}

	if len(batch) > 0 {
		if err = p.backoff.Check(p.opts.clock()); err == nil {
			err = p.deliver(ctx, left, &r)
		}
	}
	if err == nil {
		err = errors.Join(left.problems...)
	}
	r.Waiting = len(files) - len(r.Delivered) - left.gone
	if err != nil {
		return r, p.withTarget(err)
	}
	return r, nil
}

// deliver puts the files of a queue where the target is, and removes those that have expired.
func (p *Publisher) deliver(ctx context.Context, left *queue, r *Report) error {
	var put func(name string, data []byte) error
	var remove func(name string) error
	switch p.opts.Target.Scheme {
	case "file":
		put, remove = p.putLocal, p.removeLocal
	case "s3":
		put = func(name string, data []byte) error { return p.bucket.put(ctx, name, data) }
		remove = func(name string) error { return p.bucket.remove(ctx, name) }
	default:
		return p.push(ctx, left, r)
	}
	r.Attempts = 1
	if err := left.drain(ctx, put); err != nil {
		return err
	}
	return p.removeExpired(left.src, remove)
}

// withTarget puts the target into the message and keeps the code.
func (p *Publisher) withTarget(err error) error {
	outer := Error{Code: CodeSpool}
	if e, ok := errors.AsType[*Error](err); ok {
		outer = *e
	}
	outer.Err = fmt.Errorf("publishing to %s: %w", p.target, err)
	return &outer
}

// push retries until all is delivered, the budget is spent, or an error is one
// that a retry cannot fix.
func (p *Publisher) push(ctx context.Context, left *queue, r *Report) error {
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		r.Attempts++
		kept := p.conn != nil
		err := p.attempt(ctx, left, r)
		if err == nil {
			return struct{}{}, nil
		}
		p.disconnect() // after any error, because client and server may be out of step
		p.opts.Log.Debug("push attempt", "target", p.target, "attempt", r.Attempts, "code", Code(err), "err", err)
		// The error before a retry that ran out of time says more than the timeout.
		if last == nil || !timeIsUp(ctx) {
			last = err
		}
		if e, ok := errors.AsType[*Error](err); ok && e.Retry {
			if p.opts.Failing != nil && !kept {
				p.opts.Failing(p.withTarget(err))
			}
			return struct{}{}, err
		}
		return struct{}{}, backoff.Permanent(err)
	}, backoff.WithBackOff(jitter()), backoff.WithMaxElapsedTime(p.opts.Budget))
	if err != nil {
		return last
	}
	if !p.opts.Keep {
		p.disconnect()
	}
	return nil
}

// timeIsUp also looks at the clock: the deadline of a connection may pass a moment
// before ctx is done.
func timeIsUp(ctx context.Context) bool {
	end, bounded := ctx.Deadline()
	return ctx.Err() != nil || bounded && !time.Now().Before(end)
}

func (p *Publisher) attempt(ctx context.Context, left *queue, r *Report) error {
	kept := p.conn != nil
	if !kept {
		c, err := p.dial(ctx)
		p.backoff.Record(err, p.opts.clock())
		if err != nil {
			return err
		}
		r.Dialed++
		p.conn = c
	}
	c := p.conn
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if !kept {
		if err := p.removeStale(ctx, c); err != nil {
			return err
		}
	}
	if err := p.records.write(c.temp); err != nil {
		return &Error{Code: CodeSpool, Err: err}
	}
	err := left.drain(ctx, func(name string, data []byte) error { return p.put(ctx, c, name, data) })
	if err == nil {
		err = p.removeExpired(left.src, func(name string) error { return p.unlink(ctx, c, name) })
	}
	if !c.tempLeft {
		p.records.remove(c.temp)
	}
	c.SetDeadline(time.Time{})
	return err
}

// queue is the files that one Publish still has to deliver.
type queue struct {
	src      Source
	target   string
	files    []string // their names
	report   *Report
	problems []error // files that were skipped
	gone     int     // files that left the spool meanwhile
}

// drain delivers the files one by one. It stops at the first error of put and
// keeps that file at the head. A file that cannot be read is skipped.
func (q *queue) drain(ctx context.Context, put func(name string, data []byte) error) error {
	for ; len(q.files) > 0; q.files = q.files[1:] {
		if ctx.Err() != nil {
			return &Error{Code: sshclient.CodeTimeout,
				Err: fmt.Errorf("%d files left when the time was spent: %w", len(q.files), context.Cause(ctx))}
		}
		name := q.files[0]
		data, err := q.src.Read(name)
		if errors.Is(err, fs.ErrNotExist) {
			q.gone++
			continue
		}
		if err != nil {
			q.problems = append(q.problems,
				&Error{Code: CodeSpool, Err: fmt.Errorf("reading %s from the spool: %w", name, err)})
			continue
		}
		if err := put(name, data); err != nil {
			return err
		}
		q.report.Delivered = append(q.report.Delivered, name)
		q.report.Bytes += int64(len(data))
		if err := q.src.Delivered(q.target, name, data); err != nil {
			q.problems = append(q.problems,
				&Error{Code: CodeSpool, Err: fmt.Errorf("marking %s as delivered: %w", name, err)})
		}
	}
	return nil
}
