package history

import (
	"context"
	"time"
)

// A Metric is one thing that is known of a GPU over time.
type Metric string

// The metrics, and the unit of their means.
const (
	Utilization     Metric = "utilization"      // %
	PeakUtilization Metric = "peak-utilization" // %, the highest sample
	Memory          Metric = "memory"           // MiB used
	Temperature     Metric = "temperature"      // °C
	PeakTemperature Metric = "peak-temperature" // °C, the highest sample
	Power           Metric = "power"            // W
	Held            Metric = "held"             // % of the time that somebody held memory
)

// fields returns what is divided by what, and what is to be done with it.
func (m Metric) fields() (sum, known int, scale, shift float64, ok bool) {
	switch m {
	case Utilization:
		return gUtil, gUtilKnown, 1, 0, true
	case PeakUtilization:
		return gUtilMax, gUtilKnown, 1, 0, true
	case Memory:
		return gMem, gMemKnown, 1, 0, true
	case Temperature:
		return gTemp, gTempKnown, 1, -tempShift, true
	case PeakTemperature:
		return gTempMax, gTempKnown, 1, -tempShift, true
	case Power:
		return gEnergy, gPowerKnown, 1, 0, true
	case Held:
		return gHeld, gProcKnown, 100, 0, true
	default:
		return 0, 0, 0, 0, false
	}
}

// Series is one metric of one GPU, as the mean of every step from from to to;
// nil where nothing is known. See [Store.HostSeries].
func (s *Store) Series(ctx context.Context, host, gpu string, metric Metric, from, to time.Time, step time.Duration) ([]*float64, error) {
	all, err := s.HostSeries(ctx, host, metric, from, to, step)
	if err != nil {
		return nil, err
	}
	if vs, ok := all[gpu]; ok {
		return vs, nil
	}
	return make([]*float64, max(len(Steps(from, to, step))-1, 0)), nil
}

// HostSeries is one metric of every GPU of a host, by [Key].GPU. Steps that are
// whole multiples of five minutes from a multiple of five minutes are exact
// means over what is known; others are exact as far back as samples are kept as
// they came, and beyond that the buckets are divided in proportion.
func (s *Store) HostSeries(ctx context.Context, name string, metric Metric, from, to time.Time, step time.Duration) (map[string][]*float64, error) {
	out := map[string][]*float64{}
	sum, known, scale, shift, ok := metric.fields()
	bs, err := bounds(Steps(from, to, step))
	if s == nil || !ok || err != nil {
		return out, err
	}
	type acc struct{ sum, known, peak float64 }
	accs := map[uint32][]acc{}
	add := func(gpu uint32, step int, v, k, part float64) {
		a := accs[gpu]
		if a == nil {
			a = make([]acc, len(bs)-1)
			accs[gpu] = a
		}
		a[step].sum += v * part
		a[step].known += k * part
		a[step].peak = max(a[step].peak, v)
	}
	err = s.view(ctx, "a chart of "+name, func(q querier) error {
		h := s.hosts[name]
		if h == nil {
			return nil
		}
		defer func() {
			for gpu, a := range accs {
				vs, ptrs := make([]float64, len(a)), make([]*float64, len(a))
				for i := range a {
					if a[i].known <= 0 {
						continue
					}
					vs[i] = a[i].sum/a[i].known*scale + shift
					if isMax(kindGPU, sum) {
						vs[i] = a[i].peak*scale + shift
					}
					ptrs[i] = &vs[i]
				}
				out[h.gpus.name(gpu)] = ptrs
			}
		}()
		if raw := step.Milliseconds()%fiveMinutes != 0 || bs[0]%fiveMinutes != 0; raw && bs[0] >= (s.pruned+1)*hourMS {
			end := bs[len(bs)-1]
			rs, err := s.readings(ctx, q, h, bs[0]-2*maxHold, end+maxHold, nil)
			if err != nil {
				return err
			}
			for i, b := range rollup(rs, bs[0], step.Milliseconds(), len(bs)-1, 0) {
				for j := range b.gpus {
					g := &b.gpus[j]
					if g.v[known] > 0 {
						add(g.gpu, i, float64(g.v[sum]), float64(g.v[known]), 1)
					}
				}
			}
			return nil
		}
		want := func(kind byte, field int) bool { return kind == kindGPU && (field == sum || field == known) }
		return s.tables(ctx, q, h, bs, want, func(_ *host, t table) {
			for i := range t.rows {
				row := &t.rows[i]
				if row.kind != kindGPU || row.cols[known] == nil {
					continue
				}
				for slot, k := range row.cols[known] {
					if k == 0 {
						continue
					}
					v := float64(row.at(sum, slot))
					spread(bs, t.start+int64(slot)*t.width, t.width, func(step int, part float64) {
						add(row.id, step, v, float64(k), part)
					})
				}
			}
		})
	})
	return out, err
}

// Coverage is the part of every step, 0 to 1, for which samples of the host vouch.
func (s *Store) Coverage(ctx context.Context, name string, at []time.Time) ([]float64, error) {
	bs, err := bounds(at)
	if s == nil || err != nil {
		return make([]float64, max(len(at)-1, 0)), err
	}
	out := make([]float64, len(bs)-1)
	err = s.view(ctx, "coverage", func(q querier) error {
		h := s.hosts[name]
		if h == nil {
			return nil
		}
		want := func(kind byte, field int) bool { return kind == kindHost }
		return s.tables(ctx, q, h, bs, want, func(_ *host, t table) {
			r := t.row(kindHost, 0)
			for slot := range t.slots {
				spread(bs, t.start+int64(slot)*t.width, t.width, func(step int, part float64) {
					out[step] += float64(r.at(hCover, slot)) * part
				})
			}
		})
	})
	for i := range out {
		out[i] = min(out[i]*1000/float64(bs[i+1]-bs[i]), 1)
	}
	return out, err
}
