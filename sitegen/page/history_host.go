package page

import (
	"math"
	"slices"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// pastInput is all that the charts of a host depend on.
type pastInput struct {
	past   *render.HostPast
	gpus   []pastGPU
	booked []bookedSpan
}

type pastGPU struct {
	index  int
	slice  *int // which of the GPU's slices it is; nil for a GPU
	label  string
	key    string
	memory int64 // MiB; 0 when not known
	watts  float64
}

type bookedSpan struct {
	gpu         int // -1 for all
	from, until int64
}

// pastOf gathers what the charts of a host are made from.
func (v *view) pastOf(h *board.Host) pastInput {
	var in pastInput
	if v.in.History == nil {
		return in
	}
	in.past = v.in.History.Hosts[h.Name]
	for g := range h.Rows() {
		if !render.HasPast(g) {
			continue
		}
		p := pastGPU{index: g.Index, slice: g.SliceIndex(), label: g.Label(), key: render.PastKey(g)}
		if g.MemoryTotal != nil {
			p.memory = *g.MemoryTotal
		}
		if g.PowerLimit != nil {
			p.watts = *g.PowerLimit
		}
		in.gpus = append(in.gpus, p)
	}
	for _, b := range v.booked[h.Name] {
		if b.Slice != nil {
			continue // they are drawn behind the utilization, which no slice has
		}
		span := bookedSpan{gpu: -1, from: b.From.Unix(), until: b.Until.Unix()}
		if b.Until.IsZero() {
			span.until = math.MaxInt64
		}
		if b.From.IsZero() {
			span.from = math.MinInt64
		}
		if len(b.GPUs) == 0 {
			in.booked = append(in.booked, span)
		}
		for _, span.gpu = range b.GPUs {
			in.booked = append(in.booked, span)
		}
	}
	return in
}

// metric describes one of the four charts of a GPU.
func (w *words) metric(g *pastGPU, m int, values []float64) (top float64, unit string) {
	highest := 0.0
	for _, v := range values {
		if v > highest {
			highest = v
		}
	}
	switch m {
	case render.PastMemory:
		if g.memory > 0 {
			return float64(g.memory) / 1024, w.list["sign.gib"]
		}
		return highest, w.list["sign.gib"]
	case render.PastTemperature:
		return 100, w.list["sign.celsius"]
	case render.PastPower:
		if g.watts > 0 {
			return g.watts, w.list["sign.watt"]
		}
		return highest, w.list["sign.watt"]
	default:
		return 100, w.list["sign.percent"]
	}
}

// past draws the charts of a host; table adds the values of utilization by time.
func (v *view) past(in *pastInput, table bool) *templates.HostPast {
	out := &templates.HostPast{}
	if in.past == nil {
		return out
	}
	for i := range in.past.Spans {
		span := &in.past.Spans[i]
		n := render.PastSteps()[i]
		tab := templates.HostTab{
			Name: v.words.T("past.span." + render.SpanNames()[i]), Coverage: partOf(span.Coverage),
			From: span.From.Unix(), Step: int(span.Step / time.Second),
			Ticks: v.words.ticks(span.From, span.From.Add(time.Duration(n)*span.Step)),
		}
		var utilization [][]float64
		for j := range in.gpus {
			g := &in.gpus[j]
			past, known := span.GPUs[g.key]
			row := templates.ChartRow{GPU: g.label, Slice: g.slice != nil}
			for m := range row.Charts {
				values := slices.Repeat([]float64{math.NaN()}, n)
				if known {
					values = past.Values(m)
				}
				row.Charts[m] = v.gpuChart(g, m, tab.Name, values)
				if m == render.PastUtilization && !row.Slice {
					utilization = append(utilization, values)
				}
			}
			first := &row.Charts[render.PastUtilization]
			row.Mean = first.Mean
			if !row.Slice && i < 2 {
				first.Booked = bookedPath(in.booked, g.index, span, n)
			}
			if known {
				row.Held = v.words.digits(meanOf(past.Values(render.PastHeld)))
			}
			tab.Rows = append(tab.Rows, row)
		}
		if table {
			tab.Lines = v.lines(span.From, span.Step, utilization)
		}
		out.Tabs = append(out.Tabs, tab)
	}
	return out
}

// gpuChart is one of the four charts of a GPU.
func (v *view) gpuChart(g *pastGPU, metric int, span string, values []float64) templates.Chart {
	top, unit := v.words.metric(g, metric, values)
	c := v.words.chart(values, top, unit)
	if metric == render.PastUtilization {
		c.Class = "wide"
	}
	if metric != render.PastUtilization && len(v.in.Board.Hosts) > denseHosts || g.slice != nil && metric != render.PastMemory {
		c.Bare, c.Path, c.Gaps = true, "", "" // 96 shapes a host are 60 MB for a thousand hosts
		return c
	}
	what := v.words.T([...]string{"past.utilization", "past.memory", "past.temperature", "past.power"}[metric])
	if c.Mean == "" {
		c.Text = v.words.T("past.none", g.label, what, span)
		return c
	}
	gaps := 0
	for _, x := range values {
		if math.IsNaN(x) {
			gaps++
		}
	}
	c.Text = v.words.T("past.chart", g.label, what, span, c.Mean+" "+unit, c.Most+" "+unit, partOf(float64(gaps)/float64(len(values))))
	return c
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

// lines lays lists side by side, the newest step first; steps of which nothing
// is known at the beginning are left out.
func (v *view) lines(from time.Time, step time.Duration, columns [][]float64) []templates.Line {
	var out []templates.Line
	if len(columns) == 0 {
		return nil
	}
	first := -1
	for i := range columns[0] {
		some := false
		for _, c := range columns {
			some = some || !math.IsNaN(c[i])
		}
		if some && first < 0 {
			first = i
		}
	}
	if first < 0 {
		return nil
	}
	for i := len(columns[0]) - 1; i >= first; i-- {
		at := from.Add(time.Duration(i) * step).In(v.words.zone)
		line := templates.Line{Text: v.words.date(at) + " " + at.Format("15:04"), Cells: make([]string, len(columns))}
		for j, c := range columns {
			line.Cells[j] = v.words.digits(math.Round(c[i]))
		}
		out = append(out, line)
	}
	return out
}

// maxBoxes is how many spans one chart shows.
const maxBoxes = 256

// bookedPath draws the spans in which a GPU was booked, the first of them.
func bookedPath(booked []bookedSpan, gpu int, span *render.PastSpan, n int) string {
	var out []byte
	drawn := 0
	step, from := span.Step.Seconds(), float64(span.From.Unix())
	for _, b := range booked {
		if b.gpu >= 0 && b.gpu != gpu {
			continue
		}
		x := max(0, (float64(b.from)-from)/step)
		end := min(float64(n), (float64(b.until)-from)/step)
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

// bookedByHost sorts the bookings that are shown by host.
func bookedByHost(b *board.Board) map[string][]*board.Booking {
	booked := map[string][]*board.Booking{}
	for i := range b.Bookings {
		booked[b.Bookings[i].Host] = append(booked[b.Bookings[i].Host], &b.Bookings[i])
	}
	return booked
}

// hostCharts are the charts of a host: those of a day for its own page, where
// there is room, and all of them for the page beside it. Nil is none.
func (v *view) hostCharts(h *board.Host) (day *templates.HostPast, beside *templates.HostHistoryPage) {
	in := v.pastOf(h)
	here := len(v.in.Board.Hosts) <= render.FullHistoryHosts
	past := v.past(&in, here)
	if here && in.past == nil { // a page beside it would have nothing to add, and no link
		return past, nil
	}
	past.JSON = v.files("../../../") + "api/v1/hosts/" + h.Name + "/history.json"
	beside = &templates.HostHistoryPage{Heading: title(h), Past: past}
	at := time.Time{}
	if in.past != nil {
		at = in.past.Spans[0].To()
	}
	beside.Frame = v.frame("host-history", "hosts/"+h.Name+"/history/index.html", at, chartsDue)
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
