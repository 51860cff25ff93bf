package source

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/data"
)

// When the summary of another board is read again.
const (
	siteSoonest = 5 * time.Second  // after the last attempt
	siteRetry   = 30 * time.Second // after one that failed
	siteLatest  = 5 * time.Minute  // after the last good one
	siteSlack   = time.Second      // after the moment at which a board says that its next generation is complete
)

// Sites reads the summaries of other boards. A generation does not wait for them, unless it is the only one of its
// process: what is read beside it is for the next one.
type Sites struct {
	once  bool
	sites []*site
}

type site struct {
	source *Source

	mu    sync.Mutex
	known board.Site
	tried time.Time // zero for not yet
	busy  bool
}

// NewSites returns a reader of these boards.
func NewSites(o Options, sites []config.Site) (*Sites, error) {
	s := &Sites{once: o.Config.Once}
	for _, c := range sites {
		from := &Source{opt: o, cfg: o.Config, Name: c.Place}
		known := board.Site{Name: c.Name}
		if strings.Contains(c.Place, "://") {
			if err := from.at(c.Place); err != nil {
				return nil, err
			}
			if from.site != nil {
				known.URL = (&url.URL{Scheme: from.site.Scheme, Host: from.site.Host, Path: from.site.Path}).String()
			}
		} else {
			from.file = filepath.Join(c.Place, data.BoardPath)
		}
		known.Place = from.Name
		s.sites = append(s.sites, &site{source: from, known: known})
	}
	return s, nil
}

// Read returns what is known of each board now. last is what an earlier process knew.
func (s *Sites) Read(ctx context.Context, now time.Time, last []board.Site) []board.Site {
	var reading sync.WaitGroup
	for _, one := range s.sites {
		if one.begin(now, last) {
			reading.Go(func() { one.read(context.WithoutCancel(ctx), now) })
		}
	}
	if s.once {
		reading.Wait()
	}
	list := make([]board.Site, len(s.sites))
	for i, one := range s.sites {
		one.mu.Lock()
		list[i] = one.known
		one.mu.Unlock()
	}
	return list
}

// begin reports whether the board is to be read now, which then has begun.
func (s *site) begin(now time.Time, last []board.Site) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tried.IsZero() && s.known.Summary == nil {
		for _, old := range last {
			if old.Name == s.known.Name && old.Place == s.known.Place {
				s.known = old
			}
		}
	}
	if s.busy || now.Before(s.due(now)) {
		return false
	}
	s.busy, s.tried = true, now
	return true
}

// due is from when on the board is to be read again. A clock that was set back is no reason to wait.
func (s *site) due(now time.Time) (at time.Time) {
	if s.known.Summary != nil && !s.known.ReadAt.After(now) {
		at = s.known.Summary.Due.Add(siteSlack)
		if latest := s.known.ReadAt.Add(siteLatest); latest.Before(at) {
			at = latest
		}
	}
	wait := siteSoonest
	if s.known.Fault != "" {
		wait = siteRetry
	}
	if again := s.tried.Add(wait); !s.tried.IsZero() && !s.tried.After(now) && at.Before(again) {
		at = again
	}
	return at
}

// read reads the summary. The client of its source bounds the time that this takes.
func (s *site) read(ctx context.Context, now time.Time) {
	summary, err := readFile(ctx, s.source, data.SummaryPath, data.ReadSummary)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	if err != nil {
		fault := err.Error()
		if hint := failure.Explain(err).Hint; hint != "" {
			fault += "; " + hint
		}
		s.known.Fault = snapshot.Text(fault, snapshot.MaxTextBytes)
		return
	}
	s.known.Summary, s.known.ReadAt, s.known.Fault = summary, now, ""
	if s.source.site == nil {
		s.known.URL = summary.URL
	}
}
