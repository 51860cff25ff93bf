package history_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
)

// t0 is a Monday, at midnight UTC.
var t0 = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

func open(t testing.TB, opts history.Options) *history.Store {
	t.Helper()
	return openAt(t, newPath(t), t0, opts)
}

// newPath is where a history may begin.
func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "history.db") }

func openAt(t testing.TB, path string, now time.Time, opts history.Options) *history.Store {
	t.Helper()
	s, err := history.Open(context.Background(), path, now, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// database is the file of a store as any program sees it that knows SQLite.
func database(t testing.TB, path string) *sql.DB {
	t.Helper()
	file := url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=busy_timeout(10000)"}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// change runs a statement on the file of a store behind its back.
func change(t testing.TB, path, statement string, args ...any) {
	t.Helper()
	if _, err := database(t, path).ExecContext(context.Background(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

// number is one number out of the file of a store.
func number(t testing.TB, path, query string) (n float64) {
	t.Helper()
	if err := database(t, path).QueryRowContext(context.Background(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// pageSize is SQLite's own default.
const pageSize = 4096

func ptr[T any](v T) *T { return &v }

// batchOf is a batch of samples that are no whole hours.
func batchOf(host, boot string, samples ...snapshot.Sample) history.Batch {
	return history.Batch{Host: host, Boot: boot, Samples: samples}
}

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
func userTotalsOf(s *history.Store, from, to time.Time) ([]history.UserTotal, error) {
	f, err := s.Fleet(context.Background(), []time.Time{from, to}, noClass)
	return f.Users, err
}

// hostTotalsOf is how much each host was used between two instants.
func hostTotalsOf(s *history.Store, from, to time.Time) ([]history.HostTotal, error) {
	f, err := s.Fleet(context.Background(), []time.Time{from, to}, noClass)
	return f.Hosts, err
}

func fleetSteps(s *history.Store, at []time.Time) ([]history.FleetStep, error) {
	f, err := s.Fleet(context.Background(), at, noClass)
	return f.Steps, err
}

func freeByClass(s *history.Store, at []time.Time, class func(history.Key) string) (map[string][]*float64, error) {
	f, err := s.Fleet(context.Background(), at, class)
	return f.Free, err
}

func noClass(history.Key) string { return "" }

// A noisy host is 8 GPUs as they are: utilization and power tremble while a job
// runs, memory hardly moves, half of the GPUs are idle.
func noisy(r *rand.Rand, host int, seq uint64, at time.Time) snapshot.Sample {
	s := snapshot.Sample{Seq: seq, At: at.Add(time.Duration(r.IntN(50)) * time.Millisecond)}
	for g := range 8 {
		gs := snapshot.GPUSample{Index: g, UUID: fmt.Sprintf("GPU-%08x-0000-1111-2222-%012x", host, g),
			Users:       []snapshot.UserMemory{},
			Utilization: ptr(0), MemoryUsed: ptr(int64(4)), Temperature: ptr(31),
			Power: ptr(61.5 + float64(r.IntN(8))/10)}
		if (host+g)%2 == 0 {
			mem := int64(20000 + 100*((host*7+g)%50))
			gs.Utilization, gs.MemoryUsed = ptr(88+r.IntN(12)), ptr(mem+600)
			gs.Temperature, gs.Power = ptr(64+r.IntN(2)), ptr(380+r.Float64()*30)
			gs.Users = append(gs.Users, snapshot.UserMemory{User: fmt.Sprintf("user%02d", (host+g/2)%40), Memory: mem})
			if g == 4 {
				gs.Users = append(gs.Users, snapshot.UserMemory{User: "zoe", Memory: 600})
			}
		}
		s.GPUs = append(s.GPUs, gs)
	}
	return s
}

// heap is what the program keeps in memory.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func ingest(t testing.TB, s *history.Store, now time.Time, host, boot string, samples []snapshot.Sample) {
	t.Helper()
	if err := s.IngestAll(context.Background(), now, []history.Batch{batchOf(host, boot, samples...)}); err != nil {
		t.Fatal(err)
	}
}

// ingestHours gives finished hours.
func ingestHours(t testing.TB, s *history.Store, now time.Time, host, boot string, samples []snapshot.Sample) {
	t.Helper()
	if err := s.IngestAll(context.Background(), now, []history.Batch{{
		Host: host, Boot: boot, Samples: samples, Whole: true,
	}}); err != nil {
		t.Fatal(err)
	}
}

// covered is for how many seconds there are samples of a host.
func covered(t testing.TB, s *history.Store, host string, from, to time.Time) float64 {
	t.Helper()
	_, part := meansOf(t, s, host, "", history.Utilization, from, to)
	return part * to.Sub(from).Seconds()
}

// meansOf is one metric of one GPU between the instants in at, and how much of
// the time is known.
func meansOf(
	t testing.TB, s *history.Store, host, gpu string, metric history.Metric, at ...time.Time,
) (list []float64, coverage float64) {
	t.Helper()
	all, coverage, err := s.HostMeans(context.Background(), host, at, metric)
	if err != nil {
		t.Fatal(err)
	}
	if all[gpu] != nil {
		list = all[gpu][0]
	}
	return list, coverage
}

// live gives samples as a running fleet would: minute by minute, each with the
// overlap that bundles have.
func live(t testing.TB, s *history.Store, host, boot string, samples []snapshot.Sample) {
	t.Helper()
	for i := 0; i < len(samples); i += 15 {
		end := min(i+15, len(samples))
		ingest(t, s, samples[end-1].At, host, boot, samples[max(0, i-7):end])
	}
}

func codes(s *history.Store, now time.Time) string {
	var out []string
	for _, p := range s.Problems(now) {
		out = append(out, p.Code)
	}
	return strings.Join(out, " ")
}

// filled is a closed database with a few hours of one host.
func filled(t *testing.T) (path string, now time.Time) {
	t.Helper()
	path = newPath(t)
	s := openAt(t, path, t0, history.Options{})
	now = t0.Add(5 * time.Hour)
	tr := &truth{
		host: "gpu1", gpus: 4, every: 20 * time.Second, from: t0, to: now, jobs: []job{{0, "ada", t0, now, 100, 50}},
	}
	live(t, s, "gpu1", "boot", tr.samples())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path, now
}

// fingerprint is everything that the store answers about [from, to), in words
// that can be compared.
func fingerprint(t testing.TB, s *history.Store, hosts []string, from, to, now time.Time) string {
	t.Helper()
	ctx := context.Background()
	var all []any
	keep := func(v any, err error) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	keep(userTotalsOf(s, from, to))
	keep(userTotalsOf(s, from.Add(35*time.Minute), to.Add(-25*time.Minute)))
	keep(hostTotalsOf(s, from, to))
	keep(fleetSteps(s, history.Steps(from, to, time.Hour)))
	for _, h := range hosts {
		for _, step := range []time.Duration{5 * time.Minute, 7 * time.Minute} {
			means, coverage, err := s.HostMeans(ctx, h, history.Steps(from, to, step),
				history.Utilization, history.Memory, history.Temperature, history.Power, history.Held)
			keep(fmt.Sprint(means, coverage), err) // JSON has no word for what is not known of them
		}
	}
	r, err := s.Recent(ctx, now, 20*time.Minute, 5)
	if err != nil {
		t.Fatal(err)
	}
	gpus := map[string]history.GPU{}
	for k, v := range r.GPUs {
		gpus[k.Host+" "+k.GPU] = v
	}
	all = append(all, gpus, r.Users, r.FreeMean2h, r.FreeMean24h, r.FreeMean1w)
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func firstDifference(a, b string) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return fmt.Sprintf("at %d:\n%.120s\n%.120s", i, a[max(0, i-60):], b[max(0, i-60):])
}
