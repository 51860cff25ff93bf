package booking

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// bare reads what stands there without quotes: a number, a word, or a mistake.
func (c *scanner) bare(key bool) *node {
	n := c.new('?')
	stop := ",}]{[\n\"\r"
	if key {
		stop = ":=,}]{[\n\r\" \t"
	}
	for c.i < len(c.s) && strings.IndexByte(stop, c.s[c.i]) < 0 &&
		!strings.HasPrefix(c.s[c.i:], "//") && !strings.HasPrefix(c.s[c.i:], "/*") {
		// A word inside a list that is followed by a colon is a name.
		if !key && c.s[c.i] == ':' && !digitAround(c.s, c.i) {
			break
		}
		c.i++
	}
	word := strings.TrimRight(c.s[n.start:c.i], " \t")
	n.end = n.start + int32(len(word))
	c.i = int(n.end)
	if !key {
		switch {
		case word == "true" || word == "false" || word == "null":
			n.kind = word[0]
			return n
		case word != "" && strings.IndexByte("-0123456789", word[0]) >= 0 && json.Valid([]byte(word)):
			n.kind = '0'
			return n
		}
	}
	if word == "" || !strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '*' }) {
		if c.i == int(n.start) && c.i < len(c.s) {
			_, size := utf8.DecodeRuneInString(c.s[c.i:])
			c.i += size
			n.end = int32(c.i)
		}
		c.fail(int(n.start), quote(c.s[n.start:n.end])+" cannot stand here")
		return n
	}
	switch strings.ToLower(word) {
	case "none", "nil", "null", "undefined":
		c.fail(int(n.start), "nothing is written null, in small letters")
		n.kind = 'n'
	case "true", "false":
		c.fail(int(n.start), quote(word)+" is written in small letters")
		n.kind = strings.ToLower(word)[0]
	default:
		c.fail(int(n.start), quote(word)+" needs double quotes around it")
		n.kind, n.str = '"', word
	}
	return n
}

// digitAround reports whether the colon at i is that of a time of day.
func digitAround(s string, i int) bool {
	digit := func(i int) bool { return i >= 0 && i < len(s) && s[i] >= '0' && s[i] <= '9' }
	return digit(i-1) && digit(i+1)
}
