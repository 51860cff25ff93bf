package page_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gpuboard/internal/board"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/internal/testenv/browser"
	"gpuboard/sitegen/render"
)

// republish writes all pages of a site anew, a minute after in a generation before.
func republish(t testing.TB, dir string, in render.Input, generation int) {
	t.Helper()
	files := pages(t, in)
	writeFiles(t, dir, files)
	for _, f := range files { // HTTP tells files apart by the second in which they were written
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Duration(generation)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
}

// occupied is a later generation of a fleet, in which one GPU has two processes more.
func occupied(in render.Input, host, gpu, generation int) render.Input {
	h := &in.Board.Hosts[host]
	h.SnapshotAt = boardtest.Now.Add(time.Duration(generation) * time.Minute)
	g := &h.GPUs[gpu]
	g.State = board.Busy
	boardtest.Process(g, 4001, "mira", "train.py", 9000, boardtest.Now)
	boardtest.Process(g, 4002, "mira", "eval.py", 900, boardtest.Now)
	boardtest.Finish(in.Board)
	in.Board.GeneratedAt = h.SnapshotAt
	return in
}

// everyBrowser runs a test with a browser that can move an element as it is, and with one that cannot.
func everyBrowser(t *testing.T, test func(t *testing.T, b *browser.Browser)) {
	for name, script := range map[string]string{"moves": "",
		"takes out and puts in": "delete Element.prototype.moveBefore"} {
		t.Run(name, func(t *testing.T) {
			b := openBrowser(t, boardtest.Now.Add(14*time.Second))
			b.Before(script)
			test(t, b)
		})
	}
}

// TestBrowserRenewsUnderTheSearch: who types in the search sees the news, and neither text nor cursor moves.
func TestBrowserRenewsUnderTheSearch(t *testing.T) {
	everyBrowser(t, func(t *testing.T, b *browser.Browser) {
		dir := siteDir(t, boardtest.Lab())
		site := serve(t, dir, boardtest.Now.Add(14*time.Second))
		b.Do(chromedp.Navigate(site + "index.html"))
		b.Value(`document.getElementById("_query").focus()`)
		pressKeys(t, b, "atlas")
		pressKeys(t, b, kb.ArrowLeft)
		pressKeys(t, b, kb.ArrowLeft)
		b.Value(`window.field = document.activeElement`)
		free := b.Text("h1 em")
		rewriteIndex(t, dir, occupied(boardtest.Lab(), 0, 5, 1))

		// Characters that are being composed are not interrupted.
		b.Value(
			`(window.asked = 0, window.plain = fetch, window.fetch = async (...all) => { const r = await plain(...all); setTimeout(() => asked++, 1000); return r; })`)
		b.Value(
			`(field.dispatchEvent(new CompositionEvent("compositionstart", { bubbles: true })), document.dispatchEvent(new Event("visibilitychange")))`)
		b.Until("the request", "asked > 0")
		b.Value(`field.dispatchEvent(new CompositionEvent("compositionend", { bubbles: true }))`)
		renewed(t, b)
		if now := b.Text("h1 em"); now == free {
			t.Errorf("the page still says %s", now)
		}
		expect(t, b, `document.activeElement === field && field.isConnected`, "true")
		expect(t, b, `[field.value, field.selectionStart, field.selectionEnd].join()`, "atlas,3,3")
		expect(t, b, `[...document.querySelectorAll(".host:not([hidden])")].map(h => h.id).join()`, "atlas")
		pressKeys(t, b, "x")
		expect(t, b, `field.value + location.search`, "atlxas?q=atlxas")
		b.Quiet(site)
	})
}

// TestBrowserKeepsAnOpenPanel: a booking panel stays open with what was typed, and where, when there is news of its
// host. Around it are the news. Above a dozen hosts its rows are fetched again. What is typed stays in its place in the
// window, also when no GPU is free any more and so the command above the rows goes, and when it comes back.
func TestBrowserKeepsAnOpenPanel(t *testing.T) {
	for _, c := range []struct {
		name      string
		fleet     func() render.Input
		host, gpu int
		row       string
	}{
		{"rows of the page", boardtest.Lab, 0, 5, "#atlas-5"},
		{"fetched rows", func() render.Input { return boardtest.Big(rowHosts + 8) }, 5, 3, "#gpu005-3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			everyBrowser(t, func(t *testing.T, b *browser.Browser) {
				dir := siteDir(t, c.fleet())
				site := serve(t, dir, boardtest.Now.Add(14*time.Second))
				b.Size(1280, 500)
				b.Do(chromedp.Navigate(site + "index.html"))
				if c.host == 5 {
					b.Value(`document.querySelector("#gpu005 .users").click()`)
				}
				b.Until("the row", fmt.Sprintf(`!!document.querySelector("%s")`, c.row))
				b.Value(
					fmt.Sprintf(
						`(window.row = () => document.querySelector("%s"), window.panel = row().querySelector(".panel"), panel.open = true)`, c.row))
				b.Until("the fields", `!!panel.querySelector(".wish input[name=comment]")`)
				b.Value(`panel.querySelector("[name=comment]").focus()`)
				b.Value(`document.activeElement.scrollIntoView({ block: "center" })`)
				pressKeys(t, b, "half a")
				pressKeys(t, b, kb.ArrowLeft)
				b.Value(`(window.field = document.activeElement, window.was = row(), window.fieldTop = field.getBoundingClientRect().top)`)
				for generation := 1; generation <= 2; generation++ {
					fleet := c.fleet()
					gpus := fleet.Board.Hosts[c.host].GPUs
					for i := range gpus {
						if gpus[i].State == board.Free && generation == 1 {
							gpus[i].State = board.Busy
						}
					}
					next := occupied(fleet, c.host, c.gpu, generation)
					at := next.Board.Hosts[c.host].Name
					next.Board.Bookings = append(next.Board.Bookings,
						*boardtest.Booked(at, []int{c.gpu}, "kai", boardtest.At(9, 0, 0), boardtest.At(10, 0, 0), ""))
					republish(t, dir, next, generation)
					renewed(t, b)
					b.Until("the news in the row", `row() !== was && row().matches(".busy")`)
					b.Value(`window.was = row()`)
					expect(t, b, `row().querySelector(".panel") === panel && panel.isConnected && panel.open`, "true")
					expect(t, b, `row().querySelectorAll(".panel").length`, "1")
					expect(t, b, `panel.querySelector(".due").textContent.includes("kai")`, "true")
					expect(t, b, `document.activeElement === field`, "true")
					expect(t, b, `[field.value, field.selectionStart].join()`, "half a,5")
					expect(t, b, `Math.round(field.getBoundingClientRect().top - fieldTop)`, "0")
				}
				pressKeys(t, b, "x")
				expect(t, b, `panel.querySelector("code").textContent.includes("half xa")`, "true")
				b.Quiet(site)
			})
		})
	}
}

