package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gpuboard/internal/board"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/internal/testenv/browser"
	"gpuboard/internal/testenv/need"
	"gpuboard/sitegen/render"
)

// press types keys as a person does.
func pressKeys(t testing.TB, b *browser.Browser, keys string) {
	t.Helper()
	b.Do(chromedp.KeyEvent(keys))
}

// keysSite is a site in which one host has an address of its own.
func keysSite(t testing.TB) string {
	in := boardtest.Lab()
	in.Board.Hosts[2].Address = "ceres.example.org"
	return siteDir(t, boardtest.Remembered(in))
}

const (
	focused   = `document.activeElement.textContent.trim()`
	focusHost = `(document.activeElement.closest(".host") || {}).id`
	// Whether the filters, which stay in view, lie over the host with the focus, or the one in the address.
	coveredByFilters = `(document.querySelector(":focus h3, h3:focus-within") || document.querySelector(":target h3")).getBoundingClientRect().top < document.querySelector(".finder").getBoundingClientRect().bottom`
	// What would be in the clipboard, whichever of the two ways led there.
	spyClipboard = `(window.copied = "", Object.defineProperty(navigator, "clipboard", { value: { writeText: s => { window.copied = s; return Promise.resolve(); } } }))`
	noClipboard  = `(window.copied = "", Object.defineProperty(navigator, "clipboard", { value: undefined }), document.addEventListener("copy", () => { window.copied = getSelection().toString(); }))`
)

func TestBrowserKeys(t *testing.T) {
	site := serve(t, keysSite(t), boardtest.Now.Add(14*time.Second))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	// Every host is reached one after the other, also those that cannot come to
	// the top of a tall window.
	for _, height := range []int64{4000, 900} {
		b.Do(chromedp.EmulateViewport(1280, height), chromedp.Navigate(site+"index.html"))
		for _, want := range []string{"atlas", "boreas", "ceres", "dione", "europa", "fornax", "gaia", "helios",
			"icarus",
			"icarus"} {
			pressKeys(t, b, "j")
			expect(t, b, focused, want)
			expect(t, b, coveredByFilters, "false")
		}
	}
	pressKeys(t, b, "k")
	expect(t, b, focused, "helios")
	b.Value(`document.activeElement.blur(), scrollTo(0, document.getElementById("dione").offsetTop)`)
	pressKeys(t, b, "j")
	expect(t, b, focused, "europa")
	pressKeys(t, b, "k")
	pressKeys(t, b, "k")
	expect(t, b, focused, "ceres")
	b.Do(chromedp.Navigate(site + "index.html#europa"))
	expect(t, b, coveredByFilters, "false")
	b.Do(chromedp.Navigate(site + "index.html?q=nvlink"))
	pressKeys(t, b, "jjj")
	expect(t, b, focused, "atlas") // the others are filtered away

	// The help stays until it is taken away.
	b.Do(chromedp.Navigate(site + "index.html"))
	pressKeys(t, b, "?")
	expect(t, b, banner, builtInWords(t, "en")["js.help"])
	// the ages are told anew
	b.Value(`(window.fetch = () => new Promise(() => {}), document.dispatchEvent(new Event("visibilitychange")))`)
	expect(t, b, banner+` !== ""`, "true")
	pressKeys(t, b, "?")
	expect(t, b, banner, "")
	pressKeys(t, b, "?")
	pressKeys(t, b, kb.Escape)
	expect(t, b, banner, "")

	// No key is bound in a field, or together with a modifier.
	pressKeys(t, b, "/")
	expect(t, b, `document.activeElement.type`, "search")
	b.Value(`document.activeElement.value = ""`) // a person's key is one event, and this one's letter comes apart
	pressKeys(t, b, "fjkct?/")
	expect(t, b, `document.activeElement.value`, "fjkct?/")
	expect(t, b, `location.search + document.documentElement.dataset.theme`, "?q=fjkct%3F%2Fundefined")
	expect(t, b, banner, "")
	pressKeys(t, b, kb.Escape)
	expect(t, b, `document.querySelector("[type=search]").value + location.search`, "")
	b.Do(chromedp.KeyEvent("f", chromedp.KeyModifiers(2)))
	expect(t, b, `location.search`, "")

	// Escape closes a panel, also for who types there, and the focus stays at it.
	b.Do(chromedp.Click("#atlas-4 .panel summary"), chromedp.Click("#atlas-4 .panel input"))
	pressKeys(t, b, kb.Escape)
	expect(t, b, `document.querySelectorAll(".panel[open]").length + " " + document.activeElement.closest("tr").id`,
		"0 atlas-4")

	// Single keys can be turned off, and stay off.
	b.Value(`document.querySelector('#_tools [aria-label="Shortcuts on"]').click()`)
	pressKeys(t, b, "ft?")
	b.Do(chromedp.Navigate(site + "index.html"))
	pressKeys(t, b, "ft?")
	expect(t, b, `location.search !== "" || document.documentElement.dataset.theme !== undefined`, "false")
	expect(t, b, banner, "")
	b.Value(`document.querySelector('#_tools [aria-label="Shortcuts off"]').click()`)
	pressKeys(t, b, "f")
	expect(t, b, `location.search`, "?q=free")
	b.Quiet(site)
}

