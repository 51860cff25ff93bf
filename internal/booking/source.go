package booking

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// The values of [Calendar.Encoding].
const (
	UTF8        = "utf-8"
	Windows1252 = "windows-1252"
)

const bom = "\xef\xbb\xbf"

// A source is the file as characters, with the way back to its bytes.
//
// The rule for the encoding is one that a person can predict: a byte order
// mark says UTF-8, and so do bytes that are valid UTF-8; all else is
// Windows-1252, which is Latin-1 with printable characters where that has
// controls. Guessing from the frequency of letters fails on a file whose only
// foreign letter stands in one name.
type source struct {
	raw      []byte
	text     string // without the byte order mark
	encoding string
	skipped  int   // length of the byte order mark
	lines    []int // where each line begins in text
	last     struct{ off, line, col int }
}

// decode fails only for files that are no text in either encoding.
func decode(raw []byte) (*source, error) {
	s := &source{raw: raw, encoding: UTF8}
	body := raw
	if bytes.HasPrefix(raw, []byte(bom)) {
		s.skipped = len(bom)
		body = raw[s.skipped:]
	}
	switch {
	case bytes.HasPrefix(raw, []byte("\xff\xfe")), bytes.HasPrefix(raw, []byte("\xfe\xff")):
		return nil, fmt.Errorf("the file is UTF-16: save it as UTF-8")
	case bytes.IndexByte(body, 0) >= 0:
		return nil, fmt.Errorf("the file holds NUL bytes, so it is no text: put a copy of it back")
	case s.skipped > 0 || utf8.Valid(body):
		s.text = string(body)
	default:
		s.encoding = Windows1252
		var b strings.Builder
		b.Grow(len(body) + len(body)/8)
		for _, c := range body {
			b.WriteRune(charmap.Windows1252.DecodeByte(c))
		}
		s.text = b.String()
	}
	s.lines = append(s.lines, 0)
	for i := 0; i < len(s.text); i++ {
		if s.text[i] == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	s.last.line, s.last.col = 1, 1
	return s, nil
}

// position gives the line and the column, in characters and both from 1, of an
// offset in text.
func (s *source) position(off int) (line, col int) {
	off = min(max(off, 0), len(s.text))
	line = sort.SearchInts(s.lines, off+1)
	start, col := s.lines[line-1], 1
	// Offsets are asked for in rising order, mostly, and a file may be one line
	// of megabytes: count on from the last answer.
	if line == s.last.line && s.last.off <= off {
		start, col = s.last.off, s.last.col
	}
	col += utf8.RuneCountInString(s.text[start:off])
	s.last.off, s.last.line, s.last.col = off, line, col
	return line, col
}

// encode turns text into the bytes of the file's encoding.
func (s *source) encode(text string) ([]byte, error) {
	if s.encoding != Windows1252 {
		return []byte(text), nil
	}
	out := make([]byte, 0, len(text))
	for _, r := range text {
		c, ok := charmap.Windows1252.EncodeRune(r)
		if !ok {
			return nil, &EncodingError{Rune: r}
		}
		out = append(out, c)
	}
	return out, nil
}

// An EncodingError says that a character does not exist in the encoding of the
// file. [ToUTF8] converts the file so that it does.
type EncodingError struct{ Rune rune }

func (e *EncodingError) Error() string {
	return fmt.Sprintf("the file is in Windows-1252 (Latin-1), which has no %q: convert the file to UTF-8 first, or write it another way", e.Rune)
}

// ToUTF8 returns the file in UTF-8; one that is in UTF-8 already is returned as it is.
func ToUTF8(data []byte) ([]byte, error) {
	s, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("converting bookings to UTF-8: %w", err)
	}
	if s.encoding == UTF8 {
		return data, nil
	}
	return []byte(s.text), nil
}
