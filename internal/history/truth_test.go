package history_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

func TestTotalsMatchTheSimulation(t *testing.T) {
	t.Parallel()
	need.Time(t, "it makes months of samples")
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			s := open(t, history.Options{})
			var all []*truth
			for i := range 2 {
				tr := randomTruth(r, fmt.Sprintf("gpu%02d", i), t0, 30*time.Hour)
				all = append(all, tr)
				live(t, s, tr.host, "boot", tr.samples())
			}
			for _, w := range [][2]time.Duration{
				{0, 30 * time.Hour}, {24 * time.Hour, 30 * time.Hour}, {5 * time.Hour, 26 * time.Hour},
				{25 * time.Minute, 115 * time.Minute},
			} {
				from, to := t0.Add(w[0]), t0.Add(w[1])
				held, util := map[string]float64{}, map[string]float64{}
				for _, tr := range all {
					h, u, _ := tr.usage(from, to)
					for name := range h {
						held[name] += h[name]
						util[name] += u[name]
					}
				}
				got, err := userTotalsOf(s, from, to)
				if err != nil {
					t.Fatal(err)
				}
				seen := map[string]bool{}
				for _, u := range got {
					seen[u.Name] = true
					// A sample before an outage stands for up to 50 s: 30 s more
					// than it was, per outage and GPU.
					slack := float64(len(all[0].outages)*all[0].gpus+len(all[1].outages)*all[1].gpus) * 30 / 3600
					near(t, fmt.Sprintf("%s's GPU-hours in %v", u.Name, w), u.GPUHours, held[u.Name]/3600,
						slack+0.002*held[u.Name]/3600+0.003)
					if held[u.Name] > 3600 {
						near(t, u.Name+"'s utilization", *u.Utilization, util[u.Name]/held[u.Name], 1.5)
					}
				}
				for name, v := range held {
					if v > 60 && !seen[name] {
						t.Errorf("%s held %v GPU-seconds in %v and is not listed", name, v, w)
					}
				}
			}
			for _, tr := range all {
				_, _, known := tr.usage(t0, tr.to)
				_, cover := meansOf(t, s, tr.host, "", history.Utilization, t0, tr.to)
				near(t, "coverage of "+tr.host, cover*30*3600, known, float64(len(tr.outages))*30+60)
			}
		})
	}
}

func TestAGapIsUnknownAndNotIdle(t *testing.T) {
	ctx := context.Background()
	s := open(t, history.Options{})
	tr := &truth{host: "gpu1", gpus: 1, every: 20 * time.Second, from: t0, to: t0.Add(6 * time.Hour),
		jobs:    []job{{0, "ada", t0, t0.Add(6 * time.Hour), 9000, 90}},
		outages: [][2]time.Time{{t0.Add(2 * time.Hour), t0.Add(4 * time.Hour)}}}
	live(t, s, "gpu1", "boot", tr.samples())
	hours := history.Steps(t0, tr.to, time.Hour)
	vs, _ := meansOf(t, s, "gpu1", "GPU-gpu1-0", history.Utilization, hours...)
	for i, v := range vs {
		if gap := i == 2 || i == 3; gap != math.IsNaN(v) || !gap && v != 90 {
			t.Errorf("hour %d is %v; it was 90, and nothing is known of the third and the fourth", i, v)
		}
	}
	if len(vs) != 6 {
		t.Errorf("%d hours", len(vs))
	}
	r, err := s.Recent(ctx, tr.to, 30*time.Minute, 5)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Users) != 1 || r.Users[0].Mean24h == nil {
		t.Fatalf("users are %+v", r.Users)
	}
	near(t, "ada's mean of the known part of a day", *r.Users[0].Mean24h, 1, 0.01)
	near(t, "ada's mean of 2 h", *r.Users[0].Mean2h, 1, 0.01)
	if r.Users[0].Mean1w != nil {
		t.Errorf("a mean over a week of which 4 hours are known: %v", *r.Users[0].Mean1w)
	}
	g := r.GPUs[history.Key{Host: "gpu1", GPU: "GPU-gpu1-0"}]
	if !g.IdleSince.IsZero() {
		t.Errorf("a GPU at 90 %% idles since %v", g.IdleSince)
	}
	if len(g.Utilization) != history.SparkSteps {
		t.Fatalf("%d steps", len(g.Utilization))
	}
	known := 0
	for i, v := range g.Utilization {
		if v != nil {
			known++
			if *v != 90 {
				t.Errorf("step %d is %v", i, *v)
			}
		}
	}
	if known < 16 || known > 18 { // 4 h, and the last samples before the gap and before now reach into one step more
		t.Errorf("%d steps are known of 4 hours", known)
	}
}