// TestBrowserKeepsUnchangedHosts: of a host of which there is nothing new all elements stay, in the order that was
// chosen, too.
func TestBrowserKeepsUnchangedHosts(t *testing.T) {
	b, whole := openBrowser(t, boardtest.Now.Add(14*time.Second)), t
	for _, query := range []string{"", "?order=free", "?q=free&rows=-gpu-load"} {
		t.Run(query, func(t *testing.T) {
			lab := boardtest.Lab()
			boardtest.Finish(lab.Board)
			lab.Board.GeneratedAt = boardtest.Now
			dir := siteDir(whole, lab)                                   // an icon may be asked for when the part has ended
			site := serve(whole, dir, boardtest.Now.Add(14*time.Second)) // an icon may be asked for when the part has ended
			b.Do(chromedp.Navigate(site + "index.html" + query))
			b.Value(`window.lines = [...document.querySelectorAll(".host .host-line")]`)
			for generation := 1; generation <= 2; generation++ {
				rewriteIndex(t, dir, occupied(boardtest.Lab(), 0, 5, generation))
				renewed(t, b)
				expect(t, b,
					`lines.filter(line => line.isConnected).length + " of " + document.querySelectorAll(".host").length`, "8 of 9")
				expect(t, b, `document.querySelectorAll(".host .fold").length`, "9")
			}
			expect(t, b, `document.querySelectorAll("button .copy-button,.line .line,th button button,.counts,h1").length`, "2")
			b.Do(chromedp.Navigate(site + "index.html" + query))
			fresh := `[...document.querySelectorAll(".host,.row,.off")].map(e => e.id + e.hidden + e.className).join()`
			want := b.Value(fresh)
			rewriteIndex(t, dir, lab)
			b.Do(chromedp.Navigate(site + "index.html" + query))
			rewriteIndex(t, dir, occupied(boardtest.Lab(), 0, 5, 2))
			renewed(t, b)
			expect(t, b, fresh, want)
			// What is clicked acts once.
			search := b.Value(`location.search`)
			b.Do(chromedp.Click(".counts a.busy"), chromedp.Click(".counts a.busy"))
			if query == "?order=free" {
				expect(t, b, `location.search`, search)
			}
		})
	}
	b.Quiet("http://127.0.0.1")
}

