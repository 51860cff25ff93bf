package serve_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/serve"
)

func TestForgedForms(t *testing.T) {
	c := newCounter(t)
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Del(name)
			if value != "" {
				r.Header.Set(name, value)
			}
		}
	}
	for name, tt := range map[string]struct {
		forge func(*http.Request)
		code  int
	}{
		"a foreign origin": {code: 403,
			forge: func(r *http.Request) { set("Origin", "http://evil.example")(r); set("Sec-Fetch-Site", "")(r) }},
		"an origin of another port": {code: 403,
			forge: func(r *http.Request) { set("Origin", "http://example.com:81")(r); set("Sec-Fetch-Site", "")(r) }},
		"an origin that is no address": {code: 403,
			forge: func(r *http.Request) { set("Origin", "example.com")(r); set("Sec-Fetch-Site", "")(r) }},
		"an origin that is hidden": {code: 403,
			forge: func(r *http.Request) { set("Origin", "null")(r); set("Sec-Fetch-Site", "")(r) }},
		"cross-site":                {code: 403, forge: set("Sec-Fetch-Site", "cross-site")},
		"same-site is another site": {code: 403, forge: set("Sec-Fetch-Site", "same-site")},
		"neither header": {code: 403,
			forge: func(r *http.Request) { set("Origin", "")(r); set("Sec-Fetch-Site", "")(r) }},
		"a host that nobody vouches for": {code: 403, forge: func(r *http.Request) {
			set("Origin", "http://evil.example")(r)
			set("X-Forwarded-Host", "evil.example")(r)
			set("Sec-Fetch-Site", "")(r)
			r.RemoteAddr = "192.0.2.9:1"
		}},
		"JSON":     {code: 415, forge: set("Content-Type", "text/plain")},
		"no login": {code: 401, forge: set("Authorization", "")},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.form("eva", "/book/?at=atlas:0", "action", "book", "until", "1d", "name", "mira")
			tt.forge(r)
			if w := c.do(r); w.Code != tt.code {
				t.Errorf("%d, want %d", w.Code, tt.code)
			}
			if c.file() != "" {
				t.Fatalf("it was saved:\n%s", c.file())
			}
		})
	}
	// Asking for a page never saves.
	r := c.form("eva", "/book/?at=atlas:0&action=book&until=1d")
	r.Method = http.MethodGet
	if w := c.do(r); w.Code != 200 || c.file() != "" {
		t.Errorf("GET: %d, and the file is %q", w.Code, c.file())
	}
	for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "ET"} {
		r := c.form("eva", "/book/?at=atlas:0", "action", "book", "until", "1d")
		r.Method = method
		if w := c.do(r); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD, POST" {
			t.Errorf("%s: %d, allowed are %q", method, w.Code, w.Header().Get("Allow"))
		}
	}
	// And for all that, the right form is right, also where a browser sends one of the headers.
	for i, name := range []string{"", "Sec-Fetch-Site", "Origin"} {
		r := c.form("eva", "/book/?at=atlas:0", "action", "book", "from", fmt.Sprintf("2026-12-0%d 10:00", i+1),
			"until", "2h")
		r.Header.Del(name)
		if w := c.do(r); w.Code != 303 {
			t.Errorf("the real form without %q: %d\n%s", name, w.Code, w.Body)
		}
	}
}

// ownScript is the only script of the form.
var ownScript = regexp.MustCompile(`<script defer src="assets/form\.[0-9a-f]+\.js"></script>`)

