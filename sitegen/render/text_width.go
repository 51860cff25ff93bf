package render

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"

	"gpuboard/internal/snapshot"
)

// textSafe makes foreign text fit for a terminal: nothing in it is obeyed. With
// ascii it is also within ASCII: accents fall off their letters, and what has
// no letter beneath becomes a question mark.
func textSafe(s string, ascii bool) string {
	s = snapshot.Text(s, apiTextMax)
	if !ascii || textPlain(s) {
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

func textPlain(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// textRuneWidth is how many terminal cells a character takes: two for wide East
// Asian ones and most emoji, none for marks that combine with the one before.
func textRuneWidth(r rune) int {
	if r < 0x7f {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

func textWidth(s string) int {
	if textPlain(s) {
		return len(s)
	}
	n := 0
	for _, r := range s {
		n += textRuneWidth(r)
	}
	return n
}

// textCut returns s in at most n cells; more marks a cut and is one cell wide.
func textCut(s string, n int, more string) string {
	if n <= 0 {
		return ""
	}
	if len(s) <= n && textPlain(s) || textWidth(s) <= n {
		return s
	}
	var b strings.Builder
	used := 0
	for _, r := range s {
		w := textRuneWidth(r)
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
	return s + strings.Repeat(" ", max(0, n-textWidth(s)))
}

// textRight is textPad with the spaces in front.
func textRight(s string, n int, more string) string {
	s = textCut(s, n, more)
	return strings.Repeat(" ", max(0, n-textWidth(s))) + s
}
