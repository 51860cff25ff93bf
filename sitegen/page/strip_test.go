package page_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"gpuboard/internal/board"
	"gpuboard/internal/events"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
)

// rowOf is the row of the only GPU of a board, which has these bookings and colours of people.
func rowOf(t *testing.T, g board.GPU, bookings []board.Booking, colors map[string]int) *html.Node {
	t.Helper()
	b := &board.Board{GeneratedAt: boardtest.Now, Colors: colors, Bookings: bookings, Hosts: []board.Host{{
		Name: "atlas", State: board.Up, SnapshotAt: boardtest.Now, GPUs: []board.GPU{g},
	}}}
	b.Count()
	return byID(docAt(t, render.Input{Board: b}, "index.html"), "atlas-0")
}

// yesterday is what a row shows of the last day: parts by colour, gaps, and its text.
func yesterday(row *html.Node) (parts []string, gaps, text string) {
	for _, past := range within(row, "svg", "past") {
		text = attr(past, "aria-label")
		for _, n := range within(past, "path", "") {
			if hasClass(n, "gap") {
				gaps = attr(n, "d")
			} else {
				parts = append(parts, attr(n, "class")+" "+attr(n, "d"))
			}
		}
	}
	return parts, gaps, text
}

// TestStripOfYesterday: the load is in the colour of who held the GPU, grey where that is not known, nothing where
// nobody did anything, and a gap where the host was silent.
func TestStripOfYesterday(t *testing.T) {
	colors := map[string]int{"mira": 3}
	full, none := new(100.0), new(0.0)
	g := board.GPU{
		Utilization: []*float64{full, full, none, none, nil, nil, full, none, none, none},
		Holders:     []string{"mira", "mira", "mira", "mira", "", "", "", "tomas", "", ""},
	}
	g.Utilization = append(g.Utilization, make([]*float64, 96-len(g.Utilization))...)
	parts, gaps, text := yesterday(rowOf(t, g, nil, colors))
	want := []string{
		"person0 M3 11v-6h1V11z",       // tomas has no colour; half an hour of 50 %
		"person3 M0 11v-11h1v10h1V11z", // a person who does nothing still has a line
	}
	if !slices.Equal(parts, want) {
		t.Errorf("it is drawn as %q, want %q", parts, want)
	}
	if gaps != "M2 5.5h1M5 5.5h43" {
		t.Errorf("the gaps are %q", gaps)
	}
	if want := " · mira – Thu 10:45 · tomas Thu 11:30 – Thu 11:45"; !strings.Contains(text, "maximum 100 %"+want) {
		t.Errorf("it says %q", text)
	}
	all := board.GPU{Utilization: make([]*float64, 96), Holders: slices.Repeat([]string{"mira"}, 96)}
	if _, _, text := yesterday(rowOf(t, all, nil, colors)); text != "mira" {
		t.Errorf("of who has held it all day, it says %q", text)
	}
	slice := board.GPU{Utilization: make([]*float64, 96), Holders: append(make([]string, 94), "mira", "mira")}
	parts, gaps, _ = yesterday(rowOf(t, slice, nil, colors)) // of which no load is known
	if !slices.Equal(parts, []string{"person3 M47 11v-1h1V11z"}) || gaps != "" {
		t.Errorf("a slice that mira held for half an hour is drawn as %q, with the gaps %q", parts, gaps)
	}
	if parts, gaps, _ := yesterday(rowOf(t, board.GPU{Utilization: make([]*float64, 96)}, nil, nil)); gaps != "" ||
		parts != nil {
		t.Errorf("without history there is %q, with the gaps %q", parts, gaps)
	}
}

// A stripBar is a booking on a row. It lies between two parts of the next two days.
type stripBar struct {
	from, to float64
	text     string // what stands there only in wide windows comes after "|"
	left     bool   // the text is
}

