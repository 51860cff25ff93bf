// Package legacy reads the files of the older GPU Monitor's scripts (HOST_gpus.csv and
// others) as snapshots, so that a site can migrate one host at a time. They are as
// untrusted as any other drop, and contain less: no boot id, no sequence numbers, and
// times without a zone.
package legacy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/snapshot"
)

// Limits of what is read.
const (
	MaxHosts     = 5000
	maxEntries   = 1 << 16   // of the directory
	maxFileBytes = 256 << 10 // of one file; the scripts keep 40 lines at most
	maxLines     = 4096      // of one file
	maxProblems  = 16        // of one host
)

// Properties of the scripts.
const (
	// interval is the longest time between two copied readings: 20 s for the query
	// and 10 s for the copy.
	interval = 30 * time.Second
	// together is how far apart the lines of one reading can be: a GPU whose last line is
	// older is not listed any more.
	together = 45 * time.Second
	// A process counts if its line is at most processGap older than the newest line of a
	// process, and at most processAge older than the newest line of a GPU.
	processGap = 5 * time.Second
	processAge = 90 * time.Second
	// maxZones is the largest difference between two time zones.
	maxZones = 26 * time.Hour
	// tailGPUs is how many lines of GPUs the scripts keep.
	tailGPUs = 20
)

// A Host is one host of the directory.
type Host struct {
	Name string // as snapshot.ParseHost returns it
	// Address is the full name of the host in hosts.json; "" for none.
	Address string
	// Snapshot is nil if the host has no usable files.
	Snapshot *snapshot.Snapshot
	// Problems says why there is no snapshot. Problems of a snapshot are in its Errors.
	Problems []snapshot.Problem
}

// Data is the content of a directory.
type Data struct {
	Hosts    map[string]Host
	Problems []snapshot.Problem
}

// The files of a host.
const (
	gpusFile      = "_gpus.csv"
	processesFile = "_processes.csv"
	usersFile     = "_users.csv"
	statusFile    = "_status.csv"
	cpusFile      = "_cpus.csv"
	disksFile     = "_disks.csv"
	localFile     = "_local.txt"
)

func hostFiles() []string {
	return []string{gpusFile, processesFile, usersFile, statusFile, cpusFile, disksFile, localFile}
}

// Found reports whether a directory holds files of the older scripts.
func Found(dir string) bool {
	d, err := open(dir)
	if err != nil {
		return false
	}
	defer d.root.Close()
	return slices.ContainsFunc(d.names, func(name string) bool { return strings.HasSuffix(name, gpusFile) })
}

// Hosts lists the hosts of a directory without reading their files: those that have files,
// and those in hosts.json.
func Hosts(dir string) (Data, error) {
	d, err := open(dir)
	if err != nil {
		return Data{}, err
	}
	defer d.root.Close()
	data, _ := d.hosts()
	return data, nil
}

// Read reads a directory. Times in the files are local times of the nodes, and are read in
// zone. Only a directory that cannot be listed is an error.
func Read(dir string, now time.Time, zone *time.Location) (Data, error) {
	d, err := open(dir)
	if err != nil {
		return Data{}, err
	}
	defer d.root.Close()
	data, prefixes := d.hosts()
	for name, prefix := range prefixes {
		data.Hosts[name] = d.host(data.Hosts[name], prefix, now, zone)
	}
	return data, nil
}

// host reads the files of one host.
func (d *dir) host(h Host, prefix string, now time.Time, zone *time.Location) Host {
	files := map[string][]byte{}
	var written time.Time
	var problems []snapshot.Problem
	for _, suffix := range hostFiles() {
		if _, there := slices.BinarySearch(d.names, prefix+suffix); !there {
			continue
		}
		raw, modified, err := d.read(prefix + suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems,
				snapshot.Problem{Code: "legacy:unreadable", Host: h.Name, File: prefix + suffix, Message: err.Error()})
		}
		if err != nil {
			continue
		}
		files[suffix] = raw
		if suffix == gpusFile {
			written = modified
		}
	}
	h.Snapshot, h.Problems = parse(h.Name, files, zone, now, written)
	if h.Snapshot != nil {
		h.Snapshot.Errors = append(h.Snapshot.Errors, problems...)
	} else {
		h.Problems = append(h.Problems, problems...)
	}
	return h
}

