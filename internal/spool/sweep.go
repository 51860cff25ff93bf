package spool

import (
	"errors"
	"io/fs"
	"os"
	"slices"
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
	maxSwept = 2048 // directory entries that are read of one directory

	maxCounted = 1 << 50 // bytes of one file: a sparse one can have any size

	youngAge = 10 * time.Minute // how long a file may be unfinished
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

// Sweep removes what does not belong into the drop of a host: files with other names ten
// minutes after they were written, or all but the newest at once if the drop exceeds its limits; files that are too
// large for a reader; hour files that are expired or too many, oldest first; empty directories. It
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
	inner, err := openDir(outer, InnerName)
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
	return ownerOf(info)
}

// private reports whether only this user may enter a directory.
func private(dir *os.Root) bool {
	info, err := dir.Stat(".")
	return err == nil && info.Mode().Perm()&0o077 == 0 && ownerOfDir(dir) == os.Geteuid()
}

// add adds one directory to the usage.
func (l *Usage) add(dir *os.Root, now, clock time.Time, remove bool) error {
	entries, more, err := list(dir, maxSwept)
	if err != nil {
		return unreadable(err)
	}
	l.More = l.More || more
	var excess []fs.FileInfo // to be removed
	var young []fs.FileInfo  // with another name, but possibly unfinished
	var hours []fs.FileInfo
	for _, e := range entries {
		info, err := dir.Lstat(e.Name())
		if err != nil || info.IsDir() && e.Name() == InnerName {
			continue // renamed or removed meanwhile, or counted on its own
		}
		l.Files++
		l.Bytes += min(info.Size(), maxCounted)
		file := info.Mode().IsRegular()
		hour, _, isHour := HourOf(e.Name())
		switch {
		case !info.IsDir() && (!file || info.Size() > snapshot.MaxFileBytes):
			excess = append(excess, info)
		case file && e.Name() == LatestName:
		case file && isHour && !Expired(hour, now):
			hours = append(hours, info)
		case file && isHour, clock.Sub(info.ModTime()).Abs() >= youngAge: // a file server's clock may be ahead
			excess = append(excess, info)
		default:
			young = append(young, info)
		}
	}
	if l.OverLimit() && len(young) > 0 {
		slices.SortFunc(young, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
		excess = append(excess, young[:len(young)-1]...) // the newest may be an upload that goes on
	}
	// The oldest hour files are removed, as in a node's own spool. Names begin with the hour.
	excess = append(excess, tooMany(hours, defaultMaxFiles, defaultMaxBytes)...)
	l.Stray += len(excess)
	if !remove {
		return nil
	}
	for _, e := range excess {
		switch err := dir.Remove(e.Name()); {
		case err == nil:
			l.Removed++
			l.RemovedBytes += min(e.Size(), maxCounted)
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
