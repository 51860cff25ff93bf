package serve_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/serve"
	"gpuboard/internal/testenv/need"
)

// site writes files and serves them.
func site(t *testing.T, files map[string]string) (dir string, h http.Handler) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h, err := serve.Handler(serve.Options{Site: dir})
	if err != nil {
		t.Fatal(err)
	}
	return dir, h
}

func get(h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var plain = map[string]string{
	"index.html": "the page", "status.txt": "the text", "status.ansi": "in colour", "detail.txt": "all of it",
	"hosts/atlas/index.html": "atlas", "hosts/boreas/index.html": "boreas", "hosts/boreas/status.txt": "boreas in text",
	"states/index.json": "[]", "states/boreas/index.json": "{}", "assets/board.12.css": "p{}", "health.json": "{}",
	"metrics.txt": "", ".tmp-index.html-1": "half a pa", "secret.key": "k",
}

func TestWhatIsServed(t *testing.T) {
	dir, h := site(t, plain)
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "passwd.txt")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"empty", "odd/index.html"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		target string
		code   int
		body   string
	}{
		{"/", 200, "the page"},
		{"/index.html", 200, "the page"},
		{"/hosts/atlas/", 200, "atlas"},
		{"/hosts/atlas", 301, ""},
		{"/status.txt", 200, "the text"},
		{"/?term=true", 200, "the text"},
		{"/?term=true&detail=true", 200, "all of it"},
		{"/?term=1&ansi=1", 200, "in colour"},
		{"/?term=1&ansi=1&detail=1", 200, "all of it"},
		{"/?term=false", 200, "the page"},
		{"/hosts/boreas/", 200, "boreas"},
		{"/hosts/boreas/?term=true", 200, "boreas in text"},
		{"/hosts/boreas/?term=true&detail=true&ansi=true", 200, "boreas in text"},
		{"/hosts/atlas/?term=true", 200, "atlas"},
		{"/states/", 200, "[]"},
		{"/states/?term=true", 200, "[]"},
		{"/states/boreas/", 200, "{}"},
		{"/states/boreas/?term=true", 200, "boreas in text"},
		{"/states/boreas/?term=0", 200, "{}"},
		{"/states/nobody/?term=true", 404, ""},
		{"/nothing", 404, ""},
		{"/empty/", 404, ""},
		{"/odd/", 404, ""},
		{"/hosts/", 404, ""},
		{"/.tmp-index.html-1", 404, ""},
		{"/secret.key", 404, ""},
		{"/passwd.txt", 404, ""},
		{"/../../../etc/passwd", 404, ""},
		{"/%2e%2e/%2e%2e/etc/passwd", 404, ""},
		{"/hosts/../.tmp-index.html-1", 404, ""},
	} {
		w := get(h, tt.target)
		if w.Code != tt.code || tt.body != "" && w.Body.String() != tt.body {
			t.Errorf("%s: %d %q, want %d %q", tt.target, w.Code, w.Body, tt.code, tt.body)
		}
		if strings.Contains(w.Body.String(), "root:") {
			t.Errorf("%s shows /etc/passwd", tt.target)
		}
	}
}

// TestAMissingPage: who asks for a page gets the site's page for missing ones, and a program no page.
func TestAMissingPage(t *testing.T) {
	dir, h := site(t, plain)
	if err := os.WriteFile(filepath.Join(dir, "404.html"), []byte("no such page"), 0o644); err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]bool{
		"/hosts/nobody/": true, "/nothing": true, "/nothing.html": true, "/nothing.json": false, "/.hidden": false,
	} {
		w := get(h, target)
		page := w.Body.String() == "no such page" && strings.HasPrefix(w.Header().Get("Content-Type"), "text/html")
		if w.Code != http.StatusNotFound || page != want {
			t.Errorf("%s: %d %q", target, w.Code, w.Body)
		}
	}
}

