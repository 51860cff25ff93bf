package cli

import (
	"unicode"

	"golang.org/x/text/width"
)

// cells is how many cells of a terminal a text takes: two for a wide character
// of East Asia or an emoji, none for a mark on the one before.
func cells(s string) int {
	n := 0
	for _, r := range s {
		n += runeCells(r)
	}
	return n
}

func runeCells(r rune) int {
	switch {
	case r < 0x7f:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

// cutCells returns a text in at most so many cells.
func cutCells(s string, most int) string {
	if cells(s) <= most {
		return s
	}
	used := 0
	for i, r := range s {
		if used += runeCells(r); used > most-1 {
			return s[:i] + "…"
		}
	}
	return s
}
