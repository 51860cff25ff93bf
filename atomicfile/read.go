package atomicfile

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Read returns what a regular file of at most limit bytes holds. It waits for
// nobody: a FIFO is refused, as everything is that is not regular, with an error
// that wraps [ErrNotRegular].
func Read(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("reading %s: %w: it is a %s", path, ErrNotRegular, Kind(info.Mode()))
	case info.Size() > limit:
		return nil, fmt.Errorf("reading %s: it has %d bytes, and %d are the most", path, info.Size(), limit)
	}
	var out bytes.Buffer
	out.Grow(int(info.Size()) + bytes.MinRead)
	_, err = out.ReadFrom(io.LimitReader(f, limit))
	return out.Bytes(), err
}
