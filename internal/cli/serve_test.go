package cli

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/demo"
	"gpuboard/internal/serve"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/soak"
	"gpuboard/internal/watch"
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
	page := do(http.MethodGet, "/book/?at=gpu01:0", "")
	if page.Code != 200 || !strings.Contains(page.Body.String(), "The &lt;lab&gt;") {
		t.Fatalf("the form: %d\n%s", page.Code, page.Body)
	}
	for _, tt := range []struct {
		path string
		code int
	}{{"/book/?at=gpu01:0", 303}, {"/book/?at=gpu01:1", 422}} {
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

// soakSettings reads flags as the command line does.
func soakSettings(t *testing.T, a *app, args ...string) *config.Config {
	t.Helper()
	c, rest, err := a.root().Find(args)
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := a.load(c)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestSoakOfAWebHost is a resident generator over a fleet that changes: hosts
// that come and go, jobs, bookings, damage, hooks, and a past that is rolled up
// and forgotten.
func TestSoakOfAWebHost(t *testing.T) {
	need.Time(t, "it makes a hundred generations")
	s := soak.New(t)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer hook.Close()
	s.Write("gpuboard.yml", "notify:\n  - webhook: "+hook.URL+"\n    format: json\n", 0o600)
	var stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &stderr, now: func() time.Time { return s.Now },
		getenv: func(k string) string { return map[string]string{"HOME": s.Dir}[k] }}
	if err := os.MkdirAll(s.Path("data/drop"), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := soakSettings(t, a, "generate", "--config", s.Path("gpuboard.yml"), "--data", s.Path("data"), "--site", s.Path("site"), "--state", s.Path("state"), "--timezone", "UTC",
		"--history-raw", "6h", "--history-five-minutes", "12h", "--history-hourly", "24h")
	g, err := watch.NewGenerator(cfg, version(), a.now, false)
	if err != nil {
		t.Fatal(err)
	}
	fleet := demo.NewLarge(3, s.Now, 2)
	// The fleet changes from cycle to cycle and comes back to the same state after
	// ten, so that what piles up is told from what varies.
	seq, begin, phase := uint64(0), s.Now, time.Duration(0)
	push := func(host string) {
		snap := fleet.Snapshot(host, begin.Add(phase*time.Hour))
		seq++
		snap.Seq, snap.CollectedAt = seq, snapshot.TimeOf(s.Now)
		data, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: host, BootID: snap.BootID, Snapshot: snap, Samples: []snapshot.Sample{snap.Sample()}})
		if err != nil {
			t.Fatal(err)
		}
		s.Write("data/drop/"+host+"/latest.json.gz", string(data), 0o644)
	}
	s.Between = func(n int) {
		phase = time.Duration(n % 10)
		for i, h := range fleet.Hosts() {
			switch {
			case i == 1 && n%10 > 6: // silent for a while, and damaged
				s.Write("data/drop/"+h.Name+"/latest.json.gz", "garbage", 0o644)
			default:
				push(h.Name)
			}
		}
		if n%5 == 0 {
			s.Write("data/comments.json", fmt.Sprintf(`{"gpu0000": [{"name": "person%d", "date": %q, "comment": "job %d"}]}`, n/5%2, s.Now.Add(3*s.Step).Format("2006-01-02 15:04"), n), 0o644)
		}
		if n%10 == 0 { // a host with a name that is used once
			old, _ := filepath.Glob(s.Path("data/drop/guest*"))
			for _, dir := range old {
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
			host := fmt.Sprintf("guest%d", n)
			snap := fleet.Snapshot("gpu0000", begin)
			data, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: host, BootID: snap.BootID, Snapshot: snap, Samples: []snapshot.Sample{snap.Sample()}})
			if err != nil {
				t.Fatal(err)
			}
			s.Write("data/drop/"+host+"/latest.json.gz", string(data), 0o644)
		}
	}
	s.Grow = []string{s.Path("site"), s.Path("state")}
	if soak.Long() {
		s.Step, s.Warm = 20*time.Second, 4800 // the default interval, for two days and a bit
	} else {
		s.Warm, s.Cycles = 40, 70
	}
	written := 0
	s.Run(func() {
		report, err := g.Generate(t.Context(), s.Now)
		if err != nil {
			t.Error(err)
		}
		written += report.Written
	})
	if written < s.Cycles {
		t.Errorf("%d files were written in %d generations of a fleet that changes", written, s.Cycles)
	}
	if temps, _ := filepath.Glob(s.Path("site/*/.*")); slices.ContainsFunc(temps, func(name string) bool { return strings.Contains(name, "tmp") }) {
		t.Errorf("left behind: %v", temps)
	}
}

func TestNamesOfTheReceiver(t *testing.T) {
	all := names(&net.TCPAddr{IP: net.IPv4zero, Port: 2222})
	for _, want := range []string{"[localhost]:2222", "[127.0.0.1]:2222"} {
		if !slices.Contains(all, want) {
			t.Errorf("listening everywhere: %q lacks %s", all, want)
		}
	}
	if one := names(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 22}); !slices.Equal(one, []string{"[192.0.2.7]:22"}) {
		t.Errorf("listening on one address: %q", one)
	}
}
