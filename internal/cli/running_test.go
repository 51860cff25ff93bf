package cli

import (
	"bytes"
	"context"
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
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/demo"
	"gpuboard/internal/failure"
	"gpuboard/internal/serve"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/source"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sitetest"
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
	a := &app{stdout: &bytes.Buffer{}, stderr: &stderr, now: func() time.Time { return now },
		getenv: func(string) string { return "" }}
	c := a.serveCommand()
	if err := c.ParseFlags([]string{
		"--booking", "--password", filepath.Join(dir, "users"), "--data", filepath.Join(dir, "data"), "--site",
		filepath.Join(dir, "site"),
		"--timezone", "Asia/Tokyo", "--booking-max-gpus", "1", "--title", "The <lab>",
	}); err != nil {
		t.Fatal(err)
	}
	cfg, err := a.load(c)
	if err != nil {
		t.Fatal(err)
	}
	o, err := a.serveOptions(t.Context(), cfg)
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
	all := booking.Parse("comments.json", data, booking.Zone{Location: time.UTC}, booking.Options{}).Bookings
	tokyo := time.FixedZone("", 9*3600)
	if len(all) != 1 || all[0].Name != "eva" || !strings.Contains(string(data), `"2026-11-21 18:00"`) ||
		!strings.Contains(string(data), "// ours") {
		t.Errorf("the file is\n%s", data)
	}
	if all := booking.Parse("comments.json", data, booking.Zone{Location: tokyo},
		booking.Options{}).Bookings; len(all) == 1 && !all[0].From.Equal(now) {
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
	hook := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer hook.Close()
	s.Write("gpuboard.yml", "notify:\n  - webhook: "+hook.URL+"\n    format: json\n", 0o600)
	var stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &stderr, now: func() time.Time { return s.Now },
		getenv: func(k string) string { return map[string]string{"HOME": s.Dir}[k] }}
	if err := os.MkdirAll(s.Path("data/drop"), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := soakSettings(t, a, "generate", "--config", s.Path("gpuboard.yml"), "--data", s.Path("data"), "--site",
		s.Path("site"), "--state", s.Path("state"), "--timezone", "UTC",
		"--history-hourly", "24h")
	g, err := watch.NewGenerator(cfg, version(), a.now, false, nil)
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
		data, err := snapshot.EncodeBundle(
			&snapshot.Bundle{Host: host, BootID: snap.BootID, Snapshot: snap,
				Samples: []snapshot.Sample{snap.Sample()}})
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
			s.Write("data/comments.json",
				fmt.Sprintf(`{"gpu0000": [{"name": "person%d", "date": %q, "comment": "job %d"}]}`, n/5%2,
					s.Now.Add(3*s.Step).Format("2006-01-02 15:04"), n), 0o644)
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
			data, err := snapshot.EncodeBundle(
				&snapshot.Bundle{Host: host, BootID: snap.BootID, Snapshot: snap,
					Samples: []snapshot.Sample{snap.Sample()}})
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
	if temps, _ := filepath.Glob(s.Path("site/*/.*")); slices.ContainsFunc(temps,
		func(name string) bool { return strings.Contains(name, "tmp") }) {
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
	if one := names(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 22}); !slices.Equal(one,
		[]string{"[192.0.2.7]:22"}) {
		t.Errorf("listening on one address: %q", one)
	}
}

// A watcher is a stderr that calls back with each line.
type watcher struct {
	mu   sync.Mutex
	all  bytes.Buffer
	line func(string)
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.all.Write(p)
	w.mu.Unlock()
	w.line(string(p))
	return len(p), nil
}

// waitFor runs wait; line is called with each line it says.
func waitFor(t testing.TB, ctx context.Context, now func() time.Time, line func(string), args ...string) ran {
	t.Helper()
	var stdout bytes.Buffer
	w := &watcher{line: line}
	a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: w, now: now,
		args: append([]string{"wait", "--every", "100ms", "--user", "zoe"}, args...),
		getenv: func(name string) string {
			return map[string]string{"GPUBOARD_TIMEZONE": "UTC", "HOME": "/nonexistent"}[name]
		}}
	code := a.run(ctx)
	return ran{code, stdout.String(), w.all.String()}
}

func fixed() time.Time { return sitetest.Now }

