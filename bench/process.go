package main

import (
	"fmt"
	"slices"
	"time"
)

// generate runs the program once, at the moment of the fleet. It keeps nothing of
// the past for the next one then, so it draws charts that are not due.
func (s *suite) generate(f *fleet) (use, error) {
	return s.cron(f, "--now", f.at.Format("2006-01-02T15:04:05Z"))
}

// cron runs the program once, as cron would.
func (s *suite) cron(f *fleet, more ...string) (use, error) {
	u, _, err := program([]int{3}, s.program,
		append(
			[]string{"generate", "--data", f.path("data"), "--site", f.site(), "--state", f.path("state"), "--timezone",
				"UTC"}, more...)...)
	return u, err
}

// processes are generations by a process each, as cron starts them, with news of all
// hosts in each.
func (s *suite) processes() error {
	started, err := leastProgram(5, s.program, "version")
	if err != nil {
		return err
	}
	for _, size := range []struct {
		hosts, runs int
		asked       float64 // of starting the program
	}{{10, 12, 11}, {100, 12, 32}, {s.big(), 5, 260 * float64(s.big()) / 1000}} {
		f, err := s.fleet(size.hosts)
		if err != nil {
			return err
		}
		var ms, mib []float64
		first := first(size.hosts)
		for n := range first + s.times(size.runs) {
			f.at = time.Now().UTC().Add(-every)
			if err := f.push(f.names); err != nil {
				return err
			}
			u, err := s.cron(f)
			if err != nil {
				return err
			}
			if n >= first {
				ms, mib = append(ms, u.ms()), append(mib, float64(u.peak)/(1<<20))
			}
		}
		what := row{id: "G2",
			what: fmt.Sprintf("gpuboard generate, a process for each generation, %d hosts, all with news", size.hosts),
			unit: "ms", values: ms, least: true,
			rivals: []rival{{"starting gpuboard (version)", started, size.asked}}}
		memory := row{id: "G4", what: fmt.Sprintf("its memory, %d hosts", size.hosts), unit: "MiB", values: mib,
			least: true}
		if size.hosts == s.big() {
			hugo, err := s.hugos(f)
			if err != nil {
				return err
			}
			what.rivals, memory.besides = append(what.rivals,
				rival{"hugo", hugo.cold, 2.5}), []beside{{"hugo's", hugo.mib}}
			memory.target = 200
		}
		s.add(what)
		s.add(memory)
	}
	return nil
}

// first is how many generations of so many hosts still make what is kept: few charts each.
func first(hosts int) int {
	if hosts > 100 {
		return 3
	}
	return 3 + hosts/8
}

func leastProgram(times int, name string, args ...string) (float64, error) {
	best := 0.0
	for n := range times {
		u, _, err := program(nil, name, args...)
		if err != nil {
			return 0, err
		}
		if n == 0 || u.ms() < best {
			best = u.ms()
		}
	}
	return best, nil
}

// growth compares fleets of which each has five times as many hosts as the one before.
// They are generated in turns, so that other work of the machine slows all of them. They
// are new fleets, because the generations of a fleet become slower after the first ones.
func (s *suite) growth() error {
	sizes := []int{200, 1000, 5000}
	if s.quick {
		sizes = []int{40, 200}
	}
	var fleets []*fleet
	for _, hosts := range sizes {
		f, err := s.newFleet("growth", hosts)
		if err != nil {
			return err
		}
		defer f.remove()
		fleets = append(fleets, f)
	}
	ms, mib := make([][]float64, len(sizes)), make([][]float64, len(sizes))
	var clock []float64             // of the largest fleet
	for n := range 1 + s.times(8) { // the first makes all files, the others all anew
		for i, f := range fleets {
			if err := f.push(f.names); err != nil {
				return err
			}
			u, err := s.generate(f)
			if err != nil {
				return err
			}
			say("    %d hosts, generation %d: %.0f ms, %.0f MiB", sizes[i], n+1, u.ms(), float64(u.peak)/(1<<20))
			if n == 0 {
				continue
			}
			ms[i], mib[i] = append(ms[i], u.ms()), append(mib[i], float64(u.peak)/(1<<20))
			if i == len(sizes)-1 {
				clock = append(clock, u.wall.Seconds())
			}
		}
	}
	for i := 1; i < len(sizes); i++ {
		for _, what := range []struct {
			name, unit string
			values     [][]float64
			target     float64
		}{{"processor time", "ms", ms, 5.5}, {"memory", "MiB", mib, 5}} {
			few, many := what.values[i-1], what.values[i]
			var ratios []float64
			for n := range few {
				ratios = append(ratios, many[n]/few[n])
			}
			s.add(
				row{id: "G3",
					what: fmt.Sprintf("%s, from %d to %d hosts (at least %s and %s %s)", what.name, sizes[i-1],
						sizes[i], number(slices.Min(few)), number(slices.Min(many)), what.unit),
					unit: "times", values: ratios, target: what.target})
		}
	}
	largest := len(sizes) - 1
	what := fmt.Sprintf("a generation of %d hosts, by the clock", sizes[largest])
	s.add(row{id: "G3", what: what, unit: "s", values: clock})
	for i, f := range fleets {
		files, err := contents(f.site())
		if err != nil {
			return err
		}
		bytes := 0
		for _, content := range files {
			bytes += len(content)
		}
		what := fmt.Sprintf("the front page of %d hosts, gzipped", sizes[i])
		s.add(row{id: "G3", what: what, unit: "KiB", values: []float64{float64(len(files["index.html.gz"])) / 1024},
			besides: []beside{{"plain", float64(len(files["index.html"])) / 1024}}})
		what = fmt.Sprintf("the site of %d hosts", sizes[i])
		s.add(row{id: "G3", what: what, unit: "MB", values: []float64{float64(bytes) / 1e6},
			besides: []beside{{"files", float64(len(files))}}})
	}
	return nil
}
