package demo

import (
	"slices"
	"time"
)

// A workload is the usage pattern of a job.
type workload int

const (
	steady  workload = iota // training: flat out, with dips to validate
	bursts                  // evaluation: half on, half off
	serving                 // a little all the time, more by day
	held                    // a notebook that holds memory and does nothing
	dead                    // its process is gone, its memory is not
)

// A job is one person's use of one slot.
type job struct {
	span
	user, program string
	workload      workload
	memory        int64 // MiB
	seed          uint64
	container     string
}

// A slot runs one job of a GPU at a time. Its plan is fixed, the rest random.
type slot struct {
	seed     uint64
	capacity int64 // MiB that a job may take
	plan     []planned
	instance int // index of the MIG instance; 0 where there is none
}

// A planned span has a job, or nil for no job.
type planned struct {
	span
	job *job
}

const week = 7 * 24 * time.Hour

// at returns the job that runs at t; nil for none.
func (l *slot) at(t time.Time) *job {
	if jobs := l.between(span{t, t.Add(1)}); len(jobs) > 0 {
		return &jobs[0]
	}
	return nil
}

// between returns the jobs that overlap a span, in order of their start.
func (l *slot) between(s span) []job {
	var list []job
	for n := l.weekOf(s.from); n <= l.weekOf(s.until); n++ {
		for _, j := range l.week(n) {
			if j.overlaps(s) {
				list = append(list, j)
			}
		}
	}
	for _, sc := range l.plan {
		if sc.job != nil && sc.overlaps(s) {
			list = append(list, *sc.job)
		}
	}
	return list
}

// weekOf returns the number of the week of t. Each slot begins its weeks at another hour.
func (l *slot) weekOf(t time.Time) int64 {
	offset := int64(mix(l.seed, 2)%uint64(week/time.Second)) - int64(week/time.Second)
	return (t.Unix() - offset) / int64(week/time.Second)
}

// week returns the random jobs of one week. None overlaps the next week or the plan.
func (l *slot) week(n int64) []job {
	offset := int64(mix(l.seed, 2)%uint64(week/time.Second)) - int64(week/time.Second)
	cursor := time.Unix(offset+n*int64(week/time.Second), 0).UTC()
	end := cursor.Add(week)
	jobs := make([]job, 0, 16)
	for i := uint64(0); ; i++ {
		seed := mix(l.seed, uint64(n)<<16|i)
		cursor = cursor.Add(minutes(10 + 600*unit(seed, 1)*unit(seed, 2)))
		j := random(seed, l.capacity, cursor)
		if !j.until.Before(end) {
			return jobs
		}
		cursor = j.until
		if !l.planned(j.span) {
			jobs = append(jobs, j)
		}
	}
}

func (l *slot) planned(s span) bool {
	return slices.ContainsFunc(l.plan, func(p planned) bool { return p.overlaps(s) })
}

func minutes(m float64) time.Duration { return time.Duration(m*60) * time.Second }

// users returns the people of the lab, each as often as their share of jobs.
func users() [16]string {
	return [...]string{"mira", "mira", "mira", "tomas", "tomas", "tomas", "eva", "eva", "jun", "jun",
		"lea", "sam", "noor", "noor", "kai", "ada"}
}

// uid returns the user id of one of them.
func uid(user string) int64 {
	names := users()
	return 1001 + int64(slices.Index(slices.Compact(names[:]), user))
}

// A kind is a sort of job that people run.
type kind struct {
	workload    workload
	program     string
	share       uint64  // of ten jobs
	memory      float64 // least part of its slot
	spread      float64 // at most this much more
	short, long float64 // minutes
}

func kinds() [6]kind {
	return [...]kind{
		{steady, "train.py", 3, 0.6, 0.35, 360, 2600},
		{steady, "finetune.py", 2, 0.4, 0.4, 120, 600},
		{bursts, "eval.py", 2, 0.15, 0.3, 20, 80},
		{bursts, "sweep.py", 1, 0.3, 0.3, 240, 1200},
		{held, "jupyter", 1, 0.1, 0.5, 120, 600},
		{serving, "serve", 1, 0.5, 0.3, 900, 3600},
	}
}

// random returns a random job that begins at a time.
func random(seed uint64, capacity int64, from time.Time) job {
	n := mix(seed, 4) % 10
	i, all := 0, kinds()
	for ; n >= all[i].share; i++ {
		n -= all[i].share
	}
	k := all[i]
	names := users()
	j := job{seed: seed, user: names[mix(seed, 3)%uint64(len(names))], workload: k.workload, program: k.program}
	j.span = span{from, from.Add(minutes(k.short + (k.long-k.short)*unit(seed, 6)))}
	j.memory = int64((k.memory+k.spread*unit(seed, 5))*float64(capacity)) / 2 * 2
	if mix(seed, 9)%8 == 0 {
		j.container = container(seed)
	}
	return j
}

// pid returns the process of a job. It is above every pid of this machine, because the collector asks this
// machine's kernel whether a process exists.
func (j *job) pid() int { return 1<<22 + int(mix(j.seed, 1000)%4_000_000) }

// utilization returns the utilization in % of the slot.
func (j *job) utilization(t time.Time) float64 {
	since := t.Sub(j.from)
	noise := unit(j.seed, uint64(t.UnixMilli()))
	switch j.workload {
	case steady:
		every := minutes(9 + 20*unit(j.seed, 8))
		if since < 90*time.Second {
			return 10 * noise // loading
		}
		if since%every < 45*time.Second {
			return 5 + 30*noise // validating
		}
		return 93 + 7*noise
	case bursts:
		if since%(4*time.Minute) < 100*time.Second {
			return 15 * noise
		}
		return 55 + 40*noise
	case serving:
		day := float64(t.Hour()*60+t.Minute()) / 1440
		return 8 + 26*max(0, 1-8*(day-0.55)*(day-0.55)) + 10*noise
	default:
		return 0
	}
}
