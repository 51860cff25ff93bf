package page_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/net/html"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
)

// TestPanelsWithoutJavaScript: what stands in the panels can be typed and pasted.
func TestPanelsWithoutJavaScript(t *testing.T) {
	in := boardtest.Lab()
	files := pages(t, in)
	panels := 0
	for _, h := range in.Board.Hosts {
		rows := 0
		for _, n := range elements(parse(t, boardtest.FileOf(t, files, "hosts/"+h.Name+"/index.html"))) {
			if n.Data != "details" || attr(n, "class") != "panel" {
				continue
			}
			var codes []string
			for d := range n.Descendants() {
				if d.Type == html.ElementNode && d.Data == "code" {
					codes = append(codes, contentOf(d))
				}
			}
			if len(codes) != 2 || !strings.HasPrefix(codes[0], "gpuboard book "+h.Name+":") {
				t.Fatalf("%s: %q", h.Name, codes)
			}
			cal := booking.Parse("comments.json", []byte("{"+codes[1]+"}"), booking.Zone{Location: in.Site.Zone},
				booking.Options{})
			if len(cal.Problems) > 0 || len(cal.Bookings) != 1 || cal.Bookings[0].Host != h.Name ||
				!cal.Bookings[0].Until.After(in.Board.GeneratedAt) {
				t.Errorf("%s: %s: %v", h.Name, codes[1], cal.Problems)
			}
			rows++
		}
		want := 0
		for range h.Rows() {
			want++
		}
		if rows != want {
			t.Errorf("%s has %d rows and %d panels", h.Name, want, rows)
		}
		if h.State == board.Up { // the front page has a line of the others
			panels += rows
		}
	}
	if front := strings.Count(string(files[len(files)-1].Content), `<details class="panel">`); front != panels {
		t.Errorf("the front page has %d panels, and the hosts' pages %d", front, panels)
	}
	if front := pages(t, boardtest.Big(13)); strings.Contains(string(front[len(front)-1].Content), `class="panel"`) {
		t.Error("with more hosts there is no room for the panels on the front page")
	}
	if got := string(boardtest.FileOf(t, files, "book/capabilities.json").Content); got != "{\"booking\": false}\n" {
		t.Errorf("plain files say that they can %s", got)
	}
}

func TestPanelsKnowAllBookings(t *testing.T) {
	now := boardtest.Now
	at := func(h int) time.Time { return now.Add(time.Duration(h) * time.Hour) }
	in := render.Input{Board: &board.Board{GeneratedAt: now, Hosts: []board.Host{{
		Name: "atlas", State: board.Up, SnapshotAt: now, GPUs: []board.GPU{{State: board.Free}, {State: board.Free}},
	}}}}
	in.Board.Hosts[0].GPUs[1].Index, in.Board.Hosts[0].GPUs[1].UUID = 1, "GPU-1"
	in.Board.Bookings = []board.Booking{
		{ID: "d", Host: "atlas", GPUs: []int{1}, UUID: "GPU-1", Name: "sam", Until: at(3), Active: true},
		{ID: "a", Host: "atlas", GPUs: []int{0}, Name: "eva", From: at(-2), Until: at(-1), Expired: true},
		{ID: "b", Host: "atlas", GPUs: []int{0}, Name: "mira", From: at(5), Until: at(6)},
		{ID: "c", Host: "atlas", Name: `k"ai`, From: at(7)},
		{ID: "e", Host: "other", GPUs: []int{0}, Name: "tom", From: at(1), Until: at(2)},
	}
	due := func(f render.File) string {
		var out []string
		for _, n := range elements(parse(t, f)) {
			if n.Data == "i" && attr(n, "data-name") != "" {
				out = append(out, attr(n, "data-name")+" "+attr(n, "data-from")+" "+attr(n, "data-until"))
			}
		}
		return strings.Join(out, "\n")
	}
	stamp := func(h int) string { return at(h).UTC().Format("2006-01-02T15:04:05Z") }
	kai := `k"ai ` + stamp(7) + " "
	want := "mira " + stamp(5) + " " + stamp(6) + "\n" + kai + "\nsam  " + stamp(3) + "\n" + kai
	if got := due(boardtest.FileOf(t, pages(t, in), "hosts/atlas/index.html")); got != want {
		t.Errorf("the panels know\n%s\nwant\n%s", got, want)
	}
	// A booking that is far ahead is in the panel of the next generation, though
	// nothing else is new.
	pages(t, in)
	in.Board.Bookings = append(in.Board.Bookings, board.Booking{
		ID: "f", Host: "atlas", GPUs: []int{1}, Name: "lea", From: at(50), Until: at(60),
	})
	if got := due(boardtest.FileOf(t, pages(t, in), "hosts/atlas/index.html")); !strings.Contains(got, "lea") {
		t.Errorf("a new booking is not in the panel:\n%s", got)
	}
}

