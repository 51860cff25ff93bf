package page_test

import (
	"bytes"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/render"
	"gpuboard/sitegen/text"
)

const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'"

// rowHosts is up to how many hosts the front page has the rows of their GPUs.
const rowHosts = 12

func fleets() map[string]render.Input {
	demo := boardtest.Big(3)
	demo.Board.Demo = true
	return map[string]render.Input{
		"rich":  withHelp(boardtest.Lab()),
		"stale": boardtest.Stale(),
		"empty": {Board: &board.Board{GeneratedAt: boardtest.Now}},
		"dense": boardtest.Big(13),  // more than the front page has rows of
		"huge":  boardtest.Big(201), // more than the wall screen has a sign for each GPU of
		"demo":  demo,
		"sites": boardtest.WithSites(boardtest.Lab()),
		"front": boardtest.WithSites(render.Input{Board: &board.Board{GeneratedAt: boardtest.Now}}),
		"bare": {Board: &board.Board{GeneratedAt: boardtest.Now, Hosts: []board.Host{
			{Name: "a", State: board.Up, GPUs: []board.GPU{{State: board.Free}}},
			{Name: "a-0", State: board.Down},
		}}},
	}
}

func parse(t testing.TB, f render.File) *html.Node {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(f.Content))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func elements(doc *html.Node) []*html.Node {
	var list []*html.Node
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			list = append(list, n)
		}
	}
	return list
}

func htmlFiles(files []render.File) []render.File {
	return slices.DeleteFunc(slices.Clone(files),
		func(f render.File) bool { return !strings.HasSuffix(f.Path, ".html") })
}

func TestPagesAreValid(t *testing.T) {
	for name, in := range fleets() {
		t.Run(name, func(t *testing.T) { wholeSite(t, in) })
	}
	t.Run("languages", func(t *testing.T) {
		in := withHelp(boardtest.Remembered(boardtest.Lab()))
		in.Site.Languages = builtIn(t)
		wholeSite(t, in)
	})
}

// wholeSite checks every page of a site, by itself and as one of many.
func wholeSite(t *testing.T, in render.Input) {
	t.Helper()
	files := pages(t, in)
	if last := files[len(files)-1].Path; last != "index.html" {
		t.Errorf("the last file is %s: it would refer to what is not there yet", last)
	}
	have := map[string]map[string]bool{} // path → ids
	for _, f := range files {
		if have[f.Path] != nil {
			t.Errorf("%s is written twice", f.Path)
		}
		have[f.Path] = map[string]bool{}
	}
	programs, err := boardtest.Files(in, data.Files)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := boardtest.Files(in, text.Files)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(slices.Concat(programs, texts), render.File{Path: "feed.atom"}) {
		have[f.Path] = map[string]bool{}
	}
	list := htmlFiles(files)
	docs := make([]*html.Node, len(list))
	for i, f := range list {
		docs[i] = parse(t, f)
		sound(t, f.Path, docs[i], have[f.Path])
	}
	leads := map[string][]string{}
	for i, f := range list {
		leads[f.Path] = links(t, f.Path, docs[i], have)
	}
	reached(t, leads)
}

// reached checks that clicks lead from the front page to every page.
func reached(t *testing.T, leads map[string][]string) {
	t.Helper()
	seen := map[string]bool{"index.html": true}
	for todo := []string{"index.html"}; len(todo) > 0; todo = todo[1:] {
		for _, to := range leads[todo[0]] {
			if !seen[to] {
				seen[to] = true
				todo = append(todo, to)
			}
		}
	}
	for page := range leads {
		if !seen[page] && page != "404.html" { // which a web server sends by itself
			t.Errorf("no click leads from the front page to %s", page)
		}
	}
}