// TestWhatIsNoFile: what is not a regular file is not sent, and nobody waits for it.
func TestWhatIsNoFile(t *testing.T) {
	dir, h := site(t, plain)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.txt"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "status.txt.gz"), 0o755); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if w := get(h, "/pipe.txt"); w.Code != http.StatusNotFound {
			t.Errorf("a FIFO: %d %q", w.Code, w.Body)
		}
		if w := get(h, "/status.txt", "Accept-Encoding", "gzip"); w.Code != http.StatusOK ||
			w.Body.String() != "the text" {
			t.Errorf("a text beside a directory of the name of its twin: %d %q", w.Code, w.Body)
		}
	}()
	select {
	case <-done:
	case <-time.After(need.Patience):
		t.Fatal("a request waits for a FIFO")
	}
}

func TestSiteWithoutPagesSaysSo(t *testing.T) {
	_, h := site(t, nil)
	w := get(h, "/")
	if w.Code != 503 || w.Header().Get("Refresh") == "" || !strings.Contains(w.Body.String(), "gpuboard generate") {
		t.Errorf("before the first generation: %d %q %v", w.Code, w.Body, w.Header())
	}
	if w := get(h, "/hosts/atlas/"); w.Code != 404 {
		t.Errorf("another page: %d", w.Code)
	}
}

func TestCurlGetsText(t *testing.T) {
	_, h := site(t, plain)
	if w := get(h, "/", "User-Agent", "curl/7.88.1"); w.Body.String() != "the text" ||
		!strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("curl gets %q as %s", w.Body, w.Header().Get("Content-Type"))
	}
	if w := get(h, "/?term=false", "User-Agent", "curl/7.88.1"); w.Body.String() != "the page" {
		t.Errorf("curl that asks for the page gets %q", w.Body)
	}
	if w := get(h, "/hosts/boreas/", "User-Agent", "curl/7.88.1"); w.Body.String() != "boreas in text" {
		t.Errorf("curl gets %q of a host", w.Body)
	}
	if w := get(h, "/states/boreas/", "User-Agent", "curl/7.88.1"); w.Body.String() != "{}" ||
		w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("curl gets %q under states, where programs want JSON", w.Body)
	}
	if w := get(h, "/hosts/atlas/", "User-Agent", "curl/7.88.1"); w.Body.String() != "atlas" {
		t.Errorf("a page without a text gives curl %q", w.Body)
	}
}

func TestRedirectIsRelative(t *testing.T) {
	_, h := site(t, plain)
	if got := get(h, "/hosts/atlas?x=1").Header().Get("Location"); got != "atlas/?x=1" {
		t.Errorf("Location %q; an absolute one breaks behind a proxy", got)
	}
	if got := get(h, "/hosts/atlas").Header().Get("Location"); got != "atlas/" {
		t.Errorf("Location %q without a query", got)
	}
	// //host would be another site.
	if got := get(h, "//evil.example/").Header().Get("Location"); got != "" {
		t.Errorf("Location %q", got)
	}
}

