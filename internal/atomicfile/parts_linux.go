package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// partsAtOnce is how many the kernel takes in one call (UIO_MAXIOV).
const partsAtOnce = 1024

// writeTo writes to a file that was just opened. The kernel gathers the parts,
// so that nothing is copied twice.
func (c parts) writeTo(f *os.File) error {
	if len(c) == 1 {
		_, err := f.Write(c[0])
		return err
	}
	var at int64
	for len(c) > 0 {
		some := c[:min(len(c), partsAtOnce)]
		wrote, err := unix.Pwritev(int(f.Fd()), some, at)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && wrote == 0 && parts(some).size() > 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return &fs.PathError{Op: "pwritev", Path: f.Name(), Err: err}
		}
		at += int64(wrote)
		c = c.behind(wrote, len(some))
	}
	return nil
}

// behind returns what is left when so many bytes of the first parts are written.
// The parts themselves are somebody else's, and so is the list of them.
func (c parts) behind(bytes, first int) parts {
	for i := range first {
		if bytes < len(c[i]) {
			return append(parts{c[i][bytes:]}, c[i+1:]...)
		}
		bytes -= len(c[i])
	}
	return c[first:]
}
