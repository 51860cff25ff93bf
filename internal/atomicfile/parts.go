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
	in := bufio.NewReaderSize(r, min(c.size()+1, 32<<10))
	for _, part := range c {
		for len(part) > 0 {
			got, err := in.Peek(min(len(part), in.Size()))
			if !bytes.Equal(got, part[:len(got)]) || err == io.EOF {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			part = part[len(got):]
			if _, err := in.Discard(len(got)); err != nil {
				return false, err
			}
		}
	}
	_, err := in.ReadByte()
	if err == io.EOF {
		return true, nil
	}
	return false, err
}
