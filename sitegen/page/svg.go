package page

import (
	"math"
	"strconv"

	"gpuboard/templates"
)

// Charts are attributes of SVG, made here as numbers: a strict
// Content-Security-Policy forbids inline styles, and SVG does not need them.

// A sparkGrain is how finely the last 24 hours are drawn, in units of which one
// is a step wide and one a level high. It decides most of the front page's size:
// noise does not compress, whatever it is written in.
type sparkGrain struct {
	steps  int // of the 24 hours
	levels int // of the height: more is not seen at this size
}

// fineSpark is half an hour to the step.
func fineSpark() sparkGrain { return sparkGrain{48, 10} }

// box is the size of the picture, as a viewBox says it.
func (s sparkGrain) box() string { return strconv.Itoa(s.steps) + " " + strconv.Itoa(s.levels) }

// sparkline draws steps of utilization as an area with an outline: 100 % is the
// full height, a zero is the outline alone, and a step without readings is a gap.
// The path uses relative moves because they repeat, and what repeats compresses.
func sparkline(steps []*float64, grain sparkGrain) (path string, mean, highest int, known bool) {
	width := (len(steps) + grain.steps - 1) / grain.steps
	base := int64(grain.levels)
	if width == 0 {
		return "", 0, 0, false
	}
	b := make([]byte, 0, 256)
	sum, n, top := 0.0, 0, 0.0
	drawing, height := false, 0
	for i := 0; i < len(steps); i += width {
		part, k := 0.0, 0
		for _, v := range steps[i:min(i+width, len(steps))] {
			if v == nil || math.IsNaN(*v) {
				continue
			}
			value := min(100, max(0, *v))
			part, k = part+value, k+1
			top = max(top, value)
		}
		if k == 0 {
			if drawing {
				b = append(b, 'V')
				b = strconv.AppendInt(b, base, 10)
				b = append(b, 'z')
				drawing = false
			}
			continue
		}
		sum, n = sum+part, n+k
		h := int(math.Round(part / float64(k) * float64(grain.levels) / 100))
		if !drawing {
			b = append(b, 'M')
			b = strconv.AppendInt(b, int64(i/width), 10)
			b = append(b, ' ')
			b = strconv.AppendInt(b, base, 10)
			drawing, height = true, 0
		}
		if h != height {
			b = append(b, 'v')
			b = strconv.AppendInt(b, int64(height-h), 10)
			height = h
		}
		b = append(b, "h1"...)
	}
	if drawing {
		b = append(b, 'V')
		b = strconv.AppendInt(b, base, 10)
		b = append(b, 'z')
	}
	if n == 0 {
		return "", 0, 0, false
	}
	return string(b), int(math.Round(sum / float64(n))), int(math.Round(top)), true
}

// segments lays shares (0 to 1) side by side up to the whole that is used, in
// parts of one per cent: a bar is about 130 pixels long.
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
