package page_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gpuboard/internal/board"
	"gpuboard/internal/events"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// signOf is the sign of a card on the line of its host: its symbol, or its parts.
func signOf(t *testing.T, card board.GPU) string {
	t.Helper()
	return signAt(t, card, boardtest.Now)
}

// signAt is the same on a board of that moment.
func signAt(t *testing.T, card board.GPU, now time.Time) string {
	t.Helper()
	in := boardtest.Big(rowHosts + 1)
	in.Board.GeneratedAt = now
	in.Board.Hosts[0].GPUs, in.Board.Bookings = []board.GPU{card}, nil
	in.Board.Count()
	signs := within(byID(docAt(t, in, "index.html"), "gpu000"), "svg", "signs")[0]
	text := ""
	for _, n := range elements(signs) {
		end, part := "", n.Parent != signs
		switch {
		case n.Data == "use":
			text = strings.TrimPrefix(attr(n, "href"), "#_")
		case hasClass(n, "booked-mark") && part:
			text = text[:strings.LastIndex(text, "busy")] + "in-use" + text[strings.LastIndex(text, "busy")+4:]
		case hasClass(n, "booked-mark"):
			end = " soon"
		case hasClass(n, "tile"):
			end = " busy " + attr(n, "x") + "+" + attr(n, "width")
		case n.Data == "rect" && !hasClass(n, "load"):
			end = " " + attr(n, "class") + " " + attr(n, "x") + "+" + attr(n, "width")
		}
		text += end
	}
	return strings.TrimSpace(text)
}

// TestSignOfANewQuarter: the first sample of a quarter of an hour does not decide what the sign says of the load.
func TestSignOfANewQuarter(t *testing.T) {
	begins := boardtest.Now.Truncate(15 * time.Minute)
	card := board.GPU{State: board.Busy, Utilization: []*float64{new(99.0), new(1.0)}}
	for after, want := range map[time.Duration]string{
		20 * time.Second: "busy4", 7*time.Minute + 30*time.Second: "busy3", 14 * time.Minute: "busy1",
	} {
		if got := signAt(t, card, begins.Add(after)); got != want {
			t.Errorf("%v after the beginning of a quarter the sign is %q, want %q", after, got, want)
		}
	}
}

func TestSignSaysStateAndLoad(t *testing.T) {
	idle := board.GPU{State: board.Busy, IdleSince: boardtest.At(0, -3, 0)}
	noShow := board.GPU{State: board.Booked, NoShow: true}
	soon := board.GPU{State: board.Free,
		Next: boardtest.Booked("a", nil, "eva", boardtest.At(0, 5, 0), boardtest.At(1, 0, 0), "")}
	later := board.GPU{State: board.Free,
		Next: boardtest.Booked("a", nil, "eva", boardtest.At(2, 0, 0), boardtest.At(3, 0, 0), "")}
	steady := board.GPU{State: board.InUse, Utilization: []*float64{new(10.0), new(99.0)}}
	steady.UtilizationGPU = new(0) // one sample does not count
	began := board.GPU{State: board.Busy, Utilization: []*float64{new(60.0), nil}}
	fresh := board.GPU{State: board.Busy}
	fresh.UtilizationGPU = new(30)
	for want, g := range map[string]*board.GPU{
		"busy-idle": &idle, "booked-idle": &noShow, "free soon": &soon, "free": &later, "in-use4": &steady,
		"busy3": &began, "busy2": &fresh, "busy0": {State: board.Busy}, "contested": {State: board.Contested},
	} {
		if got := signOf(t, *g); got != want {
			t.Errorf("%+v has the sign %q, want %q", g.State, got, want)
		}
	}
}

// The slices of a card share a sign, by size and sorted: what is free first.
func TestSignOfACardInParts(t *testing.T) {
	slice := func(profile string, state board.State) board.GPU {
		return board.GPU{State: state, Slice: &board.Slice{Profile: profile}}
	}
	for want, slices := range map[string][]board.GPU{
		"free 0+3 booked 4+3 busy 8+6": {
			slice("3g.40gb", board.Busy), slice("2g.20gb", board.Free), slice("2g.20gb", board.Booked),
		},
		"free":                {slice("3g.40gb", board.Free), slice("4g.40gb", board.Free)},
		"free 0+6 in-use 7+7": {slice("1c.2g.20gb", board.InUse), slice("MIG", board.Free)},
		"free 0+3 busy 4+10":  {slice("1g.5gb", board.Free), slice("3g.20gb", board.Busy), slice("3g.20gb", board.Busy)},
		"in-use 0+4 busy 5+3 stuck 9+5": {slice("1g.5gb", board.Busy), slice("2g.5gb", board.Stuck),
			slice("3g.5gb", board.InUse)},
	} {
		for i := range slices {
			slices[i].Slice.Index = i
		}
		if got := signOf(t, board.GPU{State: board.Busy, Slices: slices}); got != want {
			t.Errorf("the sign is %q, want %q", got, want)
		}
	}
}

