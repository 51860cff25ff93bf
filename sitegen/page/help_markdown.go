package page

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// A helpDoc is one page of the documentation as HTML, and what others need to
// lead to its parts.
type helpDoc struct {
	Heading  string
	Contents []helpHeading
	Body     safeHTML
	ids      map[string]bool // of headings and codes
}

// A helpHeading is a line of a page's contents.
type helpHeading struct {
	ID, Text string
	Sub      []helpHeading
}

// helpMarkdown renders one page. The text is the program's own, so it may have
// headings and tables; HTML and pictures it may not have, as anybody's.
// titles are those of all pages, by the names of their files.
func helpMarkdown(source []byte, titles map[string]string) (*helpDoc, error) {
	doc := &helpDoc{ids: map[string]bool{}}
	md := goldmark.New(
		goldmark.WithExtensions(extension.Table, extension.Strikethrough),
		goldmark.WithParserOptions(parser.WithAutoHeadingID(), parser.WithASTTransformers(util.Prioritized(manual{doc, titles}, 100))),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(helpBlocks{}, 100))),
	)
	var err error
	doc.Body, err = convert(md, source)
	if err == nil && doc.Heading == "" {
		err = fmt.Errorf("rendering markdown: the page has no title")
	}
	return doc, err
}

// manual fits a page of the documentation into the site.
type manual struct {
	doc    *helpDoc
	titles map[string]string
}

// Transform implements parser.ASTTransformer.
func (m manual) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	source := reader.Source()
	var unlink []ast.Node
	above := "" // the heading that names a table
	prune(doc, func(n ast.Node) (keep bool) {
		switch n := n.(type) {
		case *ast.Heading:
			above = plainText(n, source)
			if n.Level == 1 && m.doc.Heading == "" {
				m.doc.Heading = above
				return false
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
		return true
	})
	for _, n := range unlink {
		unwrap(n)
	}
}

func (m manual) heading(n *ast.Heading, words string) {
	id, _ := n.AttributeString("id")
	b, _ := id.([]byte)
	h := helpHeading{ID: string(b), Text: words}
	m.doc.ids[h.ID] = true
	switch c := m.doc.Contents; {
	case n.Level == 2:
		m.doc.Contents = append(c, h)
	case n.Level == 3 && len(c) > 0:
		c[len(c)-1].Sub = append(c[len(c)-1].Sub, h)
	}
}

// helpCode is a reason code, or all of an area: `bad:…`.
var helpCode = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([a-z]+):([a-z-]+|…)$`) })

// cell gives each reason code in the first cell of a row a name that a link can
// lead to.
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

// helpLink turns a link between files of the documentation into one between
// pages of the site. What lies elsewhere in the source is no link there.
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
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Segment.Value(source))
			if t.SoftLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// captionOf is the attribute under which a table waits for its caption.
const captionOf = "gpuboard-caption"

// helpBlocks renders what may be wider than a telephone: code and tables can be
// scrolled, also by those who have only keys, and a table says what it is.
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
	var b bytes.Buffer
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		b.Write(line.Value(source))
	}
	_, err := fmt.Fprintf(w, "<pre tabindex=\"0\"><code>%s</code></pre>\n", html.EscapeString(strings.TrimRight(b.String(), "\n")))
	return ast.WalkSkipChildren, err
}

func renderHelpTable(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		_, err := w.WriteString("</table></div>\n")
		return ast.WalkContinue, err
	}
	caption, _ := n.AttributeString(captionOf)
	words, _ := caption.([]byte)
	_, err := fmt.Fprintf(w, "<div class=\"scroll\" tabindex=\"0\"><table class=\"list\"><caption class=\"vh\">%s</caption>\n", html.EscapeString(string(words)))
	return ast.WalkContinue, err
}

// renderHelpCell makes the head of a column only of a cell that says something.
func renderHelpCell(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	tag, attributes := "td", ""
	if n.Parent().Kind() == tables.KindTableHeader && n.HasChildren() {
		tag, attributes = "th", ` scope="col"`
	}
	if cell, ok := n.(*tables.TableCell); ok && cell.Alignment == tables.AlignRight {
		attributes += ` class="n"`
	}
	if !entering {
		tag, attributes = "/"+tag, ""
	}
	_, err := fmt.Fprintf(w, "<%s%s>", tag, attributes)
	return ast.WalkContinue, err
}
