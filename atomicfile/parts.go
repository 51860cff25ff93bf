package atomicfile

import (
	"bufio"
	"bytes"
	"hash/maphash"
	"io"
	"weak"
)

// parts are what goes into a file, one after the other.
type parts [][]byte

func (c parts) size() (n int) {
	for _, part := range c {
		n += len(part)
	}
	return n
}

// isRead reports whether r holds these bytes and no more.
func (c parts) isRead(r io.Reader) (bool, error) {
	buf := make([]byte, min(c.size()+1, 64<<10))
	if len(c) > 1 {
		r = bufio.NewReaderSize(r, len(buf))
	}
	for _, part := range c {
		for len(part) > 0 {
			n, err := io.ReadFull(r, buf[:min(len(part), len(buf))])
			if n > 0 && !bytes.Equal(buf[:n], part[:n]) || err == io.EOF || err == io.ErrUnexpectedEOF {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			part = part[n:]
		}
	}
	n, err := io.ReadFull(r, buf[:1])
	if err == io.EOF {
		err = nil
	}
	return n == 0 && err == nil, err
}

// contentSum is what a Known keeps of bytes; the bytes themselves may go.
type contentSum struct {
	place
	head, sum uint64
	whole     bool // there is a sum, and not the head alone
}

// place is where bytes were in memory: one part by its first byte, more by the
// list of them. They are not kept for this, and nothing else will ever be found
// there.
type place struct {
	size int
	one  weak.Pointer[byte]
	list weak.Pointer[[]byte]
}

func (c parts) place() (p place) {
	p.size = c.size()
	switch {
	case p.size == 0:
	case len(c) == 1:
		p.one = weak.Make(&c[0][0])
	default:
		p.list = weak.Make(&c[0])
	}
	return p
}

// isAt reports whether these bytes are the very ones of s.
func (c parts) isAt(s contentSum) bool { return s.size > 0 && c.place() == s.place }

// Of a content of headFrom bytes and more the first headBytes have a sum of their
// own: what changes with every generation tells its time at the top, and so need
// not be added up as a whole to be told from the last one.
const (
	headFrom  = 128 << 10
	headBytes = 16 << 10
)

// start is the sum of the head alone, 0 of what is short.
func (c parts) start(seed maphash.Seed) contentSum {
	s := contentSum{place: c.place()}
	if s.size < headFrom {
		return s
	}
	var h maphash.Hash
	h.SetSeed(seed)
	left := headBytes
	for _, part := range c {
		n := min(left, len(part))
		h.Write(part[:n])
		if left -= n; left == 0 {
			break
		}
	}
	s.head = h.Sum64()
	return s
}

func (c parts) sum(seed maphash.Seed) contentSum {
	s := c.start(seed)
	s.whole = true
	if len(c) == 1 {
		s.sum = maphash.Bytes(seed, c[0])
		return s
	}
	var h maphash.Hash
	h.SetSeed(seed)
	for _, part := range c {
		h.Write(part)
	}
	s.sum = h.Sum64()
	return s
}
