package page

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"gpuboard/internal/snapshot"
)

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

func TestRemark(t *testing.T) {
	const rel = ` rel="nofollow noopener"`
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
		if got := rendered(t, remark(source)); got != want {
			t.Errorf("remark(%q) = %q; want %q", source, got, want)
		}
	}
}

func FuzzRemark(f *testing.F) {
	for _, s := range append(slices.Clone(payloads), "*a* `b` [c](https://d)", "[a]: //x\n[a]", "![[a](b)](c)",
		"~~a~~ www.example.org", "\\*a\\*") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := rendered(t, remark(s))
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
	for name, s := range map[string]string{
		"plain": "training until friday", "usual": "**do not** use, see https://wiki.example.org/a",
		"brackets": strings.Repeat("[", snapshot.MaxTextBytes), "stars": strings.Repeat("*a_", snapshot.MaxTextBytes/3),
		"links": strings.Repeat("[a](", snapshot.MaxTextBytes/4),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				remark(s)
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
		if got := firstLine(source); got != want {
			t.Errorf("firstLine(%q) = %q, want %q", source, got, want)
		}
	}
}