// hosts returns the hosts, and the prefixes of their files.
func (d *dir) hosts() (Data, map[string]string) {
	data := Data{Hosts: map[string]Host{}}
	prefixes := map[string]string{}
	var refused, renamed []string
	// Underscores are invalid in host names and become hyphens, unless another host has
	// that name: names without them come first.
	files := slices.DeleteFunc(slices.Clone(d.names),
		func(name string) bool { return !strings.HasSuffix(name, gpusFile) })
	slices.SortStableFunc(files,
		func(a, b string) int { return cmp.Compare(strings.Count(a, "_"), strings.Count(b, "_")) })
	for _, name := range files {
		prefix := strings.TrimSuffix(name, gpusFile)
		as := hyphened(prefix)
		host, err := snapshot.ParseHost(as)
		if _, twice := prefixes[host]; err != nil || twice || len(prefixes) == MaxHosts {
			refused = append(refused, name)
			continue
		}
		prefixes[host] = prefix
		data.Hosts[host] = Host{Name: host}
		if as != prefix {
			renamed = append(renamed, name+" as "+host)
		}
	}
	if len(refused) > 0 {
		data.Problems = append(data.Problems, snapshot.Problem{Code: "legacy:host",
			Message: fmt.Sprintf(
				"%d *%s files belong to no host: the name is invalid (letters, digits, inner hyphens and dots), repeated, or beyond the first %d hosts: %s",
				len(refused), gpusFile, MaxHosts, some(refused))})
	}
	if len(renamed) > 0 {
		data.Problems = append(data.Problems, snapshot.Problem{Code: "legacy:renamed",
			Message: "an underscore has no place in a host name, so a hyphen is shown and booked for it: " +
				some(renamed)})
	}
	raw, _, err := d.read("hosts.json")
	if errors.Is(err, fs.ErrNotExist) {
		return data, prefixes
	}
	var listed map[string]any
	if err == nil {
		err = json.Unmarshal(raw, &listed)
	}
	if err != nil {
		data.Problems = append(data.Problems,
			snapshot.Problem{Code: "legacy:unreadable", File: "hosts.json",
				Message: snapshot.Text(err.Error(), snapshot.MaxTextBytes)})
		return data, prefixes
	}
	for _, short := range slices.Sorted(maps.Keys(listed)) {
		host, err := snapshot.ParseHost(hyphened(short))
		if err != nil || len(data.Hosts) >= MaxHosts {
			continue
		}
		if strings.Contains(short, "_") && prefixes[host] != "" && prefixes[host] != short {
			continue // another host is called so
		}
		full, _ := listed[short].(string)
		data.Hosts[host] = Host{Name: host, Address: snapshot.Text(strings.TrimSpace(full), snapshot.MaxTextBytes)}
	}
	return data, prefixes
}

func hyphened(name string) string { return strings.ReplaceAll(name, "_", "-") }

// some lists the first names.
func some(names []string) string {
	const shown = 8
	list := strings.Join(names[:min(len(names), shown)], ", ")
	if len(names) > shown {
		list += fmt.Sprintf(" and %d more", len(names)-shown)
	}
	return snapshot.Text(list, snapshot.MaxTextBytes-256)
}

// parse makes a snapshot of the files of one host. written is when the file of GPUs was
// written according to the local clock, zero if unknown; it is used only to detect a wrong
// zone.
func parse(
	host string, files map[string][]byte, zone *time.Location, now, written time.Time,
) (*snapshot.Snapshot, []snapshot.Problem) {
	r := &reader{host: host, zone: zone, now: now}
	gpus, all, at := r.gpus(files[gpusFile])
	if at.IsZero() {
		r.problem("legacy:empty", gpusFile, 0, "it has no line that tells of a GPU")
		return nil, r.problems
	}
	s := &snapshot.Snapshot{
		Schema: snapshot.Schema, Host: host, BootID: "legacy", Seq: uint64(at.UnixMilli()),
		CollectedAt: snapshot.TimeOf(at),
		Collector:   "older-scripts", IntervalSeconds: int(interval / time.Second), GPUs: gpus, GPUsComplete: all,
	}
	s.Node = r.node(files)
	s.Processes = r.processes(files, s)
	r.clock(at, written)
	s.Errors = r.problems
	s.Errors = append(s.Errors, s.Validate()...)
	return s, nil
}

