package page_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/page"
)

// How much pages know or show at most.
const (
	maxPeople      = 1000 // on the page of all people
	maxDue         = 64   // bookings of one GPU, in its panel
	maxOwnBookings = 200  // on the page of a person
	allBars        = 1200 // in the picture of the next days
)

func TestBudgets(t *testing.T) {
	for hosts, limit := range map[int]int{4: 10 << 10, 40: 30 << 10, 100: 60 << 10, 1000: 200 << 10} {
		files := pages(t, boardtest.Big(hosts))
		if n := zipped(t, files[len(files)-1].Content); n > limit {
			t.Errorf("the front page of %d hosts is %d KiB gzipped, and %d KiB is the most", hosts, n>>10, limit>>10)
		} else {
			t.Logf("%d hosts: %.1f KiB gzipped, %d KiB plain", hosts, float64(n)/1024,
				len(files[len(files)-1].Content)>>10)
		}
	}
	for _, f := range pages(t, boardtest.Lab()) {
		if strings.HasPrefix(f.Path, "assets/") {
			limit := 11 << 10
			if strings.HasSuffix(f.Path, ".css") { // one for all pages, which a browser keeps
				limit = 14<<10 + 512
			}
			if n := zipped(t, f.Content); n > limit {
				t.Errorf("%s is %d bytes gzipped", f.Path, n)
			}
		}
	}
}

// TestFrontPageOfAThousandHosts: the front page is small enough to be usable within
// a second, and what it has no room for is a click away.
func TestFrontPageOfAThousandHosts(t *testing.T) {
	in := boardtest.Big(1000)
	for i := range 300 {
		in.Board.Users = append(in.Board.Users, board.User{
			Name: fmt.Sprintf("guest%03d", i), Holding: board.Holding{Used: 1},
		})
	}
	files := pages(t, in)
	index := files[len(files)-1]
	if n := len(index.Content); n > 1_200_000 {
		t.Errorf("it is %d bytes", n)
	}
	if n := zipped(t, index.Content); n > 130<<10 {
		t.Errorf("it is %d bytes gzipped", n)
	}
	if n := len(elements(parse(t, index))); n > 30_000 {
		t.Errorf("it has %d elements", n)
	}
	all := len(in.Board.Users)
	rows := func(page []byte) int { return bytes.Count(page, []byte(`<th scope="row"><a class="name"`)) }
	if n := bytes.Count(index.Content, []byte(`<svg class="person`)); n > 40 {
		t.Errorf("its bar of people has %d parts", n)
	}
	if !bytes.Contains(index.Content, []byte(`<a class="dim" href="users/index.html">+`)) {
		t.Error("it does not lead to those who have no room in the bar")
	}
	if n := rows(fileAt(files, "users/index.html")); n != all {
		t.Errorf("the page of all people lists %d of %d", n, all)
	}
}

// TestPeoplePageIsBounded: those who are not listed are counted.
func TestPeoplePageIsBounded(t *testing.T) {
	in := boardtest.Lab()
	in.Board.Users = nil
	for i := range maxPeople + 7 {
		in.Board.Users = append(in.Board.Users, board.User{
			Name: fmt.Sprintf("guest%04d", i), Holding: board.Holding{Used: 1},
		})
	}
	page := fileAt(pages(t, in), "users/index.html")
	if !bytes.Contains(page, []byte("+7 more")) || !bytes.Contains(page, []byte("guest0999")) ||
		bytes.Contains(page, []byte("guest1000")) {
		t.Errorf("the page of all people has %d bytes and no end after %d", len(page), maxPeople)
	}
}

