package page

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// A strip is a GPU's last day, the present, and its next two days in one line.
const (
	// The last day is drawn in steps of half an hour, in as many levels as can be seen.
	// They decide most of the front page's size: noise does not compress.
	pastSteps, pastLevels = 48, 10

	stripAhead = 48 * time.Hour

	stripBars  = 6    // bookings, of a host with few GPUs
	hostBars   = 1024 // of all GPUs of a host
	stripRuns  = 6    // people in the words about the last day
	characters = 6.4  // the width of one in pixels
	// The part of a strip with bookings is at least so many pixels wide: on the front page, and on a host's own.
	narrowAhead, wideAhead = 100.0, 200.0
	mediumAhead            = 130.0 // on the front page in a window of 1,800 pixels
)

// strip draws what a GPU has done and which bookings of it are due; narrow is on the front page.
func (v *view) strip(h *board.Host, g *board.GPU, due []*board.Booking, narrow bool) *templates.Strip {
	s := &templates.Strip{}
	most := max(1, hostBars/max(1, h.Totals.GPUs.All+h.Totals.Slices.All))
	due = due[:min(len(due), most)]
	v.drawPast(s, g)
	now := v.in.Board.GeneratedAt.Truncate(quarter) // so that a line does not change with each generation
	width := wideAhead
	if narrow {
		width = narrowAhead
	}
	v.drawAhead(s, due, g, now, width)
	return s
}

// drawPast draws the load of the last day in the colours of those who held the GPU. The load of a slice is never
// known, and who held it still is.
func (v *view) drawPast(s *templates.Strip, g *board.GPU) {
	loads, holders := halves(g)
	sum, known, top := 0.0, 0, 0.0
	for i, load := range loads {
		if !math.IsNaN(load) {
			sum, known, top = sum+load, known+1, max(top, load)
		} else if holders[i] != "" {
			loads[i] = 0
		}
	}
	said := v.heldTexts(g.Holders)
	if known > 0 {
		said = append([]string{v.words.T("spark", int(math.Round(sum/float64(known))), int(math.Round(top)))}, said...)
		for _, run := range unknownRuns(loads) {
			s.Gaps += gapPath(run.from, run.to)
		}
	}
	s.Text = strings.Join(said, " · ")

	for i := range loads {
		if loads[i] /= 100; holders[i] == "" && loads[i] < 0.01 {
			loads[i] = math.NaN() // nobody, and nothing
		}
	}
	s.Past = parts(loads, func(i int) string { return v.colorOf(holders[i]) }, pastLevels, 1)
	slices.SortFunc(s.Past, func(x, y templates.Part) int { return strings.Compare(x.Color, y.Color) })
}

// heldTexts say who held a GPU in the last of these quarters of an hour, of which the last is still growing, and from
// when until when: "mira Sat 23:00 – Sun 05:30". The beginning is left out for whoever held it in the first of them, and
// the end for whoever holds it in the last.
func (v *view) heldTexts(holders []string) (texts []string) {
	at := func(step int) time.Time {
		if step == 0 || step == len(holders) {
			return time.Time{}
		}
		return v.dayFrom().Add(quarter * time.Duration(step))
	}

	for until := len(holders); until > 0 && len(texts) < stripRuns; {
		name, from := holders[until-1], until-1
		for from > 0 && holders[from-1] == name {
			from--
		}
		if name != "" {
			texts = append(texts, v.nameAndTimes(name, at(from), at(until)))
		}
		until = from
	}
	slices.Reverse(texts)
	return texts
}

// halves are the loads of the last day in half hours, NaN where a host was silent, and who held the GPU then.
func halves(g *board.GPU) (loads []float64, holders []string) {
	n := max(len(g.Utilization), len(g.Holders))
	width := (n + pastSteps - 1) / pastSteps
	for i := 0; i < n; i += width {
		sum, known, holder := 0.0, 0, ""
		for k := i; k < min(i+width, n); k++ {
			if k >= len(g.Utilization) {
				// only its holders are known
			} else if load := g.Utilization[k]; load != nil && !math.IsNaN(*load) {
				sum, known = sum+min(100, max(0, *load)), known+1
			}
			if k < len(g.Holders) && g.Holders[k] != "" {
				holder = g.Holders[k]
			}
		}
		loads, holders = append(loads, sum/float64(known)), append(holders, holder)
	}
	return loads, holders
}

