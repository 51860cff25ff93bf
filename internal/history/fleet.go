package history

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Use is what was used in a time. A GPU that several people hold is counted in
// fractions, by share of the process memory on it. Only time covered by samples is
// counted: nothing is extrapolated.
type Use struct {
	GPUHours float64 // held
	// Utilization is the mean while held, in %; nil when nothing was held.
	Utilization *float64
	IdleHours   float64 // of GPUHours: held, and under the idle threshold for five minutes
	EnergyKWh   float64 // of the GPUs held
}

// Add is the sum of two uses; the mean is weighed by the hours behind it.
func (u Use) Add(v Use) Use {
	sum, hours := 0.0, 0.0
	for _, x := range []Use{u, v} {
		if x.Utilization != nil {
			sum, hours = sum+*x.Utilization*x.GPUHours, hours+x.GPUHours
		}
	}
	out := Use{
		GPUHours: u.GPUHours + v.GPUHours, IdleHours: u.IdleHours + v.IdleHours, EnergyKWh: u.EnergyKWh + v.EnergyKWh,
	}
	if hours > 0 {
		out.Utilization = new(sum / hours)
	}
	return out
}

// A UserTotal is the usage of one person; the name "" stands for processes
// whose owner is not known.
type UserTotal struct {
	Name string
	Use
}

// A HostTotal is the usage of one host.
type HostTotal struct {
	Host string
	Use
	// FreeHours are GPU-hours in which nobody held the GPU, KnownHours all GPU-hours known.
	FreeHours, KnownHours float64
	// TotalEnergyKWh is the energy of all its GPUs, held or not.
	TotalEnergyKWh float64
	// Covered is the time for which there are samples, in seconds.
	Covered float64
}

// A FleetStep is the whole fleet in one step; nil where nothing is known. A host
// that was silent for part of a step counts with the rest of the step, if that is
// a fifth of it or ten minutes.
type FleetStep struct {
	Reported    *float64 `json:"reported"`    // mean number of GPUs
	Held        *float64 `json:"held"`        // mean number of GPUs
	Free        *float64 `json:"free"`        // mean number of GPUs
	Utilization *float64 `json:"utilization"` // mean over all GPUs, %
	Watts       *float64 `json:"watts"`       // mean sum
}

// A Fleet is what all hosts did in some time.
type Fleet struct {
	Steps []FleetStep
	// Free is, for each class of GPUs such as their model, the mean number of GPUs in
	// each step that nobody held; nil where that is not known.
	Free map[string][]*float64
	// Held is the same of the GPUs that somebody held.
	Held  map[string][]*float64
	Users []UserTotal // most GPU-hours first
	// People is, for each of Users, the mean number of GPUs that they held in each step.
	People map[string][]float64
	Hosts  []HostTotal // by name
}

// Fleet adds up the samples of all hosts between the instants in at ([Steps],
// [Days]): for each step, and by person and host for all of the time. GPUs of the
// class "" are in no class.
func (s *Store) Fleet(ctx context.Context, at []time.Time, class func(Key) string) (Fleet, error) {
	bs := bounds(at)
	sums := fleetSums{bounds: bs, hosts: map[*host]*hostSums{}}
	err := s.view(ctx, "the fleet", func(q querier) error {
		return s.tables(ctx, q, s.allHosts(), bs, wantFleet(), sums.add)
	})
	hosts := make([]*hostSums, 0, len(sums.hosts))
	for _, h := range sums.hosts {
		hosts = append(hosts, h)
	}
	// In a fixed order, so that sums of fractions are the same every time.
	slices.SortFunc(hosts, func(a, b *hostSums) int { return strings.Compare(a.host.name, b.host.name) })
	held, free := sums.classes(hosts, class)
	users, people := sums.users(hosts)
	return Fleet{
		Steps: sums.steps(hosts), Held: held, Free: free, Users: users, People: people, Hosts: hostTotals(hosts),
	}, err
}

func wantFleet() wanted {
	return wanted{kindHost: allFields, kindUser: allFields,
		kindGPU: 1<<gKnown | 1<<gProcKnown | 1<<gHeld | 1<<gIdle | 1<<gUtil | 1<<gUtilKnown | 1<<gEnergy}
}

// fleetSums is what Fleet adds up.
type fleetSums struct {
	bounds []int64
	hosts  map[*host]*hostSums
}

// hostSums is what one host adds up to.
type hostSums struct {
	host  *host
	steps []stepSums
	gpus  map[uint32][]cell // how long each was held
	users map[uint32]*userSum
	held  map[uint32][]float64 // of each user, by step
}

// stepSums are the fields of one host in one step, and the sums of its GPUs' fields.
type stepSums struct {
	host [hFields]float64
	gpus [gFields]float64
}

type userSum [uFields]float64

func (u *userSum) usage() Use {
	out := Use{GPUHours: u[uHeld] / 36000, IdleHours: u[uIdle] / 36000, EnergyKWh: u[uEnergy] / 3.6e6}
	if u[uHeld] > 0 {
		out.Utilization = new(min(u[uUtil]*10/u[uHeld], 100))
	}
	return out
}

// plusAll adds each number of a list to that of another.
func plusAll(to, from []float64) {
	for i, v := range from {
		to[i] += v
	}
}

