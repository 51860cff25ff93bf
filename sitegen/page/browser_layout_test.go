package page_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"gpuboard/internal/board"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/internal/testenv/browser"
	"gpuboard/sitegen/render"
)

// TestBrowserFitsANarrowWindow: 320 pixels are what is left of 1280 when
// somebody reads at 400 %. No kind of page may then be wider than the window.
func TestBrowserFitsANarrowWindow(t *testing.T) {
	rich, many := siteDir(t, boardtest.Remembered(boardtest.Lab())),
		siteDir(t, boardtest.Remembered(boardtest.Thin(boardtest.Big(render.FullHistoryHosts+1))))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Do(chromedp.EmulateViewport(320, 640))
	for _, page := range []string{
		rich + "/index.html", rich + "/hosts/atlas/index.html", rich + "/hosts/icarus/index.html",
		rich + "/hosts/atlas/history/index.html", rich + "/history/index.html",
		rich + "/users/index.html", rich + "/users/mira/index.html", rich + "/bookings/index.html",
		rich + "/book/index.html",
		rich + "/about/index.html", rich + "/kiosk/index.html",
		many + "/index.html", many + "/history/index.html", many + "/hosts/gpu000/index.html",
		many + "/hosts/gpu000/history/index.html", many + "/bookings/index.html",
	} {
		b.Do(chromedp.Navigate("file://" + page))
		b.Value(`document.querySelectorAll("details").forEach(d => d.open = true)`)
		if got := b.Value(`document.documentElement.scrollWidth`); got != "320" {
			t.Errorf("%s is %s pixels wide", strings.TrimPrefix(strings.TrimPrefix(page, rich), many), got)
		}
	}
	b.Quiet("file://")
}

// TestBrowserMovesNothingOnLoad: what scripts add to a page has its place before they run, so nothing that somebody
// reads by then moves.
func TestBrowserMovesNothingOnLoad(t *testing.T) {
	for name, in := range map[string]render.Input{"lab": boardtest.Lab(), "map": boardtest.Big(40)} {
		dir := siteDir(t, in)
		b := openBrowser(t, boardtest.Now.Add(14*time.Second))
		for width, height := range map[int64]int64{1440: 900, 1920: 1080, 390: 844} {
			b.Size(width, height)
			for _, path := range []string{
				"index.html", "kiosk/index.html", "book/index.html", "history/index.html", "bookings/index.html",
				"hosts/" + in.Board.Hosts[0].Name + "/index.html",
			} {
				if moved := movedOnLoad(t, b, dir, path); moved > 0.01 {
					t.Errorf("%s of the %s at %d pixels: a layout shift of %.4f", path, name, width, moved)
				}
			}
		}
	}
}

// movedOnLoad opens a page in dir, whose scripts come after the page was painted, and returns the sum of its
// layout shifts.
func movedOnLoad(t *testing.T, b *browser.Browser, dir, path string) float64 {
	t.Helper()
	painted := make(chan struct{})
	files := http.FileServer(http.Dir(dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".js") {
			<-painted
		}
		w.Header().Set("Date", boardtest.Now.Add(14*time.Second).UTC().Format(http.TimeFormat))
		files.ServeHTTP(w, r)
	}))
	defer server.Close()

	browser.Call(b, page.Navigate, page.NavigateParams{URL: server.URL + "/" + path})
	b.Until("the first paint", `performance.getEntriesByName("first-contentful-paint").length > 0`)
	close(painted)
	b.Until("that the scripts have run and the head says whose GPUs are whose",
		`window.gpuboard && !(document.getElementById("_mine") || {}).hidden`)
	watchMoves(b, true)
	return movedBy(b)
}

// watchMoves begins to add up the layout shifts of the page, with those before if asked.
func watchMoves(b *browser.Browser, before bool) {
	b.Value(fmt.Sprintf(`window.moved = 0, new PerformanceObserver(list => list.getEntries().forEach(e => { window.moved += e.value; }))
		.observe({type: "layout-shift", buffered: %t})`, before))
}

