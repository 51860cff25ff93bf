package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"golang.org/x/sys/unix"

	"gpuboard/internal/atomicfile"
)

// A File is one file of the spool that can be delivered.
type File struct {
	Name   string // latest.json.gz, or an hour file's
	Size   int64
	Digest string // SHA-256 in hex; hour files never change
}

// maxObsolete is how many files are remembered that only the target still has.
const maxObsolete = 128

// delivered is what one target has, by name: the digest that it was sent.
type delivered struct {
	Target string            `json:"target"`
	Files  map[string]string `json:"files"`
}

// Pending returns what target has not got yet: latest.json.gz first, if it
// changed, then the hours, newest first. Any process that can read the spool
// may ask, while another adds.
func (s *Spool) Pending(target string) ([]File, error) {
	has, err := s.delivered(target)
	if err != nil {
		return nil, fmt.Errorf("reading what was delivered: %w", err)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("listing spool: %w", err)
	}
	var pending []File
	for _, e := range entries {
		name := e.Name()
		if !e.Type().IsRegular() || name != LatestName && !hourName.MatchString(name) {
			continue
		}
		sent, known := has.Files[name]
		if known && name != LatestName {
			continue
		}
		data, err := s.read(name)
		if gone(err) {
			continue // the collector dropped it just now
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s of the spool: %w", name, err)
		}
		if f := (File{Name: name, Size: int64(len(data)), Digest: digest(data)}); f.Digest != sent {
			pending = append(pending, f)
		}
	}
	sort.Slice(pending, func(i, j int) bool {
		if a, b := pending[i].Name == LatestName, pending[j].Name == LatestName; a != b {
			return a
		}
		return pending[i].Name > pending[j].Name
	})
	return pending, nil
}

// Read returns the content of f. latest.json.gz may be newer than f by then:
// what counts as delivered is what was read, so hand the result's [FileOf] to
// Delivered. An hour that was dropped meanwhile is an error that wraps
// [fs.ErrNotExist].
func (s *Spool) Read(f File) ([]byte, error) {
	if f.Name != LatestName && !hourName.MatchString(f.Name) {
		return nil, fmt.Errorf("reading %q of the spool: no such kind of file", f.Name)
	}
	data, err := s.read(f.Name)
	if err != nil {
		return nil, fmt.Errorf("reading %s of the spool: %w", f.Name, err)
	}
	return data, nil
}

// FileOf describes data under a name of the spool.
func FileOf(name string, data []byte) File {
	return File{Name: name, Size: int64(len(data)), Digest: digest(data)}
}

// Delivered remembers, for this process and those after it, that target has f.
func (s *Spool) Delivered(target string, f File) error {
	if f.Name != LatestName && !hourName.MatchString(f.Name) {
		return fmt.Errorf("remembering the delivery of %q: no such kind of file", f.Name)
	}
	has, err := s.delivered(target)
	if err != nil {
		return fmt.Errorf("remembering the delivery of %s: %w", f.Name, err)
	}
	// A target that nobody tidies is not remembered for ever.
	if old := s.obsolete(has); len(old) > maxObsolete {
		for _, name := range old[:len(old)-maxObsolete] {
			delete(has.Files, name)
		}
	}
	has.Files[f.Name] = f.Digest
	if err := s.remember(has); err != nil {
		return fmt.Errorf("remembering the delivery of %s: %w", f.Name, err)
	}
	return nil
}

// Obsolete returns the hours that target was sent and the spool holds no more,
// oldest first. A publisher may remove them there, where nobody else has the
// right to, and then call [Spool.Withdrawn].
func (s *Spool) Obsolete(target string) []string {
	has, err := s.delivered(target)
	if err != nil {
		return nil // at another time
	}
	return s.obsolete(has)
}

func (s *Spool) obsolete(has delivered) []string {
	var old []string
	for name := range has.Files {
		if !hourName.MatchString(name) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(s.dir, name)); gone(err) {
			old = append(old, name)
		}
	}
	sort.Strings(old)
	return old
}

// Withdrawn forgets that target ever had these files.
func (s *Spool) Withdrawn(target string, names ...string) error {
	has, err := s.delivered(target)
	if err != nil {
		return fmt.Errorf("forgetting %d deliveries: %w", len(names), err)
	}
	for _, name := range names {
		delete(has.Files, name)
	}
	if err := s.remember(has); err != nil {
		return fmt.Errorf("forgetting %d deliveries: %w", len(names), err)
	}
	return nil
}

func (s *Spool) remember(has delivered) error {
	data, err := json.Marshal(has)
	if err != nil {
		return err
	}
	_, err = atomicfile.WriteUnsynced(s.stateFile(has.Target), data, filePerm) // lost, it costs a delivery of what was delivered
	return err
}

// delivered reads what target has. A state file that is missing or broken only
// means that files are sent once more, which does no harm. One that a disk does
// not give now is an error: what was sent would be forgotten, and never be
// removed there.
func (s *Spool) delivered(target string) (delivered, error) {
	var has delivered
	data, err := s.read(filepath.Base(s.stateFile(target)))
	switch {
	case errors.Is(err, unix.EIO), errors.Is(err, unix.ESTALE):
		return has, err
	case err != nil, json.Unmarshal(data, &has) != nil, has.Target != target:
		has = delivered{}
	}
	has.Target = target
	if has.Files == nil {
		has.Files = map[string]string{}
	}
	return has, nil
}

func (s *Spool) stateFile(target string) string {
	return filepath.Join(s.dir, ".delivered-"+digest([]byte(target))[:16]+".json")
}
