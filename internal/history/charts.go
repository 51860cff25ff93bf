package history

import (
	"context"
	"database/sql"
	"math"
	"time"
)

// enough reports whether so many seconds of a step (ms) are worth a mean: a
// fifth of it, or ten minutes. The last sample before an outage stands for a
// little longer than it was true; that must not fill an hour.
func enough(known float64, step int64) bool {
	return known > 0 && known*1000 >= float64(min(step/5, 600_000))
}

// A Metric is one thing that is known of a GPU, or of a host, over time.
type Metric int

// The metrics, and the unit of their means.
const (
	Utilization Metric = iota // %
	Memory                    // MiB used
	Temperature               // °C
	Power                     // W
	Held                      // % of the time that somebody held memory
	HostLoad                  // % of its cores
	HostMemory                // MiB used
)

// metricFields says how the mean of a metric is computed: which kind of rows has it, the field of its sum and the field
// of the seconds by which that is divided, and how the mean is scaled and shifted.
type metricFields struct {
	kind         byte
	sum, known   int
	scale, shift float64
}

func (m Metric) fields() metricFields {
	return [...]metricFields{
		Utilization: {kindGPU, gUtil, gUtilKnown, 1, 0},
		Memory:      {kindGPU, gMem, gMemKnown, 1, 0},
		Temperature: {kindGPU, gTemp, gTempKnown, 1, -tempShift},
		Power:       {kindGPU, gEnergy, gPowerKnown, 1, 0},
		Held:        {kindGPU, gHeld, gProcKnown, 100, 0},
		HostLoad:    {kindOwn, oLoad, oLoadKnown, 1, 0},
		HostMemory:  {kindOwn, oMem, oMemKnown, HostMemoryUnit, 0},
	}[m]
}

// A cell is the sum of a metric in one step, and the seconds for which it is known.
type cell struct{ sum, known float64 }

// addTo adds what a row of a GPU has of the metric to the cells of the steps.
func (m Metric) addTo(cells []cell, row *frameRow, parts []slotPart) {
	f := m.fields()
	for _, p := range parts {
		c := &cells[p.step]
		c.sum += row.at(f.sum, p.slot) * p.part
		c.known += row.at(f.known, p.slot) * p.part
	}
}

// HostMeans returns several metrics of a host and of each of its GPUs between any instants
// ([Steps]). The key is [Key].GPU, or "" for the host. Each value has one list for each metric:
// nil if the host or the GPU does not have that metric, else a mean for each step, which is
// NaN where too little is known ([enough]). Steps from a multiple of five minutes to
// another are exact means over what is known; of others the buckets are divided in
// proportion. coverage is the part of the whole time, 0 to 1, for which there are
// samples of the host.
func (s *Store) HostMeans(
	ctx context.Context, name string, at []time.Time, metrics ...Metric,
) (means map[string][][]float64, coverage float64, err error) {
	out := map[string][][]float64{}
	bs := bounds(at)
	all := map[string][][]cell{} // by metric, a cell for each step
	want := wanted{kindHost: 1 << hCover}
	for _, m := range metrics {
		want[m.fields().kind] |= 1<<m.fields().sum | 1<<m.fields().known
	}
	err = s.view(ctx, "the charts of "+name, func(q querier) error {
		h := s.hosts[name]
		if h == nil {
			return nil
		}
		err := s.tables(ctx, q, []*host{h}, bs, want, func(_ *host, t table) {
			parts := t.parts(bs)
			for i := range t.rows {
				row, name := &t.rows[i], "" // of the host
				switch row.kind {
				case kindHost:
					for _, p := range parts {
						coverage += row.at(hCover, p.slot) * p.part
					}
					continue
				case kindGPU:
					name = h.gpus.name(row.id)
				case kindOwn:
				default:
					continue
				}
				if all[name] == nil {
					all[name] = make([][]cell, len(metrics))
				}
				for m, metric := range metrics {
					if metric.fields().kind != row.kind {
						continue
					}
					if all[name][m] == nil {
						all[name][m] = make([]cell, len(bs)-1)
					}
					metric.addTo(all[name][m], row, parts)
				}
			}
		})
		for name, cells := range all {
			out[name] = make([][]float64, len(metrics))
			for m, f := range metrics {
				for i, c := range cells[m] {
					mean := math.NaN()
					if enough(c.known, bs[i+1]-bs[i]) {
						mean = c.sum/c.known*f.fields().scale + f.fields().shift
					}
					out[name][m] = append(out[name][m], mean)
				}
			}
		}
		return err
	})
	return out, min(coverage*1000/float64(bs[len(bs)-1]-bs[0]), 1), err
}

// Known returns the beginning of the first day of which anything is kept, and when the newest sample was taken; zero
// when nothing is.
func (s *Store) Known(ctx context.Context) (oldest, newest time.Time, err error) {
	err = s.view(ctx, "its beginning", func(q querier) error {
		var day sql.NullInt64
		if err := q.QueryRowContext(ctx, "select min(id) from day").Scan(&day); err != nil {
			return err
		}
		first := int64(math.MaxInt64)
		if day.Valid {
			first = day.Int64 >> idBits
		}
		for _, h := range s.hosts {
			if len(h.window) > 0 {
				first = min(first, floorDiv(h.window[0].At, dayMS))
			}
		}
		if first < math.MaxInt64 {
			oldest, newest = time.UnixMilli(first*dayMS).UTC(), time.UnixMilli(s.lastAt).UTC()
		}
		return nil
	})
	return oldest, newest, err
}
