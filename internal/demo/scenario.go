package demo

import (
	"fmt"
	"time"
)

// container returns the short id of a container.
func container(seed uint64) string { return fmt.Sprintf("%012x", mix(seed, 10)&0xffffffffffff) }

// addScenario plans what the demonstration shows around its start; the rest is random.
// Together with the bookings of [Fleet.Files] there is a GPU in every state.
func (f *Fleet) addScenario() {
	const h = time.Hour
	// on runs a job on a GPU from an offset to the start, without end.
	on := func(host string, gpu int, from time.Duration, user, program string, s workload, memory int64) *job {
		l := f.machine(host).gpus[gpu].slots[0]
		j := &job{span: span{from: f.start.Add(from)}, user: user, program: program, workload: s, memory: memory,
			seed: mix(l.seed, 77)}
		l.plan = append(l.plan, planned{j.span, j})
		return j
	}
	empty := func(host string, from time.Duration, gpus ...int) {
		for _, g := range gpus {
			for _, l := range f.machine(host).gpus[g].slots {
				l.plan = append(l.plan, planned{span: span{from: f.start.Add(from)}})
			}
		}
	}

	for g := range 3 {
		on("atlas", g, -50*h+time.Duration(g)*time.Second, "mira", "train.py", steady, 72900-int64(g)*64)
	}
	on("atlas", 3, -100*time.Minute, "jun", "eval.py", bursts, 67600)
	empty("atlas", -5*h, 4, 5)
	on("atlas", 7, -19*h, "sam", "jupyter", held, 58300)

	empty("boreas", -h, 0, 1, 2, 3)

	empty("ceres", -6*h, 0)
	f.slice("ceres", 2)
	on("ceres", 2, -9*24*h, "kai", "serve", serving, 14900).container = container(f.seed)
	ceres := f.machine("ceres")
	for _, l := range []*slot{ceres.gpus[2].slots[1], ceres.gpus[2].slots[3]} { // one is booked, one is free
		l.plan = append(l.plan, planned{span: span{from: f.start.Add(-7 * h)}})
	}
	ceres.gpus[3].fault = &fault{at: f.start.Add(-4*24*h - 13*time.Minute), xid: 94, errors: 2}

	for g := range 2 {
		on("dione", g, -27*h+time.Duration(g)*time.Second, "tomas", "pretrain.py", steady, 171000)
	}
	f.share("dione", 6)
	empty("dione", -9*h, 5)
	empty("dione", -20*365*24*h, 7)
	f.machine("dione").gpus[7].hidden = true

	on("europa", 0, -11*h, "noor", "sweep.py", bursts, 38200)
	europa := f.machine("europa")
	end := f.start.Add(-9 * h)
	stuck := europa.gpus[1].slots[0]
	crashed := &job{span: span{f.start.Add(-31 * h), end}, user: "kai", program: "train.py", workload: steady,
		memory: 32200, seed: mix(stuck.seed, 77)}
	left := &job{span: span{from: end}, workload: dead, memory: 32200, seed: crashed.seed}
	stuck.plan = append(stuck.plan, planned{crashed.span, crashed}, planned{left.span, left})
	europa.gpus[2].lost = span{from: f.start.Add(-26 * h)}
	empty("europa", -26*h, 2)
	empty("europa", -14*h, 3)

	f.machine("fornax").silence = span{from: f.start.Add(-3 * h)}

	f.machine("gaia").gpus[0].desktop = true
	f.machine("gaia").pulled = true
	f.machine("atlas").gpus[6].fault = &fault{at: f.start.Add(-30*h - 21*time.Minute), xid: 31}
	on("gaia", 0, -50*time.Minute, "lea", "render.py", steady, 20900)

	on("helios", 0, -170*time.Minute, "ada", "eval.py", bursts, 38400)

	on("iris", 0, -8*h, "noor", "finetune.py", steady, 31700)
	empty("iris", -5*h, 1)
	f.machine("iris").stopped = span{from: f.start.Add(2 * time.Minute)}
}

// slice partitions a GPU into MIG instances with a slot each.
func (f *Fleet) slice(host string, gpu int) {
	d := f.machine(host).gpus[gpu]
	seed := d.slots[0].seed
	d.slots = nil
	for i, s := range []struct {
		profile string
		gi      int
		memory  int64
	}{{"3g.20gb", 2, 20096}, {"2g.10gb", 3, 9984}, {"1g.5gb", 9, 4864}, {"1g.5gb", 10, 4864}} {
		d.mig = append(d.mig,
			instance{profile: s.profile, gi: s.gi, memory: s.memory, uuid: uuid("MIG", mix(seed, uint64(i)+40))})
		d.slots = append(d.slots, &slot{seed: mix(seed, uint64(i)+50), capacity: s.memory * 90 / 100, instance: i})
	}
}

// share lets two jobs run on a GPU at the same time, each with half of its memory.
func (f *Fleet) share(host string, gpu int) {
	d := f.machine(host).gpus[gpu]
	seed := d.slots[0].seed
	d.slots = []*slot{{seed: mix(seed, 60), capacity: d.memory * 46 / 100},
		{seed: mix(seed, 61), capacity: d.memory * 46 / 100}}
}