func TestBrowserCopies(t *testing.T) {
	site := serve(t, keysSite(t), boardtest.Now.Add(14*time.Second))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	for name, spy := range map[string]string{"clipboard": spyClipboard, "selection": noClipboard} {
		t.Run(name, func(t *testing.T) {
			b.Do(chromedp.Navigate(site + "index.html"))
			b.Value(spy)
			copied := func(want string) {
				t.Helper()
				expect(t, b, "copied", want)
				b.Value(`copied = ""`)
			}
			pressKeys(t, b, "c")
			copied("ssh atlas")
			pressKeys(t, b, "jc")
			copied("ssh atlas")
			pressKeys(t, b, "jjc")
			copied("ssh ceres.example.org") // its address, not its name
			expect(t, b, banner, "copied: ssh ceres.example.org")
			pressKeys(t, b, "jc")
			copied("ssh dione") // which has nothing free
			b.Value(`document.querySelector("#gaia h3 a").focus()`)
			pressKeys(t, b, "c")
			copied("ssh gaia")
			b.Do(chromedp.Navigate(site + "hosts/atlas/index.html"))
			b.Value(spy)
			b.Do(chromedp.Click("#atlas .line + .line button"))
			copied("CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=4,5")
			expect(t, b, `document.querySelector("#atlas .line + .line button").textContent`, "copied")
			expect(t, b, `document.querySelector("#atlas .rows .line button").getAttribute("aria-label")`,
				"copy ssh atlas")
			b.Do(chromedp.Navigate(site + "hosts/ceres/index.html"))
			b.Value(spy)
			pressKeys(t, b, "c")
			copied("ssh ceres.example.org")
		})
	}
	b.Quiet(site)
}

// tabStop is the element with the focus: where it stands in the document, and
// whether anybody sees that it has it.
const tabStop = `(() => {
	const e = document.activeElement, s = getComputedStyle(e.type === "radio" ? e.nextElementSibling : e);
	return JSON.stringify({ at: stops.indexOf(e), seen: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 && e.matches(":focus-visible"), what: e.outerHTML.slice(0, 90) });
})()`

// tabStops are all that must be reached with the keyboard.
const tabStops = `(window.stops = [...document.querySelectorAll("a[href],button,input,select,summary,[tabindex='0']")].filter(e =>
	e.checkVisibility({ visibilityProperty: true }) && !e.closest(".aged") && !(e.type === "radio" && !e.checked))).length`

func TestBrowserTabReachesEverything(t *testing.T) {
	dir := keysSite(t)
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	for _, page := range []string{"index.html", "hosts/ceres/index.html", "hosts/ceres/history/index.html",
		"history/index.html", "bookings/index.html", "about/index.html"} {
		b.Do(chromedp.EmulateViewport(1280, 900), chromedp.Navigate("file://"+dir+"/"+page))
		expect(t, b, `document.querySelectorAll("[tabindex]:not([tabindex='0']):not([tabindex='-1'])").length`, "0")
		n, err := strconv.Atoi(b.Value(tabStops))
		if err != nil || n < 12 {
			t.Fatalf("%s has %d stops, %v", page, n, err)
		}
		for i := range n {
			pressKeys(t, b, kb.Tab)
			var stop struct {
				At   int
				Seen bool
				What string
			}
			if err := json.Unmarshal([]byte(b.Value(tabStop)), &stop); err != nil {
				t.Fatal(err)
			}
			if stop.At != i {
				t.Fatalf("%s: Tab %d of %d comes to %d: %s", page, i, n, stop.At, stop.What)
			}
			if !stop.Seen {
				t.Errorf("%s: nobody sees that this has the focus: %s", page, stop.What)
			}
		}
	}
	b.Quiet("file://" + dir)
}

