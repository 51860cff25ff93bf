package page_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"gpuboard/internal/board"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/render"
)

const (
	// denseHosts is up to how many hosts a host's page has charts of all metrics.
	denseHosts = 200
	// chartBase is how far the area of a chart reaches below its zero.
	chartBase = 2
)

// TestPastOnPages goes through every page of fleets with a past, and of some
// that know nothing yet.
func TestPastOnPages(t *testing.T) {
	unknown := boardtest.Lab()
	unknown.History = &render.History{}
	young := boardtest.Lab()
	young.History = &render.History{Fleet: &render.FleetPast{AsOf: boardtest.Now}}
	for name, in := range map[string]render.Input{
		"rich":    boardtest.Remembered(boardtest.Lab()),
		"dense":   boardtest.Remembered(boardtest.Thin(boardtest.Big(render.FullHistoryHosts + 1))),
		"unknown": unknown,
		"young":   young,
		"stale":   boardtest.Remembered(boardtest.Stale()),
	} {
		t.Run(name, func(t *testing.T) { wholeSite(t, in) })
	}
}

func TestPastOfAHost(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	files := pages(t, in)
	for path, want := range map[string]struct{ charts, booked int }{
		// GPUs 0, 1 and 3 are booked now, which the two shorter ones show.
		"hosts/atlas/index.html":         {4*8 + 2, 3},
		"hosts/atlas/history/index.html": {4 * (4*8 + 2), 6},
	} {
		doc := parse(t, boardtest.FileOf(t, files, path))
		charts, booked, spoken := 0, 0, 0
		for _, n := range elements(doc) {
			if n.Data == "svg" && hasClass(n, "chart") {
				charts++
				if attr(n, "role") == "img" && strings.Contains(attr(n, "aria-label"), "unknown") {
					spoken++
				}
			}
			if n.Data == "path" && hasClass(n, "booked-time") {
				booked++
			}
		}
		if charts != want.charts || spoken != charts || booked != want.booked {
			t.Errorf("%s: %d charts, %d of them in words, %d with a booking; want %d and %d",
				path, charts, spoken, booked, want.charts, want.booked)
		}
		if !strings.Contains(textOf(doc), "data coverage 90 %") {
			t.Errorf("%s does not say how much was seen", path)
		}
	}
	for hosts, want := range map[int]int{render.FullHistoryHosts + 1: 4 * (4 + 2), denseHosts + 1: 4} {
		many := boardtest.Remembered(boardtest.Thin(boardtest.Big(hosts)))
		page := boardtest.FileOf(t, pages(t, many), "hosts/"+many.Board.Hosts[0].Name+"/history/index.html")
		if n := strings.Count(string(page.Content), `<svg class="chart`); n != want {
			t.Errorf("%d charts of one of %d hosts, want %d", n, hosts, want)
		}
	}
	gpu := in.History.Hosts["atlas"].Spans[0].GPUs[in.Board.Hosts[0].GPUs[0].Key()]
	numbers := string(boardtest.FileOf(t, files, "hosts/atlas/history/index.html").Content)
	for _, v := range []int16{gpu[render.PastUtilization][0], gpu[render.PastUtilization][95]} {
		if !strings.Contains(numbers, "<td>"+strconv.Itoa(int(v))) {
			t.Errorf("%d is not among the numbers", v)
		}
	}
}

