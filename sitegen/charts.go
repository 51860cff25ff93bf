package sitegen

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// pageHistory makes what the pages show of the past. A generation draws the charts
// of a few hosts only; those of the others stay on the site as they are.
func (g *Generator) pageHistory(
	ctx context.Context, now time.Time, b *board.Board, person func(string) string, mem *memory,
) (past *render.History, problems []snapshot.Problem) {
	if g.opt.History == nil && g.opt.OpenHistory == nil {
		return nil, nil
	}
	past = &render.History{Hosts: map[string]*render.HostPast{}, Kept: map[string]bool{}}
	for i := range b.Hosts {
		if name := b.Hosts[i].Name; g.haveCharts(name) {
			past.Kept[name] = true
		}
	}
	g.loadFleet()
	if g.opt.History != nil {
		for _, err := range []error{g.drawCharts(ctx, now, b, mem, past), g.renewFleet(ctx, now, b, person)} {
			if err != nil && len(problems) == 0 {
				problems = append(problems, snapshot.Problem{Code: "history:unreadable", Message: err.Error()})
			}
		}
	}
	if g.fleet != nil {
		past.Fleet = g.fleet.Past
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
			if !v.has(render.ChartsPath(lang, host)) {
				return false
			}
		}
	}
	return true
}

// drawCharts reads the charts that are due, the oldest first, and for a site of few hosts the last day and week of
// all.
func (g *Generator) drawCharts(
	ctx context.Context, now time.Time, b *board.Board, mem *memory, past *render.History,
) error {
	var due []string
	drawn := make(map[string]time.Time, len(b.Hosts)) // hosts that are gone are forgotten
	for i := range b.Hosts {
		name := b.Hosts[i].Name
		if at, known := mem.Drawn[name]; known && past.Kept[name] {
			drawn[name] = at
		}
		if at := drawn[name]; at.IsZero() || dropPeriod(name, at) != dropPeriod(name, now) {
			due = append(due, name)
		}
	}
	slices.SortStableFunc(due, func(x, y string) int { return drawn[x].Compare(drawn[y]) })
	// So that a thousand hosts, which all have no charts after a start, do not
	// make one generation as long as hundreds.
	due = due[:min(len(due), 8+len(b.Hosts)/64)]
	few := len(b.Hosts) <= render.FullHistoryHosts
	for i := range b.Hosts {
		name, spans := b.Hosts[i].Name, 0
		switch {
		case slices.Contains(due, name):
			spans = render.Spans
		case few && past.Kept[name]:
			spans = 2
		default:
			continue
		}
		read, err := g.readCharts(ctx, name, now, spans)
		if err != nil {
			return err // what could not be read stays on the site as it is
		}
		past.Hosts[name] = read
		if spans == render.Spans {
			drawn[name] = now
			delete(past.Kept, name)
		}
	}
	if !g.opt.Pretend { // what was drawn for another time is not what is due next
		mem.Drawn = drawn
	}
	return nil
}

// readCharts reads the first charts of one host.
func (g *Generator) readCharts(ctx context.Context, name string, now time.Time, spans int) (*render.HostPast, error) {
	past := &render.HostPast{}
	for i := range spans {
		length, n := render.PastLengths()[i], render.PastSteps()[i]
		step := length / time.Duration(n)
		to := now.Truncate(step)
		if i > 0 {
			to = to.Add(step) // long steps begin to show before they are over
		}
		span, err := g.readChart(ctx, name, to.Add(-length), step, n, now)
		if err != nil {
			return nil, err
		}
		past.Spans[i] = span
	}
	return past, nil
}

func (g *Generator) readChart(
	ctx context.Context, host string, from time.Time, step time.Duration, n int, now time.Time,
) (render.PastSpan, error) {
	span := render.PastSpan{From: from.UTC(), Seconds: int64(step / time.Second), GPUs: map[string]render.PastGPU{}}
	means, coverage, err := g.opt.History.HostMeans(ctx, host,
		history.Steps(from, from.Add(time.Duration(n)*step), step),
		history.Utilization, history.Memory, history.Temperature, history.Power, history.Held, history.HostLoad, history.HostMemory)
	if err != nil {
		return span, fmt.Errorf("charts of %s: %w", host, err)
	}
	length := time.Duration(n) * step
	if past := now.Sub(from); past < length {
		coverage *= float64(length) / float64(past) // what is to come is not missing
	}
	span.Coverage = min(coverage, 1)
	slab := make([]int16, len(means)*render.PastMetrics*n) // one allocation instead of one for each list
	some := false
	pack := func(values []float64, unit float64) (list []int16) {
		list, slab = slab[:n:n], slab[n:]
		for i, v := range values {
			v /= unit
			if math.IsNaN(v) || v <= math.MinInt16 || v > math.MaxInt16 {
				list[i] = render.PastUnknown
				continue
			}
			list[i], some = int16(math.Round(v)), true
		}
		return list
	}
	for key, lists := range means {
		if key == "" {
			span.Host.Load = pack(lists[render.PastMetrics], 1)
			span.Host.Memory = pack(lists[render.PastMetrics+1], render.PastHostMemoryUnit)
			continue
		}
		var gpu render.PastGPU
		some = false
		for m := range gpu {
			unit := 1.0
			if m == render.PastMemory {
				unit = render.PastMemoryUnit
			}
			gpu[m] = pack(lists[m], unit)
		}
		if some {
			span.GPUs[key] = gpu
		}
	}
	return span, nil
}
