package page

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/render"
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
		"hosts/atlas/index.html":         {4 * 8, 3},
		"hosts/atlas/history/index.html": {4 * 4 * 8, 6},
	} {
		doc := parse(t, boardtest.FileOf(t, files, path))
		charts, booked, spoken := 0, 0, 0
		for _, n := range elements(doc) {
			if n.Data == "svg" && hasClass(n, "ch") {
				charts++
				if attr(n, "role") == "img" && strings.Contains(attr(n, "aria-label"), "unknown") {
					spoken++
				}
			}
			if n.Data == "path" && hasClass(n, "bd") {
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
	for hosts, want := range map[int]int{render.FullHistoryHosts + 1: 4 * 4, denseHosts + 1: 4} {
		many := boardtest.Remembered(boardtest.Thin(boardtest.Big(hosts)))
		page := boardtest.FileOf(t, pages(t, many), "hosts/"+many.Board.Hosts[0].Name+"/history/index.html")
		if n := strings.Count(string(page.Content), `<svg class="ch`); n != want {
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
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 500 {
		values := make([]float64, r.IntN(40))
		for i := range values {
			values[i] = math.Round(r.Float64() * 100)
			if r.IntN(3) == 0 {
				values[i] = math.NaN()
			}
			if r.IntN(4) == 0 && i > 0 {
				values[i] = values[i-1]
			}
		}
		c := englishWords(t).chart(values, 100, "%")
		back := readBack(c.Path, len(values), 100)
		gaps := 0
		for i := range values {
			if values[i] != back[i] && !(math.IsNaN(values[i]) && math.IsNaN(back[i])) {
				t.Fatalf("round %d: %v is drawn as %s, which says %v", round, values, c.Path, back)
			}
			if math.IsNaN(values[i]) {
				gaps++
			}
		}
		shown := 0
		for _, m := range regexp.MustCompile(`0h(\d+)v`).FindAllStringSubmatch(c.Gaps, -1) {
			k, _ := strconv.Atoi(m[1])
			shown += k
		}
		if shown != gaps {
			t.Fatalf("%d steps are unknown, and %d are drawn so: %v, %s", gaps, shown, values, c.Gaps)
		}
	}
	for _, c := range []struct {
		values []float64
		path   string
	}{
		{[]float64{0, 0, 50}, "M0 102v-2h2v-50h1V102z"},
		{[]float64{math.NaN(), 0, math.NaN(), 100}, "M1 102v-2h1V102zM3 102v-102h1V102z"},
		{[]float64{math.Inf(1), -5}, "M0 102v-102h1v100h1V102z"},
		{nil, ""},
	} {
		if got := englishWords(t).chart(c.values, 100, "%").Path; got != c.path {
			t.Errorf("%v is %s, want %s", c.values, got, c.path)
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
			if strings.HasPrefix(f.Path, "api/v1/history/") && strings.HasSuffix(f.Path, ".json") && !json.Valid(f.Content) {
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
	if third := boardtest.FileOf(t, pages(t, next), "hosts/atlas/index.html"); bytes.Equal(third.Content, second.Content) {
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
		if n.Data == "div" && hasClass(n, "mr") && strings.Contains(textOf(n), "–") {
			rows = append(rows, strings.Fields(textOf(n))[0])
		}
		if n.Data != "svg" || !hasClass(n, "ch") || !strings.HasPrefix(attr(n, "aria-label"), "GPU 2:") {
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
	if !strings.Contains(all, `<th scope="col" class="n">2</th>`) ||
		strings.Contains(all, `<th scope="col" class="n">2:1</th>`) {
		t.Error("the values of utilization have a column of a slice")
	}
}

// The chart of a GPU shows the bookings of it and of its host, and none of a card that the host has not.
func TestChartShowsBookingsOfTheGPU(t *testing.T) {
	g := &board.GPU{GPU: snapshot.GPU{Index: 1, UUID: "GPU-1"}}
	span := &render.PastSpan{From: boardtest.Now, Seconds: 3600}
	for b, want := range map[*board.Booking]bool{
		{}: true, {GPUs: []int{1}}: true, {GPUs: []int{1}, UUID: "GPU-1"}: true,
		{GPUs: []int{0}}: false, {UUID: "GPU-9"}: false, {GPUs: []int{1}, UUID: "MIG-1", Slice: new(0)}: false,
	} {
		if drawn := bookedPath([]*board.Booking{b}, g, span, 24) != ""; drawn != want {
			t.Errorf("%+v is drawn: %v", b, drawn)
		}
	}
}
