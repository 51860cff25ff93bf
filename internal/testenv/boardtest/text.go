package boardtest

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"gpuboard/sitegen/render"
)

// CheckText fails where a text for a terminal breaks what holds for every board: its
// lines are within the width, its tables as wide as that, and it has nothing that a
// terminal obeys but, with color, our colours.
func CheckText(t testing.TB, s string, width int, color, ascii bool) {
	t.Helper()
	if color {
		s = regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(s, "")
	}
	if !utf8.ValidString(s) {
		t.Fatalf("not UTF-8: %q", s)
	}
	for _, r := range s {
		if Obeyed(r) || ascii && r > 0x7e {
			t.Fatalf("%U is written: %q", r, s)
		}
	}
	for _, line := range strings.Split(s, "\n") {
		w := render.TextWidth(line)
		if w > width {
			t.Fatalf("%d columns: %q", w, line)
		}
		if (strings.HasPrefix(line, "|") || strings.HasPrefix(line, "+")) && w != width {
			t.Fatalf("%d columns in a table of %d: %q", w, width, line)
		}
	}
}