func TestIdleSince(t *testing.T) {
	t.Parallel()
	need.Time(t, "it makes months of samples")
	ctx := context.Background()
	end := t0.Add(40 * time.Hour)
	for _, c := range []struct {
		name   string
		jobs   []job
		window time.Duration
		want   time.Time
		fresh  time.Duration // history begins so long before the end
		gap    time.Duration // of ten minutes, that ends so long before the end
	}{
		{"held and idle from 12:00 on",
			[]job{{0, "ada", t0, end.Add(-4 * time.Hour), 9000, 80}, {0, "ada", end.Add(-4 * time.Hour), end, 9000, 1}},
			30 * time.Minute, end.Add(-4 * time.Hour), 0, 0},
		{"a short breath is not idleness", []job{{0, "ada", t0, end.Add(-10 * time.Minute), 9000, 80}},
			30 * time.Minute,
			time.Time{}, 0, 0},
		{"one busy sample in an idle hour",
			[]job{
				{0, "ada", end.Add(-90 * time.Minute), end.Add(-90*time.Minute + 20*time.Second), 9000, 40},
				{0, "bob", t0, end.Add(-3 * time.Hour), 10, 70},
			}, 30 * time.Minute, end.Add(-3 * time.Hour), 0, 0},
		{"swings between 0 and 100 are work", swings(t0, end), 30 * time.Minute, time.Time{}, 0, 0},
		{"too little is known", nil, 30 * time.Minute, time.Time{}, 20 * time.Minute, 0},
		{"for longer than a day", []job{{0, "ada", t0, t0.Add(3 * time.Hour), 9000, 80}}, 30 * time.Minute,
			t0.Add(3 * time.Hour), 0, 0},
		{"a gap is no idleness", nil, 30 * time.Minute, end.Add(-7 * time.Hour), 0, 7 * time.Hour},
		{"nor is one of more than a day ago", nil, 30 * time.Minute, end.Add(-30 * time.Hour), 0, 30 * time.Hour},
		{"a gap a moment ago", nil, 30 * time.Minute, time.Time{}, 0, 10 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := newPath(t)
			s := openAt(t, path, t0, history.Options{})
			tr := &truth{host: "gpu1", gpus: 1, every: 20 * time.Second, from: t0, to: end, jobs: c.jobs}
			if c.fresh > 0 {
				tr.from = end.Add(-c.fresh)
			}
			if c.gap > 0 {
				tr.outages = [][2]time.Time{{end.Add(-c.gap - 10*time.Minute), end.Add(-c.gap)}}
			}
			live(t, s, "gpu1", "boot", tr.samples())
			for _, store := range []*history.Store{s, openAt(t, path, end, history.Options{})} {
				r, err := store.Recent(ctx, end, c.window, 5)
				if err != nil {
					t.Fatal(err)
				}
				if got := r.GPUs[history.Key{Host: "gpu1", GPU: "GPU-gpu1-0"}].IdleSince; !got.Equal(c.want) {
					t.Errorf("idle since %v, and it should be %v", got, c.want)
				}
			}
		})
	}
}

func swings(from, to time.Time) []job {
	var js []job
	for at := from; at.Before(to); at = at.Add(2 * time.Minute) {
		js = append(js, job{0, "ada", at, at.Add(time.Minute), 9000, 100})
	}
	return js
}

func TestDaysOf23And25Hours(t *testing.T) {
	for _, c := range []struct {
		zone  string
		day   time.Time
		hours float64
	}{
		{"Europe/Paris", time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC), 23},
		{"Europe/Paris", time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC), 25},
		{"Asia/Kolkata", time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC), 24},
		{"America/St_Johns", time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), 25},
	} {
		t.Run(c.zone+c.day.Format(" 2006-01-02"), func(t *testing.T) {
			zone := need.Zone(t, c.zone)
			s := open(t, history.Options{})
			from := c.day.Add(-36 * time.Hour)
			tr := &truth{host: "gpu1", gpus: 2, every: time.Minute, from: from, to: from.Add(4 * 24 * time.Hour),
				jobs: []job{{0, "ada", from, from.Add(4 * 24 * time.Hour), 9000, 100}}}
			ingest(t, s, tr.to, "gpu1", "boot", tr.samples())
			y, m, d := c.day.Date()
			bs := history.Days(time.Date(y, m, d, 5, 0, 0, 0, zone), time.Date(y, m, d+1, 0, 0, 0, 0, zone), zone)
			if len(bs) != 2 || bs[1].Sub(bs[0]).Hours() != c.hours {
				t.Fatalf("the day is %v", bs)
			}
			us, err := userTotalsOf(s, bs[0], bs[1])
			if err != nil || len(us) != 1 {
				t.Fatal(us, err)
			}
			near(t, "GPU-hours of a day", us[0].GPUHours, c.hours, 0.001)
			held, cover := meansOf(t, s, "gpu1", "GPU-gpu1-0", history.Held, bs...)
			if cover > 1 || len(held) != 1 || held[0] > 100 {
				t.Fatal(cover, held)
			}
			near(t, "coverage", cover, 1, 0.001)
			near(t, "% of the time held", held[0], 100, 0.1)
			fs, err := fleetSteps(s, bs)
			if err != nil || fs[0].Held == nil {
				t.Fatal(fs, err)
			}
			near(t, "GPUs held", *fs[0].Held, 1, 0.001)
			near(t, "GPUs free", *fs[0].Free, 1, 0.001)
			near(t, "utilization", *fs[0].Utilization, 50, 0.1)
		})
	}
}

