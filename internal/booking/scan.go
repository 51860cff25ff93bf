package booking

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"gpuboard/internal/snapshot"
)

// maxNodes bounds the memory that a hostile file can ask for. A file at the
// limit of [MaxFileBytes] with nothing but short bookings stays under it.
const maxNodes = 900_000

// maxErrors is how many syntax errors are reported before the scanner gives up.
const maxErrors = 1000

// A node is one JSON value and where it stands in the text.
type node struct {
	kind       byte // '{' '[' '"' '0' 't' 'f' 'n', or '?' for what could not be read
	start, end int32
	str        string // of a '"': the text it stands for
	items      []item
}

type item struct {
	key   *node // nil in a list
	val   *node
	comma int32 // where the comma behind val stands; -1 for none
}

// A scanner reads JSON with comments and trailing commas as far as it can. If it
// stopped at the first mistake, one missing comma would free every GPU below it.
// So it reports the mistake, resumes at the next comma or bracket, and marks nodes
// that it could not read. (hujson stops; it checks what is written.)
type scanner struct {
	src     *source
	s       string
	i       int
	report  func(off int, message string)
	open    []*node // brackets around here, outermost first
	nodes   int
	errors  int
	resumed bool // a list was closed for the reader: the next key needs no comma
	halted  bool
}

func (c *scanner) fail(off int, message string) {
	c.errors++
	c.report(off, message)
	if c.errors == maxErrors {
		c.halt(off, "there are too many mistakes in this file: what follows was not read")
	}
}

// halt gives up on the rest of the file: the next skip goes to its end.
func (c *scanner) halt(off int, message string) {
	if !c.halted {
		c.halted = true
		c.fail(off, message)
	}
}

// document reads the whole text. It returns nil when there is no value at all.
func (c *scanner) document() *node {
	c.skip()
	if c.i >= len(c.s) {
		return nil
	}
	root := c.value()
	c.skip()
	if c.i < len(c.s) && !c.halted {
		c.fail(c.i, "there is more text after the end of the bookings: everything belongs inside one pair of braces { }; look for a brace too many above")
	}
	return root
}

func (c *scanner) peek() byte {
	if c.i < len(c.s) {
		return c.s[c.i]
	}
	return 0
}

// skip passes white space and comments.
func (c *scanner) skip() {
	for c.i < len(c.s) {
		if c.halted {
			c.i = len(c.s)
			return
		}
		switch ch := c.s[c.i]; {
		case ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r':
			c.i++
		case strings.HasPrefix(c.s[c.i:], "//"):
			c.line()
		case strings.HasPrefix(c.s[c.i:], "/*"):
			n := strings.Index(c.s[c.i+2:], "*/")
			if n < 0 {
				c.halt(c.i, "this comment is never closed: write */ where it ends")
				continue
			}
			c.i += n + 4
		case ch == '#':
			c.fail(c.i, "a comment begins with //, not with #")
			c.line()
		case ch >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(c.s[c.i:])
			if !unicode.IsSpace(r) && r != '\ufeff' && r != '\u200b' {
				return
			}
			c.fail(c.i, "there is an invisible character here that is no ordinary space: delete it")
			c.i += n
		default:
			return
		}
	}
}

func (c *scanner) line() {
	n := strings.IndexByte(c.s[c.i:], '\n')
	if n < 0 {
		c.i = len(c.s)
		return
	}
	c.i += n
}

func (c *scanner) new(kind byte) *node {
	if c.nodes++; c.nodes > maxNodes {
		c.halt(c.i, "the file holds too many values: what follows was not read")
	}
	return &node{kind: kind, start: int32(c.i), end: int32(c.i)}
}

// value reads one value; the caller has skipped to it. It always returns a
// node, and takes at least one character unless it meets a closing bracket, a
// comma or the end.
func (c *scanner) value() *node {
	switch ch := c.peek(); {
	case ch == '{' || ch == '[':
		if len(c.open) >= snapshot.MaxDepth {
			n := c.new('?')
			c.halt(c.i, "brackets are nested too deep here: what follows was not read")
			return n
		}
		n := c.new(ch)
		c.open = append(c.open, n)
		c.i++
		if ch == '{' {
			c.object(n)
		} else {
			c.list(n)
		}
		c.open = c.open[:len(c.open)-1]
		n.end = int32(c.i)
		return n
	case ch == '"', ch == '\'', c.curly() > 0:
		return c.quoted()
	default:
		return c.bare(false)
	}
}

