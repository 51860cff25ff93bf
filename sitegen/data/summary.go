package data

import (
	"bytes"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// What a board says of itself to boards that show several.
const (
	SummaryPath     = "api/v1/summary.json"
	SitesPath       = "api/v1/sites.json"
	MaxSummaryBytes = 64 << 10

	// maxModels is how many models a sum names, so that it stays below MaxSummaryBytes whatever nodes call their GPUs.
	maxModels = 20
	// maxUnits is more than any board has of anything.
	maxUnits = 10_000_000
)

func summaryFile(in render.Input) []byte {
	b := in.Board
	others := b.Others()
	var sites any
	if len(b.Sites) > 0 {
		sites = append(object{{"ids", safes(others.IDs)}, {"depth", others.Depth}}, sumsOf(&others.Sums)...)
	}
	head := object{
		{"id", b.ID}, {"title", safe(snapshot.Text(in.Site.Title, snapshot.MaxNameBytes))}, {"url", in.Site.BaseURL},
		{"booking_ssh", in.Site.BookSSH},
	}
	own := board.Sums{Totals: b.Totals, Models: b.Models, Problems: len(b.Problems)}
	return encodeFile(headerOf(in), head, sumsOf(&own), object{{"sites", sites}})
}

func sumsOf(s *board.Sums) object {
	models := slices.Clone(s.Models[:min(len(s.Models), maxModels)])
	for i := range models {
		if strings.HasSuffix(models[i].FullName, models[i].Name) {
			models[i].FullName = "" // as what it is read
		}
	}
	return object{{"totals", totalsOf(&s.Totals)}, {"models", models}, {"problem_count", s.Problems}}
}

// siteFiles is sites.json: the boards that this one reads.
func siteFiles(in render.Input) []render.File {
	if len(in.Board.Sites) == 0 {
		return nil
	}
	list := docsOf(in.Board.Sites, func(s *board.Site) object {
		said, sums, summary := s.Said(), s.Sums(), board.Summary{}
		if s.Summary != nil {
			summary = *s.Summary
		}
		return append(object{
			{"name", s.Name}, {"title", summary.Title}, {"url", s.URL}, {"state", string(s.State)},
			{"generated_at", summary.GeneratedAt}, {"late_at", summary.LateAt}, {"read_at", s.ReadAt},
			{"other_boards", len(summary.Others.IDs)},
			{"last_free", said.Totals.GPUs.Free()}, {"last_free_slices", said.Totals.Slices.Free()},
		}, sumsOf(&sums)...)
	})
	return []render.File{render.NewFile(SitesPath, encodeFile(headerOf(in), object{{"sites", list}}))}
}

// ReadSites reads api/v1/sites.json. A site that says what cannot be true is as one that never answered.
func ReadSites(r io.Reader) (sites []board.Site, err error) {
	var doc struct {
		header
		Sites []struct {
			readSums
			Name        safe      `json:"name"`
			Title       string    `json:"title"`
			URL         string    `json:"url"`
			State       string    `json:"state"`
			GeneratedAt time.Time `json:"generated_at"`
		} `json:"sites"`
	}
	if err := readJSON(r, &doc, &doc.SchemaVersion); err != nil {
		return nil, fmt.Errorf("reading the sites: %w", err)
	}
	for i := range doc.Sites[:min(len(doc.Sites), board.MaxSites)] {
		d := &doc.Sites[i]
		name, err := snapshot.ParseHost(string(d.Name))
		if err != nil {
			continue
		}
		s := board.Site{Name: name, URL: webAddress(d.URL), State: board.Never}
		if sums, err := d.sums(); err == nil && !readable(d.GeneratedAt).IsZero() {
			s.Summary = &board.Summary{Title: readName(d.Title), GeneratedAt: readable(d.GeneratedAt), Own: sums}
			if s.State = board.Stale; d.State == string(board.Up) {
				s.State = board.Up
			}
		}
		sites = append(sites, s)
	}
	return sites, nil
}

// sshHost is what a board may call a host that ssh is to go to.
var sshHost = snapshot.Pattern(`^([0-9A-Za-z_][0-9A-Za-z._-]*@)?[0-9A-Za-z][0-9A-Za-z._-]*$`)

type readSums struct {
	Totals struct {
		GPUs           int                     `json:"gpus"`
		HeldIdle       int                     `json:"held_idle"`
		ByState        map[board.State]int     `json:"by_state"`
		Slices         int                     `json:"slices"`
		HeldIdleSlices int                     `json:"held_idle_slices"`
		SlicesByState  map[board.State]int     `json:"slices_by_state"`
		Hosts          int                     `json:"hosts"`
		ByHost         map[board.HostState]int `json:"by_host_state"`
	} `json:"totals"`
	Models   []board.Model `json:"models"`
	Problems int           `json:"problem_count"`
}

// ReadSummary reads summary.json of another board. Numbers that cannot be true make all of it unreadable: whoever says
// such a thing is believed nothing else.
func ReadSummary(r io.Reader) (*board.Summary, error) {
	var doc struct {
		header
		readSums
		ID      string `json:"id"`
		Title   string `json:"title"`
		URL     string `json:"url"`
		BookSSH string `json:"booking_ssh"`
		Sites   *struct {
			readSums
			IDs   []string `json:"ids"`
			Depth int      `json:"depth"`
		} `json:"sites"`
	}
	content, err := io.ReadAll(io.LimitReader(r, MaxSummaryBytes+1))
	if err == nil && len(content) > MaxSummaryBytes {
		err = fmt.Errorf("%w: it is larger than %d KiB", ErrNotBoard, MaxSummaryBytes>>10)
	}
	if err == nil {
		err = readJSON(bytes.NewReader(content), &doc, &doc.SchemaVersion)
	}
	if err == nil && readable(doc.GeneratedAt).IsZero() {
		err = fmt.Errorf("%w: it does not say when it was made", ErrNotBoard)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the summary: %w", err)
	}
	times := board.Board{GeneratedAt: doc.GeneratedAt.UTC()}
	times.SetTimes(doc.NextExpectedAt, doc.LateAt)
	s := &board.Summary{
		ID: readHex(doc.ID), Title: readName(doc.Title), URL: webAddress(doc.URL),
		GeneratedAt: times.GeneratedAt, Due: times.Due(), LateAt: times.LateAt(),
	}
	if len(doc.BookSSH) <= snapshot.MaxNameBytes && sshHost().MatchString(doc.BookSSH) {
		s.BookSSH = doc.BookSSH
	}
	if s.Own, err = doc.sums(); err != nil {
		return nil, err
	}
	if more := doc.Sites; more != nil && more.Depth > 0 && len(more.IDs) > 0 && len(more.IDs) <= board.MaxBoards {
		if s.Others.Sums, err = more.sums(); err != nil {
			return nil, err
		}
		s.Others.Depth = more.Depth
		for _, id := range more.IDs {
			s.Others.IDs = append(s.Others.IDs, readHex(id))
		}
	}
	return s, nil
}

func (r *readSums) sums() (sums board.Sums, err error) {
	check := func(what string, n, most int) {
		if err == nil && (n < 0 || n > most) {
			err = fmt.Errorf("reading the summary: %w: it has %d %s", ErrNotBoard, n, what)
		}
	}
	t, out := &r.Totals, &sums.Totals
	out.Hosts, sums.Problems = t.Hosts, r.Problems
	check("hosts", t.Hosts, maxUnits)
	check("problems", r.Problems, maxUnits)
	count := func(what string, all, idle int, states map[board.State]int) board.Count {
		c, left := board.Count{All: all, HeldIdle: idle, ByState: map[board.State]int{}}, all
		check(what, all, maxUnits)
		check("idle "+what, idle, all)
		for _, state := range board.States() {
			check(what+" that are "+string(state), states[state], left)
			c.ByState[state] = states[state]
			left -= states[state]
		}
		return c
	}
	out.GPUs = count("GPUs", t.GPUs, t.HeldIdle, t.ByState)
	out.Slices = count("slices", t.Slices, t.HeldIdleSlices, t.SlicesByState)
	out.ByHost = map[board.HostState]int{}
	for _, state := range board.HostStates() {
		check("hosts that are "+string(state), t.ByHost[state], t.Hosts)
		out.ByHost[state] = t.ByHost[state]
	}
	for _, m := range r.Models[:min(len(r.Models), maxModels)] {
		check("GPUs of a model", m.Total, maxUnits)
		check("free GPUs of a model", m.Free, m.Total)
		m.Name, m.FullName = readName(m.Name), readName(m.FullName)
		if m.MemoryTotal != nil && (*m.MemoryTotal < 0 || *m.MemoryTotal > maxUnits*1024) {
			m.MemoryTotal = nil
		}
		if m.Next != nil {
			check("GPUs of a model that come free", m.Next.Count, m.Total)
			m.Next = &board.Next{At: readable(m.Next.At), Count: m.Next.Count}
			if m.Next.At.IsZero() || m.Next.Count == 0 {
				m.Next = nil
			}
		}
		sums.Models = append(sums.Models, m)
	}
	return sums, err
}

// webAddress is an address that a page may link to; "" where it is none. It has no password.
func webAddress(address string) string {
	u, err := url.Parse(readText(address))
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
