package page_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"golang.org/x/net/html"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/internal/testenv/browser"
	"gpuboard/internal/testenv/need"
	"gpuboard/sitegen/render"
)

// fleet is a board of three hosts, with bookings of the next days.
func fleet(now time.Time) render.Input {
	at := func(h int) time.Time { return now.Add(time.Duration(h) * time.Hour) }
	b := &board.Board{GeneratedAt: now, Interval: time.Minute}
	for i, states := range [][]board.State{
		{board.Free, board.Free, board.Busy, board.Unknown},
		{board.Free, board.Booked, board.InUse, board.Lost},
		{board.Free, board.Free},
	} {
		h := board.Host{Name: string(rune('a'+i)) + "1", State: board.Up, SnapshotAt: now}
		for j, s := range states {
			memory := int64(81559)
			g := board.GPU{GPU: snapshot.GPU{Index: j, Name: "NVIDIA H100", MemoryTotal: &memory}, ShortName: "H100",
				State: s}
			if i == 2 {
				g.ShortName, g.Name, memory = "A10", "NVIDIA A10", 23028
			}
			h.GPUs = append(h.GPUs, g)
		}
		b.Hosts = append(b.Hosts, h)
	}
	for i, bk := range []struct {
		host             string
		gpu, from, until int
	}{{"a1", 1, 5, 6}, {"b1", 1, -1, 20}, {"b1", 2, -1, 8}, {"b1", 2, 9, 10}} {
		b.Bookings = append(b.Bookings, board.Booking{
			ID: fmt.Sprint(i), Host: bk.host, GPUs: []int{bk.gpu}, Name: "mira", From: at(bk.from), Until: at(bk.until),
			Active: bk.from < 0,
		})
	}
	b.Count()
	b.Models = []board.Model{{Name: "A10"}, {Name: "H100"}}
	return render.Input{Board: b, Site: render.Site{Zone: time.UTC, BookCommand: "gpuboard"}}
}

// diskSite writes a site to a directory, as a browser reads it from there.
func diskSite(t *testing.T, in render.Input) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range pages(t, in) {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return "file://" + dir + "/"
}

