package history

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// Usage is what was used in a time. A GPU that several people hold is counted in
// fractions, by share of the process memory on it. Only time covered by samples is
// counted: nothing is extrapolated.
type Usage struct {
	GPUHours float64 // held
	// Utilization is the mean while held, in %; nil when nothing was held.
	Utilization *float64
	IdleHours   float64 // of GPUHours: held, and under the idle threshold for five minutes
	EnergyKWh   float64 // of the GPUs held
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
	// Covered is the time for which there are samples, in seconds.
	Covered float64
}

// A FleetStep is the whole fleet in one step; nil where nothing is known. A host
// that was silent for part of a step counts with the rest of the step, if that is
// a fifth of it or ten minutes.
type FleetStep struct {
	GPUs        *float64 // mean number that reported
	Held, Free  *float64 // mean numbers of GPUs
	Utilization *float64 // mean over all GPUs, %
	Watts       *float64 // mean sum
}

// A ClassStep is what the GPUs of one class did in a step; nil where nothing is known.
type ClassStep struct {
	Held, Free *float64 // mean numbers of GPUs
}

// A Fleet is what all hosts did in some time.
type Fleet struct {
	Steps []FleetStep
	// Classes is the steps of the GPUs of each class, such as their model.
	Classes map[string][]ClassStep
	Users   []UserTotal // most GPU-hours first
	Hosts   []HostTotal // by name
}

// Fleet adds up the samples of all hosts between the instants in at ([Steps],
// [Days]): for each step, and by person and host for all of the time. GPUs of the
// class "" are in no class.
func (s *Store) Fleet(ctx context.Context, at []time.Time, class func(Key) string) (Fleet, error) {
	bs, err := bounds(at)
	if s == nil || err != nil {
		return Fleet{}, err
	}
	sums := fleetSums{bounds: bs, hosts: map[*host]*hostSums{}}
	err = s.view(ctx, "the fleet", func(q querier) error {
		return s.tables(ctx, q, nil, bs, wantFleet, sums.add)
	})
	hosts := make([]*hostSums, 0, len(sums.hosts))
	for _, h := range sums.hosts {
		hosts = append(hosts, h)
	}
	// In a fixed order, so that sums of fractions are the same every time.
	slices.SortFunc(hosts, func(a, b *hostSums) int { return strings.Compare(a.host.name, b.host.name) })
	return Fleet{Steps: sums.steps(hosts), Classes: sums.classes(hosts, class), Users: userTotals(hosts), Hosts: hostTotals(hosts)}, err
}

func wantFleet(kind byte, field int) bool {
	if kind != kindGPU {
		return true
	}
	switch field {
	case gKnown, gProcKnown, gHeld, gIdle, gUtil, gUtilKnown, gEnergy:
		return true
	}
	return false
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
	gpus  map[uint32][]heldSums
	users map[uint32]*userSum
}

// stepSums are seconds, and values multiplied by seconds, of one host in one step.
type stepSums struct {
	cover, procCover, free                     float64 // of the host
	known, held, idle, util, utilKnown, energy float64 // of its GPUs
}

// heldSums are the seconds in which a GPU was held, and of which that is known.
type heldSums struct{ held, known float64 }

type userSum [uFields]float64

func (u *userSum) add(o *userSum) {
	for field, v := range o {
		u[field] += v
	}
}

func (u *userSum) usage() Usage {
	out := Usage{GPUHours: u[uHeld] / 36000, IdleHours: u[uIdle] / 36000, EnergyKWh: u[uEnergy] / 3.6e6}
	if u[uHeld] > 0 {
		v := min(u[uUtil]*10/u[uHeld], 100)
		out.Utilization = &v
	}
	return out
}

// add adds one table of a host.
func (f *fleetSums) add(h *host, t table) {
	sums := f.hosts[h]
	if sums == nil {
		sums = &hostSums{host: h, steps: make([]stepSums, len(f.bounds)-1), gpus: map[uint32][]heldSums{}, users: map[uint32]*userSum{}}
		f.hosts[h] = sums
	}
	parts := t.parts(f.bounds)
	for i := range t.rows {
		switch r := &t.rows[i]; r.kind {
		case kindHost:
			for _, p := range parts {
				c := &sums.steps[p.step]
				c.cover += r.at(hCover, p.slot) * p.part
				c.procCover += r.at(hProcCover, p.slot) * p.part
				c.free += r.at(hFree, p.slot) * p.part
			}
		case kindGPU:
			if !h.isSlice(r.id) {
				sums.addGPU(r, parts)
			}
		case kindUser:
			sums.addUser(r, parts)
		}
	}
}

