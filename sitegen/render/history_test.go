package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
)

// remembered gives a fleet a past: waves with a gap in them.
func remembered(in Input) Input {
	h := &History{Hosts: map[string]*HostPast{}, Fleet: &FleetPast{AsOf: fleetNow, Since: fleetNow.AddDate(0, -2, 0)}}
	for i := range in.Board.Hosts {
		if in.Board.Hosts[i].State != board.Never {
			h.Hosts[in.Board.Hosts[i].Name] = pastFor(&in.Board.Hosts[i], i)
		}
	}
	for i, length := range PastLengths() {
		s := &h.Fleet.Spans[i]
		s.Coverage, s.Free = 0.97, map[string][]*float64{}
		for k := range 41 {
			s.At = append(s.At, fleetNow.Add(-length+time.Duration(k)*length/40))
		}
		for k := range 40 {
			var step FleetStep
			if k < 20 || k > 24 {
				v := 10 + 5*math.Sin(float64(k)/3)
				step = FleetStep{Reported: ptr(30.0), Held: ptr(v), Free: ptr(30 - v), Utilization: ptr(3 * v), Watts: ptr(400 * v)}
			}
			s.Steps = append(s.Steps, step)
			for _, m := range in.Board.Models {
				s.Free[m.Name] = append(s.Free[m.Name], step.Free)
			}
		}
	}
	for d := range h.Fleet.Heat {
		for k := range h.Fleet.Heat[d] {
			if d != 3 {
				h.Fleet.Heat[d][k] = HeatHour{Held: ptr(float64(k * 4)), Utilization: ptr(50.0), KnownHours: 4}
			}
		}
	}
	for i := range h.Fleet.Windows {
		w := &h.Fleet.Windows[i]
		*w = Window{From: fleetNow.AddDate(0, 0, -i*i*i), To: fleetNow, Coverage: 0.93}
		for j, u := range in.Board.Users {
			w.Users = append(w.Users, UserPast{u.Name, Use{GPUHours: float64(100*(i+1)) / float64(j+1), Utilization: ptr(71.0), IdleHours: 3, EnergyKWh: 12}})
		}
		w.Users = append(w.Users, UserPast{"", Use{GPUHours: 0.2}}, UserPast{"gone", Use{GPUHours: 0.1, Utilization: ptr(0.0)}})
		w.Teams = []UserPast{{"vision", Use{GPUHours: 40, Utilization: ptr(50.0)}}}
		for _, b := range in.Board.Hosts {
			w.Hosts = append(w.Hosts, PastHost{b.Name, Use{GPUHours: 20, Utilization: ptr(60.0), EnergyKWh: 9}, 12, 33, 0.9})
		}
	}
	in.History = h
	in.Site.Energy = Energy{Price: 0.3, Currency: "EUR", CO2Grams: 50}
	return in
}

// thin leaves each host one GPU.
func thin(in Input) Input {
	for i := range in.Board.Hosts {
		in.Board.Hosts[i].GPUs = in.Board.Hosts[i].GPUs[:1]
	}
	in.Board.FreeNow, in.Board.NextFree = nil, nil
	return in
}

func pastFor(h *board.Host, seed int) *HostPast {
	r := rand.New(rand.NewPCG(uint64(seed), 5))
	span := func(from time.Time, step time.Duration, n int) PastSpan {
		s := PastSpan{From: from, Step: step, Coverage: 0.9, GPUs: map[string]PastGPU{}}
		for g := range h.Rows() {
			var gpu PastGPU
			for m := range gpu {
				gpu[m] = make([]int16, n)
				for k := range gpu[m] {
					gpu[m][k] = int16(r.IntN(100))
					if k > n/3 && k < n/2 || g.Slice != nil && m != PastMemory && m != PastHeld {
						gpu[m][k] = PastUnknown
					}
				}
			}
			s.GPUs[pastKey(g)] = gpu
		}
		return s
	}
	p := &HostPast{Fives: span(fleetNow.Truncate(5*time.Minute).Add(-time.Hour), 5*time.Minute, 12)}
	for i, length := range PastLengths() {
		p.Spans[i] = span(fleetNow.Truncate(15*time.Minute).Add(-length), length/time.Duration(PastSteps()[i]), PastSteps()[i])
	}
	return p
}

func fileOf(t testing.TB, files []File, path string) File {
	t.Helper()
	for _, f := range files {
		if f.Path == path {
			return f
		}
	}
	t.Fatalf("there is no %s", path)
	return File{}
}