// add adds one table of a host.
func (f *fleetSums) add(h *host, t table) {
	sums := f.hosts[h]
	if sums == nil {
		sums = &hostSums{
			host: h, steps: make([]stepSums, len(f.bounds)-1), gpus: map[uint32][]cell{}, users: map[uint32]*userSum{},
			held: map[uint32][]float64{},
		}
		f.hosts[h] = sums
	}
	parts := t.parts(f.bounds)
	for i := range t.rows {
		r := &t.rows[i]
		if r.kind == kindGPU {
			if h.isSlice(r.id) {
				continue
			}
			if sums.gpus[r.id] == nil {
				sums.gpus[r.id] = make([]cell, len(sums.steps))
			}
			Held.addTo(sums.gpus[r.id], r, parts)
		}
		if r.kind == kindUser && sums.users[r.id] == nil {
			sums.users[r.id], sums.held[r.id] = &userSum{}, make([]float64, len(sums.steps))
		}
		user, held := sums.users[r.id], sums.held[r.id]
		for field, col := range r.cols {
			if col == nil {
				continue
			}
			for _, p := range parts {
				v := float64(col[p.slot]) * p.part
				switch r.kind {
				case kindHost:
					sums.steps[p.step].host[field] += v
				case kindGPU:
					sums.steps[p.step].gpus[field] += v
				case kindUser:
					user[field] += v
					if field == uHeld {
						held[p.step] += v
					}
				}
			}
		}
	}
}

func (f *fleetSums) steps(hosts []*hostSums) []FleetStep {
	out := make([]FleetStep, len(f.bounds)-1)
	for i := range out {
		step := &out[i]
		length := f.bounds[i+1] - f.bounds[i]
		var util, known float64
		for _, h := range hosts {
			c := &h.steps[i]
			if cover := c.host[hCover]; enough(cover, length) {
				plus(&step.Reported, c.gpus[gKnown]/cover)
				plus(&step.Watts, c.gpus[gEnergy]/cover)
				util, known = util+c.gpus[gUtil], known+c.gpus[gUtilKnown]
			}
			if cover := c.host[hProcCover]; enough(cover, length) {
				plus(&step.Held, c.gpus[gHeld]/cover)
				plus(&step.Free, c.host[hFree]/cover)
			}
		}
		if known > 0 {
			plus(&step.Utilization, util/known)
		}
	}
	return out
}

// classes adds up the GPUs of each class. A GPU that was not seen for part of a
// step counts with the rest of the step, if that is enough.
func (f *fleetSums) classes(hosts []*hostSums, class func(Key) string) (held, free map[string][]*float64) {
	held, free = map[string][]*float64{}, map[string][]*float64{}
	for _, h := range hosts {
		for id := range uint32(len(h.host.gpus.text)) {
			name := class(Key{h.host.name, h.host.gpus.name(id)})
			if name == "" || h.gpus[id] == nil {
				continue
			}
			if free[name] == nil {
				held[name], free[name] = make([]*float64, len(f.bounds)-1), make([]*float64, len(f.bounds)-1)
			}
			for i, c := range h.gpus[id] {
				if enough(c.known, f.bounds[i+1]-f.bounds[i]) {
					part := min(c.sum/c.known, 1)
					plus(&held[name][i], part)
					plus(&free[name][i], 1-part)
				}
			}
		}
	}
	return held, free
}

// users adds up what people used, most GPU-hours first, and how many GPUs each held in each step. The latter counts the
// steps of a host that [FleetStep].Held counts; a thousandth of a GPU is enough.
func (f *fleetSums) users(hosts []*hostSums) (totals []UserTotal, people map[string][]float64) {
	sums, people := map[string]*userSum{}, map[string][]float64{}
	for _, h := range hosts {
		for id, user := range h.users {
			name := h.host.users.name(id)
			if sums[name] == nil {
				sums[name], people[name] = &userSum{}, make([]float64, len(f.bounds)-1)
			}
			plusAll(sums[name][:], user[:])
			for i, v := range h.held[id] {
				if cover := h.steps[i].host[hProcCover]; enough(cover, f.bounds[i+1]-f.bounds[i]) {
					people[name][i] += v / 10 / cover
				}
			}
		}
	}
	for name, sum := range sums {
		if sum[uHeld] == 0 {
			delete(people, name)
			continue
		}
		totals = append(totals, UserTotal{name, sum.usage()})
		for i, v := range people[name] {
			people[name][i] = math.Round(v*1000) / 1000
		}
	}
	slices.SortFunc(totals, func(a, b UserTotal) int {
		return cmp.Or(cmp.Compare(b.GPUHours, a.GPUHours), strings.Compare(a.Name, b.Name))
	})
	return totals, people
}

func hostTotals(hosts []*hostSums) []HostTotal {
	var out []HostTotal
	for _, h := range hosts {
		var sum stepSums
		for _, c := range h.steps {
			plusAll(sum.host[:], c.host[:])
			plusAll(sum.gpus[:], c.gpus[:])
		}
		if sum.host[hCover] == 0 {
			continue
		}
		var people userSum
		for _, id := range slices.Sorted(maps.Keys(h.users)) {
			plusAll(people[:], h.users[id][:])
		}
		t := HostTotal{Host: h.host.name, Use: people.usage(), FreeHours: sum.host[hFree] / 3600,
			KnownHours: sum.gpus[gKnown] / 3600, TotalEnergyKWh: sum.gpus[gEnergy] / 3.6e6, Covered: sum.host[hCover]}
		t.GPUHours, t.IdleHours = sum.gpus[gHeld]/3600, sum.gpus[gIdle]/3600
		out = append(out, t)
	}
	return out
}

func plus(p **float64, v float64) {
	if *p == nil {
		*p = new(float64)
	}
	**p += v
}