// sound checks one page by itself, and gathers its ids.
func sound(t *testing.T, file string, doc *html.Node, ids map[string]bool) {
	t.Helper()
	count := map[string]int{}
	level := 0
	secure := false
	for _, n := range elements(doc) {
		if n.Namespace == "" {
			count[n.Data]++
		}
		for _, a := range n.Attr {
			if a.Key == "style" || strings.HasPrefix(a.Key, "on") || a.Key == "srcdoc" {
				t.Errorf("%s: <%s %s=%q>: the policy forbids it", file, n.Data, a.Key, a.Val)
			}
			if a.Key == "id" {
				if ids[a.Val] {
					t.Errorf("%s: the id %q is there twice", file, a.Val)
				}
				ids[a.Val] = true
			}
		}
		switch n.Data {
		case "style", "form", "iframe", "object", "embed", "base":
			t.Errorf("%s: a <%s> has no place on the board", file, n.Data)
		case "script":
			if !isData(n) && (attr(n, "src") == "" || n.FirstChild != nil) {
				t.Errorf("%s: there is an inline script", file)
			}
		case "meta":
			secure = secure || attr(n, "http-equiv") == "Content-Security-Policy" && attr(n, "content") == policy
			if attr(n, "http-equiv") == "refresh" { // but for readers without JavaScript
				t.Errorf("%s renews itself by meta refresh", file)
			}
		case "table":
			if n.FirstChild == nil || n.FirstChild.Data != "caption" {
				t.Errorf("%s: a table has no caption", file)
			}
		case "th":
			if attr(n, "scope") == "" {
				t.Errorf("%s: a table heading has no scope", file)
			}
		case "h1", "h2", "h3", "h4":
			if l := int(n.Data[1] - '0'); l > level+1 {
				t.Errorf("%s: <%s> follows a heading of level %d", file, n.Data, level)
			} else {
				level = l
			}
		case "svg":
			if attr(n, "role") == "img" && attr(n, "aria-label") == "" && find(n, "title") == nil &&
				file != "about/index.html" {
				t.Errorf("%s: a chart has no words", file)
			}
		}
	}
	if !secure {
		t.Errorf("%s carries no Content-Security-Policy", file)
	}
	for _, once := range []string{"h1", "main", "title"} {
		if count[once] != 1 {
			t.Errorf("%s has %d <%s>", file, count[once], once)
		}
	}
	want, _, _ := strings.Cut(file, "/")
	if !slices.Contains(builtIn(t), want) {
		want = "en"
	}
	if got := attr(find(doc, "html"), "lang"); got != want {
		t.Errorf("%s is in the language %q", file, got)
	}
	for _, n := range elements(doc) {
		if ref := attr(n, "aria-labelledby"); ref != "" && !ids[ref] {
			t.Errorf("%s: nothing has the id %q that names a section", file, ref)
		}
	}
}

// links checks that every link is relative and leads to a file and a place that
// exist, and returns the files that somebody may click to.
func links(t *testing.T, file string, doc *html.Node, have map[string]map[string]bool) (to []string) {
	t.Helper()
	for _, n := range elements(doc) {
		for _, key := range []string{"href", "src"} {
			target := attr(n, key)
			if file == "404.html" {
				target = strings.TrimPrefix(target, "/") // it is sent at any depth
			}
			if target == "" || n.Parent != nil && hasClass(n, "notice") {
				continue
			}
			u, err := url.Parse(target)
			if err != nil || u.Scheme != "" || u.Host != "" || strings.HasPrefix(target, "/") {
				if attr(n, "rel") == "nofollow noopener" {
					continue // somebody's own, in a notice
				}
				t.Errorf("%s: %q is not relative", file, target)
				continue
			}
			leads := file
			if u.Path != "" {
				leads = path.Join(path.Dir(file), u.Path)
			}
			ids, ok := have[leads]
			switch {
			case !ok:
				t.Errorf("%s: %q leads to %s, which is not there", file, target, leads)
			case u.Fragment != "" && !ids[u.Fragment]:
				t.Errorf("%s: %q leads to a place that is not there", file, target)
			case n.Data == "a":
				to = append(to, leads)
			}
		}
	}
	return to
}

func hasClass(n *html.Node, class string) bool {
	return slices.Contains(strings.Fields(attr(n, "class")), class)
}

func TestHostPageIgnoresTheMoment(t *testing.T) {
	before, after := boardtest.Lab(), boardtest.Lab()
	after.Board.GeneratedAt = after.Board.GeneratedAt.Add(40 * time.Second)
	a, b := pages(t, before), pages(t, after)
	for i := range a {
		same := bytes.Equal(a[i].Content, b[i].Content)
		moves := slices.Contains([]string{"index.html", "kiosk/index.html", "bookings/index.html", "users/index.html"},
			a[i].Path)
		if same == moves {
			t.Errorf("%s: the same bytes 40 s later: %t", a[i].Path, same)
		}
	}
}

