package demo

import "time"

// A workload is the usage pattern of a job.
type workload int

const (
	steady  workload = iota // training: flat out, with dips to validate
	bursts                  // evaluation: half on, half off
	sweep                   // short runs, one after the other
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

// A slot runs one job of a GPU at a time. Its plan is fixed; the time between is filled at
// random.
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
	for i := range l.plan {
		if l.plan[i].has(t) {
			return l.plan[i].job
		}
	}
	for _, j := range l.week(l.weekOf(t)) {
		if j.has(t) {
			return &j
		}
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
	var jobs []job
	for i := uint64(0); ; i++ {
		seed := mix(l.seed, uint64(n)<<16|i)
		cursor = cursor.Add(minutes(10 + 600*unit(seed, 1)*unit(seed, 2)))
		j := random(seed, l.capacity)
		j.from = cursor
		j.until = cursor.Add(j.length(seed))
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
	for i := range l.plan {
		if l.plan[i].overlaps(s) {
			return true
		}
	}
	return false
}

func minutes(m float64) time.Duration { return time.Duration(m*60) * time.Second }

// users returns the people of the lab, each as often as their share of jobs.
func users() []string {
	return []string{"mira", "mira", "mira", "tomas", "tomas", "tomas", "eva", "eva", "jun", "jun", "lea", "sam", "noor", "noor", "kai", "ada"}
}

// uid returns the user id of a login name; 0 for an unknown one.
func uid(user string) int64 {
	for i, name := range []string{"mira", "tomas", "eva", "jun", "lea", "sam", "noor", "kai", "ada"} {
		if name == user {
			return int64(1001 + i)
		}
	}
	return 0
}

// random returns a random job without its span.
func random(seed uint64, capacity int64) job {
	names := users()
	j := job{seed: seed, user: names[mix(seed, 3)%uint64(len(names))]}
	part := 0.0
	switch mix(seed, 4) % 10 {
	case 0, 1, 2:
		j.workload, j.program, part = steady, "train.py", 0.6+0.35*unit(seed, 5)
	case 3, 4:
		j.workload, j.program, part = steady, "finetune.py", 0.4+0.4*unit(seed, 5)
	case 5, 6:
		j.workload, j.program, part = bursts, "eval.py", 0.15+0.3*unit(seed, 5)
	case 7:
		j.workload, j.program, part = sweep, "sweep.py", 0.3+0.3*unit(seed, 5)
	case 8:
		j.workload, j.program, part = held, "jupyter", 0.1+0.5*unit(seed, 5)
	default:
		j.workload, j.program, part = serving, "serve", 0.5+0.3*unit(seed, 5)
	}
	j.memory = int64(part*float64(capacity)) / 2 * 2
	if mix(seed, 9)%8 == 0 {
		j.container = container(seed)
	}
	return j
}

// length returns the duration of a random job.
func (j *job) length(seed uint64) time.Duration {
	short, long := 20.0, 80.0 // minutes
	switch {
	case j.workload == serving:
		short, long = 900, 3600
	case j.workload == sweep:
		short, long = 240, 1200
	case j.workload == held:
		short, long = 120, 600
	case j.program == "train.py":
		short, long = 360, 2600
	case j.program == "finetune.py":
		short, long = 120, 600
	}
	return minutes(short + (long-short)*unit(seed, 6))
}

// run returns the process of a job at a time. A sweep starts new ones, and all others have
// a single one.
func (j *job) run(t time.Time) (started time.Time, pid int) {
	started, n := j.from, uint64(0)
	if j.workload == sweep {
		each := minutes(25 + 30*unit(j.seed, 7))
		n = uint64(t.Sub(j.from) / each)
		started = j.from.Add(time.Duration(n) * each)
	}
	return started, 2000 + int(mix(j.seed, 1000+n)%4_000_000)
}

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
	case sweep:
		started, _ := j.run(t)
		if t.Sub(started) < 80*time.Second {
			return 8 * noise
		}
		return 70 + 22*noise
	case serving:
		day := float64(t.Hour()*60+t.Minute()) / 1440
		return 8 + 26*max(0, 1-8*(day-0.55)*(day-0.55)) + 10*noise
	default:
		return 0
	}
}
