package spool

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"gpuboard/atomicfile"
	"gpuboard/snapshot"
)

// A File is one file of the spool that can be delivered.
type File struct {
	Name   string // latest.json.gz, or an hour file's
	Size   int64
	Digest string // SHA-256 in hex; hour files never change
}

// delivered is what one target has, by name: the digest that it was sent.
type delivered struct {
	Target string            `json:"target"`
	Files  map[string]string `json:"files"`
}

// Pending returns what target has not got yet: latest.json.gz first, if it
// changed, then the hours, newest first. Any process that can read the spool
// may ask, while another adds.
func (s *Spool) Pending(target string) ([]File, error) {
	has := s.delivered(target)
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
	has := s.delivered(target)
	for name := range has.Files {
		// What is not in the spool any more needs no remembering.
		if _, err := os.Lstat(filepath.Join(s.dir, name)); gone(err) {
			delete(has.Files, name)
		}
	}
	has.Files[f.Name] = f.Digest
	data, err := json.Marshal(has)
	if err != nil {
		return err
	}
	if _, err := atomicfile.Write(s.stateFile(target), data, filePerm); err != nil {
		return fmt.Errorf("remembering the delivery of %s: %w", f.Name, err)
	}
	return nil
}

// delivered reads what target has. A state file that is missing or broken only
// means that files are sent once more, which does no harm.
func (s *Spool) delivered(target string) delivered {
	var has delivered
	if data, err := s.read(filepath.Base(s.stateFile(target))); err == nil {
		if json.Unmarshal(data, &has) != nil || has.Target != snapshot.Text(target, snapshot.MaxTextBytes) {
			has = delivered{}
		}
	}
	has.Target = snapshot.Text(target, snapshot.MaxTextBytes)
	if has.Files == nil {
		has.Files = map[string]string{}
	}
	return has
}

func (s *Spool) stateFile(target string) string {
	return filepath.Join(s.dir, ".delivered-"+digest([]byte(target))[:16]+".json")
}