// TestBrowserLeavesASelectionAlone: text that somebody has selected stays, and is renewed when it is not selected any more.
func TestBrowserLeavesASelectionAlone(t *testing.T) {
	dir := siteDir(t, boardtest.Lab())
	site := serve(t, dir, boardtest.Now.Add(14*time.Second))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Do(chromedp.Navigate(site + "index.html?order=load"))
	b.Value(
		`(window.line = document.querySelector("#boreas .host-line"), getSelection().selectAllChildren(line.querySelector("h3")))`)
	b.Until("the selection", `String(getSelection()).includes("boreas")`)
	rewriteIndex(t, dir, occupied(boardtest.Lab(), 1, 0, 1))
	renewed(t, b)
	expect(t, b, `line.isConnected + String(getSelection()).trim()`, "trueboreas")
	b.Value(`getSelection().removeAllRanges()`)
	rewriteIndex(t, dir, occupied(boardtest.Lab(), 1, 0, 2))
	renewed(t, b)
	expect(t, b, `line.isConnected`, "false")
	b.Quiet(site)
}

// TestBrowserSelectsAgain: after a while the line with the selection is renewed, too, and what is still there is selected
// again.
func TestBrowserSelectsAgain(t *testing.T) {
	dir := siteDir(t, boardtest.Lab())
	site := serve(t, dir, boardtest.Now.Add(14*time.Second))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Before(laterByHand)
	b.Do(chromedp.Navigate(site + "index.html"))
	b.Value(`document.addEventListener("selectionchange", () => { window.noticed = true; })`)
	b.Value(
		`(window.line = document.querySelector("#boreas .host-line"), window.text = line.querySelector("h3 a").firstChild, getSelection().setBaseAndExtent(text, 5, text, 1))`)
	b.Until("the selection", `window.noticed && String(getSelection()) === "orea"`)
	b.Value(`later = 61000`)
	rewriteIndex(t, dir, occupied(boardtest.Lab(), 1, 0, 1))
	renewed(t, b)
	expect(t, b, `line.isConnected + String(getSelection()) + getSelection().anchorOffset`, "falseorea5")
	b.Quiet(site)
}

// TestBrowserStaysWhereItIs: what somebody has scrolled to, or where somebody types, stays there in the window when
// something above it comes.
func TestBrowserStaysWhereItIs(t *testing.T) {
	dir := siteDir(t, boardtest.Lab())
	site := serve(t, dir, boardtest.Now.Add(14*time.Second))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Size(800, 500)
	for name, focus := range map[string]string{
		"scrolled": "document.body", "scrolled, with focus": `row.querySelector("summary")`,
		"typing": `document.getElementById("_query")`,
	} {
		t.Run(name, func(t *testing.T) {
			rewriteIndex(t, dir, boardtest.Lab())
			b.Do(chromedp.Navigate(site + "index.html"))
			b.Value(`(window.row = document.querySelector("#ceres .row"), ` + focus + `.focus({ preventScroll: true }),
				window.seen = document.activeElement.matches("input") ? document.activeElement : row)`)
			if name != "typing" {
				b.Value(`row.scrollIntoView({ block: "center" })`)
			}
			b.Value(
				`(document.querySelector("h1").remove(), requestAnimationFrame(() => requestAnimationFrame(() => { window.painted = true; })))`)
			b.Until("a frame", `window.painted`)
			b.Value(
				`(window.id = seen.id, window.line = document.querySelector("#atlas .host-line"), window.before = seen.getBoundingClientRect().top)`)
			rewriteIndex(t, dir, occupied(boardtest.Lab(), 0, 5, 1))
			renewed(t, b)
			expect(t, b, `[line.isConnected, document.querySelector("h1").offsetHeight > 10].join()`, "false,true")
			expect(t, b, `Math.abs(document.getElementById(id).getBoundingClientRect().top - before) < 2`, "true")
		})
	}
	b.Quiet(site)
}

