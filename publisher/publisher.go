// Package publisher carries what a spool holds into a drop, over SFTP or to a local folder.
//
// A reader of the drop sees a whole file or none: each file is written beside
// its place under a temporary name and renamed over it. No call lasts longer
// than its budget, whatever the server does; the server's key is always
// checked; and a server that cannot replace a file atomically is refused.
// publisher works for an account that may only open, close, write, fsync,
// posix-rename, remove and realpath.
package publisher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gpuboard/internal/spool"

	"github.com/cenkalti/backoff/v5"
)

const (
	// MaxFileBytes is the largest file that is sent; readers refuse larger ones.
	MaxFileBytes = 1 << 20
	// DefaultBudget bounds one Publish, dialing and retries included.
	DefaultBudget = 20 * time.Second
	// DefaultBacklog is how many finished files follow the latest one in one
	// Publish, so that a fleet that comes back after an outage does not occupy
	// the server with its past.
	DefaultBacklog = 12
	// KeepBelow is the longest interval at which keeping the connection costs the
	// server less than dialing for each push.
	KeepBelow = 30 * time.Second
	// LatestName is the file that is replaced at each push and always sent first.
	LatestName = spool.LatestName
)

// File is one file that waits in a spool.
type File = spool.File

// Source is what Publish reads from: a [*spool.Spool]. Publish calls it from
// the goroutine of its caller.
type Source interface {
	// Pending lists what target has not been given yet, in any order.
	Pending(target string) ([]File, error)
	// Read returns the whole content. It may be newer than the File says. An
	// error that wraps [fs.ErrNotExist] means that the file need not be sent any more.
	Read(File) ([]byte, error)
	// Delivered is called once the file stands in the drop under its name; f
	// describes what was sent.
	Delivered(target string, f File) error
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
	// ResolveConfig returns what `ssh -G host` prints. When it is nil or fails,
	// the Host blocks of ConfigFiles are read instead.
	ResolveConfig func(ctx context.Context, host string) ([]byte, error)
	// ConfigFiles default to ~/.ssh/config and /etc/ssh/ssh_config.
	ConfigFiles []string
	// StateDir is a local directory, private to this user and made when it is
	// missing, in which a push under
	// way is noted, so that the next one can remove what a killed one left on the
	// server. Empty: leftovers wait for the server's own sweeper.
	StateDir string
	// WriteFile replaces a local file atomically; a file target needs it.
	WriteFile func(path string, data []byte) error
	// Sweep removes from a local drop what a killed writer left there; nil: nobody does.
	Sweep func(dir string) error
	// Log takes details at debug level and skipped known_hosts lines as warnings; default: none.
	Log *slog.Logger

	retryBase, retryCap, keepalive time.Duration
	clock                          func() time.Time
}

// Report says what one Publish did, also when it returned an error.
type Report struct {
	Delivered []File
	Waiting   int      // files left for the next Publish
	Bytes     int64    // of content delivered
	Attempts  int      // how often a connection was tried or used
	Dialed    int      // how often a new connection was made
	Synced    bool     // the server synced each file to its disk before the rename
	BytesUp   int64    // on the wire, over the last connection, in its lifetime
	BytesDown int64    // likewise
	Warnings  []string // known_hosts lines that could not be read, and the like
}

// Publisher pushes to one target. Its methods may be called from several goroutines.
type Publisher struct {
	opts   Options
	target string
	notes  notes
	life   context.Context
	end    context.CancelFunc

	mu        sync.Mutex
	hold      hold
	link      *link             // kept connection, or nil
	leftovers map[string]string // temporary on the server → note
}

