package spool

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

// maxHosts limits how many drops are read. With a shared account any node can create
// directories there.
const maxHosts = 20_000

// InnerName is the directory within a drop that a chrooted node writes to: the chroot
// itself must belong to root.
const InnerName = "in"

// Drops reads what nodes delivered to the web host. It needs no write access and is safe
// for use by several goroutines.
type Drops struct {
	dir string

	mu    sync.Mutex
	cache map[string]cached
}

// cached is the result of Latest for one state of the files of a host.
type cached struct {
	outer, inner fileState // zero if the file does not exist
	bundle       *snapshot.Bundle
	raw          []byte
	err          error
}

// fileState identifies one version of a file without reading it.
type fileState struct {
	inode    uint64
	size     int64
	modified time.Time
}

// An HourFile is one finished hour of one boot of a host, according to its name. Hour
// files never change, so Host and Name identify the content.
type HourFile struct {
	Host  string
	Name  string // within the drop, "in/" before it if it lies there
	Start time.Time
	Boot  string // the first eight characters of the boot id
}

// OpenDrops returns the drops below dataDir. While the directory "drop" is missing, there
// are no hosts. The error says that it cannot be opened.
func OpenDrops(dataDir string) (*Drops, error) {
	d := &Drops{dir: filepath.Join(dataDir, "drop"), cache: map[string]cached{}}
	root, err := os.OpenRoot(d.dir)
	if err == nil {
		root.Close()
	} else if !notExist(err) {
		return nil, err
	}
	return d, nil
}

// Hosts returns the sorted names of the hosts that have a drop. Other entries are returned
// as problems, except names that begin with a dot.
func (d *Drops) Hosts() (hosts []string, _ []snapshot.Problem) {
	root, err := os.OpenRoot(d.dir)
	if notExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, []snapshot.Problem{snapshot.NewProblem(badUnreadable, "%v", err)}
	}
	defer root.Close()
	entries, more, err := list(root, maxHosts)
	if err != nil {
		return nil, []snapshot.Problem{snapshot.NewProblem(badUnreadable, "listing the drops: %v", err)}
	}
	var problems []snapshot.Problem
	add := func(code, format string, args ...any) {
		problems = append(problems, snapshot.NewProblem(code, format, args...))
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		shown := snapshot.Text(name, snapshot.MaxNameBytes)
		if !e.IsDir() {
			add(badNotRegular, "drop/%s is a %s, and a drop is a directory", shown, atomicfile.Kind(e.Type()))
			continue
		}
		host, err := snapshot.ParseHost(name)
		if err == nil && host != name {
			err = fmt.Errorf("it has capitals: rename it to %s", host)
		}
		if err != nil {
			add(badName, "drop/%s is left out: %v", shown, err)
			continue
		}
		hosts = append(hosts, host)
	}
	if more {
		add(snapshot.BadTooMany, "more than %d entries in the directory of drops; the rest is left out", maxHosts)
	}
	if more := len(problems) - snapshot.MaxErrors; more > 0 { // nodes can cause any number of them
		problems = problems[:snapshot.MaxErrors]
		add(snapshot.BadTooMany, "problems with drops: +%d more", more)
	}
	return hosts, problems
}

// Latest returns the newest bundle of host, from drop/<host>/ or drop/<host>/in/. An
// unchanged file is not decoded again, valid or not, but one that the system refused is
// tried again. The bundle, and raw, the content of its file, are shared and read-only.
//
// If there is no bundle, the error wraps [fs.ErrNotExist]. Every other error wraps a
// [snapshot.DecodeError], such as bad:foreign for a bundle of another host.
func (d *Drops) Latest(host string) (bundle *snapshot.Bundle, raw []byte, _ error) {
	if err := validHost(host); err != nil {
		return nil, nil, fmt.Errorf("reading snapshot: %w", err)
	}
	// Comparing file states tells whether anything has changed. They may be those of a
	// symlink's target, because they are only compared with the state at the last read.
	now := cached{outer: d.stateOf(host, LatestName), inner: d.stateOf(host, InnerName+"/"+LatestName)}
	d.mu.Lock()
	before, ok := d.cache[host]
	d.mu.Unlock()
	if ok && before.outer == now.outer && before.inner == now.inner {
		return before.bundle, before.raw, before.err
	}
	now.bundle, now.raw, now.err = d.latest(host)
	if now.err != nil {
		now.err = fmt.Errorf("reading snapshot of %s: %w", host, now.err)
	}
	d.mu.Lock()
	if now.outer == (fileState{}) && now.inner == (fileState{}) || Passing(now.err) {
		delete(d.cache, host)
	} else {
		d.cache[host] = now
	}
	d.mu.Unlock()
	return now.bundle, now.raw, now.err
}

func (d *Drops) stateOf(host, name string) fileState {
	info, err := os.Lstat(d.dir + "/" + host + "/" + name)
	if err != nil {
		return fileState{}
	}
	return fileState{inode: info.Sys().(*syscall.Stat_t).Ino, size: info.Size(), modified: info.ModTime()}
}

