package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// cycles are generations of a process that goes on, with news of all hosts in each.
func (s *suite) cycles() error {
	f, err := s.fleet(s.big())
	if err != nil {
		return err
	}
	g, err := f.startGenerator()
	if err != nil {
		return err
	}
	defer g.stop()
	profile := filepath.Join(s.dir, "all.prof")
	var files int
	cycle := func(profile string) (float64, error) {
		if err := f.push(f.names); err != nil {
			return 0, err
		}
		done, err := g.generate(f.at, profile)
		files = done.Files
		return done.MS, err
	}
	var all []float64
	for n := range 20 {
		into := ""
		if n >= 10 {
			into = profile
		}
		ms, err := cycle(into)
		if err != nil {
			return err
		}
		say("    cycle %d: %.0f ms, %d files", n+1, ms, files)
		all = append(all, ms)
		if s.quick && n == 11 {
			break
		}
	}
	if err := g.stop(); err != nil {
		return err
	}
	if err := s.profiled(profile); err != nil {
		return err
	}
	if g, err = f.startGenerator(); err != nil {
		return err
	}
	defer g.stop()
	size, err := written(f.site(), func() error { _, err := cycle(""); return err })
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
	rivals = append(rivals, rival{"hugo, a page with a table a host and an index, HTML alone", hugo.cold, 2})
	renamed, lastRenamed, ways, err := replaced(f, len(all))
	if err != nil {
		return err
	}
	s.add(
		row{id: "G1", what: fmt.Sprintf("a generation by the loop, all of %d hosts with news", hosts), unit: "ms",
			values: append([]float64(nil), all[3:]...), least: true, rivals: rivals, besides: besides})
	s.add(row{id: "G1", what: "files it writes", values: []float64{float64(files)}, target: 5300 * scale})
	s.add(
		row{id: "G1", what: "bytes it writes", unit: "MB", values: []float64{float64(size) / 1e6}, target: 70 * scale})
	s.add(
		row{id: "G5", what: "the last cycle in a row against the 4th", unit: "times",
			values: []float64{all[len(all)-1] / all[3]}, target: 1.2,
			besides: []beside{{"temporary files and renames, a page for each host, likewise", lastRenamed}}})
	s.add(
		row{id: "G1", what: fmt.Sprintf("for comparison: %d pages of 7.8 KB, temporary files and renames", hosts+2),
			unit: "ms", values: renamed, least: true, besides: ways})
	return nil
}

// profileGroups are the functions whose shares of a generation the report names.
var profileGroups = map[string]string{
	"gpuboard/sitegen/page.(*view).renderHosts.func1": "pages of hosts",
	"gpuboard/sitegen/page.(*view).userPages":         "pages of people",
	"gpuboard/sitegen/data.hostFiles.func1":           "JSON, metrics and calendars of hosts",
	"gpuboard/sitegen/text.Files.func1":               "texts of hosts",
	"gpuboard/sitegen.(*compressor).gzip":             "gzip",
	"gpuboard/internal/atomicfile.(*Batch).Add":       "comparing and staging files",
	"gpuboard/internal/atomicfile.(*Batch).Commit":    "making them durable and visible",
	"gpuboard/internal/spool.(*Drops).Latest":         "reading drops",
	"gpuboard/sitegen.(*Generator).ingest":            "taking samples into history, the recent past",
	"gpuboard/internal/board.(*Draft).Board":          "the merge",
	"gpuboard/sitegen.(*Generator).pageHistory":       "charts and sums from history",
	"gpuboard/sitegen.(*Generator).remember":          "remembering for the next generation",
	"runtime.mallocgc":                                "allocating (a part of the others)",
	"runtime.gcBgMarkWorker":                          "garbage collection",
	"internal/runtime/syscall/linux.Syscall6":         "in the kernel, all of it (a part of the others)",
}

// profiled notes where the time of a profile goes. A function that the profile does not have is an error: it was
// renamed, or its work has gone elsewhere.
func (s *suite) profiled(path string) error {
	_, out, err := program(nil, "go", "tool", "pprof", "-top", "-cum", "-nodecount=100000", "-nodefraction=0",
		"-edgefraction=0", path)
	if err != nil {
		return fmt.Errorf("reading the profile: %w", err)
	}
	missing := maps.Clone(profileGroups)
	var parts []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		if what, named := missing[fields[5]]; named {
			parts = append(parts, what+" "+fields[4])
			delete(missing, fields[5])
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the profile has none of %s: name what does their work now",
			strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
	slices.Sort(parts)
	s.note("A cycle where every host has news, by its profile (of all samples): %s.", strings.Join(parts, ", "))
	return nil
}
