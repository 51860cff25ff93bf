package sitegen

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// pastDir is where what was read from history is kept, below the state
// directory: charts by host, sums by day, and the view of the fleet. All of it
// can be deleted; it is read from history again.
const (
	pastDir    = "past"
	drawnName  = pastDir + "/drawn.json"
	chartsName = pastDir + "/host-%s.json"
)

// maxPastBytes bounds one file of it that is read back.
const maxPastBytes = 16 << 20

// chartPeriods are how long each of a host's four charts stays as it is. The
// first is renewed in every period of the host (dropPeriod).
func chartPeriods() [4]time.Duration {
	return [4]time.Duration{lookEvery, 30 * time.Minute, 3 * time.Hour, 12 * time.Hour}
}

// charts is what this process remembers of the past between generations.
type charts struct {
	drawn map[string]time.Time   // by host, when its charts were last drawn
	hosts map[string]*hostCharts // of a site with few hosts
	days  map[int64]*dayPast     // by Unix seconds of their beginning
	fleet *fleetFile
}

// hostCharts are the charts of one host, and when each was made.
type hostCharts struct {
	Past *render.HostPast
	Done [4]time.Time
}

// pageHistory makes what the pages show of the past. A generation draws the charts
// of a few hosts only.
func (g *Generator) pageHistory(ctx context.Context, now time.Time, b *board.Board, person func(string) string) (past *render.History, problems []snapshot.Problem) {
	if g.opt.History == nil && g.opt.OpenHistory == nil {
		return nil, nil
	}
	if g.charts == nil {
		g.charts = &charts{drawn: map[string]time.Time{}, hosts: map[string]*hostCharts{}, days: map[int64]*dayPast{}}
		if !g.readPast(drawnName, &g.charts.drawn) {
			clear(g.charts.drawn)
		}
	}
	g.loadFleet()
	past = &render.History{Hosts: map[string]*render.HostPast{}, Kept: map[string]bool{}}
	if g.opt.History != nil {
		problems = g.renewPast(ctx, now, b, person, past)
	}
	if g.charts.fleet != nil {
		past.Fleet = g.charts.fleet.Past
	}
	few := len(b.Hosts) <= render.FullHistoryHosts
	for i := range b.Hosts {
		name := b.Hosts[i].Name
		switch {
		case past.Hosts[name] != nil:
		case few:
			g.charts.hosts[name] = g.oldCharts(name)
			past.Hosts[name] = g.charts.hosts[name].Past
		case g.haveCharts(name):
			past.Kept[name] = true
		default:
			past.Hosts[name] = g.loadCharts(name).Past
		}
		if past.Hosts[name] == nil {
			delete(past.Hosts, name)
		}
	}
	return past, problems
}

// haveCharts reports whether the page with the charts of a host is in all sites, in
// all languages.
func (g *Generator) haveCharts(host string) bool {
	for _, v := range g.views {
		for i, lang := range g.opt.About.Languages {
			if i == 0 {
				lang = ""
			}
			if _, err := os.Lstat(filepath.Join(v.dir, filepath.FromSlash(render.ChartsPath(lang, host)))); err != nil {
				return false
			}
		}
	}
	return true
}

// renewPast reads from history what is due, and keeps it for the next process.
// The charts that were read go into past.
func (g *Generator) renewPast(ctx context.Context, now time.Time, b *board.Board, person func(string) string, past *render.History) (problems []snapshot.Problem) {
	batch, err := atomicfile.NewBatch(g.opt.State)
	if err != nil {
		return []snapshot.Problem{{Code: "state:unwritable", Message: err.Error()}}
	}
	defer batch.Abort()
	for _, err := range []error{g.renewCharts(ctx, now, b, batch, past), g.renewFleet(ctx, now, b, person, batch)} {
		if err != nil && len(problems) == 0 {
			problems = append(problems, snapshot.Problem{Code: "history:unreadable", Message: err.Error()})
		}
	}
	if !g.opt.Pretend { // what was not seen now is not kept for those who look now
		if err := batch.Commit(); err != nil {
			problems = append(problems, snapshot.Problem{Code: "state:unwritable", Message: err.Error()})
		}
	}
	return problems
}

// renewCharts renews the charts that are due, the oldest first.
func (g *Generator) renewCharts(ctx context.Context, now time.Time, b *board.Board, batch *atomicfile.Batch, past *render.History) error {
	var due []string
	drawn := g.charts.drawn
	here := make(map[string]bool, len(b.Hosts))
	for i := range b.Hosts {
		name := b.Hosts[i].Name
		here[name] = true
		if at := drawn[name]; at.IsZero() || dropPeriod(name, at) != dropPeriod(name, now) {
			due = append(due, name)
		}
	}
	for name := range drawn {
		if !here[name] {
			delete(drawn, name)
			delete(g.charts.hosts, name)
			if err := batch.Remove(fmt.Sprintf(chartsName, name)); err != nil {
				return err
			}
		}
	}
	slices.SortStableFunc(due, func(x, y string) int { return drawn[x].Compare(drawn[y]) })
	// So that a thousand hosts, which all have no charts after a start, do not
	// make one generation as long as hundreds.
	due = due[:min(len(due), 8+len(b.Hosts)/64)]
	for _, name := range due {
		next, err := g.readCharts(ctx, name, now, g.oldCharts(name))
		if err != nil {
			return err
		}
		if len(b.Hosts) <= render.FullHistoryHosts {
			g.charts.hosts[name] = next
		}
		past.Hosts[name] = next.Past
		drawn[name] = now
		if err := addPast(batch, fmt.Sprintf(chartsName, name), next); err != nil {
			return err
		}
	}
	if len(due) == 0 {
		return nil
	}
	return addPast(batch, drawnName, drawn)
}

// oldCharts are the charts of a host as they were last drawn, from memory or from their file.
func (g *Generator) oldCharts(host string) *hostCharts {
	if c := g.charts.hosts[host]; c != nil {
		return c
	}
	return g.loadCharts(host)
}

// loadCharts reads what an earlier generation kept; what cannot be read is made anew.
func (g *Generator) loadCharts(host string) *hostCharts {
	c := &hostCharts{}
	if !g.readPast(fmt.Sprintf(chartsName, host), c) || c.Past == nil || !c.Past.Sound() {
		return &hostCharts{}
	}
	return c
}

// readPast reads a file that addPast wrote.
func (g *Generator) readPast(name string, into any) bool {
	data, err := atomicfile.Read(filepath.Join(g.opt.State, name), maxPastBytes)
	return err == nil && json.Unmarshal(data, into) == nil
}

func addPast(batch *atomicfile.Batch, name string, what any) error {
	data, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("keeping %s: %w", name, err)
	}
	return batch.Add(name, data, 0o600)
}

// readCharts reads the charts of one host that are due. One of which little is
// known yet is always due: it changes while somebody looks.
func (g *Generator) readCharts(ctx context.Context, name string, now time.Time, old *hostCharts) (*hostCharts, error) {
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
		span, err := g.readChart(ctx, name, to.Add(-lengths[i]), step, steps[i], now)
		if err != nil {
			return nil, err
		}
		next.Past.Spans[i], next.Done[i] = span, now
	}
	return next, nil
}

func (g *Generator) readChart(ctx context.Context, host string, from time.Time, step time.Duration, n int, now time.Time) (render.PastSpan, error) {
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
	slab := make([]int16, len(means)*render.PastMetrics*n) // one allocation instead of one for each list
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
