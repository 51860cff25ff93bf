package page

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"regexp"
	"strings"
	"sync"

	"github.com/a-h/templ"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// markdownLimit bounds a notice: longer text is cut, on a line.
const markdownLimit = 64 << 10

// markdown shows a notice or a note; nil is nothing.
func (v *view) markdown(source string) templ.Component {
	if strings.TrimSpace(source) == "" {
		return nil
	}
	html, kept := v.in.Rendered[source]
	if !kept {
		html = Markdown(source)
	}
	return templ.Raw(html)
}

// Markdown makes HTML of a notice. The HTML is not escaped again, so it lets little through: no HTML of the
// notice's own, no pictures (they would call foreign servers), no headings that outrank the page's
// own, and links only to http, https, mailto and within the site. An [Excessive] text is shown unformatted.
func Markdown(source string) string {
	source = strings.ReplaceAll(strings.ToValidUTF8(source, "\uFFFD"), "\r\n", "\n")
	if len(source) > markdownLimit {
		cut := source[:markdownLimit]
		source = strings.ToValidUTF8(cut[:strings.LastIndexByte(cut, '\n')+1], "")
	}
	if !Excessive(source) {
		md := goldmark.New(
			goldmark.WithExtensions(extension.Table, extension.Strikethrough),
			goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(tame{}, 100))),
		)
		return convert(md, []byte(source))
	}
	return "<pre><code>" + html.EscapeString(visible(source)) + "</code></pre>"
}

// Bounds of a text in Markdown. The time that goldmark takes grows with the square of the lines and marks in one
// paragraph, and of the nesting; its output grows faster than a text of wide tables or repeated long addresses.
const (
	maxNesting = 32          // levels of quotes and lists
	maxEffort  = 8192 * 8192 // that of 8,192 lines and marks in one paragraph
)

// Excessive reports whether a text nests too deep, would take too long to render, or would become too large.
func Excessive(source string) bool {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	references, effort := strings.Count(source, "["), 0
	for paragraph := range strings.SplitSeq(source, "\n\n") {
		marks, columns := 0, 0
		for line := range strings.Lines(paragraph) {
			if nesting(line) > maxNesting {
				return true
			}
			marks++
			columns = max(columns, strings.Count(line, "|"))
		}
		effort += 1024 * columns * marks // cells of a table
		for _, mark := range "*_~`[]!|" {
			marks += strings.Count(paragraph, string(mark))
		}
		effort += marks * marks
		if strings.Contains(paragraph, "]:") { // an address that each reference may repeat
			effort += 16 * len(paragraph) * references
		}
	}
	return effort > maxEffort
}

// blockStart matches the mark of a quote or of an element of a list.
var blockStart = snapshot.Pattern(`^[ \t]*(>|([-+*]|[0-9]{1,9}[.)])([ \t]|\n|$))`)

// nesting is the most levels of quotes and lists that a line may begin.
func nesting(line string) (n int) {
	mark := blockStart()
	for at := mark.FindString(line); at != ""; at = mark.FindString(line) {
		n += 1 + (len(at)-len(strings.TrimLeft(at, " \t")))/2
		line = line[len(at):]
	}
	return n
}

var markdownLink = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// firstLine is the first line of a text in Markdown that says something, without its marks.
func firstLine(source string) string {
	for line := range strings.Lines(source) {
		line = strings.NewReplacer("**", "", "`", "").Replace(markdownLink.ReplaceAllString(line, "$1"))
		if text := strings.Trim(line, "#>*_-=| \t\r\n"); text != "" {
			return render.Clean(text)
		}
	}
	return ""
}

// convert makes HTML of Markdown. What md lets through is not escaped again.
func convert(md goldmark.Markdown, source []byte) string {
	var out bytes.Buffer
	_ = md.Convert(source, &out) // it fails where writing does, which memory does not
	return visible(out.String())
}

