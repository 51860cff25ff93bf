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

// A push that is killed leaves its temporary file on the server, and the next
// one cannot list the directory to find it. So each connection takes a random
// name for its temporary, and while a push is under way an empty local file,
// the note, is named after it. Whoever finds a note of a push that is dead
// removes that temporary from the server, then the note.
//
// A name is never used by two connections. With a fixed name, a request that a
// stalled server carries out late could rename a half-written temporary of the
// next push into place; with random names it finds nothing to rename.
const (
	tempPrefix  = ".tmp-"
	notePrefix  = "push-"
	maxRemovals = 16             // leftovers removed in one push
	noteKept    = 48 * time.Hour // after that the server's own sweeper has been there
	nobody      = 0              // the process of a push that failed
)

func newTempName() string {
	var b [10]byte
	rand.Read(b[:]) // never fails, by contract of crypto/rand
	return tempPrefix + hex.EncodeToString(b[:])
}

// notes is the local memory of temporaries of one target.
type notes struct {
	dir    string // empty: no memory
	prefix string
	busy   time.Duration // a live process's note younger than this is a push under way
}

func newNotes(dir string, target Target, budget time.Duration) notes {
	sum := sha256.Sum256([]byte(target.String()))
	return notes{dir: dir, prefix: notePrefix + hex.EncodeToString(sum[:6]) + "-", busy: 2 * budget}
}

func (n notes) path(temp string) string { return n.pathFor(temp, os.Getpid()) }

func (n notes) pathFor(temp string, pid int) string {
	return filepath.Join(n.dir, n.prefix+strings.TrimPrefix(temp, tempPrefix)+"-"+strconv.Itoa(pid))
}

// abandon rewrites the note of a push that failed, so that the next one does not
// take it for one under way. It returns the note's new path.
func (n notes) abandon(temp string) string {
	path := n.pathFor(temp, nobody)
	if n.dir == "" {
		return path
	}
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		f.Close()
		os.Remove(n.path(temp))
	}
	return path
}

// write leaves the note; without it a kill would leave an unknown temporary, so
// a push does not begin when it fails.
func (n notes) write(temp string) error {
	if n.dir == "" {
		return nil
	}
	f, err := os.OpenFile(n.path(temp), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(n.dir, 0o700); err == nil {
			f, err = os.OpenFile(n.path(temp), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		}
	}
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("noting the temporary file of this push: %w", err)
	}
	return f.Close()
}

func (n notes) forget(path string) {
	if n.dir != "" {
		os.Remove(path)
	}
}

// dead maps the temporaries of pushes that are over to their notes.
func (n notes) dead(now time.Time) map[string]string {
	if n.dir == "" {
		return nil
	}
	entries, err := os.ReadDir(n.dir)
	if err != nil {
		return nil
	}
	found := map[string]string{}
	for _, entry := range entries {
		rest, ok := strings.CutPrefix(entry.Name(), n.prefix)
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
		path := filepath.Join(n.dir, entry.Name())
		switch {
		case age > noteKept:
			os.Remove(path)
		case age >= 0 && age < n.busy && alive(pid):
		default:
			found[tempPrefix+random] = path
		}
	}
	return found
}

func alive(pid int) bool {
	if pid <= nobody {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

func hexadecimal(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "0123456789abcdef") == ""
}
