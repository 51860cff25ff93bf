package history

import (
	"context"
	"math"
	"sort"
	"time"
)

// enough reports whether so many seconds of a step (ms) are worth a mean: a
// fifth of it, or ten minutes. The last sample before an outage stands for a
// little longer than it was true; that must not fill an hour.
func enough(known float64, step int64) bool {
	return known > 0 && known*1000 >= float64(min(step/5, 600_000))
}

// A Metric is one thing that is known of a GPU over time.
type Metric string

// The metrics, and the unit of their means.
const (
	Utilization Metric = "utilization" // %
	Memory      Metric = "memory"      // MiB used
	Temperature Metric = "temperature" // °C
	Power       Metric = "power"       // W
	Held        Metric = "held"        // % of the time that somebody held memory
)

// fields returns what is divided by what, and what is to be done with it.
func (m Metric) fields() (sum, known int, scale, shift float64, ok bool) {
	switch m {
	case Utilization:
		return gUtil, gUtilKnown, 1, 0, true
	case Memory:
		return gMem, gMemKnown, 1, 0, true
	case Temperature:
		return gTemp, gTempKnown, 1, -tempShift, true
	case Power:
		return gEnergy, gPowerKnown, 1, 0, true
	case Held:
		return gHeld, gProcKnown, 100, 0, true
	default:
		return 0, 0, 0, 0, false
	}
}

// HostMeans is several metrics of every GPU of a host between any instants
// ([Steps]), from one reading: by [Key].GPU, a list for each metric, a mean for
// each step, and NaN where too little is known ([enough]). Steps from a multiple
// of five minutes to another are exact means over what is known; of others the
// buckets are divided in proportion. coverage is the part of the whole time, 0
// to 1, for which samples of the host vouch.
func (s *Store) HostMeans(ctx context.Context, name string, at []time.Time, metrics ...Metric) (means map[string][][]float64, coverage float64, err error) {
	out := map[string][][]float64{}
	bs, err := bounds(at)
	if s == nil || err != nil {
		return out, 0, err
	}
	type cell struct{ sum, known float64 }
	all := map[uint32][][]cell{}
	var wanted [gFields]bool
	for _, m := range metrics {
		if sum, known, _, _, ok := m.fields(); ok {
			wanted[sum], wanted[known] = true, true
		}
	}
	err = s.view(ctx, "the charts of "+name, func(q querier) error {
		h := s.hosts[name]
		if h == nil {
			return nil
		}
		want := func(kind byte, field int) bool {
			return kind == kindGPU && wanted[field] || kind == kindHost && field == hCover
		}
		err := s.tables(ctx, q, h, bs, want, func(_ *host, t table) {
			for i := range t.rows {
				row := &t.rows[i]
				if row.kind == kindHost {
					for slot := range t.slots {
						spread(bs, t.start+int64(slot)*t.width, t.width, func(_ int, part float64) {
							coverage += float64(row.at(hCover, slot)) * part
						})
					}
				}
				if row.kind != kindGPU {
					continue
				}
				cells := all[row.id]
				if cells == nil {
					cells = make([][]cell, len(metrics))
					for m := range cells {
						cells[m] = make([]cell, len(bs)-1)
					}
					all[row.id] = cells
				}
				for m, metric := range metrics {
					sum, known, _, _, ok := metric.fields()
					if !ok || row.cols[known] == nil {
						continue
					}
					for slot, k := range row.cols[known] {
						if k == 0 {
							continue
						}
						v := float64(row.at(sum, slot))
						spread(bs, t.start+int64(slot)*t.width, t.width, func(step int, part float64) {
							c := &cells[m][step]
							c.sum += v * part
							c.known += float64(k) * part
						})
					}
				}
			}
		})
		for gpu, cells := range all {
			lists := make([][]float64, len(metrics))
			for m, metric := range metrics {
				_, _, scale, shift, _ := metric.fields()
				lists[m] = make([]float64, len(bs)-1)
				for i, c := range cells[m] {
					lists[m][i] = math.NaN()
					if enough(c.known, bs[i+1]-bs[i]) {
						lists[m][i] = c.sum/c.known*scale + shift
					}
				}
			}
			out[h.gpus.name(gpu)] = lists
		}
		return err
	})
	return out, min(coverage*1000/float64(bs[len(bs)-1]-bs[0]), 1), err
}

