package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"gpuboard/snapshot"
)

// Problems of one of several data directories.
const (
	rootUnreachable = "root:unreachable" // it cannot be read
	rootEmpty       = "root:empty"       // it can, and has none of the hosts that it had
)

// A Root is one of the data directories that [Roots] reads.
type Root struct {
	// Name is what messages call it.
	Name string
	// Dir is the data directory, or the local copy of one.
	Dir string
	// Refresh brings the copy in Dir up to date; nil where Dir is the original.
	// It must return soon after its context ends. Problems are of single hosts.
	Refresh func(ctx context.Context) ([]snapshot.Problem, error)
	// Close gives up what Refresh keeps; nil for nothing.
	Close func() error
}

// RootsOptions bound what Roots does. Zero values mean what the comments say.
type RootsOptions struct {
	// Budget is how long a look at one root may take; default 10 s.
	Budget time.Duration
	// Memory is a file that remembers which hosts each root had; "" for none.
	Memory string
	// ClockTolerance is how far a node's clock may be ahead; default one minute. A
	// snapshot from further ahead is not the newest of a host that has another.
	ClockTolerance time.Duration
}

// patience is how long a look waits for a root that did not answer the last
// time. The look goes on beside it, and its results are there the next time.
const patience = time.Second

// Roots reads the drops of several data directories as if they were one. A host
// may be in more than one of them, and the newest snapshot counts.
//
// Roots are looked at side by side, each within its budget, and what a root
// said stays until it says something else: one that is away or hangs makes its
// hosts old, and nothing else. Look must be called before the others, and none
// of the methods from two goroutines at once but Latest.
type Roots struct {
	o     RootsOptions
	roots []*root
	now   time.Time
	life  context.Context
	end   context.CancelFunc
}

// OpenRoots prepares to read roots, and reads none. The first is the one that
// may have no directory of drops yet.
func OpenRoots(o RootsOptions, roots ...Root) *Roots {
	if o.Budget <= 0 {
		o.Budget = 10 * time.Second
	}
	if o.ClockTolerance <= 0 {
		o.ClockTolerance = time.Minute
	}
	r := &Roots{o: o}
	r.life, r.end = context.WithCancel(context.Background())
	remembered := recallRoots(o.Memory)
	for i, given := range roots {
		r.roots = append(r.roots, &root{Root: given, first: i == 0, known: remembered[given.Name], hours: map[string][]HourFile{}})
	}
	return r
}

// Close gives up everything. A look at a root that hangs ends by itself.
func (r *Roots) Close() error {
	r.end()
	var errs []error
	for _, root := range r.roots {
		if root.Close != nil {
			errs = append(errs, root.Close())
		}
		root.mu.Lock()
		if root.busy == nil && root.drops != nil {
			errs = append(errs, root.drops.Close())
			root.drops = nil
		}
		root.mu.Unlock()
	}
	return errors.Join(errs...)
}

// Look brings all roots up to date as of now, and says which could not be read.
func (r *Roots) Look(ctx context.Context, now time.Time) []snapshot.Problem {
	r.now = now
	began := time.Now() // budgets are of real time, also where now is not
	type wait struct {
		root  *root
		ready <-chan struct{}
		long  time.Duration
	}
	var waits []wait
	for _, root := range r.roots {
		long := r.o.Budget
		if root.failing() {
			long = min(long, patience)
		}
		waits = append(waits, wait{root, root.start(r.life, r.o.Budget), long})
	}
	problems := &problemList{}
	changed := false
	for _, w := range waits {
		timer := time.NewTimer(w.long - time.Since(began))
		select {
		case <-w.ready:
		case <-timer.C:
			w.root.silent(w.long)
		case <-ctx.Done():
		}
		timer.Stop()
		changed = w.root.settle(problems) || changed
	}
	if changed {
		if err := rememberRoots(r.o.Memory, r.roots); err != nil {
			problems.add("state:unwritable", "", "which hosts are where cannot be remembered: %v", err)
		}
	}
	return problems.done()
}

// Hosts are the hosts of all roots, sorted; those of one that is away as it
// last had them.
func (r *Roots) Hosts() ([]string, []snapshot.Problem) {
	var hosts []string
	var problems []snapshot.Problem
	for _, root := range r.roots {
		root.mu.Lock()
		hosts = append(hosts, root.known...)
		for _, p := range root.seen.problems {
			if p.Host == "" && p.File == "" && !root.first {
				p.File = root.Name
			}
			problems = append(problems, p)
		}
		root.mu.Unlock()
	}
	slices.Sort(hosts)
	return slices.Compact(hosts), problems
}

// Latest is [Drops.Latest] of the root that has the newest snapshot of a host.
// A root with a file that cannot be read counts only where no other has the host.
func (r *Roots) Latest(host string) (*snapshot.Bundle, Info, error) {
	if err := validHost(host); err != nil {
		return nil, Info{}, fmt.Errorf("reading snapshot: %w", err)
	}
	best := heard{err: fmt.Errorf("reading snapshot of %s: %w", host, fs.ErrNotExist)}
	for _, root := range r.roots {
		root.mu.Lock()
		h, there := root.seen.latest[host]
		root.mu.Unlock()
		switch {
		case !there || errors.Is(h.err, fs.ErrNotExist):
		case h.err != nil:
			if errors.Is(best.err, fs.ErrNotExist) {
				best = h
			}
		case best.err != nil || Newer(h.bundle, best.bundle, r.now.Add(r.o.ClockTolerance)):
			best = h
		}
	}
	return best.bundle, best.info, best.err
}

// Hours is [Drops.Hours] over all roots. A file that lies in several is listed
// once; a root that is away has those that it had.
func (r *Roots) Hours(host string) (hours []HourFile, problems []snapshot.Problem) {
	listed := map[string]bool{}
	for _, root := range r.roots {
		for _, f := range root.hoursOf(host, r.o.Budget) {
			if name := path.Base(f.Name); !listed[name] {
				listed[name] = true
				hours = append(hours, f)
			}
		}
	}
	slices.SortStableFunc(hours, func(a, b HourFile) int {
		if c := a.Start.Compare(b.Start); c != 0 {
			return c
		}
		return strings.Compare(path.Base(a.Name), path.Base(b.Name))
	})
	return hours, nil
}

// ReadHour reads an hour file from the first root in which it is good. One that
// only a root has that is away is not there ([fs.ErrNotExist]).
func (r *Roots) ReadHour(f HourFile) (*snapshot.Hour, error) {
	err := fmt.Errorf("reading %s of %s: %w", snapshot.Text(f.Name, snapshot.MaxNameBytes), f.Host, fs.ErrNotExist)
	for _, root := range r.roots {
		h, this := root.readHour(f, r.o.Budget)
		if this == nil {
			return h, nil
		}
		if !errors.Is(this, fs.ErrNotExist) {
			err = this
		}
	}
	return nil, err
}

// Sweep is [Drops.Sweep] of the first root, which alone is this machine's to tidy.
func (r *Roots) Sweep(host string, now, clock time.Time) (Load, error) {
	var load Load
	var err error
	if !r.roots[0].within(r.o.Budget, func(d *Drops) { load, err = d.Sweep(host, now, clock) }) {
		return Load{}, nil // Look says that it does not answer
	}
	return load, err
}
