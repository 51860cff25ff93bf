package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gpuboard/internal/shell"
)

// Open opens a regular file for reading. Anything else is an error that wraps
// [ErrNotRegular]; a FIFO does not block.
func Open(path string) (*os.File, fs.FileInfo, error) {
	return regular(os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0))
}

// OpenIn is [Open] for a file below root. It follows symlinks that stay below.
func OpenIn(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	return regular(root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0))
}

func regular(f *os.File, err error) (*os.File, fs.FileInfo, error) {
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "reading", Path: f.Name(),
			Err: fmt.Errorf("%w: it is a %s", ErrNotRegular, Kind(info.Mode()))}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Read returns the content of a regular file of at most limit bytes. See [Open].
func Read(path string, limit int64) ([]byte, error) {
	data, info, err := ReadUpTo(path, limit)
	if err == nil && info.Size() > limit {
		return nil, fmt.Errorf("reading %s: it has %d bytes, and %d are the most", path, info.Size(), limit)
	}
	return data, err
}

// ReadUpTo returns at most limit bytes of a regular file, which are not nil, and what is known of it. See [Open].
func ReadUpTo(path string, limit int64) ([]byte, fs.FileInfo, error) {
	f, info, err := Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data := bytes.NewBuffer(make([]byte, 0, min(info.Size(), limit)+bytes.MinRead))
	_, err = data.ReadFrom(io.LimitReader(f, limit))
	return data.Bytes(), info, err
}

// SetAside returns the command that moves away what lies in the place of a regular file, "" for
// another error. No program of ours does it, because it may be somebody's.
func SetAside(err error) string {
	file, ok := errors.AsType[*fs.PathError](err)
	if !ok || !errors.Is(err, ErrNotRegular) || !filepath.IsAbs(file.Path) {
		return ""
	}
	return "mv -T " + shell.Quote(file.Path) + " " + shell.Quote(file.Path+".aside")
}

// WithCommand is the text of an error, with the command of [SetAside] behind it.
func WithCommand(err error) string {
	if command := SetAside(err); command != "" {
		return err.Error() + "; move it away: " + command
	}
	return err.Error()
}
