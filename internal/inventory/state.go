package inventory

import (
	"bytes"
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
	SeenAt time.Time
}

// state is the last known hosts of each source that can fail, by name.
type state map[Source][]keptHost

// The file is JSON of our own: {"schema": 1, "sources": {"consul": [host, …]}}.
type stateFile struct {
	Schema  int                    `json:"schema"`
	Sources map[Source][]stateHost `json:"sources"`
}

type stateHost struct {
	Name              string     `json:"name"`
	SeenAt            time.Time  `json:"seen_at"`
	GoneSince         *time.Time `json:"gone_since,omitempty"`
	Title             string     `json:"title,omitempty"`
	Group             string     `json:"group,omitempty"`
	Owner             string     `json:"owner,omitempty"`
	Note              string     `json:"note,omitempty"`
	Address           string     `json:"address,omitempty"`
	Datacenter        string     `json:"datacenter,omitempty"`
	Tags              []string   `json:"tags,omitempty"`
	ExpectedGPUs      int        `json:"expected_gpus,omitempty"`
	Check             Check      `json:"check,omitempty"`
	CheckOutput       string     `json:"check_output,omitempty"`
	Maintenance       bool       `json:"maintenance,omitempty"`
	MaintenanceReason string     `json:"maintenance_reason,omitempty"`
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

// decodeState believes the file as little as it would believe Consul: it may
// have been cut, edited, or written before a clock was set back.
func decodeState(data []byte, now time.Time) (state, error) {
	var f stateFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("it is not whole: %w", err)
	}
	if f.Schema != stateSchema {
		return nil, fmt.Errorf("its schema is %d, and this program knows %d", f.Schema, stateSchema)
	}
	s := state{}
	for _, source := range []Source{FromConsul, FromDrops} {
		var hosts []keptHost
		for _, h := range f.Sources[source] {
			name, err := snapshot.ParseHost(h.Name)
			if err != nil {
				return nil, fmt.Errorf("it names a host wrongly: %w", err)
			}
			k := keptHost{SeenAt: notAfter(h.SeenAt, now), Host: Host{
				Name:              name,
				Title:             line(h.Title, snapshot.MaxNameBytes),
				Group:             line(h.Group, snapshot.MaxNameBytes),
				Owner:             line(h.Owner, snapshot.MaxNameBytes),
				Note:              line(h.Note, snapshot.MaxTextBytes),
				Address:           line(h.Address, snapshot.MaxTextBytes),
				Datacenter:        line(h.Datacenter, snapshot.MaxNameBytes),
				Tags:              tagsOf(h.Tags),
				ExpectedGPUs:      min(max(h.ExpectedGPUs, 0), snapshot.MaxGPUs),
				Sources:           []Source{source},
				CheckOutput:       line(h.CheckOutput, snapshot.MaxTextBytes),
				Maintenance:       h.Maintenance,
				MaintenanceReason: line(h.MaintenanceReason, snapshot.MaxTextBytes),
			}}
			if slices.Contains([]Check{Passing, Warning, Critical, Maintenance}, h.Check) {
				k.Check = h.Check
			}
			if h.GoneSince != nil {
				k.GoneSince = notAfter(*h.GoneSince, now)
			}
			hosts = append(hosts, k)
		}
		if hosts = bound(hosts); len(hosts) > 0 {
			s[source] = hosts
		}
	}
	return s, nil
}

// notAfter keeps a clock that was set back from making hosts immortal.
func notAfter(t, now time.Time) time.Time {
	t = t.UTC().Truncate(time.Millisecond)
	if t.After(now) || t.IsZero() {
		return now
	}
	return t
}

func (s state) encode() ([]byte, error) {
	f := stateFile{Schema: stateSchema, Sources: map[Source][]stateHost{}}
	for source, hosts := range s {
		for _, k := range hosts {
			h := stateHost{
				Name: k.Name, SeenAt: k.SeenAt, Title: k.Title, Group: k.Group, Owner: k.Owner, Note: k.Note,
				Address: k.Address, Datacenter: k.Datacenter, Tags: k.Tags, ExpectedGPUs: k.ExpectedGPUs,
				Check: k.Check, CheckOutput: k.CheckOutput, Maintenance: k.Maintenance, MaintenanceReason: k.MaintenanceReason,
			}
			if !k.GoneSince.IsZero() {
				h.GoneSince = &k.GoneSince
			}
			f.Sources[source] = append(f.Sources[source], h)
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(f); err != nil {
		return nil, fmt.Errorf("writing the state: %w", err)
	}
	if b.Len() > maxStateBytes {
		return nil, fmt.Errorf("writing the state: %d bytes, and %d is the most", b.Len(), maxStateBytes)
	}
	return b.Bytes(), nil
}