// tomorrow is what a row shows of the next two days: bookings, and that the GPU is free.
func tomorrow(t *testing.T, row *html.Node) (bars []stripBar, free string) {
	t.Helper()
	share := func(n *html.Node, key string) float64 {
		f, err := strconv.ParseFloat(strings.TrimSuffix(attr(n, key), "%"), 64)
		if err != nil {
			t.Fatal(err)
		}
		return f / 100
	}
	for _, n := range elements(within(row, "svg", "ahead")[0]) {
		switch {
		case n.Data == "rect":
			bars = append(bars, stripBar{from: share(n, "x"), to: share(n, "x") + share(n, "width")})
		case hasClass(n, "free-for"):
			free = textOf(n)
		case n.Data == "text":
			b := &bars[len(bars)-1]
			more := textOf(within(n, "tspan", "")[0])
			if b.text, b.left = strings.TrimSpace(strings.TrimSuffix(textOf(n), more)), hasClass(n, "left"); more != "" {
				b.text += "|" + more
			}
		}
	}
	return bars, free
}

// TestStripOfTomorrow: each booking of the next two days is a bar, and says what there is room for.
func TestStripOfTomorrow(t *testing.T) {
	now := boardtest.Now.Truncate(15 * time.Minute)
	in := func(hours float64) time.Time { return now.Add(time.Duration(hours * float64(time.Hour))) }
	for name, c := range map[string]struct {
		state    board.State
		until    time.Time // of a free GPU
		bookings []board.Booking
		bars     []string // from, to, text
		free     string
	}{
		"free": {state: board.Free, free: "free all week"},
		"free for three days": {
			state: board.Free, until: in(72), bookings: []board.Booking{{Name: "eva", From: in(72)}},
			free: "free until",
		},
		"booked by who uses it": {
			state: board.InUse, bookings: []board.Booking{{Name: "mira", Until: in(24)}}, bars: []string{"0.00 0.50 →"},
		},
		"booked by another": {
			state: board.Contested, bookings: []board.Booking{{Name: "eva"}}, bars: []string{"0.00 1.00 eva open-ended"},
		},
		"booked, and again": {
			state: board.Contested, bookings: []board.Booking{
				{Name: "noemi", Until: in(24)}, {Name: "kai", From: in(43), Until: in(60)},
			},
			bars: []string{"0.00 0.50 noemi", "0.90 1.00 left kai"},
		},
		"booked by a longer name": {
			state: board.Contested, bookings: []board.Booking{{Name: "marianne"}}, bars: []string{"0.00 1.00 marianne|open"},
		},
		"booked a few minutes ago": {
			state: board.Booked, bookings: []board.Booking{{Name: "eva", From: in(0.1), Until: in(48)}},
			bars: []string{"0.00 1.00 eva →"},
		},
		"booked soon": {
			state: board.Free, until: in(36), bookings: []board.Booking{{Name: "eva", From: in(36), Until: in(60)}},
			bars: []string{"0.75 1.00 left"},
		},
		"over": {state: board.Busy, bookings: []board.Booking{{Name: "eva", From: in(-9), Until: in(-1)}}},
	} {
		for i := range c.bookings {
			c.bookings[i].Host, c.bookings[i].GPUs = "atlas", []int{0}
		}
		bars, free := tomorrow(t, rowOf(t, board.GPU{State: c.state, FreeUntil: c.until}, c.bookings, nil))
		if len(bars) != len(c.bars) {
			t.Errorf("%s: there are %d bars", name, len(bars))
			continue
		}
		for i, b := range bars {
			got := fmt.Sprintf("%.2f %.2f ", b.from, b.to)
			if b.left {
				got += "left "
			}
			if got += b.text; !strings.HasPrefix(got, c.bars[i]) {
				t.Errorf("%s: bar %d is %q, want %q", name, i, got, c.bars[i])
			}
		}
		if !strings.HasPrefix(free, c.free) || (c.free == "") != (free == "") {
			t.Errorf("%s: it says %q", name, free)
		}
	}
}

// TestStripTextOnAPhone: a text that ends at its bar is left out where its beginning would be cut off, as on a phone.
func TestStripTextOnAPhone(t *testing.T) {
	from := boardtest.Now.Truncate(15 * time.Minute).Add(36 * time.Hour)
	for name, want := range map[string]string{"eva": "left needs-medium", "": "left"} {
		b := &board.Board{GeneratedAt: boardtest.Now, Hosts: []board.Host{{
			Name: "atlas", State: board.Up, SnapshotAt: boardtest.Now, GPUs: []board.GPU{{State: board.Free, FreeUntil: from}},
		}}, Bookings: []board.Booking{
			{Name: name, Host: "atlas", GPUs: []int{0}, From: from, Until: from.Add(24 * time.Hour)},
		}}
		b.Count()
		row := byID(docAt(t, render.Input{Board: b}, "hosts/atlas/index.html"), "atlas-0")
		for _, text := range within(row, "text", "left") {
			if got := attr(text, "class"); got != want {
				t.Errorf("%q has the class %q, want %q", textOf(text), got, want)
			}
		}
		if len(within(row, "text", "left")) != 1 {
			t.Errorf("there is no text of the booking of %q", name)
		}
	}
}

