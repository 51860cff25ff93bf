package sitegen

import (
	"path/filepath"
	"time"

	"gpuboard/atomicfile"
	"gpuboard/snapshot"
)

const (
	// sweepEvery is how often a generator that goes on looks for what a killed one
	// left; a new one looks at once.
	sweepEvery = 10 * time.Minute
	// leftAfter is the age at which an unfinished file is surely nobody's.
	leftAfter = 10 * time.Minute
)

// sweep removes the unfinished files that a killed generator left in the sites
// and in the state directory. What cannot be removed harms nobody, so it is said
// on the board and stops nothing.
func (g *Generator) sweep(now time.Time) []snapshot.Problem {
	clock := time.Now() // now may be pretended
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
	return g.leftovers
}
