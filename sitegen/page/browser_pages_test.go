package page_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gpuboard/internal/testenv/boardtest"
	"gpuboard/internal/testenv/browser"
	"gpuboard/sitegen/render"
)

const shownPanes = `[...document.querySelectorAll(".pane")].map((p, i) => p.offsetParent ? i : "").join("")`

// hover moves the pointer to a part of a chart and returns what the tip says.
const hover = `(part => {
	const s = [...document.querySelectorAll("svg.chart.wide")].find(s => s.getBoundingClientRect().width > 0), b = s.getBoundingClientRect();
	s.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: b.left + b.width * part, clientY: b.top + 5 }));
	return document.querySelector(".tip").textContent;
})`

func TestBrowserPast(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	atlas := in.History.Hosts["atlas"].Spans[0].GPUs[in.Board.Hosts[0].GPUs[0].Key()]
	atlas[render.PastUtilization][0], atlas[render.PastUtilization][95] = 37, 84
	in.Board.Hosts[0].GPUs[1].Holders = slices.Repeat([]string{"mira"}, render.PastSteps()[0])
	dir := siteDir(t, in)
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Do(chromedp.Navigate("file://" + dir + "/hosts/atlas/index.html"))
	expect(t, b, hover+`(0.999).split(" · ").pop()`, "84 %")
	expect(t, b, `(document.querySelector("#atlas-1 .past path").dispatchEvent(new PointerEvent("pointermove", { bubbles: true })),
		document.querySelector(".tip").textContent.split(" · ").pop())`, "mira")
	b.Do(chromedp.Navigate("file://" + dir + "/hosts/atlas/history/index.html#_span0"))
	expect(t, b, shownPanes, "0")
	expect(t, b, hover+`(0.001).split(" · ").pop()`, "37 %")
	expect(t, b, hover+`(0.999).split(" · ").pop()`, "84 %")
	expect(t, b, hover+`(0.42).split(" · ").pop()`, "unknown")
	expect(t, b, `(document.dispatchEvent(new PointerEvent("pointermove")), document.querySelector(".tip").hidden)`,
		"true")
	b.Do(chromedp.Click("label[for=_span1]"))
	expect(t, b, shownPanes, "1")
	b.Do(chromedp.Navigate("file://" + dir + "/history/index.html"))
	expect(t, b, shownPanes, "1591317") // seven days of people, over time, of models, hosts and all GPUs
	// Who used most is seen at once.
	b.Do(chromedp.EmulateViewport(1440, 900))
	expect(t, b, `document.querySelector("h2 + div > .pane + .pane .list").getBoundingClientRect().top <= 300`, "true")
	expect(t, b, `(() => {
		const layer = [...document.querySelectorAll(".layers path")].find(p => p.getBoundingClientRect().width > 0);
		const box = layer.parentNode.getBoundingClientRect();
		layer.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: box.left + 1, clientY: box.top + 1 }));
		return document.querySelector(".tip").textContent.split(" · ")[1];
	})()`, "others 0.3")
	for _, width := range []int64{1280, 320} {
		b.Do(chromedp.EmulateViewport(width, 900))
		for _, page := range []string{"history/index.html", "hosts/atlas/index.html", "hosts/atlas/history/index.html",
			"users/mira/index.html"} {
			b.Do(chromedp.Navigate("file://" + dir + "/" + page))
			expect(t, b, `document.documentElement.scrollWidth <= innerWidth`, "true")
		}
	}
	// Nothing of this needs the script.
	b.Scripts(false)
	b.Do(chromedp.Navigate("file://"+dir+"/hosts/atlas/history/index.html"), chromedp.Click("label[for=_span3]"))
	b.Scripts(true)
	expect(t, b, shownPanes, "3")
	b.Quiet("file://" + dir)
}

func expect(t *testing.T, b *browser.Browser, script, want string) {
	t.Helper()
	if got := b.Value(script); got != want {
		t.Errorf("%s is %q, want %q", script, got, want)
	}
}

const (
	visibleRows = `[...document.querySelectorAll(".row")].filter(r => r.offsetParent !== null).length`
	banner      = `document.getElementById("_state").textContent`
)

func TestBrowserFromDisk(t *testing.T) {
	dir := siteDir(t, withHelp(boardtest.WithSites(boardtest.Lab())))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	for _, page := range []string{"index.html", "hosts/atlas/index.html", "users/index.html", "users/mira/index.html",
		"sites/index.html", "bookings/index.html", "about/index.html", "kiosk/index.html", "help/index.html",
		"help/api/index.html"} {
		b.Do(chromedp.Navigate("file://" + dir + "/" + page))
		expect(t, b, `document.documentElement.classList.contains("js")`, "true")
		expect(t, b, `document.documentElement.scrollWidth <= innerWidth`, "true")
	}
	b.Do(chromedp.EmulateViewport(320, 640))
	for _, page := range []string{"index.html", "hosts/atlas/index.html", "users/mira/index.html", "sites/index.html",
		"bookings/index.html", "about/index.html", "help/index.html", "help/troubleshooting/index.html",
		"help/commands/index.html",
		"help/api/index.html"} {
		b.Do(chromedp.Navigate("file://" + dir + "/" + page))
		expect(t, b, `document.documentElement.scrollWidth <= innerWidth`, "true")
	}
	b.Quiet("file://" + dir)
}

