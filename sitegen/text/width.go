package text

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// textSafe makes foreign text fit for a terminal: nothing in it is obeyed. With
// ascii it is also within ASCII: accents fall off their letters, and what has
// no letter beneath becomes a question mark.
func textSafe(s string, ascii bool) string {
	s = snapshot.Text(s, render.MaxText)
	if !ascii || render.PlainASCII(s) {
		return s
	}
	var b strings.Builder
	for _, r := range norm.NFKD.String(s) {
		switch {
		case r >= 0x20 && r < 0x7f:
			b.WriteRune(r)
		case r == '…':
			b.WriteString("...")
		case unicode.Is(unicode.Mn, r):
		default:
			b.WriteByte('?')
		}
	}
	return b.String()
}

// textCut returns s in at most n cells; more marks a cut and is one cell wide.
func textCut(s string, n int, more string) string {
	if n <= 0 {
		return ""
	}
	if len(s) <= n && render.PlainASCII(s) || render.TextWidth(s) <= n {
		return s
	}
	var b strings.Builder
	used := 0
	for _, r := range s {
		w := render.RuneWidth(r)
		if used+w > n-1 {
			break
		}
		b.WriteRune(r)
		used += w
	}
	return b.String() + more
}

// textPad returns s in exactly n cells, cut or filled up with spaces.
func textPad(s string, n int, more string) string {
	s = textCut(s, n, more)
	return s + strings.Repeat(" ", max(0, n-render.TextWidth(s)))
}

// textRight is textPad with the spaces in front.
func textRight(s string, n int, more string) string {
	s = textCut(s, n, more)
	return strings.Repeat(" ", max(0, n-render.TextWidth(s))) + s
}

// paint puts text into a colour.
func paint(color, s string) string {
	if color == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}
