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
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spelling"
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
	config.Site

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
			known.URL = (&url.URL{Scheme: from.site.Scheme, Host: from.site.Host, Path: from.site.Path}).String()
		} else {
			from.file = filepath.Join(c.Place, data.BoardPath)
		}
		known.Place = from.Name
		s.sites = append(s.sites, &site{source: from, Site: c, known: known})
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

// Others returns the boards of other clusters that a site shows; nil where it shows none, or they cannot be read.
func (s *Source) Others(ctx context.Context) []board.Site {
	list, _ := readFile(ctx, s, data.SitesPath, data.ReadSites)
	return list
}

// OpenCluster is [Open] for hosts of which some may be of another cluster, as NAME/gpu01; NAME/ is all of it. It
// returns what they are called there. The cluster is one of sites, or one that the site here shows.
func OpenCluster(ctx context.Context, o Options, from string, hosts []string) (s *Source, there []string, err error) {
	name, found := "", false
	for i, host := range hosts {
		cluster, rest, elsewhere := cutCluster(host)
		if i > 0 && (elsewhere != found || cluster != name && elsewhere) {
			return nil, nil, failure.Usage("type a command for each", "%s and %s are of different clusters", hosts[0], host)
		}
		if found = elsewhere; found {
			name = cluster
		}
		if elsewhere && rest != "" {
			there = append(there, rest)
		}
	}
	if !found {
		s, err = Open(o, from)
		return s, hosts, err
	}
	place, err := placeOf(ctx, o, from, name)
	if err == nil {
		s, err = Open(o, place)
	}
	return s, there, err
}

// cutCluster splits NAME/gpu01:0. What only looks like a path is of no cluster.
func cutCluster(host string) (name, there string, elsewhere bool) {
	name, there, elsewhere = strings.Cut(host, "/")
	if elsewhere {
		_, err := snapshot.ParseHost(name)
		elsewhere = err == nil
	}
	return name, there, elsewhere
}

// placeOf is where the site of another cluster is.
func placeOf(ctx context.Context, o Options, from, name string) (string, error) {
	var known []string
	for _, c := range o.Config.Sites() {
		if known = append(known, c.Name); c.Name == name {
			return c.Place, nil
		}
	}
	if s, err := Open(o, from); err == nil {
		for _, c := range s.Others(ctx) {
			if known = append(known, c.Name); c.Name == name && c.URL != "" {
				return c.URL, nil
			}
		}
	}
	return "", failure.Usage("sites: in gpuboard.yml names clusters", "there is no cluster %s%s", name, spelling.DidYouMean(name, known))
}

// RefuseCluster refuses to change the bookings of another cluster from here, and says where that is done.
func RefuseCluster(ctx context.Context, o Options, hosts []string) error {
	for _, host := range hosts {
		name, there, elsewhere := cutCluster(host)
		if !elsewhere {
			continue
		}
		place, err := placeOf(ctx, o, "", name)
		if err != nil {
			return err
		}
		s, err := Open(o, place)
		if err != nil {
			return err
		}
		hint := "on its web host: gpuboard book " + shell.Quote(there)
		if s.Remote() {
			hint = "its form: " + s.site.JoinPath("book/index.html").Redacted() + ", or " + hint
		}
		return failure.Usage(hint, "%s is another cluster, which has its own bookings", name)
	}
	return nil
}
