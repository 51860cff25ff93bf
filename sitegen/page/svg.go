package page

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
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

// coarseSpark is an hour to the step, for a page with many rows.
func coarseSpark() sparkGrain { return sparkGrain{24, 7} }

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

// A segment is a part of a bar that is 100 units long.
type segment struct {
	X, W  string
	Shade string // a, b, c in turn; "x" for what nobody is known to hold
}

// segments lays shares (0 to 1) side by side up to the whole that is used, in
// parts of one per cent: a bar is about 130 pixels long.
func segments(used float64, shares []float64) []segment {
	if math.IsNaN(used) {
		return nil
	}
	whole := int(math.Round(100 * min(1, max(0, used))))
	var out []segment
	add := func(x, end int, shade string) int {
		if end <= x {
			return x
		}
		out = append(out, segment{X: strconv.Itoa(x), W: strconv.Itoa(end - x), Shade: shade})
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

const (
	timelineDays = 7
	timelineRow  = 26 // pixels
	timelineRows = 400
	timelineBars = 128 // in one row
)

// A timeline is the bookings of the next seven days, a row for each GPU that
// has one. Positions along it are in per cent, so that it fits every screen.
type timeline struct {
	Days []tick
	Rows []lane
	More int // rows left out
	// MoreBars are bookings left out of rows that have too many of them.
	MoreBars int
}

// A tick is a mark on an axis; Short is for a narrow screen, where it is needed.
type tick struct{ X, Text, Short string }

type lane struct {
	Label, Href string
	Height      int
	Bars        []bar
}

type bar struct {
	X, W        string
	Y, H        int
	TextY       int
	Name, Title string
	Maintenance bool
	Open        bool // runs out of the picture
}

func (v *view) timeline() *timeline {
	b := v.in.Board
	from := b.GeneratedAt
	to := from.Add(timelineDays * 24 * time.Hour)
	at := func(t time.Time) float64 { return float64(t.Sub(from)) / float64(to.Sub(from)) }

	type key struct {
		host string
		gpu  int // -1 for the whole host
		mig  int // which of its slices; -1 for all of it
	}
	lanes := map[key][]*board.Booking{}
	for i := range b.Bookings {
		bk := &b.Bookings[i]
		if !bk.From.Before(to) || !bk.Until.IsZero() && !bk.Until.After(from) {
			continue
		}
		if len(bk.GPUs) == 0 {
			lanes[key{bk.Host, -1, -1}] = append(lanes[key{bk.Host, -1, -1}], bk)
		}
		for _, gpu := range bk.GPUs {
			k := key{bk.Host, gpu, -1}
			if bk.Slice != nil {
				k.mig = *bk.Slice
			}
			lanes[k] = append(lanes[k], bk)
		}
	}
	if len(lanes) == 0 {
		return nil
	}
	keys := make([]key, 0, len(lanes))
	for k := range lanes {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y key) int {
		return cmp.Or(cmp.Compare(x.host, y.host), cmp.Compare(x.gpu, y.gpu), cmp.Compare(x.mig, y.mig))
	})

	t := &timeline{}
	for m := firstMidnight(from, v.words.zone); m.Before(to); m = m.AddDate(0, 0, 1) {
		t.Days = append(t.Days, tick{X: percent(at(m)), Text: v.words.date(m), Short: v.words.weekdays[m.Weekday()]})
	}
	for i, k := range keys {
		if i == timelineRows {
			t.More = len(keys) - timelineRows
			break
		}
		l := lane{Label: k.host}
		if k.gpu >= 0 {
			one := board.Booking{GPUs: []int{k.gpu}, Slice: lanes[k][0].Slice}
			l.Label += " " + one.Labels()[0]
		}
		if v.hosts[k.host] {
			l.Href = "../hosts/" + k.host + "/index.html"
		}
		list := lanes[k]
		slices.SortStableFunc(list, func(x, y *board.Booking) int { return x.From.Compare(y.From) })
		if len(list) > timelineBars {
			t.MoreBars += len(list) - timelineBars
			list = list[:timelineBars]
		}
		// Bookings that overlap stand below each other.
		var ends []time.Time
		for _, bk := range list {
			end := bk.Until
			if end.IsZero() || end.After(to) {
				end = to
			}
			begin := bk.From
			if begin.Before(from) {
				begin = from
			}
			level := slices.IndexFunc(ends, func(e time.Time) bool { return !e.After(begin) })
			if level < 0 {
				level, ends = len(ends), append(ends, end)
			}
			ends[level] = end
			title := render.Clean(bk.Name)
			if m := v.words.near(bk.From, from); m != nil {
				title += " " + m.Text
			}
			title += " –"
			if m := v.words.near(bk.Until, from); m != nil {
				title += " " + m.Text
			}
			if bk.Comment != "" {
				title += ": " + render.Clean(bk.Comment)
			}
			l.Bars = append(l.Bars, bar{
				X: percent(at(begin)), W: percent(max(0.004, at(end)-at(begin))),
				Y: 3 + level*(timelineRow-4), H: timelineRow - 6, TextY: 3 + level*(timelineRow-4) + 14,
				Name: render.Clean(bk.Name), Title: title, Maintenance: bk.Kind == "maintenance", Open: bk.Until.IsZero(),
			})
		}
		l.Height = timelineRow + (len(ends)-1)*(timelineRow-4)
		t.Rows = append(t.Rows, l)
	}
	return t
}
