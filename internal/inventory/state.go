package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

const (
	stateSchema   = 1
	maxStateBytes = 64 << 20
)

// A keptHost is a host with the time at which its source last named it.
type keptHost struct {
	Host
	SeenAt time.Time `json:"seen_at"`
}

// A source is what is asked for hosts and can fail.
type source string

// The values of source, as the state file has them.
const (
	fromConsul source = "consul"
	fromDrops  source = "drops"
)

// state is the last known hosts of each source, sorted by name.
type state map[source][]keptHost

type stateFile struct {
	Schema  int   `json:"schema"`
	Sources state `json:"sources"`
}

// readState returns an empty state, and no error, when there is no file yet.
func readState(path string, now time.Time) (state, error) {
	if path == "" {
		return state{}, nil
	}
	data, err := atomicfile.Read(path, maxStateBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	if err != nil {
		return state{}, fmt.Errorf("reading the state: %w", err)
	}
	s, err := decodeState(data, now)
	if err != nil {
		return state{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return s, nil
}

// decodeState checks the file as strictly as an answer of Consul.
func decodeState(data []byte, now time.Time) (state, error) {
	var f stateFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("it is not whole: %w", err)
	}
	if f.Schema != stateSchema {
		return nil, fmt.Errorf("its schema is %d, and this program knows %d", f.Schema, stateSchema)
	}
	s := state{}
	for _, source := range []source{fromConsul, fromDrops} {
		hosts := f.Sources[source]
		for i := range hosts {
			h := &hosts[i]
			var err error
			if h.Name, err = snapshot.ParseHost(h.Name); err != nil {
				return nil, fmt.Errorf("it names a host wrongly: %w", err)
			}
			h.clean()
			h.ExpectedGPUs = min(max(h.ExpectedGPUs, 0), snapshot.MaxGPUs)
			if !slices.Contains([]Check{Passing, Warning, Critical, Maintenance}, h.Check) {
				h.Check = ""
			}
			h.SeenAt = notAfter(h.SeenAt, now)
			if !h.GoneSince.IsZero() {
				h.GoneSince = notAfter(h.GoneSince, now)
			}
		}
		if hosts = bound(hosts); len(hosts) > 0 {
			s[source] = hosts
		}
	}
	return s, nil
}

// notAfter returns t, or now for a time in the future, as after a clock was set back.
func notAfter(t, now time.Time) time.Time {
	t = t.UTC().Truncate(time.Millisecond)
	if t.After(now) || t.IsZero() {
		return now
	}
	return t
}

func (s state) encode() ([]byte, error) {
	data, err := json.Marshal(stateFile{Schema: stateSchema, Sources: s})
	if err == nil && len(data) > maxStateBytes {
		err = fmt.Errorf("%d bytes, and %d is the most", len(data), maxStateBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("writing the state: %w", err)
	}
	return data, nil
}
