package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"

	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/testenv/fleettest"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
)

// generator is the one of generate --watch, in this process.
func (f *fleet) generator(name string) (*sitegen.Generator, *history.Store, error) {
	store, err := history.Open(context.Background(), f.path("state", "history.db"), f.at, history.Options{})
	if err != nil {
		return nil, nil, err
	}
	var hosts []inventory.Host
	for _, h := range f.Hosts() {
		hosts = append(hosts, inventory.Host{Name: h.Name, Group: h.Group})
	}
	g, err := sitegen.New(sitegen.Options{
		Data: f.path("data"), Site: f.path(name), State: f.path("state"), History: store,
		Inventory: func(_ context.Context, now time.Time) inventory.Inventory {
			return inventory.Inventory{Hosts: hosts, AsOf: now}
		},
		About: render.Site{Title: "GPU board", Zone: time.UTC, Interval: every},
	})
	if err != nil {
		store.Close()
	}
	return g, store, err
}

// cycles are generations of a process that goes on: of everything, of one host
// in a hundred, of nothing new.
func (s *suite) cycles() error {
	f, err := s.fleet(s.big())
	if err != nil {
		return err
	}
	g, store, err := f.generator("site")
	if err != nil {
		return err
	}
	defer store.Close()
	var files int
	cycle := func(wait time.Duration, names []string) (float64, error) {
		if err := f.pushAfter(wait, names); err != nil {
			return 0, err
		}
		u, err := mine(func() error {
			r, err := g.Generate(context.Background(), f.at)
			files = r.Written
			return err
		})
		return u.ms(), err
	}
	var all []float64
	profile, err := os.Create(filepath.Join(s.dir, "all.prof"))
	if err != nil {
		return err
	}
	defer profile.Close()
	for n := range 20 {
		if n == 10 {
			if err := pprof.StartCPUProfile(profile); err != nil {
				return err
			}
		}
		ms, err := cycle(every, f.names)
		if err != nil {
			return err
		}
		say("    cycle %d: %.0f ms, %d files", n+1, ms, files)
		all = append(all, ms)
		if s.quick && n == 11 {
			break
		}
	}
	pprof.StopCPUProfile()
	s.profiled(profile.Name())
	rivals, besides, err := floors(f)
	if err != nil {
		return err
	}
	hosts := len(f.names)
	scale := float64(hosts) / 1000
	hugo, err := s.hugos(f)
	if err != nil {
		return err
	}
	rivals = append(rivals, rival{"hugo, a page with a table a host and an index, HTML alone", hugo.cold, 557 * scale})
	renamed, lastRenamed, ways, err := replaced(f, len(all))
	if err != nil {
		return err
	}
	s.add(row{id: "G1", what: fmt.Sprintf("a cycle where all of %d hosts have news (%d files)", hosts, files), unit: "ms", values: append([]float64(nil), all[3:]...), target: 500 * scale, least: true, rivals: rivals, besides: besides})
	s.add(row{id: "G5", what: "the last cycle in a row against the 4th", unit: "times", values: []float64{all[len(all)-1] / all[3]}, target: 1.2,
		besides: []beside{{"temporary files and renames, a page for each host, likewise", lastRenamed}}})
	s.add(row{id: "G1", what: fmt.Sprintf("for comparison: %d pages of 7.8 KB, temporary files and renames", hosts+2), unit: "ms", values: renamed, least: true, besides: ways})
	// A second apart: hosts that are silent for longer are stale, which is news.
	// At first charts are still due, which are read for a few hosts at a time. All
	// report in between: hosts that are silent for longer are stale, which is news.
	for n := 1; n < 60 && (n == 1 || files > 60); n++ {
		names := []string(nil)
		if n%20 == 0 {
			names = f.names
		}
		if _, err := cycle(time.Second, names); err != nil {
			return err
		}
	}
	var some, none []float64
	if _, err := cycle(time.Second, f.names); err != nil {
		return err
	}
	for range s.times(8) {
		ms, err := cycle(time.Second, fleettest.WithNews(f.Fleet, f.names, f.at, time.Second, max(1, hosts/100)))
		if err != nil {
			return err
		}
		some = append(some, ms)
	}
	someFiles := files
	if _, err := cycle(time.Second, f.names); err != nil {
		return err
	}
	for range s.times(8) {
		ms, err := cycle(time.Second, nil)
		if err != nil {
			return err
		}
		none = append(none, ms)
	}
	noneFiles := files
	anew, err := changes(f.path("site"), func() error { _, err := cycle(time.Second, nil); return err })
	if err != nil {
		return err
	}
	floor, err := rewritten(f, "again", anew)
	if err != nil {
		return err
	}
	unchanged := []rival{{"hugo, its site built again, unchanged", hugo.same, 499 * scale}}
	s.add(row{id: "G2", what: fmt.Sprintf("the same with news of 1 %% (%d files)", someFiles), unit: "ms", values: some, target: 40 * scale, least: true,
		rivals: []rival{{"hugo, with 1 % of its pages changed", hugo.some, 536 * scale}}})
	s.add(row{id: "G2", what: fmt.Sprintf("the same with no news, a clock that goes on (%d files)", noneFiles), unit: "ms", values: none, target: 20 * scale, least: true,
		rivals: unchanged, besides: []beside{floor}})
	var written, still []float64
	for range s.times(8) { // charts may still be due from the cycles before
		u, err := mine(func() error {
			r, err := g.Generate(context.Background(), f.at)
			written = append(written, float64(r.Written))
			return err
		})
		if err != nil {
			return err
		}
		still = append(still, u.ms())
	}
	s.add(row{id: "G2", what: "the same where nothing changed, the clock neither", unit: "ms", values: still, target: 20 * scale, least: true, rivals: unchanged})
	s.add(row{id: "G2", what: "files written then", unit: "files", values: written, target: 0.5, least: true})
	return nil
}

// profiled notes where the time of a profile goes.
func (s *suite) profiled(path string) {
	_, out, err := program(nil, "go", "tool", "pprof", "-top", "-cum", "-nodecount=4000", path)
	if err != nil {
		s.note("no profile: %v", err)
		return
	}
	var parts []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		for name, what := range map[string]string{
			"gpuboard/sitegen/page.(*view).renderHost": "pages and cards of hosts (html/template)",
			"gpuboard/sitegen/data.Files":              "JSON and calendars",
			"gpuboard/sitegen/text.Files":              "texts for terminals",
			"gpuboard/sitegen.(*view).gzip":            "gzip",
			"gpuboard/atomicfile.(*Batch).Add":         "staging files",
			"gpuboard/atomicfile.(*Batch).Commit":      "making them durable and visible",
			"gpuboard/sitegen.(*Generator).gather":     "reading drops, taking samples into history",
			"gpuboard/board.Merge":                     "the merge",
			"gpuboard/sitegen.(*Generator).history":    "charts from history",
			"gpuboard/sitegen.(*Generator).remember":   "remembering for the next generation",
			"runtime.gcBgMarkWorker":                   "garbage collection",
			"internal/runtime/syscall/linux.Syscall6":  "in the kernel, all of it (a part of the others)",
		} {
			if fields[5] == name {
				parts = append(parts, what+" "+fields[4])
			}
		}
	}
	s.note("A cycle where every host has news, by its profile (of all samples): %s.", strings.Join(parts, ", "))
}
