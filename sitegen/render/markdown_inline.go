package render

import (
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
)

// remark renders what somebody wrote about a booking: one line of Markdown, with
// emphasis, code and links. Everything else stays the text that it is: a comment
// such as "# 2 of 4" or "<b>" is read as it was typed, and no block of it can
// break a table apart. It is bounded as every text of a person is.
func remark(comment string) safeHTML {
	comment = clean(strings.Join(strings.Fields(comment), " "))
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