func TestHeadline(t *testing.T) {
	none := boardtest.Lab()
	for i := range none.Board.Hosts {
		for g := range none.Board.Hosts[i].Rows() {
			if g.State == board.Free {
				g.State = board.Busy
			}
		}
	}
	boardtest.Finish(none.Board)
	for _, c := range []struct {
		name, title, h1, description string
		in                           render.Input
	}{
		{"some", "5 + 1 MIG free · GPU board",
			"5 of 31 free + 1 of 3 slices", "2 × H100, 2 × A100, 1 × RTX 3090, 1 × A100 1g.5gb", boardtest.Lab()},
		{"none", "0 free · GPU board", "None free. Next: europa 3, Fri 17:00 (booked by ada)", "", none},
		{"silence", "? free · GPU board", "State unknown. No host is reporting.", "", boardtest.Stale()},
		{"nothing", "0 free · GPU board", "No GPUs yet. No host has reported any.", "",
			render.Input{Board: &board.Board{GeneratedAt: boardtest.Now}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := pages(t, c.in)
			doc := parse(t, files[len(files)-1])
			for n, want := range map[string]string{"title": c.title, "h1": c.h1} {
				if got := textOf(find(doc, n)); got != want {
					t.Errorf("<%s> is %q, want %q", n, got, want)
				}
			}
			described := ""
			for _, n := range elements(doc) {
				if attr(n, "name") == "description" {
					described = strings.ReplaceAll(attr(n, "content"), "\u00a0", " ")
				}
			}
			if described != c.description {
				t.Errorf("a link to it is described as %q, want %q", described, c.description)
			}
		})
	}
}

func find(doc *html.Node, name string) *html.Node {
	for _, n := range elements(doc) {
		if n.Data == name {
			return n
		}
	}
	return nil
}

func byID(doc *html.Node, id string) *html.Node {
	for _, n := range elements(doc) {
		if attr(n, "id") == id {
			return n
		}
	}
	return nil
}

// textOf is what a reader sees: on one line, as a browser folds it.
func textOf(n *html.Node) string {
	if n == nil {
		return ""
	}
	return strings.Join(strings.Fields(contentOf(n)), " ")
}

// contentOf is all text within an element, to the letter.
func contentOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func TestRows(t *testing.T) {
	files := pages(t, boardtest.Lab())
	doc := parse(t, files[len(files)-1])
	for id, want := range map[string][]string{
		"atlas-0": {"in use", "71 / 80 GiB", "97 %", "mira train.py", "2 d", "2 processes",
			"until Sat 18:00"},
		"atlas-2": {"busy", "tomas finetune.py", ", lea, noor", "3 processes", "50640"},
		"atlas-3": {"contested", "jun eval.py", "eva", "not jun", "from Mon 10:42 ada"},
		"atlas-4": {"free", "from Sat 18:00 eva"},
		"atlas-7": {"busy", "sam jupyter", "idle 19 h"},
		"ceres-2": {"1 of 3 free", "21 / 40 GiB", "book ceres:2 "},
		"ceres-2_mig0": {"2:0", "busy", "3g.20gb", "15 / 20 GiB", "kai serve",
			"book ceres:MIG-00000000-0000-4000-8000-000000000000 "},
		"ceres-2_mig2": {"2:2", "free", "1g.5gb"},
		"dione-0":      {"open-ended"},
		"europa-1": {"stuck", "no running process owns this memory", "48112", "this process has ended",
			"kill 48130 48131"},
		"europa-2": {"lost", "the driver has lost it", "Reboot the system", "–"},
		"europa-3": {"booked", "no-show 11 h", "and jun"},
		"boreas":   {"maintenance → Fri 19:00, ops · power supply", "3 × H100"},
		"fornax":   {"silent since Fri 07:40"},
		"helios":   {"clock 1 h ahead", "silent since"},
		"icarus":   {"never reported"},
		"europa":   {"CPU", "129 %", "1 problem"},
	} {
		got := textOf(byID(doc, id))
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s says %q, which has no %q", id, got, w)
			}
		}
	}
	if strings.Contains(textOf(byID(doc, "fornax")), "20.5") {
		t.Error("a stale host shows old numbers")
	}
	for _, n := range elements(doc) {
		if n.Data == "time" && attr(n, "datetime") == "" {
			t.Error("a time has no machine-readable form")
		}
	}
	if strings.Contains(textOf(find(doc, "main")), " ago") {
		t.Error("the page itself says how long ago something was; it would lie as soon as the generator stops")
	}
}

// A host of which no GPU's state is known does not say that none is free.
func TestHostOfUnknownGPUs(t *testing.T) {
	files := pages(t, boardtest.Lab())
	for path, want := range map[string]string{
		"hosts/fornax/index.html": "state unknown", "hosts/europa/index.html": "none free",
	} {
		if got := textOf(find(parse(t, boardtest.FileOf(t, files, path)), "h1")); !strings.Contains(got, want) {
			t.Errorf("%s says %q, want %q", path, got, want)
		}
	}
}

