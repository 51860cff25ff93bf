package page_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gpuboard/internal/board"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
)

// searched are two small hosts that a search tells apart by everything that it knows.
func searched() render.Input {
	in := boardtest.Big(2)
	for i := range in.Board.Hosts {
		h := &in.Board.Hosts[i]
		h.Name, h.Title, h.Group, h.Tags = []string{"europa", "juno"}[i], "", []string{"Vision", "Speech"}[i],
			[]string{[]string{"nvlink", "loud"}[i]}
		h.Owner, h.Note = []string{"", "linguists"}[i], []string{"no overnight jobs", ""}[i]
		for j := range h.GPUs {
			g := &h.GPUs[j]
			g.State, g.Processes, g.Booking, g.FreeUntil = board.Free, nil, nil, time.Time{}
			if i == 1 && j < 3 {
				g.FreeUntil = boardtest.Now.Add(time.Duration(j+2) * time.Hour) // 2, 3 and 4 hours
			}
			if j > 3 {
				g.State = board.Busy
				boardtest.Process(g, 1000+j, []string{"mira", "tomas"}[i], []string{"train.py", "sweep.py"}[i], 9000,
					boardtest.Now)
			}
		}
	}
	in.Board.Hosts[0].GPUs[5].Booking = boardtest.Booked("europa", []int{5}, "mira", boardtest.Now,
		boardtest.At(1, 0, 0), "camera ready")
	in.Board.Hosts[1].GPUs[6].IdleSince = boardtest.Now.Add(-19 * time.Hour)
	in.Board.Hosts[1].GPUs[0].MemoryTotal = new(int64(24 << 10))
	boardtest.Finish(in.Board)
	return in
}

// TestBrowserSearch: words are joined by "and", and each is a state, a model, a
// memory, a length of time, the number of a GPU, or part of what the page says.
func TestBrowserSearch(t *testing.T) {
	in := searched()
	dir := siteDir(t, in)
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	const rows = `[...document.querySelectorAll(".row")].filter(r => r.offsetParent !== null).map(r => r.id).join(" ")`
	of := func(host string, gpus ...int) string {
		ids := make([]string, len(gpus))
		for i, gpu := range gpus {
			ids[i] = fmt.Sprintf("%s-%d", host, gpu)
		}
		return strings.Join(ids, " ")
	}
	europa, juno := of("europa", 0, 1, 2, 3, 4, 5, 6, 7), of("juno", 0, 1, 2, 3, 4, 5, 6, 7)
	for query, want := range map[string]string{
		"":               europa + " " + juno,
		"europa 3":       of("europa", 3),
		"h100 free":      of("europa", 0, 1, 2, 3),
		"H100 BUSY":      of("europa", 4, 5, 6, 7),
		">60G":           europa,
		"80g":            europa,
		">40G juno":      of("juno", 1, 2, 3, 4, 5, 6, 7),
		"free 4h":        of("europa", 0, 1, 2, 3) + " " + of("juno", 2, 3),
		"free 3h juno":   of("juno", 1, 2, 3),
		"loud":           juno,
		"tomas":          of("juno", 4, 5, 6, 7),
		"train.py":       of("europa", 4, 5, 6, 7),
		"vision":         europa,
		"vision tomas":   "",
		"nvlink mira 5":  of("europa", 5),
		"linguists":      juno,
		"overnight busy": of("europa", 4, 5, 6, 7),
		"camera":         of("europa", 5),
		"allocated":      of("juno", 6),
		"nothing-of-all": "",
	} {
		b.Do(chromedp.Navigate("file://" + dir + "/index.html"))
		b.Value(
			fmt.Sprintf(`(s => { s.value = %q; s.dispatchEvent(new Event("input")); })(document.getElementById("_query"))`,
				query))
		if got := b.Value(rows); got != want {
			t.Errorf("%q finds %s, want %s", query, got, want)
		}
	}
	b.Quiet("file://" + dir)
}

// foundByState counts, for a state that is searched for, the rows in view, and those that are in
// view or hidden although their own state says otherwise.
const foundByState = `(state => {
	const rows = [...document.querySelectorAll(".row:not(.mig)")], seen = rows.filter(r => r.offsetParent !== null);
	return seen.length + " " + rows.filter(r => seen.includes(r) !== !!r.querySelector("td.gpu-state .chip." + state)).length;
})`

