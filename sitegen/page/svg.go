package page

import (
	"math"
	"strconv"
	"time"

	"gpuboard/templates"
)

// Charts are attributes of SVG, made here as numbers: a strict
// Content-Security-Policy forbids inline styles, and SVG does not need them.

const (
	// chartLevels is the height of a chart, and chartBase how far its area reaches below
	// its zero: a zero has a thin line, a gap has nothing.
	chartLevels, chartBase = 100, 2
)

// area draws values, of which one is a whole and NaN is not known: one unit wide each, a
// whole as high as levels, and all of it base higher. Nothing is drawn between two known
// values that do not follow each other; gaps are boxes in their place.
func area(values []float64, levels, base int) (path, gaps string) {
	var p, g []byte
	command := func(name string, n int) { p = strconv.AppendInt(append(p, name...), int64(n), 10) }
	level := func(i int) int {
		if i == len(values) || math.IsNaN(values[i]) {
			return -1
		}
		return base + int(math.Round(float64(levels)*min(1, max(0, values[i]))))
	}
	for i := 0; i < len(values); {
		from := i
		if level(i) < 0 {
			for ; i < len(values) && level(i) < 0; i++ {
			}
			g = box(g, float64(from), float64(i-from))
			continue
		}
		command("M", i)
		command(" ", levels+base)
		for height := 0; level(i) >= 0; {
			h, from := level(i), i
			if h != height {
				command("v", height-h)
			}
			for ; level(i) == h; i++ {
			}
			command("h", i-from)
			height = h
		}
		command("V", levels+base)
		p = append(p, 'z')
	}
	return string(p), string(g)
}

// chart draws values, of which NaN is not known.
func (w *words) chart(values []float64, top float64, unit string) templates.Chart {
	c := templates.Chart{N: len(values), Unit: unit, Top: w.digits(top)}
	shares := make([]float64, len(values))
	sum, n, most := 0.0, 0, math.Inf(-1)
	for i, v := range values {
		if math.IsNaN(v) {
			shares[i] = v
			continue
		}
		if top > 0 {
			shares[i] = v / top
		}
		sum, n, most = sum+v, n+1, max(most, v)
	}
	c.Path, c.Gaps = area(shares, chartLevels, chartBase)
	if n > 0 {
		c.Mean, c.Most = w.digits(sum/float64(n)), w.digits(most)
	}
	return c
}

// segments lays shares (0 to 1) side by side up to the used whole, in per cent.
func segments(used float64, shares []float64) []templates.Segment {
	if math.IsNaN(used) {
		return nil
	}
	whole := int(math.Round(100 * min(1, max(0, used))))
	var out []templates.Segment
	add := func(x, end int, shade string) int {
		if end <= x {
			return x
		}
		out = append(out, templates.Segment{X: strconv.Itoa(x), W: strconv.Itoa(end - x), Shade: shade})
		return end
	}
	x, sum := 0, 0.0
	for i, share := range shares {
		if !math.IsNaN(share) {
			sum += max(0, share)
			x = add(x, min(whole, int(math.Round(100*min(1, sum)))), string("abc"[i%3]))
		}
	}
	add(x, whole, "x")
	return out
}

func percent(share float64) string {
	return strconv.FormatFloat(math.Round(share*1000)/10, 'f', -1, 64)
}

// box appends a rectangle of full height.
func box(b []byte, x, w float64) []byte {
	b = append(strconv.AppendFloat(append(b, 'M'), x, 'f', -1, 64), " 0h"...)
	b = append(strconv.AppendFloat(b, w, 'f', -1, 64), 'v')
	b = append(strconv.AppendInt(b, chartLevels+chartBase, 10), 'h', '-')
	return append(strconv.AppendFloat(b, w, 'f', -1, 64), 'z')
}

// digits writes a value with one decimal below ten, else with none.
func (w *words) digits(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case math.Abs(v) < 9.95:
		return w.float(math.Round(v*10)/10+0, -1)
	default:
		return w.float(math.Round(v), 0)
	}
}

// partOf is a part of one in per cent: 100 and 0 only if it is exactly that.
func partOf(v float64) string {
	p := math.Round(100 * v)
	switch {
	case v > 0 && p < 1:
		return "<1"
	case v < 1 && p > 99:
		p = 99
	}
	return strconv.FormatFloat(p, 'f', 0, 64)
}

// ticks are the marks below a chart from from to to, in per cent of its width.
func (w *words) ticks(from, to time.Time) []templates.Tick {
	length := to.Sub(from)
	if length <= 0 {
		return nil
	}
	var out []templates.Tick
	add := func(t time.Time, text string) {
		if at := float64(t.Sub(from)) / float64(length); at >= 0.02 && at <= 0.96 {
			out = append(out, templates.Tick{X: percent(at), Text: text})
		}
	}
	local := from.In(w.zone)
	y, m, d := local.Date()
	switch {
	case length <= 36*time.Hour:
		for h := 0; h < 72; h += 6 {
			t := time.Date(y, m, d, h, 0, 0, 0, w.zone)
			text := t.Format("15:04")
			if t.Hour() == 0 {
				text = w.weekdays[t.Weekday()]
			}
			add(t, text)
		}
	case length <= 9*24*time.Hour:
		for i := range 11 {
			t := time.Date(y, m, d+i, 0, 0, 0, 0, w.zone)
			add(t, w.weekdays[t.Weekday()])
		}
	case length <= 40*24*time.Hour:
		for i := range 42 {
			if t := time.Date(y, m, d+i, 0, 0, 0, 0, w.zone); t.Weekday() == time.Monday {
				add(t, w.time("date.tick", t))
			}
		}
	default:
		for i := 1; i < 14; i += 2 {
			t := time.Date(y, m+time.Month(i), 1, 0, 0, 0, 0, w.zone)
			add(t, w.months[t.Month()-1])
		}
	}
	return out
}
