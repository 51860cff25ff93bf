package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/sitegen"
	"gpuboard/sitegen/data"
)

// Files of a site that commands for people read.
const (
	boardFile    = "api/v1/board.json"
	bookingsFile = "api/v1/bookings.json"
	hostsDir     = "api/v1/hosts"
)

// sourceKeys are the settings of everything that reads a board.
func sourceKeys() []string {
	return []string{"data", "site", "comments", "aliases", "timezone", "site_timeout",
		"stale_after", "down_after", "clock_tolerance", "free_memory_mib", "free_memory_percent", "no_show_after"}
}

// A source is where a board is read from: a site by its address, a site's
// directory or file, or a data directory, whose board is then merged here.
type source struct {
	name string   // as messages call it; never with a password
	site *url.URL // of the site, ending in a slash; nil for a directory
	file string   // board.json; "" for none
	data string   // data directory; "" for none
	a    *app
	cfg  *config.Config

	client *http.Client
	// What the site said last, for asking only whether it is still so.
	etag string
	last *data.Published
}

// source finds out where to read: from what was given with --from, else from
// the configuration, else from what lies here.
func (a *app) source(cfg *config.Config, from string) (*source, error) {
	s := &source{a: a, cfg: cfg}
	if from == "" {
		from = cfg.String("site_url")
	}
	site, data := cfg.String("site"), cfg.String("data")
	switch {
	case from != "":
	case isFile(filepath.Join(site, boardFile)):
		from = site
	case isDir(filepath.Join(data, "drop")) || cfg.Given("data") && isDir(data):
		from = data
	case cfg.String("base_url") != "":
		from = cfg.String("base_url")
	default:
		return nil, failure.Usage("gpuboard status --from https://gpu.example.org/, or site_url in gpuboard.yml, or GPUBOARD_SITE_URL", "no board to read: there is neither a site nor a data directory here")
	}
	if strings.Contains(from, "://") {
		return s, s.at(from)
	}
	s.name = from
	switch {
	case isFile(filepath.Join(from, boardFile)):
		s.file = filepath.Join(from, boardFile)
	case isDir(filepath.Join(from, "drop")), isFile(filepath.Join(from, "comments.json")):
		s.data = from
	case isFile(from):
		s.file = from
	case isDir(from):
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
func (s *source) at(address string) error {
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
	s.site, s.name = u, u.Redacted()
	s.client = siteClient(s.cfg.Duration("site_timeout"))
	return nil
}

// siteClient asks web servers that may be slow, wrong or hostile. The timeout
// takes in everything, the last byte of the answer too.
func siteClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableKeepAlives: false, MaxResponseHeaderBytes: 64 << 10,
			DialContext: (&net.Dialer{Timeout: timeout}).DialContext, TLSHandshakeTimeout: timeout, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(to *http.Request, via []*http.Request) error {
			switch {
			case len(via) >= 5:
				return errors.New("it redirects in circles")
			case via[0].URL.Scheme == "https" && to.URL.Scheme != "https":
				return errors.New("it redirects to a place without encryption")
			}
			return nil
		},
	}
}

// read returns the board as it is now. Its age is for the caller to judge.
func (s *source) read(ctx context.Context) (*data.Published, error) {
	switch {
	case s.site != nil:
		return s.fetchBoard(ctx)
	case s.file != "":
		f, _, err := atomicfile.Open(s.file)
		if err != nil {
			return nil, failure.New(failure.ExitTryAgain, fmt.Errorf("reading the board: %w", err), "")
		}
		defer f.Close()
		return data.ReadPublished(f)
	default:
		b, err := s.a.mergeData(ctx, s.cfg, s.data)
		if err != nil {
			return nil, err
		}
		return &data.Published{Board: b, Title: s.cfg.String("title"), Lab: s.cfg.String("lab")}, nil
	}
}

