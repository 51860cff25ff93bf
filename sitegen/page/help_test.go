package page_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"gpuboard/docs"
	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
)

func withHelp(in render.Input) render.Input {
	in.Help = true
	return in
}

// TestHelpHasEveryPage compares the list with the directory, both ways. That the
// links and anchors of the pages lead somewhere, TestPagesAreValid sees.
func TestHelpHasEveryPage(t *testing.T) {
	var listed, there []string
	for _, p := range docs.Pages() {
		listed = append(listed, p.Name+".md")
		if p.About == "" {
			t.Errorf("%s: the contents say nothing of it", p.Name)
		}
	}
	files, err := os.ReadDir("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name(), ".md") {
			there = append(there, f.Name())
		}
	}
	slices.Sort(listed)
	if !slices.Equal(listed, there) {
		t.Errorf("docs.Pages() lists %q, and docs/ holds %q", listed, there)
	}
	rendered := map[string]bool{}
	for _, f := range pages(t, withHelp(boardtest.Lab())) {
		rendered[f.Path] = true
	}
	for _, name := range there {
		if path := "help/" + strings.TrimSuffix(name, ".md") + "/index.html"; !rendered[path] {
			t.Errorf("there is no %s", path)
		}
	}
}

// TestHelpLosesNothing holds each page to its source: what would be dropped on
// the way (HTML, pictures, links to files that are not there) must not be in it,
// and each line of code comes out as it went in.
func TestHelpLosesNothing(t *testing.T) {
	indented := regexp.MustCompile(`(?m)^    \S.*$`)
	files := pages(t, withHelp(boardtest.Lab()))
	for _, p := range docs.Pages() {
		source, err := fs.ReadFile(docs.Files(), p.Name+".md")
		if err != nil {
			t.Fatal(err)
		}
		file := boardtest.FileOf(t, files, "help/"+p.Name+"/index.html")
		root, body := parse(t, file), string(file.Content)
		if strings.Contains(body, "raw HTML omitted") {
			t.Errorf("%s.md has HTML in it, which a site does not show", p.Name)
		}
		var code strings.Builder
		for _, n := range elements(root) {
			if n.Data == "pre" {
				code.WriteString(contentOf(n) + "\n")
			}
		}
		for _, line := range indented.FindAllString(string(source), -1) {
			if !strings.Contains(code.String(), line[4:]) {
				t.Errorf("%s.md: %q is not shown as code", p.Name, line)
			}
		}
		for _, m := range regexp.MustCompile(`\]\((\.\./)?([^)#:]+\.md)`).FindAllStringSubmatch(string(source), -1) {
			if m[1] == "" &&
				!strings.Contains(body, `href="../`+strings.TrimSuffix(m[2], ".md")+"/index.html") {
				t.Errorf("%s.md: the link to %s is lost", p.Name, m[2])
			}
		}
	}
}

// TestHelpIsReadOnAPage: a page of the documentation has its title once, its headings are its contents and name its
// tables, and "see api.md" in a file is the title of that page.
func TestHelpIsReadOnAPage(t *testing.T) {
	files := pages(t, withHelp(boardtest.Lab()))
	for _, p := range docs.Pages() {
		source, err := fs.ReadFile(docs.Files(), p.Name+".md")
		if err != nil {
			t.Fatal(err)
		}
		line, _, _ := strings.Cut(string(source), "\n")
		title := strings.ReplaceAll(strings.TrimPrefix(line, "# "), "`", "")
		doc := parse(t, boardtest.FileOf(t, files, "help/"+p.Name+"/index.html"))
		if got := textOf(find(doc, "h1")); got != title {
			t.Errorf("%s: the title is %q, want %q", p.Name, got, title)
		}

		var headings, contents []string
		above := title
		article := find(doc, "article")
		for _, n := range elements(article) {
			switch text := textOf(n); n.Data {
			case "h2", "h3":
				headings = append(headings, text)
				above = text
			case "h1", "h4", "img":
				t.Errorf("%s: there is a <%s> %q", p.Name, n.Data, text)
			case "caption":
				if text != above {
					t.Errorf("%s: the table below %q is called %q", p.Name, above, text)
				}
			case "pre":
				if attr(n, "tabindex") != "0" {
					t.Errorf("%s: %q cannot be scrolled by keys", p.Name, text)
				}
			case "a":
				if strings.HasSuffix(text, ".md") {
					t.Errorf("%s: a link is called %q", p.Name, text)
				}
			}
		}
		for _, toc := range within(doc, "nav", "contents") {
			for _, n := range within(toc, "a", "") {
				contents = append(contents, textOf(n))
			}
		}
		if !slices.Equal(contents, headings) {
			t.Errorf("%s: the contents are %q, the headings %q", p.Name, contents, headings)
		}
		if numbers := within(article, "td", "number") != nil; numbers != strings.Contains(string(source), "-:|") {
			t.Errorf("%s: it has numbers on the right: %t", p.Name, numbers)
		}
	}
}