// TestSeveralFromDisk: where no server answers, the page composes the command, which reads the times and chooses.
// What is typed stands in it as it was typed, as words of a shell.
func TestSeveralFromDisk(t *testing.T) {
	in := fleet(time.Now().UTC().Truncate(time.Minute))
	tab := browser.Start(t, 1000, 900)
	browser.Call(tab, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Tokyo"})
	site := diskSite(t, in)
	command := func(q url.Values) string {
		tab.Open(site + "book/index.html?" + q.Encode())
		return browser.Eval[string](tab, `document.getElementById("_command").textContent`)
	}
	for _, tt := range []struct {
		asked url.Values
		want  string
	}{
		{url.Values{}, "gpuboard book --gpus 1 --until 2d --name NAME"},
		{
			url.Values{
				"gpus": {"4"}, "model": {"H100"}, "memory": {"40G"}, "one-host": {"1"}, "until": {"fri 18:00"},
				"name": {"eva"},
			},
			"gpuboard book --gpus 4 --model H100 --min-memory 40G --same-host --until 'fri 18:00' --name eva",
		},
		{
			url.Values{"at": {"a1:0,1 b1", "c1:0"}, "from": {"18:00"}, "until": {"whenever"},
				"comment": {`it's "$(reboot)"`}},
			`gpuboard book a1:0,1 b1 c1:0 --from 18:00 --until whenever --name NAME --comment 'it'\''s "$(reboot)"'`,
		},
		{url.Values{"at": {"$(reboot)"}, "gpus": {"3"}, "until": {""}}, "gpuboard book '$(reboot)' --name NAME"},
	} {
		if got := command(tt.asked); got != tt.want {
			t.Errorf("%v: the command is %s\nwant %s", tt.asked, got, tt.want)
		}
	}

	// It reads them in the site's zone, which the labels name, whatever zone the viewer is in.
	if zones := browser.Eval[string](tab,
		`[...document.querySelectorAll(".zone")].map(z => z.textContent).join()`); zones != "UTC,UTC" {
		t.Errorf("the labels name the zones %q", zones)
	}
	browser.Eval[bool](tab, fmt.Sprintf(pickTime, "#_until"))
	if got := tab.Text("#_command"); !strings.Contains(got, "--until '2030-05-02 18:00'") {
		t.Errorf("with a time of the date picker the command is %s", got)
	}
	// All of the command can be seen.
	command(url.Values{"at": {"a1:0"}, "name": {"eva"}, "comment": {strings.Repeat("a long reason ", 12)}})
	if !browser.Eval[bool](tab,
		`(c => c.scrollWidth <= c.clientWidth + 1 && document.documentElement.scrollWidth <= innerWidth)(document.getElementById("_command").parentNode)`) {
		t.Error("the command has to be scrolled sideways")
	}
	tab.Quiet("file://")
}

// pickTime chooses a time with the date picker beside a field.
const pickTime = `(p => { p.value = "2030-05-02T18:00"; return p.dispatchEvent(new Event("change")); })(document.querySelector("%s ~ .picker"))`

// TestFreeSpaceBeginsABooking: a click into the picture of the week leads to the form with the GPU and the hour that
// are free there; a link does so without a script, for the GPU that is free first. What is booked or lost leads nowhere.
func TestFreeSpaceBeginsABooking(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Hour)
	in := fleet(now)
	tab := browser.Start(t, 1200, 900)
	browser.Call(tab, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"})
	site := diskSite(t, in)
	for _, c := range []struct {
		where string  // what is clicked
		line  float64 // of it
		share float64 // of the week
		place string
		hours int // after midnight
	}{
		{"#_week-b1 .lines", 1, 0.5, "b1:1", 84},
		{"#_week-b1 .lines", 3, 0.5, "", 0}, // lost
		{"#_week-b1 .band", 0, 0.5, "b1:0", 84},
		{"#_week-a1 .band", 0, 0.99, "a1:0", 166},
	} {
		tab.Open(site + "bookings/index.html")
		box := browser.Eval[[]float64](tab,
			fmt.Sprintf(`(r => [r.left, r.top, r.width])(document.querySelector(%q).getBoundingClientRect())`, c.where))
		tab.Do(chromedp.MouseClickXY(box[0]+box[2]*c.share+1, box[1]+weekLine*c.line+9))
		if c.place == "" {
			if got := tab.Value("location.pathname"); !strings.HasSuffix(got, "/bookings/index.html") {
				t.Errorf("%v leads to %s", c, got)
			}
			continue
		}
		tab.Do(chromedp.WaitVisible("#_several"))
		want := now.Truncate(24 * time.Hour).Add(time.Duration(c.hours) * time.Hour).Format("2006-01-02 15:04-07:00")
		got := browser.Eval[[]string](tab,
			`["at", "from"].map(n => document.querySelector("#_several [name=" + n + "]").value)`)
		if got[0] != c.place || got[1] != want {
			t.Errorf("%v: it begins with %q, want %s and %s", c, got, c.place, want)
		}
	}
	page := string(fileAt(pages(t, in), "bookings/index.html"))
	if want := `<a class="band" href="../book/index.html?at=b1%3A0"><span class="visually-hidden">Book b1 0</span>`; !strings.Contains(page, want) {
		t.Errorf("the page lacks %s", want)
	}
}

// weekLine is how many pixels high the line of a GPU is in the picture of the week.
const weekLine = 18

// weekHosts are the hosts in the picture of the week, by name, and the line of those without bookings in each group.
func weekHosts(t *testing.T, in render.Input) (hosts map[string]*html.Node, without []*html.Node) {
	t.Helper()
	hosts = map[string]*html.Node{}
	for _, n := range within(docAt(t, in, "bookings/index.html"), "div", "week-host") {
		name := find(n, "summary")
		if name == nil {
			name = within(n, "", "host-name")[0]
		}
		if hasClass(n, "rest") {
			without = append(without, n)
		} else {
			hosts[textOf(name)] = n
		}
	}
	return hosts, without
}

// TestWeekCountsWhatIsFree: now as the board says, a little later what nobody has booked. What is lost, unknown,
// out of use or silent is never free, and hosts without bookings are named together.
func TestWeekCountsWhatIsFree(t *testing.T) {
	in := boardtest.Lab()
	in.Board.Hosts[7].State, in.Board.Hosts[7].GPUs[0].State = board.Up, board.Unknown
	b := boardtest.Booked("gaia", nil, "ops", boardtest.At(2, 0, 18), boardtest.At(3, 0, 18), "")
	b.Kind = "maintenance"
	in.Board.Bookings = append(in.Board.Bookings, *b,
		*boardtest.Booked("helios", []int{0}, "eva", boardtest.At(1, 0, 18), boardtest.At(2, 0, 18), ""))
	in.Board.Count()
	hosts, without := weekHosts(t, in)
	got := map[string]string{}
	for name, n := range hosts {
		band := within(n, "", "band")[0]
		parts := within(band, "rect", "")
		if parts == nil {
			got[name] = textOf(band)
		}
		for _, part := range parts {
			got[name] += attr(part, "class") + " "
		}
		for _, part := range within(band, "text", "") { // where there is room for one
			got[name] += ", " + textOf(part)
		}
	}
	for host, want := range map[string]string{
		"atlas":  "free5 free2 free5 free6 free7 free6 free7 free8 , 2, 5 of 8 free, 6 of 8 free, 7 of 8 free, 6 of 8 free, 7 of 8 free, 8 of 8 free",
		"boreas": "maintenance · new power supply",
		"fornax": "silent since Fri 07:40, not known to be free",
		"icarus": "never reported, not known to be free",
		"helios": "free0 , 0 of 1 free",
		"gaia":   "free8 free4 free8 free0 free8 , 1, 2 of 2 free, maintenance, 2 of 2 free",
		// Of four GPUs one is lost; of whole GPUs and slices, each has its number.
		"europa": "free4 free0 free4 free6 , 0, 3 of 4 free",
		"ceres":  "free8 free7 free4 free7 free8 , 3 + 3 MIG of 3 + 3 MIG free",
	} {
		if got[host] != want {
			t.Errorf("%s: %q\nwant %q", host, got[host], want)
		}
	}
	if without != nil {
		t.Errorf("without bookings are %s", textOf(without[0]))
	}
	in.Board.Bookings = nil
	_, without = weekHosts(t, in)
	rest := find(without[0], "p")
	if want := "without bookings, 4 + 1 MIG of 11 + 3 MIG free now: atlas ceres"; textOf(rest) != want ||
		attr(find(rest, "a"), "href") != "../book/index.html?at=atlas%3A4" {
		t.Errorf("without any booking: %q, want %q", textOf(rest), want)
	}
	if page := docAt(t, in, "bookings/index.html"); !strings.Contains(textOf(page), "Nothing is booked") {
		t.Error("the page does not say that nothing is booked")
	}
}

// TestWeekDrawsEqualBookingsOnce: on GPUs that follow each other they are one bar, and those that overlap stand below
// each other. What runs unbooked is a line up to now.
func TestWeekDrawsEqualBookingsOnce(t *testing.T) {
	in := boardtest.Big(1)
	h := &in.Board.Hosts[0]
	h.GPUs = h.GPUs[:5]
	for i := range h.GPUs {
		h.GPUs[i].State, h.GPUs[i].Booking, h.GPUs[i].Processes = board.Free, nil, nil
	}
	h.GPUs[4].State, h.GPUs[4].Since = board.Busy, boardtest.At(0, -2, 0)
	boardtest.Process(&h.GPUs[4], 1, "lea", "train.py", 1000, h.GPUs[4].Since)
	book := func(name string, from, until int, gpus ...int) board.Booking {
		return *boardtest.Booked(h.Name, gpus, name, boardtest.At(0, from, 18), boardtest.At(0, until, 18), "a comment")
	}
	in.Board.Bookings = []board.Booking{
		book("mira", -9, 48, 0), book("mira", -9, 48, 1), book("eva", 20, 24, 2), book("ada", 21, 40, 2),
		book("mira", -9, 48, 3),
	}
	in.Board.Colors = map[string]int{"mira": 3}
	in.Board.Count()
	hosts, _ := weekHosts(t, in)
	line := within(hosts[h.Name], "svg", "lines")[0]
	var got []string
	for _, b := range within(line, "svg", "bar") {
		text := find(b, "text")
		got = append(got, fmt.Sprintf("%s %s %s+%s %s", textOf(text), attr(b, "class"), attr(b, "y"), attr(b, "height"),
			attr(text, "class")))
	}
	want := []string{
		"mira a comment bar person3 1+33 ", "eva bar person0 beside 37+15 ",
		"ada a comment bar person0 55+15 needs-medium", "mira a comment bar person3 73+15 ",
		"lea, not booked bar person0 run beside 97+4 ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the bars are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if attr(line, "data-at") != "0 1 2 2 3 4" || attr(line, "height") != strconv.Itoa(6*weekLine) {
		t.Errorf("the lines are of %s, %s pixels high", attr(line, "data-at"), attr(line, "height"))
	}
}

// TestBrowserPanelsEndWhereTheNextBookingBegins: what the panel of a free GPU proposes, with and without
// the script, is what nobody has booked.
func TestBrowserPanelsEndWhereTheNextBookingBegins(t *testing.T) {
	next := time.Now().UTC().Add(5 * time.Hour).Truncate(time.Minute).Add(30 * time.Second)
	in := fleet(time.Now())
	in.Site.Zone = time.FixedZone("far", -5*3600)
	a1 := in.Board.Hosts[0].GPUs
	a1[0].FreeUntil, a1[1].FreeUntil = next.AddDate(0, 0, 3), next // one is far away
	for _, b := range in.Board.Bookings[:1] {
		b.From, b.Until = next, next.Add(time.Hour)
		in.Board.Bookings[0] = b
	}
	site := diskSite(t, in)
	tab := browser.Start(t, 1200, 900)
	browser.Call(tab, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"})
	for gpu, want := range []time.Time{{}, next.Truncate(time.Minute)} {
		panel := fmt.Sprintf("#a1-%d .panel", gpu)
		read := func() {
			t.Helper()
			command := strings.ReplaceAll(
				browser.Eval[string](tab, fmt.Sprintf("document.querySelector(%q).textContent", panel+" code")),
				"'",
				"",
			)
			typed := regexp.MustCompile(` --(?:for|until) (.*) --name`).FindStringSubmatch(command)
			if typed == nil {
				t.Fatalf("the command is %q", command)
			}
			until, _, err := booking.ParseUntil(typed[1], time.Time{}, time.Now(), time.UTC)
			if want.IsZero() != (typed[1] == "2d") || err != nil || !want.IsZero() && !until.Equal(want) {
				t.Errorf("%s: the command is %q, until %v, %v; want %v", panel, command, until, err, want)
			}
		}
		tab.Scripts(false)
		tab.Open(site + "index.html")
		tab.Scripts(true)
		read()
		tab.Open(site + "index.html")
		tab.Do(chromedp.Click(panel + " summary"))
		tab.Until("the fields", fmt.Sprintf("!!document.querySelector(%q)", panel+" .wish"))
		read()
		says := []string{"No other booking.", "Booked by mira: "}[gpu]
		if due := tab.Text(panel + " .due"); !strings.HasPrefix(due, says) {
			t.Errorf("%s: of other bookings it says %q, want %q", panel, due, says)
		}
	}
	// What somebody types counts for all panels.
	browser.Eval[bool](tab,
		`(i => { i.value = "3d"; return i.dispatchEvent(new Event("input")); })(document.querySelector("#a1-1 .panel [name=until]"))`)
	if command := tab.Text("#a1-1 .panel code"); !strings.Contains(command, " --until 3d ") {
		t.Errorf("with 3 d the command is %q", command)
	}
	tab.Do(chromedp.Click("#b1-0 .panel summary"))
	tab.Until("what was typed", `document.querySelector("#b1-0 .panel [name=until]")?.value === "3d"`)
}

// TestBrowserKeepsWhoTheViewerIs: without a booking form, somebody says once who they are; their GPUs are then counted
// and marked, also on the next visit, and the panel of a row that they have booked says how to extend that.
func TestBrowserKeepsWhoTheViewerIs(t *testing.T) {
	in := fleet(time.Now())
	in.Board.Hosts[1].GPUs[1].Booking = &in.Board.Bookings[1]
	site := serve(t, siteDir(t, in), time.Time{})
	tab := browser.Start(t, 1200, 900)
	tab.Open(site + "index.html")
	tab.Until("the question", `document.querySelector("#_mine button")?.textContent === "I am …"`)
	tab.Do(chromedp.Click("#_mine button"))
	tab.Do(chromedp.SendKeys("#_mine input", "Mira\r"))
	for range 2 {
		tab.Until("how many are hers", `document.querySelector("#_mine a")?.textContent === "Yours: 1 GPU"`)
		got := tab.Value(`[document.querySelector("#_mine a").search, document.querySelector("#_mine button").textContent,
			document.querySelectorAll(".signs .ring").length, document.querySelector(".row.mine th").textContent.trim()]`)
		if got != "?q=Mira,I am Mira,0,1" {
			t.Errorf("the head and the marks are %s", got)
		}
		tab.Open(site + "index.html")
	}
	tab.Do(chromedp.Click("#b1-1 .panel summary"))
	tab.Until("the command that extends her booking",
		`document.querySelector("#b1-1 .panel code").textContent === "gpuboard extend b1:1 --for 1d --name Mira"`)
	expect(t, tab, `document.querySelectorAll("#b1-1 .panel code")[1].textContent`, "gpuboard release b1:1 --name Mira")
}

// manyBookings are bookings of a fleet that go on on several pages: those of day 0 are
// running, those of day -2 are over, the others begin on their day.
func manyBookings(in render.Input, days ...int) render.Input {
	in.Board.Bookings = nil
	for i := range in.Board.Hosts {
		for j, day := range days {
			name := fmt.Sprintf("user%02d", (i+j)%40)
			in.Board.Bookings = append(in.Board.Bookings,
				*boardtest.Booked(in.Board.Hosts[i].Name, []int{j % 8}, name, boardtest.At(day, -1, 0),
					boardtest.At(day+1, -2, 0),
					fmt.Sprintf("run %d-%d", i, j)))
		}
	}
	return in
}

// waitFor waits until a script has this value, as what is fetched comes when it comes.
func waitFor(t *testing.T, b *browser.Browser, script, want string) {
	t.Helper()
	for deadline := time.Now().Add(need.Patience); b.Value(script) != want && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	expect(t, b, script, want)
}

func TestBrowserSearchesBookings(t *testing.T) {
	days := make([]int, 0, 100)
	for i := range 100 {
		days = append(days, i%20+3)
	}
	dir := siteDir(t, manyBookings(boardtest.Big(20), days...))
	site := serve(t, dir, boardtest.Now.Add(14*time.Second))
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	const (
		rows  = `[...document.querySelectorAll(".bookings tbody tr:not(.week-head)")].filter(r => r.offsetParent !== null).length`
		lanes = `[...document.querySelectorAll(".week-host")].filter(r => r.offsetParent !== null).length`
		found = `document.getElementById("_found").textContent`
		typed = `(s => { s.value = %q; s.dispatchEvent(new Event("input")); })(document.querySelector("[type=search]"))`
	)
	b.Do(chromedp.Navigate(site + "bookings/index.html"))
	expect(t, b, rows, "700")
	expect(t, b, found, "")
	expect(t, b, `[...document.querySelectorAll(".pager > *")].map(e => e.textContent).join()`, "1,2,3")
	b.Value(fmt.Sprintf(typed, "gpu007 user07"))
	waitFor(t, b, found, "3 of 2000 bookings match") // with those of the other pages
	expect(t, b, rows, "3")
	expect(t, b,
		`[...document.querySelectorAll(".bookings tbody tr:not(.week-head):not([hidden]) th a")].every(a => a.href.endsWith("/any/where/hosts/gpu007/index.html"))`, "true")
	expect(t, b, lanes, "1")
	expect(t, b, `location.search`, "?q=gpu007+user07")
	b.Value(fmt.Sprintf(typed, "RUN 19-99"))
	expect(t, b, rows, "1")  // by its comment
	expect(t, b, lanes, "1") // though its bar is not in the picture
	b.Value(fmt.Sprintf(typed, ""))
	expect(t, b, rows, "700")
	b.Quiet(site)

	b = openBrowser(t, boardtest.Now.Add(14*time.Second))
	b.Do(chromedp.Navigate("file://" + dir + "/bookings/index.html?q=user07"))
	expect(t, b, found+`.endsWith("of 700 bookings here match")`, "true")
	b.Quiet("file://" + dir)
}

// TestBookingsOfAThousandHosts: no page of them is large, and each booking is on one. The first has the picture of
// all hosts, as large as the front page.
func TestBookingsOfAThousandHosts(t *testing.T) {
	in := manyBookings(boardtest.Big(1000), 0, 1, 9)
	files := pages(t, in)
	rows := 0
	for _, f := range files {
		if !strings.HasPrefix(f.Path, "bookings/") {
			continue
		}
		most := 400_000
		if f.Path == "bookings/index.html" {
			most = 1_300_000
		}
		if n := zipped(t, f.Content); len(f.Content) > most || n > 100<<10 {
			t.Errorf("%s is %d bytes, %d gzipped", f.Path, len(f.Content), n)
		}
		rows += strings.Count(string(f.Content), `<td class="comment">`)
	}
	if rows != len(in.Board.Bookings) {
		t.Errorf("%d of %d bookings are listed", rows, len(in.Board.Bookings))
	}
}
