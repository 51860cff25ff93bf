package snapshot

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text makes an untrusted string safe to print: valid UTF-8, without control, line
// separator and direction characters (each becomes a visible escape such as \x1b or
// \u202e), and at most max bytes long, with an ellipsis if it was cut.
//
// It does not escape for HTML, ICS or CSV.
func Text(s string, max int) string {
	if len(s) <= max && utf8.ValidString(s) && strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	fits := 0 // how much of b leaves room for the ellipsis
	for i := 0; i < len(s) && b.Len() <= max; {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case hidden(r) && r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case hidden(r) && r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		case hidden(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteString(s[i : i+n])
		}
		if b.Len() <= max-len(ellipsis) {
			fits = b.Len()
		}
		i += n
	}
	switch {
	case b.Len() <= max:
		return b.String()
	case max < len(ellipsis):
		return ""
	default:
		return b.String()[:fits] + ellipsis
	}
}

const ellipsis = "…"

// hidden reports whether a character controls a terminal or is invisible: C0 and C1
// controls, format characters (bidi overrides, zero width), line and paragraph
// separators, surrogates and private use.
func hidden(r rune) bool {
	if r >= ' ' && r <= '~' {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Cs, unicode.Co)
}