func TestTimesThatCannotBe(t *testing.T) {
	ctx := context.Background()
	s := open(t, history.Options{})
	at := func(d time.Duration) snapshot.Sample {
		return snapshot.Sample{
			Seq: uint64(d/time.Second) + 1<<40, At: t0.Add(d),
			GPUs: []snapshot.GPUSample{{UUID: "GPU-1", Utilization: ptr(50)}},
		}
	}
	if err := s.IngestAll(ctx, t0, []history.Batch{
		{Host: "gpu1", Boot: "b", Whole: true, Samples: []snapshot.Sample{
			at(0), at(0), at(4 * time.Minute), at(6 * time.Minute), at(time.Hour), at(-71 * time.Hour),
			at(-73 * time.Hour),
		}},
		{Host: "gpu1", Boot: "b", Samples: []snapshot.Sample{
			{Seq: 1, At: time.Unix(0, 0)}, {Seq: 2, At: time.Date(292277026596, 1, 1, 0, 0, 0, 0, time.UTC)}, {Seq: 3},
		}},
		{Host: "../etc", Boot: "b", Samples: []snapshot.Sample{at(0)}},
	}); err != nil {
		t.Fatal(err)
	}
	hosts, err := hostTotalsOf(s, t0.Add(-80*time.Hour), t0.Add(80*time.Hour))
	// The two of now stand for each other, the last one until 5 minutes later; the one of long ago is alone.
	if err != nil || len(hosts) != 1 || hosts[0].Covered != 4*60+300+50 {
		t.Errorf("known are %+v (%v)", hosts, err)
	}
}

// A server whose clock jumps ahead for a while must not delete anything.
func TestClockOfTheServerJumps(t *testing.T) {
	s := open(t, history.Options{})
	tr := &truth{
		host: "gpu1", gpus: 1, every: time.Minute, from: t0, to: t0.Add(5 * time.Hour),
		jobs: []job{{0, "ada", t0, t0.Add(5 * time.Hour), 100, 50}},
	}
	all := tr.samples()
	live(t, s, "gpu1", "boot", all[:200])
	for _, jump := range []time.Duration{2 * time.Hour, 20 * 365 * 24 * time.Hour} {
		ingest(t, s, t0.Add(jump), "gpu1", "boot", all[190:210])
	}
	live(t, s, "gpu1", "boot", all[200:])
	us, err := userTotalsOf(s, t0, tr.to)
	if err != nil || len(us) != 1 {
		t.Fatal(us, err)
	}
	near(t, "GPU-hours", us[0].GPUHours, 5, 0.05)
}

// A node whose clock steps back covers the same time twice, and a reboot begins
// to count anew; neither may count an hour for more than an hour.
func TestClockOfTheNodeStepsAndBoots(t *testing.T) {
	s := open(t, history.Options{})
	tr := &truth{
		host: "gpu1", gpus: 1, every: 20 * time.Second, from: t0, to: t0.Add(2 * time.Hour),
		jobs: []job{{0, "ada", t0, t0.Add(2 * time.Hour), 100, 50}},
	}
	all := tr.samples()
	for i := range all {
		if i > 200 { // the clock went back by 17 minutes and 7 seconds
			all[i].At = all[i].At.Add(-1027 * time.Second)
		}
	}
	now := t0.Add(2 * time.Hour)
	ingestHours(t, s, now, "gpu1", "one", all)
	again := (&truth{
		host: "gpu1", gpus: 1, every: 20 * time.Second, from: t0.Add(110 * time.Minute), to: t0.Add(2 * time.Hour),
		jobs: tr.jobs,
	}).samples()
	ingest(t, s, now, "gpu1", "two", again)
	us, err := userTotalsOf(s, t0, now)
	if err != nil || len(us) != 1 {
		t.Fatal(us, err)
	}
	near(t, "GPU-hours", us[0].GPUHours, 2, 0.15) // 7 minutes are known of nobody
	_, first := meansOf(t, s, "gpu1", "", history.Utilization, t0, t0.Add(time.Hour))
	_, second := meansOf(t, s, "gpu1", "", history.Utilization, t0.Add(time.Hour), now)
	if first > 1 || second > 1 || first < 0.99 {
		t.Error(first, second)
	}
}