// visible makes the hidden characters of a text visible escapes, but for line ends and
// tabs. It looks at what was rendered, because entities of Markdown become characters.
func visible(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		cells := strings.Split(line, "\t")
		for j, cell := range cells {
			cells[j] = snapshot.Text(cell, 4*len(cell)) // an escape is at most four times as long
		}
		lines[i] = strings.Join(cells, "\t")
	}
	return strings.Join(lines, "\n")
}

// tame takes out of a document what has no place on the board. A comment on a booking
// stands on pages of several depths, so only a whole address is a link there; what is no
// link keeps its words, and a picture its name.
type tame struct{ comment bool }

// Transform implements parser.ASTTransformer.
func (t tame) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	var drop, unlink []ast.Node
	eachNode(doc, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.RawHTML, *ast.HTMLBlock:
			drop = append(drop, n)
		case *ast.Image:
			if t.comment {
				unlink = append(unlink, n)
			} else {
				drop = append(drop, n)
			}
		case *ast.Heading:
			n.Level = min(6, max(3, n.Level+1)) // below the page's own h1 and h2
		case *ast.Link:
			to := string(n.Destination)
			n.SetAttributeString("rel", []byte("nofollow noopener"))
			if t.comment && (!harmless(to) || !strings.Contains(to, ":")) {
				unlink = append(unlink, n)
			} else if !harmless(to) {
				n.Destination = []byte("#")
			}
		case *ast.AutoLink:
			n.SetAttributeString("rel", []byte("nofollow noopener"))
			if harmless(string(n.URL(reader.Source()))) {
				break
			}
			if t.comment {
				n.Parent().InsertBefore(n.Parent(), n, ast.NewString(n.Label(reader.Source())))
			}
			drop = append(drop, n)
		}
	})
	remove(drop)
	unwrap(unlink)
}

// eachNode calls f for every part of a document, the inner ones first.
func eachNode(doc ast.Node, f func(ast.Node)) {
	// The walk never fails: the visitor returns no error.
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			f(n)
		}
		return ast.WalkContinue, nil
	})
}

func remove(nodes []ast.Node) {
	for _, n := range nodes {
		n.Parent().RemoveChild(n.Parent(), n)
	}
}

// unwrap puts what is in each part in its place.
func unwrap(nodes []ast.Node) {
	for _, n := range nodes {
		for c := n.FirstChild(); c != nil; c = n.FirstChild() {
			n.Parent().InsertBefore(n.Parent(), n, c) // moves it out
		}
	}
	remove(nodes)
}

// harmless reports whether a link may lead there: a known scheme, or a place within the site.
func harmless(destination string) bool {
	d := strings.ToLower(destination)
	for _, scheme := range []string{"https://", "http://", "mailto:"} {
		if strings.HasPrefix(d, scheme) {
			return true
		}
	}
	slash, colon := strings.IndexAny(d, "/?#"), strings.IndexAny(d, ":&%\\")
	local := colon < 0 || slash >= 0 && slash < colon
	return local && !strings.HasPrefix(d, "//") && !strings.ContainsAny(d, "\\")
}

// remark renders a comment on a booking: one line with emphasis, code and links; nil is nothing.
func remark(comment string) templ.Component {
	comment = render.Clean(strings.Join(strings.Fields(comment), " "))
	switch {
	case comment == "":
		return nil
	case !strings.ContainsAny(comment, "*_`[]<>~\\&") && !strings.Contains(comment, "://") &&
		!strings.Contains(comment, "www."):
		return templ.Raw(templ.EscapeString(comment))
	}
	return templ.Raw(convert(commentMarkdown(), []byte(comment)))
}

var htmlTag = regexp.MustCompile(`<[^>]*>`)

// plainComment is what a reader of a comment on a booking sees, as text of at most barComment bytes.
func plainComment(b *board.Booking) string {
	var shown bytes.Buffer
	if c := remark(b.Comment); c != nil {
		_ = c.Render(context.Background(), &shown) // writing to memory does not fail
	}
	return snapshot.Text(html.UnescapeString(htmlTag.ReplaceAllString(shown.String(), "")), barComment)
}

