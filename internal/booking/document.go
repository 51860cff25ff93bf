package booking

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tailscale/hujson"
	"golang.org/x/text/encoding/charmap"

	"gpuboard/internal/snapshot"
)

const bom = "\xef\xbb\xbf"

// maxValues bounds the memory that a hostile file can ask for; [MaxFileBytes] of short bookings have fewer.
const maxValues = 500_000

// A document is a file as characters, and as a tree of JSON values. A file whose bytes are
// valid UTF-8 is UTF-8. Any other is Windows-1252, which is Latin-1 with printable
// characters in the place of control characters.
type document struct {
	text        string // without the byte order mark
	bom         bool
	windows1252 bool
	root        *hujson.Value // nil where the file has only white space and comments
	lines       []int         // the offset of each line
	last        struct{ off, line, col int }
}

// decode fails if the file is no text in either encoding.
func decode(data []byte) (*document, error) {
	d := &document{}
	body := data
	if bytes.HasPrefix(data, []byte(bom)) {
		d.bom = true
		body = data[len(bom):]
	}
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return nil, errors.New("the file is UTF-16: save it as UTF-8")
	case bytes.IndexByte(body, 0) >= 0:
		return nil, errors.New("the file contains NUL bytes, so it is not text: restore it from a copy")
	case utf8.Valid(body):
		d.text = string(body)
	case d.bom:
		return nil, errors.New(
			"the file is not valid UTF-8, although it begins with the byte order mark of UTF-8: save it as UTF-8 again")
	default:
		d.windows1252 = true
		var b strings.Builder
		b.Grow(len(body) + len(body)/8)
		for _, c := range body {
			b.WriteRune(decodeWindows1252(c))
		}
		d.text = b.String()
	}
	d.lines = make([]int, 1, 1+strings.Count(d.text, "\n"))
	for i := 0; i < len(d.text); i++ {
		if d.text[i] == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	d.last.line, d.last.col = 1, 1
	return d, nil
}

// decodeWindows1252 maps the five undefined bytes to control characters, so that encode restores them.
func decodeWindows1252(c byte) rune {
	if r := charmap.Windows1252.DecodeByte(c); r != utf8.RuneError {
		return r
	}
	return rune(c)
}

// encode returns a text in the encoding of the file.
func (d *document) encode(text []byte) ([]byte, error) {
	if !d.windows1252 {
		if d.bom {
			text = append([]byte(bom), text...)
		}
		return text, nil
	}
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		c, ok := charmap.Windows1252.EncodeRune(r)
		if !ok && r < 0x100 && decodeWindows1252(byte(r)) == r {
			c, ok = byte(r), true
		}
		if !ok {
			return nil, fmt.Errorf("%w, which has no %q: convert the file to UTF-8 first, or write it another way",
				ErrEncoding, r)
		}
		out = append(out, c)
	}
	return out, nil
}

// ErrEncoding is wrapped by the error about a character that the encoding of the file does not have. In UTF-8 it does.
var ErrEncoding = errors.New("the file is in Windows-1252 (Latin-1)")

// ToUTF8 returns the file in UTF-8. One that is in UTF-8 already, or is no text, is returned as it is.
func ToUTF8(data []byte) string {
	if d, err := decode(data); err == nil && d.windows1252 {
		return d.text
	}
	return string(data)
}

// position returns line and column, in characters and from 1, of an offset in text.
func (d *document) position(off int) (line, col int) {
	off = min(max(off, 0), len(d.text))
	line = d.lineOf(off)
	start, col := d.lines[line-1], 1
	// Offsets mostly rise, and a file may be one line of megabytes: the count goes on
	// from the last answer.
	if line == d.last.line && d.last.off <= off {
		start, col = d.last.off, d.last.col
	}
	col += utf8.RuneCountInString(d.text[start:off])
	d.last.off, d.last.line, d.last.col = off, line, col
	return line, col
}

