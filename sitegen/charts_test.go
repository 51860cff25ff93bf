package sitegen

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// someCharts has a GPU that only the last day knows, and a chart that was never drawn.
func someCharts() *hostCharts {
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	c := &hostCharts{Past: &render.HostPast{}, Done: [4]time.Time{at, at.Add(-time.Hour + 5), {}, at}}
	for i := range c.Past.Spans {
		s := &c.Past.Spans[i]
		*s = render.PastSpan{From: at.Add(-time.Duration(i+1) * time.Hour), Step: time.Duration(i+1) * time.Minute, Coverage: 1 / float64(i+1), GPUs: map[string]render.PastGPU{}}
		if i == 2 {
			continue // a host that was silent
		}
		for g, key := range []string{"GPU-b", "index:0"}[:max(1, 2-i)] {
			var gpu render.PastGPU
			for m := range gpu {
				for step := range 3 + i {
					gpu[m] = append(gpu[m], int16(g*100+m*10+step))
				}
			}
			gpu[render.PastPower][1] = render.PastUnknown
			s.GPUs[key] = gpu
		}
	}
	return c
}

// keepCharts makes a generator that was left these bytes as charts of hosts.
func keepCharts(tb testing.TB, kept map[string][]byte) *Generator {
	tb.Helper()
	g := &Generator{opt: Options{State: tb.TempDir()}}
	if err := os.Mkdir(filepath.Join(g.opt.State, pastDir), 0o700); err != nil {
		tb.Fatal(err)
	}
	for host, data := range kept {
		if err := os.WriteFile(filepath.Join(g.opt.State, fmt.Sprintf(chartsName, host)), data, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return g
}

// A process begins with what an earlier one kept, and without what is damaged.
func TestChartsAreLoaded(t *testing.T) {
	want := someCharts()
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	g := keepCharts(t, map[string][]byte{"atlas": data, "boreas": []byte("cut")})
	if d := cmp.Diff(want, g.loadCharts("atlas")); d != "" {
		t.Errorf("charts read differ:\n%s", d)
	}
	for _, host := range []string{"boreas", "nothing"} {
		if c := g.loadCharts(host); c.Past != nil {
			t.Errorf("charts of %s: %v", host, c.Past)
		}
	}
	for n := 0; n < len(data); n += 1 + len(data)/16 {
		if keepCharts(t, map[string][]byte{"atlas": data[:n]}).loadCharts("atlas").Past != nil {
			t.Fatalf("the first %d bytes of %d pass for charts", n, len(data))
		}
	}
}

// TestDaysAreLoaded: as they were kept, and not where the zone or the file is another.
func TestDaysAreLoaded(t *testing.T) {
	g := keepCharts(t, nil)
	start, end := time.Date(2026, 11, 18, 23, 0, 0, 0, time.UTC), time.Date(2026, 11, 19, 23, 0, 0, 0, time.UTC)
	whole := dayPast{Start: start, End: end, Done: end.Add(lateBy), Hours: make([]render.FleetStep, 24), Free: map[string][]*float64{"H100": make([]*float64, 24)}}
	for name, tt := range map[string]struct {
		spoil func(d *dayPast)
		want  bool
	}{
		"whole":             {func(*dayPast) {}, true},
		"another beginning": {func(d *dayPast) { d.Start = start.Add(time.Hour) }, false},
		"another end":       {func(d *dayPast) { d.End = end.Add(time.Hour) }, false},
		"an hour less":      {func(d *dayPast) { d.Hours = d.Hours[1:] }, false},
		"a model cut short": {func(d *dayPast) { d.Free = map[string][]*float64{"H100": make([]*float64, 23)} }, false},
	} {
		d := whole
		tt.spoil(&d)
		data, err := json.Marshal(d)
		if err := errors.Join(err, os.WriteFile(filepath.Join(g.opt.State, dayFile(start)), data, 0o600)); err != nil {
			t.Fatal(err)
		}
		got := g.loadDay(start, end)
		if (got != nil) != tt.want || got != nil && !cmp.Equal(*got, whole, cmpopts.EquateEmpty()) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestOldDaysAreSwept: those that no chart reaches go, from memory and from the disk, and nothing else.
func TestOldDaysAreSwept(t *testing.T) {
	g := keepCharts(t, map[string][]byte{"atlas": nil})
	before := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	g.charts = &charts{days: map[int64]*dayPast{}}
	for _, start := range []time.Time{before.Add(-time.Hour), before} {
		g.charts.days[start.Unix()] = &dayPast{}
		if err := os.WriteFile(filepath.Join(g.opt.State, dayFile(start)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	batch, err := atomicfile.NewBatch(g.opt.State)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.sweepPast(before, batch), batch.Commit()); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(g.opt.State, pastDir, "*"))
	want := []string{filepath.Join(g.opt.State, dayFile(before)), filepath.Join(g.opt.State, fmt.Sprintf(chartsName, "atlas"))}
	if err != nil || !slices.Equal(left, want) || len(g.charts.days) != 1 || g.charts.days[before.Unix()] == nil {
		t.Errorf("left are %q and in memory %v, %v", left, g.charts.days, err)
	}
}

// TestChartOfAHost: readings are whole numbers, memory those of its unit, and what does not fit is unknown.
func TestChartOfAHost(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	store, err := history.Open(t.Context(), filepath.Join(t.TempDir(), "history.db"), now, history.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var samples []snapshot.Sample
	for i := range 60 {
		samples = append(samples, snapshot.Sample{Seq: uint64(i + 1), At: now.Add(time.Duration(i-60) * time.Minute), GPUs: []snapshot.GPUSample{
			{UUID: "GPU-1", Utilization: new(50), MemoryUsed: new(int64(1000 * render.PastMemoryUnit)), Temperature: new(-5), Power: new(99000.0), Users: []snapshot.UserMemory{}}}})
	}
	if _, err := store.IngestAll(t.Context(), now, []history.Batch{{Host: "atlas", Boot: "b", Samples: samples}}); err != nil {
		t.Fatal(err)
	}
	g := &Generator{opt: Options{History: store}}
	span, err := g.readChart(t.Context(), "atlas", now.Add(-30*time.Minute), 10*time.Minute, 6, now)
	if err != nil {
		t.Fatal(err)
	}
	const no = render.PastUnknown
	want := render.PastGPU{}
	for m, v := range map[int]int16{render.PastUtilization: 50, render.PastMemory: 1000, render.PastTemperature: -5, render.PastPower: no, render.PastHeld: 0} {
		want[m] = []int16{v, v, v, no, no, no}
	}
	if d := cmp.Diff(map[string]render.PastGPU{"GPU-1": want}, span.GPUs); d != "" || span.Coverage != 1 {
		t.Errorf("%v of it is known (-want +got):\n%s", span.Coverage, d)
	}
}

// TestChartsThatAreNotDueStay: each but the first stays as it is for its period, unless little is known of it yet.
func TestChartsThatAreNotDueStay(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	store, err := history.Open(t.Context(), filepath.Join(t.TempDir(), "history.db"), now, history.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	g := &Generator{opt: Options{History: store}}
	lengths := render.PastLengths()
	for i, period := range chartPeriods() {
		for name, tt := range map[string]struct {
			age, known time.Duration
			stays      bool
		}{
			"of now":                  {0, 3 * period, i > 0},
			"almost due":              {period - 1, 3 * period, i > 0},
			"due":                     {period, 3 * period, false},
			"of a clock that was set": {-1, 3 * period, false},
			"with little in it":       {0, 2*period - time.Second, false},
		} {
			old := someCharts()
			old.Done[i], old.Past.Spans[i].Coverage = now.Add(-tt.age), float64(tt.known)/float64(lengths[i])
			next, err := g.readCharts(t.Context(), "atlas", now, old)
			if err != nil {
				t.Fatal(err)
			}
			want, same := now, cmp.Equal(next.Past.Spans[i], old.Past.Spans[i])
			if tt.stays {
				want = old.Done[i]
			}
			step := lengths[i] / time.Duration(render.PastSteps()[i])
			end := now.Truncate(step)
			if i > 0 {
				end = end.Add(step) // the one that has begun
			}
			if got := next.Past.Spans[i].From.Add(lengths[i]); !tt.stays && !got.Equal(end) {
				t.Errorf("chart %d, %s: it ends at %s, want %s", i, name, got, end)
			}
			if same != tt.stays || !next.Done[i].Equal(want) {
				t.Errorf("chart %d, %s: it is the same: %v; it was made at %s", i, name, same, next.Done[i])
			}
		}
	}
}

// TestChartsAreInAllSites: one page that is missing, in one language of one site, is enough to draw the charts again.
func TestChartsAreInAllSites(t *testing.T) {
	g := &Generator{views: []*view{{dir: t.TempDir()}, {dir: t.TempDir()}}, opt: Options{About: render.Site{Languages: []string{"en", "de"}}}}
	var pages []string
	for _, v := range g.views {
		pages = append(pages, filepath.Join(v.dir, "hosts/atlas/history/index.html"), filepath.Join(v.dir, "de/hosts/atlas/history/index.html"))
	}
	for _, page := range pages {
		if err := errors.Join(os.MkdirAll(filepath.Dir(page), 0o755), os.WriteFile(page, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, page := range pages {
		if !g.haveCharts("atlas") {
			t.Error("all are there, and said to be missing")
		}
		if err := os.Rename(page, page+".away"); err != nil {
			t.Fatal(err)
		}
		if g.haveCharts("atlas") {
			t.Errorf("they are said to be there without %s", page)
		}
		if err := os.Rename(page+".away", page); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzCharts: what passes for charts can be drawn.
func FuzzCharts(f *testing.F) {
	data, err := json.Marshal(someCharts())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := keepCharts(t, map[string][]byte{"atlas": data}).loadCharts("atlas")
		if c.Past == nil {
			return
		}
		for i := range c.Past.Spans {
			s := &c.Past.Spans[i]
			for key, gpu := range s.GPUs {
				for m, list := range gpu {
					if len(list) != s.Len() {
						t.Fatalf("%s has %d steps of metric %d, and the chart has %d", key, len(list), m, s.Len())
					}
				}
			}
		}
	})
}