func (s *hostSums) addGPU(r *frameRow, parts []slotPart) {
	gpu := s.gpus[r.id]
	if gpu == nil {
		gpu = make([]heldSums, len(s.steps))
		s.gpus[r.id] = gpu
	}
	for _, p := range parts {
		c := &s.steps[p.step]
		held := r.at(gHeld, p.slot) * p.part
		c.known += r.at(gKnown, p.slot) * p.part
		c.held += held
		c.idle += r.at(gIdle, p.slot) * p.part
		c.util += r.at(gUtil, p.slot) * p.part
		c.utilKnown += r.at(gUtilKnown, p.slot) * p.part
		c.energy += r.at(gEnergy, p.slot) * p.part
		gpu[p.step].held += held
		gpu[p.step].known += r.at(gProcKnown, p.slot) * p.part
	}
}

func (s *hostSums) addUser(r *frameRow, parts []slotPart) {
	user := s.users[r.id]
	if user == nil {
		user = &userSum{}
		s.users[r.id] = user
	}
	for field := range r.cols {
		for _, p := range parts {
			user[field] += r.at(field, p.slot) * p.part
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
			if enough(c.cover, length) {
				plus(&step.GPUs, c.known/c.cover)
				plus(&step.Watts, c.energy/c.cover)
				util, known = util+c.util, known+c.utilKnown
			}
			if enough(c.procCover, length) {
				plus(&step.Held, c.held/c.procCover)
				plus(&step.Free, c.free/c.procCover)
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
func (f *fleetSums) classes(hosts []*hostSums, class func(Key) string) map[string][]ClassStep {
	out := map[string][]ClassStep{}
	for _, h := range hosts {
		for id := range uint32(len(h.host.gpus.text)) {
			name := class(Key{h.host.name, h.host.gpus.name(id)})
			if name == "" || h.gpus[id] == nil {
				continue
			}
			steps := out[name]
			if steps == nil {
				steps = make([]ClassStep, len(f.bounds)-1)
				out[name] = steps
			}
			for i, c := range h.gpus[id] {
				if enough(c.known, f.bounds[i+1]-f.bounds[i]) {
					held := min(c.held/c.known, 1)
					plus(&steps[i].Held, held)
					plus(&steps[i].Free, 1-held)
				}
			}
		}
	}
	return out
}

func userTotals(hosts []*hostSums) []UserTotal {
	sums := map[string]*userSum{}
	for _, h := range hosts {
		for id, user := range h.users {
			name := h.host.users.name(id)
			if sums[name] == nil {
				sums[name] = &userSum{}
			}
			sums[name].add(user)
		}
	}
	var out []UserTotal
	for name, sum := range sums {
		if sum[uHeld] > 0 {
			out = append(out, UserTotal{name, sum.usage()})
		}
	}
	slices.SortFunc(out, func(a, b UserTotal) int {
		return cmp.Or(cmp.Compare(b.GPUHours, a.GPUHours), strings.Compare(a.Name, b.Name))
	})
	return out
}

func hostTotals(hosts []*hostSums) []HostTotal {
	var out []HostTotal
	for _, h := range hosts {
		var sum stepSums
		for _, c := range h.steps {
			sum.cover, sum.free = sum.cover+c.cover, sum.free+c.free
			sum.known, sum.energy = sum.known+c.known, sum.energy+c.energy
			sum.held, sum.idle = sum.held+c.held, sum.idle+c.idle
		}
		if sum.cover == 0 {
			continue
		}
		var people userSum
		for _, id := range slices.Sorted(maps.Keys(h.users)) {
			people.add(h.users[id])
		}
		t := HostTotal{Host: h.host.name, Usage: people.usage(), FreeHours: sum.free / 3600,
			KnownHours: sum.known / 3600, TotalEnergyKWh: sum.energy / 3.6e6, Covered: sum.cover}
		t.GPUHours, t.IdleHours = sum.held/3600, sum.idle/3600
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