// movedBy is the sum of what watchMoves has seen, a moment later.
func movedBy(b *browser.Browser) float64 {
	b.Value(`setTimeout(() => { window.told = true; }, 300)`)
	b.Until("all shifts", `window.told === true`)
	return browser.Eval[float64](b, `window.moved`)
}

// TestBrowserKeepsRoomForRows: a host that was open at the last visit is open at once, as high as with its rows.
func TestBrowserKeepsRoomForRows(t *testing.T) {
	in := boardtest.Big(40)
	files := http.FileServer(http.Dir(siteDir(t, in)))
	var fetched atomic.Pointer[chan struct{}]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/hosts/") {
			<-*fetched.Load()
		}
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	for _, width := range []int64{1440, 390} {
		rows := make(chan struct{})
		fetched.Store(&rows)
		b.Size(width, 900)
		b.Open(server.URL + "/index.html")
		b.Value(fmt.Sprintf(`localStorage.setItem("gpuboard-hosts", "%s %s")`, in.Board.Hosts[2].Name, in.Board.Hosts[3].Name))
		b.Open(server.URL + "/index.html")
		b.Until("two open hosts", `document.querySelectorAll(".host.open").length === 2`)
		watchMoves(b, false)
		close(rows)
		b.Until("their rows", `document.querySelectorAll(".host.open .row").length === 16`)
		if moved := movedBy(b); moved > 0.01 {
			t.Errorf("at %d pixels: a layout shift of %.4f", width, moved)
		}
	}
}

// TestBrowserMovesNothingOnAnOldWall: the wall's heading gets longer when the page is old, and moves nothing.
func TestBrowserMovesNothingOnAnOldWall(t *testing.T) {
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	for name, in := range map[string]render.Input{"lab": boardtest.Lab(), "map": boardtest.Big(150)} {
		b.Size(1920, 1080)
		b.Open("file://" + siteDir(t, in) + "/kiosk/index.html")
		watchMoves(b, false)
		b.Value(`Date.now = () => ` + strconv.FormatInt(boardtest.Now.Add(time.Hour).UnixMilli(), 10))
		b.Value(`document.dispatchEvent(new Event("visibilitychange"))`)
		b.Until("that it is old", `document.documentElement.classList.contains("dead-page")`)
		if moved := movedBy(b); moved > 0.01 {
			t.Errorf("the %s: a layout shift of %.4f", name, moved)
		}
	}
}

// TestBrowserShowsWhatDiffersInNames: the end of long names is in view, also on a phone.
func TestBrowserShowsWhatDiffersInNames(t *testing.T) {
	in := boardtest.Big(rowHosts + 1)
	for i := range in.Board.Hosts {
		in.Board.Hosts[i].Name = fmt.Sprintf("k8s-prod-gpu-node-%04d.example.org", i+1)
		in.Board.Hosts[i].Title = in.Board.Hosts[i].Name
	}
	dir := siteDir(t, in)
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	for _, width := range []int64{390, 1440} {
		b.Size(width, 900)
		b.Open("file://" + dir + "/index.html")
		expect(t, b, `[...document.querySelectorAll(".host-line h3 a")].filter((a, i) =>
			a.scrollWidth <= a.clientWidth && a.textContent.endsWith(String(i + 1).padStart(4, "0"))).length`,
			strconv.Itoa(rowHosts+1))
	}
}