// TestPastOnPages goes through every page of fleets with a past, and of some
// that know nothing yet.
func TestPastOnPages(t *testing.T) {
	unknown := testFleet()
	unknown.History = &History{}
	young := testFleet()
	young.History = &History{Fleet: &FleetPast{AsOf: fleetNow}}
	for name, in := range map[string]Input{"rich": remembered(testFleet()), "dense": remembered(thin(bigFleet(pastHosts + 1))), "unknown": unknown, "young": young, "stale": remembered(staleFleet())} {
		t.Run(name, func(t *testing.T) { wholeSite(t, in) })
	}
}

func TestPastOfAHost(t *testing.T) {
	in := remembered(testFleet())
	files := pages(t, in)
	for path, want := range map[string]struct{ charts, booked int }{
		// GPUs 0, 1 and 3 are booked now, which the two shorter ones show.
		"hosts/atlas/index.html":         {4 * 8, 3},
		"hosts/atlas/history/index.html": {4 * 4 * 8, 6},
	} {
		doc := parse(t, fileOf(t, files, path))
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
			t.Errorf("%s: %d charts, %d of them in words, %d with a booking; want %d and %d", path, charts, spoken, booked, want.charts, want.booked)
		}
		if !strings.Contains(textOf(doc), "seen 90 %") {
			t.Errorf("%s does not say how much was seen", path)
		}
	}
	for hosts, want := range map[int]int{pastHosts + 1: 4 * 4, denseHosts + 1: 4} {
		many := remembered(thin(bigFleet(hosts)))
		page := fileOf(t, pages(t, many), "hosts/"+many.Board.Hosts[0].Name+"/history/index.html")
		if n := strings.Count(string(page.Bytes()), `<svg class="ch`); n != want {
			t.Errorf("%d charts of one of %d hosts, want %d", n, hosts, want)
		}
	}
	gpu := in.History.Hosts["atlas"].Spans[0].GPUs[pastKey(&in.Board.Hosts[0].GPUs[0])]
	numbers := string(fileOf(t, files, "hosts/atlas/history/index.html").Bytes())
	for _, v := range []int16{gpu[PastUtilization][0], gpu[PastUtilization][95]} {
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
		c := chart(values, 100, "%")
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
		if got := chart(c.values, 100, "%").Path; got != c.path {
			t.Errorf("%v is %s, want %s", c.values, got, c.path)
		}
	}
}

func TestHostileNamesInThePast(t *testing.T) {
	harmless := shape(parse(t, fileOf(t, pages(t, hostilePast("x")), "history/index.html")))
	for _, x := range payloads {
		in := hostilePast(x)
		f := fileOf(t, pages(t, in), "history/index.html")
		if got := shape(parse(t, f)); got != harmless {
			t.Errorf("%.60q changes the page: %s", x, firstDifference(got, harmless))
		}
		files, err := Data(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasPrefix(f.Path, "api/v1/history/") && strings.HasSuffix(f.Path, ".json") && !json.Valid(f.Bytes()) {
				t.Errorf("%.60q breaks %s", x, f.Path)
			}
		}
	}
}

func hostilePast(x string) Input {
	in := testFleet()
	in.Board.Hosts = in.Board.Hosts[:1]
	in = remembered(in)
	f := in.History.Fleet
	in.Site.Energy.Currency = "x" + x
	for i := range f.Windows {
		for j := range f.Windows[i].Users {
			if j > 0 {
				f.Windows[i].Users[j].Name = apart(x, fmt.Sprint(j)) + "!" // nobody who has a page
			}
		}
		f.Windows[i].Teams[0].Name = x + "!"
	}
	for i := range f.Spans {
		f.Spans[i].Free = map[string][]*float64{x + "!": f.Spans[i].Free["H100"]}
	}
	return in
}