func TestCompressedFileIsServed(t *testing.T) {
	dir, h := site(t, plain)
	f, err := os.Create(filepath.Join(dir, "index.html.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	if _, err := z.Write([]byte("the page")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	w := get(h, "/", "Accept-Encoding", "gzip")
	if w.Header().Get("Content-Encoding") != "gzip" || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		t.Fatalf("headers %v", w.Header())
	}
	r, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(r); string(body) != "the page" {
		t.Errorf("body %q", body)
	}
	plainTag, gzTag := get(h, "/").Header().Get("ETag"), w.Header().Get("ETag")
	if plainTag == gzTag || plainTag == "" {
		t.Errorf("both forms have the tag %q", plainTag)
	}
	if w := get(h, "/", "Accept-Encoding", "gzip", "If-None-Match", gzTag); w.Code != http.StatusNotModified {
		t.Errorf("the same again: %d, want 304", w.Code)
	}
	if w := get(h, "/index.html.gz"); w.Code != http.StatusNotFound {
		t.Errorf("the twin by its own name: %d", w.Code)
	}
}

func TestHeaders(t *testing.T) {
	_, h := site(t, plain)
	w := get(h, "/")
	for name, want := range map[string]string{
		"Content-Security-Policy": "frame-ancestors 'none'", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "no-referrer", "Cache-Control": "no-cache",
		"Vary": "Accept-Encoding, User-Agent",
	} {
		if !strings.Contains(w.Header().Get(name), want) {
			t.Errorf("%s is %q, want %q in it", name, w.Header().Get(name), want)
		}
	}
	if got := get(h, "/metrics.txt").Header().Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("metrics.txt is %q", got)
	}
	if got := get(h, "/assets/board.12.css").Header().Get("Cache-Control"); !strings.Contains(got, "immutable") {
		t.Errorf("an asset named by its content has Cache-Control %q", got)
	}
	if got := get(h, "/assets/gone.00.css").Header().Get("Cache-Control"); got != "no-cache" {
		t.Errorf("an asset that is not there has Cache-Control %q", got)
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x"))
	p := httptest.NewRecorder()
	h.ServeHTTP(p, r)
	if p.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", p.Code)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	_, h := site(t, plain)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve.Run(ctx, l, h) }()
	resp, err := http.Get("http://" + l.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if !strings.Contains(string(body), "the page") {
		t.Errorf("body %q", body)
	}
	for length, want := range map[int]int{8 << 10: 200, 32 << 10: 431} {
		r, err := http.NewRequest(http.MethodGet, "http://"+l.Addr().String()+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Long", strings.Repeat("x", length))
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("a header of %d bytes: %d, want %d", length, resp.StatusCode, want)
		}
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("a clean end is %v", err)
		}
	case <-time.After(need.Patience):
		t.Fatal("it goes on after its context has ended")
	}
}

// TestWhatIsNotThereIsNotLogged: everybody may ask for anything.
func TestWhatIsNotThereIsNotLogged(t *testing.T) {
	dir, _ := site(t, plain)
	var log bytes.Buffer
	h, err := serve.Handler(serve.Options{Site: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if w := get(h, "/none.html"); w.Code != 404 || log.Len() > 0 {
		t.Errorf("%d, and the log says: %s", w.Code, &log)
	}
	if w := get(h, "/"+strings.Repeat("x", 300)+".html"); w.Code != 404 ||
		!strings.Contains(log.String(), "name too long") {
		t.Errorf("what cannot be opened: %d, and the log says: %s", w.Code, &log)
	}
}

// TestRunSaysWhyItCannotGoOn: nobody has asked it to end.
func TestRunSaysWhyItCannotGoOn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	done := make(chan error, 1)
	go func() { done <- serve.Run(t.Context(), l, http.NotFoundHandler()) }()
	select {
	case err := <-done:
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(need.Patience):
		t.Fatal("it waits for nothing")
	}
}

// TestRunDoesNotWaitForSlowReaders: they have some time after its context has ended.
func TestRunDoesNotWaitForSlowReaders(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	defer close(release)
	done := make(chan error, 1)
	go func() {
		done <- serve.Run(ctx, l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			cancel()
			<-release
		}))
	}()
	go func() {
		if resp, err := http.Get("http://" + l.Addr().String() + "/"); err == nil {
			resp.Body.Close()
		}
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("an end beside a slow reader is %v", err)
		}
	case <-time.After(need.Patience):
		t.Fatal("it waits for a slow reader")
	}
}

// TestNobodyServesAPrivateSiteToAll: without anybody who can log in there is no such server.
func TestNobodyServesAPrivateSiteToAll(t *testing.T) {
	dir := t.TempDir()
	for _, o := range []serve.Options{{Site: dir, Private: true}, {Site: dir, Booking: &serve.BookingOptions{}}} {
		if _, err := serve.Handler(o); err == nil {
			t.Errorf("%+v: nobody can log in, and that is fine", o)
		}
	}
}
