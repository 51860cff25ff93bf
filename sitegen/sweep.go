package sitegen

import (
	"os"
	"path/filepath"
	"time"

	"gpuboard/atomicfile"
	"gpuboard/snapshot"
)

const (
	// sweepEvery is how often a generator that goes on looks for what a killed one
	// left; a new one looks at once, unless it makes one generation and another such
	// process has looked: a walk through all directories is an eighth of what a small
	// fleet's generation costs.
	sweepEvery = 10 * time.Minute
	// leftAfter is the age at which an unfinished file is surely nobody's.
	leftAfter = 10 * time.Minute
	// sweptFile is written when a process that makes one generation has looked and
	// nothing was wrong.
	sweptFile = ".swept"
)

// sweep removes the unfinished files that a killed generator left in the sites
// and in the state directory. What cannot be removed harms nobody, so it is said
// on the board and stops nothing.
func (g *Generator) sweep(now time.Time) []snapshot.Problem {
	clock := time.Now() // now may be pretended
	mark := filepath.Join(g.opt.State, sweptFile)
	if info, err := os.Lstat(mark); g.opt.Once && err == nil {
		g.swept = info.ModTime()
	}
	if since := clock.Sub(g.swept); since >= 0 && since < sweepEvery {
		return g.leftovers
	}
	g.swept, g.leftovers = clock, nil
	dirs := []string{g.opt.State}
	for _, v := range g.views {
		dirs = append(dirs, v.dir)
	}
	for _, dir := range dirs {
		if _, err := atomicfile.Sweep(dir, leftAfter, now); err != nil {
			g.leftovers = append(g.leftovers, snapshot.Problem{Code: "state:leftovers", File: filepath.Base(dir), Message: err.Error()})
		}
	}
	if g.opt.Once && len(g.leftovers) == 0 {
		// If it cannot be written, the next process looks again.
		_, _ = atomicfile.Note(mark, []byte(clock.Format(time.RFC3339Nano)+"\n"), 0o600)
	}
	return g.leftovers
}