// A ClassStep is what the GPUs of one class did in a step; nil where nothing is known.
type ClassStep struct {
	Held, Free *float64 // mean numbers of GPUs
}

// FleetClasses describes the GPUs of the fleet by class, such as their model,
// between the instants in at. GPUs of the class "" are left out. GPUs that were
// not seen for part of a step count with what they were in the rest, if that is enough.
func (s *Store) FleetClasses(ctx context.Context, at []time.Time, class func(Key) string) (map[string][]ClassStep, error) {
	out := map[string][]ClassStep{}
	bs, err := bounds(at)
	if s == nil || err != nil {
		return out, err
	}
	type gpu struct {
		host *host
		id   uint32
	}
	type cell struct{ held, known float64 }
	cells := map[gpu][]cell{}
	classes := map[gpu]string{}
	var order []gpu
	want := func(kind byte, f int) bool { return kind == kindGPU && (f == gHeld || f == gProcKnown) }
	err = s.view(ctx, "the fleet by class", func(q querier) error {
		return s.tables(ctx, q, nil, bs, want, func(h *host, t table) {
			for i := range t.rows {
				r := &t.rows[i]
				if r.kind != kindGPU || r.cols[gProcKnown] == nil || h.isSlice(r.id) {
					continue
				}
				g := gpu{h, r.id}
				cs, seen := cells[g]
				if !seen {
					name := class(Key{h.name, h.gpus.name(r.id)})
					if name != "" {
						cs = make([]cell, len(bs)-1)
						classes[g] = name
						order = append(order, g)
					}
					cells[g] = cs
				}
				if cs == nil {
					continue
				}
				for slot, k := range r.cols[gProcKnown] {
					if k == 0 {
						continue
					}
					spread(bs, t.start+int64(slot)*t.width, t.width, func(step int, part float64) {
						cs[step].held += float64(r.at(gHeld, slot)) * part
						cs[step].known += float64(k) * part
					})
				}
			}
		})
	})
	sort.Slice(order, func(i, j int) bool { // sums are the same every time
		a, b := order[i], order[j]
		return a.host.name < b.host.name || a.host == b.host && a.id < b.id
	})
	for _, g := range order {
		steps := out[classes[g]]
		if steps == nil {
			steps = make([]ClassStep, len(bs)-1)
			out[classes[g]] = steps
		}
		for i, c := range cells[g] {
			if enough(c.known, bs[i+1]-bs[i]) {
				held := min(c.held/c.known, 1)
				plus(&steps[i].Held, held)
				plus(&steps[i].Free, 1-held)
			}
		}
	}
	return out, err
}

// Oldest is the beginning of the first day of which anything is kept; zero when
// nothing is.
func (s *Store) Oldest(ctx context.Context) (time.Time, error) {
	var oldest time.Time
	if s == nil {
		return oldest, nil
	}
	err := s.view(ctx, "its beginning", func(q querier) error {
		var id *int64
		if err := q.QueryRowContext(ctx, "select min(id) from day").Scan(&id); err != nil {
			return err
		}
		first := int64(math.MaxInt64)
		if id != nil {
			first = *id / blobID(1, 0)
		}
		for _, h := range s.hosts {
			if h.pending() {
				first = min(first, floorDiv(h.pendLo, dayMS))
			}
		}
		if first < math.MaxInt64 {
			oldest = time.UnixMilli(first * dayMS).UTC()
		}
		return nil
	})
	return oldest, err
}
