package page_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"

	"gpuboard/internal/board"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// builtIn are the languages whose words are in the program, English first.
func builtIn(t testing.TB) []string {
	t.Helper()
	files, err := fs.Glob(templates.Files(), "words/*.json")
	if err != nil {
		t.Fatal(err)
	}
	list := []string{"en"}
	for _, name := range files {
		if lang := strings.TrimSuffix(path.Base(name), ".json"); lang != "en" {
			list = append(list, lang)
		}
	}
	return list
}

// builtInWords is what stands in the file of one language.
func builtInWords(t testing.TB, lang string) map[string]string {
	t.Helper()
	text, err := fs.ReadFile(templates.Files(), wordsFile(lang))
	if err != nil {
		t.Fatal(err)
	}
	var list map[string]string
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func wordsFile(lang string) string { return "words/" + lang + ".json" }

// pluralForm is the plural form of a number in a language, as Unicode calls it.
func pluralForm(tag language.Tag, n int) string {
	names := map[plural.Form]string{
		plural.Other: "other", plural.Zero: "zero", plural.One: "one", plural.Two: "two", plural.Few: "few",
		plural.Many: "many",
	}
	return names[plural.Cardinal.MatchPlural(tag, n, 0, 0, 0, 0)]
}

// pluralForms are the forms that whole numbers up to a thousand have in a language.
func pluralForms(tag language.Tag) []string {
	forms := map[string]bool{}
	for n := range 1000 {
		forms[pluralForm(tag, n)] = true
	}
	return slices.Sorted(maps.Keys(forms))
}

var (
	pluralKey = regexp.MustCompile(`^(.+)\.(zero|one|two|few|many|other)$`)
	// placeholder is a verb, with the number of its argument or without, or a name in braces.
	placeholder = regexp.MustCompile(`%(?:\[(\d)\])?([a-z%])|\{[a-z0-9]*\}|` + "`[^`]*`" + `|\]\([^)]*\)|\*\*`)
)

// placeholders are those of a text, each with the number of its argument.
func placeholders(text string) []string {
	var list []string
	next := 1
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		switch {
		case m[2] == "" || m[2] == "%":
			list = append(list, m[0])
		case m[1] != "":
			list = append(list, "%["+m[1]+"]"+m[2])
		default:
			list = append(list, fmt.Sprintf("%%[%d]%s", next, m[2]))
			next++
		}
	}
	slices.Sort(list)
	return list
}

// TestEveryLanguageIsWhole: no word is missing or left over, each has the places that
// the English one has, and what is counted has the plural forms of the language.
func TestEveryLanguageIsWhole(t *testing.T) {
	english := builtInWords(t, "en")
	counted := map[string]bool{}
	for key := range english {
		if m := pluralKey.FindStringSubmatch(key); m != nil && english[m[1]+".one"] != "" &&
			english[m[1]+".other"] != "" {
			counted[m[1]] = true
		}
	}
	for _, lang := range builtIn(t) {
		list, forms := builtInWords(t, lang), pluralForms(language.MustParse(lang))
		want := map[string]string{} // the English text by key
		for key, text := range english {
			m := pluralKey.FindStringSubmatch(key)
			if m == nil || !counted[m[1]] {
				want[key] = text
				continue
			}
			for _, form := range forms {
				want[m[1]+"."+form] = english[m[1]+".other"]
			}
		}
		for key, text := range want {
			switch got, ok := list[key]; {
			case !ok || got == "":
				t.Errorf("%s lacks %q: %q", wordsFile(lang), key, text)
			case strings.HasPrefix(key, "date."): // a language may name a day in its own way
			case !slices.Equal(placeholders(got), placeholders(text)):
				t.Errorf("%s: %q has the places %q, and in English %q", wordsFile(lang), key, placeholders(got),
					placeholders(text))
			}
		}
		for key := range list {
			if _, ok := want[key]; !ok {
				t.Errorf("%s has %q, which nothing asks for", wordsFile(lang), key)
			}
		}
		if _, err := page.NewBookPages(render.Site{Languages: []string{lang}}, nil); err != nil {
			t.Error(err)
		}
	}
}

