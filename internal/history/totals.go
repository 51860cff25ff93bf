package history

import (
	"context"
	"sort"
	"time"
)

// Usage is what was used in a time. GPUs that several people hold are counted
// in fractions by share of the process memory on them. Only what samples vouch
// for is counted: nothing is extrapolated.
type Usage struct {
	GPUHours float64 // held
	// Utilization is the mean while held, in %; nil when nothing was held.
	Utilization *float64
	IdleHours   float64 // of GPUHours: held, and under the idle threshold for five minutes
	EnergyKWh   float64 // of the GPUs held
	GiBHours    float64 // memory x time
}

// A UserTotal is the usage of one person; the name "" stands for processes
// whose owner is not known.
type UserTotal struct {
	Name string
	Usage
}

// A HostTotal is the usage of one host.
type HostTotal struct {
	Host string
	Usage
	// FreeHours are GPU-hours in which nobody held the GPU, KnownHours all GPU-hours known.
	FreeHours, KnownHours float64
	// TotalEnergyKWh is the energy of all its GPUs, held or not.
	TotalEnergyKWh float64
	Coverage       float64 // 0 to 1, of the time asked for
}

type userSum [uFields]float64

func (u userSum) usage() Usage {
	out := Usage{GPUHours: u[uHeld] / 36000, IdleHours: u[uIdle] / 36000, EnergyKWh: u[uEnergy] / 3.6e6, GiBHours: u[uMem] / 1024 / 3600}
	if u[uHeld] > 0 {
		v := min(u[uUtil]*10/u[uHeld], 100)
		out.Utilization = &v
	}
	return out
}

// UserTotals sums up who used how much from from to to, most GPU-hours first.
func (s *Store) UserTotals(ctx context.Context, from, to time.Time) ([]UserTotal, error) {
	bs, err := bounds([]time.Time{from, to})
	if s == nil || err != nil {
		return nil, err
	}
	sums := map[string]*userSum{}
	get := func(name string) *userSum {
		if sums[name] == nil {
			sums[name] = &userSum{}
		}
		return sums[name]
	}
	err = s.view(ctx, "user totals", func(q querier) error {
		return s.split(bs, func(first, last int64) error {
			rows, err := q.QueryContext(ctx, `select user, sum(held_ds), sum(util_pct_s), sum(idle_ds), sum(mem_mib_s), sum(energy_j)
				from user_day where day between ? and ? group by user`, first, last)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var name string
				var v userSum
				if err := rows.Scan(&name, &v[uHeld], &v[uUtil], &v[uIdle], &v[uMem], &v[uEnergy]); err != nil {
					return err
				}
				for f, x := range v {
					get(name)[f] += x
				}
			}
			return rows.Err()
		}, func(bs []int64) error {
			want := func(kind byte, _ int) bool { return kind == kindUser }
			return s.tables(ctx, q, nil, bs, want, func(h *host, t table) {
				for i := range t.rows {
					if r := &t.rows[i]; r.kind == kindUser {
						addRow(get(h.users.name(r.id))[:], r, t, bs)
					}
				}
			})
		})
	})
	out := make([]UserTotal, 0, len(sums))
	for name, v := range sums {
		if v[uHeld] > 0 {
			out = append(out, UserTotal{name, v.usage()})
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].GPUHours != out[j].GPUHours {
			return out[i].GPUHours > out[j].GPUHours
		}
		return out[i].Name < out[j].Name
	})
	return out, err
}

// split hands whole days in the middle, which nothing pending can change, to
// days, and what is left to rest.
func (s *Store) split(bs []int64, days func(first, last int64) error, rest func(bs []int64) error) error {
	first, last := -floorDiv(-bs[0], dayMS), floorDiv(bs[1], dayMS)-1
	for _, h := range s.hosts {
		if h.pending() {
			last = min(last, floorDiv(h.pendLo-maxHold, dayMS)-1)
		}
	}
	if first > last {
		return rest(bs)
	}
	if err := days(first, last); err != nil {
		return err
	}
	if bs[0] < first*dayMS {
		if err := rest([]int64{bs[0], first * dayMS}); err != nil {
			return err
		}
	}
	if (last+1)*dayMS < bs[1] {
		return rest([]int64{(last + 1) * dayMS, bs[1]})
	}
	return nil
}

// addRow adds the part of a row between two bounds to sums.
func addRow(sums []float64, r *frameRow, t table, bs []int64) {
	for slot := range t.slots {
		spread(bs, t.start+int64(slot)*t.width, t.width, func(_ int, part float64) {
			for f := range r.cols {
				sums[f] += float64(r.at(f, slot)) * part
			}
		})
	}
}