// TestBrowserSearchesSortedRows: in whichever order the rows stand, and after the page has
// renewed itself, a search shows the GPUs that match.
func TestBrowserSearchesSortedRows(t *testing.T) {
	in := boardtest.Lab()
	dir := siteDir(t, in)
	site := serve(t, dir, boardtest.Now)
	b := openBrowser(t, boardtest.Now)
	search := func(words string) {
		b.Value(fmt.Sprintf(
			`(s => { s.value = %q; s.dispatchEvent(new Event("input")); s.blur(); })(document.getElementById("_query"))`,
			words,
		))
	}
	for _, order := range []string{"", "gpu-memory", "-gpu-memory", "gpu-state", "-gpu-load", "gpu-booking"} {
		b.Do(chromedp.Navigate(site + "index.html?rows=" + order))
		for state, rows := range map[string]string{"free": "6 0", "busy": "12 0"} {
			search(state)
			expect(t, b, foundByState+`("`+state+`")`, rows)
		}
	}

	b.Do(chromedp.Navigate(site + "index.html"))
	b.Value(`document.querySelector("#atlas th.gpu-memory button").click()`)
	search("free")
	b.Value(`document.querySelector("#atlas-5 .panel").open = true`)
	next := boardtest.Lab()
	taken := &next.Board.Hosts[0].GPUs[5]
	taken.State = board.Busy
	boardtest.Process(taken, 4001, "mira", "train.py", 9000, boardtest.Now)
	boardtest.Process(taken, 4002, "mira", "eval.py", 900, boardtest.Now)
	added := boardtest.Big(1).Board.Hosts[0]
	added.Name, added.GPUs = "zeta", added.GPUs[:1]
	added.GPUs[0].State, added.GPUs[0].Processes, added.GPUs[0].Booking = board.Free, nil, nil
	next.Board.Hosts = append(next.Board.Hosts, added)
	boardtest.Finish(next.Board)
	next.Board.GeneratedAt = boardtest.Now.Add(time.Minute)
	rewriteIndex(t, dir, next)
	renewed(t, b)
	expect(t, b, foundByState+`("free")`, "6 0")
	expect(t, b, `document.querySelector("#zeta .row").checkVisibility()`, "true")
	// What was open is open, though there is something new in the row.
	expect(t, b,
		`[...document.querySelectorAll("#atlas-5 details")].map(d => d.parentNode.classList[0] + " " + d.open).join()`,
		"gpu-user false,gpu-booking true")
	b.Quiet(site)
}

// TestBrowserOpensAHost: with more than a dozen hosts, the rows of a host are fetched
// from its page when it is opened; from a disk a click leads to that page.
func TestBrowserOpensAHost(t *testing.T) {
	in := boardtest.Big(rowHosts + 8)
	in.Board.Bookings = []board.Booking{*boardtest.Booked("gpu005", []int{3}, "mira", boardtest.At(-1, 0, 0),
		boardtest.At(1, 0, 0), "")}
	dir := siteDir(t, in)
	site := serve(t, dir, boardtest.Now.Add(14*time.Second))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	const (
		open  = `[...document.querySelectorAll(".host.open")].map(h => h.id + " " + h.querySelectorAll(".row").length).join()`
		users = `document.querySelector("#gpu005 .users").click()`
	)
	b.Do(chromedp.Navigate(site + "index.html"))
	b.Value(`localStorage.setItem("gpuboard-name", "mira")`)
	b.Do(chromedp.Navigate(site + "index.html"))
	expect(t, b, open, "")
	b.Value(users)
	waitFor(t, b, open, "gpu005 8")
	// Her own row says what she can do with it.
	expect(t, b,
		`[...document.querySelectorAll(".panel summary")].map((s, i) => s.textContent === "extend" ? i : "").join("")`,
		"3")
	expect(t, b,
		`[...document.querySelectorAll("#gpu005 .rows a[href]")].every(a => a.href.startsWith(location.origin + "/any/where/"))`, "true")
	b.Value(users)
	expect(t, b, open, "")

	// Enter opens the first match.
	pressKeys(t, b, "/")
	b.Value(`(s => { s.value = "gpu01"; s.dispatchEvent(new Event("input")); })(document.activeElement)`)
	expect(t, b, `document.querySelectorAll(".host:not([hidden])").length`, "10")
	pressKeys(t, b, kb.Enter)
	waitFor(t, b, open, "gpu010 8")
	expect(t, b, focusHost, "gpu010")
	b.Quiet(site)

	b = openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Do(chromedp.Navigate("file://" + dir + "/index.html"))
	b.Value(users)
	b.Until("the page of the host", `location.href.endsWith("/hosts/gpu005/index.html")`)
	b.Quiet("file://" + dir)
}

// TestBrowserClearsASearch: of a large map, what a search had hidden comes back in steps. A line that is there stays
// where it is while those that follow it come, and so does what is below the map.
func TestBrowserClearsASearch(t *testing.T) {
	dir := siteDir(t, boardtest.Big(400))
	b := openBrowser(t, boardtest.Now)
	b.Do(chromedp.Navigate("file://" + dir + "/index.html"))
	b.Value(`(() => {
		const field = document.getElementById("_query");
		const type = (text) => {
			field.value = text;
			field.dispatchEvent(new Event("input"));
		};
		const shownLines = () => [...document.querySelectorAll(".host:not([hidden])")];
		const placeOf = (element) => {
			const { left, top } = element.getBoundingClientRect();
			return [element.id || element.tagName, left + scrollX, top + scrollY];
		};
		window.steps = [];
		window.moved = [];
		const shown = new Map();
		const look = () => {
			const lines = shownLines();
			if (lines.length !== window.steps.at(-1)) {
				window.steps.push(lines.length);
			}
			for (const [id, left, top] of [...lines, document.querySelector("footer")].map(placeOf)) {
				const was = shown.get(id) ?? [left, top];
				if (Math.hypot(was[0] - left, was[1] - top) > 1) {
					window.moved.push(id);
				}
				shown.set(id, was);
			}
			if (lines.length < 400) {
				requestAnimationFrame(look);
			} else {
				window.done = true;
			}
		};
		type("gpu00");
		requestAnimationFrame(() => {
			type("");
			look();
		});
	})()`)
	b.Until("all hosts", `window.done === true`)
	expect(t, b, `window.steps.length > 3`, "true")
	expect(t, b, `[...new Set(window.moved)].join(" ")`, "")
	b.Quiet("file://" + dir)
}
