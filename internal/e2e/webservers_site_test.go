package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	boards "gpuboard/internal/board"
	"gpuboard/internal/demo"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/webtest"
	"gpuboard/publisher"
	"gpuboard/publisher/site"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
)

// webStart is the moment at which the served demonstration begins.
var webStart = time.Date(2026, 11, 20, 10, 42, 0, 0, time.UTC)

// A webSite is the demonstration's fleet, generated into a directory that every
// web server may read.
type webSite struct {
	t     testing.TB
	dir   string // of the site
	data  string
	fleet *demo.Fleet
	gen   *sitegen.Generator
}

func newWebSite(t testing.TB, change ...func(*sitegen.Options)) *webSite {
	t.Helper()
	root := webtest.Dir(t)
	s := &webSite{t: t, dir: filepath.Join(root, "site"), data: filepath.Join(root, "data"),
		fleet: demo.New(1, webStart)}
	var hosts []inventory.Host
	for _, h := range s.fleet.Hosts() {
		hosts = append(hosts, inventory.Host{Name: h.Name, Group: h.Group})
	}
	s.write(filepath.Join(s.data, "comments.json"), s.fleet.Files(webStart)["comments.json"])
	o := sitegen.Options{
		Data: s.data, Site: s.dir, State: filepath.Join(root, "state"),
		Inventory: func(_ context.Context, now time.Time, _ inventory.Known) inventory.Inventory {
			return inventory.Inventory{Hosts: hosts, AsOf: now}
		},
		About: render.Site{Title: "GPU board", Zone: time.UTC, Version: "1.0", Interval: 20 * time.Second,
			BaseURL: "https://gpu.example.org/", Compat: []string{"all"}},
	}
	for _, f := range change {
		f(&o)
	}
	gen, err := sitegen.New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.gen = gen
	return s
}

// withSites gives a site the boards of other clusters.
func withSites(o *sitegen.Options) {
	o.Sites = func(context.Context, time.Time, []boards.Site) []boards.Site {
		return boardtest.WithSites(render.Input{Board: &boards.Board{}}).Board.Sites
	}
}

// withPast gives a site a history.
func withPast(t testing.TB) func(*sitegen.Options) {
	return func(o *sitegen.Options) {
		past, err := history.Open(t.Context(), filepath.Join(t.TempDir(), "history.db"), webStart, history.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := past.Close(); err != nil {
				t.Error(err)
			}
		})
		o.History = past
	}
}

func (s *webSite) write(path string, content []byte) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// generate lets every node push what it knows at a moment, and makes the site.
func (s *webSite) generate(at time.Time) error {
	for _, h := range s.fleet.Hosts() {
		snap := s.fleet.Snapshot(h.Name, at)
		raw, err := snapshot.EncodeBundle(
			&snapshot.Bundle{Host: h.Name, BootID: snap.BootID, Snapshot: snap,
				Samples: []snapshot.Sample{snap.Sample()}})
		if err != nil {
			return err
		}
		s.write(filepath.Join(s.data, "drop", h.Name, "latest.json.gz"), raw)
	}
	_, err := s.gen.Generate(context.Background(), at)
	return err
}

// copier returns what copies the site into a bucket.
func (s *webSite) copier(state, bucket string, every time.Duration) func(at time.Time) {
	s.t.Helper()
	check := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	target, err := publisher.ParseTarget(bucket)
	check(err)
	to, err := publisher.New(publisher.Options{Target: target, Budget: need.Patience, Backlog: 100_000,
		StateDir: filepath.Join(state, "publish"), Properties: site.Properties})
	check(err)
	s.t.Cleanup(func() { to.Close() })
	c := site.New(site.Options{Dir: s.dir, Files: func() []string { return sitegen.FilesOf(state, false) },
		State: filepath.Join(state, "published.json"), Target: target.String(), Every: every, Seldom: true})
	return func(at time.Time) {
		s.t.Helper()
		check(c.Begin(at))
		_, err := c.Copy(s.t.Context(), to)
		check(err)
	}
}

func (s *webSite) file(name string) string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(name)))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

// An answer is what came over the wire.
type answer struct {
	code   int
	header http.Header
	body   string // decoded
	packed bool
}

// webClient follows no redirect and decodes nothing by itself.
var webClient = &http.Client{
	Timeout:       need.Patience,
	Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 4},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// ask sends one request; header is names and values in turn. ":method",
// ":body" and ":user" (a password) are not headers.
func ask(url string, header ...string) (answer, error) {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("User-Agent", "Mozilla/5.0")
	for i := 0; i+1 < len(header); i += 2 {
		switch header[i] {
		case ":method":
			r.Method = header[i+1]
		case ":body":
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(header[i+1])), int64(len(header[i+1]))
		case ":user":
			r.SetBasicAuth(webtest.User, header[i+1])
		default:
			r.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := webClient.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, fmt.Errorf("reading the answer: %w", err)
	}
	a := answer{code: resp.StatusCode, header: resp.Header, body: string(body)}
	if resp.Header.Get("Content-Encoding") == "gzip" && len(body) > 0 {
		a.packed = true
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return a, fmt.Errorf("unpacking the answer: %w", err)
		}
		plain, err := io.ReadAll(z)
		if err != nil {
			return a, fmt.Errorf("unpacking the answer: %w", err)
		}
		a.body = string(plain)
	}
	return a, nil
}

func mustAsk(t *testing.T, url string, header ...string) answer {
	t.Helper()
	a, err := ask(url, header...)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return a
}
