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
	"path/filepath"
	"strings"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/objectstore"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/data"
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

	// Cluster stands before the names of its hosts: north/ for those of another cluster, else "".
	Cluster string

	site   *url.URL            // of the site, ending in a slash; nil for one that is not read over HTTP
	bucket *objectstore.Bucket // nil for none
	file   string              // board.json; "" for none
	data   string              // data directory; "" for none
	opt    Options
	cfg    *config.Config

	client *http.Client
}

// Open finds the source: from, else that of the configuration, else what is on this machine.
func Open(o Options, from string) (*Source, error) {
	cfg := o.Config
	s := &Source{opt: o, cfg: cfg}
	from = cmp.Or(from, cfg.String("site_url"))
	site, dir := cfg.String("site"), cfg.String("data")
	switch {
	case from != "":
	case config.IsFile(filepath.Join(site, data.BoardPath)):
		from = site
	case config.IsDir(filepath.Join(dir, "drop")) || cfg.Given("data") && config.IsDir(dir):
		from = dir
	case cfg.String("base_url") != "":
		from = cfg.String("base_url")
	default:
		return nil, failure.Usage(
			"gpuboard status --from https://gpu.example.org/, or site_url in gpuboard.yml, or GPUBOARD_SITE_URL",
			"no board to read: there is neither a site nor a data directory here",
		)
	}
	if strings.Contains(from, "://") {
		return s, s.at(from)
	}
	s.Name = from
	switch {
	case config.IsFile(filepath.Join(from, data.BoardPath)):
		s.file = filepath.Join(from, data.BoardPath)
	case IsData(cfg, from):
		s.data = from
	case config.IsFile(from):
		s.file = from
	case config.IsDir(from):
		return nil, failure.Usage(
			"a site has "+data.BoardPath+" in it, a data directory has drop/",
			"%s is neither a site nor a data directory",
			from,
		)
	default:
		hint := "a board is read from the address of its site (https://…), its directory, or a data directory"
		if config.LacksScheme(from) {
			hint = "an address begins with its scheme: https://" + from
		}
		return nil, failure.Usage(hint, "there is no %s", from)
	}
	return s, nil
}

// at takes the address of a site, as people copy it from their browser.
func (s *Source) at(address string) error {
	if strings.HasPrefix(address, "s3://") {
		return s.inBucket(address)
	}
	u, err := url.Parse(address)
	if err != nil {
		return failure.Usage("write it as https://gpu.example.org/", "the address of the site cannot be read") // the error would show a password
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return failure.Usage("a site is read over https or http, or from s3://bucket/prefix",
			"%s: %q is no scheme of a site", u.Redacted(), u.Scheme)
	case u.Host == "":
		return failure.Usage("write it as https://gpu.example.org/", "%s names no host", u.Redacted())
	}
	u.RawQuery, u.Fragment = "", ""
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, data.BoardPath), "index.html")
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	u.RawPath = ""
	s.site, s.Name = u, u.Redacted()
	s.client = siteClient(s.cfg.Duration("site_timeout"))
	return nil
}

// Remote reports whether the source is a site that is read over a network.
func (s *Source) Remote() bool { return s.site != nil || s.bucket != nil }

// Aliases reads which names mean the same person, as far as the source's own directory says.
func (s *Source) Aliases() (booking.Aliases, []snapshot.Problem) { return Aliases(s.cfg, s.data) }

// Read returns the board as it is now. Its age is for the caller to judge.
func (s *Source) Read(ctx context.Context) (*data.Published, error) {
	if s.data != "" {
		b, err := s.mergeData(ctx)
		if err != nil {
			return nil, err
		}
		return &data.Published{Board: b, Title: s.cfg.String("title"), Lab: s.cfg.String("lab")}, nil
	}
	return readFile(ctx, s, data.BoardPath, data.ReadPublished)
}

// Usage reads who used how much in one of the windows that a site publishes, by host or by person and team. The error
// is fs.ErrNotExist where there is no site, or none with a history.
func (s *Source) Usage(ctx context.Context, window string, byHost bool) (*data.Usage, error) {
	path := data.UsersPastPath
	if byHost {
		path = data.HostsPastPath
	}
	return readFile(ctx, s, path, func(r io.Reader) (*data.Usage, error) { return data.ReadUsage(r, window) })
}

// host reads one host's own file with its bookings. It is not for data
// directories, which have none.
func (s *Source) host(ctx context.Context, name string) (h *board.Host, bookings []board.Booking, err error) {
	h, err = readFile(ctx, s, data.HostsDir+name+".json", func(r io.Reader) (h *board.Host, err error) {
		h, bookings, err = data.ReadHost(r)
		return h, err
	})
	return h, bookings, err
}

// WithBookings returns the board with the bookings that the site published, which
// tell the number that the GPU of each has now. Without them the number counts that
// was written.
func (s *Source) WithBookings(ctx context.Context) (*data.Published, error) {
	p, err := s.Read(ctx)
	if err == nil && len(p.Board.Bookings) == 0 {
		p.Board.Bookings = s.bookings(ctx)
	}
	return p, err
}

// bookings reads the bookings that a site published; nil if they cannot be read.
func (s *Source) bookings(ctx context.Context) []board.Booking {
	list, _ := readFile(ctx, s, data.BookingsPath, data.ReadBookings)
	return list
}

// readFile reads a file of the site.
func readFile[T any](ctx context.Context, s *Source, path string, read func(io.Reader) (T, error)) (v T, err error) {
	file, err := s.open(ctx, path)
	if err != nil {
		return v, err
	}
	defer file.Close()
	if v, err = read(file); err != nil && s.Remote() {
		err = s.unreadable(path, err)
	}
	return v, err
}

// open opens a file of the site.
func (s *Source) open(ctx context.Context, path string) (io.ReadCloser, error) {
	switch {
	case s.site != nil:
		return s.fetch(ctx, path)
	case s.bucket != nil:
		return s.get(ctx, path)
	}
	if s.file == "" {
		return nil, fs.ErrNotExist
	}
	at := s.file // whatever its name is
	if path != data.BoardPath {
		at = filepath.Join(filepath.Dir(s.file), "..", "..", path)
	}
	f, _, err := atomicfile.Open(at)
	if err != nil {
		return nil, failure.New(failure.ExitTryAgain, fmt.Errorf("reading the board: %w", err), "")
	}
	return f, nil
}