// gapPath is a line, which the style makes as thick as the strip is high.
func gapPath(from, to int) string {
	return "M" + strconv.Itoa(from) + " 5.5h" + strconv.Itoa(to-from)
}

// drawAhead draws the bookings of the next two days in a picture that is so many pixels wide.
func (v *view) drawAhead(s *templates.Strip, due []*board.Booking, g *board.GPU, now time.Time, width float64) {
	ahead := span{from: now, until: now.Add(stripAhead)}
	var bars []stripBar
	for _, b := range due {
		if len(bars) == stripBars {
			break
		}
		if !ahead.shows(b) {
			continue
		}
		bar := stripBar{from: ahead.at(b.From), texts: v.barTexts(b, g)}
		bar.to = max(ahead.at(ahead.end(b)), bar.from+0.02)
		if b.Kind == "maintenance" {
			bar.Class = "under-maintenance"
		}
		bars = append(bars, bar)
	}
	placeTexts(bars, width)
	for _, bar := range bars {
		s.Bars = append(s.Bars, bar.StripBar)
	}
	if g.State != board.Free || len(s.Bars) > 0 {
		return
	}
	if until := g.FreeUntil; until.IsZero() || until.Sub(now) > 7*24*time.Hour {
		s.Free = v.words.T("strip.week")
	} else {
		s.Free = v.words.T("strip.until", v.words.near(until, now).Text)
	}
}

// barTexts are what may stand at a booking, the longest first. A row says itself who uses the GPU.
func (v *view) barTexts(b *board.Booking, g *board.GPU) []string {
	name, now := render.Clean(b.Name), v.in.Board.GeneratedAt
	if b.From.After(now) {
		from := v.words.near(b.From, now).Text
		return []string{from + " " + name, from, name}
	}
	until := v.words.T("book.open")
	if m := v.words.near(b.Until, now); m != nil {
		until = "→ " + m.Text
	}
	if g.State == board.InUse {
		return []string{until}
	}
	return []string{name + " " + until, name, until}
}

// A stripBar is a booking while its text is chosen. It lies between two parts of the time ahead.
type stripBar struct {
	templates.StripBar
	from, to float64
	texts    []string // what may stand there, the longest first
}

// textPixels is about how many pixels a text takes in a strip.
func textPixels(text string) float64 { return characters * (float64(render.TextWidth(text)) + 0.5) }

// placeTexts puts the longest text that there is room for into each bar or right of it, else left of it.
func placeTexts(bars []stripBar, width float64) {
	taken := 0.0
	for i := range bars {
		b := &bars[i]
		b.TextClass = "right"
		right := 1.0
		if i+1 < len(bars) {
			right = bars[i+1].from
		}
		for _, text := range b.texts {
			pixels := textPixels(text)
			length := pixels / width
			// A text that is cut off at the end of the strip is better than none.
			cut := b.from == 0 && right == 1 && text == b.texts[len(b.texts)-1]
			if cut || b.from+length <= right {
				b.Text = text
				taken = max(taken, b.from+length)
				more, begins := strings.CutPrefix(b.texts[0], text)
				if begins && right == 1 && textPixels(b.texts[0]) <= (1-b.from)*mediumAhead {
					b.More = more
				}
				break
			}
			if b.from-length >= taken {
				b.Text, b.TextClass = text, "left"
				if pixels > b.from*narrowAhead {
					b.TextClass = "left needs-medium" // a phone would cut off how it begins
				}
				break
			}
		}
		b.X, b.W = percent(b.from), percent(b.to-b.from)
		taken = max(taken, b.to)
	}
}