func TestFormulasInCSV(t *testing.T) {
	for in, want := range map[string]string{
		"=1+1": "'=1+1", "+1": "'+1", "-x": "'-x", "@SUM(A1)": "'@SUM(A1)", "ada": "ada", "": "", "a=b": "a=b", "\t=1": "\\x09=1", " =cmd|' /C calc'!A0": "'=cmd|' /C calc'!A0",
	} {
		got := csvText(in)
		if got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
		if got != "" && strings.ContainsAny(got[:1], "=+-@\t\r\n ") {
			t.Errorf("%q begins with what a spreadsheet runs: %q", in, got)
		}
	}
	in := remembered(testFleet())
	in.History.Fleet.Windows[1].Users[0].Name = "=HYPERLINK(\"http://x\")\r\n,\"y"
	data, err := Data(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"api/v1/history/users.csv", "api/v1/history/hosts.csv"} {
		lines, err := csv.NewReader(bytes.NewReader(fileOf(t, data, path).Bytes())).ReadAll()
		if err != nil || len(lines) < 10 {
			t.Fatalf("%s: %d lines, %v", path, len(lines), err)
		}
		for _, line := range lines {
			for _, cell := range line {
				if cell != "" && strings.ContainsAny(cell[:1], "=+-@") {
					t.Errorf("%s has the formula %q", path, cell)
				}
			}
		}
	}
}

func TestPastMatchesItsSchemas(t *testing.T) {
	young := testFleet()
	young.History = &History{Fleet: &FleetPast{AsOf: fleetNow}}
	for i := range young.History.Fleet.Windows {
		young.History.Fleet.Windows[i].From, young.History.Fleet.Windows[i].To = fleetNow.AddDate(0, 0, -1), fleetNow
	}
	for name, in := range map[string]Input{"rich": remembered(testFleet()), "dense": remembered(thin(bigFleet(pastHosts + 1))), "hostile": hostilePast(apiEvil), "young": young} {
		files := apiData(t, in)
		checked := 0
		for p, content := range files {
			schema := ""
			switch {
			case strings.HasPrefix(p, "api/v1/hosts/") && strings.HasSuffix(p, "/history.json"):
				schema = "history-host"
			case strings.HasPrefix(p, "api/v1/history/") && strings.HasSuffix(p, ".json"):
				schema = "history-" + strings.TrimSuffix(p[len("api/v1/history/"):], ".json")
			default:
				continue
			}
			checked++
			for _, err := range schemaErrors(t, files["api/v1/schema/"+schema+".json"], content) {
				t.Errorf("%s: %s: %s", name, p, err)
			}
		}
		if checked != 3+len(in.History.Hosts) {
			t.Errorf("%s: %d files of the past", name, checked)
		}
	}
}

func TestMaskedPast(t *testing.T) {
	in := remembered(testFleet())
	total := 0.0
	for _, u := range in.History.Fleet.Windows[2].Users {
		total += u.GPUHours
	}
	in.History = in.History.Mask(func(string) string { return "someone" })
	w := in.History.Fleet.Windows[2]
	if len(w.Users) != 2 || w.Users[0].Name != "someone" || w.Users[1].Name != "" || math.Abs(w.Users[0].GPUHours+w.Users[1].GPUHours-total) > 1e-9 || w.Teams != nil {
		t.Errorf("masked: %+v, teams %+v", w.Users, w.Teams)
	}
	if again := remembered(testFleet()).History.Fleet.Windows[2]; again.Users[0].Name == "someone" {
		t.Error("the mask has changed what it was given")
	}
	if (*History)(nil).Mask(nil) != nil {
		t.Error("no history has become one")
	}
}

func TestUnusedBookings(t *testing.T) {
	in := remembered(testFleet())
	b := in.Board
	b.Bookings = []board.Booking{*booked("atlas", []int{4}, "eva", fleetNow.Add(-24*time.Hour), fleetNow.Add(24*time.Hour), "")}
	span := &in.History.Hosts["atlas"].Spans[1]
	span.From = fleetNow.Truncate(2 * time.Hour).Add(2*time.Hour - 7*24*time.Hour)
	gpu := span.GPUs[pastKey(&b.Hosts[0].GPUs[4])]
	for i := range gpu[PastHeld] {
		gpu[PastHeld][i] = 100
		if i >= 76 { // the last 16 hours
			gpu[PastHeld][i] = 25
		}
		if i == 78 {
			gpu[PastHeld][i] = PastUnknown
		}
	}
	list := UnusedBookings(b, in.History)
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	last := fleetNow.Sub(span.From.Add(76 * 2 * time.Hour))
	u := list[0]
	if u.Past != 24*time.Hour || u.Known != 22*time.Hour || (u.Spare-(last-2*time.Hour)*3/4).Abs() > time.Minute {
		t.Errorf("%v booked, %v known, %v unused; the quarter is used of %v", u.Past, u.Known, u.Spare, last)
	}
}

