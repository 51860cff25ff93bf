package page

import (
	"math"
	"slices"
	"strconv"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// past draws the first charts of a host, and names the others; table adds the values of utilization by time.
func (v *view) past(h *board.Host, known *render.HostPast, drawn int, table bool) *templates.HostPast {
	out := &templates.HostPast{}
	if known == nil {
		return out
	}
	for i := range known.Spans {
		if i >= drawn {
			out.Tabs = append(out.Tabs, templates.HostTab{Name: v.words.T("past.span." + render.SpanNames()[i])})
			continue
		}
		span := &known.Spans[i]
		n := render.PastSteps()[i]
		tab := templates.HostTab{
			Name: v.words.T("past.span." + render.SpanNames()[i]), Coverage: partOf(span.Coverage),
			From: span.From.Unix(), Step: int(span.Seconds),
			Ticks: v.words.ticks(span.From, span.From.Add(time.Duration(n)*span.Step())),
		}
		var happened []happening
		if i == 0 {
			happened = v.hostHappened(h, span)
			tab.Silent = spansOf(silences(span), n)
		}
		for j := range happened {
			tab.Happened = append(tab.Happened, v.happening(&happened[j], v.ref(h), ""))
		}
		over := time.Duration(n) * span.Step()
		tab.Marks = marksOf(happened, span.From, over, func(x *happening) bool { return len(x.gpus) == 0 })
		var utilization [][]float64
		for g := range h.Rows() {
			if !render.HasPast(g) {
				continue
			}
			past, known := span.GPUs[g.Key()]
			row := templates.ChartRow{GPU: g.Label(), Slice: g.Slice != nil}
			for m := range row.Charts {
				values := slices.Repeat([]float64{math.NaN()}, n)
				if known {
					values = past.Values(m)
				}
				row.Charts[m] = v.gpuChart(g, m, tab.Name, values)
				if i == 0 && (m == render.PastUtilization || m == render.PastMemory) {
					v.color(&row.Charts[m], g, span, values)
				}
				if m == render.PastUtilization && !row.Slice {
					utilization = append(utilization, values)
				}
			}
			first := &row.Charts[render.PastUtilization]
			row.Mean = first.Mean
			if !row.Slice && i < 2 {
				first.Booked = bookedPath(v.booked[h.Name], g, span, n)
				if known {
					first.Unused = unusedPath(v.booked[h.Name], g, span, past.Values(render.PastHeld))
				}
			}
			row.Marks = marksOf(happened, span.From, over, func(x *happening) bool {
				return len(x.gpus) > 0 && x.gpus[0] == g.Label()
			})
			if known {
				row.Held = v.words.digits(meanOf(past.Values(render.PastHeld)))
			}
			tab.Rows = append(tab.Rows, row)
		}
		load, memory := span.Host.Values(n)
		tab.Host = []templates.NamedChart{
			v.hostChart("cpu", "percent", 100, tab.Name, load),
			v.hostChart("ram", "gib", gibOf(h.Node.MemoryTotal), tab.Name, memory),
		}
		if table {
			at := func(i int) time.Time { return span.From.Add(time.Duration(i) * span.Step()) }
			tab.Lines = v.lines(at, utilization, math.Round)
		}
		out.Tabs = append(out.Tabs, tab)
	}
	return out
}

// gibOf is a memory in GiB, 0 where its size is not known.
func gibOf(mib *int64) float64 {
	if mib == nil {
		return 0
	}
	return float64(*mib) / 1024
}

// gpuChart is one of the four charts of a GPU.
func (v *view) gpuChart(g *board.GPU, metric int, span string, values []float64) templates.Chart {
	top, sign := 100.0, "percent"
	switch metric {
	case render.PastMemory:
		top, sign = gibOf(g.MemoryTotal), "gib"
	case render.PastTemperature:
		sign = "celsius"
	case render.PastPower:
		top, sign = 0, "watt"
		if g.PowerLimit != nil {
			top = *g.PowerLimit
		}
	}
	if top <= 0 { // it is not known how high the values can be
		top = highest(top, values)
	}
	c := v.words.chart(values, top, v.words.list["sign."+sign])
	if metric == render.PastUtilization {
		c.Class = "wide"
	}
	if metric != render.PastUtilization && len(v.in.Board.Hosts) > denseHosts ||
		g.Slice != nil && metric != render.PastMemory {
		c.Bare, c.Path, c.Gaps = true, "", "" // 96 shapes a host are 60 MB for a thousand hosts
		return c
	}
	what := v.words.T([...]string{"past.utilization", "past.memory", "past.temperature", "past.power"}[metric])
	c.Text = v.chartText(&c, v.words.T("host.gpu", g.Label()), what, span, values)
	return c
}

// hostChart is one of the charts of a host itself. What is above the top, as a load may be, is not cut off.
func (v *view) hostChart(key, sign string, top float64, span string, values []float64) templates.NamedChart {
	top = highest(top, values)
	c := v.words.chart(values, top, v.words.list["sign."+sign])
	c.Class, c.Bare = "wide", len(v.in.Board.Hosts) > denseHosts
	name := v.words.T("meter." + key)
	c.Text = v.chartText(&c, v.words.T("past.host"), name, span, values)
	return templates.NamedChart{Name: name, Chart: c}
}

// chartText is a chart in words: of what it is, in which span, and its values.
func (v *view) chartText(c *templates.Chart, of, what, span string, values []float64) string {
	if c.Mean == "" {
		return v.words.T("past.none", of, what, span)
	}
	gaps := 0
	for _, x := range values {
		if math.IsNaN(x) {
			gaps++
		}
	}
	return v.words.T("past.chart", of, what, span, c.Mean+" "+c.Unit, c.Most+" "+c.Unit,
		partOf(float64(gaps)/float64(len(values))))
}

func meanOf(values []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range values {
		if !math.IsNaN(v) {
			sum, n = sum+v, n+1
		}
	}
	return sum / float64(n)
}

// lines lays columns side by side, newest step first, without the unknown steps at the beginning.
func (v *view) lines(
	at func(i int) time.Time, columns [][]float64, round func(float64) float64,
) (out []templates.Line) {
	if len(columns) == 0 {
		return nil
	}
	first := 0
	for first < len(columns[0]) &&
		!slices.ContainsFunc(columns, func(c []float64) bool { return !math.IsNaN(c[first]) }) {
		first++
	}
	for i := len(columns[0]) - 1; i >= first; i-- {
		t := at(i).In(v.words.zone)
		line := templates.Line{Text: v.words.date(t) + " " + t.Format("15:04"), Cells: make([]string, len(columns))}
		for j, c := range columns {
			line.Cells[j] = v.words.digits(round(c[i]))
		}
		out = append(out, line)
	}
	return out
}

// color gives the steps of a chart to whoever held most of the GPU in them, as far as that is known.
func (v *view) color(c *templates.Chart, g *board.GPU, span *render.PastSpan, values []float64) {
	if c.Path == "" || len(g.Holders) == 0 || span.Step() != quarter {
		return
	}
	shift := int(span.From.Sub(v.dayFrom()) / quarter)
	holder := func(i int) string {
		if i += shift; i < 0 || i >= len(g.Holders) {
			return ""
		}
		return g.Holders[i]
	}
	shares := slices.Clone(values)
	for i := range shares {
		shares[i] /= c.High
	}
	c.Path = ""
	for _, p := range parts(shares, holder, chartLevels, chartBase) {
		if p.Color == "" {
			c.Path = p.Path
		} else {
			c.Parts = append(c.Parts, templates.Part{Color: v.colorOf(p.Color), Path: p.Path})
		}
	}
}

// unusedPath draws the spans in which a GPU was booked and nobody held memory on it.
func unusedPath(booked []*board.Booking, g *board.GPU, span *render.PastSpan, held []float64) string {
	var out []byte
	drawn := 0
	for i := 0; i < len(held) && drawn < maxBoxes; i++ {
		from := i
		for i < len(held) && held[i] == 0 && slices.ContainsFunc(booked, func(b *board.Booking) bool {
			at := span.From.Add(time.Duration(i) * span.Step())
			return b.Covers(g) && !b.From.After(at) && (b.Until.IsZero() || !b.Until.Before(at.Add(span.Step())))
		}) {
			i++
		}
		if i-from > 1 { // one step may be between two runs
			out = box(out, float64(from), float64(i-from))
			drawn++
		}
	}
	return string(out)
}

// maxBoxes is how many spans one chart shows.
const maxBoxes = 256

// bookedPath draws the first spans in which a GPU was booked. Bookings of slices are not drawn.
func bookedPath(booked []*board.Booking, g *board.GPU, span *render.PastSpan, n int) string {
	var out []byte
	drawn := 0
	for _, b := range booked {
		if !b.Covers(g) {
			continue
		}
		x, end := max(0, b.From.Sub(span.From).Seconds()/float64(span.Seconds)), float64(n)
		if !b.Until.IsZero() {
			end = min(end, b.Until.Sub(span.From).Seconds()/float64(span.Seconds))
		}
		x, end = math.Round(x*10)/10, math.Round(end*10)/10
		if end <= x {
			continue
		}
		out = box(out, x, math.Round((end-x)*10)/10)
		if drawn++; drawn == maxBoxes {
			break
		}
	}
	return string(out)
}

// hostCharts are a host's charts: of a day for its own page if there is room, all for the page beside it, unless that
// is kept as it is.
func (v *view) hostCharts(h *board.Host, kept bool) (day *templates.HostPast, beside *templates.HostHistoryPage) {
	known := v.in.History.Hosts[h.Name]
	here := len(v.in.Board.Hosts) <= render.FullHistoryHosts
	if kept {
		if !here {
			return nil, nil
		}
		return v.past(h, known, 1, false), nil
	}
	past := v.past(h, known, render.Spans, here)
	if here && known == nil { // a page beside it would have nothing to add, and no link
		return past, nil
	}
	past.JSON = v.files("../../../") + "api/v1/hosts/" + h.Name + "/history.json"
	beside = &templates.HostHistoryPage{Heading: title(h), Past: past}
	at := time.Time{}
	if known != nil {
		at = known.Spans[0].To()
	}
	beside.Frame = v.frame("host-history", render.ChartsPath("", h.Name), at, chartsDue)
	if !here {
		return nil, beside
	}
	day = &templates.HostPast{Tabs: slices.Clone(past.Tabs)}
	if len(day.Tabs) > 0 {
		day.Tabs[0].Lines = nil // what changes with every push stays small
	}
	return day, beside
}

// chartsDue is how long the page of a host's charts may stay as it is.
const chartsDue = 30 * time.Minute

// markWidth is how wide a mark is, of a chart that is 500 pixels wide.
const markWidth = 0.03

// marksOf are the marks, by their numbers in a list, of what happened in one chart: each at its time, or beside the mark
// before it.
func marksOf(
	happened []happening, from time.Time, over time.Duration, here func(*happening) bool,
) (marks []templates.Mark) {
	var at []float64
	for i := range happened {
		if x := &happened[i]; here(x) {
			at = append(at, float64(x.at.Sub(from))/float64(over))
			marks = append(marks, templates.Mark{Number: strconv.Itoa(i + 1), Grave: x.grave()})
		}
	}
	for i, x := range spread(at, markWidth, 0, 1) {
		marks[i].X = percent(x)
	}
	return marks
}