// TestTextsOfBookingsDoNotOverlap: whatever is booked, no text lies on another or on a later bar.
func TestTextsOfBookingsDoNotOverlap(t *testing.T) {
	const character = 6.4 / 100     // of the narrowest strip
	const wideCharacter = 6.4 / 130 // of one in a wide window, where all of a text stands
	now := boardtest.Now.Truncate(15 * time.Minute)
	at := func(part float64) time.Time { return now.Add(time.Duration(part * float64(48*time.Hour))) }
	b := &board.Board{GeneratedAt: boardtest.Now, Hosts: []board.Host{{
		Name: "atlas", State: board.Up, SnapshotAt: boardtest.Now,
	}}}
	for first := 0.0; first < 0.9; first += 0.07 {
		for length := 0.02; first+length < 0.95; length += 0.11 {
			g := board.GPU{State: board.Booked}
			g.Index = len(b.Hosts[0].GPUs)
			b.Hosts[0].GPUs = append(b.Hosts[0].GPUs, g)
			for i, name := range []string{"mira", "tomas"} {
				booked := board.Booking{Host: "atlas", GPUs: []int{g.Index}, Name: name, From: at(first),
					Until: at(first + length)}
				if i == 1 {
					booked.From, booked.Until = booked.Until, time.Time{}
				}
				b.Bookings = append(b.Bookings, booked)
			}
		}
	}
	b.Count()
	doc, texts := docAt(t, render.Input{Board: b}, "index.html"), 0
	for i := range b.Hosts[0].GPUs {
		bars, _ := tomorrow(t, byID(doc, fmt.Sprint("atlas-", i)))
		end := 0.0
		for k, bar := range bars {
			text, more, _ := strings.Cut(bar.text, "|")
			if text == "" {
				continue
			}
			texts++
			from, width := bar.from, character*float64(len([]rune(text)))
			if more != "" {
				width = max(width, wideCharacter*float64(len([]rune(text+" "+more))))
			}
			if bar.left {
				from -= width
			}
			if from < end-0.001 {
				t.Fatalf("%v: the text %q begins at %.2f, and there is one until %.2f", bars, bar.text, from, end)
			}
			if end = from + width; k == 0 && end > bars[1].from+0.001 && !bar.left {
				t.Fatalf("%v: %q lies on the next bar", bars, bar.text)
			}
		}
	}
	if texts < len(b.Hosts[0].GPUs) {
		t.Errorf("%d bookings of two of a GPU have a text", texts)
	}
}

// TestRibbonSaysWhatIsBooked: the share of a model that is booked in each six hours of a week, two bookings of one GPU
// at a time being one.
func TestRibbonSaysWhatIsBooked(t *testing.T) {
	now := boardtest.Now.Truncate(15 * time.Minute)
	b := &board.Board{GeneratedAt: boardtest.Now, Bookings: []board.Booking{
		{Name: "eva", From: now.Add(-time.Hour), Until: now.Add(9 * time.Hour)},
		{Name: "mira", From: now, Until: now.Add(6 * time.Hour)},
		{Name: "tomas", From: now.Add(162 * time.Hour)},
	}, Hosts: []board.Host{{Name: "atlas", State: board.Up, SnapshotAt: boardtest.Now, GPUs: []board.GPU{
		{ShortName: "H100", State: board.Booked, GPU: snapshot.GPU{Name: "NVIDIA H100"}},
	}}}}
	for i := range b.Bookings {
		b.Bookings[i].Host, b.Bookings[i].GPUs = "atlas", []int{0}
	}
	b.Count()
	ribbon := within(docAt(t, render.Input{Board: b}, "index.html"), "svg", "ribbon")[0]
	if got := attr(find(ribbon, "path"), "d"); got != "M0 8v-8h1v4h1v4h25v-8h1V8z" {
		t.Errorf("it is drawn as %s", got)
	}
	if got := textOf(ribbon); !strings.Contains(got, "9 %") { // 2.5 of 28 steps
		t.Errorf("it says %q", got)
	}
}

