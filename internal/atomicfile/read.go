package atomicfile

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Open opens a regular file for reading. Anything else is an error that wraps
// [ErrNotRegular]; a FIFO does not block.
func Open(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("reading %s: %w: it is a %s", path, ErrNotRegular, Kind(info.Mode()))
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Read returns the content of a regular file of at most limit bytes. See [Open].
func Read(path string, limit int64) ([]byte, error) {
	f, info, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > limit {
		return nil, fmt.Errorf("reading %s: it has %d bytes, and %d are the most", path, info.Size(), limit)
	}
	var out bytes.Buffer
	out.Grow(int(info.Size()) + bytes.MinRead)
	_, err = out.ReadFrom(io.LimitReader(f, limit))
	return out.Bytes(), err
}
