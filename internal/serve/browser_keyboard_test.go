package serve_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gpuboard/internal/testenv/browser"
)

// keys presses keys, one after the other.
func (l *lab) keys(keys string) {
	l.t.Helper()
	l.do(chromedp.KeyEvent(keys))
}

// enter presses Enter, and waits for another page of which the expression is true.
func (l *lab) enter(what, expression string) {
	l.t.Helper()
	browser.Eval[bool](l.page, `(window.samePage = true)`)
	l.keys(kb.Enter)
	l.until(what, `!window.samePage && document.readyState === "complete" && `+expression)
}

// tabTo presses Tab until an element that matches has the focus.
func (l *lab) tabTo(selector string) {
	l.t.Helper()
	for range 200 {
		l.keys(kb.Tab)
		if browser.Eval[bool](l.page, fmt.Sprintf(`document.activeElement.matches(%q)`, selector)) {
			return
		}
	}
	l.t.Fatalf("200 times Tab do not reach %s", selector)
}

// search types into the search field. The key "/" moves the focus there; the test's browser
// then also types the slash, which is removed first.
func (l *lab) search(text string) {
	l.t.Helper()
	l.keys("/")
	l.until("the search field", `document.activeElement.type === "search"`)
	l.keys(kb.Backspace + text)
}

// TestKeyboardBooks finds a free GPU, books it, extends the booking and releases it,
// without a mouse.
func TestKeyboardBooks(t *testing.T) {
	l := newLab(t)
	open := func(path string) { l.page.Open(strings.Replace(l.url, "http://", "http://eva:secret@", 1) + path) }
	open("/book/") // from now on the browser knows the password

	open("/")
	l.search("free")
	l.until("the search", `location.search === "?q=free" && !!document.querySelector(".host.first")`)
	l.keys(kb.Enter)
	l.until("the host of the first match", `!!document.activeElement.closest(".host.first h3")`)
	l.tabTo(".host.first .row.free .panel summary")
	place := browser.Eval[string](l.page, `document.activeElement.closest(".row").id`)
	l.keys(kb.Enter)
	l.until("the fields of the panel", `!!document.querySelector(".panel[open] .wish")`)
	l.until("the offer of the form", `document.querySelector(".panel[open] .go")?.textContent === "book it here"`)
	l.tabTo(".wish input[name=until]")
	l.keys("3h")
	l.tabTo(".wish input[name=comment]")
	l.keys("no mouse")
	l.tabTo(".panel[open] > p > a")
	l.enter("the form",
		`!!document.getElementById("_form") && document.getElementById("_comment").value === "no mouse"`)
	l.tabTo("#_until")
	if typed := browser.Eval[string](l.page, `document.getElementById("_until").value`); typed != "3h" {
		t.Errorf("the form begins with %q", typed)
	}
	l.enter("the word that it is saved", `!!document.getElementById("_saved")`)
	all := l.bookings()
	if len(all) != 1 || all[0].Name != "eva" || all[0].Comment != "no mouse" ||
		!strings.HasPrefix(place, all[0].Host+"-") || time.Until(all[0].Until).Round(time.Hour) != 3*time.Hour {
		t.Fatalf("%s is booked as %+v", place, all)
	}

	l.tabTo(".standing input[name=end]")
	l.keys("1d")
	l.tabTo(".standing button[value=extend]")
	l.enter("the word that it is extended", `!!document.getElementById("_saved")`)
	if all = l.bookings(); len(all) != 1 || time.Until(all[0].Until).Round(time.Hour) != 27*time.Hour {
		t.Fatalf("after it was extended: %+v", all)
	}

	// From the board, where the row is hers.
	l.generate()
	open("/")
	l.until("the panel's script", `!!document.querySelector("#`+place+` .panel")`)
	l.search("eva")
	l.until("the search", `location.search === "?q=eva" && !!document.querySelector(".host.first")`)
	l.keys(kb.Enter)
	l.tabTo("#" + place + " .panel summary")
	l.keys(kb.Enter)
	l.until("what is hers", `!!document.querySelector(".panel[open] .standing form")`)
	l.tabTo(".panel[open] > p > a")
	l.enter("the form", `!!document.querySelector(".standing button[value=release]")`)
	l.tabTo(".standing button[value=release]")
	l.enter("the word that it is released", `!document.querySelector(".standing button[value=release]")`)
	if all = l.bookings(); len(all) != 1 || all[0].Until.After(time.Now()) {
		t.Errorf("after it was released: %+v", all)
	}
}
