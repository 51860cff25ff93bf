package history

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sort"
	"testing"
	"time"

	"gpuboard/internal/snapshot"
)

// t0 is a Monday, at midnight UTC.
var t0 = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

func open(t testing.TB, opts Options) *Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "history.db"), t0, opts)
}

func openAt(t testing.TB, path string, now time.Time, opts Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), path, now, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func ptr[T any](v T) *T { return &v }

// A job is one user's work on one GPU of one host, as it truly was.
type job struct {
	gpu      int
	user     string
	from, to time.Time
	mem      int64
	util     int
}

// A truth is one host with all that happened on it. Jobs change at whole
// sampling intervals, so that what the samples say is what was.
type truth struct {
	host    string
	gpus    int
	every   time.Duration
	from    time.Time
	to      time.Time
	jobs    []job
	outages [][2]time.Time // no samples at from <= t < to
}

func (tr *truth) down(at time.Time) bool {
	for _, o := range tr.outages {
		if !at.Before(o[0]) && at.Before(o[1]) {
			return true
		}
	}
	return false
}

func (tr *truth) samples() []snapshot.Sample {
	var out []snapshot.Sample
	seq := uint64(0)
	for at := tr.from; at.Before(tr.to); at = at.Add(tr.every) {
		seq++
		if !tr.down(at) {
			out = append(out, tr.sample(at, seq))
		}
	}
	return out
}

func (tr *truth) sample(at time.Time, seq uint64) snapshot.Sample {
	s := snapshot.Sample{Seq: seq, At: at}
	for g := range tr.gpus {
		gs := snapshot.GPUSample{Index: g, UUID: fmt.Sprintf("GPU-%s-%d", tr.host, g), Users: []snapshot.UserMemory{}}
		util, mem := 0, int64(0)
		for _, j := range tr.jobs {
			if j.gpu == g && !at.Before(j.from) && at.Before(j.to) {
				util, mem = util+j.util, mem+j.mem
				gs.Users = append(gs.Users, snapshot.UserMemory{User: j.user, Memory: j.mem})
			}
		}
		sort.Slice(gs.Users, func(a, b int) bool { return gs.Users[a].User < gs.Users[b].User })
		gs.Utilization, gs.MemoryUsed = ptr(min(util, 100)), ptr(mem)
		gs.Temperature, gs.Power = ptr(30+util/2), ptr(60+4*float64(util))
		s.GPUs = append(s.GPUs, gs)
	}
	return s
}

// usage walks the truth second by second, outages left out, and returns
// GPU-seconds and utilization x seconds by user.
func (tr *truth) usage(from, to time.Time) (held, util map[string]float64, known float64) {
	held, util = map[string]float64{}, map[string]float64{}
	for at := from; at.Before(to); at = at.Add(tr.every) {
		if at.Before(tr.from) || !at.Before(tr.to) || tr.down(at) {
			continue
		}
		step := tr.every.Seconds()
		known += step
		for g := range tr.gpus {
			var mem, u float64
			for _, j := range tr.jobs {
				if j.gpu == g && !at.Before(j.from) && at.Before(j.to) {
					mem, u = mem+float64(j.mem), u+float64(j.util)
				}
			}
			for _, j := range tr.jobs {
				if j.gpu == g && !at.Before(j.from) && at.Before(j.to) {
					held[j.user] += step * float64(j.mem) / mem
					util[j.user] += step * float64(j.mem) / mem * min(u, 100)
				}
			}
		}
	}
	return held, util, known
}

func randomTruth(r *rand.Rand, host string, from time.Time, length time.Duration) *truth {
	tr := &truth{host: host, gpus: 1 + r.IntN(4), every: 20 * time.Second, from: from, to: from.Add(length)}
	grid := func(d time.Duration) time.Duration { return d.Truncate(tr.every) }
	for g := range tr.gpus {
		for _, u := range []string{"ada", "bob", "cyd", "dora"} {
			for range r.IntN(3) {
				a := grid(time.Duration(r.Int64N(int64(length))))
				b := a + grid(time.Duration(r.Int64N(int64(length-a)+1)))
				tr.jobs = append(tr.jobs, job{g, u, from.Add(a), from.Add(b), 1000 + r.Int64N(40000), r.IntN(51)})
			}
		}
	}
	for range r.IntN(3) {
		a := grid(time.Duration(r.Int64N(int64(length))))
		tr.outages = append(tr.outages, [2]time.Time{from.Add(a),
			from.Add(a + grid(time.Duration(r.Int64N(int64(2*time.Hour)))))})
	}
	return tr
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance || math.IsNaN(got) {
		t.Errorf("%s is %v, and the truth is %v (tolerance %v)", what, got, want, tolerance)
	}
}

// userTotalsOf is who used how much between two instants.
func userTotalsOf(s *Store, from, to time.Time) ([]UserTotal, error) {
	f, err := s.Fleet(context.Background(), []time.Time{from, to}, noClass)
	return f.Users, err
}

// hostTotalsOf is how much each host was used between two instants.
func hostTotalsOf(s *Store, from, to time.Time) ([]HostTotal, error) {
	f, err := s.Fleet(context.Background(), []time.Time{from, to}, noClass)
	return f.Hosts, err
}

func fleetSteps(s *Store, at []time.Time) ([]FleetStep, error) {
	f, err := s.Fleet(context.Background(), at, noClass)
	return f.Steps, err
}

func freeByClass(s *Store, at []time.Time, class func(Key) string) (map[string][]*float64, error) {
	f, err := s.Fleet(context.Background(), at, class)
	return f.Free, err
}

func noClass(Key) string { return "" }
