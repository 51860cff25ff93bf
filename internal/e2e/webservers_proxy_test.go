package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gpuboard/internal/testenv/browser"
	"gpuboard/internal/testenv/s3test"
	"gpuboard/internal/testenv/webtest"
)

// TestProxies puts each web server in front of another, for everything and for
// the booking form alone.
func TestProxies(t *testing.T) {
	t.Parallel()
	s := newWebSite(t)
	if err := s.generate(webStart); err != nil {
		t.Fatal(err)
	}
	// What "gpuboard serve" would see.
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Security-Policy", "form-action 'self'")
		if r.Method == http.MethodPost {
			w.Header().Set("Location", "../../?saved=1#atlas")
			w.WriteHeader(http.StatusSeeOther)
		}
		h := r.Header
		fmt.Fprintf(w, "%s %s host=%s for=%s user=%q proto=%q agent=%s body=%s", r.Method, r.URL.RequestURI(), r.Host,
			h.Get("X-Forwarded-For"), h.Get("X-Remote-User"), h.Get("X-Forwarded-Proto"), r.UserAgent(), body)
	}))
	defer upstream.Close()
	address := strings.TrimPrefix(upstream.URL, "http://")
	for _, name := range webtest.Servers() {
		for _, book := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/book-alone-%v", name, book), func(t *testing.T) {
				w := webtest.Start(t, name,
					webtest.Options{Deploy: "deploy", Site: s.dir, Path: "/gpu", Upstream: address, Book: book})
				host := strings.TrimPrefix(w.Host, "http://")
				seen := func(method, target, body string) string {
					return fmt.Sprintf("%s %s host=%s for=127.0.0.1 user=\"\" proto=\"http\" agent=%s body=%s", method,
						target, host, curl, body)
				}
				forged := []string{"User-Agent", curl, "Authorization", "Basic cm9vdDpyb290", "X-Forwarded-For",
					"10.0.0.1", "X-Remote-User", "root", "X-Forwarded-Proto", "https"}
				if got := mustAsk(t, w.URL+"book/atlas/0?edit=a%2Fb", forged...); got.body != seen("GET",
					"/book/atlas/0?edit=a%2Fb", "") {
					t.Errorf("the form came as\n%s, want\n%s", got.body, seen("GET", "/book/atlas/0?edit=a%2Fb", ""))
				} else if policy := got.header.Values("Content-Security-Policy"); len(policy) != 1 ||
					policy[0] != "form-action 'self'" {
					t.Errorf("the form's policy came as %q", policy)
				}
				got := mustAsk(t, w.URL+"book/atlas/0",
					append(forged, ":method", http.MethodPost, ":body", "until=18:00")...)
				if got.body != seen("POST", "/book/atlas/0", "until=18:00") || got.code != http.StatusSeeOther {
					t.Errorf("a booking came as %d\n%s, want\n%s", got.code, got.body,
						seen("POST", "/book/atlas/0", "until=18:00"))
				}
				if to := got.header.Get("Location"); to != "../../?saved=1#atlas" && to != w.URL+"?saved=1#atlas" &&
					to != "/gpu/?saved=1#atlas" {
					t.Errorf("a booking leads to %q, which is not the board", to)
				}
				got = mustAsk(t, w.URL+"?term=true&ansi=true", forged...)
				if want := seen("GET", "/?term=true&ansi=true", ""); !book && got.body != want {
					t.Errorf("a view came as\n%s, want\n%s", got.body, want)
				} else if book && got.body != s.file("status.ansi") {
					t.Errorf("beside the form, a view is %.60q", got.body)
				}
			})
		}
		if name == "lighttpd" {
			continue // which cannot pass a name on
		}
		t.Run(name+"/who", func(t *testing.T) {
			w := webtest.Start(t, name,
				webtest.Options{Deploy: "deploy", Site: s.dir, Path: "/gpu", Upstream: address, Book: true,
					Password: true})
			if got := mustAsk(t, w.URL+"book/", ":user", webtest.Password, "X-Remote-User",
				"root"); !strings.Contains(got.body, fmt.Sprintf("user=%q", webtest.User)) {
				t.Errorf("who has logged in at the web server is not passed on: %d %s", got.code, got.body)
			}
			if got := mustAsk(t, w.URL+"book/", "X-Remote-User", "root"); got.code != http.StatusUnauthorized {
				t.Errorf("who has not is let through: %d %s", got.code, got.body)
			}
		})
	}
}

// TestASiteInABucketIsOpened copies the demonstration into a real S3 gateway, puts an nginx in front of it and opens pages.
func TestASiteInABucketIsOpened(t *testing.T) {
	address, _ := s3test.Gateway(t, "lab-gpu")
	s3test.Publish(t, "lab-gpu")
	s := newWebSite(t, withPast(t))
	if err := s.generate(webStart); err != nil {
		t.Fatal(err)
	}
	s.copier(filepath.Join(filepath.Dir(s.data), "state"), "s3://lab-gpu/board", time.Minute)(webStart)
	w := webtest.Start(t, "nginx",
		webtest.Options{Deploy: "deploy", Path: "/gpu", Upstream: address, Bucket: "lab-gpu/board"})
	b := browser.Start(t, 1280, 900)
	b.Clock(webStart)
	styled := func(page string) {
		t.Helper()
		if n := browser.Eval[int](b,
			`[...document.styleSheets].reduce((n, sheet) => n + sheet.cssRules.length, 0)`); n < 100 {
			t.Errorf("%s has %d rules of style", page, n)
		}
		if policy := mustAsk(t, w.URL+page).header.Values("Content-Security-Policy"); len(policy) != 1 ||
			!strings.Contains(mustReadFile(t, "internal/serve/serve.go"), `"`+policy[0]+`"`) {
			t.Errorf("%s comes with the policies %q", page, policy)
		}
	}
	b.Open(w.URL)
	b.Until("a script that runs", `document.getElementById("_find")?.hidden === false`)
	styled("")
	b.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector('a[href^="hosts/atlas/"]').click()`))
	b.Until("the host's page",
		`location.pathname.startsWith("/gpu/hosts/atlas/") && document.readyState === "complete"`)
	styled("hosts/atlas/")
	for _, page := range []string{"bookings/", "history/", "help/"} {
		b.Open(w.URL + page)
		styled(page)
	}
	b.Quiet(w.Host)
	for _, view := range []struct{ target, file string }{{"", "status.txt"}, {"?term=true&ansi=1", "status.ansi"},
		{"hosts/atlas/", "hosts/atlas/status.txt"}} {
		if a := mustAsk(t, w.URL+view.target, "User-Agent", curl); a.code != http.StatusOK ||
			a.body != s.file(view.file) {
			t.Errorf("curl %s: %d and %.80q", view.target, a.code, a.body)
		}
	}
	if a := mustAsk(t, w.URL+"hosts/nobody/"); a.code != http.StatusNotFound ||
		!strings.Contains(a.body, "There is no such page") {
		t.Errorf("a page that is not there: %d and %.200q", a.code, a.body)
	}
	if a := mustAsk(t, w.URL, ":method", http.MethodPut, ":body", "x"); a.code < 400 {
		t.Errorf("PUT: %d", a.code)
	}
}