func TestEndsSoon(t *testing.T) {
	now := boardtest.Now
	in := render.Input{Board: &board.Board{GeneratedAt: now, Hosts: []board.Host{{
		Name: "atlas", State: board.Up, SnapshotAt: now, GPUs: []board.GPU{{State: board.Booked}},
	}}}}
	b := board.Booking{
		ID: "a", Host: "atlas", GPUs: []int{0}, Name: "eva", From: now.Add(-time.Hour),
		Until:  now.Add(61 * time.Minute),
		Active: true,
	}
	in.Board.Bookings, in.Board.Hosts[0].GPUs[0].Booking = []board.Booking{b}, &b
	soon := func() map[string]bool {
		said := map[string]bool{}
		for _, f := range pages(t, in) {
			if strings.Contains(string(f.Content), ">ends soon<") {
				said[f.Path] = true
			}
		}
		return said
	}
	if said := soon(); len(said) > 0 {
		t.Errorf("61 minutes before the end: %v", said)
	}
	// Only the clock has moved: the host has sent nothing new.
	in.Board.GeneratedAt = now.Add(2 * time.Minute)
	said := soon()
	for _, path := range []string{"index.html", "hosts/atlas/index.html", "bookings/index.html",
		"users/eva/index.html"} {
		if !said[path] {
			t.Errorf("59 minutes before the end %s does not say it", path)
		}
	}
}

// TestFreeFrom: where bookings follow upon each other, the end of the first one
// is not when the GPU is free.
func TestFreeFrom(t *testing.T) {
	now := boardtest.Now
	b := board.Booking{
		ID: "a", Host: "atlas", GPUs: []int{0}, Name: "eva", From: now.Add(-time.Hour), Until: now.Add(24 * time.Hour),
		Active: true,
	}
	for _, tt := range []struct {
		freeFrom time.Time
		want     string
	}{
		{b.Until, ""}, {time.Time{}, ""},
		{now.Add(48 * time.Hour), now.Add(48 * time.Hour).UTC().Format("2006-01-02T15:04:05Z")},
	} {
		in := render.Input{Board: &board.Board{GeneratedAt: now, Bookings: []board.Booking{b},
			Hosts: []board.Host{{Name: "atlas", State: board.Up, SnapshotAt: now, GPUs: []board.GPU{
				{State: board.Booked, Booking: &b, FreeFrom: tt.freeFrom},
			}}}}}
		got := ""
		for _, n := range elements(parse(t, boardtest.FileOf(t, pages(t, in), "hosts/atlas/index.html"))) {
			if n.Data == "span" && strings.HasPrefix(textOf(n), "free from") {
				for d := range n.Descendants() {
					got += attr(d, "datetime")
				}
			}
		}
		if got != tt.want {
			t.Errorf("free from %v: the row says %q, want %q", tt.freeFrom, got, tt.want)
		}
	}
}

