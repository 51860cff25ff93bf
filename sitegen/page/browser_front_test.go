package page_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gpuboard/internal/board"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/internal/testenv/browser"
	"gpuboard/sitegen/render"
)

// inView counts the elements that are wholly in the window, which is at its top.
func inView(selector string) string {
	return `[...document.querySelectorAll("` + selector +
		`")].filter(e => { const r = e.getBoundingClientRect(); return r.height > 0 && r.top >= 0 && r.bottom <= innerHeight && r.right <= innerWidth; }).length`
}

// TestBrowserShowsTheFleetInOneWindow: without scrolling, all of 40 hosts are in view
// at 1920 by 1080, the filters stand near the top, and no page is wider than its window.
func TestBrowserShowsTheFleetInOneWindow(t *testing.T) {
	b := openBrowser(t, boardtest.Now)
	for _, hosts := range []int{4, 40, 100} {
		page := "file://" + siteDir(t, boardtest.Big(hosts)) + "/index.html"
		for _, size := range [][2]int64{{1440, 900}, {1920, 1080}, {2560, 1440}, {390, 844}} {
			b.Do(chromedp.EmulateViewport(size[0], size[1]), chromedp.Navigate(page))
			expect(t, b, `document.documentElement.scrollWidth`, fmt.Sprint(size[0]))
			top, err := strconv.ParseFloat(b.Value(`document.querySelector(".finder").getBoundingClientRect().top`), 64)
			if most := map[bool]float64{false: 190, true: 360}[size[0] < 640]; err != nil || top > most {
				t.Errorf("%d hosts at %d px: the filters are at %v, %v", hosts, size[0], top, err)
			}
		}
		if hosts == 40 {
			b.Do(chromedp.EmulateViewport(1920, 1080))
			expect(t, b, inView(".host .host-line"), "40")
			expect(t, b, inView(".host .signs use"), "320")
		}
	}
	b.Quiet("file://")
}

