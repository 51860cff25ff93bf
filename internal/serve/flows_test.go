package serve_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/testenv/browser"
)

// A flow counts what somebody does on the way from the front page to what they want: clicks, and fields that they fill in.
type flow struct {
	*lab
	acts int
}

func (f *flow) click(selector string) {
	f.t.Helper()
	f.acts++
	f.lab.click(selector)
}

func (f *flow) fill(selector, text string) {
	f.t.Helper()
	f.acts++
	f.lab.fill(selector, text)
}

// took ends a flow.
func (f *flow) took(most int, what string) {
	f.t.Helper()
	if f.acts > most {
		f.t.Errorf("%s takes %d clicks and fields, want at most %d", what, f.acts, most)
	}
	f.acts = 0
}

// says waits until a row says what was done there.
func (f *flow) says(row, text string) {
	f.t.Helper()
	f.until("the word "+text, fmt.Sprintf(`document.querySelector("#%s .done")?.textContent.includes(%q)`, row, text))
}

// standing are the bookings that are not over.
func (f *flow) standing() (all []booking.Booking) {
	for _, b := range f.bookings() {
		if !b.OverAt(time.Now()) {
			all = append(all, b)
		}
	}
	return all
}

// free are the ids of the rows whose GPU is free, and their places.
func (f *flow) free() (rows, places []string) {
	f.t.Helper()
	rows = browser.Eval[[]string](f.page, `[...document.querySelectorAll(".row.free:not(.slice)")].map(r => r.id)`)
	for _, row := range rows {
		i := strings.LastIndex(row, "-")
		places = append(places, row[:i]+":"+row[i+1:])
	}
	return rows, places
}

// entries is comments.json with bookings by place.
func entries(of map[string]string) string {
	var hosts []string
	for place, entry := range of {
		host, gpu, _ := strings.Cut(place, ":")
		hosts = append(hosts, fmt.Sprintf(`%q: {%q: {%s}}`, host, gpu, entry))
	}
	return "{" + strings.Join(hosts, ", ") + "}"
}

func newFlow(t *testing.T) *flow {
	t.Helper()
	f := &flow{lab: newLab(t)}
	f.page.Open(strings.Replace(f.url, "http://", "http://eva:secret@", 1) + "/book/") // her browser keeps the password
	f.page.Open(f.url + "/")
	return f
}

// entryOf is a booking until some minutes from now.
func entryOf(name string, minutes int) (entry string, until time.Time) {
	until = time.Now().UTC().Add(time.Duration(minutes) * time.Minute).Truncate(time.Minute)
	return fmt.Sprintf(`"name": %q, "date": %q`, name, until.Format("2006-01-02 15:04")), until
}

// TestFlowsOfOnesOwnBooking: extended with two clicks, released with one, and each undone with one, without leaving the
// page. The head of the page says how many are hers.
func TestFlowsOfOnesOwnBooking(t *testing.T) {
	f := newFlow(t)
	rows, places := f.free()
	row := rows[0]
	entry, until := entryOf("eva", 300)
	f.write("data/comments.json", entries(map[string]string{places[0]: entry}))
	f.generate()
	f.page.Open(f.url + "/")
	end := func(want time.Time) {
		t.Helper()
		if all := f.standing(); len(all) != 1 || all[0].Name != "eva" || all[0].Place() != places[0] ||
			!all[0].Until.Equal(want) {
			t.Errorf("bookings %+v, want one until %v", all, want)
		}
	}

	f.until("how many are hers", `document.querySelector("#_mine a")?.textContent === "Yours: 1 GPU"`)
	if href := browser.Eval[string](f.page,
		`document.querySelector("#_mine a").getAttribute("href")`); href != "?q=eva" {
		t.Errorf("the link to hers leads to %q", href)
	}
	if marked := browser.Eval[string](f.page,
		`[...document.querySelectorAll(".row.mine")].map(r => r.id).join()`); marked != row {
		t.Errorf("marked as hers is %q, want %s", marked, row)
	}
	const ringed = `[...document.querySelectorAll(".row .chip .sign")].filter(g => getComputedStyle(g).outlineStyle !== "none").length`
	if rings := browser.Eval[int](f.page, ringed); rings != 1 {
		t.Errorf("%d rings round signs", rings)
	}

	f.click("#" + row + " .panel > summary")
	f.click("#" + row + " .standing [value=extend]")
	f.says(row, "booked by you until ")
	f.took(2, "extending")
	end(until.AddDate(0, 0, 1))
	f.click("#" + row + " .done button")
	f.until("the end that it had",
		fmt.Sprintf(`!document.querySelector("#%s .done").textContent.includes(%q)`, row,
			until.AddDate(0, 0, 1).Format("Mon")))
	f.took(1, "undoing it")
	end(until)

	f.page.Open(f.url + "/")
	f.click("#" + row + " .release")
	f.says(row, "released")
	if all := f.standing(); len(all) != 0 {
		t.Errorf("released, and there is %+v", all)
	}
	f.generate() // and the page still offers to undo it
	f.until("the news", fmt.Sprintf(`!!document.querySelector("#%s.free .gpu-booking:not(.ahead) .done")`, row))
	f.click("#" + row + " .done button")
	f.says(row, "booked by you until ")
	f.took(2, "releasing, and undoing it")
	end(until)
	if at := f.page.Value(`location.pathname`); at != "/" {
		t.Errorf("it ends on %s", at)
	}
}