// TestPastOfTheHostItself: its CPU and RAM are drawn and said in numbers, also on a masked site, with gaps where nothing
// is known.
func TestPastOfTheHostItself(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	host := &in.Board.Hosts[0]
	host.Node.MemoryTotal = new(int64(64 << 10))
	past := in.History.Hosts[host.Name]
	past.Spans[0].Host.Load[3] = 180
	past.Spans[1].Host = render.HostLoad{} // as of days before it was kept
	masked := in
	masked.Board = in.Board.Mask(board.Privacy{Users: board.UsersNone})
	for name, in := range map[string]render.Input{"all": in, "masked": masked} {
		doc := parse(t, boardtest.FileOf(t, pages(t, in), "hosts/atlas/history/index.html"))
		charts := map[string]string{}
		for _, n := range elements(doc) {
			label := attr(n, "aria-label")
			if strings.HasPrefix(label, "host, ") && !strings.Contains(label, "30 days") && !strings.Contains(label, "year") {
				charts[label] = attr(n, "data-top")
			}
		}
		if want := map[string]string{
			"host, CPU, 24 hours: mean 51 %, maximum 180 %, 16 % of the time unknown":    "180",
			"host, RAM, 24 hours: mean 25 GiB, maximum 48 GiB, 16 % of the time unknown": "64",
			"host, CPU, 7 days: no data": "100",
			"host, RAM, 7 days: no data": "64",
		}; !maps.Equal(want, charts) {
			t.Errorf("%s: %v, want %v", name, charts, want)
		}
		for _, row := range []string{"CPU⌀51%·≤180%", "RAM⌀25GiB·≤48GiB", "CPU51≤180––––", "RAM–25≤48–––"} {
			if text := strings.Join(strings.Fields(textOf(doc)), ""); !strings.Contains(text, row) {
				t.Errorf("%s: no %q", name, row)
			}
		}
	}
}

var pathStep = regexp.MustCompile(`([Mvh])(-?\d+)`)

// readBack is what the script of the page reads from a chart.
func readBack(path string, n int, top float64) []float64 {
	out := slices.Repeat([]float64{math.NaN()}, n)
	x, y := 0, 0
	for _, m := range pathStep.FindAllStringSubmatch(path, -1) {
		k, _ := strconv.Atoi(m[2])
		switch m[1] {
		case "M":
			x, y = k, 0
		case "v":
			y -= k
		case "h":
			for range k {
				out[x] = float64(y-chartBase) * top / 100
				x++
			}
		}
	}
	return out
}

// TestChartsSayWhatIsKnownAndNoMore draws random values and gaps, and reads
// them back.
func TestChartsSayWhatIsKnownAndNoMore(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	h, past := &in.Board.Hosts[0], in.History.Hosts["atlas"]
	for i := range h.GPUs {
		h.GPUs[i].Holders = nil // whose colours would divide a chart
	}
	utilization := func(span, gpu int) []int16 {
		return past.Spans[span].GPUs[h.GPUs[gpu].Key()][render.PastUtilization]
	}
	drawn := func() []*html.Node {
		all := within(docAt(t, in, "hosts/atlas/history/index.html"), "svg", "wide")
		return slices.DeleteFunc(all, func(n *html.Node) bool { return strings.HasPrefix(attr(n, "aria-label"), "host, ") })
	}
	pathOf := func(chart *html.Node, class string) string {
		if paths := within(chart, "path", class); len(paths) > 0 {
			return attr(paths[0], "d")
		}
		return ""
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range past.Spans {
		for j := range h.GPUs {
			values := utilization(i, j)
			for k := range values {
				if values[k] = int16(r.IntN(101)); r.IntN(3) == 0 {
					values[k] = render.PastUnknown
				}
				if r.IntN(4) == 0 && k > 0 {
					values[k] = values[k-1]
				}
			}
		}
	}
	charts := drawn()
	if len(charts) != render.Spans*len(h.GPUs) {
		t.Fatalf("there are %d charts", len(charts))
	}
	for i, chart := range charts {
		values := utilization(i/len(h.GPUs), i%len(h.GPUs))
		back := readBack(pathOf(chart, "area"), len(values), 100)
		gaps := 0
		for k, v := range values {
			if v == render.PastUnknown {
				gaps++
			}
			if (v == render.PastUnknown) != math.IsNaN(back[k]) || v != render.PastUnknown && float64(v) != back[k] {
				t.Fatalf("chart %d: %v is drawn as %s, which says %v", i, values, pathOf(chart, "area"), back)
			}
		}
		shown := 0
		for _, m := range regexp.MustCompile(`0h(\d+)v`).FindAllStringSubmatch(pathOf(chart, "gap"), -1) {
			k, _ := strconv.Atoi(m[1])
			shown += k
		}
		if shown != gaps {
			t.Fatalf("%d steps are unknown, and %d are drawn so: %v, %s", gaps, shown, values, pathOf(chart, "gap"))
		}
	}

	cases := []struct {
		values []int16
		path   string
	}{
		{[]int16{0, 0, 50}, "M0 102v-2h2v-50h1V102z"},
		{[]int16{render.PastUnknown, 0, render.PastUnknown, 100}, "M1 102v-2h1V102zM3 102v-102h1V102z"},
		{[]int16{200, -5}, "M0 102v-102h1v100h1V102z"},
		{nil, ""},
	}
	for i, c := range cases {
		values := utilization(0, i)
		for k := range values {
			values[k] = render.PastUnknown
		}
		copy(values, c.values)
	}
	for i, chart := range drawn()[:len(cases)] {
		if got := pathOf(chart, "area"); got != cases[i].path {
			t.Errorf("%v is %s, want %s", cases[i].values, got, cases[i].path)
		}
	}
}

func TestHostileNamesInThePast(t *testing.T) {
	harmless := shape(parse(t, boardtest.FileOf(t, pages(t, boardtest.HostilePast("x")), "history/index.html")))
	for _, x := range payloads {
		in := boardtest.HostilePast(x)
		f := boardtest.FileOf(t, pages(t, in), "history/index.html")
		if got := shape(parse(t, f)); got != harmless {
			t.Errorf("%.60q changes the page: %s", x, firstDifference(got, harmless))
		}
		files, err := boardtest.Files(in, data.Files)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasPrefix(f.Path, "api/v1/history/") && strings.HasSuffix(f.Path, ".json") &&
				!json.Valid(f.Content) {
				t.Errorf("%.60q breaks %s", x, f.Path)
			}
		}
	}
}

