package demo

import "time"

// A shape is how a job works a GPU.
type shape int

const (
	steady  shape = iota // training: flat out, with dips to validate
	bursts               // evaluation: half on, half off
	sweep                // short runs, one after the other
	serving              // a little all the time, more by day
	held                 // a notebook that holds memory and does nothing
	dead                 // its process is gone, its memory is not
)

// A job is one person's use of one lane.
type job struct {
	span
	user, program string
	shape         shape
	memory        int64 // MiB
	seed          uint64
	container     string
}

// A lane is a place on a GPU where one job runs at a time. What stands in its
// script is certain; the time between is filled at random.
type lane struct {
	seed     uint64
	capacity int64 // MiB that a job may take
	script   []scripted
	instance int // index of the MIG instance; 0 where there is none
}

// A scripted span holds a job, or for nil nothing at all.
type scripted struct {
	span
	job *job
}

const week = 7 * 24 * time.Hour

// at returns the job that runs at t; nil for none.
func (l *lane) at(t time.Time) *job {
	for i := range l.script {
		if l.script[i].has(t) {
			return l.script[i].job
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
func (l *lane) between(s span) []job {
	var list []job
	for n := l.weekOf(s.from); n <= l.weekOf(s.until); n++ {
		for _, j := range l.week(n) {
			if j.overlaps(s) {
				list = append(list, j)
			}
		}
	}
	for _, sc := range l.script {
		if sc.job != nil && sc.overlaps(s) {
			list = append(list, *sc.job)
		}
	}
	return list
}

// weekOf numbers the weeks of this lane; each lane begins its own at another hour.
func (l *lane) weekOf(t time.Time) int64 {
	offset := int64(mix(l.seed, 2)%uint64(week/time.Second)) - int64(week/time.Second)
	return (t.Unix() - offset) / int64(week/time.Second)
}

// week makes up the jobs of one week, none of which reaches into the next or
// into the script.
func (l *lane) week(n int64) []job {
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
		if !l.scripted(j.span) {
			jobs = append(jobs, j)
		}
	}
}

func (l *lane) scripted(s span) bool {
	for i := range l.script {
		if l.script[i].overlaps(s) {
			return true
		}
	}
	return false
}

func minutes(m float64) time.Duration { return time.Duration(m*60) * time.Second }

// The people of the lab, and how often each is seen.
func people() []string {
	return []string{"mira", "mira", "mira", "tomas", "tomas", "tomas", "eva", "eva", "jun", "jun", "lea", "sam", "noor", "noor", "kai", "ada"}
}

// uid is the number behind a login name; 0 for a name that is not of the lab.
func uid(user string) int64 {
	for i, name := range []string{"mira", "tomas", "eva", "jun", "lea", "sam", "noor", "kai", "ada"} {
		if name == user {
			return int64(1001 + i)
		}
	}
	return 0
}

// random makes up a job, without its place in time.
func random(seed uint64, capacity int64) job {
	names := people()
	j := job{seed: seed, user: names[mix(seed, 3)%uint64(len(names))]}
	part := 0.0
	switch mix(seed, 4) % 10 {
	case 0, 1, 2:
		j.shape, j.program, part = steady, "train.py", 0.6+0.35*unit(seed, 5)
	case 3, 4:
		j.shape, j.program, part = steady, "finetune.py", 0.4+0.4*unit(seed, 5)
	case 5, 6:
		j.shape, j.program, part = bursts, "eval.py", 0.15+0.3*unit(seed, 5)
	case 7:
		j.shape, j.program, part = sweep, "sweep.py", 0.3+0.3*unit(seed, 5)
	case 8:
		j.shape, j.program, part = held, "jupyter", 0.1+0.5*unit(seed, 5)
	default:
		j.shape, j.program, part = serving, "serve", 0.5+0.3*unit(seed, 5)
	}
	j.memory = int64(part*float64(capacity)) / 2 * 2
	if mix(seed, 9)%8 == 0 {
		j.container = container(seed)
	}
	return j
}

// length is how long a random job takes.
func (j *job) length(seed uint64) time.Duration {
	short, long := 20.0, 80.0 // minutes
	switch {
	case j.shape == serving:
		short, long = 900, 3600
	case j.shape == sweep:
		short, long = 240, 1200
	case j.shape == held:
		short, long = 120, 600
	case j.program == "train.py":
		short, long = 360, 2600
	case j.program == "finetune.py":
		short, long = 120, 600
	}
	return minutes(short + (long-short)*unit(seed, 6))
}

// run is the process of a job at a moment: a sweep starts a new one now and
// then, all others have one from their first to their last second.
func (j *job) run(t time.Time) (started time.Time, pid int) {
	started, n := j.from, uint64(0)
	if j.shape == sweep {
		each := minutes(25 + 30*unit(j.seed, 7))
		n = uint64(t.Sub(j.from) / each)
		started = j.from.Add(time.Duration(n) * each)
	}
	return started, 2000 + int(mix(j.seed, 1000+n)%4_000_000)
}

// utilization is what the job makes of its GPU, in % of what its lane has.
func (j *job) utilization(t time.Time) float64 {
	since := t.Sub(j.from)
	noise := unit(j.seed, uint64(t.UnixMilli()))
	switch j.shape {
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