// overlaps are the rows in which the word that opens a panel lies upon other
// words, or outside its cell. On a phone all of the row is one cell.
const overlaps = `[...document.querySelectorAll("td.gpu-booking")].map(k => innerWidth > 640 ? k : k.parentNode).filter(k => {
	const s = k.querySelector(".panel > summary");
	if (!s || !k.offsetParent) { return false; }
	const a = s.getBoundingClientRect(), c = k.getBoundingClientRect();
	const words = document.createTreeWalker(k, NodeFilter.SHOW_TEXT), style = getComputedStyle(k);
	// What is cut ends where the cell's padding begins.
	const end = style.textOverflow === "ellipsis" && style.overflowX === "hidden" ? c.right - parseFloat(style.paddingRight) : Infinity;
	let bad = a.left < c.left || a.right > c.right + 1 || a.top < c.top || a.bottom > c.bottom + 1;
	for (let w; (w = words.nextNode());) {
		if (s.contains(w) || !w.textContent.trim() || w.parentElement.closest(".reservation")) { continue; }
		const cell = w.parentElement.closest("td,th"), r = document.createRange();
		const cut = getComputedStyle(cell).overflowX === "hidden" ? cell.getBoundingClientRect().right : end;
		r.selectNodeContents(w);
		for (const b of r.getClientRects()) {
			bad = bad || b.left < a.right && Math.min(b.right, cut) > a.left && b.top + 3 < a.bottom && b.bottom - 3 > a.top;
		}
	}
	return bad;
}).map(k => k.closest("tr").id).join(" ")`

func TestBrowserBookButtonOverlapsNothing(t *testing.T) {
	in := boardtest.Lab()
	long := in.Board.Hosts[0].GPUs[0].Booking
	long.Name, long.Comment = "somebody-with-an-uncommonly-long-name", strings.Repeat("ReallyLongWord", 6)
	rich, mid := siteDir(t, in), siteDir(t, boardtest.Big(rowHosts+1))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	for page, widths := range map[string][]int64{
		rich + "/index.html":             {1920, 1280, 1100, 1021, 1020, 641, 640, 320},
		rich + "/hosts/atlas/index.html": {1280, 1021},
		mid + "/hosts/gpu003/index.html": {1280, 1021, 640},
	} {
		for _, width := range widths {
			b.Do(chromedp.EmulateViewport(width, 900), chromedp.Navigate("file://"+page))
			expect(t, b, overlaps, "")
			expect(t, b, `document.querySelectorAll(".panel > summary").length > 7`, "true")
			b.Value(`document.querySelectorAll(".panel").forEach(d => d.open = true)`)
			expect(t, b, overlaps, "")
		}
	}
	// The panel comes after the booking for whoever hears or tabs through it.
	b.Do(chromedp.EmulateViewport(1280, 900), chromedp.Navigate("file://"+rich+"/index.html"))
	expect(t, b, `document.querySelector("#atlas-3 .gpu-booking").lastElementChild.className`, "panel")
	expect(t, b,
		`document.querySelector("#atlas-3 .panel > summary").getBoundingClientRect().top - document.querySelector("#atlas-3 .gpu-booking .name").getBoundingClientRect().top < 12`, "true")
	b.Quiet("file://")
}

// TestBrowserSpeaks: what a screen reader is told.
func TestBrowserSpeaks(t *testing.T) {
	in := boardtest.Lab()
	in.Board.GeneratedAt = time.Now().Add(-5 * time.Second)
	dir := siteDir(t, in)
	site := serve(t, dir, time.Time{})
	b := openBrowser(t, time.Time{})
	b.Do(chromedp.Navigate(site + "index.html"))
	words := map[string]string{}
	for _, s := range []string{"free", "booked", "in-use", "busy", "contested", "stuck", "lost"} {
		words[s] = strings.ReplaceAll(s, "-", " ")
		expect(t, b,
			`[...document.querySelectorAll(".row.`+s+`")].filter(r => r.querySelector("td.gpu-state").textContent.trim() !== "`+
				words[s]+
				`").length`, "0")
		expect(t, b, `document.querySelectorAll(".row.`+s+`").length > 0`, "true")
	}
	expect(t, b,
		`[...document.querySelectorAll("table")].filter(t => !t.caption || !t.caption.textContent.trim()).length`,
		"0")
	expect(t, b,
		`[...document.querySelectorAll(".row")].filter(r => r.cells[0].tagName !== "TH" || r.cells[0].scope !== "row").length`,
		"0")
	expect(t, b,
		`[...document.querySelectorAll("svg")].filter(s => !s.matches(".holders") && s.getAttribute("aria-hidden") !== "true" && !(s.getAttribute("role") === "img" && (s.getAttribute("aria-label") || s.querySelector("title")))).length`, "0")
	// One polite place for news; nothing is in it until there is some.
	const live = `[...document.querySelectorAll("[role=status],[role=alert],[aria-live]")].map(e => e.id + " " + e.getAttribute("role") + " " + (e.getAttribute("aria-live") || "")).join().trim()`
	expect(t, b, live, "_state status")
	expect(t, b, `document.getElementById("_main").contains(document.getElementById("_state"))`, "false")
	expect(t, b, banner, "")
	// What is said, and only when there is another number of free GPUs.
	speaksOfFree(t, b, dir, in.Board.GeneratedAt, boardtest.Lab)
	b.Quiet(site)
}

