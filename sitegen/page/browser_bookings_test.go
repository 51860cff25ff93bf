package page

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gpuboard/internal/board"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/internal/testenv/browser"
	"gpuboard/internal/testenv/need"
	"gpuboard/sitegen/render"
)

// manyBookings are bookings of a fleet that go on on several pages: those of day 0 are
// running, those of day -2 are over, the others begin on their day.
func manyBookings(in render.Input, days ...int) render.Input {
	in.Board.Bookings = nil
	for i := range in.Board.Hosts {
		for j, day := range days {
			name := fmt.Sprintf("user%02d", (i+j)%40)
			in.Board.Bookings = append(in.Board.Bookings,
				*boardtest.Booked(in.Board.Hosts[i].Name, []int{j % 8}, name, boardtest.At(day, -1, 0), boardtest.At(day+1, -2, 0),
					fmt.Sprintf("run %d-%d", i, j)))
		}
	}
	return in
}

// waitFor waits until a script has this value, as what is fetched comes when it comes.
func waitFor(t *testing.T, b *browser.Browser, script, want string) {
	t.Helper()
	for deadline := time.Now().Add(need.Patience); b.Value(script) != want && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	expect(t, b, script, want)
}

func TestBrowserSearchesBookings(t *testing.T) {
	days := make([]int, 0, 100)
	for i := range 100 {
		days = append(days, i%20+3)
	}
	dir := siteDir(t, manyBookings(boardtest.Big(20), days...))
	site := serve(t, dir, boardtest.Now.Add(14*time.Second))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	const (
		rows  = `[...document.querySelectorAll(".bookings tbody tr:not(.wk)")].filter(r => r.offsetParent !== null).length`
		lanes = `[...document.querySelectorAll(".tl:not(.head)")].filter(r => r.offsetParent !== null).length`
		found = `document.getElementById("_found").textContent`
		typed = `(s => { s.value = %q; s.dispatchEvent(new Event("input")); })(document.querySelector("[type=search]"))`
	)
	b.Do(chromedp.Navigate(site + "bookings/index.html"))
	expect(t, b, rows, "700")
	expect(t, b, found, "")
	expect(t, b, `[...document.querySelectorAll(".pager > *")].map(e => e.textContent).join()`, "1,2,3")
	b.Value(fmt.Sprintf(typed, "gpu007 user07"))
	waitFor(t, b, found, "3 of 2000 bookings match") // with those of the other pages
	expect(t, b, rows, "3")
	expect(t, b,
		`[...document.querySelectorAll(".bookings tbody tr:not(.wk):not([hidden]) th a")].every(a => a.href.endsWith("/any/where/hosts/gpu007/index.html"))`, "true")
	expect(t, b, lanes, "1")
	expect(t, b, `location.search`, "?q=gpu007+user07")
	b.Value(fmt.Sprintf(typed, "RUN 19-99"))
	expect(t, b, rows, "1") // by its comment
	b.Value(fmt.Sprintf(typed, ""))
	expect(t, b, rows, "700")
	b.Quiet(site)

	b = openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Do(chromedp.Navigate("file://" + dir + "/bookings/index.html?q=user07"))
	expect(t, b, found+`.endsWith("of 700 bookings here match")`, "true")
	b.Quiet("file://" + dir)
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
	v := newView(in, []*look{{words: englishWords(t)}})
	p := v.bookingsPages()
	var got []string
	for _, w := range p[0].Weeks {
		got = append(got, fmt.Sprintf("%s: %d", w.Title, w.Total))
	}
	if want := "[Running now: 4 Week of Mon 23 Nov: 8 Past: 4]"; fmt.Sprint(got) != want {
		t.Errorf("the weeks are %v, want %s", got, want)
	}
	if len(p) != 1 || p[0].Pages != nil {
		t.Errorf("there are %d pages of 16 bookings: %v", len(p), p[0].Pages)
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
	for _, line := range newView(in, []*look{{words: englishWords(t)}}).bookingsPages()[0].Weeks[0].List {
		got = append(got, line.Host)
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
	for _, line := range newView(in, []*look{{words: englishWords(t)}}).bookingsPages()[0].Weeks[0].List {
		got = append(got, line.GPUs)
	}
	if want := []string{"", "1", "2", "2, 3", "10"}; !slices.Equal(got, want) {
		t.Errorf("the bookings are of the GPUs %q, want %q", got, want)
	}
}

// TestBookingsOfAThousandHosts: no page of them is large, and each booking is on one.
func TestBookingsOfAThousandHosts(t *testing.T) {
	in := manyBookings(boardtest.Big(1000), 0, 1, 9)
	files := pages(t, in)
	rows := 0
	for i, p := range newView(in, []*look{{words: englishWords(t)}}).bookingsPages() {
		page := fileAt(files, bookingsPath(i))
		if len(page) == 0 || len(page) > 400_000 {
			t.Errorf("%s is %d bytes", bookingsPath(i), len(page))
		}
		for _, w := range p.Weeks {
			rows += len(w.List)
		}
	}
	if rows != len(in.Board.Bookings) {
		t.Errorf("%d of %d bookings are listed", rows, len(in.Board.Bookings))
	}
}