// own is the directory of a site's own look.
func own(files ...string) fstest.MapFS {
	dir := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		dir[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return dir
}

// TestOwnLook: words, style, pictures and HTML of a site's own are on its pages.
func TestOwnLook(t *testing.T) {
	files, err := siteFiles(boardtest.Lab(), own(
		"words/en.json", `{"free": "frei"}`,
		"site.css", ".top{color:teal}",
		"favicon.svg", "<svg/>",
		"head.html", `<meta name="theme-color" content="#123456">`,
		"banner.html", "<p>Bring cake</p>",
		"footer.html", "<p>Imprint</p>",
		"README", "nothing of ours",
	))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"index.html", "bookings/index.html", "hosts/atlas/index.html"} {
		page := string(boardtest.FileOf(t, files, path).Content)
		head, body, _ := strings.Cut(page, "<body>")
		content, footer, _ := strings.Cut(body, `<footer class="foot">`)
		if !strings.Contains(head, `<meta name="theme-color" content="#123456">`) ||
			!strings.Contains(content, "<p>Bring cake</p>") || !strings.Contains(footer, "<p>Imprint</p>") {
			t.Errorf("%s lacks HTML of the site's own", path)
		}
		if !strings.Contains(page, "</svg>frei</span>") {
			t.Errorf("%s lacks a word of the site's own", path)
		}
	}
	if got := string(boardtest.FileOf(t, files, "favicon.svg").Content); got != "<svg/>" {
		t.Errorf("the icon is %s", got)
	}
	style := ""
	for _, f := range files {
		if strings.HasSuffix(f.Path, ".css") {
			style = string(f.Content)
		}
	}
	if !strings.HasPrefix(style, ":root{") || !strings.HasSuffix(style, ".top{color:teal}") {
		t.Error("the site's own style does not come after the built-in one")
	}
}

// TestOwnLookIsRefused: what would have no effect, or cannot be read, is an error
// that names the file and what to use instead.
func TestOwnLookIsRefused(t *testing.T) {
	for _, c := range []struct {
		files fstest.MapFS
		want  []string
	}{
		{own("index.html", "<h1>"), []string{"index.html", "head.html, banner.html or footer.html", "site.css"}},
		{own("base.html", ""), []string{"base.html", "banner.html"}},
		{own("host.templ", ""), []string{"host.templ"}},
		{own("style/map.css", "a{}"), []string{"style", "site.css"}},
		{own("words.json", "{}"), []string{"words.json", "words/en.json"}},
		{own("script/page.js", ""), []string{"script", "cannot be replaced"}},
		{own("words/en.json", "{"), []string{"words/en.json"}},
		{own("words/en.json", `{"date.near": "{when}"}`), []string{"words/en.json", "date.near"}},
		{own("site.css", strings.Repeat(" ", 1<<20+1)), []string{"site.css", "1048576"}},
		{own("banner.html/x", ""), []string{"banner.html"}},
	} {
		err := page.Files(boardtest.Lab(), c.files)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, and should name %s", err, want)
			}
		}
	}
}

