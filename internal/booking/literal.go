package booking

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// curly returns the length of a typographic quotation mark at the cursor; 0
// when there is none. Word processors and chat programs put them in.
func (c *scanner) curly() int {
	for _, q := range []string{"“", "”", "„", "‘", "’", "«", "»"} {
		if strings.HasPrefix(c.s[c.i:], q) {
			return len(q)
		}
	}
	return 0
}

// quoted reads a text in quotes of whatever sort; all but straight double
// quotes are reported.
func (c *scanner) quoted() *node {
	n := c.new('"')
	closing := `"`
	switch size := c.curly(); {
	case size > 0:
		c.fail(c.i, "these are typographic quotes: write straight double quotes \"")
		closing = "“”‘’«»\""
		c.i += size
	case c.peek() == '\'':
		c.fail(c.i, "texts stand in double quotes \", not in single ones")
		closing = "'"
		c.i++
	default:
		c.i++
	}
	begin, plain := c.i, true
	var b strings.Builder
	keep := func(upTo int) {
		if plain {
			plain = false
			b.WriteString(c.s[begin:upTo])
		}
	}
	for {
		if c.i >= len(c.s) || c.s[c.i] == '\n' || c.s[c.i] == '\r' {
			c.endless(n, begin)
			return n
		}
		r, size := utf8.DecodeRuneInString(c.s[c.i:])
		switch {
		case strings.ContainsRune(closing, r) && !(r == utf8.RuneError && size == 1):
			n.str = b.String()
			if plain {
				n.str = c.s[begin:c.i]
			}
			c.i += size
			n.end = int32(c.i)
			return n
		case r == '\\':
			keep(c.i)
			c.escape(&b)
			continue
		case r < 0x20:
			c.fail(c.i, "there is a tab or a control character in this text: write a space")
			keep(c.i)
			b.WriteByte(' ')
			c.i++
			continue
		case !plain:
			b.WriteString(c.s[c.i : c.i+size])
		}
		c.i += size
	}
}

// endless handles a text whose closing quote is not on its line.
func (c *scanner) endless(n *node, begin int) {
	text := strings.TrimRight(c.s[begin:c.i], " \t")
	text = strings.TrimRight(text, ",") // the comma behind the missing quote, most likely
	c.fail(int(n.start), "the closing quote of this text is missing: it has to be on the same line")
	c.i = begin + len(text)
	n.str, n.end = text, int32(c.i)
}

// escape reads one backslash and what belongs to it.
func (c *scanner) escape(b *strings.Builder) {
	rest := c.s[c.i:]
	if len(rest) >= 2 {
		if k := strings.IndexByte(`"\/bfnrt`, rest[1]); k >= 0 {
			b.WriteByte("\"\\/\b\f\n\r\t"[k])
			c.i += 2
			return
		}
		if r, ok := hex4(rest); ok {
			c.i += 6
			if utf16.IsSurrogate(r) {
				if low, ok := hex4(c.s[c.i:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
					r = utf16.DecodeRune(r, low)
					c.i += 6
				} else {
					r = utf8.RuneError
				}
			}
			b.WriteRune(r)
			return
		}
	}
	c.fail(c.i, `a backslash in a text is written twice: \\`)
	b.WriteByte('\\')
	c.i++
}

func hex4(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(v), err == nil
}

func itoa(n int) string { return strconv.Itoa(n) }

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