// New checks the options and connects to nothing.
func New(o Options) (*Publisher, error) {
	switch o.Target.Scheme {
	case "sftp":
		if o.Target.Host == "" {
			return nil, configError(CodeTarget, "write --to sftp://user@host/dir", errors.New("publishing: the target names no host"))
		}
	case "file":
		if !plainName(o.Host) || strings.ToLower(o.Host) != o.Host || strings.Contains(o.Host, "..") {
			return nil, configError(CodeTarget, "name this node: --host NAME", fmt.Errorf("publishing to %s: %q is not a host name", o.Target, cut(o.Host, 80)))
		}
		if o.WriteFile == nil {
			return nil, configError(CodeTarget, "", errors.New("publishing to a local directory: no writer given"))
		}
	default:
		return nil, configError(CodeTarget, "write --to sftp://user@host/dir or file:///dir", fmt.Errorf("publishing: unknown scheme %q", o.Target.Scheme))
	}
	if o.Budget <= 0 {
		o.Budget = DefaultBudget
	}
	if o.Backlog <= 0 {
		o.Backlog = DefaultBacklog
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.ConfigFiles == nil {
		if home, err := os.UserHomeDir(); err == nil {
			o.ConfigFiles = append(o.ConfigFiles, filepath.Join(home, ".ssh", "config"))
		}
		o.ConfigFiles = append(o.ConfigFiles, "/etc/ssh/ssh_config")
	}
	setDefault(&o.retryBase, 500*time.Millisecond)
	setDefault(&o.retryCap, 8*time.Second)
	setDefault(&o.keepalive, keepaliveInterval)
	if o.clock == nil {
		o.clock = time.Now
	}
	p := &Publisher{opts: o, target: o.Target.String(), leftovers: map[string]string{}}
	p.notes = newNotes(o.StateDir, o.Target, o.Budget)
	p.life, p.end = context.WithCancel(context.Background())
	return p, nil
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

// Close ends a kept connection, and a Publish under way. It does not wait for the server.
func (p *Publisher) Close() error {
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangUp()
	return nil
}

func (p *Publisher) hangUp() {
	if p.link == nil {
		return
	}
	if p.link.dirty {
		p.leftovers[p.link.temp] = p.notes.abandon(p.link.temp)
	}
	p.link.drop()
	p.link = nil
}

// Publish delivers what waits in src: the latest file first, then finished ones
// from the newest to the oldest. Lost connections and busy servers are tried
// again within the budget; refused keys, unknown servers and denied requests
// are not. Where the door was shut in a way that somebody has to mend, Publish
// stays away from it for a while and returns the same error. An error is an
// [*Error].
func (p *Publisher) Publish(ctx context.Context, src Source) (Report, error) {
	var r Report
	// The budget begins before the wait for a push or a keepalive under way.
	ctx, cancel := context.WithTimeout(ctx, p.opts.Budget)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.Err() != nil {
		return r, &Error{Code: CodeCancelled, Err: errors.New("publishing: the publisher is closed")}
	}
	files, err := src.Pending(p.target)
	if err != nil {
		return r, &Error{Code: CodeSpool, Err: fmt.Errorf("listing what waits for %s: %w", p.target, err)}
	}
	batch := slices.Clone(files)
	slices.SortFunc(batch, newestFirst)
	most := p.opts.Backlog
	if len(batch) > 0 && batch[0].Name == LatestName {
		most++
	}
	batch = batch[:min(len(batch), most)]
	left := &queue{src: src, target: p.target, files: batch, report: &r}

	if len(batch) > 0 {
		if refused := p.hold.refusal(p.opts.clock()); refused != nil {
			err = refused
		} else if p.opts.Target.Scheme == "file" {
			r.Attempts = 1
			if err = left.drain(ctx, p.putLocal()); err == nil {
				err = p.tidy(src, p.removeLocal)
			}
		} else {
			err = p.push(ctx, left, &r)
		}
	}
	if err == nil {
		err = errors.Join(left.problems...)
	}
	r.Waiting = len(files) - len(r.Delivered) - left.gone
	if err != nil {
		return r, p.finish(err)
	}
	return r, nil
}

// finish puts the target into the message and keeps the code.
func (p *Publisher) finish(err error) error {
	wrapped := fmt.Errorf("publishing to %s: %w", p.target, err)
	var e *Error
	if errors.As(err, &e) {
		outer := *e
		outer.Err = wrapped
		return &outer
	}
	return &Error{Code: CodeSpool, Err: wrapped}
}

// newestFirst puts the latest file first, then the others by descending name:
// names of finished hours begin with the hour.
func newestFirst(a, b File) int {
	if (a.Name == LatestName) != (b.Name == LatestName) {
		if a.Name == LatestName {
			return -1
		}
		return 1
	}
	return strings.Compare(b.Name, a.Name)
}

// push tries until all is delivered, the budget is spent, or an error says that
// trying again is no use.
func (p *Publisher) push(ctx context.Context, left *queue, r *Report) error {
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		r.Attempts++
		err := p.attempt(ctx, left, r)
		if err == nil {
			return struct{}{}, nil
		}
		p.hangUp() // after any error: never reuse what may be out of step
		p.opts.Log.Debug("push attempt", "target", p.target, "attempt", r.Attempts, "code", Code(err), "err", err)
		// A budget that ends in the middle of a retry says less than what went before.
		// Its own timer may be a moment later than the connection's.
		end, bounded := ctx.Deadline()
		if last == nil || ctx.Err() == nil && !(bounded && !time.Now().Before(end)) {
			last = err
		}
		var e *Error
		if errors.As(err, &e) && e.again && ctx.Err() == nil {
			return struct{}{}, err
		}
		return struct{}{}, backoff.Permanent(err)
	}, backoff.WithBackOff(&fullJitter{base: p.opts.retryBase, cap: p.opts.retryCap}), backoff.WithMaxElapsedTime(p.opts.Budget))
	if err != nil {
		return last
	}
	if !p.opts.Keep {
		p.hangUp()
	}
	return nil
}

