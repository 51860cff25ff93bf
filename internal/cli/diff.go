package cli

import (
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"gpuboard/internal/booking"
)

// diffLines shows what differs between two contents of comments.json, line by
// line, with "+" and "-" in front. Control characters are escaped.
func diffLines(before, after []byte) string {
	unified := string(diff.Diff("before", normalLines(before), "after", normalLines(after)))
	var out strings.Builder
	n := 0
	for line := range strings.Lines(unified) {
		n++
		switch {
		case n <= 3: // the names of the files
		case strings.HasPrefix(line, "@@"):
			if n > 4 {
				out.WriteString("  ...\n")
			}
		default:
			out.WriteString(line[:1] + " " + printable(strings.TrimSuffix(line[1:], "\n")) + "\n")
		}
	}
	return out.String()
}

// normalLines returns a text in UTF-8 whose lines all end in a newline alone.
func normalLines(data []byte) []byte {
	if text, err := booking.ToUTF8(data); err == nil {
		data = text
	}
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return []byte(text)
}
