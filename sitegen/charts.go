package sitegen

import (
	"cmp"
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// pastDir is where what was read from history is kept, below the state
// directory: charts by host, sums by day, and the view of the fleet. All of it
// can be deleted; it is read from history again.
const pastDir = "past"

// maxPastBytes bounds one file of it that is read back.
const maxPastBytes = 16 << 20

// chartPeriods are how long each of a host's four charts stays as it is. The
// first is renewed at every turn of the host (lookEvery).
func chartPeriods() [4]time.Duration {
	return [4]time.Duration{lookEvery, 30 * time.Minute, 3 * time.Hour, 12 * time.Hour}
}

// charts is what this process remembers of the past between generations.
type charts struct {
	hosts map[string]*hostCharts
	days  map[int64]*dayPast // by Unix seconds of their beginning
	fleet *fleetFile
}

// hostCharts are the charts of one host, and when each was made.
type hostCharts struct {
	Past *render.HostPast
	Done [4]time.Time
}

// history makes what the pages show of the past. A generation reads the charts
// of a few hosts only: of those whose turn it is, and of few even then.
func (g *Generator) history(ctx context.Context, now time.Time, b *board.Board, person func(string) string) (*render.History, []snapshot.Problem) {
	if g.opt.History == nil && g.opt.OpenHistory == nil {
		return nil, nil
	}
	if g.charts == nil {
		g.charts = &charts{hosts: map[string]*hostCharts{}, days: map[int64]*dayPast{}}
	}
	if g.opt.History == nil {
		return g.keptPast(b), nil
	}
	batch, err := atomicfile.NewBatch(g.opt.State)
	if err != nil {
		return g.keptPast(b), []snapshot.Problem{{Code: "state:unwritable", Message: err.Error()}}
	}
	defer batch.Abort()

	var problems []snapshot.Problem
	unreadable := func(err error) {
		if err != nil && len(problems) == 0 {
			problems = append(problems, snapshot.Problem{Code: "history:unreadable", Message: err.Error()})
		}
	}
	unreadable(g.hostsPast(ctx, now, b, batch))
	unreadable(g.fleetPast(ctx, now, b, person, batch))
	if !g.opt.Pretend { // what was not seen now is not kept for those who look now
		if err := batch.Commit(); err != nil {
			problems = append(problems, snapshot.Problem{Code: "state:unwritable", Message: err.Error()})
		}
	}

	return g.drawn(b), problems
}

// keptPast is what was drawn last, while history cannot be opened: its pages
// stay as they are.
func (g *Generator) keptPast(b *board.Board) *render.History {
	for i := range b.Hosts {
		if name := b.Hosts[i].Name; g.charts.hosts[name] == nil {
			g.charts.hosts[name] = g.loadCharts(name)
		}
	}
	g.loadFleet()
	return g.drawn(b)
}

// drawn is what there is to show now.
func (g *Generator) drawn(b *board.Board) *render.History {
	past := &render.History{Hosts: make(map[string]*render.HostPast, len(b.Hosts))}
	for i := range b.Hosts {
		if c := g.charts.hosts[b.Hosts[i].Name]; c != nil && c.Past != nil {
			past.Hosts[b.Hosts[i].Name] = c.Past
		}
	}
	if g.charts.fleet != nil {
		past.Fleet = g.charts.fleet.Past
	}
	return past
}

// hostsPast renews the charts whose turn it is, the oldest first.
func (g *Generator) hostsPast(ctx context.Context, now time.Time, b *board.Board, batch *atomicfile.Batch) error {
	var due []string
	here := make(map[string]bool, len(b.Hosts))
	for i := range b.Hosts {
		name := b.Hosts[i].Name
		here[name] = true
		c := g.charts.hosts[name]
		if c == nil {
			c = g.loadCharts(name)
			g.charts.hosts[name] = c
		}
		if c.Past == nil || turn(name, c.Done[0]) != turn(name, now) {
			due = append(due, name)
		}
	}
	for name := range g.charts.hosts {
		if !here[name] {
			delete(g.charts.hosts, name)
			if err := batch.Remove(chartFileName(name)); err != nil {
				return err
			}
		}
	}
	slices.SortStableFunc(due, func(x, y string) int {
		return g.charts.hosts[x].Done[0].Compare(g.charts.hosts[y].Done[0])
	})
	// So that a thousand hosts, which all have no charts after a start, do not
	// make one generation as long as hundreds.
	for _, name := range due[:min(len(due), 8+len(b.Hosts)/64)] {
		c := g.charts.hosts[name]
		next, err := g.hostPast(ctx, name, now, c)
		if err != nil {
			return err
		}
		g.charts.hosts[name] = next
		data, err := next.encode()
		if err != nil {
			return err
		}
		if err := batch.Add(chartFileName(name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// hostPast reads the charts of one host that are due. One of which little is
// known yet is always due: it changes while somebody looks.
func (g *Generator) hostPast(ctx context.Context, name string, now time.Time, old *hostCharts) (*hostCharts, error) {
	next := &hostCharts{Past: &render.HostPast{}, Done: old.Done}
	if old.Past != nil {
		*next.Past = *old.Past
	}
	lengths, steps, periods := render.PastLengths(), render.PastSteps(), chartPeriods()
	for i := range next.Past.Spans {
		age := now.Sub(old.Done[i])
		known := time.Duration(next.Past.Spans[i].Coverage * float64(lengths[i]))
		if old.Past != nil && age >= 0 && age < periods[i] && known > 2*periods[i] && i > 0 {
			continue
		}
		step := lengths[i] / time.Duration(steps[i])
		to := now.Truncate(step)
		if i > 0 {
			to = to.Add(step) // long steps begin to show before they are over
		}
		span, err := g.pastSpan(ctx, name, to.Add(-lengths[i]), step, steps[i], now)
		if err != nil {
			return nil, err
		}
		next.Past.Spans[i], next.Done[i] = span, now
	}
	const five = 5 * time.Minute
	var err error
	next.Past.Fives, err = g.pastSpan(ctx, name, now.Truncate(five).Add(-12*five), five, 12, now)
	return next, err
}

func (g *Generator) pastSpan(ctx context.Context, host string, from time.Time, step time.Duration, n int, now time.Time) (render.PastSpan, error) {
	span := render.PastSpan{From: from.UTC(), Step: step, GPUs: map[string]render.PastGPU{}}
	means, coverage, err := g.opt.History.HostMeans(ctx, host, history.Steps(from, from.Add(time.Duration(n)*step), step),
		history.Utilization, history.Memory, history.Temperature, history.Power, history.Held)
	if err != nil {
		return span, err
	}
	length := time.Duration(n) * step
	if past := now.Sub(from); past < length {
		coverage *= float64(length) / float64(past) // what is to come is not missing
	}
	span.Coverage = min(coverage, 1)
	slab := make([]int16, len(means)*render.PastMetrics*n) // one piece instead of forty
	for key, lists := range means {
		var gpu render.PastGPU
		some := false
		for m := range gpu {
			gpu[m], slab = slab[:n:n], slab[n:]
			for i, v := range lists[m] {
				if m == render.PastMemory {
					v /= render.PastMemoryUnit
				}
				if math.IsNaN(v) || v <= math.MinInt16 || v > math.MaxInt16 {
					gpu[m][i] = render.PastUnknown
					continue
				}
				gpu[m][i], some = int16(math.Round(v)), true
			}
		}
		if some {
			span.GPUs[key] = gpu
		}
	}
	return span, nil
}

// teams are the members of each team; what is wrong with the file is said
// where the aliases in it are read.
func (g *Generator) teams() map[string][]string {
	data, err := atomicfile.Read(g.opt.Aliases, 1<<20)
	if err != nil {
		return nil
	}
	teams, _ := booking.ParseTeams(data)
	return teams
}

// sweepPast removes days that no chart reaches any more.
func (g *Generator) sweepPast(before time.Time, batch *atomicfile.Batch) error {
	for start := range g.charts.days {
		if start < before.Unix() {
			delete(g.charts.days, start)
		}
	}
	entries, err := os.ReadDir(filepath.Join(g.opt.State, pastDir))
	if err != nil {
		return nil // there is nothing to sweep
	}
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), "day-")
		if ok && cmp.Less(name, before.UTC().Format(dayName)) {
			if err := batch.Remove(pastDir + "/" + e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}