// parse makes the tree. It returns the first mistake and its offset, "" for none. After one, the tree has the values
// that end before it.
func (d *document) parse() (off int, mistake string) {
	if open, _ := openAt(d.text, len(d.text), nil); len(open) > snapshot.MaxDepth {
		return open[snapshot.MaxDepth], fmt.Sprintf("brackets are nested more than %d deep here", snapshot.MaxDepth)
	}
	if strings.Count(d.text, ",") > maxValues {
		return 0, "the file has too many values"
	}
	// hujson expects the end of a line behind every comment, the last one included.
	root, err := hujson.Parse(append([]byte(d.text), '\n'))
	if err != nil && root.Value == nil && root.StartOffset > len(d.text) {
		return 0, ""
	}
	if root.Value != nil {
		d.root = &root
	}
	if err != nil {
		return d.explain(err)
	}
	return 0, ""
}

// pack returns the file with its present tree.
func (d *document) pack() ([]byte, error) {
	text := d.root.Pack()
	return d.encode(text[:len(text)-1]) // without the end of line that parse has added
}

// openAt returns the offsets of the brackets that are open at end, outermost first,
// and of the text in quotes that is open there; -1 for none. It stops when more
// brackets are open than are allowed. visit, if not nil, is called for each bracket and each text,
// with the brackets that are open before it.
func openAt(text string, end int, visit func(off int, open []int)) (open []int, quoted int) {
	quoted = -1
	for i := 0; i < end && len(open) <= snapshot.MaxDepth; i++ {
		ch := text[i]
		if visit != nil && quoted < 0 && strings.IndexByte(`"{}[]`, ch) >= 0 {
			visit(i, open)
		}
		switch {
		case quoted >= 0 && ch == '\\':
			i++
		case ch == '"' && quoted >= 0:
			quoted = -1
		case quoted >= 0:
		case ch == '"':
			quoted = i
		case strings.HasPrefix(text[i:], "//"):
			n := strings.IndexByte(text[i:], '\n')
			if n < 0 {
				return open, quoted
			}
			i += n
		case strings.HasPrefix(text[i:], "/*"):
			n := strings.Index(text[i+2:], "*/")
			if n < 0 {
				return open, quoted
			}
			i += n + 3
		case ch == '{' || ch == '[':
			open = append(open, i)
		case (ch == '}' || ch == ']') && len(open) > 0:
			open = open[:len(open)-1]
		}
	}
	return open, quoted
}

// unclosed looks for a bracket whose end is missing, where brackets are open at the end of the file. People indent:
// a line that is indented no more than the line of a bracket is outside of it. It returns the offset of the first
// bracket that such a line shows to be unclosed, and the line; -1 if indentation does not show any.
func (d *document) unclosed() (bracket, line int) {
	bracket = -1
	previous := -1         // the offset of the last bracket or text
	flat := map[int]bool{} // brackets whose content is not indented
	openAt(d.text, len(d.text), func(off int, open []int) {
		before, at := previous, d.lineOf(off)
		previous = off
		beginsLine := d.lineOf(before) != at
		if bracket >= 0 || !beginsLine || len(open) < 2 { // below the outermost bracket everything is inside it
			return
		}

		innermost := open[len(open)-1]
		own, here := d.indent(d.lineOf(innermost)), d.indent(at)
		if here == own && before == innermost {
			flat[innermost] = true
		}
		closes := d.text[off] == '}' || d.text[off] == ']'

		switch {
		case !strings.HasPrefix(own, here): // the line is indented more
		case flat[innermost]:
		case closes && here == own:
		case d.isField(off): // some people do not indent the fields of an entry
		default:
			bracket, line = innermost, at
		}
	})
	return bracket, line
}

// isField reports whether a text in quotes begins at an offset and is the name of a field of an entry.
func (d *document) isField(off int) bool {
	if d.text[off] != '"' {
		return false
	}
	name, _, _ := strings.Cut(d.text[off+1:], `"`)
	return entryField(name) != ""
}

// lineOf is the number of the line, from 1, of an offset.
func (d *document) lineOf(off int) int { return sort.SearchInts(d.lines, off+1) }

// indent is the white space that begins a line, at most 200 characters of it.
func (d *document) indent(line int) string {
	text := d.text[d.lines[line-1]:]
	text = text[:min(len(text), 200)]
	return text[:len(text)-len(strings.TrimLeft(text, " \t"))]
}

const quoteMissing = "the closing quote of this text is missing: it has to be on the same line"