// TestBookedOnASlowClock: what has just been booked is not free on the page, also where the viewer's clock is behind the
// server's.
func TestBookedOnASlowClock(t *testing.T) {
	l := newLab(t)
	host := l.hosts[0].Name
	l.page.Before(`{ const now = Date.now; Date.now = () => now() - 10 * 60000; }`)
	l.page.Open(l.url + "/")
	gpu := browser.Eval[string](l.page, fmt.Sprintf(`document.querySelector("[id^='%s-'].free").id`, host))
	isBooked := fmt.Sprintf(`document.querySelector("#%s .chip").matches(".booked")`, gpu)
	l.page.Open(l.url + "/?saved=1&booked=" + strings.Replace(gpu, host+"-", host+":", 1))
	l.until("what the address says", isBooked)
	l.generate()
	l.page.Value(`document.dispatchEvent(new Event("visibilitychange"))`) // as if the viewer came back
	l.until("a generation without it", fmt.Sprintf(`!(%s)`, isBooked))
}

// TestFlowsOfBooking: a free GPU with two clicks, the one that is free next with three, each from when and until when nobody
// has booked it.
func TestFlowsOfBooking(t *testing.T) {
	f := newFlow(t)
	rows, places := f.free()
	if len(rows) < 3 {
		t.Fatalf("only %q are free", rows)
	}
	held, ends := entryOf("sam", 200)
	from, begins := entryOf("sam", 100)
	later := strings.Replace(from, `"date"`, `"from"`, 1) +
		fmt.Sprintf(`, "date": %q`, begins.AddDate(0, 0, 1).Format("2006-01-02 15:04"))
	byHost := map[string]string{places[0]: held, places[len(places)-1]: later}
	f.write("data/comments.json", entries(byHost))
	f.generate()
	f.page.Open(f.url + "/")
	newest := func() booking.Booking {
		t.Helper()
		for _, b := range f.standing() {
			if b.Name == "eva" {
				return b
			}
		}
		t.Fatalf("she has booked nothing: %+v", f.standing())
		return booking.Booking{}
	}

	last := rows[len(rows)-1] // booked by sam in a while
	f.click("#" + last + " .panel > summary")
	f.until("the button first",
		fmt.Sprintf(
			`document.querySelector("#%s .panel > p").className === "go" && !document.querySelector("#%s .by-command").open`,
			last, last))
	f.until("its end",
		fmt.Sprintf(
			`document.querySelector("#%s [name=until]").value === new Date(%d).toLocaleDateString("en", {weekday: "short"}) + " " + new Date(%d).toTimeString().slice(0, 5)`, last, begins.UnixMilli(), begins.UnixMilli()))
	f.click("#" + last + " .go button")
	f.says(last, "booked by you until ")
	f.took(2, "booking a free one")
	if b := newest(); !b.Until.Equal(begins) || b.Place() != places[len(places)-1] {
		t.Errorf("booked %+v, want until %v", b, begins)
	}
	if state := f.page.Text("#" + last + " .chip"); strings.TrimSpace(state) != "booked" {
		t.Errorf("the row says it is %q", state)
	}
	f.click("#" + last + " .done button")
	f.says(last, "released")
	f.took(1, "undoing it")
	if all := f.standing(); len(all) != 2 {
		t.Errorf("undone, and there is %+v", all)
	}
	if state := f.page.Text("#" + last + ".free .chip.free"); strings.TrimSpace(state) != "free" {
		t.Errorf("undone, and the row says it is %q", f.page.Text("#"+last+" .chip"))
	}

	f.page.Open(f.url + "/")
	f.click(fmt.Sprintf(`.supply a[href="#%s"]`, rows[0]))
	f.click("#" + rows[0] + " .panel > summary")
	f.click("#" + rows[0] + " .go button")
	f.says(rows[0], "booked by you until ")
	f.took(3, "booking the next free one")
	if b := newest(); !b.From.Equal(ends) || b.Until.Sub(b.From).Round(time.Hour) != 48*time.Hour {
		t.Errorf("booked from %v until %v, want two days from %v", b.From, b.Until, ends)
	}
}

