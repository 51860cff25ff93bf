package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
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

// ridgeLevels is the height of a ridge.
const ridgeLevels = 400

// ridge draws values, of which one is a whole and NaN is not known: two units wide each, from the middle of one
// straight to that of the next. The script reads the values back from it.
func ridge(values []float64) string {
	var p []byte
	level := func(i int) int {
		if i == len(values) || math.IsNaN(values[i]) {
			return -1
		}
		return ridgeLevels - int(math.Round(ridgeLevels*min(1, max(0, values[i]))))
	}
	for i := 0; i < len(values); i++ {
		y := level(i)
		if y < 0 {
			continue
		}
		p = fmt.Appendf(p, "M%d %dV%dh1", 2*i, ridgeLevels, y)
		for ; level(i+1) >= 0; i++ {
			p = fmt.Appendf(p, "l2 %d", level(i+1)-y)
			y = level(i + 1)
		}
		p = fmt.Appendf(p, "h1V%dz", ridgeLevels)
	}
	return string(p)
}

// folded is the mean of every n values that are known.
func folded(values []float64, n int) []float64 {
	out := make([]float64, 0, len(values)/n+1)
	for i := 0; i < len(values); i += n {
		out = append(out, meanOf(values[i:min(i+n, len(values))]))
	}
	return out
}

// parts draws values, of which one is a whole: those of the steps of each key alone, in the order in which the keys
// come up. The key is the colour of the part.
func parts(values []float64, key func(step int) string, levels, base int) (list []templates.Part) {
	var keys []string
	for i := range values {
		if k := key(i); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		own := slices.Clone(values)
		for i := range own {
			if key(i) != k {
				own[i] = math.NaN()
			}
		}
		if path, _ := area(own, levels, base); path != "" {
			list = append(list, templates.Part{Color: k, Path: path})
		}
	}
	return list
}

// chart draws values, of which NaN is not known.
func (w *words) chart(values []float64, top float64, unit string) templates.Chart {
	c := templates.Chart{N: len(values), Unit: unit, Top: w.digits(top), High: top}
	shares := make([]float64, len(values))
	for i, v := range values {
		shares[i] = v / cmp.Or(top, 1) // where nothing is above zero, the top is
	}
	c.Path, c.Gaps = area(shares, chartLevels, chartBase)
	if mean := meanOf(values); !math.IsNaN(mean) {
		c.Mean, c.Most = w.digits(mean), w.digits(highest(math.Inf(-1), values))
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
			x = add(x, min(whole, int(math.Round(100*min(1, sum)))), "share"+strconv.Itoa(1+i%3))
		}
	}
	add(x, whole, "unowned")
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

// ticks are the marks below a chart from from to to, in per cent of its width: of a day its hours, and the name of
// the day at midnight; of a week its days, of a month its Mondays, of a year every second month.
func (w *words) ticks(from, to time.Time) []templates.AxisTick {
	length := to.Sub(from)
	if length <= 0 {
		return nil
	}
	var out []templates.AxisTick
	add := func(t time.Time, text string, day bool) {
		at := float64(t.Sub(from)) / float64(length)
		if at < 0.01 || at > 0.99 {
			return
		}
		tick := templates.AxisTick{X: percent(at), Text: text, Day: day}
		switch {
		case at < 0.04: // its text would be cut off
			tick.Anchor = "start"
		case at > 0.96:
			tick.Anchor = "end"
		}
		out = append(out, tick)
	}
	local := from.In(w.zone)
	y, m, d := local.Date()
	midnight := func(day int) time.Time { return time.Date(y, m, d+day, 0, 0, 0, 0, w.zone) }
	dayName := func(t time.Time) string { return w.weekdays[t.Weekday()] + " " + strconv.Itoa(t.Day()) }
	switch {
	case length <= 36*time.Hour:
		for h := 0; h < 72; h += 6 {
			t := time.Date(y, m, d, h, 0, 0, 0, w.zone)
			if t.Hour() == 0 {
				add(t, dayName(t), true)
			} else {
				add(t, t.Format("15:04"), false)
			}
		}
	case length <= 9*24*time.Hour:
		for i := range 11 {
			add(midnight(i), dayName(midnight(i)), true)
		}
	case length <= 40*24*time.Hour:
		for i := range 42 {
			if t := midnight(i); t.Weekday() == time.Monday {
				add(t, w.time("date.tick", t), true)
			}
		}
	default:
		for i := 1; i < 14; i += 2 {
			t := time.Date(y, m+time.Month(i), 1, 0, 0, 0, 0, w.zone)
			add(t, w.months[t.Month()-1], true)
		}
	}
	return out
}