// explain says where the mistake is that stopped hujson, and how to mend it.
func (d *document) explain(err error) (off int, mistake string) {
	var line, col int
	if _, scanErr := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &line, &col); scanErr != nil {
		return 0, err.Error()
	}
	off = len(d.text)
	if line <= len(d.lines) {
		off = min(off, d.lines[line-1]+col-1)
	}
	rest := d.text[off:]
	first, _ := utf8.DecodeRuneInString(rest)
	open, quoted := openAt(d.text, off, nil)
	bracket, closing, opened := "", "", -1
	if len(open) > 0 {
		opened = open[len(open)-1]
		bracket, closing = d.text[opened:opened+1], "}"
		if bracket == "[" {
			closing = "]"
		}
	}
	at := func(off int) string {
		line, col := d.position(off)
		return fmt.Sprintf("line %d, column %d,", line, col)
	}
	hujsonSays := func(part string) bool { return strings.Contains(err.Error(), part) }
	before := len(strings.TrimRight(d.text[:off], " \t\r\n")) // where something is missing
	word, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	if end := strings.IndexAny(word, ",}]{[\":="); end >= 0 {
		word = strings.TrimSpace(word[:end])
	}
	unclosed, outside := d.unclosed()
	switch {
	case rest == "" && quoted >= 0 && strings.ContainsAny(d.text[quoted:], "}]"):
		return quoted, quoteMissing
	case unclosed >= 0 && opened >= 0 && (rest == "" || first == '"' && outside == d.lineOf(off)):
		return unclosed, fmt.Sprintf("this %c is not closed before line %d, "+
			"which is not indented as a part of it: its closing bracket is missing", d.text[unclosed], outside)
	case rest == "" && opened >= 0:
		return opened, fmt.Sprintf("this %s is never closed: a %s is missing, or the file was saved by half", bracket,
			closing)
	case first == '"' && hujsonSays("invalid literal") &&
		strings.Contains(rest[:1+strings.IndexByte(rest[1:], '"')], "\n"):
		return off, quoteMissing
	case first == '"' && hujsonSays("invalid literal"):
		return off, `this text contains a tab, a control character or a single backslash: write a space, or \\`
	case strings.HasPrefix(rest, "/*"):
		return off, "this comment is never closed: write */ where it ends"
	case first == '#':
		return off, "a comment begins with //, not with #"
	case strings.ContainsRune("'“”„‘’«»", first):
		return off, `write straight double quotes " here`
	case hujsonSays("after top-level value"):
		return off, "there is more text after the end of the bookings: everything belongs inside one pair of " +
			"braces { }; look for a brace too many above"
	case (first == '}' || first == ']') && string(first) != closing:
		return off, fmt.Sprintf("the %s opened at %s has to be closed with %s before this %c", bracket, at(opened),
			closing, first)
	case first == '}' || first == ']':
		return before, "a value is missing here"
	case first == '{' && hujsonSays("start of object name"):
		return off, fmt.Sprintf(
			"the { opened at %s is not closed before this one: put a } in front, or a name and a colon", at(opened))
	case first == ':' && bracket == "[":
		return off, fmt.Sprintf("the [ opened at %s is not closed before this name: put a ] in front of it", at(opened))
	case hujsonSays("after object name"):
		return before, "a colon and a value are missing after this name"
	case hujsonSays("expecting ','") && unicode.IsLetter(first) && strings.HasSuffix(d.text[:before], `"`):
		return before, "a comma is missing here, or a quote somewhere before it on this line"
	case hujsonSays("expecting ','") && first != ':':
		return before, "a comma is missing here"
	case first == ',':
		return off, "there is a comma too many here: delete it, or write {} for a GPU without a booking"
	case strings.ContainsRune("\u00a0\u200b\ufeff\u2028\u2029\v\f", first):
		return off, "there is an invisible character here: delete it"
	}
	switch strings.ToLower(word) {
	case "":
		return off, quote(string(first)) + " cannot stand here"
	case "none", "nil", "null", "undefined", "true", "false":
		return off, quote(word) + " is written null, true or false, in small letters"
	}
	return off, quote(word) + " needs double quotes around it"
}

func quote(s string) string {
	return `"` + snapshot.Text(s, 60) + `"`
}
