package serve_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"gpuboard/internal/booking"
	"gpuboard/internal/serve"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
)

const boardJSON = `{"schema_version": 1, "generated_at": "2026-11-20T09:59:40Z", "next_generation_expected_at": "2026-11-20T10:00:00Z", "hosts": [
	{"name": "atlas", "title": "Atlas", "gpus": [
		{"index": 0, "uuid": "GPU-00000000-aaaa-4000-8000-000000000000", "name": "H100", "state": "free"},
		{"index": 1, "uuid": "GPU-11111111-bbbb", "name": null, "state": "stuck"}]},
	{"name": "ceres", "title": "", "gpus": [
		{"index": 2, "uuid": "GPU-22222222-cccc", "name": "A100", "state": "busy", "mig_devices": [
			{"index": 0, "uuid": "MIG-0000000a-0000-4000-8000-000000000000", "name": "A100 MIG 1g.5gb", "profile": "1g.5gb", "state": "free"},
			{"index": 1, "uuid": "MIG-GPU-00000002-0000-4000-8000-000000000000/7/0", "name": null, "state": "free"},
			{"index": 2, "uuid": null, "name": null, "state": "free"}]}]},
	{"name": "dione", "title": "", "gpus": []}]}`

// A counter is a booking form with its file, a clock that stands, and visitors.
type counter struct {
	t        *testing.T
	h        http.Handler
	comments string
	mu       sync.Mutex
	clock    time.Time
}

func (c *counter) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock
}

func (c *counter) later(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock = c.clock.Add(d)
}

// hashed is a password of low cost, so that tests do not wait for bcrypt.
func hashed(t testing.TB, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

type setting func(*serve.Options, *serve.AuthOptions)

func newCounter(t *testing.T, settings ...setting) *counter {
	t.Helper()
	c := &counter{t: t, clock: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)}
	dir := t.TempDir()
	for _, d := range []string{"site/api/v1", "data"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c.comments = filepath.Join(dir, "data", "comments.json")
	users := filepath.Join(dir, "users")
	c.write(users, "eva:"+hashed(t, "eva's")+"\nmira:"+hashed(t, "mira's")+"\nlogin7:"+hashed(t, "x")+"\n")
	c.write(filepath.Join(dir, "site", "api", "v1", "board.json"), boardJSON)
	c.write(filepath.Join(dir, "site", "index.html"), "the page")

	pages, err := page.NewBookPages(render.Site{Title: "Lab", Zone: time.UTC, Languages: []string{"en", "de"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	aliases := booking.Aliases{"login7": "tomas", "tomas": "tomas"}
	o := serve.Options{Site: filepath.Join(dir, "site"), Booking: &serve.BookingOptions{
		File: func() serve.File { return booking.Open(c.comments, booking.Zone{Location: time.UTC}) }, Zone: time.UTC,
		FileZone: booking.Zone{Location: time.UTC}, Pages: pages, Now: c.now,
		Aliases: func() booking.Aliases { return aliases },
	}}
	auth := serve.AuthOptions{Passwords: users, Now: c.now}
	for _, s := range settings {
		s(&o, &auth)
	}
	if o.Auth, err = serve.NewAuth(auth); err != nil {
		t.Fatal(err)
	}
	if c.h, err = serve.Handler(o); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *counter) write(path, content string) {
	c.t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// file is comments.json as it is, "" when there is none.
func (c *counter) file() string {
	data, err := os.ReadFile(c.comments)
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	return string(data)
}

func (c *counter) bookings() []booking.Booking {
	cal := booking.Parse("comments.json", []byte(c.file()), booking.Zone{Location: time.UTC},
		booking.Options{Now: c.now()})
	return cal.Bookings
}

func (c *counter) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	c.h.ServeHTTP(w, r)
	return w
}

// open shows a page to somebody.
func (c *counter) open(user, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.SetBasicAuth(user, user+"'s")
	if user == "login7" {
		r.SetBasicAuth(user, "x")
	}
	return c.do(r)
}

// form is a form as the browser of somebody who has opened the page sends it.
func (c *counter) form(user, path string, fields ...string) *http.Request {
	q := url.Values{}
	for i := 0; i+1 < len(fields); i += 2 {
		q.Set(fields[i], fields[i+1])
	}
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(q.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Origin", "http://example.com") // httptest's host
	r.SetBasicAuth(user, user+"'s")
	if user == "login7" {
		r.SetBasicAuth(user, "x")
	}
	return r
}

func (c *counter) post(user, path string, fields ...string) *httptest.ResponseRecorder {
	return c.do(c.form(user, path, fields...))
}
