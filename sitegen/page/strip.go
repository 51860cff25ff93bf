package page

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"

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
	// stripEvery is how often a strip moves on, so that a line does not change with each generation.
	stripEvery = 15 * time.Minute

	stripBars  = 6   // bookings
	characters = 6.4 // the width of one in pixels
	// The part of a strip with bookings is at least so many pixels wide: on the front page, and on a host's own.
	narrowAhead, wideAhead = 100, 200
)

// strip draws what a GPU has done and who has booked it; narrow is on the front page.
func (v *view) strip(h *board.Host, g *board.GPU, narrow bool) *templates.Strip {
	s := &templates.Strip{}
	v.drawPast(s, g)
	now := v.in.Board.GeneratedAt.Truncate(stripEvery)
	width := wideAhead
	if narrow {
		width = narrowAhead
	}
	v.drawAhead(s, v.due(h, g), g, now, characters/float64(width))
	return s
}

// drawPast draws the load of the last day in the colours of those who held the GPU. The load of a slice is never
// known, and who held it still is.
func (v *view) drawPast(s *templates.Strip, g *board.GPU) {
	loads, holders := halves(g)
	areas := [1 + board.PersonColors][]float64{} // by colour, a load for each step, NaN where it is another's
	sum, known, top, gap := 0.0, 0, 0.0, -1
	for i, load := range loads {
		held := holders[i] != ""
		silent := math.IsNaN(load)
		if !silent {
			sum, known, top = sum+load, known+1, max(top, load)
		}
		switch {
		case silent && !held && gap < 0:
			gap = i
		case (!silent || held) && gap >= 0:
			s.Gaps += gapPath(gap, i)
			gap = -1
		}
		if held && silent {
			load = 0
		}
		if held || load >= 1 {
			add(&areas[v.in.Board.Colors[holders[i]]], len(loads), i, load/100)
		}
	}
	if gap >= 0 {
		s.Gaps += gapPath(gap, len(loads))
	}
	if known == 0 { // there is no history, or it is a slice
		s.Gaps = ""
	} else {
		s.Text = v.words.T("spark", int(math.Round(sum/float64(known))), int(math.Round(top)))
	}
	for color, values := range areas {
		if values != nil {
			path, _ := area(values, pastLevels, 1)
			s.Past = append(s.Past, templates.Area{Class: "person" + strconv.Itoa(color), Path: path})
		}
	}
}

// add puts a value in the place of one that is not known. A list of n is made where there is none.
func add(list *[]float64, n, i int, value float64) {
	if *list == nil {
		*list = make([]float64, n)
		for k := range n {
			(*list)[k] = math.NaN()
		}
	}
	(*list)[i] = value
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

// drawAhead draws the bookings of the next two days. character is the width of a letter, as a part of all.
func (v *view) drawAhead(s *templates.Strip, due []*board.Booking, g *board.GPU, now time.Time, character float64) {
	ahead := span{from: now, until: now.Add(stripAhead)}
	for _, b := range due {
		if len(s.Bars) == stripBars {
			break
		}
		if !ahead.shows(b) {
			continue
		}
		from, to := ahead.at(b.From), ahead.at(ahead.end(b))
		s.Bars = append(s.Bars, templates.StripBar{From: from, To: max(to, from+0.02), Texts: v.barTexts(b, g, now)})
		if b.Kind == "maintenance" {
			s.Bars[len(s.Bars)-1].Class = "mnt"
		}
	}
	placeTexts(s.Bars, character)
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
func (v *view) barTexts(b *board.Booking, g *board.GPU, now time.Time) []string {
	name := render.Clean(b.Name)
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

// placeTexts puts the longest text that there is room for into each bar or right of it, else left of it.
func placeTexts(bars []templates.StripBar, character float64) {
	taken := 0.0
	for i := range bars {
		b := &bars[i]
		b.DX = "4"
		right := 1.0
		if i+1 < len(bars) {
			right = bars[i+1].From
		}
		for _, text := range b.Texts {
			length := character * (float64(utf8.RuneCountInString(text)) + 0.5)
			// A text that is cut off at the end of the strip is better than none.
			cut := b.From == 0 && right == 1 && text == b.Texts[len(b.Texts)-1]
			if cut || b.From+length <= right {
				b.Text = text
				taken = max(taken, b.From+length)
				break
			}
			if b.From-length >= taken {
				b.Text, b.Left, b.DX = text, true, "-3"
				break
			}
		}
		b.X, b.W = percent(b.From), percent(b.To-b.From)
		taken = max(taken, b.To)
	}
}
