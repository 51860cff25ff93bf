package publisher

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A push that is killed leaves its temporary file on the server, where the next
// push may not list the directory to find it. So each connection uses a random
// name for its temporary file, and an empty local file, the upload record, is
// named after it while a push is under way. A later push that finds the record of
// a dead push removes the temporary file from the server, and then the record.
//
// No two connections use the same name. With a fixed name, a request that a
// stalled server executes late could rename the next push's half-written file
// into place; with random names it finds nothing to rename.
const (
	tempPrefix   = ".tmp-"
	recordPrefix = "push-"
	maxRemovals  = 16             // temporary files removed in one push
	recordKept   = 48 * time.Hour // the server has removed the temporary file by then
	noProcess    = 0              // stands for the process of a push that failed
)

func newTempName() string {
	var b [10]byte
	rand.Read(b[:]) // never fails, by contract of crypto/rand
	return tempPrefix + hex.EncodeToString(b[:])
}

// uploadRecords are the records of uploads to one target.
type uploadRecords struct {
	dir    string // empty: no records are kept
	prefix string
	busy   time.Duration // a younger record of a live process is a push under way
}

func newUploadRecords(dir string, target Target, budget time.Duration) uploadRecords {
	sum := sha256.Sum256([]byte(target.String()))
	return uploadRecords{dir: dir, prefix: recordPrefix + hex.EncodeToString(sum[:6]) + "-", busy: 2 * budget}
}

func (r uploadRecords) path(temp string, pid int) string {
	return filepath.Join(r.dir, r.prefix+strings.TrimPrefix(temp, tempPrefix)+"-"+strconv.Itoa(pid))
}

// markFailed replaces the record of a push that failed, so that the next push does
// not take it for one under way. It returns the new path.
func (r uploadRecords) markFailed(temp string) string {
	path := r.path(temp, noProcess)
	if r.dir == "" {
		return path
	}
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		f.Close()
		os.Remove(r.path(temp, os.Getpid()))
	}
	return path
}

// write creates the record of a push. A push does not begin without one, because
// nobody could find its temporary file after a kill.
func (r uploadRecords) write(temp string) error {
	if r.dir == "" {
		return nil
	}
	path := r.path(temp, os.Getpid())
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(r.dir, 0o700); err == nil {
			f, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
		}
	}
	if err != nil {
		return fmt.Errorf("recording the temporary file of this push: %w", err)
	}
	return f.Close()
}

func (r uploadRecords) remove(path string) {
	if r.dir != "" {
		os.Remove(path)
	}
}

// stale returns the temporary files of pushes that have ended, with their records.
func (r uploadRecords) stale(now time.Time) map[string]string {
	if r.dir == "" {
		return nil
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil
	}
	found := map[string]string{}
	for _, entry := range entries {
		rest, ok := strings.CutPrefix(entry.Name(), r.prefix)
		if !ok || !entry.Type().IsRegular() || len(found) == maxRemovals {
			continue
		}
		random, pidText, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(pidText)
		info, statErr := entry.Info()
		if err != nil || statErr != nil || !hexadecimal(random) {
			continue
		}
		age := now.Sub(info.ModTime())
		path := filepath.Join(r.dir, entry.Name())
		switch {
		case age > recordKept:
			os.Remove(path)
		case age >= 0 && age < r.busy && alive(pid):
		default:
			found[tempPrefix+random] = path
		}
	}
	return found
}

func alive(pid int) bool {
	if pid <= noProcess {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

func hexadecimal(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "0123456789abcdef") == ""
}