// TestHelpDoesNotDependOnTheBoard sees that the help depends on how the site looks, and
// on nothing else.
func TestHelpDoesNotDependOnTheBoard(t *testing.T) {
	in := withHelp(boardtest.Lab())
	first := pages(t, in)
	in.Board.GeneratedAt = in.Board.GeneratedAt.AddDate(0, 0, 1)
	in.Board.Hosts = in.Board.Hosts[:3]
	second := pages(t, in)
	if a, b := fileAt(first, "help/bookings/index.html"), fileAt(second, "help/bookings/index.html"); a == nil ||
		!bytes.Equal(a, b) {
		t.Error("the help depends on the fleet")
	}
	in.Site.Title = "Other"
	if b := fileAt(pages(t, in), "help/bookings/index.html"); !bytes.Contains(b, []byte("Other")) {
		t.Error("the help keeps the old title of the site")
	}
	in.Help = false
	for _, f := range pages(t, in) {
		if strings.HasPrefix(f.Path, "help/") || bytes.Contains(f.Content, []byte("help/index.html")) {
			t.Errorf("%s, and this site has no help", f.Path)
		}
	}
}

func fileAt(files []render.File, path string) []byte {
	for _, f := range files {
		if f.Path == path {
			return f.Content
		}
	}
	return nil
}

// TestCodesLeadToTheHelp looks where the codes of problems lead, from pages at
// every depth.
func TestCodesLeadToTheHelp(t *testing.T) {
	in := withHelp(boardtest.Lab())
	in.Board.Problems = []snapshot.Problem{
		{Code: "discovery:empty", Message: "x"}, {Code: "bad:parse", Message: "y"}, {Code: "bad:new"},
		{Code: "booking:date", Message: "z"}, {Code: "nobody:knows", Message: "w"},
	}
	europa := &in.Board.Hosts[slices.IndexFunc(in.Board.Hosts, func(h board.Host) bool { return h.Name == "europa" })]
	europa.Problems = append(europa.Problems, snapshot.Problem{Code: "smi:inforom", Message: "v", Host: "europa"})
	files := pages(t, in)
	for path, want := range map[string]map[string]string{
		"index.html": {
			"discovery:empty": "help/troubleshooting/index.html#code-discovery-empty",
			"bad:parse":       "help/troubleshooting/index.html#code-bad-parse",
			"bad:new":         "help/troubleshooting/index.html#code-bad",
			"nobody:knows":    "",
		},
		"hosts/europa/index.html": {
			"smi:inforom": "../../help/troubleshooting/index.html#code-smi-inforom", "smi:unheard": "",
		},
		"bookings/index.html": {"booking:date": "../help/troubleshooting/index.html#code-booking-date"},
	} {
		got := map[string]string{}
		for _, n := range elements(parse(t, render.NewFile("", fileAt(files, path)))) {
			if n.Data != "code" || n.Parent.Data != "li" {
				continue
			}
			got[textOf(n)] = ""
			if n.FirstChild.Data == "a" {
				got[textOf(n)] = attr(n.FirstChild, "href")
			}
		}
		for code, href := range want {
			if g, ok := got[code]; !ok || g != href {
				t.Errorf("%s: %s leads to %q, want %q (of %v)", path, code, g, href, got)
			}
		}
	}
}