// speaksOfFree renews the page three times. It says what the heading says is free, once, when
// another number of GPUs is.
func speaksOfFree(t *testing.T, b *browser.Browser, dir string, begin time.Time, fleet func() render.Input) {
	t.Helper()
	for i := range 3 {
		next := fleet()
		if i > 0 {
			for _, g := range next.Board.Units() {
				if g.State == board.Free {
					g.State = board.Busy
					break
				}
			}
			boardtest.Finish(next.Board)
		}
		next.Board.GeneratedAt = begin.Add(time.Duration(i+1) * time.Second)
		rewriteIndex(t, dir, next)
		before := b.Text("h1 em")
		renewed(t, b)
		want, number := "", regexp.MustCompile(`^\d+`)
		if i == 1 {
			want = b.Text("h1 em")
			is, was := number.FindString(want), number.FindString(before)
			if n, err := strconv.Atoi(was); err != nil || is != strconv.Itoa(n-1) {
				t.Fatalf("one GPU less is free: %q becomes %q", before, want)
			}
		}
		expect(t, b, `document.querySelector("[role=status]").textContent`, want)
	}
}

// TestBrowserSpeaksOfManyHosts: also where the rows of GPUs are not on the page.
func TestBrowserSpeaksOfManyHosts(t *testing.T) {
	fleet := func() render.Input { return boardtest.Big(rowHosts + 8) }
	in := fleet()
	in.Board.GeneratedAt = time.Now().Add(-5 * time.Second)
	dir := siteDir(t, in)
	site := serve(t, dir, time.Time{})
	b := openBrowser(t, time.Time{})
	b.Do(chromedp.Navigate(site + "index.html"))
	expect(t, b, `document.querySelectorAll(".row").length`, "0")
	speaksOfFree(t, b, dir, in.Board.GeneratedAt, fleet)
	b.Quiet(site)
}

// rewriteIndex publishes the front page anew.
func rewriteIndex(t testing.TB, dir string, in render.Input) {
	t.Helper()
	files, path := pages(t, in), filepath.Join(dir, "index.html")
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, files[len(files)-1].Content, 0o644); err != nil {
		t.Fatal(err)
	}
	// HTTP tells files apart by the second in which they were written.
	if err := os.Chtimes(path, time.Time{}, before.ModTime().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
}

