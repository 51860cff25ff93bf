package serve_test

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"gpuboard/internal/booking"
	"gpuboard/internal/serve"
	"gpuboard/internal/testenv/browser"
)

// released releases a booking, and returns what the page that follows says of it.
func (c *counter) released(id string) string {
	c.t.Helper()
	w := c.post("eva", "/book/", "action", "release", "id", id)
	if w.Code != 303 {
		c.t.Fatalf("releasing %s: %d\n%s", id, w.Code, w.Body)
	}
	shown := c.open("eva", "/book/"+w.Header().Get("Location"))
	m := regexp.MustCompile(`(?s)<div class="banner saved".*?</div>`).FindString(shown.Body.String())
	if shown.Code != 200 || !strings.Contains(m, "Released.") {
		c.t.Fatalf("after releasing %s: %d\n%s", id, shown.Code, shown.Body)
	}
	return m
}

// undo sends the form in a part of a page.
func (c *counter) undo(part string) int {
	c.t.Helper()
	action := regexp.MustCompile(`<form method="post" action="([^"]*)"`).FindStringSubmatch(part)
	if action == nil {
		c.t.Fatalf("there is nothing to undo it with:\n%s", part)
	}
	var fields []string
	for _, m := range regexp.MustCompile(
		`<input type="hidden" name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(part, -1) {
		fields = append(fields, m[1], html.UnescapeString(m[2]))
	}
	return c.post("eva", "/book/"+html.UnescapeString(action[1]), fields...).Code
}

var text = regexp.MustCompile(`(?s)<[^>]*>|\s+`)

// TestReleasedIsNamedAndUndone: after a release the page says which GPU it was, whose and until when, and offers to
// book the same again. What does not fit into the address is not named.
func TestReleasedIsNamedAndUndone(t *testing.T) {
	long := strings.Repeat("ü", 500)
	for name, tt := range map[string]struct {
		entry     string // of atlas 0
		says      string
		undone    string // the booking that undoing it makes; "" for no offer
		forOthers bool
	}{
		"begun": {`"name": "eva", "from": "2026-11-20 08:00", "date": "2026-11-22 18:00:30", "comment": "<b>a & b</b>"`,
			"atlas 0 eva", "eva 10:00:00 22 18:00:30 <b>a & b</b> by ", false},
		"not begun": {`"name": "eva", "from": "2026-11-21 08:00", "date": "2026-11-22 18:00"`,
			"atlas 0 eva Sat 08:00 – Sun 18:00", "eva 08:00:00 22 18:00:00  by ", false},
		"no end": {`"name": "eva"`, "– open-ended", "eva 10:00:00 1 00:00:00  by ", false},
		"for others": {`"name": "kai", "by": "eva", "date": "2026-11-22 18:00"`, "atlas 0 kai",
			"kai 10:00:00 22 18:00:00  by eva", true},
		"not allowed": {`"name": "kai", "by": "eva", "date": "2026-11-22 18:00"`, "atlas 0 kai", "", false},
		"maintenance": {`"name": "eva", "kind": "maintenance", "date": "2026-11-22 18:00"`, "atlas 0 eva maintenance",
			"", false},
		"too long": {`"name": "eva", "date": "2026-11-22 18:00", "comment": "` + long + `"`, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCounter(t, func(o *serve.Options, _ *serve.AuthOptions) { o.Booking.ForOthers = tt.forOthers })
			c.write(c.comments, `{"atlas": {"0": {"id": "a", `+tt.entry+`}}}`)
			part := c.released("a")
			said := html.UnescapeString(strings.Join(strings.Fields(text.ReplaceAllString(part, " ")), " "))
			if !strings.Contains(said, tt.says) {
				t.Errorf("it says %q, and lacks %q", said, tt.says)
			}
			if strings.Contains(part, "Undo") != (tt.undone != "") {
				t.Fatalf("undo: %s", part)
			}
			if tt.undone == "" {
				return
			}
			if code := c.undo(part); code != 303 {
				t.Fatalf("undoing it: %d", code)
			}
			all := c.bookings()
			b := all[len(all)-1]
			got := b.Name + b.From.Format(" 15:04:05 ") + b.Until.Format("2 15:04:05 ") + b.Comment + " by " + b.By
			if got != tt.undone || b.Place() != "atlas:0" || b.OverAt(c.now()) {
				t.Errorf("undone it is %s %q, want %q", b.Place(), got, tt.undone)
			}
		})
	}
}

// TestReleasedTogether: bookings that are alike are named and booked again together. Those that differ are not named.
func TestReleasedTogether(t *testing.T) {
	c := newFleet(t)
	if w := c.post("eva", "/book/?at=atlas:0&at=ceres:0", "action", "book", "until", "2d", "comment",
		"both"); w.Code != 303 {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	release := func() string {
		r := c.form("eva", "/book/", "action", "release")
		body := "action=release"
		for _, b := range c.bookings() {
			if !b.OverAt(c.now()) {
				body += "&id=" + b.ID
			}
		}
		return c.do(withBody(r, body)).Header().Get("Location")
	}
	c.later(time.Hour)
	page := c.open("eva", "/book/"+release()).Body.String()
	part := regexp.MustCompile(`(?s)<div class="banner saved".*?</div>`).FindString(page)
	if strings.Count(part, "<li>") != 2 || c.undo(part) != 303 {
		t.Fatalf("of two it says\n%s", part)
	}
	standing := 0
	for _, b := range c.bookings() {
		if !b.OverAt(c.now()) && b.Comment == "both" {
			standing++
		}
	}
	if standing != 2 {
		t.Errorf("undone, and there is\n%s", c.file())
	}
	if w := c.post("eva", "/book/?at=atlas:1", "action", "book", "until", "3d"); w.Code != 303 {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	if to := release(); to != "?released=1" {
		t.Errorf("of several that differ it leads to %q", to)
	}
	// A host that is gone by now keeps nobody from reading what was released on it.
	c.write(c.comments, `{"phoebe": {"0": {"id": "p", "name": "eva", "date": "2026-11-22 18:00"}}}`)
	if part := c.released("p"); !strings.Contains(part, "phoebe 0") {
		t.Errorf("of a host that is gone it says\n%s", part)
	}
}

// TestBrowserUndoesARelease without a script, by keyboard. Her row says beforehand that it is hers.
func TestBrowserUndoesARelease(t *testing.T) {
	l := newLab(t)
	l.page.Open(l.url + "/")
	row := browser.Eval[string](l.page, `document.querySelector(".row.free").id`)
	host, gpu := row[:strings.LastIndex(row, "-")], row[strings.LastIndex(row, "-")+1:]
	until := time.Now().UTC().Add(5 * time.Hour).Truncate(time.Minute)
	l.write("data/comments.json",
		fmt.Sprintf(`{%q: {%q: {"name": "eva", "date": %q, "comment": "night run"}}}`, host, gpu,
			until.Format("2006-01-02 15:04")))
	l.generate()
	l.page.Open(strings.Replace(l.url, "http://", "http://eva:secret@", 1) + "/book/") // her browser keeps the password
	standing := func() (all []booking.Booking) {
		for _, b := range l.bookings() {
			if !b.OverAt(time.Now()) {
				all = append(all, b)
			}
		}
		return all
	}
	undo := func() {
		t.Helper()
		said := l.page.Text("#_saved")
		for _, want := range []string{"Released.", host + " " + gpu, "eva", until.Format("15:04"), "night run"} {
			if !strings.Contains(said, want) {
				t.Errorf("it says %q, and lacks %q", said, want)
			}
		}
		if all := standing(); len(all) != 0 {
			t.Fatalf("released, and there is %+v", all)
		}
		l.tabTo("#_saved button")
		l.keys(kb.Enter)
		l.until("the word that it is booked again", `document.getElementById("_saved")?.textContent.includes("Saved.")`)
		if all := standing(); len(all) != 1 || all[0].Name != "eva" || !all[0].Until.Equal(until) ||
			all[0].Comment != "night run" {
			t.Fatalf("booked again, and there is %+v", all)
		}
	}

	// Her row says that she can extend it before anything was opened, though she never typed her
	// name: the form knows it.
	l.page.Open(l.url + "/")
	panel := "#" + row + " .panel"
	l.until("the word in her row", fmt.Sprintf(`document.querySelector("%s summary").textContent === "extend"`, panel))
	if others := browser.Eval[int](l.page,
		`[...document.querySelectorAll(".panel summary")].filter(s => s.textContent === "extend").length`); others != 1 {
		t.Errorf("%d rows offer her to extend", others)
	}
	l.page.Scripts(false)
	defer l.page.Scripts(true)
	l.page.Open(l.url + "/book/")
	l.tabTo(".standing [value=release]")
	l.keys(kb.Enter)
	l.until("the word that it is released", `document.getElementById("_saved")?.textContent.includes("Released.")`)
	undo()
}