// TestFlowOfTheLoser: who was second is offered what there is instead, with one button, and stays on the page.
func TestFlowOfTheLoser(t *testing.T) {
	f := newFlow(t)
	rows, places := f.free()
	entry, _ := entryOf("mira", 600)
	f.click("#" + rows[0] + " .panel > summary")
	f.until("the button", fmt.Sprintf(`!!document.querySelector("#%s .go button")`, rows[0]))
	f.write("data/comments.json", entries(map[string]string{places[0]: entry}))
	f.click("#" + rows[0] + " .go button")
	f.until("why not", fmt.Sprintf(`document.querySelector("#%s .refusal")?.textContent.includes("mira")`, rows[0]))
	if due := f.page.Text("#" + rows[0] + " .due"); due != "" {
		t.Errorf("beside why not, it says %q", due)
	}
	f.click("#" + rows[0] + " .refusal .offer button")
	f.says(rows[0], "booked by you until ")
	f.took(3, "booking what there is instead")
	all := f.standing()
	if len(all) != 2 {
		t.Fatalf("bookings %+v", all)
	}
	for _, b := range all {
		if b.Name == "eva" && b.Place() == places[0] && !b.From.After(time.Now().Add(time.Minute)) {
			t.Errorf("she has booked what mira has: %+v", b)
		}
	}
}

// TestFlowsOfTheFinder: one field finds a GPU that is free for long enough; four alike for the weekend are booked with six
// clicks and fields.
func TestFlowsOfTheFinder(t *testing.T) {
	f := newFlow(t)
	f.fill("#_query", "free 6h")
	f.until("what is found", `/^[1-9]/.test(document.getElementById("_found").textContent)`)
	f.took(1, "finding one that is free for six hours")

	f.page.Open(f.url + "/")
	f.click(".finder a.go")
	f.until("the form",
		`document.getElementById("_count")?.value === "1" && document.getElementById("_until").value === "2d"`)
	f.fill("#_count", "4")
	f.fill("#_from", "sat")
	f.fill("#_until", "sun")
	f.click("#_form p > button")
	f.click(".offer form button")
	f.until("what was saved", `!!document.getElementById("_saved")`)
	f.took(6, "booking four for the weekend")
	all := f.standing()
	if len(all) != 4 {
		t.Fatalf("bookings %+v", all)
	}
	for _, b := range all {
		if b.From.Weekday() != time.Saturday || b.Until.Weekday() != time.Monday && b.Until.Weekday() != time.Sunday {
			t.Errorf("booked from %v until %v", b.From, b.Until)
		}
	}
	f.click("#_saved form button")
	f.until("the word that it is undone", `document.getElementById("_saved")?.textContent.includes("Released.")`)
	f.took(1, "undoing it")
	if all := f.standing(); len(all) != 0 {
		t.Errorf("undone, and there is %+v", all)
	}
}
