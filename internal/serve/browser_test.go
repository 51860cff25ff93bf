package serve_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"gpuboard/internal/booking"
	"gpuboard/internal/demo"
	"gpuboard/internal/inventory"
	"gpuboard/internal/serve"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/browser"
	"gpuboard/internal/testenv/need"
	"gpuboard/sitegen"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
)

// A lab is a small fleet with a generator and a server, for a real browser.
type lab struct {
	t     *testing.T
	dir   string
	fleet *demo.Fleet
	hosts []inventory.Host
	url   string
	page  *browser.Browser

	generated time.Time // the latest generation
}

func newLab(t *testing.T) *lab {
	t.Helper()
	tab := browser.Start(t, 1280, 1000)
	now := time.Now().UTC()
	l := &lab{t: t, dir: t.TempDir(), fleet: demo.New(1, now), page: tab}
	for _, h := range l.fleet.Hosts()[:2] {
		l.hosts = append(l.hosts, inventory.Host{Name: h.Name})
	}
	l.write("data/comments.json", "{\n  // nobody yet\n}\n")
	l.write("users", "eva:"+hashed(t, "secret")+"\nmira:"+hashed(t, "secret")+"\n")
	l.generate()

	pages, err := page.NewBookPages(render.Site{Title: "Lab", Zone: time.UTC}, nil)
	if err != nil {
		t.Fatal(err)
	}
	auth, err := serve.NewAuth(serve.AuthOptions{Passwords: l.path("users"), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	h, err := serve.Handler(serve.Options{Site: l.path("site"), Auth: auth, Booking: &serve.BookingOptions{
		File: func() serve.File { return booking.Open(l.path("data/comments.json"), booking.Zone{Location: time.UTC}) }, Zone: time.UTC, FileZone: booking.Zone{Location: time.UTC}, Pages: pages, Now: time.Now, Aliases: func() booking.Aliases { return nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	l.url = server.URL
	return l
}

func (l *lab) path(name string) string { return filepath.Join(l.dir, filepath.FromSlash(name)) }

func (l *lab) write(name, content string) {
	l.t.Helper()
	if err := os.MkdirAll(filepath.Dir(l.path(name)), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(l.path(name), []byte(content), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

// generate makes a generation from fresh news of all hosts. As in the loop that makes them, the next one begins a second
// later at the earliest: a page says when it was built in whole seconds, and of two in one second the browser knows one.
func (l *lab) generate() {
	l.t.Helper()
	time.Sleep(time.Until(l.generated.Add(time.Second)))
	now := time.Now().UTC()
	l.generated = now
	for _, h := range l.hosts {
		s := l.fleet.Snapshot(h.Name, now)
		raw, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: h.Name, BootID: s.BootID, Snapshot: s, Samples: []snapshot.Sample{s.Sample()}})
		if err != nil {
			l.t.Fatal(err)
		}
		l.write("data/drop/"+h.Name+"/latest.json.gz", string(raw))
	}
	g, err := sitegen.New(sitegen.Options{
		Data: l.path("data"), Site: l.path("site"), State: l.path("state"),
		Inventory: func(_ context.Context, now time.Time, _ inventory.Known) inventory.Inventory {
			return inventory.Inventory{Hosts: l.hosts, AsOf: now}
		},
		About: render.Site{Title: "Lab", Zone: time.UTC, Interval: 20 * time.Second, BookCommand: "gpuboard", CommentsPath: "data/comments.json"},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := g.Generate(l.t.Context(), now); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) bookings() []booking.Booking {
	l.t.Helper()
	data, err := os.ReadFile(l.path("data/comments.json"))
	if err != nil {
		l.t.Fatal(err)
	}
	return booking.Parse("comments.json", data, booking.Zone{Location: time.UTC}, booking.Options{}).Bookings
}

// until waits for something that the page does by itself.
func (l *lab) until(what, expression string) {
	l.t.Helper()
	l.page.Until(what, expression)
}

func (l *lab) do(actions ...chromedp.Action[chromedp.Void]) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.page.Ctx, need.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		l.t.Fatal(err)
	}
}

// click clicks on an element as a keyboard does: a pointer would miss what moves while answers arrive.
func (l *lab) click(selector string) {
	l.t.Helper()
	l.until(selector, fmt.Sprintf(`document.querySelector(%q)?.getClientRects().length > 0`, selector))
	browser.Eval[bool](l.page, fmt.Sprintf(`(document.querySelector(%q).click(), true)`, selector))
}

// fill types into a field in the place of what is there.
func (l *lab) fill(selector, text string) {
	l.t.Helper()
	browser.Eval[bool](l.page, fmt.Sprintf(`(document.querySelector(%q).select(), true)`, selector))
	l.do(chromedp.SendKeys(selector, text))
}

func TestBrowserBooks(t *testing.T) {
	l := newLab(t)
	// On the board: the panel composes, and finds out that there is a form.
	l.page.Open(l.url + "/")
	free := browser.Eval[string](l.page, `document.querySelector(".row.free").id`)
	host, gpu := free[:strings.LastIndex(free, "-")], free[strings.LastIndex(free, "-")+1:]
	row := "#" + free
	l.click(row + " .panel summary")
	l.until("the offer of the form", fmt.Sprintf(`document.querySelector("%s .panel > p").textContent === "book it here"`, row))
	l.fill(row+" .wish input[name=name]", "eva")
	l.fill(row+" .wish input[name=until]", "2d 6h")
	if got, want := browser.Eval[string](l.page, fmt.Sprintf(`document.querySelector("%s .panel code").textContent`, row)), "gpuboard book "+host+":"+gpu+" --until '2d 6h' --name eva"; got != want {
		t.Errorf("the command is %q, want %q", got, want)
	}
	l.until("the times", fmt.Sprintf(`/^\w+ \d+ \w+ \d\d:\d\d – .* UTC$/.test(document.querySelector("%s .wish + .says").textContent)`, row))
	l.fill(row+" .wish input[name=comment]", "from the panel")
	// Her browser asks for the password; a test writes it into the address. What was
	// typed stands in the form.
	href := browser.Eval[string](l.page, fmt.Sprintf(`document.querySelector("%s .panel a").href`, row))
	if want := l.url + "/book/index.html?at=" + host + "%3A" + gpu + "&name=eva&until=2d+6h&comment=from+the+panel"; href != want {
		t.Fatalf("the link leads to %q, want %q", href, want)
	}
	open := func(user string) {
		l.page.Open(strings.Replace(href, "http://", "http://"+user+":secret@", 1))
	}
	open("eva")
	if typed := browser.Eval[string](l.page, `["_until", "_comment"].map(id => document.getElementById(id).value).join("|")`); typed != "2d 6h|from the panel" {
		t.Errorf("on the way to the form this was left: %q", typed)
	}

	// A slip, which loses nothing of what was typed.
	l.fill("#_comment", `<img src=x onerror="document.title='owned'">`)
	l.fill("#_until", "2026/11/22")
	l.click("#_form p > button")
	l.until("the refusal", `!!document.getElementById("_say")`)
	if say := l.page.Text("#_say"); !strings.Contains(say, "with slashes") {
		t.Errorf("it says %q", say)
	}
	if typed := browser.Eval[string](l.page, `document.getElementById("_comment").value`); !strings.HasPrefix(typed, "<img") {
		t.Errorf("the comment is %q by now", typed)
	}
	l.fill("#_until", "2d")
	l.click("#_form p > button")
	l.until("the word that it is saved", `(s => s && s.textContent.includes("Saved.") && s.textContent.includes("`+host+` `+gpu+`"))(document.getElementById("_saved"))`)
	if all := l.bookings(); len(all) != 1 || all[0].Name != "eva" || time.Until(all[0].Until).Round(time.Hour) != 48*time.Hour {
		t.Fatalf("bookings %+v", all)
	}
	// On the board it is not free, though the board does not have it yet.
	l.page.Open(l.url + "/" + strings.TrimPrefix(browser.Eval[string](l.page, `document.querySelector("#_saved a").getAttribute("href")`), "../"))
	l.until("the word that it is saved", `document.getElementById("_state").textContent.startsWith("Saved.")`)
	if state := browser.Eval[string](l.page, fmt.Sprintf(`document.querySelector("%s .chip").className + " " + document.querySelector("%s .chip").textContent.trim() + " " + document.querySelector("%s .chip use").getAttribute("href")`, row, row, row)); state != "chip booked booked #_booked" {
		t.Errorf("before the next generation the GPU is %q", state)
	}
	l.generate()
	l.until("the booking on the board", fmt.Sprintf(`document.querySelector("%s .gpu-booking").textContent.includes("eva")`, row))
	l.until("the word going away", `document.getElementById("_state").textContent === ""`)
	if title := browser.Eval[string](l.page, `document.title`); title == "owned" {
		t.Error("a comment ran")
	}

	// Another person is told who has it, by the panel and by the form.
	l.click(row + " .panel summary")
	l.until("the panel", fmt.Sprintf(`!!document.querySelector("%s .wish")`, row))
	l.fill(row+" .wish input[name=name]", "mira")
	if search := browser.Eval[string](l.page, `location.search`); search != "" {
		t.Errorf("the address keeps %q, so that loading it again would say once more that something is saved", search)
	}
	l.until("who has it", fmt.Sprintf(`document.querySelector("%s .due li:not(.bad)")?.textContent.startsWith("Booked by eva: ")`, row))
	l.fill(row+" .wish input[name=from]", "now")
	l.until("who is in the way", fmt.Sprintf(`document.querySelector("%s .due .bad")?.textContent.startsWith("Booked by eva: ")`, row))
	l.fill(row+" .wish input[name=from]", "2030-05-02")
	l.until("the way", fmt.Sprintf(`document.querySelectorAll("%s .due li:not(.bad)").length === 1`, row))
	l.fill(row+" .wish input[name=until]", "2026/11/22")
	l.until("what is wrong with a time", fmt.Sprintf(`document.querySelector("%s .wish + .says.bad")?.textContent.includes("with slashes")`, row))
	open("mira")
	l.fill("#_until", "1d")
	l.click("#_form p > button")
	l.until("the refusal", `!!document.getElementById("_say")`)
	if say := l.page.Text("#_say"); !strings.Contains(say, "already booked") || !strings.Contains(say, "eva") {
		t.Errorf("it says %q", say)
	}
	if len(l.bookings()) != 1 {
		t.Errorf("bookings %+v", l.bookings())
	}

	// She extends it, and lets go of it.
	open("eva")
	l.fill(`.standing input[name=end]`, "1d")
	l.click(`.standing button[value=extend]`)
	l.until("the word that it is done", `!!document.getElementById("_saved")`)
	if all := l.bookings(); len(all) != 1 || time.Until(all[0].Until).Round(time.Hour) != 72*time.Hour {
		t.Fatalf("bookings %+v", all)
	}
	open("eva")
	l.click(`.standing button[value=release]`)
	l.until("the word that it is done", `!!document.getElementById("_saved")`)
	if all := l.bookings(); len(all) != 1 || all[0].Until.After(time.Now()) {
		t.Fatalf("bookings %+v", all)
	}
	l.generate()
	l.page.Open(l.url + "/")
	if k := l.page.Text(row + " .gpu-booking"); strings.Contains(k, "eva") {
		t.Errorf("released, and the row says %q", k)
	}

	// One that has not begun leaves no trace.
	open("eva")
	l.fill("#_from", "tomorrow 9:00")
	l.fill("#_until", "1d")
	l.click("#_form p > button")
	l.until("the word that it is done", `!!document.getElementById("_saved")`)
	if all := l.bookings(); len(all) != 2 || !all[1].From.After(time.Now()) || all[1].Until.Sub(all[1].From).Round(2*time.Hour) != 24*time.Hour {
		t.Fatalf("bookings %+v", all)
	}
	open("eva")
	l.click(`.standing button[value=release]`)
	l.until("the word that it is done", `!!document.getElementById("_saved")`)
	if all := l.bookings(); len(all) != 1 || all[0].Until.After(time.Now()) {
		t.Fatalf("deleted before it began, and there are %+v", all)
	}
	if data, err := os.ReadFile(l.path("data/comments.json")); err != nil || !strings.Contains(string(data), "// nobody yet") {
		t.Errorf("the comment in the file is gone: %v\n%s", err, data)
	}
	for _, line := range l.page.Console() {
		// A refusal is a page with a status that the browser notes.
		if !strings.Contains(line, "422") && !strings.Contains(line, "409") {
			t.Errorf("the console says %q", line)
		}
	}
}

// TestBrowserPanelFromDisk reads the site as a file, where there is no server to ask: the panel says who has booked the
// GPU, and what is typed stands in the command as it was typed.
func TestBrowserPanelFromDisk(t *testing.T) {
	l := newLab(t)
	until := time.Now().UTC().Add(30 * time.Hour).Truncate(time.Minute)
	l.write("data/comments.json", fmt.Sprintf(`{%q: {"1": {"name": "Kai", "date": %q}, "2": [{"name": "sam", "from": %q, "date": %q}]}}`,
		l.hosts[0].Name, until.Format("2006-01-02 15:04"), until.Format("2006-01-02 15:04"), until.Add(time.Hour).Format("2006-01-02 15:04")))
	l.generate()
	row := "#" + l.hosts[0].Name + "-"
	// A zone that is behind, and not by whole hours.
	browser.Call(l.page, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "America/St_Johns"})
	for _, page := range []string{"index.html", "hosts/" + l.hosts[0].Name + "/index.html"} {
		panel := func(gpu, name, end, comment string) (due, command string) {
			l.page.Open("file://" + l.path("site/"+page))
			l.click(row + gpu + " .panel summary")
			l.until("the panel", fmt.Sprintf(`!!document.querySelector("%s .wish")`, row+gpu))
			for i, text := range []string{name, end, comment} {
				if text != "" {
					l.fill(fmt.Sprintf("%s .wish input[name=%s]", row+gpu, []string{"name", "until", "comment"}[i]), text)
				}
			}
			return l.page.Text(row + gpu + " .due"), l.page.Text(row + gpu + " .panel code")
		}
		// All bookings of others, in the viewer's own time.
		ends := browser.Eval[string](l.page, fmt.Sprintf(`new Date(%d).toLocaleTimeString("en", {hour: "2-digit", minute: "2-digit", hour12: false})`, until.UnixMilli()))
		cases := []struct{ gpu, name, due string }{
			{"2", "eva", "Booked by sam: "}, {"2", "SAM", "No other booking."}, {"1", "eva", "Booked by Kai: "}, {"1", "kai", "No other booking."}, {"0", "eva", "No other booking."},
		}
		if page != "index.html" {
			cases = cases[:1] // it is the same script
		}
		for _, tt := range cases {
			if due, _ := panel(tt.gpu, tt.name, "", ""); !strings.HasPrefix(due, tt.due) || strings.HasPrefix(due, "Booked") && !strings.Contains(due, ends) {
				t.Errorf("%s: GPU %s, %s: it says %q, want %q with %s", page, tt.gpu, tt.name, due, tt.due, ends)
			}
		}
		// On a page that is older than the end of a booking.
		panel("1", "eva", "", "")
		browser.Eval[bool](l.page, fmt.Sprintf(`(document.querySelector("%s .panel i").dataset.until = "2020-01-01T00:00:00Z", true)`, row+"1"))
		l.fill(row+"1 .wish input[name=until]", "2h")
		if due := l.page.Text(row + "1 .due"); due != "No other booking." {
			t.Errorf("%s: a booking that is over is listed: %q", page, due)
		}
		// What a shell makes of the command is what was typed. The labels name the zone in which it is read.
		name, end, comment := `Eva O'Neil`, "2099-03-04 05:06", `"$(reboot)" \ ¼ <b>`
		_, command := panel("0", name, end, comment)
		out, err := exec.Command("sh", "-c", `printf '%s\n' `+command).Output()
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		if want := []string{"gpuboard", "book", l.hosts[0].Name + ":0", "--until", end, "--name", name, "--comment", comment}; !slices.Equal(words, want) {
			t.Errorf("%s: a shell makes of %s\n%q, want %q", page, command, words, want)
		}
		if zones := l.page.Value(fmt.Sprintf(`[...document.querySelectorAll("%s0 .zone")].map(z => z.textContent)`, row)); zones != "UTC,UTC" {
			t.Errorf("%s: the labels name the zones %s", page, zones)
		}
		// The entry to paste has a time of its own, so it goes where another one was typed.
		if shown := l.page.Value(fmt.Sprintf(`document.querySelectorAll("%s0 .panel p:not([hidden]) > .line > code").length`, row)); shown != "1" {
			t.Errorf("%s: %s lines to copy", page, shown)
		}
		// Nothing of it is lost on the way to the page that books several.
		href, err := url.Parse(browser.Eval[string](l.page, fmt.Sprintf(`document.querySelector("%s .panel a").href`, row+"0")))
		if err != nil || href.Path != l.path("site/book/index.html") {
			t.Fatalf("%s: the link leads to %v, %v", page, href, err)
		}
		want := url.Values{"at": {l.hosts[0].Name + ":0"}, "until": {end}, "name": {name}, "comment": {comment}}
		if q := href.Query(); q.Encode() != want.Encode() {
			t.Errorf("%s: the link says %v, want %v", page, q, want)
		}
	}
	l.page.Quiet("file://" + l.dir)
}

// TestBrowserAnswersTimes: the server reads times as they are typed, in the viewer's zone, which the labels name. In the
// panel, the command then means the same wherever it is typed.
func TestBrowserAnswersTimes(t *testing.T) {
	l := newLab(t)
	browser.Call(l.page, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Tokyo"})
	place := l.hosts[0].Name + ":0"
	open := func() {
		l.page.Open(strings.Replace(l.url, "http://", "http://eva:secret@", 1) + "/book/?at=" + place)
	}
	zones := func() string {
		return l.page.Value(`[...document.querySelectorAll(".zone")].map(z => z.textContent)`)
	}
	l.page.Scripts(false)
	open()
	l.page.Scripts(true)
	if named := zones(); named != "UTC,UTC" {
		t.Errorf("without JavaScript the labels name %s", named)
	}
	open()
	l.until("the viewer's zone", `document.querySelector(".zone").textContent === "Asia/Tokyo"`)
	l.fill("#_from", "2099-03-04 05:06")
	l.fill("#_until", "2026/11/22")
	l.until("what is wrong", `document.querySelector("#_says.bad")?.textContent.includes("with slashes")`)
	l.fill("#_until", "6h")
	l.until("the times", `document.getElementById("_says").textContent === "4 Mar 2099 05:06 – 4 Mar 2099 11:06 JST"`)
	// A time of the date picker is read like one that was typed.
	l.fill("#_from", "now")
	browser.Eval[bool](l.page, `(p => { p.value = "2030-05-02T18:00"; return p.dispatchEvent(new Event("change")); })(document.querySelector("#_until ~ .picker"))`)
	if typed := l.page.Value(`document.getElementById("_until").value`); typed != "2030-05-02 18:00" {
		t.Errorf("the picker fills in %q", typed)
	}
	l.click("#_form p > button")
	l.until("whether it may be booked over others, or the word that it is saved", `!!document.getElementById("_saved") || !!document.getElementById("_say")`)
	if l.page.Value(`!!document.getElementById("_say")`) == "true" { // somebody uses it
		l.click("[name=over]")
		l.click("#_form p > button")
		l.until("the word that it is saved", `!!document.getElementById("_saved")`)
	}
	want := time.Date(2030, 5, 2, 9, 0, 0, 0, time.UTC)
	if all := l.bookings(); len(all) != 1 || !all[0].Until.Equal(want) {
		t.Fatalf("bookings %+v", all)
	}
	// All times of the page are in that zone.
	l.until("the times of the page", `[...document.querySelectorAll("time")].some(t => /2030.* 18:00/.test(t.textContent))`)

	// An offer for an address without a zone is made in that zone, too.
	l.page.Open(l.url + "/book/?gpus=1&from=2030-05-02+18:00&until=2d")
	l.until("the offer", `document.querySelector(".offer [name=from]")?.value === "2030-05-02 18:00 +09:00"`)
	l.until("its times", `/ 18:00/.test(document.querySelector(".offer time").textContent)`)

	l.page.Open(l.url + "/")
	panel := "#" + l.hosts[1].Name + "-0 .panel"
	l.click(panel + " summary")
	l.until("the offer of the form", fmt.Sprintf(`document.querySelector("%s .go")?.textContent === "book it here"`, panel))
	l.fill(panel+" [name=until]", "2030-05-02 18:00")
	l.until("the command", fmt.Sprintf(`document.querySelector("%s code").textContent.includes(" --until 2030-05-02T18:00:00+09:00 ")`, panel))
	l.until("the zone", fmt.Sprintf(`document.querySelector("%s .zone").textContent === "Asia/Tokyo"`, panel))
	for _, line := range l.page.Console() {
		if !strings.Contains(line, "409") { // a refusal is a page with a status that the browser notes
			t.Errorf("the console says %q", line)
		}
	}
}

// TestBrowserRenewalKeepsWhatIsTyped: the page is renewed under an open panel.
func TestBrowserRenewalKeepsWhatIsTyped(t *testing.T) {
	l := newLab(t)
	row := "#" + l.hosts[0].Name + "-0"
	l.page.Open(l.url + "/")
	l.until("the next second", `Math.floor(Date.now() / 1000) > Date.parse(document.documentElement.dataset.built) / 1000`)
	l.page.Open(l.url + "/?saved=1") // renewed every two seconds, until there is news
	l.click(row + " .panel summary")
	l.until("the panel", fmt.Sprintf(`!!document.querySelector("%s .wish")`, row))
	l.fill(row+" .wish input[name=comment]", "half a sen")
	built := browser.Eval[string](l.page, `document.documentElement.dataset.built`)
	l.generate()
	l.until("the renewal", fmt.Sprintf(`document.documentElement.dataset.built !== %q`, built))
	l.until("the panel with what was typed", fmt.Sprintf(`document.querySelector("%s .panel").open && document.querySelector("%s .wish input[name=comment]")?.value === "half a sen"`, row, row))
}

// TestBrowserBooksSeveral goes from the front page to two GPUs that are booked, in at
// most eight clicks and fields, and undoes it.
func TestBrowserBooksSeveral(t *testing.T) {
	l := newLab(t)
	l.page.Open(strings.Replace(l.url, "http://", "http://eva:secret@", 1) + "/book/") // her browser keeps the password
	l.page.Open(l.url + "/")
	acts := 0
	click := func(selector string) { acts++; l.click(selector) }
	fill := func(selector, text string) { acts++; l.fill(selector, text) }
	click(".finder a.go")
	l.until("the form", `!!document.querySelector("#_form [name=gpus]")`)
	fill("#_count", "2")
	fill("#_memory", "10G")
	click("#_one")
	fill("#_until", "2d")
	click("#_form p > button")
	l.until("the offer", `!!document.querySelector(".offer form button")`)
	click(".offer form button")
	l.until("what was saved", `!!document.getElementById("_saved")`)
	if acts > 8 {
		t.Errorf("it took %d clicks and fields", acts)
	}
	if all := l.bookings(); len(all) != 2 || all[0].Host != all[1].Host || all[0].Name != "eva" || all[0].OverAt(time.Now()) {
		t.Fatalf("bookings %+v", all)
	}
	l.click("#_saved form button")
	l.until("the word that it is undone", `document.getElementById("_saved")?.textContent.includes("Released.")`)
	for _, b := range l.bookings() {
		if !b.OverAt(time.Now()) {
			t.Errorf("undone, and there is %+v", b)
		}
	}
}

// TestBrowserExtendsFromTheRow: why one's own booking cannot be extended is said in the panel of its row, which loses
// nothing; then it is extended by what is typed.
func TestBrowserExtendsFromTheRow(t *testing.T) {
	l := newLab(t)
	l.write("data/comments.json", fmt.Sprintf(`{%q: {"0": {"name": "eva", "date": %q}}}`, l.hosts[0].Name, time.Now().UTC().Add(5*time.Hour).Format("2006-01-02 15:04")))
	l.generate()
	l.page.Open(strings.Replace(l.url, "http://", "http://eva:secret@", 1) + "/book/") // her browser keeps the password
	row := "#" + l.hosts[0].Name + "-0"
	panel := row + " .panel"
	l.page.Open(l.url + "/")
	l.click(panel + " summary")
	l.until("her booking", fmt.Sprintf(`document.querySelectorAll("%s .standing form").length === 1`, panel))
	if end := browser.Eval[string](l.page, fmt.Sprintf(`document.querySelector("%s .standing [name=end]").value`, panel)); end != "1d" {
		t.Errorf("it proposes to extend by %q", end)
	}
	l.fill(panel+" .standing [name=end]", "2026/11/22")
	l.click(panel + " .standing [value=extend]")
	l.until("the refusal", fmt.Sprintf(`document.querySelector("%s .refusal")?.textContent.includes("with slashes")`, panel))
	l.fill(panel+" .standing [name=end]", "2d")
	l.click(panel + " .standing [value=extend]")
	l.until("what was saved", fmt.Sprintf(`document.querySelector("%s .done")?.textContent.includes("booked by you")`, row))
	if all := l.bookings(); len(all) != 1 || time.Until(all[0].Until).Round(time.Hour) != 53*time.Hour {
		t.Fatalf("bookings %+v", all)
	}
}