func TestBrowserFilters(t *testing.T) {
	site := serve(t, siteDir(t, boardtest.Lab()), boardtest.Now.Add(14*time.Second))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Do(chromedp.Navigate(site + "index.html"))
	expect(t, b, `document.getElementById("_age").textContent`, ", 14 s ago")
	expect(t, b, banner, "")
	expect(t, b, visibleRows, "29")
	b.Do(chromedp.Click(".counts a.free"))
	expect(t, b, visibleRows, "7")
	expect(t, b, `location.search`, "?q=free")
	// Of a partitioned GPU its free slice is shown, and what it is a part of.
	expect(t, b,
		`[...document.querySelectorAll("[id^=ceres-2]")].filter(r => r.offsetParent !== null).map(r => r.id).join()`,
		"ceres-2,ceres-2_mig2")
	b.Do(chromedp.Navigate(site + "index.html?q=tomas+%3E40G"))
	expect(t, b, visibleRows, "4")
	b.Do(chromedp.Navigate(site + "index.html?q=sweep"))
	expect(t, b, visibleRows, "1")
	expect(t, b, `document.getElementById("_found").textContent`, "1 of 34 match")
	b.Do(chromedp.Navigate(site + "index.html?q=free+3090"))
	expect(t, b, visibleRows, "1")

	b.Do(chromedp.Navigate(site + "index.html"))
	b.Value(
		`dispatchEvent(new Event("x")), document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "f", bubbles: true}))`,
	)
	expect(t, b, visibleRows, "7")
	b.Value(`document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "/", bubbles: true, cancelable: true}))`)
	expect(t, b, `document.activeElement.type`, "search")
	b.Value(`document.activeElement.blur()`)
	b.Value(`document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "t", bubbles: true}))`)
	expect(t, b, `document.documentElement.dataset.theme`, "light")
	b.Do(chromedp.Navigate(site + "index.html"))
	expect(t, b, `document.documentElement.dataset.theme`, "light")
	b.Value(`document.querySelector("#atlas button.fold").click()`)
	expect(t, b, visibleRows, "21")
	b.Do(chromedp.Navigate(site + "index.html"))
	expect(t, b, visibleRows, "21")
	b.Quiet(site)
}

func TestBrowserWithoutScript(t *testing.T) {
	dir := siteDir(t, boardtest.Lab())
	b := openBrowser(t, time.Time{})
	b.Scripts(false)
	b.Do(chromedp.Navigate("file://" + dir + "/index.html"))
	expect(t, b, visibleRows, "29")
	expect(t, b, `document.querySelector("#atlas .age").textContent`, "Fri 10:41")
	b.Do(chromedp.Click(chromedp.CSS("#_onlyfree")))
	expect(t, b, visibleRows, "7")
	expect(t, b, `[...document.querySelectorAll(".host")].filter(h => h.offsetParent !== null).length`, "3")
	b.Quiet("file://" + dir)
}

func TestBrowserNoticesADeadGenerator(t *testing.T) {
	dir := siteDir(t, boardtest.Lab())
	for _, c := range []struct {
		name              string
		age               time.Duration
		banner, h1, title string
	}{
		{"fresh", 2 * time.Minute, "", "5 of 31 free", "5 + 1 MIG free"},
		{"late", 3 * time.Minute, "The update is late", "5 of 31 free", "5 + 1 MIG free"},
		{"dead", 3 * time.Hour, "has not been updated for 3 h", "Unknown – it was: 5 of 31", "old · 5 + 1 MIG free"},
		{"future", -time.Hour, "This device’s clock differs", "5 of 31 free", "5 + 1 MIG free"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := openBrowser(t, boardtest.Now.Add(c.age))
			b.Media("prefers-color-scheme", "light")
			b.Do(chromedp.Navigate("file://" + dir + "/index.html"))
			for script, want := range map[string]string{
				banner: c.banner,
				`document.querySelector("h1").textContent.trim()`: c.h1,
				`document.title`: c.title,
			} {
				if got := b.Value(script); !strings.HasPrefix(strings.ReplaceAll(got, "\u00a0", " "), want) &&
					(script != banner || want == "" || !strings.Contains(got, want)) {
					t.Errorf("%s is %q, want %q", script, got, want)
				}
			}
			if c.banner == "" {
				expect(t, b, banner, "")
			}
			green := `["#_free", ".chip.free"].filter((free) => getComputedStyle(document.querySelector(free)).color === "rgb(3, 131, 85)").length`
			expect(t, b, green, map[bool]string{true: "0", false: "2"}[c.name == "dead"])
			expect(t, b, `document.getElementById("_age").textContent.includes("-")`, "false")
		})
	}
}

