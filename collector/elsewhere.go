package collector

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Elsewhere is another machine, of which everything that is asked was brought here before.
type Elsewhere struct {
	// Has reports whether a program is installed there.
	Has func(program string) bool
	// Ran returns what a program said that was run there; nil if it was not.
	Ran func(program string, args []string) *Answer
	// Up is how long that machine has been up now, by Options.Now.
	Up func() time.Duration
}

// An Answer is what a program said.
type Answer struct {
	Stdout, Stderr []byte
	Exit           int
	TimedOut       bool // it was ended
}

// find returns what [Collector.run] takes for a program.
func (c *Collector) find(program string) (string, error) {
	switch {
	case c.opts.Elsewhere == nil:
		return resolve(program)
	case !c.opts.Elsewhere.Has(program):
		return "", ErrNotInstalled
	}
	return program, nil
}

// run runs a program here, or returns what it has said elsewhere.
func (c *Collector) run(
	ctx context.Context, program string, args, env []string, budget time.Duration, maxStdout int,
) run {
	if c.opts.Elsewhere == nil {
		return execute(ctx, program, args, env, budget, maxStdout)
	}
	a := c.opts.Elsewhere.Ran(program, args)
	if a == nil {
		return run{err: fmt.Errorf("starting %s: %w", program, ErrNotInstalled)}
	}
	r := run{stdout: a.Stdout, stderr: a.Stderr, exit: a.Exit, timedOut: a.TimedOut}
	if len(r.stdout) > maxStdout {
		r.stdout, r.cut = r.stdout[:maxStdout], true
	}
	return r
}

// bootClock is how long the machine has been up.
func (c *Collector) bootClock() (time.Duration, bool) {
	if c.opts.Elsewhere == nil {
		return bootClock()
	}
	return c.opts.Elsewhere.Up(), true
}

// exists reports whether the machine has a process with this pid.
func (c *Collector) exists(pid int) bool {
	if c.opts.Elsewhere == nil {
		return exists(pid)
	}
	_, err := os.Stat(filepath.Join(c.opts.Roots.Proc, strconv.Itoa(pid)))
	return err == nil
}
