package page_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/net/html"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// foreign writes a text in letters that no word of the program's has, so that
// every word that is left in Latin letters was put there by Go or by the script.
func foreign(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return 'а' + r - 'a'
		case r >= 'A' && r <= 'Z':
			return 'А' + r - 'A'
		}
		return r
	}, s)
}

var (
	latin = regexp.MustCompile(`[A-Za-z]`)
	// verbatim is what is no word: verbs, places, entities, code, where a link leads.
	verbatim = regexp.MustCompile("%[a-z%]|\\{[a-z]*\\}|&[a-z]+;|&#[0-9]+;|`[^`]*`|\\]\\([^)]*\\)")
)

// around applies f to what lies between the matches of keep.
func around(keep *regexp.Regexp, s string, f func(string) string, kept func(string) string) string {
	var b strings.Builder
	at := 0
	for _, m := range keep.FindAllStringIndex(s, -1) {
		b.WriteString(f(s[at:m[0]]))
		b.WriteString(kept(s[m[0]:m[1]]))
		at = m[1]
	}
	b.WriteString(f(s[at:]))
	return b.String()
}

func same(s string) string { return s }

func foreignWords(s string) string { return around(verbatim, s, foreign, same) }

// foreignLook is a site's own look with the built-in words in another language.
func foreignLook(t testing.TB) fs.FS {
	t.Helper()
	words := map[string]string{}
	for key, text := range builtInWords(t, "en") {
		words[key] = foreignWords(text)
		if strings.HasPrefix(key, "date.") {
			words[key] = text
		}
	}
	b, err := json.Marshal(words)
	if err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{wordsFile("en"): &fstest.MapFile{Data: b}}
}

// codes are what words of a board's are no words for people: they have theirs in
// the words.
var codes = []string{"Code", "Message", "Check", "Reason", "Kind", "State"}

// foreignData puts into those letters every text that came from nodes and people.
func foreignData(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() && v.Type() != reflect.TypeFor[*time.Location]() {
			foreignData(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			foreignData(v.Index(i))
		}
	case reflect.Map:
		if v.Type().Key() == reflect.TypeFor[string]() {
			old := map[string]reflect.Value{}
			for _, k := range v.MapKeys() {
				old[k.String()] = v.MapIndex(k)
				v.SetMapIndex(k, reflect.Value{})
			}
			for k, x := range old {
				v.SetMapIndex(reflect.ValueOf(foreign(k)), x)
			}
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && !slices.Contains(codes, v.Type().Field(i).Name) {
				foreignData(f)
			}
		}
	case reflect.String:
		if v.Type() == reflect.TypeFor[string]() || v.Type() == reflect.TypeFor[snapshot.ProcessType]() {
			v.SetString(foreign(v.String()))
		}
	}
}

// allCodes are all codes that the words has a sentence for.
func allCodes(t testing.TB) []string {
	t.Helper()
	var list []string
	for key := range builtInWords(t, "en") {
		if code, ok := strings.CutPrefix(key, "code."); ok {
			list = append(list, code)
		}
	}
	slices.Sort(list)
	return list
}

