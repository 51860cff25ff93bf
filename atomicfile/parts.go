package atomicfile

import (
	"bufio"
	"bytes"
	"io"
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