// TestNewPastIsShown renders twice, with news between.
func TestNewPastIsShown(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	first := boardtest.FileOf(t, pages(t, in), "hosts/atlas/index.html")
	next := in
	charts := *in.History.Hosts["atlas"]
	next.History = &render.History{Hosts: map[string]*render.HostPast{"atlas": &charts}, Fleet: in.History.Fleet}
	charts.Spans[0].Coverage = 0.5
	second := boardtest.FileOf(t, pages(t, next), "hosts/atlas/index.html")
	if bytes.Equal(first.Content, second.Content) || !strings.Contains(textOf(parse(t, second)), "data coverage 50 %") {
		t.Error("new charts are not on the page")
	}
	b := *in.Board
	b.Bookings = append(slices.Clone(b.Bookings),
		*boardtest.Booked("atlas", []int{6}, "eva", boardtest.Now.Add(-5*time.Hour), boardtest.Now, ""))
	next.Board = &b
	if third := boardtest.FileOf(t, pages(t, next), "hosts/atlas/index.html"); bytes.Equal(third.Content,
		second.Content) {
		t.Error("a booking is not behind the curve")
	}
}

// A slice has a chart of its memory under its GPU, up to its own size, and none
// of what is not known of it.
func TestPastOfSlices(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	ceres := &in.Board.Hosts[2]
	ceres.GPUs[2].Slices[0].UUID = "" // of which nothing is kept
	doc := parse(t, boardtest.FileOf(t, pages(t, in), "hosts/ceres/index.html"))
	var rows []string
	tops := map[string]string{}
	for _, n := range elements(doc) {
		if n.Data == "div" && hasClass(n, "chart-row") && strings.Contains(textOf(n), "–") {
			rows = append(rows, strings.Fields(textOf(n))[0])
		}
		if n.Data != "svg" || !hasClass(n, "chart") || !strings.HasPrefix(attr(n, "aria-label"), "GPU 2:") {
			continue
		}
		label := attr(n, "aria-label")
		if !strings.Contains(label, ", memory, ") || attr(n, "data-unit") != "GiB" {
			t.Errorf("a chart of a slice: %s", label)
		}
		tops[strings.TrimPrefix(strings.Split(label, ",")[0], "GPU ")] = attr(n, "data-top")
	}
	if !slices.Equal(rows, []string{"2:1", "2:2"}) || len(tops) != 2 || tops["2:1"] != "9.8" || tops["2:2"] != "4.9" {
		t.Errorf("rows of slices %v, with charts up to %v", rows, tops)
	}
	all := string(boardtest.FileOf(t, pages(t, in), "hosts/ceres/history/index.html").Content)
	if !strings.Contains(all, `<th scope="col" class="number">2</th>`) ||
		strings.Contains(all, `<th scope="col" class="number">2:1</th>`) {
		t.Error("the values of utilization have a column of a slice")
	}
}

