package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"gpuboard/internal/booking"
	"gpuboard/internal/serve"
)

// TestServeBooks follows the settings to what they are for: the file, the zone,
// the aliases and the limits of a booking that is made with a form.
func TestServeBooks(t *testing.T) {
	dir := t.TempDir()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"users":                  "login7:" + string(hash) + "\n",
		"data/aliases.csv":       "login7,eva\n",
		"data/comments.json":     "{} // ours\n",
		"site/api/v1/board.json": `{"schema_version": 1, "generated_at": "2026-11-20T09:59:40Z", "hosts": [{"name": "gpu01", "gpus": [{"index": 0, "state": "free"}, {"index": 1, "state": "free"}]}]}`,
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var stderr bytes.Buffer
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	a := &app{stdout: &bytes.Buffer{}, stderr: &stderr, now: func() time.Time { return now }, getenv: func(string) string { return "" }}
	c := a.serveCommand()
	if err := c.ParseFlags([]string{
		"--booking", "--password", filepath.Join(dir, "users"), "--data", filepath.Join(dir, "data"), "--site", filepath.Join(dir, "site"),
		"--timezone", "Asia/Tokyo", "--booking-max-gpus", "1", "--title", "The <lab>",
	}); err != nil {
		t.Fatal(err)
	}
	cfg, err := a.load(c)
	if err != nil {
		t.Fatal(err)
	}
	o, err := a.serveOptions(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h, err := serve.Handler(o)
	if err != nil {
		t.Fatal(err)
	}
	do := func(method, path, form string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(form))
		r.SetBasicAuth("login7", "secret")
		r.Header.Set("Origin", "http://example.com")
		if form != "" {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	page := do(http.MethodGet, "/book/gpu01/0", "")
	if page.Code != 200 || !strings.Contains(page.Body.String(), "The &lt;lab&gt;") {
		t.Fatalf("the form: %d\n%s", page.Code, page.Body)
	}
	for _, tt := range []struct {
		path string
		code int
	}{{"/book/gpu01/0", 303}, {"/book/gpu01/1", 422}} {
		form := url.Values{"action": {"book"}, "until": {"2026-11-21 18:00"}}.Encode()
		if w := do(http.MethodPost, tt.path, form); w.Code != tt.code {
			t.Errorf("booking %s: %d, want %d\n%s", tt.path, w.Code, tt.code, w.Body)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "data", "comments.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := booking.Parse("comments.json", data, time.UTC, booking.Options{}).Bookings
	tokyo := time.FixedZone("", 9*3600)
	if len(all) != 1 || all[0].Name != "eva" || !strings.Contains(string(data), `"2026-11-21 18:00"`) || !strings.Contains(string(data), "// ours") {
		t.Errorf("the file is\n%s", data)
	}
	if all := booking.Parse("comments.json", data, tokyo, booking.Options{}).Bookings; len(all) == 1 && !all[0].From.Equal(now) {
		t.Errorf("read in the zone of the site it begins at %v, want %v", all[0].From, now)
	}
	if log := stderr.String(); !strings.Contains(log, "a booking made") || !strings.Contains(log, "user=eva") {
		t.Errorf("the log is\n%s", log)
	}
}