func TestBrowserSorts(t *testing.T) {
	dir := keysSite(t)
	site := serve(t, dir, boardtest.Now.Add(14*time.Second))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Do(chromedp.Navigate(site + "users/index.html"))
	const (
		people = `[...document.querySelectorAll(".sortable tbody tr:not(.first) th")].map(t => t.textContent.trim()).join(" ")`
		sorted = `[...document.querySelectorAll(".sortable th[aria-sort]")].map(t => t.textContent + " " + t.getAttribute("aria-sort")).join()`
		first  = `document.querySelector(".sortable tbody tr").className`
	)
	before := b.Value(people)
	expect(t, b, sorted, "")
	button := func(i int) {
		b.Value(`document.querySelectorAll(".sortable th button")[` + strconv.Itoa(i) + `].focus()`)
		pressKeys(t, b, kb.Enter)
	}
	button(0)
	expect(t, b, sorted, "person descending")
	expect(t, b, people, "tomas sam noor mira lea kai jun eva ada")
	button(0)
	expect(t, b, sorted, "person ascending")
	expect(t, b, people, "ada eva jun kai lea mira noor sam tomas")
	b.Do(chromedp.Navigate(site + "users/index.html"))
	button(1)
	expect(t, b, sorted, "booked descending")
	if got := b.Value(people); got == before || !strings.HasPrefix(got, "mira ada") {
		t.Errorf("by reserved GPUs: %s", got)
	}
	expect(t, b, first, "first") // the free ones stay on top

	// Renewing the page keeps a host folded.
	b.Do(chromedp.Navigate(site + "index.html"))
	next := boardtest.Lab()
	next.Board.GeneratedAt = boardtest.Now.Add(time.Minute)
	rewriteIndex(t, dir, next)
	b.Value(`document.querySelector("#atlas button.fold").click()`)
	renewed(t, b)
	expect(t, b, `document.querySelector("#atlas").matches(".open")`, "false")
	expect(t, b, `document.querySelector("#atlas button.fold").getAttribute("aria-expanded")`, "false")
	// The same number is free: nobody is interrupted to hear it again.
	expect(t, b, `document.querySelector("#_state .visually-hidden") === null`, "true")
	b.Quiet(site)
}

// renewed waits until the page has renewed itself, as after a return to it.
func renewed(t testing.TB, b *browser.Browser) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, need.Patience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[string](`new Promise(done => {
		new MutationObserver(() => done("")).observe(document.documentElement, {attributes: true, attributeFilter: ["data-built"]});
		document.dispatchEvent(new Event("visibilitychange"));
	}).then(() => "")`, chromedp.EvalAwaitPromise)); err != nil {
		t.Fatal(err)
	}
}

func TestBrowserPauses(t *testing.T) {
	site := serve(t, keysSite(t), boardtest.Now.Add(14*time.Second))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Do(chromedp.Navigate(site + "index.html"))
	b.Value(`(window.asked = 0, window.fetch = () => { asked++; return new Promise(() => {}); })`)
	back := `document.dispatchEvent(new Event("visibilitychange"))`
	b.Value(`document.querySelector('#_tools [aria-label="Pause updates"]').focus()`)
	pressKeys(t, b, kb.Enter)
	expect(t, b, `document.activeElement.getAttribute("aria-label")`, "Resume updates")
	b.Value(back)
	expect(t, b, "asked", "0")
	pressKeys(t, b, kb.Enter)
	b.Value(back)
	expect(t, b, "asked", "1")
	b.Quiet(site)
}

func TestBrowserRestoresTheView(t *testing.T) {
	site := serve(t, keysSite(t), boardtest.Now.Add(14*time.Second))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Do(chromedp.Navigate(site + "index.html?q=nvlink+%3E40G+mira+free+atlas+h100"))
	expect(t, b, `document.querySelector("[type=search]").value`, "nvlink >40G mira free atlas h100")
	expect(t, b, visibleRows, "0")
	b.Do(chromedp.Navigate(site + "index.html?order=__proto__&rows=__proto__"))
	expect(t, b, visibleRows, "29")
	b.Do(chromedp.Navigate(site + "index.html?q=nvlink"))
	expect(t, b, visibleRows, "8")
	expect(t, b, `location.search`, "?q=nvlink")
	b.Value(`(s => { s.value = ""; s.dispatchEvent(new Event("input")); })(document.querySelector("[type=search]"))`)
	expect(t, b, visibleRows, "29")
	expect(t, b, `location.search`, "")
	b.Quiet(site)
}