func TestLongNamesDifferOnLines(t *testing.T) {
	for _, c := range []struct{ names, want string }{
		{"gpu01 gpu02", "gpu01 gpu02"},
		{"k8s-prod-gpu-node-0001.example.org k8s-prod-gpu-node-0002.example.org", "k8s-pro…ode-0001 k8s-pro…ode-0002"},
		{"a.lab.org b.lab.org c", "a b c"},
		{"a.one.org a.two.org", "a.one.org a.two.org"},
		{"a.lab.org a", "a.lab.org a"},
		{"10.0.0.1 10.0.0.2", "10.0.0.1 10.0.0.2"},
	} {
		in := boardtest.Big(rowHosts + 1)
		names := strings.Fields(c.names)
		for i, name := range names {
			in.Board.Hosts[i].Name, in.Board.Hosts[i].Title = name, ""
		}
		front := docAt(t, in, "index.html")
		var got []string
		for _, name := range names {
			got = append(got, textOf(find(byID(front, name), "h3")))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s are called %s, want %s", c.names, text, c.want)
		}
	}
}

// A line is the same for as long as nothing happens: a sample and a reading of the moment do not change it.
func TestLineStaysTheSame(t *testing.T) {
	lineWith := func(change func(*board.Host)) string {
		in := boardtest.Big(rowHosts + 1)
		change(&in.Board.Hosts[0])
		boardtest.Finish(in.Board)
		files := pages(t, in)
		page := string(files[len(files)-1].Content)
		from := strings.Index(page, `<li id="gpu000"`)
		return page[from : from+strings.Index(page[from:], "</li>")]
	}
	before := lineWith(func(*board.Host) {})
	after := lineWith(func(h *board.Host) {
		h.SnapshotAt = boardtest.Now
		h.Node.Load1, h.Node.MemoryUsed = new(3.5), new(int64(9000))
		for j := range h.GPUs {
			h.GPUs[j].UtilizationGPU = new(51)
		}
	})
	if before != after {
		t.Errorf("a sample has changed\n%s\nto\n%s", before, after)
	}
	if old := lineWith(func(h *board.Host) { h.State = board.Stale }); !strings.Contains(old, `<time class="age"`) {
		t.Errorf("a silent host does not say since when: %s", old)
	}
	late := lineWith(func(h *board.Host) { h.SnapshotAt = boardtest.Now.Add(-41 * time.Second) }) // every 20 s, it should be
	if !strings.Contains(late, `<time class="age over"`) || strings.Contains(before, `class="age`) {
		t.Errorf("a host that is late does not say how old its data is, or one that is not does: %s", late)
	}
}

// partitioned gives the second host two cards of seven slices, of which one person has some.
func partitioned() render.Input {
	in := boardtest.Big(rowHosts + 8)
	h := &in.Board.Hosts[1]
	h.GPUs = h.GPUs[:3]
	for i := range h.GPUs {
		g := &h.GPUs[i]
		g.State, g.Processes, g.Booking, g.IdleSince = board.Busy, nil, nil, h.GoneSince
		boardtest.Process(g, 900+i, "kai", "train.py", 9000, boardtest.Now)
		if i == 2 {
			continue
		}
		g.MIGMode, g.Processes = "enabled", nil
		for k := range 7 {
			device := &snapshot.MIGDevice{Index: k, GPUInstanceID: new(k + 1), Profile: "1g.10gb",
				MemoryTotal: new(int64(9000))}
			s := board.NewSlice(g, device)
			if s.State = board.Free; k > i {
				s.State = board.Busy
				boardtest.Process(&s, 100+k, []string{"mira", "zoe"}[k%2], "train.py", 5000, boardtest.Now)
			}
			g.Slices = append(g.Slices, s)
		}
	}
	boardtest.Finish(in.Board)
	return in
}

