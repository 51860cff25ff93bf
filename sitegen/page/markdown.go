package page

import (
	"bytes"
	"fmt"
	"html/template"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// safeHTML is what only this file makes: HTML that templates do not escape again.
type safeHTML = template.HTML

// markdownLimit bounds a notice: longer text is cut, on a line.
const markdownLimit = 64 << 10

// markdown renders what people wrote. It is the only place that makes HTML
// which is not escaped again, so it lets through little: no HTML of theirs, no
// images (they would call foreign servers), no headings that outrank the page's
// own, and links only to http, https, mailto and within the site.
func markdown(source string) (safeHTML, error) {
	if strings.TrimSpace(source) == "" {
		return "", nil
	}
	source = strings.ReplaceAll(strings.ToValidUTF8(source, "\uFFFD"), "\r\n", "\n")
	if len(source) > markdownLimit {
		cut := source[:markdownLimit]
		source = strings.ToValidUTF8(cut[:strings.LastIndexByte(cut, '\n')+1], "")
	}
	md := goldmark.New(
		goldmark.WithExtensions(extension.Table, extension.Strikethrough),
		goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(tame{}, 100))),
	)
	return convert(md, []byte(source))
}

// convert makes HTML of Markdown. What md lets through is not escaped again.
func convert(md goldmark.Markdown, source []byte) (safeHTML, error) {
	var out bytes.Buffer
	if err := md.Convert(source, &out); err != nil {
		return "", fmt.Errorf("rendering markdown: %w", err)
	}
	return safeHTML(visible(out.String())), nil
}

// visible makes every hidden character of a text a visible escape, but for its
// lines and tabs. It looks at what was rendered, because Markdown makes such
// characters of entities, too.
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

// tame takes out of a document what has no place on the board.
type tame struct{}

// Transform implements parser.ASTTransformer.
func (tame) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	prune(doc, func(n ast.Node) (keep bool) {
		switch n := n.(type) {
		case *ast.Heading:
			n.Level = min(6, max(3, n.Level+1)) // below the page's own h1 and h2
		case *ast.Link:
			if !harmless(string(n.Destination)) {
				n.Destination = []byte("#")
			}
			n.SetAttributeString("rel", []byte("nofollow noopener"))
		case *ast.AutoLink:
			n.SetAttributeString("rel", []byte("nofollow noopener"))
			return harmless(string(n.URL(reader.Source())))
		}
		return true
	})
}

// prune shows every part of a document to keep, and takes out those that it does
// not keep, with all that is in them. Pictures and HTML it never keeps.
func prune(doc *ast.Document, keep func(ast.Node) bool) {
	var drop []ast.Node
	// The walk never fails: the visitor returns no error.
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n.(type) {
		case *ast.Image, *ast.RawHTML, *ast.HTMLBlock:
		default:
			if keep(n) {
				return ast.WalkContinue, nil
			}
		}
		drop = append(drop, n)
		return ast.WalkSkipChildren, nil
	})
	for _, n := range drop {
		n.Parent().RemoveChild(n.Parent(), n)
	}
}

// unwrap leaves of a part what is in it.
func unwrap(n ast.Node) {
	parent := n.Parent()
	for c := n.FirstChild(); c != nil; c = n.FirstChild() {
		parent.InsertBefore(parent, n, c) // moves it out
	}
	parent.RemoveChild(parent, n)
}

// harmless reports whether a link may lead there: a known scheme, or none and
// not another host ("//…").
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

// remark renders what somebody wrote about a booking: one line of Markdown, with
// emphasis, code and links. Everything else stays the text that it is: a comment
// such as "# 2 of 4" or "<b>" is read as it was typed, and no block of it can
// break a table apart. It is bounded as every text of a person is.
func remark(comment string) safeHTML {
	comment = render.Clean(strings.Join(strings.Fields(comment), " "))
	if !strings.ContainsAny(comment, "*_`[]<>~\\&") && !strings.Contains(comment, "://") && !strings.Contains(comment, "www.") {
		return safeHTML(template.HTMLEscapeString(comment))
	}
	shown, err := convert(oneLine(), []byte(comment))
	if err != nil {
		// A buffer takes everything, so this is a text that goldmark has no
		// renderer for; it is still worth reading.
		return safeHTML(template.HTMLEscapeString(comment))
	}
	return shown
}

// oneLine is Markdown without blocks and without HTML. It is made once: goldmark
// may be used by several renderings at a time.
var oneLine = sync.OnceValue(func() goldmark.Markdown {
	p := parser.NewParser(
		parser.WithBlockParsers(util.Prioritized(parser.NewParagraphParser(), 1000)),
		parser.WithInlineParsers(
			util.Prioritized(parser.NewCodeSpanParser(), 100),
			util.Prioritized(parser.NewLinkParser(), 200),
			util.Prioritized(parser.NewAutoLinkParser(), 300),
			util.Prioritized(parser.NewEmphasisParser(), 500),
		),
		parser.WithASTTransformers(util.Prioritized(plainer{}, 99), util.Prioritized(tame{}, 100)),
	)
	return goldmark.New(
		goldmark.WithParser(p),
		goldmark.WithExtensions(extension.Strikethrough, extension.Linkify),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(bare{}, 1))),
	)
})

// plainer leaves of a picture what it is called, since the board fetches nothing
// from elsewhere, and of a link that leads nowhere useful its words: a comment
// stands on pages of several depths, so only a whole address is the same on all.
type plainer struct{}

// Transform implements parser.ASTTransformer.
func (plainer) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	var undo []ast.Node
	// The walk never fails: the visitor returns no error.
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) { // the inner ones first
		case *ast.Image:
			undo = append(undo, n)
		case *ast.Link:
			if d := string(n.Destination); !harmless(d) || !strings.Contains(d, ":") {
				undo = append(undo, n)
			}
		case *ast.AutoLink:
			if !harmless(string(n.URL(reader.Source()))) {
				undo = append(undo, n)
			}
		}
		return ast.WalkContinue, nil
	})
	for _, n := range undo {
		if a, ok := n.(*ast.AutoLink); ok {
			n.Parent().InsertBefore(n.Parent(), n, ast.NewString(a.Label(reader.Source())))
		}
		unwrap(n)
	}
}

// bare renders a paragraph without the element around it: a comment stands within
// a line of the board.
type bare struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (bare) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindParagraph, func(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) {
		return ast.WalkContinue, nil
	})
}
