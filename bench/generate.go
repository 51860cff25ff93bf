package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
)

// generator is the one of generate --watch, in this process.
func (f *fleet) generator() (*sitegen.Generator, *history.Store, error) {
	store, err := history.Open(context.Background(), f.path("state", "history.db"), f.at, history.Options{})
	if err != nil {
		return nil, nil, err
	}
	var hosts []inventory.Host
	for _, h := range f.Hosts() {
		hosts = append(hosts, inventory.Host{Name: h.Name, Group: h.Group})
	}
	g, err := sitegen.New(sitegen.Options{
		Data: f.path("data"), Site: f.site(), State: f.path("state"), History: store,
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

// cycles are generations of a process that goes on, with news of all hosts in each.
func (s *suite) cycles() error {
	f, err := s.fleet(s.big())
	if err != nil {
		return err
	}
	g, store, err := f.generator()
	if err != nil {
		return err
	}
	defer store.Close()
	var files int
	cycle := func() (float64, error) {
		if err := f.push(f.names); err != nil {
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
		ms, err := cycle()
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
	size, err := written(f.site(), func() error { _, err := cycle(); return err })
	if err != nil {
		return err
	}
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
	rivals = append(rivals, rival{"hugo, a page with a table a host and an index, HTML alone", hugo.cold, 440 * scale})
	renamed, lastRenamed, ways, err := replaced(f, len(all))
	if err != nil {
		return err
	}
	s.add(row{id: "G1", what: fmt.Sprintf("a generation by the loop, all of %d hosts with news", hosts), unit: "ms", values: append([]float64(nil), all[3:]...), target: 1000 * scale, least: true, rivals: rivals, besides: besides})
	s.add(row{id: "G1", what: "files it writes", values: []float64{float64(files)}, target: 4300 * scale})
	s.add(row{id: "G1", what: "bytes it writes", unit: "MB", values: []float64{float64(size) / 1e6}, target: 60 * scale})
	s.add(row{id: "G5", what: "the last cycle in a row against the 4th", unit: "times", values: []float64{all[len(all)-1] / all[3]}, target: 1.2,
		besides: []beside{{"temporary files and renames, a page for each host, likewise", lastRenamed}}})
	s.add(row{id: "G1", what: fmt.Sprintf("for comparison: %d pages of 7.8 KB, temporary files and renames", hosts+2), unit: "ms", values: renamed, least: true, besides: ways})
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
			"gpuboard/sitegen/page.(*view).renderHosts.func1":      "pages of hosts",
			"gpuboard/sitegen/page.(*view).userPages":              "pages of people",
			"gpuboard/sitegen/data.hostDatas.func1":                "JSON, metrics and calendars of hosts",
			"gpuboard/sitegen/text.Files.func1":                    "texts of hosts",
			"gpuboard/sitegen.(*compressor).gzip":                  "gzip",
			"gpuboard/internal/atomicfile.(*Batch).Add":            "comparing and staging files",
			"gpuboard/internal/atomicfile.(*Batch).Commit":         "making them durable and visible",
			"gpuboard/internal/spool.(*Drops).Latest":              "reading drops",
			"gpuboard/sitegen.(*Generator).past":                   "taking samples into history, the recent past",
			"gpuboard/internal/board.Merge":                        "the merge",
			"gpuboard/sitegen.(*Generator).history":                "charts and sums from history",
			"gpuboard/sitegen.(*Generator).remember":               "remembering for the next generation",
			"github.com/a-h/templ.JoinStringErrs[go.shape.string]": "templ turning strings into strings (a part of pages)",
			"runtime.mallocgc":                                     "allocating (a part of the others)",
			"runtime.gcBgMarkWorker":                               "garbage collection",
			"internal/runtime/syscall/linux.Syscall6":              "in the kernel, all of it (a part of the others)",
		} {
			if fields[5] == name {
				parts = append(parts, what+" "+fields[4])
			}
		}
	}
	slices.Sort(parts)
	s.note("A cycle where every host has news, by its profile (of all samples): %s.", strings.Join(parts, ", "))
}