// TestBrowserFindsTheSignOfASlice: a search dims the sign of a card if none of its slices matches, and those of
// the GPUs behind it by their own.
func TestBrowserFindsTheSignOfASlice(t *testing.T) {
	dir := siteDir(t, partitioned())
	b := openBrowser(t, boardtest.Now)
	const bright = `[...document.querySelectorAll("#gpu001 .signs > :is(use, g)")].map(s => s.matches(".off") ? "-" : "+").join("")`
	for query, want := range map[string]string{"": "+++", "gpu001 free": "++-", "gpu001 kai": "--+",
		"gpu001 zoe": "++-"} {
		b.Do(chromedp.Navigate("file://" + dir + "/index.html"))
		b.Value(
			fmt.Sprintf(`(s => { s.value = %q; s.dispatchEvent(new Event("input")); })(document.getElementById("_query"))`,
				query))
		expect(t, b, bright, want)
	}
	b.Quiet("file://" + dir)
}

// TestBrowserRingsOwnSigns: neighbours that are the viewer's have one ring, and the viewer's name is bold.
func TestBrowserRingsOwnSigns(t *testing.T) {
	dir := siteDir(t, partitioned())
	site := serve(t, dir, boardtest.Now)
	b := openBrowser(t, boardtest.Now)
	const (
		rings = `[...document.querySelectorAll("#gpu001 .ring")].map(r => r.getAttribute("x") + "+" + r.getAttribute("width")).join()`
		bold  = `[...document.querySelectorAll("#gpu001 .users .own")].map(r => r.textContent).join()`
	)
	b.Do(chromedp.Navigate(site + "index.html"))
	expect(t, b, rings+`+ " " + `+bold, " ")
	for name, want := range map[string]string{"Mira": "-2+36 mira", "kai": "34+18 kai", "zo": " "} {
		b.Value(fmt.Sprintf(`localStorage.setItem("gpuboard-name", %q)`, name))
		b.Do(chromedp.Navigate(site + "index.html"))
		expect(t, b, rings+`+ " " + `+bold, want)
	}
	b.Quiet(site)
}

// TestBrowserOpensBelowTheLine: the rows of an open host are below its line and as wide as the map, and no other
// line changes its column, also when hosts are hidden by a search.
func TestBrowserOpensBelowTheLine(t *testing.T) {
	site := serve(t, siteDir(t, boardtest.Big(40)), boardtest.Now)
	b := openBrowser(t, boardtest.Now)
	b.Do(chromedp.EmulateViewport(1440, 900), chromedp.Navigate(site+"index.html"))
	const (
		columns = `[...document.querySelectorAll("#_group0 .host-line")].map(l => Math.round(l.getBoundingClientRect().left)).join()`
		names   = `[...document.querySelectorAll("#_group0 .host-line")].map(l => l.querySelector("h3").textContent).join()`
		below   = `["gpu003", "gpu016"].every(id => {
			const line = document.getElementById(id), map = line.parentNode.getBoundingClientRect();
			const head = line.querySelector(".host-line").getBoundingClientRect(), rows = line.querySelector(".rows").getBoundingClientRect();
			return rows.top >= head.bottom && Math.round(rows.width) === Math.round(map.width) && rows.height > 100;
		})`
		apart = `(boxes => boxes.every((x, i) => boxes.every((y, j) => i === j || x.right <= y.left + 1 || y.right <= x.left + 1 || x.bottom <= y.top + 1 || y.bottom <= x.top + 1)))([...document.querySelectorAll("#_group0 :is(.host-line, .rows)")].filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect()))`
	)
	before, order := b.Value(columns), b.Value(names)
	for _, host := range []string{"gpu003", "gpu016"} { // both are in the fourth row
		b.Value(`document.querySelector("#` + host + ` .users").click()`)
		waitFor(t, b, `document.querySelectorAll("#`+host+` .row").length`, "8")
	}
	expect(t, b, columns, before)
	expect(t, b, names, order)
	expect(t, b, below, "true")
	expect(t, b, apart, "true")
	b.Value(`(s => { s.value = "h100"; s.dispatchEvent(new Event("input")); })(document.getElementById("_query"))`)
	expect(t, b, apart, "true")
	b.Value(`(s => { s.value = ""; s.dispatchEvent(new Event("input")); })(document.getElementById("_query"))`)
	for _, host := range []string{"gpu003", "gpu016"} {
		b.Value(`document.querySelector("#` + host + ` .users").click()`)
	}
	expect(t, b, columns, before)
	expect(t, b,
		`[...document.querySelectorAll(".spread, .host[style]")].map(e => e.id + e.getAttribute("style")).join()`, "")
	b.Quiet(site)
}

// The search data has what the order of hosts needs, which the lines do not show.
func TestSearchDataHasTheLoadOfHosts(t *testing.T) {
	in := boardtest.Big(rowHosts + 1)
	var data templates.Search
	if err := json.Unmarshal([]byte(contentOf(byID(docAt(t, in, "index.html"), "_gpus"))), &data); err != nil {
		t.Fatal(err)
	}
	if h := data.Hosts[3]; h.CPU != "34" || h.Memory != "61" ||
		h.Seen != in.Board.Hosts[3].SnapshotAt.Unix() {
		t.Errorf("it is %+v", h)
	}
}

