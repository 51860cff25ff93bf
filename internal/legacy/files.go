package legacy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"
)

// dir is a directory that symlinks cannot leave.
type dir struct {
	root  *os.Root
	names []string
}

func open(path string) (*dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("opening the older data directory: %w", err)
	}
	f, err := root.Open(".")
	var entries []os.DirEntry
	if err == nil {
		entries, err = f.ReadDir(maxEntries)
		f.Close()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		root.Close()
		return nil, fmt.Errorf("listing the older data directory: %w", err)
	}
	d := &dir{root: root}
	for _, e := range entries {
		d.names = append(d.names, e.Name())
	}
	slices.Sort(d.names)
	return d, nil
}

// read reads a regular file. It refuses symlinks and does not block.
func (d *dir) read(name string) ([]byte, time.Time, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, time.Time{}, err
	}
	if !info.Mode().IsRegular() {
		return nil, time.Time{}, errors.New("it is not a regular file")
	}
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, time.Time{}, err
	}
	if len(data) > maxFileBytes {
		return nil, time.Time{}, fmt.Errorf("it is larger than %d KiB", maxFileBytes>>10)
	}
	return data, info.ModTime(), nil
}