// prose renders one of the site's words: a line with emphasis, code and links.
func prose(text string) templ.Component { return templ.Raw(convert(wordMarkdown(), []byte(text))) }

// Both are made once: goldmark may be used by several goroutines.
var (
	commentMarkdown = sync.OnceValue(func() goldmark.Markdown {
		return lineMarkdown(parser.WithASTTransformers(util.Prioritized(tame{comment: true}, 100)))
	})
	wordMarkdown = sync.OnceValue(func() goldmark.Markdown { return lineMarkdown() })
)

// lineMarkdown is Markdown without blocks and without HTML.
func lineMarkdown(more ...parser.Option) goldmark.Markdown {
	p := parser.NewParser(
		parser.WithBlockParsers(util.Prioritized(parser.NewParagraphParser(), 1000)),
		parser.WithInlineParsers(
			util.Prioritized(parser.NewCodeSpanParser(), 100),
			util.Prioritized(parser.NewLinkParser(), 200),
			util.Prioritized(parser.NewAutoLinkParser(), 300),
			util.Prioritized(parser.NewEmphasisParser(), 500),
		),
	)
	p.AddOptions(more...)
	return goldmark.New(
		goldmark.WithParser(p),
		goldmark.WithExtensions(extension.Strikethrough, extension.Linkify),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(bare{}, 1))),
	)
}

// bare renders a paragraph without the element around it.
type bare struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (bare) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindParagraph, func(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) {
		return ast.WalkContinue, nil
	})
}

// trusted is HTML from the site's own directory.
func trusted(html []byte) templ.Component { return templ.Raw(string(html)) }

// A helpDoc is one page of the documentation as HTML.
type helpDoc struct {
	templates.HelpPage
	ids map[string]bool // of headings and codes
}

// helpMarkdown renders one page. The text is the program's own, so it may have
// headings and tables; HTML and pictures it may not have, as anybody's.
// titles are those of all pages, by the names of their files.
func helpMarkdown(source []byte, titles map[string]string) *helpDoc {
	doc := &helpDoc{ids: map[string]bool{}}
	md := goldmark.New(
		goldmark.WithExtensions(extension.Table, extension.Strikethrough),
		goldmark.WithParserOptions(parser.WithAutoHeadingID(),
			parser.WithASTTransformers(util.Prioritized(manual{doc, titles}, 100))),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(helpBlocks{}, 100))),
	)
	doc.Body = templ.Raw(convert(md, source))
	return doc
}

// manual fits a page of the documentation into the site.
type manual struct {
	doc    *helpDoc
	titles map[string]string
}

// Transform implements parser.ASTTransformer.
func (m manual) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	source := reader.Source()
	var drop, unlink []ast.Node
	above := "" // the heading that names a table
	eachNode(doc, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Image, *ast.RawHTML, *ast.HTMLBlock:
			drop = append(drop, n)
		case *ast.Heading:
			above = plainText(n, source)
			if n.Level == 1 && m.doc.Heading == "" {
				m.doc.Heading = above
				drop = append(drop, n)
				break
			}
			n.Level = max(2, n.Level)
			m.heading(n, above)
		case *tables.Table:
			n.SetAttributeString(captionOf, []byte(above))
		case *tables.TableCell:
			m.cell(n, source)
		case *ast.Link:
			to, ok := helpLink(string(n.Destination))
			switch {
			case !ok:
				unlink = append(unlink, n)
			case strings.Contains(to, "://"):
				n.SetAttributeString("rel", []byte("nofollow noopener"))
			}
			n.Destination = []byte(to)
			// "see api.md" is for who reads files; a page has a title.
			if title, ok := m.titles[plainText(n, source)]; ok {
				n.RemoveChildren(n)
				n.AppendChild(n, ast.NewString([]byte(html.EscapeString(title))))
			}
		}
	})
	remove(drop)
	unwrap(unlink)
}

