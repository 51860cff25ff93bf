package page

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// stripView is a view of a board of one host, with these people's colours.
func stripView(t *testing.T, colors map[string]int) *view {
	t.Helper()
	in := boardtest.Lab()
	in.Board.Colors = colors
	return newView(in, []*look{{words: englishWords(t)}})
}

// TestStripOfYesterday: the load is in the colour of who held the GPU, grey where that is not known, nothing where
// nobody did anything, and a gap where the host was silent.
func TestStripOfYesterday(t *testing.T) {
	v := stripView(t, map[string]int{"mira": 3})
	full, none := new(100.0), new(0.0)
	g := &board.GPU{
		Utilization: []*float64{full, full, none, none, nil, nil, full, none, none, none},
		Holders:     []string{"mira", "mira", "mira", "mira", "", "", "", "tomas", "", ""},
	}
	g.Utilization = append(g.Utilization, make([]*float64, 96-len(g.Utilization))...)
	var s templates.Strip
	v.drawPast(&s, g)
	want := []templates.Part{
		{Color: "person0", Path: "M3 11v-6h1V11z"},       // tomas has no colour; half an hour of 50 %
		{Color: "person3", Path: "M0 11v-11h1v10h1V11z"}, // a person who does nothing still has a line
	}
	if len(s.Past) != len(want) {
		t.Fatalf("it is drawn as %v", s.Past)
	}
	for i := range want {
		if s.Past[i] != want[i] {
			t.Errorf("part %d is %v, want %v", i, s.Past[i], want[i])
		}
	}
	if s.Gaps != "M2 5.5h1M5 5.5h43" {
		t.Errorf("the gaps are %q", s.Gaps)
	}
	if !strings.Contains(s.Text, "maximum 100") {
		t.Errorf("it says %q", s.Text)
	}
	var slice templates.Strip // of which no load is known
	v.drawPast(&slice,
		&board.GPU{Utilization: make([]*float64, 96), Holders: append(make([]string, 94), "mira", "mira")})
	if len(slice.Past) != 1 || slice.Past[0].Path != "M47 11v-1h1V11z" || slice.Gaps != "" {
		t.Errorf("a slice that mira held for half an hour is drawn as %v", slice)
	}
	var empty templates.Strip
	if v.drawPast(&empty, &board.GPU{Utilization: make([]*float64, 96)}); empty.Gaps != "" || empty.Past != nil {
		t.Errorf("without history there is %v", empty)
	}
}

// TestStripOfTomorrow: each booking of the next two days is a bar, and says what there is room for.
func TestStripOfTomorrow(t *testing.T) {
	v := stripView(t, nil)
	now := v.in.Board.GeneratedAt.Truncate(quarter)
	in := func(hours float64) time.Time { return now.Add(time.Duration(hours * float64(time.Hour))) }
	for name, c := range map[string]struct {
		state    board.State
		until    time.Time // of a free GPU
		bookings []*board.Booking
		bars     []string // x, width, text
		free     string
	}{
		"free": {state: board.Free, free: "free all week"},
		"free for three days": {
			state: board.Free, until: in(72), bookings: []*board.Booking{{Name: "eva", From: in(72)}},
			free: "free until",
		},
		"booked by who uses it": {
			state: board.InUse, bookings: []*board.Booking{{Name: "mira", Until: in(24)}}, bars: []string{"0 50 →"},
		},
		"booked by another": {
			state: board.Contested, bookings: []*board.Booking{{Name: "eva"}}, bars: []string{"0 100 eva open-ended"},
		},
		"booked soon": {
			state: board.Free, until: in(36), bookings: []*board.Booking{{Name: "eva", From: in(36), Until: in(60)}},
			bars: []string{"75 25 left"},
		},
		"over": {state: board.Busy, bookings: []*board.Booking{{Name: "eva", From: in(-9), Until: in(-1)}}},
	} {
		var s templates.Strip
		g := &board.GPU{State: c.state, FreeUntil: c.until}
		v.drawAhead(&s, c.bookings, g, now, characters/narrowAhead)
		if len(s.Bars) != len(c.bars) {
			t.Errorf("%s: there are %d bars", name, len(s.Bars))
			continue
		}
		for i, b := range s.Bars {
			got := b.X + " " + b.W + " "
			if b.Left {
				got += "left "
			}
			if got += b.Text; !strings.HasPrefix(got, c.bars[i]) {
				t.Errorf("%s: bar %d is %q, want %q", name, i, got, c.bars[i])
			}
		}
		if !strings.HasPrefix(s.Free, c.free) || (c.free == "") != (s.Free == "") {
			t.Errorf("%s: it says %q", name, s.Free)
		}
	}
}

