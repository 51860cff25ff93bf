package spool

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"gpuboard/internal/snapshot"
)

// Limits of a drop, in files and bytes. They are somewhat larger than those of a node's
// spool, [defaultMaxFiles] and [defaultMaxBytes].
const (
	MaxDropFiles = defaultMaxFiles + 64
	MaxDropBytes = defaultMaxBytes + 8<<20
)

// MaxIgnoredStray is how many stray files are not reported. A killed push leaves one, and
// the next push removes it.
const MaxIgnoredStray = 16

const (
	maxSwept  = 2048 // directory entries that are read of one directory
	readChunk = 256  // directory entries that are read at once

	// youngAge is how long a file may be unfinished, by its change time, which a node
	// cannot set.
	youngAge = 10 * time.Minute
	maxTemps = 16 // unfinished at once

	// expiredAfter is a day longer than nodes keep their hour files, so that a history
	// that is late still finds them.
	expiredAfter = snapshot.HourRetention + 24*time.Hour

	tempPrefix = ".tmp-"
)

// A Usage is the content of one drop.
type Usage struct {
	Files int
	Bytes int64
	More  bool // there are more files, which were not looked at
	// Stray counts the files that do not belong into a drop, are too many or too large.
	// Removed of them were removed, with RemovedBytes.
	Stray, Removed int
	RemovedBytes   int64
	RemoveErr      error // why the rest of Stray was not removed; nil for none
}

// OverLimit reports whether a drop exceeds its limits.
func (l Usage) OverLimit() bool { return l.More || l.Files > MaxDropFiles || l.Bytes > MaxDropBytes }

// Usage reads the content of the drop of a host, and changes nothing.
func (d *Drops) Usage(host string, now time.Time) (Usage, error) {
	return d.sweep(host, now, now, false)
}

// Sweep removes what does not belong into the drop of a host: files with other names after
// ten minutes, or at once if the drop exceeds its limits; files that are too large for a
// reader; hour files that are expired or too many, oldest first; empty directories. It
// reads two thousand entries, so a larger drop takes several calls. It follows no symlinks
// and enters no directory but "in".
//
// Two directories are left alone: the outer directory of a chroot, which belongs to
// another user than "in" and contains an administrator's files; and a directory that only
// this user may enter, which is the spool of a collector on this machine.
//
// Hour files expire by now, which may be the time of a test. The age of other files is
// compared with clock, the time of the machine.
func (d *Drops) Sweep(host string, now, clock time.Time) (Usage, error) {
	return d.sweep(host, now, clock, true)
}

func (d *Drops) sweep(host string, now, clock time.Time, remove bool) (Usage, error) {
	var l Usage
	outer, err := d.drop(host)
	if notExist(err) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	defer outer.Close()
	dirs := []*os.Root{outer}
	inner, err := openRealDir(outer, InnerName)
	if err == nil {
		defer inner.Close()
		if dirs = append(dirs, inner); ownerOfDir(inner) != ownerOfDir(outer) {
			dirs = dirs[1:]
		}
	}
	for _, dir := range dirs {
		if private(dir) {
			continue
		}
		if err := l.add(dir, now, clock, remove); err != nil {
			return l, err
		}
	}
	return l, nil
}

func ownerOfDir(dir *os.Root) int {
	info, err := dir.Stat(".")
	if err != nil {
		return -1
	}
	uid, known := ownerOf(info)
	if !known {
		return -1
	}
	return uid
}

// private reports whether only this user may enter a directory.
func private(dir *os.Root) bool {
	info, err := dir.Stat(".")
	return err == nil && info.Mode().Perm()&0o077 == 0 && ownerOfDir(dir) == os.Geteuid()
}

// An item is one entry of a drop.
type item struct {
	name    string
	size    int64
	changed time.Time
	hour    time.Time
}

// items are the entries of one directory, by what is done with them.
type items struct {
	stray []item // to be removed
	young []item // with another name, but possibly unfinished
	temps []item // unfinished
	hours []item
}

// add adds one directory to the usage.
func (l *Usage) add(dir *os.Root, now, clock time.Time, remove bool) error {
	all, err := l.scan(dir, now, clock)
	if err != nil {
		return unreadable(err)
	}
	excess := all.stray
	if l.OverLimit() {
		excess = append(excess, all.young...)
	}
	slices.SortFunc(all.temps, func(a, b item) int { return b.changed.Compare(a.changed) })
	excess = append(excess, all.temps[min(len(all.temps), maxTemps):]...)
	// The oldest hour files are removed, as in a node's own spool.
	slices.SortFunc(all.hours, func(a, b item) int { return cmp.Or(b.hour.Compare(a.hour), cmp.Compare(a.name, b.name)) })
	var size int64
	for i, h := range all.hours {
		if size += h.size; i >= defaultMaxFiles || size > defaultMaxBytes {
			excess = append(excess, all.hours[i:]...)
			break
		}
	}
	l.Stray += len(excess)
	if !remove {
		return nil
	}
	for _, e := range excess {
		switch err := dir.Remove(e.name); {
		case err == nil:
			l.Removed++
			l.RemovedBytes = sum(l.RemovedBytes, e.size)
		case notExist(err):
		default:
			l.RemoveErr = err
			if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
				return nil // the others would fail too
			}
		}
	}
	return nil
}

// scan reads a directory in chunks, up to a limit.
func (l *Usage) scan(dir *os.Root, now, clock time.Time) (all items, err error) {
	f, err := dir.Open(".")
	if err != nil {
		return all, err
	}
	defer f.Close()
	for looked := 0; ; {
		entries, err := f.ReadDir(readChunk)
		for _, e := range entries {
			if e.Name() == InnerName && e.IsDir() {
				continue
			}
			if looked++; looked > maxSwept {
				l.More = true
				return all, nil
			}
			info, err := dir.Lstat(e.Name())
			if err != nil {
				continue // renamed or removed meanwhile
			}
			l.Files++
			l.Bytes = sum(l.Bytes, info.Size())
			all.sort(info, now, clock)
		}
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
	}
}

// sort adds an entry to the list that it belongs to.
func (all *items) sort(info fs.FileInfo, now, clock time.Time) {
	e := item{name: info.Name(), size: info.Size(), changed: fileStateOf(info).changed}
	match := hourName.FindStringSubmatch(e.name)
	if match != nil {
		e.hour, _ = time.Parse(hourStamp, match[1])
	}
	// The clock of a file server may be slightly ahead.
	young := clock.Sub(e.changed).Abs() < youngAge
	switch {
	case !info.Mode().IsRegular() && !info.IsDir(), info.Size() > snapshot.MaxFileBytes && !info.IsDir():
		all.stray = append(all.stray, e)
	case info.IsDir():
		if !young {
			all.stray = append(all.stray, e)
		} else {
			all.young = append(all.young, e)
		}
	case e.name == LatestName:
	case match != nil && !e.hour.IsZero():
		if now.Sub(e.hour) > time.Hour+expiredAfter {
			all.stray = append(all.stray, e)
		} else {
			all.hours = append(all.hours, e)
		}
	case !young:
		all.stray = append(all.stray, e)
	case strings.HasPrefix(e.name, tempPrefix):
		all.temps = append(all.temps, e)
	default:
		all.young = append(all.young, e)
	}
}

// sum saturates, because a sparse file can have any size.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
