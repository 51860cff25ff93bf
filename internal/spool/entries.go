package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

// Why a directory entry is not read.
const (
	badNotRegular = "bad:notregular" // a symlink, a file with other names too, a FIFO, a socket, a device, a directory
	badUnreadable = "bad:unreadable" // the system refuses
	badName       = "bad:name"       // a directory whose name is no host name
)

// Passing reports whether an error of reading a drop is about the file and not about its
// content, so that the same file may be readable the next time.
func Passing(err error) bool {
	code := snapshot.CodeOf(err)
	return code == badUnreadable || code == badNotRegular
}

func ownerOf(info fs.FileInfo) (uid int) { return int(info.Sys().(*syscall.Stat_t).Uid) }

// readRegular reads a regular file with one name and at most [snapshot.MaxFileBytes]. With
// a hard link a node could expose a file that it cannot read; a symlink is followed by os.Root
// if it stays inside, even with O_NOFOLLOW. So the file that has the name is checked
// first, and must be the one that was opened. Opening does not block.
func readRegular(root *os.Root, name string) ([]byte, error) {
	for range 3 { // a rename by the writer between check and opening is no error
		info, err := root.Lstat(name)
		if err != nil {
			return nil, unreadable(err)
		}
		if !info.Mode().IsRegular() {
			return nil, refuse(badNotRegular, "%s is a %s", name, atomicfile.Kind(info.Mode()))
		}
		if links := info.Sys().(*syscall.Stat_t).Nlink; links > 1 {
			return nil, refuse(badNotRegular, "%s has %d names", name, links)
		}
		if info.Size() > snapshot.MaxFileBytes {
			return nil, refuse(snapshot.BadTooLarge, "%s is %d bytes, and %d is the most", name, info.Size(),
				snapshot.MaxFileBytes)
		}
		if data, err := readSame(root, name, info); !errors.Is(err, errReplaced) {
			return data, err
		}
	}
	return nil, refuse(badNotRegular, "%s: %w", name, errReplaced)
}

var errReplaced = errors.New("the file was replaced while it was opened")

// readSame reads a file if it is still the one that info describes.
func readSame(root *os.Root, name string, info fs.FileInfo) ([]byte, error) {
	f, opened, err := atomicfile.OpenIn(root, name)
	if notExist(err) || errors.Is(err, atomicfile.ErrNotRegular) {
		return nil, errReplaced
	}
	if err != nil {
		return nil, unreadable(err)
	}
	defer f.Close()
	if !os.SameFile(info, opened) {
		return nil, errReplaced
	}
	data, err := io.ReadAll(io.LimitReader(f, snapshot.MaxFileBytes+1))
	if err != nil {
		return nil, unreadable(err)
	}
	if len(data) > snapshot.MaxFileBytes {
		return nil, refuse(snapshot.BadTooLarge, "%s grew beyond %d bytes", name, snapshot.MaxFileBytes)
	}
	return data, nil
}

// openDir opens a directory and refuses a symlink to one, which could lead to the drop of
// another host.
func openDir(parent *os.Root, name string) (*os.Root, error) {
	named, err := parent.Lstat(name)
	if err != nil {
		return nil, unreadable(err)
	}
	if !named.IsDir() {
		return nil, refuse(badNotRegular, "%s is a %s, and should be a directory", name, atomicfile.Kind(named.Mode()))
	}
	root, err := parent.OpenRoot(name)
	if err != nil {
		return nil, unreadable(err)
	}
	opened, err := root.Stat(".")
	if err == nil && !os.SameFile(named, opened) {
		err = refuse(badNotRegular, "%s was replaced while it was opened", name)
	}
	if err != nil {
		root.Close()
		return nil, unreadable(err)
	}
	return root, nil
}

// list returns at most limit entries of a directory, sorted, and whether there are more.
func list(root *os.Root, limit int) (entries []fs.DirEntry, more bool, err error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	entries, err = f.ReadDir(limit + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	if len(entries) > limit {
		entries, more = entries[:limit], true
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, more, nil
}

func unreadable(err error) error {
	if notExist(err) || snapshot.CodeOf(err) != "" {
		return err
	}
	return &snapshot.DecodeError{Code: badUnreadable, Err: err}
}

func refuse(code, format string, args ...any) error {
	return &snapshot.DecodeError{Code: code, Err: fmt.Errorf(format, args...)}
}

func foreign(host, payload string) error {
	return refuse(snapshot.BadForeign, "the drop of %s holds a file of %s", host, payload)
}

func validHost(host string) error {
	if name, err := snapshot.ParseHost(host); err != nil || name != host {
		return refuse(snapshot.BadHost, "%q is no host name", snapshot.Text(host, snapshot.MaxNameBytes))
	}
	return nil
}