// between passes what may stand before a member or an element of a node and is
// none. It reports whether the node has ended: by its own bracket, by one of the
// other kind, or by the end of the text.
func (c *scanner) between(n *node) (ended bool) {
	own, other, around, more := byte('}'), byte(']'), byte('['), ""
	if n.kind == '[' {
		own, other, around, more = ']', '}', '{', ", or write {} for a GPU without a booking"
	}
	for {
		c.skip()
		switch ch := c.peek(); {
		case c.i >= len(c.s):
			c.unclosed(n)
			return true
		case ch == own:
			c.i++
			return true
		case ch == other:
			c.fail(c.i, "the "+string(n.kind)+" opened at "+c.at(n)+" has to be closed with "+string(own)+" before this "+string(other))
			if !c.enclosed(around) {
				c.i++ // nothing that it could close: it was meant for this one
			}
			return true
		case ch == ',':
			c.fail(c.i, "there is a comma too many here: delete it"+more)
			c.i++
		default:
			return false
		}
	}
}

// object reads up to and with the closing brace.
func (c *scanner) object(n *node) {
	for !c.between(n) {
		switch ch := c.peek(); {
		case ch == '{' && len(c.open) > 1 && c.open[len(c.open)-2].kind == '[':
			c.fail(c.i, "the { opened at "+c.at(n)+" is not closed before this one: put a } in front")
			c.resumed = true
			return
		case ch == '{' || ch == '[':
			c.fail(c.i, "there has to be a name in quotes and a colon before this bracket")
			c.value()
			c.comma(nil)
		default:
			c.member(n)
		}
	}
}

// member reads `key: value` and the comma behind it.
func (c *scanner) member(n *node) {
	c.resumed = false
	var key *node
	if ch := c.peek(); ch == '"' || ch == '\'' || c.curly() > 0 {
		key = c.quoted()
	} else {
		key = c.bare(true)
	}
	c.skip()
	switch c.peek() {
	case ':':
		c.i++
	case '=':
		c.fail(c.i, "between a name and its value stands a colon, not =")
		c.i++
	default:
		c.fail(int(key.end), "a colon and a value are missing after "+quote(key.str))
		if strings.IndexByte(",}]\x00", c.peek()) >= 0 {
			c.comma(nil)
			return
		}
	}
	c.skip()
	it := item{key: key, comma: -1}
	if strings.IndexByte(",}]\x00", c.peek()) >= 0 {
		c.fail(int(key.end), "the value of "+quote(key.str)+" is missing")
		it.val = c.new('?')
	} else {
		it.val = c.value()
	}
	c.comma(&it)
	n.items = append(n.items, it)
}

// list reads up to and with the closing bracket.
func (c *scanner) list(n *node) {
	for !c.between(n) {
		c.resumed = false
		it := item{val: c.value(), comma: -1}
		before := c.i
		c.skip()
		if c.peek() == ':' {
			c.fail(int(it.val.start), "the [ opened at "+c.at(n)+" is not closed before this name: put a ] in front")
			if c.enclosed('{') {
				c.i, c.resumed = int(it.val.start), true
				return
			}
			c.i++
			continue
		}
		c.i = before
		c.comma(&it)
		n.items = append(n.items, it)
	}
}

// comma passes the comma behind a value, or says that it is missing.
func (c *scanner) comma(it *item) {
	end := c.i
	c.skip()
	switch ch := c.peek(); {
	case c.i >= len(c.s) || ch == '}' || ch == ']' || c.resumed:
	case ch == ',':
		if it != nil {
			it.comma = int32(c.i)
		}
		c.i++
	case ch == ':':
		c.fail(c.i, "there is a colon too many here")
		c.i++
	default:
		c.fail(end, "a comma is missing here")
	}
}

// enclosed reports whether a bracket of this sort is open around the innermost.
func (c *scanner) enclosed(kind byte) bool {
	for _, n := range c.open[:len(c.open)-1] {
		if n.kind == kind {
			return true
		}
	}
	return false
}

func (c *scanner) unclosed(n *node) {
	if c.halted {
		return
	}
	want := "}"
	if n.kind == '[' {
		want = "]"
	}
	c.fail(int(n.start), "this "+string(n.kind)+" is never closed: a "+want+" is missing, or the file was saved by half")
}

func (c *scanner) at(n *node) string {
	line, col := c.src.position(int(n.start))
	return "line " + itoa(line) + ", column " + itoa(col) + ","
}

func quote(s string) string {
	return `"` + snapshot.Text(s, 60) + `"`
}