// TestBrowserCellsStayApart: no state, number or name lies over another, on a narrow
// screen, where a row is a grid, and on a wide one, where two hosts are side by side.
// A host may have sixteen GPUs and a long name.
func TestBrowserCellsStayApart(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	dione := &in.Board.Hosts[3]
	dione.Title = "a-host-with-an-uncommonly-long-name"
	for i := range 8 {
		g := dione.GPUs[i]
		g.Index, g.UUID = i+8, g.UUID+"-8"
		dione.GPUs = append(dione.GPUs, g)
	}
	dir := siteDir(t, in)
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	for _, page := range []string{"index.html", "users/mira/index.html", "hosts/europa/index.html",
		"bookings/index.html"} {
		for _, width := range []int64{320, 390, 640, 641, 1440, 1920} {
			b.Size(width, 900)
			b.Open("file://" + dir + "/" + page)
			found := b.Value(`[...document.querySelectorAll("tr,.host-line")].filter(r => {
				const boxes = [...r.querySelectorAll(".chip,.kind,.value,.gpu-index a,.gpu-user>.name,.gpu-booking>.name,.tag,h3 a,.signs,.users,.age")].filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect());
				return boxes.some((x, i) => boxes.slice(i + 1).some(y => x.left < y.right - 1 && y.left < x.right - 1 && x.top < y.bottom - 1 && y.top < x.bottom - 1));
			}).slice(0, 2).map(r => r.textContent.trim().slice(0, 60)).join("\n")`)
			if found != "" {
				t.Errorf("%s at %d px: things lie over each other in %q", page, width, found)
			}
			expect(t, b,
				`[...document.querySelectorAll(".gpus .gpu-index:not(.wide) a")].filter(a => a.getBoundingClientRect().height > 26).length`,
				"0")
		}
	}
}

// TestBrowserShowsProcesses: what opens below a row is seen whole, also below the last one of a card, and does not lie
// over the row's own name, which may need several lines.
func TestBrowserShowsProcesses(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	for i := range in.Board.Hosts {
		for k := range in.Board.Hosts[i].GPUs {
			for n := range in.Board.Hosts[i].GPUs[k].Processes {
				p := &in.Board.Hosts[i].GPUs[k].Processes[n]
				p.Person, p.User, p.Container, p.ContainerName = "", "root", "a1b2c3d4e5f6", "a-container-with-an-uncommonly-long-name"
			}
		}
	}
	dir := siteDir(t, in)
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	for _, page := range []string{"index.html", "hosts/europa/index.html"} {
		for _, width := range []int64{390, 641, 1440} {
			b.Size(width, 900)
			b.Open("file://" + dir + "/" + page)
			found := b.Value(`(() => {
				const all = [...document.querySelectorAll("td.gpu-user > details")].filter(d => d.checkVisibility());
				const bad = all.filter(d => {
					d.open = true;
					const last = [...d.querySelectorAll("li")].at(-1);
					last.scrollIntoView({block: "center"});
					const list = last.getBoundingClientRect(), name = d.parentNode.querySelector(".name");
					const shown = document.elementFromPoint(list.left + 3, list.bottom - 3);
					const covered = d.querySelector("ul").getBoundingClientRect().top < (name ? name.getBoundingClientRect().bottom - 1 : 0);
					d.open = false;
					return covered || !shown || !d.contains(shown);
				});
				return all.length === 0 ? "nothing" : bad.slice(0, 2).map(d => d.closest("tr").textContent.trim().slice(0, 60)).join("\n");
			})()`)
			if found != "" {
				t.Errorf("%s at %d px: processes are not seen, or cover their row, in %q", page, width, found)
			}
		}
	}
}