func (m manual) heading(n *ast.Heading, words string) {
	id, _ := n.AttributeString("id")
	b, _ := id.([]byte)
	h := templates.HelpHeading{ID: string(b), Text: words}
	m.doc.ids[h.ID] = true
	switch c := m.doc.Contents; {
	case n.Level == 2:
		m.doc.Contents = append(c, h)
	case n.Level == 3 && len(c) > 0:
		c[len(c)-1].Sub = append(c[len(c)-1].Sub, h)
	}
}

// helpCode is a reason code, or all of an area: `bad:…`.
var helpCode = snapshot.Pattern(`^([a-z]+):([a-z-]+|…)$`)

// cell gives each reason code in the first cell of a row an id.
func (m manual) cell(n *tables.TableCell, source []byte) {
	if n.Parent().Kind() == tables.KindTableHeader || n.PreviousSibling() != nil {
		return
	}
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		span, ok := c.(*ast.CodeSpan)
		if !ok {
			continue
		}
		code := helpCode().FindStringSubmatch(plainText(span, source))
		if code == nil {
			continue
		}
		if id := codeID(code[1], code[2]); !m.doc.ids[id] {
			m.doc.ids[id] = true
			span.SetAttributeString("id", []byte(id))
		}
	}
}

// codeID is where the help explains a code: "code-smi-timeout", "code-bad".
func codeID(area, what string) string {
	if what == "…" || what == "" {
		return "code-" + area
	}
	return "code-" + area + "-" + what
}

// helpLink turns a link between files of the documentation into one between pages.
func helpLink(to string) (string, bool) {
	if strings.HasPrefix(to, "#") || strings.HasPrefix(to, "https://") {
		return to, true
	}
	file, place, found := strings.Cut(to, "#")
	name, ours := strings.CutSuffix(file, ".md")
	if !ours || strings.Contains(name, "/") {
		return "", false
	}
	to = "../" + name + "/index.html"
	if found {
		to += "#" + place
	}
	return to, true
}

func plainText(n ast.Node, source []byte) string {
	var b strings.Builder
	eachNode(n, func(n ast.Node) {
		if t, ok := n.(*ast.Text); ok {
			b.Write(t.Segment.Value(source))
			if t.SoftLineBreak() {
				b.WriteByte(' ')
			}
		}
	})
	return b.String()
}

// captionOf is the attribute under which a table waits for its caption.
const captionOf = "gpuboard-caption"

// helpBlocks renders code and tables so that they can be scrolled, also with keys alone.
type helpBlocks struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (helpBlocks) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindCodeBlock, renderHelpCode)
	reg.Register(ast.KindFencedCodeBlock, renderHelpCode)
	reg.Register(tables.KindTable, renderHelpTable)
	reg.Register(tables.KindTableCell, renderHelpCell)
}

func renderHelpCode(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	code := strings.TrimRight(string(n.Lines().Value(source)), "\n")
	_, err := fmt.Fprintf(w, "<pre tabindex=\"0\"><code>%s</code></pre>\n", html.EscapeString(code))
	return ast.WalkSkipChildren, err
}

func renderHelpTable(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		_, err := w.WriteString("</table></div>\n")
		return ast.WalkContinue, err
	}
	caption, _ := n.AttributeString(captionOf)
	words, _ := caption.([]byte)
	_, err := fmt.Fprintf(w,
		"<div class=\"scroll\" tabindex=\"0\"><table class=\"list\"><caption class=\"visually-hidden\">%s</caption>\n",
		html.EscapeString(string(words)))
	return ast.WalkContinue, err
}

// renderHelpCell makes the head of a column only of a cell that says something.
func renderHelpCell(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	tag, attributes := "td", ""
	if n.Parent().Kind() == tables.KindTableHeader && n.HasChildren() {
		tag, attributes = "th", ` scope="col"`
	}
	if cell, ok := n.(*tables.TableCell); ok && cell.Alignment == tables.AlignRight {
		attributes += ` class="number"`
	}
	if !entering {
		tag, attributes = "/"+tag, ""
	}
	_, err := fmt.Fprintf(w, "<%s%s>", tag, attributes)
	return ast.WalkContinue, err
}