// laterByHand lets a test say by how many ms it is later than it is.
const laterByHand = `{ window.later = 0; const plain = performance.now.bind(performance); performance.now = () => plain() + later; }`

// TestBrowserLoadsAnUpgrade: a page whose style and scripts are not those of the site any more is loaded anew, once nobody
// types and no panel is open.
func TestBrowserLoadsAnUpgrade(t *testing.T) {
	dir := siteDir(t, boardtest.Lab())
	site := serve(t, dir, boardtest.Now.Add(14*time.Second))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Before(laterByHand)
	b.Do(chromedp.Navigate(site + "index.html"))
	b.Value(`(window.loaded = "before", document.getElementById("_query").focus())`)
	pressKeys(t, b, "atlas")
	b.Value(`document.querySelector("#atlas-5 .panel").open = true`)
	upgrade := func(generation int) {
		t.Helper()
		rewriteIndex(t, dir, occupied(boardtest.Lab(), 0, 5, generation))
		path := filepath.Join(dir, "index.html")
		index, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := regexp.MustCompile(`(<link rel="stylesheet" href="[^"]+\.css)"`).ReplaceAll(index, []byte(`$1?2"`))
		if string(changed) == string(index) {
			t.Fatal("the page has no style")
		}
		if err := os.WriteFile(path, changed, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
			t.Fatal(err)
		}
	}

	b.Value(`later = 61000`)
	upgrade(1)
	renewed(t, b)
	expect(t, b, `loaded + document.querySelector("#atlas-5 .panel").open`, "beforetrue")
	b.Value(`document.querySelector("#atlas-5 .panel").open = false`)
	b.Value(`document.getElementById("_query").focus()`)
	pressKeys(t, b, "x")
	upgrade(2)
	renewed(t, b)
	expect(t, b, `loaded + document.activeElement.value`, "beforeatlasx")
	b.Value(`later = 122000`)
	upgrade(3)
	b.Value(`document.dispatchEvent(new Event("visibilitychange"))`)
	b.Until("the new page", `window.loaded === undefined && document.getElementById("_query")?.value === "atlasx"`)
	b.Quiet(site)
}

// TestBrowserRenewsTheWall: the wall screen renews itself in place, without being loaded anew.
func TestBrowserRenewsTheWall(t *testing.T) {
	dir := siteDir(t, boardtest.Lab())
	site := serve(t, dir, boardtest.Now.Add(14*time.Second))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Do(chromedp.Navigate(site + "kiosk/index.html"))
	b.Value(`window.loaded = "once"`)
	free := b.Text("h1 em")
	republish(t, dir, occupied(boardtest.Lab(), 0, 5, 1), 1)
	renewed(t, b)
	if now := b.Text("h1 em"); now == free {
		t.Errorf("the wall still says %s", now)
	}
	expect(t, b, `window.loaded`, "once")
	b.Quiet(site)
}