func (d *Drops) latest(host string) (*snapshot.Bundle, []byte, error) {
	root, err := d.drop(host)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	bundle, raw, err := latestIn(root, host)
	var nested *snapshot.Bundle
	var nestedRaw []byte
	inner, innerErr := openDir(root, InnerName)
	if innerErr == nil {
		defer inner.Close()
		nested, nestedRaw, innerErr = latestIn(inner, host)
	}
	switch {
	case notExist(innerErr):
	case innerErr != nil: // the outer one is older, and would hide it
		return nil, nil, innerErr
	case err != nil || Newer(nested, bundle, time.Time{}):
		return nested, nestedRaw, nil
	}
	return bundle, raw, err
}

func latestIn(dir *os.Root, host string) (*snapshot.Bundle, []byte, error) {
	raw, err := readRegular(dir, LatestName)
	if err != nil {
		return nil, nil, err
	}
	bundle, err := snapshot.DecodeBundle(bytes.NewReader(raw))
	if err != nil {
		return nil, nil, err
	}
	if bundle.Host != host {
		return nil, nil, foreign(host, bundle.Host)
	}
	bundle.Quote()
	return bundle, raw, nil
}

// Newer reports whether bundle a of a host is newer than b. Within one boot the larger
// number is newer. Between two boots the later time is, but a time after limit loses
// against one before it. The zero limit means no limit.
func Newer(a, b *snapshot.Bundle, limit time.Time) bool {
	if a.BootID == b.BootID {
		return a.Snapshot.Seq > b.Snapshot.Seq
	}
	at, other := a.Snapshot.CollectedAt.Time, b.Snapshot.CollectedAt.Time
	if ahead := at.After(limit); ahead != other.After(limit) {
		return !ahead
	}
	return at.After(other)
}

// Hours lists the hour files of host, oldest first, and ignores everything else, also what cannot be listed. A node
// delivers its newest bundle before its hour files, so new ones rarely appear while the
// digest of Latest stays the same.
func (d *Drops) Hours(host string) []HourFile {
	root, err := d.drop(host)
	if err != nil {
		return nil
	}
	defer root.Close()
	hours := hoursIn(root, "", host)
	if inner, err := openDir(root, InnerName); err == nil {
		defer inner.Close()
		hours = append(hours, hoursIn(inner, InnerName+"/", host)...)
	}
	slices.SortFunc(hours,
		func(a, b HourFile) int { return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.Name, b.Name)) })
	return hours
}

// hoursIn lists the hour files of one directory. ReadHour checks them: most were read
// before, and a thousand drops contain fifty thousand of them.
func hoursIn(dir *os.Root, prefix, host string) (hours []HourFile) {
	entries, _, _ := list(dir, snapshot.MaxDropEntries) // as many as can be listed
	for _, e := range entries {
		if start, boot, ok := HourOf(e.Name()); ok && e.Type().IsRegular() {
			hours = append(hours, HourFile{Host: host, Name: prefix + e.Name(), Start: start, Boot: boot})
		}
	}
	return hours
}

// ReadHour reads a file of [Drops.Hours]. Errors are those of [Drops.Latest]; an hour
// other than that of the name is bad:parse.
func (d *Drops) ReadHour(f HourFile) (*snapshot.Hour, error) {
	h, err := d.readHour(f)
	if err != nil {
		return nil, fmt.Errorf("reading %s of %s: %w", snapshot.Text(f.Name, snapshot.MaxNameBytes), f.Host, err)
	}
	return h, nil
}

func (d *Drops) readHour(f HourFile) (*snapshot.Hour, error) {
	name, isInner := strings.CutPrefix(f.Name, InnerName+"/")
	if !hourName.MatchString(name) {
		return nil, refuse(badName, "it is no hour file")
	}
	dir, err := d.drop(f.Host)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if isInner {
		if dir, err = openDir(dir, InnerName); err != nil {
			return nil, err
		}
		defer dir.Close()
	}
	data, err := readRegular(dir, name)
	if err != nil {
		return nil, err
	}
	h, err := snapshot.DecodeHour(bytes.NewReader(data))
	switch {
	case err != nil:
		return nil, err
	case h.Host != f.Host:
		return nil, foreign(f.Host, h.Host)
	case !h.Start.Equal(f.Start) || bootPrefix(h.BootID) != f.Boot:
		return nil, refuse(snapshot.BadParse, "it holds the hour %s of boot %s", h.Start.Format(hourStamp),
			bootPrefix(h.BootID))
	}
	return h, nil
}

// Make opens the drop of a host, and makes it if it is missing.
func (d *Drops) Make(host string) (*os.Root, error) {
	if err := validHost(host); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(d.dir, host), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return d.drop(host)
}

// drop opens the directory of one host.
func (d *Drops) drop(host string) (*os.Root, error) {
	if err := validHost(host); err != nil {
		return nil, err
	}
	parent, err := os.OpenRoot(d.dir)
	if err != nil {
		return nil, unreadable(err)
	}
	defer parent.Close()
	return openDir(parent, host)
}