// The chart of a GPU shows the bookings of it and of its host, and none of a card that the host has not.
func TestChartShowsBookingsOfTheGPU(t *testing.T) {
	in := boardtest.Big(1)
	h := &in.Board.Hosts[0]
	h.GPUs = h.GPUs[1:2]
	h.GPUs[0].UUID = "GPU-1"
	in = boardtest.Remembered(in)
	for b, want := range map[*board.Booking]bool{
		{}: true, {GPUs: []int{1}}: true, {GPUs: []int{1}, UUID: "GPU-1"}: true,
		{GPUs: []int{0}}: false, {UUID: "GPU-9"}: false, {GPUs: []int{1}, UUID: "MIG-1", Slice: new(0)}: false,
	} {
		b.Host = h.Name
		in.Board.Bookings = []board.Booking{*b}
		doc := docAt(t, in, "hosts/gpu000/index.html")
		if drawn := within(doc, "path", "booked-time") != nil; drawn != want || within(doc, "svg", "chart") == nil {
			t.Errorf("%+v is drawn: %v", b, drawn)
		}
	}
}

// The history begins with who used most, then shows who used what over time, each in their color with their name at
// the end, and then the models. Where people are not known, one grey stack stands for all.
func TestHistoryOfPeople(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	read := func() (parts, layers []string, swatches int) {
		for _, n := range elements(parse(t, boardtest.FileOf(t, pages(t, in), "history/index.html"))) {
			switch {
			case n.Data == "h2":
				parts = append(parts, attr(n, "id"))
			case n.Data == "path" && hasClass(n.Parent, "layers"):
				layers = append(layers, attr(n, "data-name")+" "+attr(n, "class"))
			case n.Data == "i" && hasClass(n, "swatch") && hasClass(n, "person1"):
				swatches++
			}
		}
		return parts, layers, swatches
	}
	parts, layers, swatches := read()
	if want := []string{"_who", "_stack", "_models", "_happened", "_hosts"}; !slices.Equal(parts[:len(want)], want) {
		t.Errorf("the page has %q, want %q first", parts, want)
	}
	n := len(in.Board.Colors) + 1
	if len(layers) != 4*n || layers[0] != "others person0" || layers[n-1] != "mira person1" || swatches != 4 {
		t.Errorf("%d swatches, layers %q", swatches, layers)
	}

	in.History = in.History.Mask(func(string) string { return "someone" })
	if _, layers, _ := read(); !slices.Equal(layers, slices.Repeat([]string{"in use person0"}, 4)) {
		t.Errorf("masked layers %q", layers)
	}
}

// The stack of those who used GPUs reaches the middle of each step, and is nowhere where nothing is known.
func TestStackSaysWhatIsKnown(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	in.Board.Colors = nil // one layer stands for all people
	nan := math.NaN()
	cases := []struct {
		held []float64
		path string
	}{
		{[]float64{0, 0.5, 1}, "M0 400V400h1l2 -200l2 -200h1V400z"},
		{[]float64{nan, 0.25, nan, 2}, "M2 400V300h1h1V400zM6 400V0h1h1V400z"},
	}
	for i, c := range cases {
		s := render.FleetSpan{At: []time.Time{boardtest.At(-1, 0, 0)}}
		for k, held := range c.held {
			step := render.FleetStep{Reported: new(1.0), Held: &held}
			if math.IsNaN(held) {
				step = render.FleetStep{}
			}
			s.Steps, s.At = append(s.Steps, step), append(s.At, boardtest.At(-1, k+1, 0))
		}
		in.History.Fleet.Spans[i] = s
	}
	layers := within(docAt(t, in, "history/index.html"), "svg", "layers")
	for i, c := range cases {
		if got := attr(find(layers[i], "path"), "d"); got != c.path {
			t.Errorf("%v is %s, want %s", c.held, got, c.path)
		}
	}
}

