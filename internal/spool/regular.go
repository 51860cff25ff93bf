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

// mark tells one state of a file from another without reading it. Its owner can
// set the modification time, but not the change time.
type mark struct {
	dev, inode uint64
	size       int64
	modified   time.Time
	changed    time.Time
}

func markOf(info fs.FileInfo) mark {
	m := mark{size: info.Size(), modified: info.ModTime()}
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

// lookRegular refuses everything at name but a regular file with one name and
// at most limit bytes. A file with a second name may be anybody's: a node that
// can make hard links could show what it cannot read.
func lookRegular(root *os.Root, name string, limit int64) (fs.FileInfo, error) {
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

// readRegular reads a file that lookRegular lets pass. Opening waits for nobody.
func readRegular(root *os.Root, name string, limit int64) ([]byte, fs.FileInfo, error) {
	before, err := lookRegular(root, name, limit)
	if err != nil {
		return nil, nil, err
	}
	return readLooked(root, name, limit, before)
}

// readLooked reads name if it is still the file that before describes. os.Root
// resolves a symlink itself, also with O_NOFOLLOW, so it is this comparison that
// refuses one that was put there after the look.
func readLooked(root *os.Root, name string, limit int64, before fs.FileInfo) ([]byte, fs.FileInfo, error) {
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
		// An honest writer's rename does this too, so the caller tries once more.
		return nil, nil, errSwapped
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

var errSwapped = errors.New("the file was replaced while it was opened")

func unreadable(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &snapshot.DecodeError{Code: badUnreadable, Err: err}
}

func refuse(code, format string, args ...any) error {
	return &snapshot.DecodeError{Code: code, Err: fmt.Errorf(format, args...)}
}