// It waits until there are enough, says meanwhile for what, and each thing once.
func TestWaitUntilThereAreEnough(t *testing.T) {
	dir := t.TempDir()
	sitetest.Site{Busy: []string{"gpu01:0"},
		Comments: `{"gpu01": {"1": {"name": "eva", "date": "2026-11-20 18:00"}}}`}.Write(t, dir)
	step := 0
	got := waitFor(t, t.Context(), fixed, func(line string) {
		step++
		switch {
		case strings.Contains(line, "0 can be used; next by its booking: gpu01:1 Fri 18:00 (eva)"):
			sitetest.Site{Busy: []string{"gpu01:0"}}.Write(t, dir) // eva has given hers back
		case strings.Contains(line, "1 can be used (gpu01:1)"):
			// A board that is being replaced by garbage for a moment is not the end.
			if err := os.WriteFile(filepath.Join(dir, "api/v1/board.json"), []byte("<html>"), 0o644); err != nil {
				t.Error(err)
			}
		case strings.Contains(line, "that is no board"):
			sitetest.Site{At: sitetest.Now.Add(-time.Hour)}.Write(t, dir) // all free, an hour ago
		case strings.Contains(line, "the board is 1 h old, so its state is unknown"):
			sitetest.Site{}.Write(t, dir)
		default:
			t.Errorf("it says %q", line)
		}
	}, "--from", dir, "--gpus", "2", "--model", "a100")
	if got.code != 0 || got.stdout != "gpu01:0,gpu01:1\n" || step != 4 {
		t.Errorf("after %d steps: %+v", step, got)
	}
}

func TestWaitEnds(t *testing.T) {
	dir := t.TempDir()
	sitetest.Site{Busy: []string{"gpu01:0"}}.Write(t, dir)
	quiet := func(string) {}
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{"--gpus", "1"}, 0, "gpu01:1\n", ""},
		{[]string{"--host", "gpu01"}, 0, "gpu01:1\n", ""},
		{[]string{"--gpus", "2"}, 0, "gpu01:1,gpu02:0\n", ""},
		{[]string{"--gpus", "2", "--order", "memory", "--json"}, 0, "", ""},
		{[]string{"--gpus", "1", "--min-memory", "40G", "--format", "uuids"}, 0, "GPU-6770753031-1\n", "on gpu01"},
		{[]string{"--gpus", "1", "--format", "env", "--model", "3090"}, 0,
			"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0\n", "on gpu02"},
		{[]string{"--gpus", "2", "--same-host", "--timeout", "250ms"}, failure.ExitNoMatch, "",
			"error: no 2 GPUs on one host within 250ms"},
		{[]string{"--gpus", "2", "--model", "a100", "--timeout", "250ms"}, failure.ExitNoMatch, "",
			"waiting for 2 GPUs like a100; 1 can be used (gpu01:1)"},
		{[]string{"--gpus", "2", "--format", "indices", "--timeout", "50ms"}, failure.ExitNoMatch, "", "no 2 GPUs on one host"}, // an index alone names no host
		{[]string{"--gpus", "4"}, failure.ExitNoMatch, "", "there will never be 4 GPUs: the board has 3"},
		{[]string{"--gpus", "3", "--same-host"}, failure.ExitNoMatch, "",
			"there will never be 3 GPUs on one host: no host has more than 2"},
		{[]string{"--model", "h100"}, failure.ExitNoMatch, "", "there will never be 1 GPU like h100: the board has 0"},
		{[]string{"--gpus", "0"}, failure.ExitUsage, "", "--gpus: at least 1"},
		{[]string{"--timeout", "-1s"}, failure.ExitUsage, "", "no time to wait"},
		{[]string{"--format", "csv"}, failure.ExitUsage, "", "none of host:index"},
		{[]string{"--host", "../x"}, failure.ExitUsage, "", "--host: not a host name"},
	} {
		got := waitFor(t, t.Context(), fixed, quiet, append([]string{"--from", dir}, c.args...)...)
		if got.code != c.code || c.stdout != "" && got.stdout != c.stdout || c.code != 0 && got.stdout != "" ||
			!strings.Contains(got.stderr, c.stderr) {
			t.Errorf("%v: want %d, %q; got %+v", c.args, c.code, c.stdout, got)
		}
		if strings.Count(got.stderr, "waiting for") > 1 {
			t.Errorf("%v: it says the same again: %s", c.args, got.stderr)
		}
	}
	// Of a host with two and one with one, the one is taken, unless there is a preference.
	sitetest.Site{}.Write(t, dir)
	for order, want := range map[string]string{"index": "gpu02:0\n", "memory": "gpu01:0\n", "power": "gpu01:0\n"} {
		if got := waitFor(t, t.Context(), fixed, quiet, "--from", dir, "--order", order); got.stdout != want {
			t.Errorf("by %s: %+v", order, got)
		}
	}
	// A host that was never heard of may have them one day.
	sitetest.Site{Silent: []string{"gpu02"}}.Write(t, dir)
	if got := waitFor(t, t.Context(), fixed, quiet, "--from", dir, "--gpus", "3", "--timeout",
		"50ms"); got.code != failure.ExitNoMatch || !strings.Contains(got.stderr, "within 50ms") {
		t.Errorf("%+v", got)
	}
	// Ctrl-C ends it, and is not "there are none".
	ctx, cancel := context.WithCancel(t.Context())
	if got := waitFor(t, ctx, fixed, func(string) { cancel() }, "--from", dir, "--gpus",
		"3"); got.code != failure.ExitTryAgain || !strings.Contains(got.stderr, "interrupted") {
		t.Errorf("%+v", got)
	}
}