func TestBrowserRenewsInPlace(t *testing.T) {
	in := boardtest.Lab()
	dir := siteDir(t, in)
	site := serve(t, dir, boardtest.Now.Add(14*time.Second))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Do(chromedp.Navigate(site + "index.html?q=a"))
	b.Value(
		`document.querySelector("#atlas-0 details").open = true, document.querySelector("#dione h3 a").focus(), scrollTo(0, 700)`,
	)
	next := boardtest.Lab()
	g := &next.Board.Hosts[0].GPUs[5]
	*g = next.Board.Hosts[0].GPUs[2]
	g.Index = 5
	boardtest.Finish(next.Board)
	next.Board.GeneratedAt = boardtest.Now.Add(time.Minute)
	rewriteIndex(t, dir, next)
	before := b.Value("scrollY")
	// Coming back to the tab renews at once.
	v, err := chromedp.Run(b.Ctx, chromedp.Evaluate[string](`new Promise(done => {
		new MutationObserver(() => done(document.title)).observe(document.querySelector("title"), {childList: true});
		document.dispatchEvent(new Event("visibilitychange"));
	})`, chromedp.EvalAwaitPromise))
	if err != nil || !strings.Contains(v, "4 + 1 MIG free") {
		t.Fatalf("the title became %q, %v", v, err)
	}
	expect(t, b, `document.querySelectorAll(".row.free").length`, "5")
	expect(t, b, `document.querySelector("#atlas-0 details").open`, "true")
	expect(t, b, `document.activeElement.textContent`, "dione")
	expect(t, b, `document.querySelector("[type=search]").value`, "a")
	expect(t, b, "scrollY", before)
	b.Quiet(site)
}

// TestBrowserSaysItsAgeWithoutScripts: without a script, a page that was open for fifteen minutes
// says that it does not renew itself. The test goes to the end of the page's own animation.
func TestBrowserSaysItsAgeWithoutScripts(t *testing.T) {
	dir := siteDir(t, boardtest.Lab())
	b := openBrowser(t, boardtest.Now)
	for _, page := range []string{"index.html", "hosts/atlas/index.html"} {
		b.Scripts(false)
		b.Do(chromedp.Navigate("file://" + dir + "/" + page))
		b.Scripts(true)
		const seen = `document.querySelector(".aged").checkVisibility({ visibilityProperty: true }) + " " + (document.querySelector(".aged").offsetHeight > 20)`
		expect(t, b, seen, "false false")
		expect(t, b,
			`document.querySelector(".aged").getAnimations().map(a => a.effect.getComputedTiming().endTime / 60000).join()`,
			"15")
		b.Value(`document.querySelector(".aged").getAnimations().forEach(a => a.finish())`)
		expect(t, b, seen, "true true")
		if text := b.Text(".aged"); !strings.Contains(text, "does not update itself") {
			t.Errorf("%s says %q", page, text)
		}
	}
	b.Do(chromedp.Navigate("file://" + dir + "/index.html"))
	expect(t, b, `document.querySelector(".aged").getAnimations().length`, "0") // the script says it instead
}

// TestBrowserMarksWhatALinkLedTo: a line that a link leads to is marked, and keeps its background, which says whether
// its GPU is free.
func TestBrowserMarksWhatALinkLedTo(t *testing.T) {
	dir := siteDir(t, boardtest.Lab())
	b := openBrowser(t, boardtest.Now)
	const look = `(sel => { const grounds = [...document.querySelectorAll(sel + "," + sel + " > *")].map(e => getComputedStyle(e)).map(s => s.backgroundColor + s.backgroundImage); return grounds.join(); })`
	const marked = `(s => s.outlineStyle === "solid" && parseFloat(s.outlineWidth) >= 2)`
	for _, theme := range []string{"light", "dark"} {
		b.Media("prefers-color-scheme", theme)
		for id, line := range map[string]string{"atlas-0": "#atlas-0", "atlas-4": "#atlas-4",
			"boreas": "#boreas > .host-line"} {
			b.Do(chromedp.Navigate("file://" + dir + "/index.html?x=" + theme))
			plain := b.Value(look + `("` + line + `")`)
			expect(t, b, marked+`(getComputedStyle(document.querySelector("`+line+`")))`, "false")
			b.Do(chromedp.Navigate("file://" + dir + "/index.html?x=" + theme + "#" + id))
			expect(t, b, look+`("`+line+`")`, plain)
			expect(t, b, marked+`(getComputedStyle(document.querySelector("`+line+`")))`, "true")
		}
	}
}