// TestUnusedIsCountedByTheStep holds the count against one that looks at each step.
func TestUnusedIsCountedByTheStep(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	steps := PastSteps()[1]
	for range 3000 {
		step := []time.Duration{0, time.Second, 2 * time.Hour, 7*time.Second + 3}[r.IntN(4)]
		all := time.Duration(steps) * step
		moment := func() time.Duration {
			return []time.Duration{0, math.MaxInt64, -all, all, time.Duration(r.IntN(steps+1)) * step, time.Duration(r.Int64N(int64(all + 2)))}[r.IntN(6)]
		}
		start, stop := moment(), max(0, moment())
		if start == math.MaxInt64 {
			start = 0
		}
		held := make([]int16, []int{0, steps - 3, steps}[r.IntN(3)])
		for k := range held {
			held[k] = []int16{PastUnknown, 0, 33, 100, 120}[r.IntN(5)]
		}
		var got, want UnusedBooking
		got.count(held, step, start, stop)
		for k := range steps {
			at := time.Duration(k) * step
			length := min(at+step, stop) - max(at, start)
			if length <= 0 {
				continue
			}
			want.Past += length
			if k < len(held) && held[k] != PastUnknown {
				want.Known += length
				want.Spare += length * time.Duration(100-min(100, held[k])) / 100
			}
		}
		if got != want {
			t.Fatalf("%d steps of %v, from %v to %v: %+v, want %+v", len(held), step, start, stop, got, want)
		}
	}
}

func TestStatesAscend(t *testing.T) {
	in := remembered(testFleet())
	files := apiData(t, in)
	var states map[string]struct {
		Data []struct {
			Timestamp int64
			GPUs      map[string]map[string]any `json:"gpu_data"`
		}
	}
	if err := json.Unmarshal(files["states/index.json"], &states); err != nil {
		t.Fatal(err)
	}
	early := remembered(testFleet())
	early.Board.Hosts[0].SnapshotAt = fleetNow.Truncate(5 * time.Minute).Add(-26 * time.Minute)
	before := states["atlas"].Data
	if err := json.Unmarshal(apiData(t, early)["states/index.json"], &states); err != nil {
		t.Fatal(err)
	}
	// Of the six points up to half past, one lies in the gap; nothing follows the newest snapshot.
	if n := len(states["atlas"].Data); n != 6 {
		t.Errorf("%d points up to an old snapshot", n)
	}
	data := before
	// Twelve points, of which one (5) lies in the gap, and the newest.
	if len(data) != 12 {
		t.Fatalf("%d points", len(data))
	}
	for i, point := range data {
		if i > 0 && point.Timestamp <= data[i-1].Timestamp {
			t.Errorf("%d comes after %d", point.Timestamp, data[i-1].Timestamp)
		}
		processes := point.GPUs["gpu:0"]["processes"].([]any)
		if newest := i == len(data)-1; newest != (len(processes) > 0) {
			t.Errorf("point %d has %d processes", i, len(processes))
		}
		if _, ok := point.GPUs["gpu:0"]["used_memory"].(string); !ok {
			t.Errorf("point %d: used_memory is %v", i, point.GPUs["gpu:0"]["used_memory"])
		}
	}
}

// TestNewPastIsShown renders twice, with news between.
func TestNewPastIsShown(t *testing.T) {
	in := remembered(testFleet())
	first := fileOf(t, pages(t, in), "hosts/atlas/index.html")
	next := in
	charts := *in.History.Hosts["atlas"]
	next.History = &History{Hosts: map[string]*HostPast{"atlas": &charts}, Fleet: in.History.Fleet}
	charts.Spans[0].Coverage = 0.5
	second := fileOf(t, pages(t, next), "hosts/atlas/index.html")
	if bytes.Equal(first.Bytes(), second.Bytes()) || !strings.Contains(textOf(parse(t, second)), "seen 50 %") {
		t.Error("new charts are not on the page")
	}
	b := *in.Board
	b.Bookings = append(slices.Clone(b.Bookings), *booked("atlas", []int{6}, "eva", fleetNow.Add(-5*time.Hour), fleetNow, ""))
	next.Board = &b
	if third := fileOf(t, pages(t, next), "hosts/atlas/index.html"); bytes.Equal(third.Bytes(), second.Bytes()) {
		t.Error("a booking is not behind the curve")
	}
}