func TestHostileTexts(t *testing.T) {
	c := newCounter(t, func(o *serve.Options, _ *serve.AuthOptions) { o.Booking.ForOthers = true })
	for i, text := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'; alert(1)//`, `{{.Form.Name}}`,
		`</title><svg/onload=alert(1)>`,
		`javascript:alert(1)`, "a\u202eb", `*/ "x": [`, `\u003cscript\u003e`, `","date":"2099-01-01`,
		strings.Repeat("é", 60),
	} {
		name := fmt.Sprintf("%d%s", i, text)
		from, until := fmt.Sprintf("2027-01-%02d 08:00", i+1), fmt.Sprintf("2027-01-%02d 18:00", i+1)
		w := c.post("eva", "/book/?at=atlas:0", "action", "book", "from", from, "until", until, "name", name, "comment",
			text)
		if w.Code != 303 && w.Code != 422 {
			t.Errorf("%q: %d\n%s", text, w.Code, w.Body)
		}
		cal := booking.Parse("comments.json", []byte(c.file()), booking.Zone{Location: time.UTC}, booking.Options{})
		if cal.Broken || len(cal.Problems) > 0 {
			t.Fatalf("%q: the file is broken: %v\n%s", text, cal.Problems, c.file())
		}
		for _, page := range []string{w.Body.String(), c.open("eva", "/book/?at=atlas:0").Body.String(),
			c.open("eva", "/book/").Body.String()} {
			page = ownScript.ReplaceAllString(page, "")
			for _, bad := range []string{"<script", "<img", "<svg/", "onerror=alert(1)>", "\u202e"} {
				if strings.Contains(page, bad) {
					t.Errorf("%q: the page holds %q", text, bad)
				}
			}
		}
	}
	if n := len(c.bookings()); n < 9 {
		t.Errorf("only %d of the texts were taken", n)
	}
	for field, value := range map[string]string{"until": "<script>alert(1)</script>", "from": `"><script>`,
		"name": strings.Repeat("x", 500), "comment": strings.Repeat("x", 5000), "id": `"><script>`,
		"action": "<script>"} {
		w := c.post("eva", "/book/?at=atlas:1", "action", "book", "until", "1d", "name", "eva", field, value)
		if w.Code == 303 && field != "id" || w.Code >= 500 ||
			strings.Contains(ownScript.ReplaceAllString(w.Body.String(), ""), "<script") {
			t.Errorf("%s: %d\n%s", field, w.Code, w.Body)
		}
	}
}

func TestPathsOfTheForm(t *testing.T) {
	c := newCounter(t)
	for path, want := range map[string]int{
		"/book/": 200, "/book/index.html": 200, "/book": 301, "/book/?at=atlas:0": 200, "/book/?at=atlas": 200,
		"/book/?at=dione":     200,
		"/book/?at=atlas:0,1": 200, "/book/?at=atlas:0-1&at=ceres:2": 200,
		"/book/?at=atlas:GPU-00000000-aaaa-4000-8000-000000000000": 200, "/book/?at=atlas:%2A": 200,
		"/book/?at=atlas:2": 404, "/book/?at=atlas:00": 404, "/book/?at=atlas:-1": 404, "/book/?at=atlas:0/": 404,
		"/book/?at=": 404, "/book/?at=atlas:0&at=atlas:7": 404,
		"/book/?at=nothere:0": 404, "/book/?at=dione:0": 200, "/book/?at=atlas:0-127": 404,
		"/book/?at=..%2f..%2fetc": 404, "/book/atlas/0": 404, "/book//atlas/0": 404,
		"/book/../book/atlas/0": 404, "/book/..%2f..%2fetc/passwd": 404, "/book/%2e%2e/%2e%2e/etc/passwd": 404,
		"/book/assets/../atlas/0": 404,
		"/book/assets/board.js":   404, "/book/assets/": 404, "/book/capabilities.json": 200, "/book/times.json": 200,
		"/book/.git/config": 404, "//evil.example/book/?at=atlas:0": 404,
	} {
		r := httptest.NewRequest(http.MethodGet, "http://example.com"+path, nil)
		r.SetBasicAuth("eva", "eva's")
		w := c.do(r)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
		if l := w.Header().Get("Location"); l != map[int]string{301: "book/"}[want] {
			t.Errorf("%s leads to %q", path, l)
		}
	}
	var able struct{ Booking bool }
	if err := json.Unmarshal(c.do(httptest.NewRequest(http.MethodGet, "/book/capabilities.json", nil)).Body.Bytes(),
		&able); err != nil || !able.Booking {
		t.Errorf("capabilities: %v, %v", able, err)
	}
	if w := c.do(
		httptest.NewRequest(http.MethodPost, "/book/capabilities.json", nil)); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("capabilities are posted: %d", w.Code)
	}
	css := regexp.MustCompile(
		`href="(assets/board\.[0-9a-f]+\.css)"`).FindStringSubmatch(c.open("eva", "/book/?at=atlas:0").Body.String())
	if css == nil {
		t.Fatal("the form has no style")
	}
	if w := c.do(httptest.NewRequest(http.MethodGet, "/book/"+css[1], nil)); w.Code != 200 ||
		!strings.HasPrefix(w.Header().Get("Content-Type"), "text/css") {
		t.Errorf("its style: %d %s", w.Code, w.Header().Get("Content-Type"))
	}
	script := regexp.MustCompile(
		`src="(assets/form\.[0-9a-f]+\.js)"`).FindStringSubmatch(c.open("eva", "/book/?at=atlas:0").Body.String())
	if script == nil {
		t.Fatal("the form has no script")
	}
	if w := c.do(httptest.NewRequest(http.MethodGet, "/book/"+script[1], nil)); w.Code != 200 ||
		!strings.HasPrefix(w.Header().Get("Content-Type"), "text/javascript") {
		t.Errorf("its script: %d %s", w.Code, w.Header().Get("Content-Type"))
	}
	// Without a desk all that is a plain site.
	_, h := site(t, plain)
	if w := get(h, "/book/?at=atlas:0"); w.Code != 404 {
		t.Errorf("without --booking: %d", w.Code)
	}
	r := httptest.NewRequest(http.MethodPost, "/book/?at=atlas:0", strings.NewReader("action=book"))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 405 {
		t.Errorf("a form without --booking: %d", w.Code)
	}
}

