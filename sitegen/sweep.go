package sitegen

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
)

const (
	// sweepEvery is how often leftovers are looked for: a walk through all
	// directories is an eighth of what a generation of a small fleet costs.
	sweepEvery = 5 * time.Minute
	// leftAfter is the age from which an unfinished file belongs to nobody. After a
	// generation that did not end, they all do, of any age.
	leftAfter = 10 * time.Minute
	anyAge    = math.MinInt64
)

// sweep removes the unfinished files that a killed generator left in the sites
// and in the state directory, and what does not belong in the drops. What cannot
// be removed is a problem on the board.
func (g *Generator) sweep(now time.Time, mem *memory, interrupted bool) (problems []snapshot.Problem) {
	clock := time.Now() // now may be pretended
	left := time.Duration(leftAfter)
	if interrupted {
		left = anyAge
	} else if age := clock.Sub(mem.Swept); age >= 0 && age < sweepEvery {
		return nil
	}
	dirs := []string{g.opt.State}
	for _, v := range g.views {
		if v.fs == nil {
			dirs = append(dirs, v.dir)
		}
	}
	for _, dir := range dirs {
		if _, err := atomicfile.Sweep(dir, left, now); err != nil {
			problems = append(problems, snapshot.Problem{
				Code: "state:leftovers", File: filepath.Base(dir), Message: err.Error(),
			})
		}
	}
	more, drops := g.sweepDrops(now, clock)
	problems = append(problems, drops...)
	if !more && len(problems) == 0 {
		mem.Swept = clock
	}
	return problems
}

// sweepDrops removes what does not belong in the drops, and says which hold more
// than they may. more is true when there is something left that can be removed.
func (g *Generator) sweepDrops(now, clock time.Time) (more bool, problems []snapshot.Problem) {
	if g.opt.Pretend {
		return false, nil
	}
	var older fs.FileInfo // the directory of the older scripts, which may be anywhere
	if dir := LegacyDir(g.opt.Legacy, g.opt.Data); dir != "" {
		older, _ = os.Stat(dir) // legacy.Read says what is wrong with it
	}
	hosts, _ := g.drops.Hosts() // the inventory says what is wrong with them
	for _, host := range hosts {
		drop := filepath.Join(g.opt.Data, "drop", host)
		if older != nil && (isDir(drop, older) || isDir(filepath.Join(drop, spool.InnerName), older)) {
			continue
		}
		l, err := g.drops.Sweep(host, now, clock)
		if err != nil {
			continue // Latest says it, for the host has no news then
		}
		if p := Overfull(host, l); p.Code != "" && len(problems) < snapshot.MaxErrors {
			problems = append(problems, p)
		}
		more = more || l.More && l.Removed > 0
	}
	return more, problems
}

// Overfull is the problem with what a drop holds, the zero value for none.
func Overfull(host string, l spool.Usage) snapshot.Problem {
	left := l.Stray - l.Removed
	p := snapshot.Problem{Host: host}
	atLeast := ""
	if l.More {
		atLeast = "at least "
	}
	switch {
	case l.OverLimit():
		p.Code = "drop:full"
		p.Message = fmt.Sprintf("drop/%s contains %s%d files and %s; the limit is %d files and %s",
			host, atLeast, l.Files, mebibytes(l.Bytes), spool.MaxDropFiles, mebibytes(spool.MaxDropBytes))
	case l.RemoveErr != nil && left > spool.MaxIgnoredStray:
		p.Code = "drop:unswept"
		p.Message = fmt.Sprintf("drop/%s contains %d files and %s; %d of the files do not belong there",
			host, l.Files, mebibytes(l.Bytes), left)
	default:
		return p
	}
	switch {
	case l.RemoveErr != nil:
		var path *fs.PathError
		if errors.As(l.RemoveErr, &path) {
			l.RemoveErr = path.Err // without the name, which the node chose
		}
		p.Message += fmt.Sprintf("; the generator cannot remove them: %v", l.RemoveErr)
	case l.Removed > 0:
		p.Message += fmt.Sprintf("; %d files with %s were removed", l.Removed, mebibytes(l.RemovedBytes))
	}
	p.Message = snapshot.Text(p.Message, snapshot.MaxTextBytes)
	return p
}

// isDir reports whether path is the directory that info describes.
func isDir(path string, info fs.FileInfo) bool {
	own, err := os.Stat(path)
	return err == nil && os.SameFile(own, info)
}

// mebibytes rounds up.
func mebibytes(n int64) string {
	whole := n >> 20
	if n&(1<<20-1) > 0 {
		whole++
	}
	return fmt.Sprintf("%d MiB", whole)
}