// TestSitesOfOtherClusters: the front page and a page of their own show what is free there. Of a board that is late it
// is struck out, and a site without hosts shows the sum of the others.
func TestSitesOfOtherClusters(t *testing.T) {
	lines := func(in render.Input, path string) []string {
		var list []string
		for _, n := range elements(parse(t, boardtest.FileOf(t, pages(t, in), path))) {
			if n.Data == "tr" && n.Parent.Data == "tbody" && attr(n.Parent.Parent.Parent.Parent, "class") == "sites" {
				list = append(list, attr(n, "class")+": "+strings.Join(strings.Fields(textOf(n)), " "))
			}
		}
		return list
	}
	want := []string{
		": north +2 more10 of 62 free + 2 of 6 slices4 H100 4 A100 +2 Fri 17:002 RTX 3090 2 A100 1g.5gb 0 RTX 4090 " +
			"0 A100 3g.20gb +1 more6Fri 10:42",
		"old: south 5 of 31 free + 1 of 3 slices2 H100 2 A100 1 RTX 3090 1 A100 1g.5gb 0 RTX 4090 0 A100 3g.20gb " +
			"+1 more3Fri 10:30",
		"old: folder never",
	}
	in := boardtest.WithSites(boardtest.Lab())
	for _, path := range []string{"index.html", "sites/index.html"} {
		if got := lines(in, path); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant:\n%s", path, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	front := boardtest.WithSites(render.Input{Board: &board.Board{GeneratedAt: boardtest.Now}})
	index := string(fileAt(pages(t, front), "index.html"))
	if got := lines(front, "index.html"); len(got) != 4 ||
		!strings.HasPrefix(got[3], "sum: all clusters 10 of 93 free + 2 of 9 slices4 H100") {
		t.Errorf("of a site without hosts:\n%s", strings.Join(got, "\n"))
	}
	for _, there := range []string{"<em>10 of 93 free</em>", `href="https://south.example.org/"`,
		`href="sites/index.html"`, `<del class="dim">`} {
		if !strings.Contains(index, there) {
			t.Errorf("the front page of a site without hosts lacks %s", there)
		}
	}
	for _, none := range []string{"No hosts yet", `id="_people"`, `type="search"`} {
		if strings.Contains(index, none) {
			t.Errorf("the front page of a site without hosts has %s", none)
		}
	}
	if strings.Contains(string(fileAt(pages(t, boardtest.Lab()), "index.html")), "sites/index.html") {
		t.Error("a site that reads no others links to a page of them")
	}
}

// TestSmallLabHasTwoColumns: hosts stand in their order in two columns, a host that is off is a line, and its line
// says why.
func TestSmallLabHasTwoColumns(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2} {
		few := boardtest.Big(n)
		for i, gpus := range []int{8, 8, 4, 4}[:n] {
			few.Board.Hosts[i].GPUs = few.Board.Hosts[i].GPUs[:gpus]
		}
		if n > 1 {
			few.Board.Hosts[1].State = board.Stale
		}
		few.Board.Count()
		columns := within(docAt(t, few, "index.html"), "ul", "rowed")
		first, second := within(columns[0], "li", "host"), within(columns[1], "li", "host")
		if len(first) != want || len(first)+len(second) != n {
			t.Errorf("of %d hosts, %d are in the first column, want %d", n, len(first), want)
		}
	}
	in := boardtest.Lab()
	page := string(fileAt(pages(t, in), "index.html"))
	for i := range in.Board.Hosts {
		h := &in.Board.Hosts[i]
		_, line, _ := strings.Cut(page, `id="`+h.Name+`"`)
		line, _, _ = strings.Cut(line, "</li>")
		if rows := strings.Contains(line, "<table"); rows != (h.State == board.Up) {
			t.Errorf("%s, which is %s, has its rows: %t", h.Name, h.State, rows)
		}
		if h.State == board.Stale && !strings.Contains(line, "silent since") {
			t.Errorf("the line of %s does not say since when it is silent: %s", h.Name, line)
		}
	}
}