// TestBrowserRowsAreDense: 45 GPUs and more are in view with state, memory, load, user
// and booking; a button gives rows more room, which is remembered.
func TestBrowserRowsAreDense(t *testing.T) {
	site := serve(t, siteDir(t, boardtest.Big(rowHosts)), boardtest.Now)
	b := openBrowser(t, boardtest.Now)
	b.Do(chromedp.EmulateViewport(1920, 1080), chromedp.Navigate(site+"index.html"))
	count := func() int {
		n, err := strconv.Atoi(b.Value(inView("tr.row:has(.gpu-state .chip):has(.gpu-memory .value):has(.gpu-load .value)")))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(); n < 45 {
		t.Errorf("%d rows are in view", n)
	}
	expect(t, b, inView("tr.row .gpu-user .name")+` > 20`, "true")
	expect(t, b, inView("tr.row .gpu-booking .name")+` > 10`, "true")
	const tall = `[...document.querySelectorAll("tr.row")].filter(r => r.getBoundingClientRect().height > 31).length`
	b.Do(chromedp.EmulateViewport(1240, 900))
	expect(t, b, tall, "0")
	dense := count()
	b.Value(`document.querySelector('#_tools [aria-label="More room for each row"]').click()`)
	if n := count(); n >= dense {
		t.Errorf("%d rows are in view with more room, %d without", n, dense)
	}
	b.Do(chromedp.Navigate(site + "index.html"))
	expect(t, b, tall+` > 20`, "true")
	b.Value(`document.querySelector('#_tools [aria-label="More rows on the screen"]').click()`)
	expect(t, b, tall, "0")
	b.Quiet(site)
}

// TestBrowserOrdersHostsAndRows: both orders are in the address.
func TestBrowserOrdersHostsAndRows(t *testing.T) {
	in := boardtest.Lab()
	site := serve(t, siteDir(t, in), boardtest.Now)
	b := openBrowser(t, boardtest.Now)
	const (
		first = `document.querySelector(".map .host").id`
		frees = `[...document.querySelectorAll(".map")].every(m => { const n = [...m.querySelectorAll(".host-line .free-count")].map(e => parseInt(e.textContent) || 0); return n.every((x, i) => !i || x <= n[i - 1]); })`
		rows  = `[...document.querySelectorAll("#ceres .row")].map(r => r.id).join(" ")`
		loads = `[...document.querySelectorAll("#atlas .row .gpu-load .value")].map(e => parseInt(e.textContent)).every((x, i, all) => !i || x <= all[i - 1])`
	)
	b.Do(chromedp.Navigate(site + "index.html"))
	listedRows := b.Value(rows)
	b.Value(`document.querySelector("#atlas th.gpu-load button").click()`)
	expect(t, b, loads, "true")
	expect(t, b, `document.querySelector("#ceres th.gpu-load").getAttribute("aria-sort")`, "descending")
	expect(t, b, `location.search`, "?rows=-gpu-load")
	b.Do(chromedp.Navigate(site + "index.html?rows=-gpu-load"))
	expect(t, b, loads, "true")
	// Slices stay below their GPU.
	expect(t, b,
		`[...document.querySelectorAll("#ceres .slice")].every(r => r.previousElementSibling.id === r.dataset.of || r.previousElementSibling.dataset.of === r.dataset.of)`, "true")
	b.Value(
		`document.querySelector("#atlas th.gpu-index button").click(), document.querySelector("#atlas th.gpu-index button").click()`)
	expect(t, b, rows, listedRows)
	b.Quiet(site)

	many := serve(t, siteDir(t, boardtest.Big(rowHosts+8)), boardtest.Now)
	b.Do(chromedp.Navigate(many + "index.html"))
	listed := b.Value(first)
	b.Value(`(s => { s.value = "free"; s.dispatchEvent(new Event("change")); })(document.getElementById("_order"))`)
	expect(t, b, frees, "true")
	expect(t, b, `location.search`, "?order=free")
	b.Value(`(s => { s.value = "listed"; s.dispatchEvent(new Event("change")); })(document.getElementById("_order"))`)
	expect(t, b, first, listed)
	expect(t, b, `location.search`, "")
}

// TestBrowserFoldsGroups: a folded group stays folded, and a search opens it for as
// long as something in it matches. Without the script it can be folded, too.
func TestBrowserFoldsGroups(t *testing.T) {
	dir := siteDir(t, boardtest.Big(40))
	site := serve(t, dir, boardtest.Now)
	b := openBrowser(t, boardtest.Now)
	b.Do(chromedp.Navigate(site + "index.html"))
	const open = `[...document.querySelectorAll("details.group")].map(g => g.open).join()`
	expect(t, b, open, "true,true")
	b.Do(chromedp.Click("#_group0 summary"))
	expect(t, b, open, "false,true")
	b.Do(chromedp.Navigate(site + "index.html"))
	expect(t, b, open, "false,true")
	search := func(words string) {
		b.Value(
			fmt.Sprintf(`(s => { s.value = %q; s.dispatchEvent(new Event("input")); })(document.getElementById("_query"))`,
				words))
	}
	search("gpu003")
	expect(t, b, open, "true,true") // to fold a group that is hidden and to unfold it again takes a layout of its hosts
	expect(t, b, `document.querySelector("#_group1").hidden`, "true")
	search("")
	expect(t, b, open, "false,true")
	b.Quiet(site)
	b.Scripts(false)
	b.Do(chromedp.Navigate("file://"+dir+"/index.html"), chromedp.Click("#_group1 summary"))
	b.Scripts(true)
	expect(t, b, open, "true,false")
}

// TestBrowserFetchesRowsWithNews: rows that were fetched are fetched again only when
// there is news of their host, and those that somebody opened are open at the next visit.
func TestBrowserFetchesRowsWithNews(t *testing.T) {
	in := boardtest.Big(rowHosts + 8)
	dir := siteDir(t, in)
	site := serve(t, dir, boardtest.Now)
	b := openBrowser(t, boardtest.Now)
	const rows = `document.querySelectorAll("#gpu005 .row").length`
	b.Do(chromedp.Navigate(site + "index.html"))
	b.Value(`document.querySelector("#gpu005 .users").click()`)
	waitFor(t, b, rows, "8")
	b.Do(chromedp.Navigate(site + "index.html"))
	waitFor(t, b, rows, "8")
	b.Value(
		`(window.asked = 0, window.plain = fetch, window.fetch = function (address) { asked += String(address).includes("gpu005"); return plain.apply(this, arguments); })`,
	)
	for i, want := range []string{"0", "1"} {
		next := boardtest.Big(rowHosts + 8)
		next.Board.GeneratedAt = boardtest.Now.Add(time.Duration(i+1) * time.Minute)
		if i == 1 {
			next.Board.Hosts[5].SnapshotAt = next.Board.GeneratedAt
		}
		rewriteIndex(t, dir, next)
		renewed(t, b)
		expect(t, b, "asked", want)
		waitFor(t, b, rows, "8")
	}
	b.Quiet(site)
}

// TestBrowserZoomsCharts: dragging over a chart shows that time alone in all charts
// beside it, with its times below, and a button shows all again.
func TestBrowserZoomsCharts(t *testing.T) {
	dir := siteDir(t, boardtest.Remembered(boardtest.Lab()))
	b := openBrowser(t, boardtest.Now)
	b.Do(chromedp.Navigate("file://" + dir + "/hosts/atlas/history/index.html#_span0"))
	b.Value(`(() => {
		const s = document.querySelector("svg.chart.wide"), box = s.getBoundingClientRect();
		const send = (type, part) => s.dispatchEvent(new PointerEvent(type, { bubbles: true, clientX: box.left + box.width * part, clientY: box.top + 5 }));
		send("pointerdown", 0.2501), send("pointermove", 0.5001), send("pointerup", 0.5001);
	})()`)
	const shown = `[...new Set([...document.querySelectorAll(".pane:first-child svg.chart")].map(s => s.getAttribute("viewBox")))].join()`
	expect(t, b, shown, "24 0 25 102")
	expect(t, b, `document.querySelector(".pane:first-child .ticks").children.length`, "3")
	expect(t, b, `document.querySelectorAll(".part").length`, "0")
	expect(t, b, hover+`(0.001).split(" · ")[0] === document.querySelector(".ticks text").textContent`, "true")
	b.Value(`document.querySelector(".whole").click()`)
	expect(t, b, shown, fmt.Sprintf("0 0 %d 102", render.PastSteps()[0]))
	expect(t, b,
		`document.querySelectorAll(".whole").length + " " + (document.querySelector(".pane:first-child .ticks").children.length > 3)`, "0 true")
	// One switch changes every part of the page.
	b.Do(chromedp.Navigate("file://"+dir+"/history/index.html"), chromedp.Click("label[for=_span3]"))
	expect(t, b, shownPanes, "37111519")
	b.Quiet("file://")
}

// TestBrowserReadsOnlyLinesThatDiffer: a renewal leaves out the lines that are on the page as they were sent, and no others:
// not the one that somebody held the last time. In the end all of them are those of the newest page.
func TestBrowserReadsOnlyLinesThatDiffer(t *testing.T) {
	fleet := func() render.Input { return boardtest.Big(40) }
	busy := func(host int) render.Input {
		in := occupied(fleet(), host, 2, 1)
		in.Board.Hosts[host].SnapshotAt = boardtest.Now
		return in
	}
	dir := siteDir(t, fleet())
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Before(`{
		const parse = DOMParser.prototype.parseFromString;
		DOMParser.prototype.parseFromString = function (html, type) {
			window.lines = [...html.matchAll(/<li id="([^"]*)" class="host(?! known)/g)].map(line => line[1]).join();
			return parse.call(this, html, type);
		};
	}`)
	b.Open(serve(t, dir, boardtest.Now.Add(14*time.Second)) + "index.html")
	const hold = `getSelection().selectAllChildren(document.querySelector("#gpu003 h3"))`
	for i, step := range []struct {
		in         render.Input
		what, read string
	}{
		{busy(0), "", ""},
		{busy(0), "", ""},
		{busy(3), hold, "gpu000,gpu003"},
		{busy(3), `getSelection().removeAllRanges()`, "gpu003"},
		{fleet(), "", "gpu003"},
	} {
		step.in.Board.GeneratedAt = boardtest.Now.Add(time.Duration(8+i) * time.Second)
		b.Value(`(` + cmp.Or(step.what, "0") + `, 0)`)
		republish(t, dir, step.in, i+1)
		renewed(t, b)
		if got := b.Value(`lines`); i > 0 && got != step.read {
			t.Errorf("renewal %d reads the lines of %q, want %q", i, got, step.read)
		}
	}
	expectNewest(t, b)
}

// expectNewest compares the lines of the page, and their order and groups, with those of the newest page.
func expectNewest(t *testing.T, b *browser.Browser) {
	t.Helper()
	b.Value(`(window.newest = null, fetch("index.html").then(r => r.text()).then(html => {
		newest = linesOf(new DOMParser().parseFromString(html, "text/html"));
	}), window.linesOf = page => [...page.querySelectorAll(".group")].flatMap(group => {
		const copy = group.cloneNode(true);
		copy.querySelectorAll(".fold, .rows, .age").forEach(e => e.remove()); // scripts make them, or change their text
		copy.querySelectorAll("[style]").forEach(e => e.removeAttribute("style"));
		return [...copy.querySelectorAll("h2, .host")].map(e => e.outerHTML);
	}))`)
	b.Until("the newest page", `newest !== null`)
	expect(t, b, `linesOf(document).filter((line, i) => line !== newest[i]).join("\n")`, "")
	expect(t, b, `linesOf(document).length - newest.length`, "0")
}

// TestBrowserRenewsMovedHosts: a host is where it stands in the newest page, also if its line has the same text in another
// group, in a group of which there was none, or in the other column of a small lab; and hosts that come are sorted in.
func TestBrowserRenewsMovedHosts(t *testing.T) {
	in := func(hosts int, change func(hosts []board.Host)) func() render.Input {
		return func() render.Input {
			in := boardtest.Big(hosts)
			change(in.Board.Hosts)
			return in
		}
	}
	same := func([]board.Host) {}
	silent := func(first int) func(hosts []board.Host) {
		return func(hosts []board.Host) {
			for i := first; i < len(hosts); i++ {
				hosts[i] = board.Host{Name: hosts[i].Name, Title: hosts[i].Title, State: board.Never}
			}
		}
	}
	for name, steps := range map[string][]func() render.Input{
		"into a later group": {in(40, same), in(40, func(h []board.Host) { h[3].Group = "Rack 2" }), in(40, same)},
		"into a new group":   {in(40, func(h []board.Host) { h[3].Group = "Attic" }), in(40, same)},
		"other groups":       {in(40, func(h []board.Host) { h[3].Group = "Zoo" }), in(40, func(h []board.Host) { h[39].Group = "" })},
		"no groups": {in(40, func(hosts []board.Host) {
			for i := range hosts {
				hosts[i].Group = ""
			}
		}), in(40, same)},
		"hosts that come": {in(38, same), in(40, same), in(39, same)},
		"a small lab":     {in(6, silent(3)), in(6, silent(2)), in(6, silent(1)), in(6, silent(4))},
	} {
		for _, query := range []string{"", "?order=load"} {
			t.Run(name+query, func(t *testing.T) {
				dir := siteDir(t, steps[0]())
				b := openBrowser(t, boardtest.Now.Add(14*time.Second))
				site := serve(t, dir, boardtest.Now.Add(14*time.Second))
				b.Open(site + "index.html" + query)
				for i, step := range slices.Concat(steps[:1], steps, steps[:1]) {
					next := step()
					boardtest.Finish(next.Board)
					next.Board.GeneratedAt = boardtest.Now.Add(time.Duration(6+i) * time.Second)
					republish(t, dir, next, i+1)
					renewed(t, b)
					if query == "" {
						expectNewest(t, b)
					}
				}
				expect(t, b, `document.querySelectorAll(".host .fold").length - document.querySelectorAll(".host").length`, "0")
				b.Quiet(site)
			})
		}
	}
}
