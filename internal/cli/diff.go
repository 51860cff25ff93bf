package cli

import (
	"strings"

	"gpuboard/internal/booking"
)

// diffContext is how many unchanged lines are shown around a change.
const diffContext = 2

// diffLines shows what differs between two contents of comments.json, line by
// line, with "+" and "-" in front; whatever is in them, a terminal obeys none of it.
func diffLines(before, after []byte) string {
	a, b := textLines(before), textLines(after)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	if head == len(a) && head == len(b) {
		return ""
	}
	var out []string
	for i := max(0, head-diffContext); i < head; i++ {
		out = append(out, "  "+a[i])
	}
	out = append(out, diffMiddle(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for i := len(a) - tail; i < min(len(a), len(a)-tail+diffContext); i++ {
		out = append(out, "  "+a[i])
	}
	return printable(strings.Join(out, "\n")) + "\n"
}

func textLines(data []byte) []string {
	if text, err := booking.ToUTF8(data); err == nil {
		data = text
	}
	if len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n"), "\n")
}

// diffMost bounds the table of the comparison. Beyond it, all old lines are
// shown as gone and all new ones as added, which is true as well.
const diffMost = 4_000_000

// diffMiddle compares by the longest common subsequence of lines, and leaves
// out long unchanged stretches.
func diffMiddle(a, b []string) []string {
	var out []string
	if len(a)*len(b) > diffMost {
		for _, line := range a {
			out = append(out, "- "+line)
		}
		for _, line := range b {
			out = append(out, "+ "+line)
		}
		return out
	}
	common := make([][]int32, len(a)+1)
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var same []string
	flush := func() {
		if len(same) > 2*diffContext+1 {
			for _, line := range same[:diffContext] {
				out = append(out, "  "+line)
			}
			out = append(out, "  ...")
			same = same[len(same)-diffContext:]
		}
		for _, line := range same {
			out = append(out, "  "+line)
		}
		same = nil
	}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			same = append(same, a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			flush()
			out = append(out, "- "+a[i])
			i++
		default:
			flush()
			out = append(out, "+ "+b[j])
			j++
		}
	}
	flush()
	return out
}