// HostTotals sums up how much every host was used from from to to, by name.
func (s *Store) HostTotals(ctx context.Context, from, to time.Time) ([]HostTotal, error) {
	bs, err := bounds([]time.Time{from, to})
	if s == nil || err != nil {
		return nil, err
	}
	type sums struct {
		host [hFields]float64
		gpu  [gFields]float64
		user userSum
	}
	all := map[*host]*sums{}
	err = s.view(ctx, "host totals", func(q querier) error {
		return s.tables(ctx, q, nil, bs, nil, func(h *host, t table) {
			a := all[h]
			if a == nil {
				a = &sums{}
				all[h] = a
			}
			for i := range t.rows {
				r := &t.rows[i]
				switch {
				case r.kind == kindHost:
					addRow(a.host[:], r, t, bs)
				case r.kind == kindGPU && !h.isSlice(r.id):
					addRow(a.gpu[:], r, t, bs)
				case r.kind == kindUser:
					addRow(a.user[:], r, t, bs)
				}
			}
		})
	})
	var out []HostTotal
	for h, a := range all {
		if a.host[hCover] == 0 {
			continue
		}
		t := HostTotal{Host: h.name, Usage: a.user.usage(), FreeHours: a.host[hFree] / 3600,
			KnownHours: a.gpu[gKnown] / 3600, TotalEnergyKWh: a.gpu[gEnergy] / 3.6e6,
			Coverage: min(a.host[hCover]*1000/float64(bs[1]-bs[0]), 1)}
		t.GPUHours, t.IdleHours = a.gpu[gHeld]/3600, a.gpu[gIdle]/3600
		out = append(out, t)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Host < out[j].Host })
	return out, err
}

// A FleetStep is the whole fleet in one step; nil where nothing is known. Hosts
// that were silent for part of a step count with what they said in the rest, if
// that is a fifth of the step or ten minutes.
type FleetStep struct {
	From, To    time.Time
	GPUs        *float64 // mean number that reported
	Held, Free  *float64 // mean numbers of GPUs
	Utilization *float64 // mean over all GPUs, %
	Watts       *float64 // mean sum
	Hosts       int      // that said anything
}

// FleetSeries describes the fleet between the instants in at ([Steps], [Days]).
func (s *Store) FleetSeries(ctx context.Context, at []time.Time) ([]FleetStep, error) {
	bs, err := bounds(at)
	if s == nil || err != nil {
		return nil, err
	}
	type cell struct{ cover, proc, free, gpus, held, util, utilKnown, energy float64 }
	all := map[*host][]cell{}
	want := func(kind byte, f int) bool {
		return kind == kindHost || kind == kindGPU && (f == gKnown || f == gHeld || f == gUtil || f == gUtilKnown || f == gEnergy)
	}
	err = s.view(ctx, "the fleet", func(q querier) error {
		return s.tables(ctx, q, nil, bs, want, func(h *host, t table) {
			cs := all[h]
			if cs == nil {
				cs = make([]cell, len(bs)-1)
				all[h] = cs
			}
			for i := range t.rows {
				r := &t.rows[i]
				if r.kind == kindGPU && h.isSlice(r.id) {
					continue
				}
				for slot := range t.slots {
					spread(bs, t.start+int64(slot)*t.width, t.width, func(step int, part float64) {
						c := &cs[step]
						switch r.kind {
						case kindHost:
							c.cover += float64(r.at(hCover, slot)) * part
							c.proc += float64(r.at(hProcCover, slot)) * part
							c.free += float64(r.at(hFree, slot)) * part
						case kindGPU:
							c.gpus += float64(r.at(gKnown, slot)) * part
							c.held += float64(r.at(gHeld, slot)) * part
							c.util += float64(r.at(gUtil, slot)) * part
							c.utilKnown += float64(r.at(gUtilKnown, slot)) * part
							c.energy += float64(r.at(gEnergy, slot)) * part
						}
					})
				}
			}
		})
	})
	hosts := make([]*host, 0, len(all)) // in one order, so that sums are the same every time
	for h := range all {
		hosts = append(hosts, h)
	}
	sort.Slice(hosts, func(i, j int) bool { return hosts[i].name < hosts[j].name })
	out := make([]FleetStep, len(bs)-1)
	for i := range out {
		f := &out[i]
		f.From, f.To = at[i], at[i+1]
		var util, known float64
		for _, h := range hosts {
			c := &all[h][i]
			if enough(c.cover, bs[i+1]-bs[i]) {
				f.Hosts++
				plus(&f.GPUs, c.gpus/c.cover)
				plus(&f.Watts, c.energy/c.cover)
			}
			if enough(c.proc, bs[i+1]-bs[i]) {
				plus(&f.Held, c.held/c.proc)
				plus(&f.Free, c.free/c.proc)
			}
			if enough(c.cover, bs[i+1]-bs[i]) {
				util, known = util+c.util, known+c.utilKnown
			}
		}
		if known > 0 {
			plus(&f.Utilization, util/known)
		}
	}
	return out, err
}

func plus(p **float64, v float64) {
	if *p == nil {
		*p = new(float64)
	}
	**p += v
}
