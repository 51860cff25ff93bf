// Package render holds what pages, data files and texts share: the input of one
// generation, the files that are made of it, and the rules that all of them follow.
package render

import (
	"cmp"
	"context"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"gpuboard/internal/board"
	"gpuboard/internal/events"
	"gpuboard/internal/snapshot"
)

// An Input is everything that one generation shows.
type Input struct {
	Board *board.Board
	Site  Site
	// Generation is the board's [Generation], "" to make it.
	Generation string
	// Notice is the Markdown of notice.md, "" for none.
	Notice string
	// HostNotes is the Markdown of hosts/<h>.md by host name.
	HostNotes map[string]string
	// Rendered is the HTML of notices and notes that is known already, by their Markdown.
	Rendered map[string]string
	// FreeMean2h, FreeMean24h and FreeMean1w are the mean numbers of GPUs that
	// nobody used, as history knows them; nil where it does not.
	FreeMean2h, FreeMean24h, FreeMean1w *float64
	// History is the past in charts and sums; nil when none is kept.
	History *History
	// Events are what happened lately, newest last.
	Events []events.Event
	// Samples are what each host has sent of the last quarter of an hour, by name.
	Samples map[string][]snapshot.Sample
	// Help puts the documentation into the site, below help/.
	Help bool
	// Emit takes each file as soon as it is rendered, so that a site need not be in
	// memory; several goroutines call it at a time, and its error ends the rendering.
	// Nil drops all files.
	Emit func(File) error
}

// Site is what the configuration says about the site itself.
type Site struct {
	Title string // of every page, default "GPU board"
	Lab   string // beside it, "" for none
	// Languages are the codes of those that the site is written in, default English.
	// The pages in the first begin at the site's root, those in another in a
	// directory called after it.
	Languages []string
	Zone      *time.Location
	Version   string // of the generator
	BaseURL   string // where the site is published, "" when not said; only feeds need it
	BookSSH   string // on which host book runs by ssh, "" where that is not said
	Interval  time.Duration
	// CommentsPath is where people edit the bookings, as they would type it.
	CommentsPath string
	// BookCommand is how they book on the command line, "" for plain gpuboard.
	BookCommand string
	// Energy says what a kilowatt-hour costs.
	Energy Energy
	// Compat names the systems whose files are written as well: vesta, nvgpu,
	// gpu-cluster-monitor, or all.
	Compat []string
}

// Replaces reports whether the files of a system are written as well.
func (s *Site) Replaces(system string) bool {
	return slices.Contains(s.Compat, system) || slices.Contains(s.Compat, "all")
}

// WithDefaults fills what the configuration left out.
func (s Site) WithDefaults() Site {
	if len(s.Languages) == 0 {
		s.Languages = []string{"en"}
	}
	s.Title = cmp.Or(s.Title, "GPU board")
	s.Zone = cmp.Or(s.Zone, time.UTC)
	s.BookCommand = cmp.Or(s.BookCommand, "gpuboard")
	s.CommentsPath = cmp.Or(s.CommentsPath, "comments.json")
	return s
}

// A File is one file of the site.
type File struct {
	Path    string // slash-separated, relative to the site
	Content []byte
	// Kept means that the file stays in the site as it is.
	Kept bool
}

// NewFile is a file with this content.
func NewFile(path string, content []byte) File { return File{Path: path, Content: content} }

// Rank orders the files of a generation: assets, then what programs read, then
// pages, and last the page that links to everything.
func Rank(name string) int {
	name = strings.TrimSuffix(name, ".gz")
	switch {
	case strings.HasPrefix(name, "assets/"):
		return 0
	case name == "index.html":
		return 3
	case strings.HasSuffix(name, ".html"):
		return 2
	default:
		return 1
	}
}

// contentTypes are the types of files by the end of their name.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".json": "application/json",
	".txt":  "text/plain; charset=utf-8",
	".ansi": "text/plain; charset=utf-8",
	".svg":  "image/svg+xml",
	".ics":  "text/calendar; charset=utf-8",
	".atom": "application/atom+xml; charset=utf-8",
	".csv":  "text/csv; charset=utf-8",
	".png":  "image/png",
}

// ContentType is the media type of a file of a site, "" for a file that no site has.
func ContentType(name string) string {
	if path.Base(name) == "metrics.txt" {
		return "text/plain; version=0.0.4; charset=utf-8" // what a Prometheus expects to be told
	}
	return contentTypes[path.Ext(name)]
}

// Put hands files on. It may be called by several goroutines.
func (in *Input) Put(files ...File) error {
	if in.Emit == nil {
		return nil
	}
	for _, f := range files {
		if err := in.Emit(f); err != nil {
			return err
		}
	}
	return nil
}

// InParallel calls do for every number below n, as many at a time as there are
// processors. After an error it calls no more, and returns the first.
func InParallel(n int, do func(i int) error) error {
	workers, failed := errgroup.WithContext(context.Background())
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		if failed.Err() != nil {
			break
		}
		workers.Go(func() error { return do(i) })
	}
	return workers.Wait()
}