// TestEqualFreeSlicesAreOneRow: slices that are free and alike are one row that says how many, and rows of others, or
// of slices that are booked soon, are left alone.
func TestEqualFreeSlicesAreOneRow(t *testing.T) {
	card := func(slices ...board.GPU) board.GPU {
		for i := range slices {
			slices[i].Slice.Index = i
		}
		return board.GPU{State: board.Busy, Slices: slices}
	}
	slice := func(profile string, state board.State) board.GPU {
		return board.GPU{State: state, Slice: &board.Slice{Profile: profile}}
	}
	soon := slice("1g", board.Free)
	soon.Next = &board.Booking{Name: "eva", From: boardtest.At(1, 0, 0)}
	b := &board.Board{GeneratedAt: boardtest.Now, Hosts: []board.Host{{
		Name: "atlas", State: board.Up, SnapshotAt: boardtest.Now, GPUs: []board.GPU{
			card(slice("1g", board.Free), slice("1g", board.Free), slice("1g", board.Free), slice("2g", board.Free),
				slice("2g", board.Busy), soon, slice("1g", board.Free)),
			card(slice("1g", board.Free), slice("1g", board.Free)), {State: board.Free}, {State: board.Free},
		},
	}}}
	for i := range b.Hosts[0].GPUs {
		b.Hosts[0].GPUs[i].Index = i
		for j := range b.Hosts[0].GPUs[i].Slices {
			b.Hosts[0].GPUs[i].Slices[j].Index = i
		}
	}
	b.Count()
	var got []string
	for _, row := range within(byID(docAt(t, render.Input{Board: b}, "index.html"), "atlas"), "tr", "row") {
		state := textOf(within(row, "td", "gpu-state")[0])
		if hasClass(row, "alike") {
			state = "hidden"
		}
		got = append(got, textOf(find(row, "th"))+" "+state)
	}
	want := []string{
		"0 6 of 7 free", "0:0 free × 3", "0:1 hidden", "0:2 hidden", "0:3 free", "0:4 busy", "0:5 free", "0:6 free",
		"1 2 of 2 free", "1:0 free × 2", "1:1 hidden", "2 free", "3 free",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the rows are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The fleet's list has what the log and the bookings tell, once, the newest first.
func TestFleetHappened(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	for i := range in.Board.Hosts {
		in.Board.Hosts[i].Node.UptimeSeconds = nil
		for j := range in.Board.Hosts[i].GPUs {
			in.Board.Hosts[i].GPUs[j].XID = nil
		}
	}
	b := *boardtest.Booked("atlas", []int{0, 1}, "mira", boardtest.Now.Add(-30*time.Hour), boardtest.Now.Add(time.Hour),
		"")
	in.Board.Bookings = []board.Booking{b}
	in.Events = []events.Event{
		{Kind: events.BookingStart, At: b.From, Host: "atlas", Booking: b.ID, Users: []string{"mira"}},
		{Kind: events.BookingEnd, At: boardtest.Now.Add(-20 * time.Hour), Host: "gone", Booking: "released",
			Users: []string{"kai"}},
		{Kind: events.HostDown, At: boardtest.Now.Add(-time.Hour), Host: "boreas"},
		{Kind: events.BookingEnding, At: boardtest.Now, Host: "atlas", Booking: b.ID},
		{Kind: events.GPUContested, At: boardtest.Now.Add(-2 * time.Hour), Host: "atlas", GPU: new(3),
			Users: []string{"ada"}},
		{Kind: events.GPUContested, At: boardtest.Now.Add(-2 * time.Hour), Host: "atlas", GPU: new(3),
			Users: []string{"kai"}},
		{Kind: events.GPUXID, At: boardtest.Now.Add(-3 * time.Hour), Host: "atlas", GPU: new(3)}, // the snapshot says it
	}
	var got []string
	for _, n := range within(docAt(t, in, "history/index.html"), "ol", "happened") {
		for _, line := range within(n, "li", "") {
			got = append(got, strings.TrimSpace(strings.TrimPrefix(textOf(line), textOf(find(line, "time")))))
		}
	}
	want := []string{"boreas down", "atlas GPU 3 ada kai booked by one person, used by another",
		"gone kai booking ends", "atlas GPU 0, 1 mira booking begins"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
