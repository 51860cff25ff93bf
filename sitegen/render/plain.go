package render

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"gpuboard/internal/snapshot"
)

// MaxText bounds any one string in a file for programs or terminals. What a Board holds was
// bounded when it was read; this is the last fence before it is published.
const MaxText = 4096

// Clean makes a name or a sentence of somebody's safe to look at.
func Clean(s string) string { return snapshot.Text(s, snapshot.MaxTextBytes) }

// PlainASCII reports whether a text is printable ASCII.
func PlainASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r >= 0x7f }) < 0
}

// RuneWidth is how many terminal cells a character takes: two for wide East
// Asian ones and most emoji, none for marks that combine with the one before.
func RuneWidth(r rune) int {
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

// TextWidth is how many terminal cells a text takes.
func TextWidth(s string) int {
	if PlainASCII(s) {
		return len(s)
	}
	n := 0
	for _, r := range s {
		n += RuneWidth(r)
	}
	return n
}

// WithSlices is how many GPUs and MIG slices there are of something, apart: "4", "1 MIG", "4 + 1 MIG"; "" for none.
func WithSlices[N int | float64](gpus, slices N, text func(N) string) string {
	switch {
	case gpus == 0 && slices == 0:
		return ""
	case slices == 0:
		return text(gpus)
	case gpus == 0:
		return text(slices) + " MIG"
	}
	return text(gpus) + " + " + text(slices) + " MIG"
}