// A GPU that counts at another host names that host, on its row and where its host has no other.
func TestRowNamesTheHostWhereTheCardCounts(t *testing.T) {
	said := snapshot.Problem{Code: "gpu:elsewhere", Message: "GPU 0: counted at b"}
	row := board.GPU{State: board.Unknown, Reason: board.ReasonElsewhere, CountedAt: "b"}
	b := &board.Board{GeneratedAt: boardtest.Now, Hosts: []board.Host{
		{Name: "a", State: board.Up, SnapshotAt: boardtest.Now, Problems: []snapshot.Problem{said},
			GPUs: []board.GPU{row}},
		{Name: "b", State: board.Up, SnapshotAt: boardtest.Now, GPUs: []board.GPU{{State: board.Free}}},
	}}
	b.Count()
	got := textOf(find(parse(t, boardtest.FileOf(t, pages(t, render.Input{Board: b}), "index.html")), "main"))
	for _, want := range []string{"1 of 1 free", "same card as on b, and counted there",
		"also listed by another host"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
}

// A host of which nothing can be read says why on its line; one whose news is old says that.
func TestUnreadHostSaysWhy(t *testing.T) {
	driver := snapshot.Problem{Code: "smi:driver-not-loaded", Message: "the NVIDIA driver is not loaded"}
	load := snapshot.Problem{Code: "host:load", Message: "its load cannot be read"}
	unread := board.GPU{State: board.Unknown, Reason: board.ReasonUnreadable}
	for want, h := range map[string]board.Host{
		"The driver is not loaded.": {State: board.Up, Problems: []snapshot.Problem{load, driver}},
		"The driver finds no GPU.": {
			State: board.Up, Problems: []snapshot.Problem{{Code: "smi:no-devices"}}, GPUs: []board.GPU{unread, unread},
		},
		"Its file is damaged or incomplete.": {State: board.Never, Problems: []snapshot.Problem{{Code: "bad:gzip"}}},
		"1 problem": {
			State: board.Up, Problems: []snapshot.Problem{driver}, GPUs: []board.GPU{unread, {State: board.Free}},
		},
		"2 problems": {
			State: board.Up, Problems: []snapshot.Problem{driver, load},
			GPUs: []board.GPU{{State: board.Unknown, Reason: board.ReasonStale}},
		},
	} {
		h.Name, h.SnapshotAt = "a", boardtest.Now
		in := render.Input{Board: &board.Board{GeneratedAt: boardtest.Now, Hosts: []board.Host{h}}}
		got := ""
		for _, n := range elements(parse(t, boardtest.FileOf(t, pages(t, in), "index.html"))) {
			if attr(n, "class") == "users" {
				got = textOf(n)
			}
		}
		if !strings.Contains(got, want) {
			t.Errorf("the line says %q, want %q", got, want)
		}
	}
}

func TestRowIDsStayApart(t *testing.T) {
	in := fleets()["bare"] // host a with GPU 0, beside a host a-0
	files := pages(t, in)
	if byID(parse(t, files[len(files)-1]), "a_0") == nil {
		t.Error("the row of a's GPU 0 should be a_0, because a host is called a-0")
	}
}

// TestNobodyIsSaidOnlyOfTheKnown: where GPUs are used by unknown users alone, no page says that
// nobody uses one.
func TestNobodyIsSaidOnlyOfTheKnown(t *testing.T) {
	in := boardtest.Lab()
	in.Board.Users, in.Board.Bookings, in.Board.NextFree = nil, nil, nil
	for h := range in.Board.Hosts {
		for g := range in.Board.Hosts[h].GPUs {
			gpu := &in.Board.Hosts[h].GPUs[g]
			gpu.Booking, gpu.Next, gpu.Others, gpu.Processes, gpu.Slices = nil, nil, nil, nil, nil
			if gpu.State = board.Free; g%2 == 0 {
				gpu.State = board.Busy
			}
		}
	}
	in.Board.Count()
	files := pages(t, in)
	for _, path := range []string{"index.html", "users/index.html"} {
		says := contentOf(parse(t, boardtest.FileOf(t, files, path)))
		if strings.Contains(says, "Nobody uses") ||
			!strings.Contains(says, "Nobody is known to use or to have booked a GPU.") {
			t.Errorf("%s says of 15 GPUs that are busy:\n%s", path, says)
		}
	}
}
