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

// gathered is how much of small parts is written at once.
const gathered = 128 << 10

func (c parts) writeTo(w io.Writer) error {
	if len(c) == 1 {
		_, err := w.Write(c[0])
		return err
	}
	buf := bufio.NewWriterSize(w, min(c.size(), gathered))
	for _, part := range c {
		if _, err := buf.Write(part); err != nil {
			return err
		}
	}
	return buf.Flush()
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
	sum  uint64
	size int
	// Where the bytes were in memory: one part by its first byte, more by the list
	// of them. They are not kept for this, and nothing else will ever be found there.
	one  weak.Pointer[byte]
	list weak.Pointer[[]byte]
}

// at is a sum without the sum.
func (c parts) at() (s contentSum) {
	s.size = c.size()
	switch {
	case s.size == 0:
	case len(c) == 1:
		s.one = weak.Make(&c[0][0])
	default:
		s.list = weak.Make(&c[0])
	}
	return s
}

// isAt reports whether these bytes are the very ones of s.
func (c parts) isAt(s contentSum) bool {
	here := c.at()
	here.sum = s.sum
	return here.size > 0 && here == s
}

func (c parts) sum(seed maphash.Seed) contentSum {
	s := c.at()
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
