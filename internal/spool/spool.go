// Package spool is a directory of snapshot files that are each whole or absent:
// written on the node, read on the web host.
//
// On the node a [Spool] contains latest.json.gz, hour files, and two kinds of files that
// stay on the node: journals of hours that are not over, and records of what was
// delivered to which target. One process at a time adds to it; others may read.
//
// On the web host [Drops] reads what nodes delivered. It is untrusted input: only regular
// files with known names and bounded size are opened, and the directory alone says which
// host they belong to.
package spool

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

// LatestName is the file that holds the newest snapshot of a host.
const LatestName = "latest.json.gz"

const (
	lockName  = ".lock"
	dirPerm   = 0o700
	filePerm  = 0o600
	hourStamp = "20060102T15"

	// Bounds of what waits for delivery.
	defaultMaxBytes = 64 << 20
	defaultMaxFiles = 256

	// maxVariants limits the files of one hour and boot. There is more than one only after
	// the clock went back into an hour that was over.
	maxVariants = 9

	tempAge = time.Hour // older temporary files are abandoned
)

// hourName matches the names of hour files: the hour, the first eight
// characters of the boot id, and a number where one file was not enough.
var hourName = regexp.MustCompile(`^hour-([0-9]{8}T[0-9]{2})-([0-9A-Za-z-]{1,8})(\.[2-9])?\.jsonl\.gz$`)

// HourOf returns what the name of an hour file says: the hour, and the first characters of the
// boot id. ok is false for other names.
func HourOf(name string) (hour time.Time, boot string, ok bool) {
	match := hourName.FindStringSubmatch(name)
	if match == nil {
		return hour, "", false
	}
	hour, err := time.Parse(hourStamp, match[1])
	return hour, match[2], err == nil
}

// Expired reports whether an hour, by its beginning, ended longer ago than its file is
// kept. It holds for nodes and for drops.
func Expired(hour, now time.Time) bool {
	return now.Sub(hour) > time.Hour+snapshot.HourRetention
}

// ErrLocked is wrapped when another process adds to the same spool.
var ErrLocked = errors.New("another collector is using the spool")

// ErrNotPrivate is wrapped when another user could write into the spool.
var ErrNotPrivate = errors.New("the spool is not a directory of our own")

// A Spool is the node's side. One goroutine may add, and another one deliver.
type Spool struct {
	dir      string
	maxBytes int64 // of what waits for delivery; the oldest hours are removed first
	maxFiles int
	swept    bool // abandoned temporary files were removed

	// The state of the writer; set by Lock.
	lock    *os.File
	session string            // replaces the boot id on systems without one
	last    map[string]uint64 // newest number of each boot
	recent  []snapshot.Sample // of one boot, for the bundle
	boot    string            // the boot of recent
}

// Open opens the spool in dir, and creates it (mode 0700) if it is missing. A symlink,
// another user's directory, and a directory that others can write to are refused with
// [ErrNotPrivate]. Open does not lock: a publisher reads while a collector writes.
func Open(dir string) (*Spool, error) {
	err := atomicfile.MkdirAll(filepath.Dir(filepath.Clean(dir)), 0o755)
	if err == nil {
		err = atomicfile.MkdirAll(dir, dirPerm)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = os.Lstat(filepath.Clean(dir))
	}
	if err != nil {
		return nil, fmt.Errorf("opening spool: %w", err)
	}
	switch owner := ownerOf(info); {
	case !info.IsDir():
		return nil, fmt.Errorf("opening spool %s: %w: it is a symlink", dir, ErrNotPrivate)
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("opening spool %s: %w: mode %v lets others write (chmod go-w mends it)", dir,
			ErrNotPrivate, info.Mode().Perm())
	case owner != os.Geteuid() && os.Geteuid() != 0:
		return nil, fmt.Errorf("opening spool %s: %w: it belongs to uid %d", dir, ErrNotPrivate, owner)
	}
	return &Spool{dir: dir, maxBytes: defaultMaxBytes, maxFiles: defaultMaxFiles,
		session: strings.ToLower(rand.Text())}, nil
}

// Dir returns the directory of the spool.
func (s *Spool) Dir() string { return s.dir }

// Lock makes this process the only one that adds, until Close or its end. Add calls it; a
// loop calls it first, to find out early about [ErrLocked].
func (s *Spool) Lock() error {
	if s.lock != nil {
		return nil
	}
	lock, err := atomicfile.Lock(s.path(lockName), filePerm)
	switch {
	case errors.Is(err, atomicfile.ErrLocked):
		err = ErrLocked
	case errors.Is(err, atomicfile.ErrNotRegular):
		err = fmt.Errorf("%w: %w", ErrNotPrivate, err)
	}
	if err != nil {
		return fmt.Errorf("locking spool %s: %w", s.dir, err)
	}
	if err := s.load(); err != nil {
		_ = atomicfile.Unlock(lock)
		return fmt.Errorf("loading spool %s: %w", s.dir, err)
	}
	s.lock = lock
	return nil
}

// Close releases the lock. The Spool can still be used; Add locks it again.
func (s *Spool) Close() error {
	lock := s.lock
	s.lock, s.recent, s.last = nil, nil, nil
	if lock == nil {
		return nil
	}
	return atomicfile.Unlock(lock)
}

// load reads the state that an earlier process left in the files. The last number of a
// boot is in its journal or in the bundle.
func (s *Spool) load() error {
	s.last, s.recent, s.boot = map[string]uint64{}, nil, ""
	names, err := s.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, boot, ok := parseJournalName(name); ok {
			seq, err := lastSeq(s.path(name))
			if err != nil {
				return err
			}
			s.last[boot] = max(s.last[boot], seq)
		}
	}
	data, err := s.read(LatestName)
	if err != nil {
		return nil // there is no bundle, or it is replaced by the next one
	}
	if b, err := snapshot.DecodeBundle(bytes.NewReader(data)); err == nil {
		s.last[b.BootID] = max(s.last[b.BootID], b.Snapshot.Seq)
		s.boot, s.recent = b.BootID, b.Samples
	}
	return nil
}

func (s *Spool) path(name string) string { return filepath.Join(s.dir, name) }

// names lists the regular files of the spool, sorted. Only its owner writes there, so the number
// of files is not limited here.
func (s *Spool) names() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (s *Spool) read(name string) ([]byte, error) {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return readRegular(root, name)
}

func bootPrefix(boot string) string { return boot[:min(len(boot), 8)] }

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