// TestBrowserWallFitsItsScreen: the screen on a wall shows all of up to 100 hosts at once, and of more than that some in
// turn; each host is shown whole.
func TestBrowserWallFitsItsScreen(t *testing.T) {
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	for _, tt := range []struct {
		hosts, pages int
		in           render.Input
	}{
		{9, 1, boardtest.Lab()}, {40, 1, boardtest.Big(40)}, {100, 1, boardtest.Big(100)}, {150, 2, boardtest.Big(150)},
		{400, 4, boardtest.Big(400)},
	} {
		dir := siteDir(t, tt.in)
		for _, screen := range [][2]int64{{1920, 1080}, {3840, 2160}} {
			name := fmt.Sprintf("%d hosts at %d x %d", tt.hosts, screen[0], screen[1])
			b.Do(chromedp.EmulateViewport(screen[0], screen[1]), chromedp.Navigate("file://"+dir+"/kiosk/index.html"))
			b.Until("the hosts", `document.getElementById("_wall").dataset.columns > 0`)
			if to := os.Getenv("GPUBOARD_SHOTS"); to != "" {
				b.Clip(filepath.Join(to, fmt.Sprintf("kiosk-%d-%d.png", tt.hosts, screen[0])), screen[0], screen[1])
			}
			high := browser.Eval[int64](b,
				`Math.max(document.documentElement.scrollHeight, document.body.scrollHeight)`)
			if high > screen[1] {
				t.Errorf("%s: %d pixels high", name, high)
			}
			// A host counts that is wholly on the screen, and not squeezed over another.
			shown := browser.Eval[int](
				b, `[...document.querySelectorAll(".wall-host:not([hidden])")].filter((host, i, all) => {
				const { bottom, top, left, right } = host.getBoundingClientRect();
				const clear = all.every((h) => h === host || h.getBoundingClientRect().left !== left
					|| h.getBoundingClientRect().bottom <= top + 1 || h.getBoundingClientRect().top >= bottom - 1);
				return bottom <= innerHeight && right <= innerWidth && clear;
			}).length`)
			expect(t, b, `[...document.querySelectorAll(".piles dd")].every((dd) => dd.clientHeight < 4 * parseFloat(getComputedStyle(dd).fontSize))`, "true")
			if tt.hosts < 10 {
				expect(t, b, `document.getElementById("_wall").dataset.size`, "huge")
			}
			all := browser.Eval[int](b, `document.querySelectorAll(".wall-host").length`)
			if pages := (all + shown - 1) / max(1, shown); pages != tt.pages {
				t.Errorf("%s: %d of %d hosts are shown, so there are %d pages, want %d", name, shown, all, pages,
					tt.pages)
			}
		}
	}
	b.Quiet("file://")
}

// TestBrowserOnLaptops: in narrower windows than the pictures are of, who uses a GPU can be read, the panel of a row is on
// the screen, and to search moves nothing down.
func TestBrowserOnLaptops(t *testing.T) {
	lab, fleet := siteDir(t, boardtest.Lab()), siteDir(t, boardtest.Big(40))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	for _, width := range []int64{1100, 1200, 1280, 1366, 1400, 1440} {
		b.Do(chromedp.EmulateViewport(width, 800), chromedp.Navigate("file://"+lab+"/index.html"))
		at := fmt.Sprintf("a lab at %d: ", width)
		const user = `Math.min(...[...document.querySelectorAll("tbody .gpu-user")].filter((u) => u.offsetParent).map((u) => u.clientWidth))`
		if got := browser.Eval[int](b, user); got < 90 {
			t.Errorf("%s%d pixels for who uses a GPU", at, got)
		}
		top := browser.Eval[float64](b, `document.querySelector(".row").getBoundingClientRect().top`)
		if width >= 1280 && top > 240 {
			t.Errorf("%sthe first GPU stands at %.0f", at, top)
		}
		b.Value(`(q => { q.value = "h100"; q.dispatchEvent(new Event("input", {bubbles: true})); })(document.getElementById("_query"))`)
		b.Until("the count", `document.getElementById("_found").textContent !== ""`)
		if now := browser.Eval[float64](b, `document.querySelector(".row").getBoundingClientRect().top`); now != top {
			t.Errorf("%sto search moves the first GPU from %.0f to %.0f", at, top, now)
		}
		b.Value(`document.querySelector(".row.free .panel summary").click()`)
		if left := browser.Eval[float64](b, `document.querySelector(".panel[open] .wish").getBoundingClientRect().left`); left < 8 {
			t.Errorf("%sthe panel begins at %.0f", at, left)
		}
		b.Do(chromedp.Navigate("file://" + fleet + "/hosts/gpu000/index.html"))
		if got := browser.Eval[int](b, user); got < 60 {
			t.Errorf("a host at %d: %d pixels for who uses a GPU", width, got)
		}
	}
	b.Quiet("file://")
}
