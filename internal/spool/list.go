package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

func validHost(host string) error {
	if name, err := snapshot.ParseHost(host); err != nil || name != host {
		return refuse(snapshot.BadHost, "%q is no host name", snapshot.Text(host, snapshot.MaxNameBytes))
	}
	return nil
}

// openRealDir opens a directory and refuses a symlink to one, which could lead to the drop
// of another host.
func openRealDir(parent *os.Root, name string) (*os.Root, error) {
	before, err := statDir(parent, name)
	if err != nil {
		return nil, err
	}
	return openUnchanged(parent, name, before)
}

// openUnchanged opens name if it is still the directory that before describes.
func openUnchanged(parent *os.Root, name string, before fs.FileInfo) (*os.Root, error) {
	root, err := parent.OpenRoot(name)
	if err != nil {
		return nil, unreadable(err)
	}
	info, err := root.Stat(".")
	if err == nil && !os.SameFile(before, info) {
		err = refuse(badNotRegular, "%s: %w", name, errReplaced)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

func statDir(root *os.Root, name string) (fs.FileInfo, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, unreadable(err)
	}
	if !info.IsDir() {
		return nil, refuse(badNotRegular, "%s is a %s, and should be a directory", name, kindOrFile(info.Mode()))
	}
	return info, nil
}

// checkInner refuses a name in the inner directory if that is not a real directory.
func checkInner(root *os.Root, name string) error {
	if !strings.HasPrefix(name, InnerName+"/") {
		return nil
	}
	_, err := statDir(root, InnerName)
	return err
}

// list returns at most limit entries of a directory, sorted, and whether there are more.
func list(root *os.Root, name string, limit int) (entries []fs.DirEntry, more bool, err error) {
	f, err := root.Open(name)
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

func kindOrFile(mode fs.FileMode) string {
	if mode.IsRegular() {
		return "file"
	}
	return atomicfile.Kind(mode)
}

// problemList limits the number of problems that nodes can cause.
type problemList struct {
	list []snapshot.Problem
	more int
}

func (p *problemList) add(code, host, format string, args ...any) {
	if len(p.list) >= snapshot.MaxErrors {
		p.more++
		return
	}
	p.list = append(p.list, snapshot.Problem{Code: code, Host: host, Message: snapshot.Text(fmt.Sprintf(format, args...), snapshot.MaxTextBytes)})
}

func (p *problemList) done() []snapshot.Problem {
	if p.more > 0 {
		p.list = append(p.list, snapshot.Problem{Code: snapshot.BadTooMany, Message: fmt.Sprintf("problems with drops: +%d more", p.more)})
	}
	return p.list
}
