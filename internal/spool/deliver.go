package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"gpuboard/internal/atomicfile"
)

// maxObsolete limits the remembered files that only the target still has.
const maxObsolete = 128

// delivered records the files that one target has, with the SHA-256 of each in hex.
type delivered struct {
	Target string            `json:"target"`
	Files  map[string]string `json:"files"`
}

func deliverable(name string) bool { return name == LatestName || hourName.MatchString(name) }

// Pending returns the names of the files that target does not have: latest.json.gz first, if
// it has changed or cannot be read, then hour files, which never change, newest first. Any
// process that can read the spool may call Pending while another one adds.
func (s *Spool) Pending(target string) ([]string, error) {
	has, err := s.delivered(target)
	if err != nil {
		return nil, fmt.Errorf("reading what was delivered: %w", err)
	}
	names, err := s.names()
	if err != nil {
		return nil, fmt.Errorf("listing spool: %w", err)
	}
	pending := slices.DeleteFunc(names, func(name string) bool {
		sent, known := has.Files[name]
		if name != LatestName {
			return known || !deliverable(name)
		}
		data, err := s.read(name)
		return err == nil && digest(data) == sent
	})
	// "latest" sorts after "hour", and names of hour files begin with the hour.
	slices.Reverse(pending)
	return pending, nil
}

// Read returns the content of a file. For an hour file that was removed after Pending the error
// wraps [fs.ErrNotExist].
func (s *Spool) Read(name string) ([]byte, error) {
	if !deliverable(name) {
		return nil, fmt.Errorf("reading %q of the spool: no such kind of file", name)
	}
	data, err := s.read(name)
	if err != nil {
		return nil, fmt.Errorf("reading %s of the spool: %w", name, err)
	}
	return data, nil
}

// Delivered records, for this and later processes, that target has a file with this content.
func (s *Spool) Delivered(target, name string, data []byte) error {
	if !deliverable(name) {
		return fmt.Errorf("remembering the delivery of %q: no such kind of file", name)
	}
	err := s.remember(target, func(has delivered) {
		// The record is limited also for a target from which nothing is removed.
		if old := s.obsolete(has); len(old) > maxObsolete {
			for _, name := range old[:len(old)-maxObsolete] {
				delete(has.Files, name)
			}
		}
		has.Files[name] = digest(data)
	})
	if err != nil {
		return fmt.Errorf("remembering the delivery of %s: %w", name, err)
	}
	return nil
}

// Obsolete returns the hour files that target has and the spool has removed, oldest first.
// The publisher may remove them from the target and then calls [Spool.Withdrawn].
func (s *Spool) Obsolete(target string) []string {
	has, err := s.delivered(target)
	if err != nil {
		return nil // retried at the next push
	}
	return s.obsolete(has)
}

func (s *Spool) obsolete(has delivered) []string {
	var old []string
	for name := range has.Files {
		if !hourName.MatchString(name) {
			continue
		}
		if _, err := os.Lstat(s.path(name)); notExist(err) {
			old = append(old, name)
		}
	}
	slices.Sort(old)
	return old
}

// Withdrawn records that target does not have these files any more.
func (s *Spool) Withdrawn(target string, names ...string) error {
	err := s.remember(target, func(has delivered) {
		for _, name := range names {
			delete(has.Files, name)
		}
	})
	if err != nil {
		return fmt.Errorf("forgetting %d deliveries: %w", len(names), err)
	}
	return nil
}

// remember changes the record of target.
func (s *Spool) remember(target string, change func(delivered)) error {
	has, err := s.delivered(target)
	if err != nil {
		return err
	}
	change(has)
	data, err := json.Marshal(has)
	if err != nil {
		return err
	}
	_, err = atomicfile.WriteUnsynced(s.stateFile(target), data, filePerm) // without it, files are only delivered again
	return err
}

// delivered reads the record of target. If it is missing or invalid, files are sent
// again, which does no harm. A disk error is returned: with an empty record, files on the
// target would never be removed.
func (s *Spool) delivered(target string) (delivered, error) {
	var has delivered
	data, err := s.read(filepath.Base(s.stateFile(target)))
	switch {
	case errors.Is(err, unix.EIO), errors.Is(err, unix.ESTALE):
		return has, err
	case err != nil, json.Unmarshal(data, &has) != nil:
		has = delivered{}
	}
	has.Target = target
	if has.Files == nil {
		has.Files = map[string]string{}
	}
	return has, nil
}

func (s *Spool) stateFile(target string) string {
	return s.path(".delivered-" + digest([]byte(target))[:16] + ".json")
}
