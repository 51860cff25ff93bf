package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

// Why a directory entry is not read.
const (
	badNotRegular = "bad:notregular" // a symlink, a file with other names too, a FIFO, a socket, a device, a directory
	badUnreadable = "bad:unreadable" // the system refuses
	badName       = "bad:name"       // a directory whose name is no host name
)

// fileState identifies one version of a file without reading it. The owner can set the
// modification time, but not the change time.
type fileState struct {
	dev, inode uint64
	size       int64
	modified   time.Time
	changed    time.Time
}

func fileStateOf(info fs.FileInfo) fileState {
	m := fileState{size: info.Size(), modified: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		m.dev, m.inode = uint64(sys.Dev), sys.Ino
		m.changed = changeTime(sys)
	}
	return m
}

func ownerOf(info fs.FileInfo) (uid int, known bool) {
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(sys.Uid), true
}

// statRegular refuses everything but a regular file with one name and at most limit
// bytes. With a hard link a node could expose a file that it cannot read.
func statRegular(root *os.Root, name string, limit int64) (fs.FileInfo, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, unreadable(err)
	}
	if !info.Mode().IsRegular() {
		return nil, refuse(badNotRegular, "%s is a %s", name, atomicfile.Kind(info.Mode()))
	}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok && sys.Nlink > 1 {
		return nil, refuse(badNotRegular, "%s has %d names", name, sys.Nlink)
	}
	if info.Size() > limit {
		return nil, refuse(snapshot.BadTooLarge, "%s is %d bytes, and %d is the most", name, info.Size(), limit)
	}
	return info, nil
}

// readRegular reads a file that statRegular accepts. Opening does not block.
func readRegular(root *os.Root, name string, limit int64) ([]byte, fs.FileInfo, error) {
	before, err := statRegular(root, name, limit)
	if err != nil {
		return nil, nil, err
	}
	return readUnchanged(root, name, limit, before)
}

// readUnchanged reads name if it is still the file that before describes. os.Root follows
// a symlink even with O_NOFOLLOW, so this comparison refuses one that has replaced the
// file meanwhile.
func readUnchanged(root *os.Root, name string, limit int64, before fs.FileInfo) ([]byte, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, unreadable(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, unreadable(err)
	}
	if !info.Mode().IsRegular() || !os.SameFile(before, info) {
		// A rename by the writer has the same effect, so the caller retries.
		return nil, nil, errReplaced
	}
	if info.Size() > limit {
		return nil, nil, refuse(snapshot.BadTooLarge, "%s is %d bytes, and %d is the most", name, info.Size(), limit)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, nil, unreadable(err)
	}
	if int64(len(data)) > limit {
		return nil, nil, refuse(snapshot.BadTooLarge, "%s grew beyond %d bytes", name, limit)
	}
	return data, info, nil
}

var errReplaced = errors.New("the file was replaced while it was opened")

func unreadable(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &snapshot.DecodeError{Code: badUnreadable, Err: err}
}

func refuse(code, format string, args ...any) error {
	return &snapshot.DecodeError{Code: code, Err: fmt.Errorf(format, args...)}
}