// foreignFleets are fleets of every size and on every bad day, one of them with
// every problem that there is, in which nothing is in Latin letters but codes and
// the program's own messages.
func foreignFleets(t testing.TB) map[string]render.Input {
	list := fleets()
	every := boardtest.Lab()
	for _, code := range append(allCodes(t), "new:unheard-of") {
		p := snapshot.Problem{Code: code, Message: "raw words of " + code}
		every.Board.Problems = append(every.Board.Problems, p)
		p.Host, p.GPU, p.File, p.Line, p.Col = "helios", new(0), "comments.json", 4, 2
		every.Board.Problems = append(every.Board.Problems, p)
		every.Board.Hosts[7].Problems = append(every.Board.Hosts[7].Problems, p)
	}
	g := &every.Board.Hosts[0].GPUs[0]
	g.PState, g.MIGMode, g.ThrottleReasons = "P0", "enabled", []string{"power cap"}
	g.Fan, g.UtilizationMemory, g.ClockSM, g.ClockMemory, g.RetiredPages = new(
		30), new(20), new(1980), new(2619), new(0)
	g.PCIeWidth, g.PCIeWidthMax = new(8), new(16)
	g.XID = &snapshot.XID{Code: 79, At: snapshot.TimeOf(boardtest.At(-1, 0, 0))}
	every.Board.Hosts[0].GPUs[1].XID = &snapshot.XID{Code: 999, At: snapshot.TimeOf(boardtest.At(-1, 0, 0))}
	g.ECC = &snapshot.ECC{Mode: "enabled", CorrectedVolatile: new(int64(1))}
	g.RemappedRows = &snapshot.Remapped{Correctable: new(1), Pending: new(true), Failure: new(true)}
	g.MemoryShared, g.Fabric = true, &snapshot.Fabric{Status: "Success", CliqueID: new(1)}
	for i, reason := range []string{board.ReasonHost, board.ReasonBooking, board.ReasonStale, board.ReasonUnasked,
		board.ReasonLost, board.ReasonMissing, board.ReasonDead, board.ReasonUnowned, board.ReasonUtilization,
		board.ReasonUnreadable} {
		every.Board.Hosts[3].GPUs[i%8].State, every.Board.Hosts[3].GPUs[i%8].Reason = board.Lost, reason
	}
	every.Board.Hosts[6].Datacenter, every.Board.Hosts[6].GoneSince = "dc", boardtest.At(-1, 0, 0)
	every.Board.Hosts[6].Node.DiskUsers = []snapshot.DiskUser{{Path: "/scratch", User: "lea", Used: 4000}}
	every.Board.BookingsStaleSince = boardtest.At(0, 0, -9)
	list["every"] = every
	for name, in := range list {
		in.Site = render.Site{
			Title: "Board", Lab: "Lab", Version: "1", Zone: time.FixedZone("ЗОНА", 3600), Interval: time.Minute,
			BookCommand: "x", CommentsPath: "c",
		}
		in.Notice, in.HostNotes = foreign(in.Notice), nil
		if name != "empty" && name != "bare" {
			in = boardtest.Remembered(in)
		}
		foreignData(reflect.ValueOf(in.Board))
		if in.History != nil {
			foreignData(reflect.ValueOf(in.History))
		}
		in.Site.Title, in.Site.Lab, in.Site.Energy.Currency = foreign(in.Site.Title), foreign(in.Site.Lab),
			foreign(in.Site.Energy.Currency)
		list[name] = in
	}
	return list
}

// TestWordsStandInTheirListAlone makes a site in another language, by its words
// alone, and looks for a word that is still in this one.
func TestWordsStandInTheirListAlone(t *testing.T) {
	own := foreignLook(t)
	latinScript(t)
	kinds := map[string]bool{}
	for name, in := range foreignFleets(t) {
		files, err := siteFiles(in, own)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range htmlFiles(files) {
			kinds[kindOf(f.Path)] = true
			latinWords(t, name+" "+f.Path, parse(t, f))
		}
	}
	for path, content := range bookForms(t, own) {
		kinds["book "+path] = true
		latinWords(t, path, parse(t, render.NewFile("", content)))
	}
	for _, kind := range []string{"index.html", "hosts", "users", "bookings", "history", "about", "kiosk", "book",
		"book form", "book offer", "book too few", "book none"} {
		if !kinds[kind] {
			t.Errorf("no page of kind %q was looked at, only %v", kind, kinds)
		}
	}
}

// latinScript looks at the parts of the scripts that have their words, for one that stands there by itself. What the
// others show in a browser, TestBrowserSpeaksTheSitesLanguage sees.
func latinScript(t *testing.T) {
	t.Helper()
	list := 0
	for _, part := range []string{"script/words.js", "script/bookwords.js"} {
		text, err := fs.ReadFile(templates.Files(), part)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range regexp.MustCompile(`['"][^'"\n]*['"][,\n]`).FindAllString(string(text), -1) {
			if list++; latin.MatchString(verbatim.ReplaceAllString(word, "")) && !strings.HasPrefix(word, `'{{t "`) {
				t.Errorf("%s says %s", part, word)
			}
		}
	}
	if list < 30 {
		t.Errorf("the scripts have %d words", list)
	}
}