// TestEverybodyHasANameAtTheBar: who has no room for the name in the bar of people has it below, up to sixteen, and the
// others are counted.
func TestEverybodyHasANameAtTheBar(t *testing.T) {
	for name, c := range map[string]struct {
		used              []float64
		idle              int
		inBar, below, end string
		lines             int
	}{
		"room for all":    {[]float64{120, 100, 60}, 0, "guest0 120, guest1 100, guest2 60, free 40", "", "", 0},
		"one has no room": {[]float64{160, 110, 10}, 0, "guest0 160, guest1 110, free 40", "guest2 10", "", 0},
		"many and a tiny one": {append(slices.Repeat([]float64{14}, 18), 0.5), 0, "others 56, free 40",
			"guest0 14, guest1 14", "+3 more", 0},
		"words or a line": {[]float64{160, 90, 25, 5}, 1, "guest0 160 1 idle, guest1 90 1 idle, guest2 25 1 idle, free 40",
			"guest3 5 1 idle", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			in := boardtest.Big(40)
			in.Board.Users = nil
			for i, used := range c.used {
				in.Board.Users = append(in.Board.Users,
					board.User{Name: fmt.Sprint("guest", i), Holding: board.Holding{Used: used, Idle: c.idle}})
			}
			total := &in.Board.Totals
			total.GPUs.ByState = map[board.State]int{board.Busy: 280, board.Free: 40}
			doc := docAt(t, in, "index.html")
			texts := func(list []*html.Node, fits bool) string {
				var all []string
				for _, n := range list {
					if hasClass(n, "fits") == fits {
						all = append(all, textOf(cmp.Or(find(n, "p"), n)))
					}
				}
				return strings.Join(all, ", ")
			}
			bar := within(doc, "svg", "holders")[0]
			if got := texts(within(bar, "svg", ""), true); got != c.inBar {
				t.Errorf("in the bar: %q, want %q", got, c.inBar)
			}
			if got := len(within(bar, "svg", "brief")); got != c.lines {
				t.Errorf("%d parts have a line, want %d", got, c.lines)
			}
			below := texts(within(within(doc, "ul", "holder-names")[0], "li", ""), false)
			if !strings.HasPrefix(below, c.below) || !strings.HasSuffix(below, c.end) || (c.below == "") != (below == "") {
				t.Errorf("below it: %q, want %q … %q", below, c.below, c.end)
			}
		})
	}
}

// TestPlacesOnTheWall: each model has as many as there is room for, and says how many are left out.
func TestPlacesOnTheWall(t *testing.T) {
	in := boardtest.Big(40)
	in.Board.FreeNow = nil
	h := &in.Board.Hosts[0]
	place := func(name, model string) {
		g := &board.GPU{Slice: &board.Slice{}}
		g.Name, g.ShortName = model, model
		g.Index, g.Slice.Index = 0, len(in.Board.FreeNow)
		host := *h
		host.Name, host.Title = name, ""
		in.Board.FreeNow = append(in.Board.FreeNow, board.Unit{Host: &host, GPU: g})
	}
	for range 60 {
		place("wide", "A100 1g.5gb")
	}
	for i := range 30 {
		place(fmt.Sprint("small", i), "H100")
	}
	for _, div := range within(within(docAt(t, in, "kiosk/index.html"), "dl", "piles")[0], "div", "") {
		text := strings.Join(strings.Fields(textOf(div)), " ")
		if shown := len([]rune(textOf(find(div, "dd")))); shown < 100 || shown > 200 || strings.HasPrefix(text, "30") &&
			!strings.Contains(text, "more") || strings.HasPrefix(text, "60") && !strings.Contains(text, "…") {
			t.Errorf("%d characters: %s", shown, text)
		}
	}
}