// clock reports times that are probably of another zone.
func (r *reader) clock(at, written time.Time) {
	ahead := at.Sub(r.now)
	quarter := ahead.Round(15 * time.Minute)
	switch {
	case ahead > time.Minute:
		r.problem("clock:zone", gpusFile, 0, "its newest line is %s in the future if its times are in %s; the node is in "+
			"another zone, or its clock is wrong (legacy_zone says which zone the nodes are in)",
			span(ahead.Round(time.Minute)), r.zone)
	case quarter != 0 && quarter > -maxZones && (ahead-quarter).Abs() < 90*time.Second && !written.IsZero() &&
		r.now.Sub(written).Abs() < 2*time.Minute:
		r.problem("clock:zone", gpusFile, 0, "it was written just now, and its newest line is almost exactly %s old if "+
			"its times are in %s: the node is in another zone (legacy_zone says which)", span(-quarter), r.zone)
	}
}

// span formats whole minutes without seconds.
func span(d time.Duration) string { return strings.TrimSuffix(d.String(), "0s") }

// reader reads the files of one host and collects problems.
type reader struct {
	host     string
	zone     *time.Location
	now      time.Time
	problems []snapshot.Problem
}

func (r *reader) problem(code, file string, line int, format string, args ...any) {
	if len(r.problems) >= maxProblems {
		return
	}
	p := snapshot.NewProblem(code, format, args...)
	p.Host, p.File = r.host, r.host+file
	if line > 0 {
		p.Line, p.Col = line, 1
	}
	r.problems = append(r.problems, p)
}

// table reads a file of nvidia-smi's CSV, whose lines have so many fields before and after a name. use takes
// the fields of a line, nil where they cannot be told apart, and reports whether they are valid. complete
// means that all lines are.
func (r *reader) table(file string, data []byte, first, last int, use func(f []string) bool) (complete bool) {
	var bad []int
	for i, line := range lines(data) {
		if strings.TrimSpace(line) != "" && !use(fields(line, first, last)) {
			bad = append(bad, i+1)
		}
	}
	r.unusable(file, bad)
	return len(bad) == 0
}

// unusable reports the invalid lines of a file in one problem.
func (r *reader) unusable(file string, lines []int) {
	if len(lines) > 0 {
		r.problem("legacy:line", file, lines[0], "%d lines could not be understood, the first of them this one",
			len(lines))
	}
}

// lines splits a file. A last line without a newline is incomplete and left out.
func lines(data []byte) []string {
	text := strings.ToValidUTF8(string(data), "\ufffd")
	list := strings.SplitN(text, "\n", maxLines+1)
	return list[:max(0, min(len(list)-1, maxLines))]
}

// local parses a local time. In the hour that is repeated when daylight saving time ends,
// the time nearest to now is used.
func (r *reader) local(layout, s string) (time.Time, bool) {
	t, err := time.ParseInLocation(layout, s, r.zone)
	if err != nil || t.Year() < 1971 || t.Year() > 2260 {
		return time.Time{}, false
	}
	wall := func(t time.Time) string { return t.In(r.zone).Format(time.DateTime) }
	same := []time.Time{t}
	for _, shift := range []time.Duration{-time.Hour, time.Hour} {
		if other := t.Add(shift); wall(other) == wall(t) {
			same = append(same, other)
		}
	}
	return slices.MinFunc(same,
		func(a, b time.Time) int { return cmp.Compare(r.now.Sub(a).Abs(), r.now.Sub(b).Abs()) }), true
}