// One's own booking is no reason to wait, somebody else's on top of it is.
func TestWaitKnowsWhoseBookingItIs(t *testing.T) {
	dir := t.TempDir()
	zoe := `{"gpu01": {"0": {"name": "Zoe", "date": "2026-11-20 18:00"}, "1": [{"name": "zoe", "date": "2026-11-20 18:00"}, {"name": "eva", "date": "2026-11-20 19:00"}]}}`
	sitetest.Site{Busy: []string{"gpu02:0"}, Comments: zoe}.Write(t, dir)
	got := waitFor(t, t.Context(), fixed, func(string) {}, "--from", dir)
	if got.code != 0 || got.stdout != "gpu01:0\n" {
		t.Errorf("%+v", got)
	}
	if got := waitFor(t, t.Context(), fixed, func(string) {}, "--from", dir, "--gpus", "2", "--timeout",
		"50ms"); got.code != failure.ExitNoMatch {
		t.Errorf("%+v", got)
	}
}

// Whoever takes a GPU is told when somebody else is to have it, if that is soon.
func TestWaitWarnsOfTheNextBooking(t *testing.T) {
	dir := t.TempDir()
	sitetest.Site{Comments: `{"gpu01": {"0": {"name": "eva", "from": "2026-11-21 09:00", "date": "2026-11-22 10:00"}, "1": {"name": "eva", "from": "2026-11-21 10:00", "date": "2026-11-22 10:00"}},
"gpu02": {"0": {"name": "zoe", "from": "2026-11-20 12:00", "date": "2026-11-22 10:00"}}}`}.Write(t, dir)
	got := waitFor(t, t.Context(), fixed, func(string) {}, "--from", dir, "--gpus", "3")
	if got.code != 0 || got.stderr != "gpuboard: gpu01:0 is booked by eva from Sat 09:00\n" {
		t.Errorf("%+v", got)
	}
}

// What nobody can mend by waiting ends it at the first look; later the same is
// the site being made anew.
func TestWaitSurvivesAMissingSite(t *testing.T) {
	files, free := sitetest.Site{Busy: []string{"gpu01", "gpu02:0"}}.Files(t), sitetest.Site{}.Files(t)
	asked := 0
	site := sitetest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch asked {
		case 1:
			_, _ = w.Write(files["api/v1/board.json"])
		case 2:
			http.NotFound(w, r)
		case 3:
			w.WriteHeader(http.StatusBadGateway)
		default:
			_, _ = w.Write(free["api/v1/board.json"])
		}
	})
	cfg := settingsOf(t, map[string]string{"site_timeout": "2s"})
	var said bytes.Buffer
	a := &app{stderr: &said, now: fixed, getenv: func(string) string { return "" }}
	look := func() ([]board.Unit, error) {
		s, err := source.Open(a.source(cfg), site)
		if err != nil {
			t.Fatal(err)
		}
		v := &waiter{app: a, source: s, wanted: &wanted{Request: board.Request{Order: "index"}, limit: 3, user: "zoe"},
			every: time.Millisecond}
		v.look.Zone = time.UTC
		return v.run(t.Context(), cfg, 10*time.Second)
	}
	if open, err := look(); err != nil || len(open) != 3 || asked != 4 ||
		!strings.Contains(said.String(), "404 Not Found") || !strings.Contains(said.String(), "502 Bad Gateway") {
		t.Errorf("after %d looks: %v, %v\n%s", asked, open, err, said.String())
	}
	asked = 1 // the first answer is the 404
	if _, err := look(); err == nil || asked != 2 {
		t.Errorf("after %d looks: %v", asked, err)
	}
}
