package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// This file says how fast the machine is, by work that is always the same, so
// that two reports can be compared.

// A machineSpeed is what one kind of fixed work took, in ms, from least to most.
type machineSpeed struct {
	what string
	ms   []float64
}

// machineSpeeds takes the times of all kinds of fixed work, which is below a second.
func (s *suite) machineSpeeds() ([]machineSpeed, error) {
	block := make([]byte, 1<<20)
	files := filepath.Join(s.dir, "speeds")
	if err := os.MkdirAll(files, 0o755); err != nil {
		return nil, err
	}
	start := func(n int, name string, args ...string) func() (float64, error) {
		return func() (float64, error) {
			sum := 0.0
			for range n {
				u, _, err := program(nil, name, args...)
				if err != nil {
					return 0, err
				}
				sum += u.ms()
			}
			return sum / float64(n), nil
		}
	}
	inside := func(f func() error) func() (float64, error) {
		return func() (float64, error) {
			u, err := mine(f)
			return u.ms(), err
		}
	}
	var all []machineSpeed
	for _, work := range []struct {
		what string
		take func() (float64, error)
	}{
		{"SHA-256 of 32 MiB", inside(func() error {
			h := sha256.New()
			for range 32 {
				h.Write(block)
			}
			h.Sum(nil)
			return nil
		})},
		{"starting /bin/true", start(5, "/bin/true")},
		{"starting gpuboard (version)", start(1, s.program, "version")},
		{"writing 1,000 files of 4 KiB over old ones, in place", inside(func() error {
			for n := range 1000 {
				if err := overwrite(filepath.Join(files, fmt.Sprint(n)), block[:4096]); err != nil {
					return err
				}
			}
			return nil
		})},
	} {
		p := machineSpeed{what: work.what}
		for n := range 8 {
			ms, err := work.take()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", work.what, err)
			}
			if n > 0 { // the first makes files, and fills caches
				p.ms = append(p.ms, ms)
			}
		}
		slices.Sort(p.ms)
		all = append(all, p)
	}
	return all, nil
}

// speedTable is a table of how fast the machine was before and after; "" where
// neither is known.
func speedTable(before, after []machineSpeed) string {
	if len(before) == 0 {
		return ""
	}
	told := func(all []machineSpeed, n int) string {
		if n >= len(all) {
			return "unknown"
		}
		ms := all[n].ms
		return number(ms[0]) + ", " + number(ms[len(ms)/2])
	}
	var b strings.Builder
	b.WriteString(
		"How fast this machine was, by work that is the same in every report; ms, least and median of 7. Compare\nthe rows of two reports in the ratio of these.\n\n| fixed work | when it began | when it ended |\n|---|---:|---:|\n")
	for n, p := range before {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(p.what), told(before, n), told(after, n))
	}
	b.WriteString("\n")
	return b.String()
}