// A GPU's panel knows the next bookings of it, and one stands for all others until they are over.
func TestBookingsThatAPageKnowsAreBounded(t *testing.T) {
	in := boardtest.Big(1)
	h := &in.Board.Hosts[0]
	for i := range maxDue + 30 {
		in.Board.Bookings = append(in.Board.Bookings,
			*boardtest.Booked(h.Name, []int{0}, "mira", boardtest.At(i+10, 0, 0), boardtest.At(i+11, 0, 0), ""))
	}
	in.Board.Bookings = append(in.Board.Bookings,
		*boardtest.Booked(h.Name, nil, "lea", boardtest.At(300, 0, 0), time.Time{}, ""))
	doc := docAt(t, in, "hosts/gpu000/index.html")
	due := func(row string) (names []string, last *html.Node) {
		for _, n := range within(byID(doc, row), "i", "") {
			if name := attr(n, "data-name"); name != "" {
				names, last = append(names, name), n
			}
		}
		return names, last
	}
	names, last := due("gpu000-0")
	if from, err := time.Parse(time.RFC3339, attr(last, "data-from")); len(names) != maxDue+1 ||
		slices.Index(names, "…") != maxDue || err != nil || from.After(boardtest.At(10+maxDue, 0, 0)) ||
		attr(last, "data-until") != "" {
		t.Errorf("%d bookings, the last one %v", len(names), last.Attr)
	}
	if names, _ := due("gpu000-7"); !slices.Contains(names, "lea") {
		t.Errorf("the host's booking is not on GPU 7: %q", names)
	}
}

// Few problems of bookings are open above the list; many of them are behind their number.
func TestManyProblemsOfBookingsAreClosed(t *testing.T) {
	for n, want := range map[int]string{12: `<details class="banner" open>`, 13: `<details class="banner">`} {
		in := boardtest.Lab()
		in.Board.Problems = nil
		for i := range n {
			in.Board.Problems = append(in.Board.Problems, snapshot.Problem{
				Code: "booking:overlap", File: "comments.json", Line: i + 1, Message: "two have booked it",
			})
		}
		if page := fileAt(pages(t, in), "bookings/index.html"); !bytes.Contains(page, []byte(want)) {
			t.Errorf("%d problems: the page lacks %s", n, want)
		}
	}
}

// The picture of the next days has a bounded number of bars, with a bounded text each.
func TestPictureOfBookingsIsBounded(t *testing.T) {
	in := boardtest.Big(100)
	for i := range 20_000 {
		host, from := in.Board.Hosts[i%100].Name, boardtest.At(0, i/800, 0)
		in.Board.Bookings = append(in.Board.Bookings,
			*boardtest.Booked(host, []int{i / 100 % 8}, "mira", from, from.Add(time.Hour), strings.Repeat("c", 2000)))
	}
	page := fileAt(pages(t, in), "bookings/index.html")
	bars := bytes.Count(page, []byte(`<svg class="bar `))
	if bars < 200 || bars > allBars || !bytes.Contains(page, []byte("bookings do not fit here")) {
		t.Errorf("the picture has %d bars", bars)
	}
	if len(page) > 1100<<10 {
		t.Errorf("its page has %d KiB", len(page)>>10)
	}
	t.Logf("%d bars, %d KiB", bars, len(page)>>10)
}

// The page of a person lists the bookings that come next, and counts the others.
func TestBookingsOfAPersonAreBounded(t *testing.T) {
	in := boardtest.Lab()
	for i := range maxOwnBookings + 7 {
		in.Board.Bookings = append(in.Board.Bookings,
			*boardtest.Booked("europa", []int{0}, "zoe", boardtest.At(i, 0, 0), boardtest.At(i+1, 0, 0), ""))
	}
	page := string(fileAt(pages(t, in), "users/zoe/index.html"))
	if n := strings.Count(page, `<tr`); n > maxOwnBookings+10 ||
		!strings.Contains(page, `<a href="../../bookings/index.html">+7 more</a>`) {
		t.Errorf("%d rows, and no link to the others", n)
	}
}

func zipped(t testing.TB, b []byte) int {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, 9)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Len()
}

func BenchmarkPages(b *testing.B) {
	for _, hosts := range []int{10, 100, 1000} {
		in := boardtest.Big(hosts)
		b.Run(fmt.Sprint(hosts), func(b *testing.B) {
			for b.Loop() {
				if err := page.Files(in, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
