package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestNoHiddenCharacters: what a terminal obeys or an eye cannot see reaches no
// file of the site, whoever wrote it.
func TestNoHiddenCharacters(t *testing.T) {
	b := webBed(t)
	const hidden = "\x1b[2J\a\x00\u0085\u009b\u202e\u2066\u200b\x7f"
	text := "plant " + hidden + " and &#x1b;[2J &#8238; &#x9b; `" + hidden + "`\r\n\tcode " + hidden + "\n\n[" + hidden + "](https://example.org/" + hidden + "&#x202e;)\n"
	b.write("data/notice.md", text)
	b.write("data/hosts/gpu01.md", text)
	b.write("data/aliases.csv", "adal"+hidden+",ada"+hidden+"\n# "+hidden+"\n@team"+hidden+",ada\n")
	b.write("data/comments.json", `{"gpu01": [{"name": "adal`+"\u202e"+`", "date": "2030-01-01", "comment": "\u001b[2J \u009b \u202e `+"\u2066"+` plant"}, {"name": "\u0000"}], "no\u001bhost": []}`)
	b.write("own/words/en.json", `{"past.title": "plant \u001b[2J\u202e"}`)
	_, stderr, code := b.run(b.generate("--templates", b.path("own"), "--title", "lab "+hidden, "--lab", hidden)...)
	if code != exitDegraded || strings.ContainsFunc(stderr, func(r rune) bool { return r != '\n' && unicode.Is(unicode.Cc, r) }) {
		t.Errorf("exit %d:\n%q", code, stderr)
	}
	seen := 0
	for _, name := range b.below("site") {
		if !slices.Contains([]string{".html", ".txt", ".json", ".ics", ".xml", ".csv", ".svg", ".js", ".css"}, filepath.Ext(name)) {
			continue
		}
		data, err := os.ReadFile(b.path(name))
		b.must(err)
		seen += strings.Count(string(data), "plant")
		for i, r := range string(data) {
			if r != '\n' && r != '\t' && (r != '\r' || filepath.Ext(name) != ".ics" && filepath.Ext(name) != ".csv") && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
				t.Errorf("%s has %U: %q", name, r, data[max(0, i-40):min(len(data), i+40)])
				break
			}
		}
	}
	if seen < 4 {
		t.Errorf("what was planted is on the site %d times", seen)
	}
}
