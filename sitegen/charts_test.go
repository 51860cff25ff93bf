package sitegen

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

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
		samples = append(samples, snapshot.Sample{Seq: uint64(i + 1), At: now.Add(time.Duration(i-60) * time.Minute),
			GPUs: []snapshot.GPUSample{
				{
					UUID: "GPU-1", Utilization: new(50), MemoryUsed: new(int64(1000 * render.PastMemoryUnit)),
					Temperature: new(-5),
					Power:       new(99000.0), Users: []snapshot.UserMemory{},
				}}})
	}
	if err := store.IngestAll(t.Context(), now, []history.Batch{{
		Host: "atlas", Boot: "b", Samples: samples,
	}}); err != nil {
		t.Fatal(err)
	}
	g := &Generator{opt: Options{History: store}}
	span, err := g.readChart(t.Context(), "atlas", now.Add(-30*time.Minute), 10*time.Minute, 6, now)
	if err != nil {
		t.Fatal(err)
	}
	const no = render.PastUnknown
	want := render.PastGPU{}
	for m, v := range map[int]int16{
		render.PastUtilization: 50, render.PastMemory: 1000, render.PastTemperature: -5, render.PastPower: no,
		render.PastHeld: 0,
	} {
		want[m] = []int16{v, v, v, no, no, no}
	}
	if d := cmp.Diff(map[string]render.PastGPU{"GPU-1": want}, span.GPUs); d != "" || span.Coverage != 1 {
		t.Errorf("%v of it is known (-want +got):\n%s", span.Coverage, d)
	}
}

// TestChartsAreInAllSites: one page that is missing, in one language of one site, is enough to draw the charts again.
func TestChartsAreInAllSites(t *testing.T) {
	g := &Generator{
		views: []*view{{dir: t.TempDir()}, {dir: t.TempDir()}},
		opt:   Options{About: render.Site{Languages: []string{"en", "de"}}},
	}
	var pages []string
	for _, v := range g.views {
		pages = append(pages, filepath.Join(v.dir, "hosts/atlas/history/index.html"),
			filepath.Join(v.dir, "de/hosts/atlas/history/index.html"))
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
