package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A row is one line of the report.
type row struct {
	id, what, unit string
	values         []float64
	// target is the goal, at most, of what is the same on every machine, such as
	// bytes and ratios; 0 for none. Times have their goals as ratios, in rivals.
	// besides is what the same costs otherwise, measured in this run.
	target  float64
	besides []beside
	rivals  []rival
	// least reports the smallest value where others are only noise from the
	// machine; it is true for processor time.
	least bool
}

// A rival is what a goal is told against: value is what it takes in this run, and
// asked the ratio that is the goal, at most; 0 for none.
type rival struct {
	what         string
	value, asked float64
}

// ratio says what was asked for in units of the rival, and what was reached.
func (r row) ratio(o rival) string {
	switch {
	case o.value <= 0:
		return ""
	case o.asked <= 0:
		return fmt.Sprintf("%s: %s (ratio %s)", o.what, number(o.value), number(r.result()/o.value))
	}
	reached := r.result() / o.value
	return fmt.Sprintf("%s: %s; asked %s of it, reached %s: %s", o.what, number(o.value),
		number(o.asked), number(reached), verdict(reached, o.asked))
}

// beside is what something else costs.
type beside struct {
	what  string
	value float64
}

func (s *suite) add(r row) {
	slices.Sort(r.values)
	s.rows = append(s.rows, r)
	if len(r.values) == 0 {
		say("  %s %s", r.id, r.what)
		return
	}
	say("  %s %s: %s %s (least %s)", r.id, r.what, number(r.median()), r.unit, number(r.values[0]))
}

func (s *suite) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

func (r row) median() float64 { return r.values[len(r.values)/2] }

// result is what is held against the target.
func (r row) result() float64 {
	if r.least {
		return r.values[0]
	}
	return r.median()
}

func (r row) verdict() string {
	if len(r.values) == 0 || r.target == 0 {
		return ""
	}
	return verdict(r.result(), r.target)
}

func verdict(reached, asked float64) string {
	if reached <= asked {
		return "met"
	}
	return fmt.Sprintf("**%.1f times**", reached/asked)
}

// number has three digits that mean something.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.3g", v), "0"), ".")
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func (s *suite) write(out string) error {
	var b strings.Builder
	size := "whole"
	if s.quick {
		size = "quick"
	}
	fmt.Fprintf(&b, "# What it costs\n\nWritten by `go -C bench run .` (%s) on %s: %d processors, %s, %s.\n\n", size,
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.GOOS+"/"+runtime.GOARCH, runtime.Version())
	if s.busy != "" {
		fmt.Fprintf(&b,
			"Processes that wanted a processor (load average) when it began, and when it ended: %s, %s.\n\n", s.busy,
			busy())
	}
	b.WriteString(
		"Milliseconds are processor time, user and system, of all processes that take part. What else the\nmachine did at the time makes them larger and never smaller, so the least of several runs is held\nagainst the target. Times have targets as ratios to what else does the work, measured in the same run, because\nratios stay where milliseconds drift from machine to machine. Times \"by the clock\" are waiting, not work.\n\n")
	b.WriteString(speedTable(s.before, s.after))
	b.WriteString(
		"| # | measure | least | median | most | unit | target | reached | as a ratio | beside it |\n|---|---|---:|---:|---:|---|---:|---|---|---|\n")
	for _, r := range s.rows {
		if len(r.values) == 0 {
			fmt.Fprintf(&b, "| %s | %s | | | | | | | | |\n", r.id, cell(r.what))
			continue
		}
		target := ""
		if r.target > 0 {
			target = number(r.target)
		}
		var besides []string
		for _, o := range r.besides {
			ratio := ""
			if o.value > 0 {
				ratio = fmt.Sprintf(" (ratio %s)", number(r.result()/o.value))
			}
			besides = append(besides, o.what+": "+number(o.value)+ratio)
		}
		var ratios []string
		for _, o := range r.rivals {
			if told := r.ratio(o); told != "" {
				ratios = append(ratios, told)
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", r.id, cell(r.what),
			number(r.values[0]), number(r.median()),
			number(r.values[len(r.values)-1]), r.unit, target, r.verdict(), cell(strings.Join(ratios, "; ")),
			cell(strings.Join(besides, "; ")))
	}
	b.WriteString("\n![results against targets](report.svg)\n")
	if len(s.notes) > 0 {
		b.WriteString("\n## Notes of this run\n\n")
		for _, n := range s.notes {
			fmt.Fprintf(&b, "- %s\n", n)
		}
	}
	notes, err := os.ReadFile(s.remarks)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(notes) > 0 {
		fmt.Fprintf(&b, "\n%s", notes)
	}
	if out == "-" {
		_, err := os.Stdout.WriteString(b.String())
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "REPORT.md"), []byte(b.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "report.svg"), []byte(plot(s.rows)), 0o644)
}

func cell(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "|", "/"), "\n", " ")
}

// plot draws each result against its target, on a logarithmic scale: left of
// the line is better than was asked for.
func plot(rows []row) string {
	const left, width, line = 330, 420, 22
	type bar struct {
		row
		ratio float64 // to what was asked
	}
	var bars []bar
	for _, r := range rows {
		if len(r.values) > 0 && r.target > 0 {
			bars = append(bars, bar{r, r.result() / r.target})
		}
		for _, o := range r.rivals {
			if len(r.values) > 0 && o.asked > 0 && o.value > 0 {
				bars = append(bars, bar{r, r.result() / o.value / o.asked})
			}
		}
	}
	var b strings.Builder
	height := line*len(bars) + 50
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img" aria-label="Results against targets">`+"\n", left+width+70, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	x := func(ratio float64) float64 { return left + width*clamp((log10(ratio)+2)/4) } // 0.01 to 100 times
	for _, tick := range []float64{0.01, 0.1, 1, 10, 100} {
		color := "#ddd"
		if tick == 1 {
			color = "#444"
		}
		fmt.Fprintf(&b,
			`<line x1="%.1f" x2="%.1f" y1="24" y2="%d" stroke="%s"/><text x="%.1f" y="16" text-anchor="middle" fill="#444">%gx</text>`+"\n", x(tick), x(tick), height-10, color, x(tick), tick)
	}
	for i, r := range bars {
		ratio := r.ratio
		color := "#2a7f3f"
		if ratio > 1 {
			color = "#c2571a"
		}
		y := 30 + line*i
		from, to := min(x(ratio), x(1)), max(x(ratio), x(1))
		fmt.Fprintf(&b,
			`<text x="%d" y="%d" text-anchor="end">%s %s</text><rect x="%.1f" y="%d" width="%.1f" height="14" fill="%s"/><text x="%.1f" y="%d" fill="#444">%s %s</text>`+"\n",
			left-8, y+12, r.id, escape(short(r.what)), from, y, to-from+1, color, to+5, y+12, number(r.result()),
			escape(r.unit))
	}
	b.WriteString("</svg>\n")
	return b.String()
}
