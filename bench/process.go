package main

import (
	"fmt"
	"time"
)

// generate runs the program once, at the moment of the fleet. It keeps nothing of
// the past for the next one then, so it draws charts that are not due.
func (s *suite) generate(f *fleet) (use, error) {
	return s.cron(f, "--now", f.at.Format("2006-01-02T15:04:05Z"))
}

// cron runs the program once, as cron would.
func (s *suite) cron(f *fleet, more ...string) (use, error) {
	u, _, err := program([]int{3}, s.program, append([]string{"generate", "--data", f.path("data"), "--site", f.path("site"), "--state", f.path("state"), "--timezone", "UTC"}, more...)...)
	return u, err
}

// process is a cycle of everything in a process of its own, and its memory.
func (s *suite) process() error {
	f, err := s.fleet(s.big())
	if err != nil {
		return err
	}
	var ms, mib, again []float64
	for range s.times(5) {
		if err := f.push(f.names); err != nil {
			return err
		}
		u, err := s.generate(f)
		if err != nil {
			return err
		}
		ms, mib = append(ms, u.ms()), append(mib, float64(u.peak)/(1<<20))
		if u, err = s.generate(f); err != nil {
			return err
		}
		again = append(again, u.ms())
	}
	hosts := len(f.names)
	hugo, err := s.hugos(f)
	if err != nil {
		return err
	}
	s.add(row{id: "G1", what: fmt.Sprintf("the same by gpuboard generate, a process for each of %d hosts' news", hosts), unit: "ms", values: ms, least: true, rivals: []rival{{"hugo", hugo.cold, 0}}})
	s.note("A process for each generation renders, compresses and compares everything anew; generate --watch keeps what it can, which is why docs/scale.md tells large sites to use it. Files are staged as they are made; what its memory is are history, what is common to all files of a host, and the garbage of half a second.")
	s.add(row{id: "G1", what: "its memory", unit: "MiB", values: mib, target: 150, least: true, rivals: []rival{{"hugo's", hugo.mib, 118}}})
	s.add(row{id: "G2", what: "gpuboard generate where nothing changed", unit: "ms", values: again, least: true, rivals: []rival{{"hugo, its site built again, unchanged", hugo.same, 0}}})
	return nil
}

// small is the whole process for labs.
func (s *suite) small() error {
	for hosts, target := range map[int]float64{10: 12, 100: 60} {
		f, err := s.fleet(hosts)
		if err != nil {
			return err
		}
		var ms []float64
		first := 3 + hosts/8 // generations that still make what is kept: few charts each
		for n := range first + s.times(12) {
			f.at = time.Now().UTC().Add(-every)
			if err := f.push(f.names); err != nil {
				return err
			}
			u, err := s.cron(f)
			if err != nil {
				return err
			}
			if n >= first {
				ms = append(ms, u.ms())
			}
		}
		_, _, err = program(nil, s.program, "version")
		if err != nil {
			return err
		}
		u, err := leastProgram(5, s.program, "version")
		if err != nil {
			return err
		}
		s.add(row{id: "G4", what: fmt.Sprintf("gpuboard generate, %d hosts, all with news", hosts), unit: "ms", values: ms, target: target, least: true, besides: []beside{{"starting gpuboard (version)", u}}})
	}
	return nil
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

// growth is five times as many hosts, and again.
func (s *suite) growth() error {
	sizes := []int{200, 1000, 5000}
	if s.quick {
		sizes = []int{40, 200}
	}
	var ms, mib []float64
	for _, hosts := range sizes {
		f, err := s.fleet(hosts)
		if err != nil {
			return err
		}
		runs := 4
		if hosts > 1000 {
			runs = 2 // the first makes all files, the second all anew
		}
		var least, most float64
		for n := range runs {
			if err := f.push(f.names); err != nil {
				return err
			}
			u, err := s.generate(f)
			if err != nil {
				return err
			}
			say("    %d hosts, generation %d of %d: %.0f ms, %.0f MiB", hosts, n+1, runs, u.ms(), float64(u.peak)/(1<<20))
			if n == 0 || u.ms() < least {
				least = u.ms()
			}
			most = max(most, float64(u.peak)/(1<<20))
		}
		ms, mib = append(ms, least), append(mib, most)
		if hosts > 1000 {
			s.forget(hosts)
		}
	}
	for i := 1; i < len(sizes); i++ {
		s.add(row{id: "G3", what: fmt.Sprintf("processor time, from %d to %d hosts (%s to %s ms)", sizes[i-1], sizes[i], number(ms[i-1]), number(ms[i])), unit: "times", values: []float64{ms[i] / ms[i-1]}, target: 5.5})
		s.add(row{id: "G3", what: fmt.Sprintf("memory, from %d to %d hosts (%s to %s MiB)", sizes[i-1], sizes[i], number(mib[i-1]), number(mib[i])), unit: "times", values: []float64{mib[i] / mib[i-1]}, target: 5})
	}
	return nil
}