// TestTextsOfBookingsDoNotOverlap: whatever is booked, no text lies on another or on a later bar.
func TestTextsOfBookingsDoNotOverlap(t *testing.T) {
	const character = 0.06
	for first := 0.0; first < 0.9; first += 0.07 {
		for length := 0.02; first+length < 0.95; length += 0.11 {
			bars := []stripBar{
				{from: first, to: first + length, texts: []string{"Mon 10:00 mira", "Mon 10:00", "mira"}},
				{from: first + length, to: 1, texts: []string{"Tue 10:00 tomas", "Tue 10:00", "tomas"}},
			}
			placeTexts(bars, character)
			end := 0.0
			for i, b := range bars {
				if b.Text == "" {
					continue
				}
				from := b.from
				if b.Left {
					from -= character * float64(len(b.Text))
				}
				if from < end-1e-9 {
					t.Fatalf("%v: the text %q begins at %.2f, and there is one until %.2f", bars, b.Text, from, end)
				}
				if end = from + character*float64(len(b.Text)); i == 0 && end > bars[1].from && !b.Left && first > 0 {
					t.Fatalf("%q lies on the next bar", b.Text)
				}
			}
		}
	}
}

// TestRibbonSaysWhatIsBooked: the share of a model that is booked, two bookings of one GPU at a time being one.
func TestRibbonSaysWhatIsBooked(t *testing.T) {
	now := boardtest.Now.Truncate(quarter)
	week := span{from: now, until: now.Add(ribbonSteps * ribbonStep)}
	booked := week.shares([]*board.Booking{
		{Name: "eva", From: now.Add(-time.Hour), Until: now.Add(9 * time.Hour)},
		{Name: "mira", From: now, Until: now.Add(6 * time.Hour)},
		{Name: "tomas", From: now.Add(162 * time.Hour)},
	})
	for k, want := range map[int]float64{0: 1, 1: 0.5, 2: 0, 26: 0, 27: 1} {
		if math.Abs(booked[k]-want) > 1e-9 {
			t.Errorf("in step %d %g of it is booked, want %g", k, booked[k], want)
		}
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
		`href="sites/index.html"`, `<del class="d">`} {
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
	cards := []*templates.Card{
		{ID: "a", Open: true, Rows: make([]templates.Row, 8)}, {ID: "b"},
		{ID: "c", Open: true, Rows: make([]templates.Row, 4)},
		{ID: "d", Open: true, Rows: make([]templates.Row, 4)},
	}
	for n, want := range []int{1, 1, 1, 1, 2} {
		if n == 0 {
			continue
		}

		if got := columns(cards[:n]); len(got[0]) != want || len(got[0])+len(got[1]) != n {
			t.Errorf("of %d hosts, %d are in the first column, want %d", n, len(got[0]), want)
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
	slice := func(of, part string, state board.State) templates.Row {
		return templates.Row{Of: of, Part: part, State: string(state), Class: "r slice"}
	}
	soon := slice("a", "1g", board.Free)
	soon.Next = &templates.Booking{}
	rows := []templates.Row{
		slice("a", "1g", board.Free), slice("a", "1g", board.Free), slice("a", "1g", board.Free),
		slice("a", "2g", board.Free), slice("a", "2g", board.Busy), soon, slice("a", "1g", board.Free),
		slice("b", "1g", board.Free), slice("b", "1g", board.Free), {State: string(board.Free)},
		{State: string(board.Free)},
	}
	foldFree(rows)
	for i, want := range []int{3, 0, 0, 1, 0, 0, 1, 2, 0, 0, 0} {
		if rows[i].Alike != want {
			t.Errorf("row %d stands for %d, want %d", i, rows[i].Alike, want)
		}
		if hidden := strings.Contains(rows[i].Class, "alike"); hidden != (i == 1 || i == 2 || i == 8) {
			t.Errorf("row %d is hidden: %v", i, hidden)
		}
	}
}