// TestPanelsBeginWhereTheBookingEnds: what the panel of a booked GPU proposes begins when it comes free, and ends where
// the next booking begins.
func TestPanelsBeginWhereTheBookingEnds(t *testing.T) {
	at := func(h int) time.Time { return boardtest.Now.Truncate(time.Minute).Add(time.Duration(h) * time.Hour) }
	now := board.Booking{ID: "a", Host: "atlas", GPUs: []int{0}, Name: "eva", From: at(-1), Until: at(3), Active: true}
	next := board.Booking{ID: "b", Host: "atlas", GPUs: []int{0}, Name: "mira", From: at(3), Until: at(5)}
	last := board.Booking{ID: "c", Host: "atlas", GPUs: []int{0}, Name: "sam", From: at(9), Until: at(11)}
	in := render.Input{Site: render.Site{Zone: time.UTC},
		Board: &board.Board{GeneratedAt: boardtest.Now, Hosts: []board.Host{{
			Name: "atlas", State: board.Up, SnapshotAt: boardtest.Now,
			GPUs: []board.GPU{{State: board.Booked, Booking: &now, Next: &next, FreeFrom: at(5)}},
		}}}}
	for _, tt := range []struct {
		bookings []board.Booking
		want     string
	}{
		{[]board.Booking{now, next}, " --for 2d"},
		{[]board.Booking{now, next, last}, " --until " + at(9).UTC().Format("2006-01-02T15:04Z")},
	} {
		in.Board.Bookings = tt.bookings
		page := string(boardtest.FileOf(t, pages(t, in), "hosts/atlas/index.html").Content)
		want := "book atlas:0 --from " + at(5).UTC().Format("2006-01-02T15:04Z") + tt.want + " --name NAME<"
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// A listedWeek is the bookings below one heading of the list of bookings.
type listedWeek struct {
	title string
	rows  []*html.Node
}

// listedBookings is the list of bookings on its first page, and what leads to others.
func listedBookings(t *testing.T, in render.Input) (list []listedWeek, pager []*html.Node) {
	t.Helper()
	doc := docAt(t, in, "bookings/index.html")
	for _, table := range within(doc, "table", "bookings") {
		for _, week := range within(table, "tbody", "") {
			rows := within(week, "tr", "")
			list = append(list, listedWeek{textOf(rows[0]), rows[1:]})
		}
	}
	return list, within(doc, "nav", "pager")
}

// TestBookingsAreListedByWeek: running ones first, then by week, then those that are over.
func TestBookingsAreListedByWeek(t *testing.T) {
	in := manyBookings(boardtest.Big(4), 9, -2, 0, 3)
	for i := range in.Board.Bookings {
		b := &in.Board.Bookings[i]
		if b.From.Before(boardtest.Now) && !b.Expired {
			b.Active = true
		}
	}
	list, pager := listedBookings(t, in)
	var got []string
	for _, week := range list {
		got = append(got, fmt.Sprintf("%s: %d", week.title, len(week.rows)))
	}
	if want := "[Running now 4: 4 Week of Mon 23 Nov 8: 8 Past 4: 4]"; fmt.Sprint(got) != want {
		t.Errorf("the weeks are %v, want %s", got, want)
	}
	if pager != nil {
		t.Errorf("there are several pages of 16 bookings: %s", textOf(pager[0]))
	}
}

// TestBookingsAreListedByTheNumbersOfTheirHosts: gpu2 comes before gpu10, as on the board.
func TestBookingsAreListedByTheNumbersOfTheirHosts(t *testing.T) {
	in := boardtest.Big(1)
	in.Board.Bookings = nil
	for _, host := range []string{"gpu10", "gpu2", "gpu1"} {
		b := board.Booking{Host: host, GPUs: []int{0}}
		b.Name, b.From = "ada", boardtest.Now.Add(time.Hour)
		in.Board.Bookings = append(in.Board.Bookings, b)
	}
	var got []string
	list, _ := listedBookings(t, in)
	for _, row := range list[0].rows {
		got = append(got, textOf(find(row, "th")))
	}
	if want := []string{"gpu1", "gpu2", "gpu10"}; !slices.Equal(got, want) {
		t.Errorf("the bookings are of the hosts %q, want %q", got, want)
	}
}

// TestBookingsOfOneTimeAreListedByGPU: by their numbers, not by their digits.
func TestBookingsOfOneTimeAreListedByGPU(t *testing.T) {
	in := boardtest.Big(1)
	in.Board.Bookings = nil
	for _, gpus := range [][]int{{10}, {2, 3}, nil, {2}, {1}} {
		b := board.Booking{Host: in.Board.Hosts[0].Name, GPUs: gpus}
		b.Name, b.From = "ada", boardtest.Now.Add(time.Hour)
		in.Board.Bookings = append(in.Board.Bookings, b)
	}
	var got []string
	list, _ := listedBookings(t, in)
	for _, row := range list[0].rows {
		got = append(got, textOf(find(row, "td")))
	}
	if want := []string{"whole host", "1", "2", "2, 3", "10"}; !slices.Equal(got, want) {
		t.Errorf("the bookings are of the GPUs %q, want %q", got, want)
	}
}
