// Package source reads the current board: from a published site, from the directory of a site, from
// a data directory, or from this node itself.
package source

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/data"
)

// Files of a site.
const (
	boardFile    = "api/v1/board.json"
	bookingsFile = "api/v1/bookings.json"
	hostsDir     = "api/v1/hosts"
)

// Options are what a source needs besides the place.
type Options struct {
	Config  *config.Config
	Version string
	Now     func() time.Time
}

// A Source is where a board is read from: a site by its address, a site's
// directory or file, or a data directory, whose board is then merged here.
type Source struct {
	// Name is what messages call it; never with a password.
	Name string

	site *url.URL // of the site, ending in a slash; nil for a directory
	file string   // board.json; "" for none
	data string   // data directory; "" for none
	opt  Options
	cfg  *config.Config

	client *http.Client
}

// Open finds the source: from, else that of the configuration, else what is on this machine.
func Open(o Options, from string) (*Source, error) {
	cfg := o.Config
	s := &Source{opt: o, cfg: cfg}
	from = cmp.Or(from, cfg.String("site_url"))
	site, data := cfg.String("site"), cfg.String("data")
	switch {
	case from != "":
	case config.IsFile(filepath.Join(site, boardFile)):
		from = site
	case config.IsDir(filepath.Join(data, "drop")) || cfg.Given("data") && config.IsDir(data):
		from = data
	case cfg.String("base_url") != "":
		from = cfg.String("base_url")
	default:
		return nil, failure.Usage("gpuboard status --from https://gpu.example.org/, or site_url in gpuboard.yml, or GPUBOARD_SITE_URL", "no board to read: there is neither a site nor a data directory here")
	}
	if strings.Contains(from, "://") {
		return s, s.at(from)
	}
	s.Name = from
	switch {
	case config.IsFile(filepath.Join(from, boardFile)):
		s.file = filepath.Join(from, boardFile)
	case IsData(cfg, from):
		s.data = from
	case config.IsFile(from):
		s.file = from
	case config.IsDir(from):
		return nil, failure.Usage("a site has "+boardFile+" in it, a data directory has drop/", "%s is neither a site nor a data directory", from)
	default:
		hint := ""
		if host, _, _ := strings.Cut(from, "/"); strings.Contains(host, ".") && !strings.HasPrefix(host, ".") {
			hint = "an address begins with its scheme: https://" + from
		}
		return nil, failure.Usage(hint, "there is no %s", from)
	}
	return s, nil
}

// at takes the address of a site, as people copy it from their browser.
func (s *Source) at(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return failure.Usage("write it as https://gpu.example.org/", "the address of the site cannot be read") // the error would show a password
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return failure.Usage("a site is read over https or http", "%s: %q is no scheme of a site", u.Redacted(), u.Scheme)
	case u.Host == "":
		return failure.Usage("write it as https://gpu.example.org/", "%s names no host", u.Redacted())
	}
	u.RawQuery, u.Fragment = "", ""
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, boardFile), "index.html")
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	u.RawPath = ""
	s.site, s.Name = u, u.Redacted()
	s.client = siteClient(s.cfg.Duration("site_timeout"))
	return nil
}

// Remote reports whether the source is a site that is read over HTTP.
func (s *Source) Remote() bool { return s.site != nil }

// Aliases reads which names mean the same person, as far as the source's own directory says.
func (s *Source) Aliases() (booking.Aliases, []snapshot.Problem) { return Aliases(s.cfg, s.data) }

// Read returns the board as it is now. Its age is for the caller to judge.
func (s *Source) Read(ctx context.Context) (*data.Published, error) {
	switch {
	case s.site != nil:
		body, err := s.fetch(ctx, boardFile)
		if err != nil {
			return nil, err
		}
		defer body.Close()
		p, err := data.ReadPublished(body)
		if err != nil {
			return nil, s.unreadable(boardFile, err)
		}
		return p, nil
	case s.file != "":
		f, _, err := atomicfile.Open(s.file)
		if err != nil {
			return nil, failure.New(failure.ExitTryAgain, fmt.Errorf("reading the board: %w", err), "")
		}
		defer f.Close()
		return data.ReadPublished(f)
	default:
		b, err := s.mergeData(ctx)
		if err != nil {
			return nil, err
		}
		return &data.Published{Board: b, Title: s.cfg.String("title"), Lab: s.cfg.String("lab")}, nil
	}
}

// host reads one host's own file with its bookings. It is not for data
// directories, which have none.
func (s *Source) host(ctx context.Context, name string) (*board.Host, []board.Booking, error) {
	path := hostsDir + "/" + name + ".json"
	body, err := s.open(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	defer body.Close()
	h, bookings, err := data.ReadHost(body)
	if err != nil && s.site != nil {
		err = s.unreadable(path, err)
	}
	return h, bookings, err
}

// WithBookings returns the board with the bookings that the site published, which
// tell the number that the GPU of each has now. Without them the number counts that
// was written.
func (s *Source) WithBookings(ctx context.Context) (*board.Board, error) {
	p, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	if len(p.Board.Bookings) == 0 {
		p.Board.Bookings = s.bookings(ctx)
	}
	return p.Board, nil
}

// bookings reads the bookings that a site published; nil if they cannot be read.
func (s *Source) bookings(ctx context.Context) []board.Booking {
	body, err := s.open(ctx, bookingsFile)
	if err != nil {
		return nil
	}
	defer body.Close()
	list, _ := data.ReadBookings(body)
	return list
}

// open opens a file of the site.
func (s *Source) open(ctx context.Context, path string) (io.ReadCloser, error) {
	if s.site != nil {
		return s.fetch(ctx, path)
	}
	if s.file == "" {
		return nil, fs.ErrNotExist
	}
	f, _, err := atomicfile.Open(filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(s.file))), path))
	return f, err
}

// Hosts lists the hosts that a source in a directory knows.
func (s *Source) Hosts() []string {
	dir, suffix := filepath.Join(s.data, "drop"), ""
	if s.file != "" {
		dir, suffix = filepath.Join(filepath.Dir(s.file), "hosts"), ".json"
	} else if s.data == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if name, err := snapshot.ParseHost(strings.TrimSuffix(e.Name(), suffix)); err == nil {
			names = append(names, name)
		}
	}
	return names
}