// Names beside a stack do not overlap, and none leaves it.
func TestNamesOfAStack(t *testing.T) {
	const height, line = 200, 16
	in := boardtest.Remembered(boardtest.Lab())
	span := &in.History.Fleet.Spans[0]
	span.People = nil
	for i := range 10 { // all of whom used next to nothing
		name := fmt.Sprint("guest", i)
		in.Board.Colors[name] = i + 1
		span.People = append(span.People,
			render.PersonSteps{Name: name, Held: slices.Repeat([]float64{0.1}, len(span.Steps))})
	}
	names := within(within(docAt(t, in, "history/index.html"), "svg", "names")[0], "text", "")
	before := -line
	for i, n := range names {
		y, err := strconv.Atoi(attr(n, "y"))
		if y -= 5; err != nil || y < line/2 || y > height-line/2 || y-before < line {
			t.Errorf("name %d is at %d, below one at %d", i, y, before)
		}
		before = y
	}
	if len(names) != 11 {
		t.Errorf("there are %d names", len(names))
	}
}

// Times below a chart are of one kind, days are named at midnight, and the text of none is cut off.
func TestTicks(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	in.Site.Zone = time.UTC
	spans := &in.History.Hosts["atlas"].Spans
	for i := range spans {
		spans[i].From = time.Date(2026, 11, 19, 23, 45, 0, 0, time.UTC)
	}
	panes := within(docAt(t, in, "hosts/atlas/history/index.html"), "div", "pane")
	for i, want := range []string{
		"Fri 20 day start, 06:00, 12:00, 18:00",
		"Sat 21 day, Sun 22 day, Mon 23 day, Tue 24 day, Wed 25 day, Thu 26 day",
		"23 Nov day, 30 Nov day, 7 Dec day, 14 Dec day",
	} {
		var got []string
		for _, n := range within(within(panes[i], "svg", "ticks")[0], "text", "") {
			got = append(got, strings.TrimSpace(textOf(n)+" "+attr(n, "class")))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %q", render.SpanNames()[i], got, want)
		}
	}
}

// TestSilenceEndsNoUse: nobody knows who began or ended while a host was silent.
func TestSilenceEndsNoUse(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	h := &in.Board.Hosts[0]
	for i := range h.GPUs {
		h.GPUs[i].Holders, h.GPUs[i].XID = nil, nil
	}
	in.Board.Bookings, h.Node.UptimeSeconds = nil, nil
	span := &in.History.Hosts["atlas"].Spans[0]
	silent := slices.Index(span.GPUs[h.GPUs[5].Key()][render.PastUtilization], render.PastUnknown)
	speaks := silent + 12 // after three hours
	holders := make([]string, 96)
	for i := range 4 {
		holders[silent-1-i], holders[speaks+i] = "mira", "kai"
	}
	h.GPUs[5].Holders = holders
	happened := func() (list []string) {
		doc := parse(t, boardtest.FileOf(t, pages(t, in), "hosts/atlas/index.html"))
		for _, n := range within(within(doc, "ol", "happened")[0], "li", "") {
			list = append(list, strings.Join(strings.Fields(textOf(n)), " "))
		}
		return list
	}
	want := "1Thu 18:00GPU 5 mira began, 2Thu 18:45host silent for 3 h, 3Thu 23:00GPU 5 kai ended"
	if got := strings.Join(happened(), ", "); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	h.State, h.SnapshotAt = board.Down, span.From.Add(time.Duration(silent)*15*time.Minute)
	for _, g := range span.GPUs {
		for _, metric := range []int{render.PastUtilization, render.PastMemory} {
			for i := speaks; i < len(g[metric]); i++ {
				g[metric][i] = render.PastUnknown
			}
		}
	}
	want = "1Thu 18:00GPU 5 mira began, 2Thu 18:45host sends nothing"
	if got := strings.Join(happened(), ", "); got != want {
		t.Errorf("of one that is down it says %q, want %q", got, want)
	}
}