func (p *Publisher) attempt(ctx context.Context, left *queue, r *Report) error {
	l := p.link
	if l == nil {
		var err error
		l, err = p.dial(ctx)
		p.hold.learn(err, p.opts.clock())
		if err != nil {
			return err
		}
		r.Dialed++
		p.link = l
		for _, warning := range l.warnings {
			if slices.Contains(r.Warnings, warning) {
				continue // from an earlier attempt
			}
			r.Warnings = append(r.Warnings, warning)
			p.opts.Log.Warn("reading known hosts", "problem", warning)
		}
		if err := p.sweep(ctx, l); err != nil {
			return err
		}
		if p.opts.Keep {
			go p.keepAlive(l)
		}
	}
	if err := p.notes.write(l.temp); err != nil {
		return &Error{Code: CodeSpool, Err: err}
	}
	err := left.drain(ctx, func(name string, data []byte) error { return p.put(ctx, l, name, data) })
	if err == nil {
		stop := context.AfterFunc(ctx, func() { l.base.Close() })
		err = p.tidy(left.src, p.removeRemote(ctx, l))
		stop()
	}
	r.Synced = l.fsync
	r.BytesUp, r.BytesDown = l.base.up.Load(), l.base.down.Load()
	if !l.dirty {
		p.notes.forget(p.notes.path(l.temp))
	}
	if err == nil {
		l.base.SetDeadline(time.Time{})
	}
	return err
}

// queue is what one Publish still has to deliver.
type queue struct {
	src      Source
	target   string
	files    []File
	report   *Report
	problems []error // files that were skipped
	gone     int     // files that left the spool meanwhile
}

// drain delivers file by file. It stops at the first error of put, with that
// file still at the head; a file that cannot be read is skipped, because the
// others are worth having.
func (q *queue) drain(ctx context.Context, put func(name string, data []byte) error) error {
	for len(q.files) > 0 {
		if ctx.Err() != nil {
			return &Error{Code: CodeTimeout, Err: fmt.Errorf("%d files left when the time was spent: %w", len(q.files), context.Cause(ctx))}
		}
		f := q.files[0]
		data, err := q.src.Read(f)
		if errors.Is(err, fs.ErrNotExist) {
			q.files = q.files[1:]
			q.gone++
			continue
		}
		if err != nil {
			err = &Error{Code: CodeSpool, Err: fmt.Errorf("reading %s from the spool: %w", cut(f.Name, 80), err)}
		} else {
			err = checkFile(f, data)
		}
		if err != nil {
			q.problems = append(q.problems, err)
			q.files = q.files[1:]
			continue
		}
		if err := put(f.Name, data); err != nil {
			return err
		}
		q.files = q.files[1:]
		f = spool.FileOf(f.Name, data)
		q.report.Delivered = append(q.report.Delivered, f)
		q.report.Bytes += int64(len(data))
		if err := q.src.Delivered(q.target, f); err != nil {
			q.problems = append(q.problems, &Error{Code: CodeSpool, Err: fmt.Errorf("marking %s as delivered: %w", f.Name, err)})
		}
	}
	return nil
}
