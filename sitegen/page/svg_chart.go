package page

import (
	"math"
	"strconv"
	"time"

	"gpuboard/templates"
)

// chartBase is how far the area of a chart reaches below its zero, in units of
// which the whole is 100: a zero has a thin line, a gap has nothing.
const chartBase = 2

// chart draws values, of which NaN is not known. Nothing is drawn between two
// known values that do not follow each other.
func (w *words) chart(values []float64, top float64, unit string) templates.Chart {
	c := templates.Chart{N: len(values), Unit: unit, Top: w.digits(top)}
	var path, gaps []byte
	sum, n, most := 0.0, 0, math.Inf(-1)
	drawing, height, run := false, 0, 0
	flush := func() {
		if run > 0 {
			path = strconv.AppendInt(append(path, 'h'), int64(run), 10)
			run = 0
		}
	}
	gap := -1
	for i := 0; i <= len(values); i++ {
		known := i < len(values) && !math.IsNaN(values[i])
		if known == drawing && !known && i < len(values) {
			if gap < 0 {
				gap = i
			}
			continue
		}
		if gap >= 0 && (known || i == len(values)) {
			gaps = box(gaps, float64(gap), float64(i-gap))
			gap = -1
		}
		if !known {
			if drawing {
				flush()
				path = strconv.AppendInt(append(path, 'V'), 100+chartBase, 10)
				path = append(path, 'z')
				drawing = false
			}
			if i < len(values) {
				gap = i
			}
			continue
		}
		v := values[i]
		sum, n, most = sum+v, n+1, max(most, v)
		h := chartBase
		if top > 0 {
			h += int(math.Round(100 * min(1, max(0, v/top))))
		}
		if !drawing {
			path = strconv.AppendInt(append(path, 'M'), int64(i), 10)
			path = strconv.AppendInt(append(path, ' '), 100+chartBase, 10)
			drawing, height = true, 0
		}
		if h != height {
			flush()
			path = strconv.AppendInt(append(path, 'v'), int64(height-h), 10)
			height = h
		}
		run++
	}
	c.Path, c.Gaps = string(path), string(gaps)
	if n > 0 {
		c.Mean, c.Most = w.digits(sum/float64(n)), w.digits(most)
	}
	return c
}

// box appends a rectangle of full height.
func box(b []byte, x, w float64) []byte {
	b = append(strconv.AppendFloat(append(b, 'M'), x, 'f', -1, 64), " 0h"...)
	b = append(strconv.AppendFloat(b, w, 'f', -1, 64), 'v')
	b = append(strconv.AppendInt(b, 100+chartBase, 10), 'h', '-')
	return append(strconv.AppendFloat(b, w, 'f', -1, 64), 'z')
}

// digits writes a value with as many digits as a reader wants: one decimal
// below ten.
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

// partOf is a part of one as per cent, where only all of it is 100 and only
// nothing is 0.
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
				add(t, strconv.Itoa(t.Day())+" "+w.months[t.Month()-1])
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