func (s *source) fetchBoard(ctx context.Context) (*data.Published, error) {
	body, etag, err := s.fetch(ctx, boardFile, s.etag)
	if err != nil {
		return nil, err
	}
	if body == nil {
		return s.last, nil // still the same
	}
	defer body.Close()
	p, err := data.ReadPublished(body)
	if err != nil {
		return nil, s.unreadable(boardFile, err)
	}
	s.etag, s.last = etag, p
	return p, nil
}

// host reads one host's own file with its bookings. It is not for data
// directories, which have none.
func (s *source) host(ctx context.Context, name string) (*board.Host, []board.Booking, error) {
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

// withBookings returns the board with the bookings that the site published, which
// tell the number that the GPU of each has now. Without them the number counts that
// was written.
func (s *source) withBookings(ctx context.Context) (*board.Board, error) {
	p, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	if len(p.Board.Bookings) == 0 {
		p.Board.Bookings = s.bookings(ctx)
	}
	return p.Board, nil
}

// bookings reads the bookings that a site published; nil if they cannot be read.
func (s *source) bookings(ctx context.Context) []board.Booking {
	body, err := s.open(ctx, bookingsFile)
	if err != nil {
		return nil
	}
	defer body.Close()
	list, _ := data.ReadBookings(body)
	return list
}

// open opens a file of the site.
func (s *source) open(ctx context.Context, path string) (io.ReadCloser, error) {
	if s.site != nil {
		body, _, err := s.fetch(ctx, path, "")
		return body, err
	}
	if s.file == "" {
		return nil, fs.ErrNotExist
	}
	f, _, err := atomicfile.Open(filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(s.file))), path))
	return f, err
}

// fetch gets a file of the site; nil for one that still has this tag. The body
// is bounded by its reader, compressed or not.
func (s *source) fetch(ctx context.Context, path, etag string) (body io.ReadCloser, newTag string, err error) {
	at := s.site.JoinPath(path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, "", fmt.Errorf("asking %s: %w", at.Redacted(), err)
	}
	req.Header.Set("User-Agent", "gpuboard/"+version())
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		return nil, "", failure.New(failure.ExitTryAgain, s.asking(at, err), "")
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, resp.Header.Get("ETag"), nil
	}
	resp.Body.Close()
	answer := fmt.Errorf("asking %s: it answers %d %s", at.Redacted(), resp.StatusCode, http.StatusText(resp.StatusCode))
	switch code := resp.StatusCode; {
	case code == http.StatusNotModified && etag != "":
		return nil, etag, nil
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return nil, "", failure.New(failure.ExitUsage, answer, "where it wants a password: https://USER:PASSWORD@"+s.site.Host+s.site.Path+" as site_url, in a file that only you can read")
	case code == http.StatusNotFound || code == http.StatusGone:
		return nil, "", failure.New(failure.ExitUsage, notThere{answer}, "give the address of the site's front page")
	case code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout:
		return nil, "", failure.New(failure.ExitTryAgain, answer, "")
	default:
		return nil, "", failure.New(failure.ExitError, answer, "")
	}
}

// notThere is an answer that means the same as a missing file.
type notThere struct{ error }

func (notThere) Is(target error) bool { return target == fs.ErrNotExist }

// asking makes an error of a failed request without what the library puts in
// front, which repeats the address.
func (s *source) asking(at *url.URL, err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		if wrapped.Timeout() {
			return fmt.Errorf("asking %s: no answer within %s", at.Redacted(), s.cfg.Duration("site_timeout"))
		}
		err = wrapped.Err
	}
	return fmt.Errorf("asking %s: %w", at.Redacted(), err)
}

func (s *source) unreadable(path string, err error) error {
	at := s.site.JoinPath(path)
	var timeout net.Error
	switch {
	case errors.Is(err, data.ErrSchema):
		return failure.New(failure.ExitUsage, fmt.Errorf("asking %s: %w", at.Redacted(), err), "")
	case errors.Is(err, data.ErrNotBoard):
		return failure.New(failure.ExitError, fmt.Errorf("asking %s: %w", at.Redacted(), err), "is there a login in front of it? Open that address in a browser")
	case errors.As(err, &timeout) && timeout.Timeout():
		return failure.New(failure.ExitTryAgain, fmt.Errorf("asking %s: no whole answer within %s", at.Redacted(), s.cfg.Duration("site_timeout")), "")
	}
	return failure.New(failure.ExitTryAgain, fmt.Errorf("asking %s: %w", at.Redacted(), err), "")
}