// TestBrowserForcedColors: with the system's few colours, each state still has
// its word, and what is free stands out.
func TestBrowserForcedColors(t *testing.T) {
	dir := keysSite(t)
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Media("forced-colors", "active")
	b.Do(chromedp.Navigate("file://" + dir + "/index.html"))
	expect(t, b, `matchMedia("(forced-colors: active)").matches`, "true")
	const style = `(sel => { const s = getComputedStyle(document.querySelector(sel)); return [s.color, s.backgroundColor, s.borderTopStyle].join(" | "); })`
	free, busy := b.Value(style+`(".row .chip.free")`), b.Value(style+`(".row .chip.busy")`)
	if free == busy || strings.HasSuffix(busy, "none") {
		t.Errorf("free looks like %s, busy like %s", free, busy)
	}
	expect(t, b,
		`[...document.querySelectorAll(".chip")].filter(c => { const s = getComputedStyle(c); return s.color === s.backgroundColor || !c.textContent.trim(); }).length`, "0")
	expect(t, b,
		`getComputedStyle(document.querySelector(".memory-bar rect")).fill !== getComputedStyle(document.querySelector(".memory-bar")).backgroundColor`, "true")
	// A part is as wide as its share: no rule takes it for a column.
	expect(t, b, `[...document.querySelectorAll(".memory-bar .unowned")].map(
		part => getComputedStyle(part).width === part.getAttribute("width") + "px").join()`, "true,true")
	pressKeys(t, b, kb.Tab)
	expect(t, b, `getComputedStyle(document.activeElement).outlineStyle`, "solid")
	b.Quiet("file://" + dir)
}

// TestBrowserKeepsUnchangedParts: a renewal leaves the parts of the page that are no hosts, where nothing of them has
// changed, and also the boxes of those that have: to make these anew takes a layout of the whole page. Of a host of which
// only the load of its GPUs has changed, only their signs change.
func TestBrowserKeepsUnchangedParts(t *testing.T) {
	fleet := func(load float64) render.Input {
		in := boardtest.Big(40)
		for i := range in.Board.Hosts {
			in.Board.Hosts[i].SnapshotAt = boardtest.Now.Add(time.Minute)
		}
		gpus := in.Board.Hosts[30].GPUs
		busy := slices.IndexFunc(gpus, func(g board.GPU) bool { return g.State == board.Busy })
		gpus[busy].Utilization = []*float64{&load, &load}
		return in
	}
	next, host, free := fleet(60), 0, -1
	for i, h := range slices.Backward(next.Board.Hosts[:25]) {
		if gpu := slices.IndexFunc(h.GPUs, func(g board.GPU) bool { return g.State == board.Free }); gpu >= 0 {
			host, free = i, gpu
		}
	}
	dir := siteDir(t, fleet(20))
	site := serve(t, dir, boardtest.Now.Add(14*time.Second))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Do(chromedp.Navigate(site + "index.html"))
	b.Value(`(window.find = (s) => [...document.querySelectorAll(s)], window.boxes = find("#_main > *, summary, .host"),
		window.kept = find(".pill, #_group1 h2, .finder .go, #gpu030 *"), window.sign = find("#gpu030 [href='#_busy1']").at(-1),
		window.news = find("h1 em, #_group0 h2, #` + next.Board.Hosts[host].Name + ` .host-line"))`)
	rewriteIndex(t, dir, occupied(next, host, free, 1))
	renewed(t, b)
	expect(t, b, `boxes.length > 40 && boxes.every((box) => box.isConnected)`, "true")
	expect(t, b, `kept.length > 10 && kept.every((part) => part.isConnected)`, "true")
	expect(t, b, `news.length + news.filter((part) => part.isConnected).length`, "3")
	expect(t, b, `find("#gpu030 [href='#_busy3']").length > 0`, "true")
	const all = `find("#_main")[0].innerText + find(".signs use").map((sign) => sign.getAttribute("href"))`
	renewedPage := b.Value(all)
	b.Do(chromedp.Navigate(site + "index.html"))
	b.Value(`window.find = (s) => [...document.querySelectorAll(s)]`)
	expect(t, b, all, renewedPage)
	b.Quiet(site)
}

// TestBrowserSaysAgainWhatIsFree: a page that has called itself out of date says what is free with the news, also if as
// many are free as before.
func TestBrowserSaysAgainWhatIsFree(t *testing.T) {
	dir := siteDir(t, occupied(boardtest.Lab(), 0, 5, 1))
	site := serve(t, dir, boardtest.Now.Add(14*time.Second))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Do(chromedp.Navigate(site + "index.html"))
	free := b.Text("h1")
	if was := b.Value(fmt.Sprintf(`(Date.now = () => %d, document.dispatchEvent(new Event("visibilitychange")),
		document.querySelector("h1").innerText)`, boardtest.Now.Add(3*time.Hour).UnixMilli())); was == free {
		t.Errorf("after three hours without news it says %s", was)
	}
	rewriteIndex(t, dir, occupied(boardtest.Lab(), 0, 5, 2))
	renewed(t, b)
	expect(t, b, `document.querySelector("h1").innerText`, free)
	b.Quiet(site)
}