func TestABrokenFileIsLeftAlone(t *testing.T) {
	c := newCounter(t)
	c.write(c.comments, `{"atlas": [ {"name": "eva", }`)
	before := c.file()
	w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "1d", "comment", "kept")
	if w.Code != 409 || c.file() != before || !strings.Contains(w.Body.String(), "comments.json:1") ||
		!strings.Contains(w.Body.String(), `value="kept"`) {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
	if w := c.open("mira", "/book/?at=atlas:0"); !strings.Contains(w.Body.String(), "bookings file has an error") {
		t.Errorf("the form does not say it beforehand:\n%s", w.Body)
	}
	if err := os.Remove(c.comments); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(c.comments, 0o755); err != nil {
		t.Fatal(err)
	}
	w = c.open("mira", "/book/?at=atlas:0")
	body := w.Body.String()
	if !strings.Contains(body, "bookings file has an error") || strings.Contains(body, filepath.Dir(c.comments)) {
		t.Errorf("%d %s, want it to be said without a path of ours", w.Code, body)
	}
	if !strings.Contains(body, "the bookings cannot be read") ||
		strings.Contains(body, "comments.json: the bookings cannot be read") {
		t.Errorf("%s, want the problem without a place, as it has no line", body)
	}
}

// TestADamagedBoard: the form cannot say what can be booked.
func TestADamagedBoard(t *testing.T) {
	for _, damaged := range []string{"", "{", `{"schema_version": 1, "hosts": 7}`} {
		var log bytes.Buffer
		c := newCounter(t, func(o *serve.Options, _ *serve.AuthOptions) {
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			if err := os.WriteFile(filepath.Join(o.Site, "api", "v1", "board.json"), []byte(damaged),
				0o644); err != nil {
				t.Fatal(err)
			}
		})
		if w := c.open("eva", "/book/"); w.Code != http.StatusServiceUnavailable ||
			!strings.Contains(w.Body.String(), "there is no board yet") {
			t.Errorf("the form over the board %q: %d\n%s", damaged, w.Code, w.Body)
		}
		if !strings.Contains(log.String(), "reading the board") {
			t.Errorf("the log says nothing of the board %q: %s", damaged, &log)
		}
		if w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until",
			"1d"); w.Code != http.StatusServiceUnavailable || c.file() != "" {
			t.Errorf("booking over the board %q: %d, the file is %q", damaged, w.Code, c.file())
		}
	}
}

// Where bookings stood and the file is empty, the form shows them, says what to
// do, and changes nothing.
func TestAnEmptiedFileIsLeftAlone(t *testing.T) {
	c := newCounter(t)
	c.write(c.comments, "{}")
	if w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "1d"); w.Code != 303 {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	for _, damage := range []func(){func() { c.write(c.comments, "") }, func() { _ = os.Remove(c.comments) }} {
		damage()
		before := c.file()
		for _, gpu := range []string{"0", "1"} {
			w := c.post("mira", "/book/?at=atlas:"+gpu, "action", "book", "until", "1d")
			if w.Code != 409 || c.file() != before || !strings.Contains(w.Body.String(), "1 booking stood in it") ||
				strings.Contains(w.Body.String(), filepath.Dir(c.comments)) {
				t.Errorf("%d, the file is %q\n%s", w.Code, c.file(), w.Body)
			}
		}
		if w := c.open("mira", "/book/?at=atlas:0"); !strings.Contains(w.Body.String(), "eva") ||
			!strings.Contains(w.Body.String(), "1 booking stood in it") {
			t.Errorf("the form does not show what stood:\n%s", w.Body)
		}
	}
}
