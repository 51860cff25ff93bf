// Package spelling finds the known word that somebody meant by a misspelt one.
package spelling

// maxBytes bounds the words that are compared. No name in the program is longer.
const maxBytes = 200

// Nearest returns the known word with the fewest differences from word, at most
// within of them; "" for none. The first of several equally near ones wins.
func Nearest(word string, known []string, within int) string {
	nearest, least := "", within+1
	for _, k := range known {
		if d := Distance(word, k); d < least && d < len(k) {
			nearest, least = k, d
		}
	}
	return nearest
}

// DidYouMean returns `; did you mean "X"?` for the nearest known word, which may
// differ in half of the letters; "" for none.
func DidYouMean(word string, known []string) string {
	if near := Nearest(word, known, len(word)/2); near != "" {
		return `; did you mean "` + near + `"?`
	}
	return ""
}

// Distance counts the letters to insert, delete or replace, and the neighbours to
// exchange, that make b of a (optimal string alignment). Words that are too long
// to be names have nothing in common.
func Distance(a, b string) int {
	if len(a) > maxBytes || len(b) > maxBytes {
		return max(len(a), len(b))
	}
	var above, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		above, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(replaced, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], above[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