// names lists the hosts that a source in a directory knows, for completion.
func (s *source) names() []string {
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

// completeHosts completes names of hosts from a directory; a site elsewhere is
// not asked while somebody types.
func (a *app) completeHosts(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	cfg, err := a.load(c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	from := ""
	if f := c.Flags().Lookup("from"); f != nil {
		from = f.Value.String()
	}
	s, err := a.source(cfg, from)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := slices.DeleteFunc(s.names(), func(name string) bool { return slices.Contains(args, name) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

// mergeData makes a board of a data directory as generate would, as far as that
// is possible without what the generator remembers: no history, no Consul.
func (a *app) mergeData(ctx context.Context, cfg *config.Config, dir string) (*board.Board, error) {
	listed, _ := inventory.List(cfg.Hosts)
	resolver := inventory.Resolver{List: listed, Drops: func(context.Context) (inventory.Answer, error) { return sitegen.DropHosts(dir, cfg.String("legacy")) }}
	now := a.now().UTC()
	hosts := resolver.Resolve(ctx, now)
	aliases, problems := a.aliases(cfg, dir)
	in := board.Input{
		Now: now, Interval: cfg.Duration("interval"), Hosts: hosts.Hosts, Reports: map[string]board.Report{},
		Person: aliases.Canonical, Settings: cfg.Board(), Problems: append(hosts.Problems, problems...),
	}
	comments := cfg.String("comments")
	if comments == "" {
		comments = filepath.Join(dir, "comments.json")
	}
	in.Calendar = booking.Open(comments, cfg.BookingZone(true).Location).Load(booking.Options{Aliases: aliases, Now: now})
	drops, err := spool.OpenDrops(dir)
	if err != nil {
		return nil, failure.New(failure.ExitError, fmt.Errorf("opening the drops: %w", err), "")
	}
	defer drops.Close()
	older := olderSnapshots(cfg, dir, now)
	for _, h := range hosts.Hosts {
		var r board.Report
		bundle, _, err := drops.Latest(h.Name)
		switch {
		case err == nil:
			r.Snapshot = bundle.Snapshot
		case errors.Is(err, fs.ErrNotExist) && older[h.Name].Snapshot != nil:
			r.Snapshot = older[h.Name].Snapshot
		case !errors.Is(err, fs.ErrNotExist):
			r.Problems = []snapshot.Problem{{Code: codeOf(err, "bad:unreadable"), Message: err.Error()}}
		}
		in.Reports[h.Name] = r
	}
	b, _ := board.Merge(in)
	return b, nil
}

func codeOf(err error, otherwise string) string {
	if c := snapshot.CodeOf(err); c != "" {
		return c
	}
	return otherwise
}

// aliases reads which names mean the same person: from the file of the
// configuration, or the one in a data directory.
func (a *app) aliases(cfg *config.Config, data string) (booking.Aliases, []snapshot.Problem) {
	path := cfg.String("aliases")
	if path == "" {
		if data == "" {
			return nil, nil
		}
		path = filepath.Join(data, "aliases.csv")
	}
	f, _, err := atomicfile.Open(path)
	if errors.Is(err, fs.ErrNotExist) && cfg.String("aliases") == "" {
		return nil, nil
	}
	var content []byte
	if err == nil {
		defer f.Close()
		content, err = io.ReadAll(io.LimitReader(f, booking.MaxAliasBytes+1))
	}
	if err != nil {
		return nil, []snapshot.Problem{{Code: "aliases:unreadable", File: "aliases.csv", Message: err.Error()}}
	}
	return booking.ParseAliases(content)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