// TestSignsHaveWords: who hears a page is told how many GPUs of a host are in each state; a host without GPUs has no
// picture for them.
func TestSignsHaveWords(t *testing.T) {
	in := boardtest.Big(rowHosts + 1)
	for i := range in.Board.Hosts[0].GPUs {
		in.Board.Hosts[0].GPUs[i].State = board.Busy
	}
	in.Board.Hosts[0].GPUs[2].State = board.Free
	in.Board.Hosts[0].GPUs[5].State = board.InUse
	in.Board.Hosts[1].GPUs = nil
	boardtest.Finish(in.Board)
	files := pages(t, in)
	doc := parse(t, files[len(files)-1])
	for i, want := range []string{"1 free, 1 in use, 6 busy", ""} {
		for _, n := range elements(byID(doc, in.Board.Hosts[i].Name)) {
			if n.Data != "svg" || !hasClass(n, "signs") {
				continue
			}
			if role := attr(n, "role"); attr(n, "aria-label") != want || (role == "img") != (want != "") ||
				(attr(n, "aria-hidden") == "true") != (want == "") {
				t.Errorf("host %d: the signs say %q as %q, want %q", i, attr(n, "aria-label"), role, want)
			}
		}
	}
}

// The day of a host has marks of what happened, which are explained below, and what each person used in their color.
func TestMarksOfAHost(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	h := &in.Board.Hosts[0]
	for i := range h.GPUs {
		h.GPUs[i].Holders, h.GPUs[i].XID = nil, nil
	}
	span := &in.History.Hosts["atlas"].Spans[0]
	holders := make([]string, 96)
	for i := 50; i < 60; i++ {
		holders[i] = "mira"
	}
	h.GPUs[5].Holders = holders
	clear(span.GPUs[h.GPUs[4].Key()][render.PastHeld])
	in.Board.Bookings = []board.Booking{
		*boardtest.Booked("atlas", []int{4}, "eva", span.From.Add(6*time.Hour), span.From.Add(12*time.Hour), ""),
	}
	lost := span.From.Add(20 * time.Hour)
	in.Events = []events.Event{
		{Kind: events.GPULost, At: lost, Host: "atlas", GPU: new(7), Users: []string{"kai"}},
		{Kind: events.GPUBack, At: lost.Add(time.Minute), Host: "atlas", GPU: new(7)},
		{Kind: events.GPULost, At: lost, Host: "boreas", GPU: new(1)},
		{Kind: events.BookingStart, At: span.From.Add(6 * time.Hour), Host: "atlas", GPU: new(4),
			Booking: in.Board.Bookings[0].ID},
	}
	doc := parse(t, boardtest.FileOf(t, pages(t, in), "hosts/atlas/index.html"))
	var list []string
	unused, colored, marks := 0, 0, 0
	before := -1.0
	for _, n := range elements(doc) {
		switch {
		case n.Data == "li" && n.Parent.Data == "ol" && hasClass(n.Parent, "happened"):
			list = append(list, strings.Join(strings.Fields(textOf(n)), " "))
		case n.Data == "path" && hasClass(n, "unused"):
			unused++
		case n.Data == "path" && hasClass(n, "area") && hasClass(n, "person1"):
			colored++
		case n.Data == "circle" && hasClass(n.Parent.Parent, "marks"):
			marks++
			x, _ := strconv.ParseFloat(strings.TrimSuffix(attr(n, "cx"), "%"), 64)
			if before >= 0 && math.Abs(x-before) < 2.9 && n.Parent.PrevSibling != nil {
				t.Errorf("a mark at %.2f %% lies on that at %.2f %%", x, before)
			}
			before = x
		}
	}
	for i, want := range []string{"GPU 4 eva booking begins", "silent for 3 h", "GPU 4 eva booking ends",
		"GPU 5 mira began",
		"GPU 5 mira ended", "GPU 7 kai lost", "GPU 7 works again"} {
		if i >= len(list) || !strings.HasPrefix(list[i], strconv.Itoa(i+1)) || !strings.HasSuffix(list[i], want) {
			t.Errorf("line %d should say %q: %q", i+1, want, list)
		}
	}
	if len(list) != 7 || marks != 7 || unused != 1 || colored != 2 {
		t.Errorf("%d lines, %d marks, %d spans booked and not used, %d charts in a color", len(list), marks, unused,
			colored)
	}
}