// bookForms are the pages of the form, in good and in bad moments.
func bookForms(t *testing.T, own fs.FS) map[string][]byte {
	t.Helper()
	p, err := page.NewBookPages(render.Site{Title: foreign("Board"), Zone: time.FixedZone("ЗОНА", 3600)}, own)
	if err != nil {
		t.Fatal(err)
	}
	host, now := foreign("atlas"), boardtest.Now
	memory := int64(1)
	fleet := &board.Board{
		GeneratedAt: now, Models: []board.Model{{Name: foreign("H100")}},
		Hosts: []board.Host{{
			Name: host, Title: foreign("Atlas"), GPUs: []board.GPU{{State: board.Free}, {State: board.Stuck}},
		}},
	}
	fleet.Hosts[0].GPUs[1].Index, fleet.Hosts[0].GPUs[0].Name = 1, foreign("H100")
	lines := []booking.Booking{
		{
			ID: "1", Host: host, Target: booking.Target{All: true, Index: -1}, Name: foreign("eva"), By: foreign("kai"),
			From: boardtest.At(-1, 0, 0), Kind: booking.Maintenance,
		},
		{
			ID: "2", Host: host, Target: booking.Target{}, Name: foreign("mira"), From: boardtest.At(1, 0, 0),
			Until: boardtest.At(300, 0, 0),
		},
	}
	all := page.Book{
		User: foreign("eva"), ForOthers: true, Now: now, Board: fleet,
		Mine: func(booking.Booking) bool { return true },
		Say:  "time", Detail: "raw words", Field: "until", Standing: lines, Clashes: lines, Saved: lines, At: lines[:1],
		Jobs: []booking.Job{
			{Place: host, Who: snapshot.Owner{Person: foreign("kai")}, Program: foreign("train"), Since: now,
				Memory: memory},
			{Place: host},
			{Place: host, Unknown: true},
		},
	}
	one := page.Book{
		User: foreign("eva"), Now: now, Board: fleet, Mine: all.Mine, At: lines[1:], Released: true,
	}
	offered := page.Book{
		User: foreign("eva"), Now: now, Board: fleet, Mine: all.Mine, Standing: lines,
		Wish:  &board.Wish{GPUs: 1, From: now},
		Offer: &board.Offer{Units: []board.Unit{{Host: &fleet.Hosts[0], GPU: &fleet.Hosts[0].GPUs[0]}}},
	}
	few, none := offered, offered
	few.Offer, none.Offer = &board.Offer{Fit: 2, Open: 1, Next: boardtest.At(5, 0, 0)}, &board.Offer{Fit: 1}
	forms := map[string][]byte{}
	for name, b := range map[string]page.Book{"form": all, "plain form": one, "offer": offered, "too few": few,
		"none": none} {
		if forms[name], err = p.Book(b); err != nil {
			t.Fatal(err)
		}
	}
	return forms
}

// latinWords reports what a reader sees or hears in Latin letters. What stands in
// code is for machines, and the program's messages and the documentation are said
// to be in English.
func latinWords(t *testing.T, page string, n *html.Node) {
	t.Helper()
	switch n.Type {
	case html.TextNode:
		if latin.MatchString(n.Data) {
			t.Errorf("%s says %q", page, strings.TrimSpace(n.Data))
		}
	case html.ElementNode:
		switch n.Data {
		case "code", "pre", "script", "style":
			return
		case "samp":
			if attr(n, "lang") != "en" {
				t.Errorf("%s: <samp> does not say in which language it is", page)
			}
		case "title":
			if strings.Contains(page, " help/") {
				return // of a page of the documentation, which is in one language
			}
		}
		if attr(n, "lang") == "en" {
			return
		}
		for _, a := range n.Attr {
			heard := slices.Contains(
				[]string{"aria-label", "title", "placeholder", "alt", "data-unit", "data-name"},
				a.Key,
			)
			if heard && latin.MatchString(verbatim.ReplaceAllString(a.Val, "")) {
				t.Errorf("%s: %s=%q", page, a.Key, a.Val)
			}
		}
	}
	for c := range n.ChildNodes() {
		latinWords(t, page, c)
	}
}

// headsOf are the keys of the heads of tables, in the form of what a regular expression finds.
func headsOf(text string) (found [][]string) {
	for _, heads := range regexp.MustCompile(`@heads\(w, \d(?:,\s*"[^"]+")+,?\s*\)`).FindAllString(text, -1) {
		found = append(found, regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(heads, -1)...)
	}
	return found
}

// TestEveryWordIsThere holds what Go, the components and the script ask of the
// words to what there is.
func TestEveryWordIsThere(t *testing.T) {
	english := builtInWords(t, "en")
	asked := regexp.MustCompile(
		`(?:\bt|\blist\[|\bT\(|say\(|Prose\(|tab\(f, "[a-z]*", "[^"]*",|(?:paragraph|form|around|timed)\((?:p\.Words|w),|built\(p\.Frame,|quantity\([^"\n]*,|number\([^"\n]*,|[Cc]ount\([^"\n]*,) ?"([a-z0-9.-]+)"`,
	)
	n := 0
	for _, pattern := range []string{"*.go", "../../templates/*.go", "../../templates/*.templ",
		"../../templates/script/words.js", "../../templates/script/bookwords.js"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatal(pattern, names, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_templ.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range append(asked.FindAllStringSubmatch(string(text), -1), headsOf(string(text))...) {
				ok := strings.HasSuffix(m[1], ".") // and the rest is put behind it
				for _, key := range []string{m[1], "sign." + m[1], m[1] + ".one"} {
					ok = ok || english[key] != ""
				}
				if n++; !ok {
					t.Errorf("%s asks for %q, which %s has not", name, m[1], wordsFile("en"))
				}
			}
		}
	}
	if n < 400 {
		t.Errorf("only %d questions were found", n)
	}
}