// TestBrowserTurnsTheWall: where not all hosts fit on the screen of the wall, it shows groups of them in turn, also after an
// error page of a proxy, which it renews itself after.
func TestBrowserTurnsTheWall(t *testing.T) {
	in := boardtest.Big(150)
	dir := siteDir(t, in)
	var fails atomic.Bool
	var failed atomic.Int64
	files := http.FileServer(http.Dir(dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fails.Load() {
			failed.Add(1)
			http.Error(w, "<h1>502 Bad Gateway</h1>", http.StatusBadGateway)
			return
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Size(1920, 1080)
	b.Before(`{ const plain = setInterval; window.setInterval = (f, ms) => plain(f, ms / 5); }`)
	b.Do(chromedp.Navigate(server.URL + "/kiosk/index.html"))
	const shown = `[...document.querySelectorAll("#_wall > :not([hidden])")].map(host => host.textContent.trim()).join()`
	turned := func() (ids []string) {
		t.Helper()
		for _, page := range []string{"1 / 2", "2 / 2"} {
			b.Until("page "+page,
				`document.getElementById("_turn").offsetHeight > 0 && document.getElementById("_turn").textContent === "`+page+`"`)
			ids = append(ids, strings.Split(b.Value(shown), ",")...)
		}
		slices.Sort(ids)
		return slices.Compact(ids)
	}
	all := browser.Eval[int](b, `document.getElementById("_wall").children.length`)
	if ids := turned(); len(ids) != all || all < 100 {
		t.Errorf("of %d hosts, %d were shown: %q", all, len(ids), ids)
	}
	fails.Store(true)
	b.Value(`(window.loaded = "once", document.dispatchEvent(new Event("visibilitychange")))`)
	for end := time.Now().Add(time.Minute); failed.Load() == 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	fails.Store(false)
	republish(t, dir, occupied(in, 0, 5, 1), 1)
	renewed(t, b)
	if ids := turned(); len(ids) != all || failed.Load() == 0 {
		t.Errorf("after %d error pages, of %d hosts %d were shown: %q", failed.Load(), all, len(ids), ids)
	}
	expect(t, b, `window.loaded`, "once")
}

// A watchedSite counts how often its front page is asked for.
type watchedSite struct {
	http.Handler
	mu    sync.Mutex
	asked []time.Time
	hangs bool // the front page does not come
}

func (s *watchedSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		s.Handler.ServeHTTP(w, r)
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, time.Now())
	hangs := s.hangs
	s.mu.Unlock()
	if hangs {
		<-r.Context().Done()
		return
	}
	s.Handler.ServeHTTP(w, r)
}

// request waits for the n-th one of the front page.
func (s *watchedSite) request(t *testing.T, n int) time.Time {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		s.mu.Lock()
		asked := s.asked
		s.mu.Unlock()
		if len(asked) >= n {
			return asked[n-1]
		}
	}
	t.Fatalf("the front page was not asked for %d times", n)
	return time.Time{}
}

// TestBrowserAsksWhenTheNextIsDue: by the server's clock, though the device's differs. What has not come is asked for
// again after as long as it is overdue, and what hangs is given up.
func TestBrowserAsksWhenTheNextIsDue(t *testing.T) {
	in := boardtest.Lab()
	dir := siteDir(t, in)
	site := &watchedSite{Handler: http.FileServer(http.Dir(dir))}
	server := httptest.NewServer(site)
	t.Cleanup(server.Close)
	b := openBrowser(t, time.Time{})
	b.Before(`{ const plain = Date.now; Date.now = () => plain() + 40000; }`)
	b.Before(`{ const plain = AbortSignal.timeout; AbortSignal.timeout = (ms) => plain.call(AbortSignal, ms / 10); }`)
	b.Do(chromedp.Navigate("about:blank"))

	const next = 6 * time.Second
	in.Board.GeneratedAt, in.Board.Interval, in.Board.Next = time.Now().Truncate(time.Second), time.Minute, next
	rewriteIndex(t, dir, in)
	due := in.Board.Due()
	b.Do(chromedp.Navigate(server.URL + "/"))
	expect(t, b, `document.documentElement.dataset.next`, "6")
	site.request(t, 1)
	site.mu.Lock()
	site.hangs = true
	site.mu.Unlock()
	// A Date is of whole seconds, and this machine may have much to do. The interval is a minute.
	if late := site.request(t, 2).Sub(due); late < 900*time.Millisecond || late > 30*time.Second {
		t.Errorf("asked %v after it was due", late)
	}
	if again := site.request(t, 3).Sub(site.request(t, 2)); again < 2*time.Second || again > 45*time.Second {
		t.Errorf("what hung was asked for again after %v", again)
	}
	site.mu.Lock()
	site.hangs = false
	site.mu.Unlock()
	in.Board.GeneratedAt, in.Board.Next = time.Now().Truncate(time.Second), 50*time.Second
	rewriteIndex(t, dir, in)
	built := in.Board.GeneratedAt.Unix()
	b.Until("the next generation", fmt.Sprintf(`Date.parse(document.documentElement.dataset.built) === %d000`, built))

	// Where the network has come back, it is asked at once.
	site.mu.Lock()
	asked := len(site.asked)
	site.mu.Unlock()
	begin := time.Now()
	b.Value(`dispatchEvent(new Event("online"))`)
	if waited := site.request(t, asked+1).Sub(begin); waited > 30*time.Second {
		t.Errorf("asked %v after the network came back", waited)
	}
}
