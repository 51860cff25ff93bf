package page

import (
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"

	"gpuboard/internal/testenv/boardtest"
	"gpuboard/internal/testenv/browser"
	"gpuboard/templates"
)

// TestScriptsAreTheirParts: each script is all its parts in their order, and no part is
// forgotten.
func TestScriptsAreTheirParts(t *testing.T) {
	names, err := fs.Glob(templates.Files(), "script/*.js")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, s := range templates.Scripts() {
		listed = append(listed, s.Parts...)
		want := "\"use strict\";\n(function () {\n"
		for _, name := range s.Parts {
			b, err := fs.ReadFile(templates.Files(), name)
			if err != nil {
				t.Fatal(err)
			}
			want += string(b) + "\n"
		}
		if got, err := script(s, true); err != nil || string(got) != want+"})();\n" {
			t.Errorf("the script %s is not its parts in their order: %v", s.Name, err)
		}
	}
	slices.Sort(listed) // a part may be in several scripts
	if listed = slices.Compact(listed); !slices.Equal(listed, names) {
		t.Errorf("the parts are %v, and listed are %v", names, listed)
	}
}

// TestScriptHasItsWords: the words of the site stand in a script as safe literals.
func TestScriptHasItsWords(t *testing.T) {
	w := englishWords(t)
	w.list["js.copy"] = `a "b" </script> '\`
	got, err := w.fillScript([]byte(`x = '{{t "js.copy"}}';`))
	if want := `x = "a \"b\" \u003c/script\u003e '\\";`; err != nil || string(got) != want {
		t.Errorf("the words are %s (%v), want %s", got, err, want)
	}
	if _, err := w.fillScript([]byte(`x = '{{t "js.missing"}}';`)); err == nil ||
		!strings.Contains(err.Error(), "js.missing") {
		t.Errorf("a word is missing, and the error is %v", err)
	}
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
				if (e.hasAttribute(a) && !e.closest(other)) { look(a, e.getAttribute(a).replace(e.matches(".cpy") ? e.previousElementSibling.textContent : "", "")); }
			}
		}
		return out.slice(0, 8).join("\n");
	})()`
	const index = `(() => {
		document.querySelectorAll("details").forEach(d => d.open = true);
		document.querySelectorAll("button:not(.fold):not(.cpy)").forEach(b => b.click());
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
		{"index.html", "0", `document.documentElement.classList.contains("dead-page")`, boardtest.Now.Add(3 * time.Hour)},
		{"index.html", "0", `document.documentElement.classList.contains("late")`, boardtest.Now.Add(3 * time.Minute)},
		{"index.html", "0", `document.querySelectorAll("#_state p").length === 1`, boardtest.Now.Add(-3 * time.Hour)},
		{"history/index.html",
			`document.querySelector("svg.ch").dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: 300, clientY: 10}))`, `!!document.querySelector(".tip").textContent`, boardtest.Now.Add(14 * time.Second)},
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
			expect(t, b, `document.querySelector("#atlas-0 .k time").title.includes("02:00")`, "true")
		}
	}
	b.Quiet("file://" + dir)
}
