package nvidiasmi

import (
	"bytes"
	"html"
)

// The scanner reads the subset of XML that nvidia-smi writes. It replaces encoding/xml
// because it continues after errors: a process name with a "<", invalid UTF-8, a
// truncated document.

const (
	maxDepth = 32
	maxName  = 128
	maxTag   = 1024
)

type kind uint8

const (
	kindText kind = iota
	kindOpen
	kindClose
	kindEmpty // <name/>
)

// A token is one piece of the input; its slices point into it.
type token struct {
	kind kind
	name []byte // of a tag
	attr []byte // what follows the name inside an opening tag
	text []byte
	at   int
}

type scanner struct {
	in  []byte
	pos int
}

// next returns the next token, and false at the end. Declarations and comments are
// skipped up to the next ">"; one that is not ended before the next tag is text, so that
// it cannot hide what follows. A truncated tag at the end of the input is ignored.
func (s *scanner) next() (token, bool) {
	for s.pos < len(s.in) {
		rest := s.in[s.pos:]
		if rest[0] != '<' {
			return s.takeText(rest), true
		}
		if len(rest) > 1 && (rest[1] == '!' || rest[1] == '?') {
			n := bytes.IndexAny(rest[1:], "<>")
			if n < 0 || rest[1+n] == '<' {
				return s.takeText(rest), true
			}
			s.pos += n + 2
			continue
		}
		t, n, ok := tag(rest)
		switch {
		case ok:
			t.at = s.pos
			s.pos += n
			return t, true
		case n < 0: // cut short
			s.pos = len(s.in)
		default:
			return s.takeText(rest), true
		}
	}
	return token{}, false
}

// takeText returns the text up to the next "<". The first byte may be a "<" that begins
// no tag.
func (s *scanner) takeText(rest []byte) token {
	n := bytes.IndexByte(rest[1:], '<')
	if n < 0 {
		n = len(rest) - 1
	}
	t := token{kind: kindText, text: rest[:n+1], at: s.pos}
	s.pos += n + 1
	return t
}

// tag reads the tag at the start of b. n is its length, 0 if b does not begin with a
// tag, and -1 if the input ends within it.
func tag(b []byte) (t token, n int, ok bool) {
	i := 1
	t.kind = kindOpen
	if i < len(b) && b[i] == '/' {
		t.kind = kindClose
		i++
	}
	start := i
	for i < len(b) && nameByte(b[i], i == start) {
		i++
	}
	switch {
	case i == len(b):
		return t, -1, false
	case i == start || i-start > maxName:
		return t, 0, false
	}
	t.name = b[start:i]
	if c := b[i]; c != '>' && c != '/' && !space(c) {
		return t, 0, false
	}
	window := b[i:min(len(b), i+maxTag)]
	switch end := bytes.IndexAny(window, "<>"); {
	case end >= 0 && window[end] == '>':
		t.attr = window[:end]
		if t.kind == kindOpen && len(t.attr) > 0 && t.attr[len(t.attr)-1] == '/' {
			t.kind = kindEmpty
			t.attr = t.attr[:len(t.attr)-1]
		}
		return t, i + end + 1, true
	case end < 0 && len(window) < maxTag:
		return t, -1, false
	}
	return t, 0, false
}

func nameByte(c byte, first bool) bool {
	letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
	return letter || !first && (c >= '0' && c <= '9' || c == '-' || c == '.' || c == ':')
}

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func unescape(b []byte) string {
	b = bytes.TrimSpace(b)
	if bytes.IndexByte(b, '&') < 0 {
		return string(b)
	}
	return html.UnescapeString(string(b))
}
