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
// name for its temporary file, and a local file with the process id, the upload
// record, is named after it while a push is under way. A later push that finds the
// record of a dead process, or an old one, removes the temporary file from the
// server, and then the record.
//
// No two connections use the same name. With a fixed name, a request that a
// stalled server executes late could rename the next push's half-written file
// into place; with random names it finds nothing to rename.
const (
	tempPrefix   = ".tmp-"
	recordPrefix = "push-"
	maxRemovals  = 16 // temporary files removed in one push
)

func newTempName() string { return tempPrefix + rand.Text() }

// uploadRecords are the records of uploads to one target.
type uploadRecords struct {
	dir    string
	prefix string
	busy   time.Duration // a younger record of a live process may be that of a push under way
}

func newUploadRecords(dir string, target Target, budget time.Duration) uploadRecords {
	sum := sha256.Sum256([]byte(target.String()))
	return uploadRecords{dir: dir, prefix: recordPrefix + hex.EncodeToString(sum[:6]) + "-", busy: 2 * budget}
}

func (r uploadRecords) path(temp string) string {
	return filepath.Join(r.dir, r.prefix+strings.TrimPrefix(temp, tempPrefix))
}

// write creates the record of a push. A push does not begin without one, because
// nobody could find its temporary file after a kill.
func (r uploadRecords) write(temp string) error {
	err := os.MkdirAll(r.dir, 0o700)
	if err == nil {
		err = os.WriteFile(r.path(temp), []byte(strconv.Itoa(os.Getpid())), 0o600)
	}
	if err != nil {
		return fmt.Errorf("recording the temporary file of this push: %w", err)
	}
	return nil
}

func (r uploadRecords) remove(temp string) {
	os.Remove(r.path(temp))
}

// fail marks the record of a push that has failed, so that the next push does not take
// it for one under way.
func (r uploadRecords) fail(temp string) {
	os.Chtimes(r.path(temp), time.Time{}, time.Unix(0, 0))
}

// abandoned returns the temporary files of pushes that have failed or must have ended.
func (r uploadRecords) abandoned(now time.Time) []string {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil
	}
	var found []string
	for _, entry := range entries {
		random, ok := strings.CutPrefix(entry.Name(), r.prefix)
		info, err := entry.Info()
		if !ok || err != nil || len(found) == maxRemovals {
			continue
		}
		// A record from the future is one from before the clock was set back.
		if age := now.Sub(info.ModTime()); age < 0 || age >= r.busy || !alive(filepath.Join(r.dir, entry.Name())) {
			found = append(found, tempPrefix+random)
		}
	}
	return found
}

// alive reports whether the process that wrote a record may still exist.
func alive(record string) bool {
	text, err := os.ReadFile(record)
	pid, convErr := strconv.Atoi(string(text))
	return err == nil && convErr == nil && pid > 0 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