// TestOwnLanguageFromOneFile: a site's own words make a language, with its plural
// forms and its numbers; what it does not translate is in English.
func TestOwnLanguageFromOneFile(t *testing.T) {
	in := boardtest.Lab()
	in.Site.Languages = []string{"cs"}
	if err := page.Files(in, nil); err == nil || !strings.Contains(err.Error(), "words/cs.json") {
		t.Errorf("words that are not there are reported as %v", err)
	}
	czech := own(wordsFile("cs"),
		`{"language": "Čeština", "free": "volná", "gpu.one": "%d karta", "gpu.few": "%d karty", "gpu.other": "%d karet", "index.free.other": "%d z %d volných", "date.week": "{time} {weekday}"}`)
	for n, want := range map[int]string{1: "1 karta lost", 3: "3 karty lost", 5: "5 karet lost"} {
		some := boardtest.Big(1)
		some.Site.Languages = in.Site.Languages
		for i := range n {
			some.Board.Hosts[0].GPUs[i] = board.GPU{State: board.Lost}
		}
		some.Board.Count()
		files, err := siteFiles(some, czech)
		if err != nil {
			t.Fatal(err)
		}
		if front := parse(t, boardtest.FileOf(t, files, "index.html")); !strings.Contains(textOf(front), want) {
			t.Errorf("the front page does not say that %d are lost as %q", n, want)
		}
	}
	files, err := siteFiles(in, czech)
	if err != nil {
		t.Fatal(err)
	}
	front := string(boardtest.FileOf(t, files, "index.html").Content)
	for _, want := range []string{`<html lang="cs"`, "</svg>volná", " z 31 volných</em>", "memory", "64,6 GiB"} {
		if !strings.Contains(front, want) {
			t.Errorf("the front page does not have %q", want)
		}
	}
	for _, lang := range []string{"../cs", "c s", ""} {
		in.Site.Languages = []string{lang}
		if err := page.Files(in, czech); err == nil {
			t.Errorf("%q is a language", lang)
		}
	}
}

// bilingual is a site in English, and in a second language below xx/.
func bilingual(t *testing.T, in render.Input) (files []render.File) {
	t.Helper()
	in.Site.Languages = []string{"en", "eo"}
	files, err := siteFiles(in, own(wordsFile("eo"),
		`{"language": "Esperanto", "free": "libera", "book.title": "Rezervi", "nav.gpus": "Procesoroj"}`))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestSecondLanguage: only pages are written twice, and each leads to itself in the
// other language.
func TestSecondLanguage(t *testing.T) {
	in := withHelp(boardtest.Remembered(boardtest.Lab()))
	one, two := map[string]bool{}, map[string]bool{}
	for _, f := range pages(t, in) {
		one[f.Path] = true
		if strings.Contains(string(f.Content), "hreflang") {
			t.Errorf("%s of a site in one language offers another", f.Path)
		}
	}
	files := bilingual(t, in)
	scripts := 0
	for _, f := range files {
		two[f.Path] = true
		if strings.HasPrefix(f.Path, "assets/board.") && strings.HasSuffix(f.Path, ".js") {
			scripts++
		}
	}
	if scripts != 2 {
		t.Errorf("there are %d scripts", scripts)
	}
	for name := range one {
		translated := strings.HasSuffix(name, ".html") && !strings.HasPrefix(name, "help/") && name != "404.html"
		if two["eo/"+name] != translated {
			t.Errorf("%s: it is %t that there is one below eo/", name, two["eo/"+name])
		}
	}
	for _, f := range htmlFiles(files) {
		name, lang, other := f.Path, "en", "eo/"+f.Path
		if below, ok := strings.CutPrefix(f.Path, "eo/"); ok {
			name, lang, other = below, "eo", below
		}
		doc := parse(t, f)
		if got := attr(find(doc, "html"), "lang"); got != lang {
			t.Errorf("%s is in %q", f.Path, got)
		}
		if strings.HasPrefix(name, "help/") || name == "404.html" {
			continue
		}
		leads := ""
		for _, n := range elements(doc) {
			if attr(n, "hreflang") != "" {
				leads += path.Join(path.Dir(f.Path), attr(n, "href"))
			}
			for _, key := range []string{"href", "src"} {
				to := strings.SplitN(path.Join(path.Dir(f.Path), attr(n, key)), "?", 2)[0]
				if strings.HasPrefix(to, "assets/") && !two[to] {
					t.Errorf("%s: %s is not there", f.Path, attr(n, key))
				}
			}
		}
		if leads != other {
			t.Errorf("%s leads to %s in the other language", f.Path, leads)
		}
	}
}

// TestBrowserFindsItsLanguage: a new visitor sees the language that the browser asks
// for, and from then on the one that was chosen.
func TestBrowserFindsItsLanguage(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, bilingual(t, boardtest.Lab()))
	site := serve(t, dir, boardtest.Now)
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	asks := func(langs string) {
		b.Before(`Object.defineProperty(navigator, "languages", {configurable: true, get: () => ` + langs + `})`)
	}
	at := func(page, lang, where string) {
		t.Helper()
		if page != "" {
			b.Open(site + page)
		}
		b.Until("the page in "+lang,
			`document.readyState === "complete" && document.documentElement.lang === "`+lang+`"`)
		expect(t, b, `location.pathname + location.search + location.hash`, "/any/where/"+where)
	}
	asks(`["fr-FR", "eo-XX", "en"]`)
	at("index.html?q=free#atlas", "eo", "eo/?q=free#atlas")
	b.Value(`document.querySelector(".languages a").click()`)
	at("", "en", "")
	at("index.html", "en", "")
	at("hosts/atlas/index.html", "en", "hosts/atlas/")
	at("eo/hosts/atlas/index.html", "eo", "eo/hosts/atlas/")
	b.Value(`localStorage.clear()`)
	asks(`["fr-FR"]`)
	at("index.html", "en", "")
	b.Quiet(site)
}

