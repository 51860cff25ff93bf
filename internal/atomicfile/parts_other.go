//go:build !linux

package atomicfile

import (
	"bufio"
	"os"
)

// gathered is how much of small parts is written at once.
const gathered = 128 << 10

// writeTo writes to a file that was just opened.
func (c parts) writeTo(f *os.File) error {
	buf := bufio.NewWriterSize(f, min(c.size(), gathered))
	for _, part := range c {
		if _, err := buf.Write(part); err != nil {
			return err
		}
	}
	return buf.Flush()
}
