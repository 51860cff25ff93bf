package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"
	"strings"

	"gpuboard/atomicfile"
	"gpuboard/snapshot"
)

func validHost(host string) error {
	if name, err := snapshot.ParseHost(host); err != nil || name != host {
		return refuse(snapshot.BadHost, "%q is no host name", snapshot.Text(host, snapshot.MaxNameBytes))
	}
	return nil
}

// openDir opens a directory that is one, not a symlink to one: within the drops
// a symlink could only lead to another host's.
func openDir(parent *os.Root, name string) (*os.Root, error) {
	if err := isDir(parent, name); err != nil {
		return nil, err
	}
	root, err := parent.OpenRoot(name)
	if err != nil {
		return nil, unreadable(err)
	}
	return root, nil
}

func isDir(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return unreadable(err)
	}
	if !info.IsDir() {
		return refuse(badNotRegular, "%s is a %s, and should be a directory", name, kindOrFile(info.Mode()))
	}
	return nil
}

// checkInner makes sure that a name in the inner directory goes through a directory.
func checkInner(root *os.Root, name string) error {
	if !strings.HasPrefix(name, InnerName+"/") {
		return nil
	}
	return isDir(root, InnerName)
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
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name() < entries[j].Name() })
	return entries, more, nil
}

func kindOrFile(mode fs.FileMode) string {
	if mode.IsRegular() {
		return "file"
	}
	return atomicfile.Kind(mode)
}

// problemList keeps what nodes can provoke from becoming a flood.
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