// TestBrowserFitsInEveryLanguage: no page is wider than a narrow window, and nothing
// lies on anything, in any language.
func TestBrowserFitsInEveryLanguage(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	in.Site.Languages = builtIn(t)
	dir := siteDir(t, in)
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	for i, lang := range in.Site.Languages {
		root := dir + "/"
		if i > 0 {
			root += lang + "/"
		}
		for _, page := range []string{"index.html", "hosts/atlas/index.html", "hosts/atlas/history/index.html",
			"history/index.html", "users/mira/index.html", "bookings/index.html", "about/index.html",
			"kiosk/index.html"} {
			b.Do(chromedp.EmulateViewport(1280, 900), chromedp.Navigate("file://"+root+page))
			if got := b.Value(overlaps); got != "" {
				t.Errorf("%s in %s: words lie on others in %s", page, lang, got)
			}
			b.Do(chromedp.EmulateViewport(320, 640))
			b.Value(`document.querySelectorAll("details").forEach(d => d.open = true)`)
			if got := b.Value(`document.documentElement.scrollWidth`); got != "320" {
				t.Errorf("%s in %s is %s pixels wide", page, lang, got)
			}
		}
	}
}

// TestCountsAgreeInNumber: of one, nothing is said in the plural. English and German have the same words for one and
// for several in many sentences; French and Spanish do not.
func TestCountsAgreeInNumber(t *testing.T) {
	for _, tt := range []struct{ lang, of, one, several string }{
		{"fr", "card.free", "1 libre", "2 libres"}, {"es", "card.free", "1 libre", "2 libres"},
		{"fr", "index.lost", "1 perdu", "2 perdus"}, {"es", "index.lost", "1 perdida", "2 perdidas"},
		{"fr", "index.held", "1 alloué mais inactif", "2 alloués mais inactifs"},
		{"es", "index.held", "1 asignada sin actividad", "2 asignadas sin actividad"},
		{"fr", "ask.idle.gpus", "1 inactif", "2 inactifs"}, {"es", "ask.idle.gpus", "1 inactiva", "2 inactivas"},
		{"fr", "bookings.of", " sur 1 libre", " sur 2 libres"}, {"de", "card.free", "1 frei", "2 frei"},
	} {
		w := templates.NewWords(builtInWords(t, tt.lang),
			func(n int) string { return pluralForm(language.MustParse(tt.lang), n) }, nil)
		if one, several := w.Count(1, tt.of, "1"), w.Count(2, tt.of, "2"); one != tt.one || several != tt.several {
			t.Errorf("%s: %q and %q, want %q and %q", tt.lang, one, several, tt.one, tt.several)
		}
	}
}
