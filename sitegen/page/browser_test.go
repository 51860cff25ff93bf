package page_test

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
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

	"gpuboard/internal/testenv/boardtest"
	"gpuboard/internal/testenv/browser"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// pages are all files by path, the front page last.
func pages(t testing.TB, in render.Input) []render.File {
	t.Helper()
	files, err := siteFiles(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(files, func(x, y render.File) int { return strings.Compare(lastly(x.Path), lastly(y.Path)) })
	return files
}

// docAt is a page of a site.
func docAt(t testing.TB, in render.Input, path string) *html.Node {
	t.Helper()
	return parse(t, boardtest.FileOf(t, pages(t, in), path))
}

// within are the elements of a name below another that have a class; "" is any name, or any class.
func within(n *html.Node, name, class string) (list []*html.Node) {
	for _, e := range elements(n) {
		if (name == "" || e.Data == name) && (class == "" || hasClass(e, class)) {
			list = append(list, e)
		}
	}
	return list
}

// siteFiles are the files of a site with a look of its own.
func siteFiles(in render.Input, own fs.FS) ([]render.File, error) {
	return boardtest.Files(in, func(in render.Input) error { return page.Files(in, own) })
}

// lastly is a path by which the front page comes after all others.
func lastly(path string) string {
	if path == "index.html" {
		return "~"
	}
	return path
}

// siteDir writes the pages where a browser finds them.
func siteDir(t testing.TB, in render.Input) string {
	t.Helper()
	dir := t.TempDir()
	writeFiles(t, dir, pages(t, in))
	return dir
}

func writeFiles(t testing.TB, dir string, files []render.File) {
	t.Helper()
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// openBrowser starts a browser whose clock stands at now; a zero now is the real clock.
func openBrowser(t *testing.T, now time.Time) *browser.Browser {
	t.Helper()
	b := browser.Start(t, 1280, 1000)
	if !now.IsZero() {
		b.Clock(now)
	}
	return b
}

// serve serves a directory under a path, by this clock: pages go by the server's
// when it differs from the device's. A zero clock is the real one.
func serve(t testing.TB, dir string, clock time.Time) string {
	t.Helper()
	files := http.StripPrefix("/any/where", http.FileServer(http.Dir(dir)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !clock.IsZero() {
			w.Header().Set("Date", clock.UTC().Format(http.TimeFormat))
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/any/where/"
}

// TestShots takes pictures for people to look at: GPUBOARD_SHOTS=DIR go test -run TestShots
func TestShots(t *testing.T) {
	to := os.Getenv("GPUBOARD_SHOTS")
	if to == "" {
		t.Skip("GPUBOARD_SHOTS names no directory for pictures")
	}
	only := os.Getenv("GPUBOARD_SHOTS_ONLY")
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	rich, mid, big, stale := siteDir(t, boardtest.Lab()), siteDir(t, boardtest.Big(40)), siteDir(t, boardtest.Big(200)),
		siteDir(t, boardtest.Stale())
	two := boardtest.Lab()
	two.Board.Hosts, two.Board.Problems, two.Notice = two.Board.Hosts[4:6], nil, ""
	two.Board.Bookings, two.Board.NextFree = nil, nil
	boardtest.Finish(two.Board)
	small := siteDir(t, two)
	for _, shot := range []struct {
		name, url     string
		width, height int64
		dark          bool
		before        string
	}{
		{"light", rich + "/index.html", 1280, 0, false, ""},
		{"dark", rich + "/index.html", 1280, 1700, true, ""},
		{"open", rich + "/index.html", 1280, 1500, false,
			"document.querySelectorAll('.gpu-user details').forEach(d => d.open = true)"},
		{"phone", rich + "/index.html", 390, 2600, false, ""},
		{"two", small + "/index.html", 1280, 0, false, ""},
		{"mid", mid + "/index.html#gpu003", 1280, 1000, false, ""},
		{"big", big + "/index.html", 1280, 2200, false, ""},
		{"stale", stale + "/index.html", 1280, 1500, false, ""},
		{"host", rich + "/hosts/atlas/index.html", 1280, 0, false, "document.querySelector('.each').open = true"},
		{"stuckhost", rich + "/hosts/europa/index.html", 1280, 0, true,
			"document.querySelectorAll('.gpu-user details').forEach(d => d.open = true)"},
		{"user", rich + "/users/mira/index.html", 1280, 0, false, ""},
		{"bookings", rich + "/bookings/index.html", 1280, 0, false, ""},
		{"bookings-dark-phone", rich + "/bookings/index.html", 390, 0, true, ""},
		{"print", rich + "/index.html", 900, 1400, false, ""},
		{"about", rich + "/about/index.html", 1280, 0, false, ""},
		{"kiosk", rich + "/kiosk/index.html", 1920, 1080, true, ""},
	} {
		if only != "" && !strings.Contains(","+only+",", ","+shot.name+",") {
			continue
		}
		height := shot.height
		if height == 0 {
			height = 1000
		}
		b.Media("prefers-color-scheme", map[bool]string{true: "dark", false: "light"}[shot.dark])
		if shot.name == "print" {
			browser.Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
		}
		b.Do(chromedp.EmulateViewport(shot.width, height), chromedp.Navigate("file://"+shot.url))
		if shot.before != "" {
			b.Value(shot.before)
		}
		if file := filepath.Join(to, shot.name+".png"); shot.height == 0 {
			b.Screenshot(file)
		} else {
			b.Clip(file, shot.width, shot.height)
		}
	}
	b.Quiet("file://")
}

// scriptMarks are the properties that one part of a script alone uses, or has. A script keeps their names as it is made
// small.
func scriptMarks(t *testing.T, parts []string, own string) (marks []string) {
	t.Helper()
	property := regexp.MustCompile(`\.[A-Za-z]{4,}\b|\b[A-Za-z]{4,}:|\[data-[a-z]+\]`)
	of := map[string][]string{}
	for _, part := range parts {
		b, err := fs.ReadFile(templates.Files(), part)
		if err != nil {
			t.Fatal(err)
		}
		of[part] = property.FindAllString(regexp.MustCompile(`(?m)//.*$`).ReplaceAllString(string(b), ""), -1)
	}
	for _, mark := range of[own] {
		if !slices.ContainsFunc(parts, func(part string) bool { return part != own && slices.Contains(of[part], mark) }) {
			marks = append(marks, mark)
		}
	}
	return marks
}

// TestScriptsAreTheirParts: each script is all its parts in their order, and no part is
// forgotten.
func TestScriptsAreTheirParts(t *testing.T) {
	names, err := fs.Glob(templates.Files(), "script/*.js")
	if err != nil {
		t.Fatal(err)
	}
	in := boardtest.Lab()
	in.Site.Languages = []string{"en", "de"} // one part is only for several
	files := pages(t, in)
	var listed []string
	for _, s := range templates.Scripts() {
		listed = append(listed, s.Parts...)
		i := slices.IndexFunc(files, func(f render.File) bool {
			return strings.HasPrefix(f.Path, "assets/"+s.Name+".") && strings.HasSuffix(f.Path, ".js")
		})
		if i < 0 {
			t.Fatalf("there is no script %s", s.Name)
		}
		before := -1
		for _, name := range s.Parts {
			at := -1
			for _, mark := range scriptMarks(t, s.Parts, name) {
				if content := string(files[i].Content); at < 0 && strings.Count(content, mark) == 1 {
					at = strings.Index(content, mark)
				}
			}
			if at <= before {
				t.Errorf("the script %s does not have %s behind the part before it", s.Name, name)
			}
			before = at
		}
	}
	slices.Sort(listed) // a part may be in several scripts
	if listed = slices.Compact(listed); !slices.Equal(listed, names) {
		t.Errorf("the parts are %v, and listed are %v", names, listed)
	}
}

// TestScriptHasItsWords: the words of the site stand in its script as safe literals.
func TestScriptHasItsWords(t *testing.T) {
	dir := t.TempDir()
	const word = `a "b" </script> '\\ ${c} \n`
	text, err := json.Marshal(map[string]string{"js.copy": word})
	if err != nil {
		t.Fatal(err)
	}
	files, err := siteFiles(boardtest.Lab(), own(wordsFile("en"), string(text)))
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, files)
	b := openBrowser(t, boardtest.Now)
	b.Open("file://" + dir + "/index.html")
	expect(t, b, `document.querySelector(".copy-button").textContent`, word)
	b.Quiet("file://" + dir)
}

// TestBrowserReadsEveryPart: each part is a whole program text by itself, so that
// it can be read by itself.
func TestBrowserReadsEveryPart(t *testing.T) {
	b := openBrowser(t, time.Time{})
	var parts []string
	for _, s := range templates.Scripts() {
		parts = append(parts, s.Parts...)
	}
	for _, name := range append(parts, "broken") {
		part := []byte("if (true) {")
		if name != "broken" {
			var err error
			if part, err = fs.ReadFile(templates.Files(), name); err != nil {
				t.Fatal(err)
			}
		}
		got := b.Value(`(s => { try { new Function(s); return "whole"; } catch (e) { return e; } })(` +
			strconv.Quote(string(part)) + `)`)
		if (got == "whole") != (name != "broken") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestBrowserSpeaksTheSitesLanguage uses everything that the script adds to a page
// of a site in another language, and looks for a word that is not of that.
func TestBrowserSpeaksTheSitesLanguage(t *testing.T) {
	own, dir := foreignLook(t), t.TempDir()
	files, err := siteFiles(foreignFleets(t)["rich"], own)
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, files)
	const latin = `(() => {
		const out = [], other = "code,pre,samp,script,style,[lang=en]";
		const look = (what, text) => { if (/[A-Za-z]/.test(text.replace(/\b(UTC|GMT|MIG\b)/, ""))) { out.push(what + ": " + text.trim()); } };
		look("title", document.title);
		const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		while (walk.nextNode()) { if (!walk.currentNode.parentElement.closest(other)) { look("text", walk.currentNode.data); } }
		for (const e of document.body.querySelectorAll("*")) {
			for (const a of ["aria-label", "title", "placeholder", "alt"]) {
				if (e.hasAttribute(a) && !e.closest(other)) { look(a, e.getAttribute(a).replace(e.matches(".copy-button") ? e.previousElementSibling.textContent : "", "")); }
			}
		}
		return out.slice(0, 8).join("\n");
	})()`
	const index = `(() => {
		document.querySelectorAll("details").forEach(d => d.open = true);
		document.querySelectorAll("button:not(.fold):not(.copy-button)").forEach(b => b.click());
		document.dispatchEvent(new KeyboardEvent("keydown", {key: "?"}));
	})()`
	b := openBrowser(t, time.Time{})
	for _, c := range []struct {
		page, use, saw string
		clock          time.Time
	}{
		{"index.html", index, `document.querySelectorAll(".wish").length > 20`, boardtest.Now.Add(14 * time.Second)},
		{"index.html?q=%D1%8B&saved=1", "0", `document.getElementById("_found").textContent !== ""`,
			boardtest.Now.Add(14 * time.Second)},
		{"index.html", "0", `document.documentElement.classList.contains("dead-page")`,
			boardtest.Now.Add(3 * time.Hour)},
		{"index.html", "0", `document.documentElement.classList.contains("late")`, boardtest.Now.Add(3 * time.Minute)},
		{"index.html", "0", `document.querySelectorAll("#_state p").length === 1`, boardtest.Now.Add(-3 * time.Hour)},
		{"history/index.html",
			`document.querySelector("svg.chart").dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: 300, clientY: 10}))`, `!!document.querySelector(".tip").textContent`, boardtest.Now.Add(14 * time.Second)},
	} {
		b.Clock(c.clock)
		b.Open("file://" + dir + "/" + c.page)
		b.Value(c.use)
		if got := b.Value(c.saw); got != "true" {
			t.Errorf("%s: %s is %s: what the script adds is not there", c.page, c.saw, got)
		}
		if found := b.Value(latin); found != "" {
			t.Errorf("%s at %s says\n%s", c.page, c.clock.Format(time.TimeOnly), found)
		}
	}
}

// TestBrowserTellsTheViewersTime: who is in another zone than the site reads each
// time in their own, too.
func TestBrowserTellsTheViewersTime(t *testing.T) {
	dir := siteDir(t, boardtest.Lab())
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	for zone, want := range map[string]string{"Asia/Tokyo": "18:42", "Europe/Paris": ""} {
		browser.Call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})
		b.Open("file://" + dir + "/index.html")
		title, note := b.Value(`document.getElementById("_built").title`),
			b.Value(`(document.getElementById("_zone") || {}).textContent || ""`)
		if want == "" && title+note != "" || !strings.Contains(title, want) || !strings.Contains(note, want) {
			t.Errorf("in %s the moment of the page says %q, and the foot %q", zone, title, note)
		}
		if want != "" {
			// atlas 0 is booked until Sat 18:00 of the site.
			expect(t, b, `document.querySelector("#atlas-0 .gpu-booking time").title.includes("02:00")`, "true")
		}
	}
	b.Quiet("file://" + dir)
}