// tameNode says what an element does in a comment that it may not.
func tameNode(n *html.Node) error {
	if !slices.Contains([]string{"a", "em", "strong", "code", "del"}, n.Data) {
		return fmt.Errorf("a comment makes <%s>", n.Data)
	}
	for _, a := range n.Attr {
		switch {
		case n.Data == "a" && a.Key == "rel" && a.Val == "nofollow noopener", n.Data == "a" && a.Key == "title":
		case n.Data == "a" && a.Key == "href" && slices.ContainsFunc([]string{"http://", "https://", "mailto:"},
			func(s string) bool {
				return strings.HasPrefix(strings.ToLower(a.Val), s)
			}):
		default:
			return fmt.Errorf("a comment makes <%s %s=%q>", n.Data, a.Key, a.Val)
		}
	}
	return nil
}

// bookPages are the pages of the booking form of a site without a look of its own.
func bookPages(t testing.TB) *page.BookPages {
	t.Helper()
	p, err := page.NewBookPages(render.Site{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// remark is the HTML of a comment on a booking, which is in a list of the booking form.
func remark(t testing.TB, p *page.BookPages, comment string) string {
	t.Helper()
	form, err := p.Book(page.Book{
		Now: boardtest.Now, Board: &board.Board{GeneratedAt: boardtest.Now},
		Mine:     func(booking.Booking) bool { return false },
		Standing: []booking.Booking{{Host: "atlas", Name: "mira", From: boardtest.Now, Comment: comment}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(form), `<span class="comment">`)
	shown, _, _ = strings.Cut(shown, "</span>")
	return shown
}

func TestRemark(t *testing.T) {
	const rel = ` rel="nofollow noopener"`
	p := bookPages(t)
	for source, want := range map[string]string{
		"":                           "",
		"training until friday":      "training until friday",
		"**do not** use, _please_":   "<strong>do not</strong> use, <em>please</em>",
		"`train.py` at my_file_name": "<code>train.py</code> at my_file_name",
		"see https://wiki.example.org/a_b.": `see <a href="https://wiki.example.org/a_b"` + rel +
			`>https://wiki.example.org/a_b</a>.`,
		"see [the plan](https://wiki.example.org/plan)": `see <a href="https://wiki.example.org/plan"` + rel +
			`>the plan</a>`,
		"mail <ada@example.org>":               `mail <a href="mailto:ada@example.org"` + rel + `>ada@example.org</a>`,
		"~~moved~~":                            "<del>moved</del>",
		"# 2 of 4":                             "# 2 of 4",
		"1. mine":                              "1. mine",
		"    four spaces":                      "four spaces",
		"two\nlines\r\n\r\nand a gap":          "two lines and a gap",
		"a <b>bold</b> word & more":            "a &lt;b&gt;bold&lt;/b&gt; word &amp; more",
		"<script>alert(1)</script>":            "&lt;script&gt;alert(1)&lt;/script&gt;",
		"![a fox](https://evil.example/p.png)": "a fox",
		"[![in](https://x.example/p)](https://x.example)": `<a href="https://x.example"` + rel + `>in</a>`,
		"[x](javascript:alert(1))":                        "x",
		"<javascript:alert(1)>":                           "javascript:alert(1)",
		"[x](//evil.example)":                             "x",
		"[x](../bookings/index.html)":                     "x",
		"[*x*](#here)":                                    "<em>x</em>",
		"a|b":                                             "a|b",
		"\x1b[31mred":                                     `\x1b[31mred`,
		"a \u202e b":                                      `a \u202e b`,
	} {
		if got := remark(t, p, source); got != want {
			t.Errorf("remark(%q) = %q; want %q", source, got, want)
		}
	}
}

// TestCommentsHaveNoMarks: bars and hosts out of service show comments as text alone.
func TestCommentsHaveNoMarks(t *testing.T) {
	in := boardtest.Lab()
	for i := range in.Board.Bookings {
		in.Board.Bookings[i].Comment = "*2* < `3` & see [the log](https://wiki.example.org/run)"
	}
	for i := range in.Board.Hosts {
		if h := &in.Board.Hosts[i]; h.Name == "boreas" {
			h.GPUs[0].Booking = &in.Board.Bookings[0]
		}
	}
	const want = "2 < 3 & see the log"
	texts := within(docAt(t, in, "bookings/index.html"), "text", "")
	if !slices.ContainsFunc(texts, func(n *html.Node) bool { return strings.Contains(textOf(n), want) }) {
		t.Errorf("no bar says %q", want)
	}
	for _, n := range within(docAt(t, in, "bookings/index.html"), "svg", "bar") {
		if text := textOf(n); strings.ContainsAny(text, "*`[") {
			t.Errorf("a bar says %q", text)
		}
	}
	if front := textOf(docAt(t, in, "index.html")); !strings.Contains(front, " · "+want) {
		t.Errorf("the front page does not say %q of a host out of service", want)
	}
}

func FuzzRemark(f *testing.F) {
	for _, s := range append(slices.Clone(payloads), "*a* `b` [c](https://d)", "[a]: //x\n[a]", "![[a](b)](c)",
		"~~a~~ www.example.org", "\\*a\\*") {
		f.Add(s)
	}
	p := bookPages(f)
	f.Fuzz(func(t *testing.T, s string) {
		out := remark(t, p, s)
		nodes, err := html.ParseFragment(strings.NewReader(out), &html.Node{
			Type: html.ElementNode, Data: "td", DataAtom: atom.Td,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, top := range nodes {
			if top.Type == html.CommentNode {
				t.Errorf("%q makes a comment of HTML", s)
			}
			for n := range top.Descendants() {
				if n.Type == html.CommentNode {
					t.Errorf("%q makes a comment of HTML", s)
				}
				if n.Type == html.ElementNode {
					if err := tameNode(n); err != nil {
						t.Errorf("%q: %v", s, err)
					}
				}
			}
			if top.Type == html.ElementNode {
				if err := tameNode(top); err != nil {
					t.Errorf("%q: %v", s, err)
				}
			}
		}
		if strings.ContainsAny(out, "\x00\x1b\u202e\u2028\n") {
			t.Errorf("%q leaves invisible characters", s)
		}
		if len(out) > 16*snapshot.MaxTextBytes {
			t.Errorf("%q grows to %d bytes", s, len(out))
		}
	})
}

// Texts that make parsers slow: what a person may write is bounded, and so is this.
func BenchmarkRemark(b *testing.B) {
	p := bookPages(b)
	for name, s := range map[string]string{
		"plain": "training until friday", "usual": "**do not** use, see https://wiki.example.org/a",
		"brackets": strings.Repeat("[", snapshot.MaxTextBytes), "stars": strings.Repeat("*a_", snapshot.MaxTextBytes/3),
		"links": strings.Repeat("[a](", snapshot.MaxTextBytes/4),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				remark(b, p, s)
			}
		})
	}
}

func TestFirstLineHasNoMarks(t *testing.T) {
	for source, want := range map[string]string{
		"":                               "",
		"\n# Power supply\n\nIt is off.": "Power supply",
		"**Power supply** of `boreas`":   "Power supply of boreas",
		"- my_file_name is full":         "my_file_name is full",
		"See [the plan](https://x.org/)": "See the plan",
	} {
		in, got := boardtest.Big(1), ""
		in.Notice = source
		for _, n := range within(docAt(t, in, "index.html"), "details", "notice") {
			got = textOf(within(n, "span", "excerpt")[0])
		}
		if got != want {
			t.Errorf("of the notice %q, %q is shown at first, want %q", source, got, want)
		}
	}
}

// TestThePageForMissingOnes is sent at any depth, so it needs no file beside it.
func TestThePageForMissingOnes(t *testing.T) {
	for base, root := range map[string]string{"": "/", "https://lab.example/": "/",
		"https://lab.example/gpu": "/gpu/"} {
		in := boardtest.Lab()
		in.Site.BaseURL = base
		files := pages(t, in)
		i := slices.IndexFunc(files, func(f render.File) bool { return f.Path == "404.html" })
		if i < 0 {
			t.Fatal("there is no 404.html")
		}
		page := string(files[i].Content)
		if strings.Contains(page, "aria-current") {
			t.Error("it calls itself another page")
		}
		for _, want := range []string{`href="` + root + `index.html"`, `href="` + root + `assets/`,
			`src="` + root + `assets/`} {
			if !strings.Contains(page, want) {
				t.Errorf("with %q, the page has no %s", base, want)
			}
		}
		if strings.Contains(page, `href="index.html"`) || strings.Contains(page, `"../`) {
			t.Errorf("with %q, a link of the page is relative", base)
		}
	}
}
