package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/failure"
	"gpuboard/internal/source"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sitetest"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/text"
)

// A ran is what one run of the program left.
type ran struct {
	code           int
	stdout, stderr string
}

// person runs the program as somebody at a moment, with these variables.
func person(t testing.TB, ctx context.Context, now time.Time, env map[string]string, args ...string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	dir := t.TempDir()
	a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, now: func() time.Time { return now }, args: args,
		getenv: func(name string) string {
			switch name {
			case "HOME", "XDG_STATE_HOME":
				return dir
			case "GPUBOARD_TIMEZONE":
				return "UTC"
			}
			return env[name]
		}}
	code := a.run(ctx)
	return ran{code, stdout.String(), stderr.String()}
}

func ask(t testing.TB, now time.Time, args ...string) ran {
	t.Helper()
	return person(t, t.Context(), now, nil, args...)
}

func TestStatusAsksASite(t *testing.T) {
	files := sitetest.Site{Busy: []string{"gpu01:0"}}.Files(t)
	var asked sync.Map
	plain := func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.URL.Path, true)
		content, ok := files[strings.TrimPrefix(r.URL.Path, "/lab/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(content)
	}
	huge := func(w io.Writer) {
		_, _ = io.WriteString(w, `{"schema_version":1,"title":"`)
		blank := bytes.Repeat([]byte("x"), 1<<20)
		for range data.MaxBoardBytes>>20 + 1 {
			if _, err := w.Write(blank); err != nil {
				return
			}
		}
	}
	turns := 0
	released := make(chan struct{})
	t.Cleanup(func() { close(released) })
	stall := func(r *http.Request) {
		select {
		case <-released:
		case <-r.Context().Done():
		}
	}
	for _, c := range []struct {
		name   string
		site   http.HandlerFunc
		path   string // behind the server's address
		args   []string
		code   int
		stdout string // regexps
		stderr string
	}{
		{name: "a site below a path", site: plain, path: "/lab", stdout: `^2 of 3 GPUs free`},
		{name: "with the slash", site: plain, path: "/lab/", stdout: `^2 of 3`},
		{name: "copied from the browser", site: plain, path: "/lab/index.html?free#x", stdout: `^2 of 3`},
		{name: "the file itself", site: plain, path: "/lab/api/v1/board.json", stdout: `^2 of 3`},
		{name: "nothing there", site: plain, path: "/nowhere/", code: failure.ExitUsage, stderr: `it answers 404 Not Found\n.*front page\n$`},
		{name: "in trouble", site: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, code: failure.ExitTryAgain, stderr: `it answers 500`},
		{name: "overrun", site: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, code: failure.ExitTryAgain, stderr: `it answers 429`},
		{name: "no answer", site: func(_ http.ResponseWriter, r *http.Request) { stall(r) }, args: []string{"--site-timeout", "150ms"}, code: failure.ExitTryAgain, stderr: `no answer within 150ms`},
		{name: "half an answer", site: func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(files["api/v1/board.json"][:900])
			_ = http.NewResponseController(w).Flush()
			stall(r)
		}, args: []string{"--site-timeout", "500ms"}, code: failure.ExitTryAgain, stderr: `no (complete )?answer within 500ms`},
		{name: "cut off", site: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(files["api/v1/board.json"])))
			_, _ = w.Write(files["api/v1/board.json"][:900])
		}, code: failure.ExitTryAgain, stderr: `unexpected EOF`},
		{name: "without end", site: func(w http.ResponseWriter, _ *http.Request) { huge(w) }, code: failure.ExitError, stderr: `larger than 64 MiB`},
		{name: "a bomb", site: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
			huge(z)
			_ = z.Close()
		}, code: failure.ExitError, stderr: `larger than 64 MiB`},
		{name: "compressed", site: func(w http.ResponseWriter, r *http.Request) {
			if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
				t.Error("it does not ask for gzip")
			}
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(files["api/v1/board.json"])
			_ = z.Close()
		}, stdout: `^2 of 3`},
		{name: "no gzip at all", site: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(files["api/v1/board.json"])
		}, code: failure.ExitTryAgain, stderr: `gzip: invalid header`},
		{name: "a newer schema", site: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Replace(files["api/v1/board.json"], []byte(`"schema_version":1`), []byte(`"schema_version":9`), 1))
		}, code: failure.ExitUsage, stderr: `newer gpuboard: update this one \(it has schema 9, and this one reads 1\)`},
		{name: "a login page", site: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>sign in</html>") }, code: failure.ExitError, stderr: `that is no board.*\n.*login`},
		{name: "wants a password", site: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, code: failure.ExitUsage, stderr: `401 Unauthorized\n.*USER:PASSWORD@`},
		{name: "moved", site: func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasPrefix(r.URL.Path, "/lab/") {
				http.Redirect(w, r, "/lab"+r.URL.Path, http.StatusFound)
				return
			}
			plain(w, r)
		}, stdout: `^2 of 3`},
		{name: "in circles", site: func(w http.ResponseWriter, r *http.Request) {
			if turns++; turns > 5 {
				t.Error("it goes on turning")
			}
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, code: failure.ExitTryAgain, stderr: `redirects in circles`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ask(t, sitetest.Now.Add(5*time.Second), append([]string{"status", "--site-timeout", "2m", "--from", sitetest.Serve(t, c.site) + c.path}, c.args...)...)
			if got.code != c.code || !regexp.MustCompile(c.stdout).MatchString(got.stdout) || !regexp.MustCompile(c.stderr).MatchString(got.stderr) {
				t.Errorf("%d, want %d\n%.600s\n%.600s", got.code, c.code, got.stdout, got.stderr)
			}
			if c.code != 0 && got.stdout != "" || c.code == 0 && got.stderr != "" {
				t.Errorf("said too much: %.300q, %.300q", got.stdout, got.stderr)
			}
		})
	}
}

func TestAPasswordIsSentAndNeverShown(t *testing.T) {
	files := sitetest.Site{}.Files(t)
	site := sitetest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "eva" || password != "s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write(files[strings.TrimPrefix(r.URL.Path, "/")])
	})
	with := func(secret string) string { return strings.Replace(site, "://", "://eva:"+secret+"@", 1) }
	if got := ask(t, sitetest.Now, "status", "--from", with("s3cret")); got.code != 0 || strings.Contains(got.stdout+got.stderr, "s3cret") {
		t.Errorf("%+v", got)
	}
	// Whatever goes wrong, a password is not in what is said about it.
	for _, from := range []string{with("t0psecret"), "http://eva:t0psecret@127.0.0.1:1/", "http://eva:t0psecret@[bad/", "ftp://eva:t0psecret@h/", "http://eva:t0psecret@/x", "http://eva:t0psecret@h:99999/"} {
		for _, args := range [][]string{{"status", "--from", from}, {"wait", "--from", from, "--timeout", "50ms"}, {"status", "--from", from, "--json"}} {
			got := ask(t, sitetest.Now, args...)
			if got.code == 0 || strings.Contains(got.stdout+got.stderr, "t0psecret") {
				t.Errorf("%v: %+v", args, got)
			}
		}
	}
	// Stale, so that the site is named.
	if got := ask(t, sitetest.Now.Add(time.Hour), "status", "--from", with("s3cret")); got.code != failure.ExitDegraded || strings.Contains(got.stderr, "s3cret") || !strings.Contains(got.stderr, "eva") {
		t.Errorf("%+v", got)
	}
}

// The age is judged by the reader's clock.
func TestAnOldBoardIsNotBelieved(t *testing.T) {
	dir := t.TempDir()
	sitetest.Site{Busy: []string{"gpu01:0"}, Comments: `{"gpu02": [{"name": "eva", "date": "2026-11-21 10:00"}]}`}.Write(t, dir)
	for _, c := range []struct {
		age    time.Duration
		code   int
		stdout string
		stderr string
		not    string
	}{
		{0, 0, `^1 of 3 GPUs free`, `^$`, "unknown"},
		{50 * time.Second, 0, `^1 of 3`, `^$`, "unknown"},
		{51 * time.Second, 0, `^1 of 3`, `is 51 s old and due every 20 s: it may be wrong by now`, "unknown"},
		{200 * time.Second, 0, `^1 of 3`, `may be wrong`, "unknown"},
		{201 * time.Second, failure.ExitDegraded, `^0 of 3 GPUs free`, `its generator has stopped, so the current state is unknown`, " 97 %"},
		{-2 * time.Minute, 0, `^1 of 3`, `2 min in the future: this machine's clock or the site's is wrong`, "unknown"},
	} {
		got := ask(t, sitetest.Now.Add(c.age), "status", "--from", dir)
		if got.code != c.code || !regexp.MustCompile(c.stdout).MatchString(got.stdout) || !regexp.MustCompile(c.stderr).MatchString(got.stderr) || strings.Contains(got.stdout, c.not) {
			t.Errorf("%s: %d\n%s\n%s", c.age, got.code, got.stdout, got.stderr)
		}
	}
	got := ask(t, sitetest.Now.Add(time.Hour), "status", "--from", dir, "--json")
	p, err := data.ReadPublished(strings.NewReader(got.stdout))
	if err != nil || got.code != failure.ExitDegraded || p.Board.Totals.GPUs.ByState[board.Unknown] != 3 || !p.Board.GeneratedAt.Equal(sitetest.Now) {
		t.Fatalf("%v, %d: %s", err, got.code, got.stdout)
	}
	if g := p.Board.Hosts[0].GPUs[0]; g.Last == nil || g.Last.State != board.Busy || g.Last.Users[0] != "ann" || g.MemoryUsed != nil || len(g.Processes) > 0 || g.MemoryTotal == nil {
		t.Errorf("%+v", g)
	}
	if p.Board.Models[0].Free+p.Board.Models[1].Free+p.Board.Hosts[1].Totals.GPUs.Free() > 0 || p.Board.NextFree != nil {
		t.Errorf("something is free, or will be: %+v", p.Board)
	}
	// Without colours, and the same words.
	env := map[string]string{"CLICOLOR_FORCE": "1"}
	late := person(t, t.Context(), sitetest.Now.Add(time.Minute), env, "status", "--from", dir).stdout
	plain := ask(t, sitetest.Now.Add(time.Minute), "status", "--from", dir).stdout
	if late != plain || strings.Contains(late, "\x1b") {
		t.Errorf("other words, or colours:\n%s\n%s", late, plain)
	}
	if fresh := person(t, t.Context(), sitetest.Now, env, "status", "--from", dir).stdout; !strings.Contains(fresh, "\x1b[32m") {
		t.Errorf("a fresh one has no colours:\n%s", fresh)
	}
}

func TestStatusFilters(t *testing.T) {
	dir := t.TempDir()
	sitetest.Site{Busy: []string{"gpu01:0"}, Comments: `{"gpu02": [{"name": "eva", "date": "2026-11-21 10:00"}]}`, Name: "NVIDIA A100 evil"}.Write(t, dir)
	for _, c := range []struct {
		args   []string
		code   int
		gpus   string
		stderr string
	}{
		{nil, 0, "gpu01:0 gpu01:1 gpu02:0", ""},
		{[]string{"gpu02"}, 0, "gpu02:0", ""},
		{[]string{"GPU01"}, 0, "gpu01:0 gpu01:1", ""},
		{[]string{"--free"}, 0, "gpu01:1", ""},
		{[]string{"--user", "ann"}, 0, "gpu01:0", ""},
		{[]string{"--user", "eva"}, 0, "gpu02:0", ""},
		{[]string{"--model", "a100"}, 0, "gpu01:0 gpu01:1 gpu02:0", ""},
		{[]string{"--model", "sxm4"}, 0, "gpu01:1", ""},
		{[]string{"--user", "nobody"}, failure.ExitNoMatch, "", ""},
		{[]string{"--free", "gpu02"}, failure.ExitNoMatch, "", ""},
		{[]string{"gpu03"}, failure.ExitNoMatch, "", `there is no host gpu03 on this board; did you mean "gpu01"?`},
		{[]string{"gpu02", "gpu03"}, failure.ExitDegraded, "gpu02:0", "there is no host gpu03"},
		{[]string{"../x"}, failure.ExitUsage, "", "not a host name"},
		{[]string{"--json", "--csv"}, failure.ExitUsage, "", "one of them"},
	} {
		args := append([]string{"status", "--from", dir}, c.args...)
		text := ask(t, sitetest.Now, args...)
		if text.code != c.code || !strings.Contains(text.stderr, c.stderr) {
			t.Errorf("%v: %d, want %d: %s", c.args, text.code, c.code, text.stderr)
		}
		if strings.ContainsAny(text.stdout, "\x1b\u202e") {
			t.Errorf("%v: obeyed by a terminal: %q", c.args, text.stdout)
		}
		if c.code == failure.ExitUsage {
			continue
		}
		asJSON := ask(t, sitetest.Now, append(args, "--json")...)
		p, err := data.ReadPublished(strings.NewReader(asJSON.stdout))
		if err != nil || asJSON.code != c.code {
			t.Fatalf("%v: %d, %v", c.args, asJSON.code, err)
		}
		var gpus []string
		for _, h := range p.Board.Hosts {
			for _, g := range h.GPUs {
				gpus = append(gpus, fmt.Sprintf("%s:%d", h.Name, g.Index))
			}
		}
		if got := strings.Join(gpus, " "); got != c.gpus {
			t.Errorf("%v: JSON has %s, want %s", c.args, got, c.gpus)
		}
		rows, err := csv.NewReader(strings.NewReader(ask(t, sitetest.Now, append(args, "--csv")...).stdout)).ReadAll()
		if err != nil || len(rows) != 1+len(gpus) {
			t.Errorf("%v: %d lines of CSV for %d GPUs, %v", c.args, len(rows), len(gpus), err)
		}
	}
	if got := ask(t, sitetest.Now, "status", "--from", dir, "--json"); got.stdout != string(sitetest.Site{Busy: []string{"gpu01:0"}, Comments: `{"gpu02": [{"name": "eva", "date": "2026-11-21 10:00"}]}`, Name: "NVIDIA A100 evil"}.Files(t)["api/v1/board.json"]) {
		t.Errorf("unfiltered it is not the site's own:\n%s", got.stdout)
	}
}

// --watch draws over what it has drawn, no more than the terminal shows, and ends with the context.
func TestStatusIsDrawnAgain(t *testing.T) {
	for _, c := range []struct {
		text   string
		height int
		want   string
	}{
		{"a\nb\n", 0, "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J"},
		{"a\nb\n", 3, "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J"},
		{"a\nb\nc\n", 3, "\x1b[Ha\x1b[K\nand 2 more lines\x1b[K\n\x1b[J"},
	} {
		if got := screenOf(c.text, c.height); got != c.want {
			t.Errorf("%q in %d lines: %q, want %q", c.text, c.height, got, c.want)
		}
	}
	dir := t.TempDir()
	sitetest.Site{Busy: []string{"gpu01:0"}}.Write(t, dir)
	ctx, end := context.WithCancel(t.Context())
	drawn := &firstWrite{then: end}
	a := &app{stdout: drawn, now: func() time.Time { return sitetest.Now }, getenv: func(string) string { return "" }}
	s, err := source.Open(a.source(settingsOf(t, nil)), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.watchStatus(ctx, s, text.Options{}, []string{"gpu02", "gpu9*"}); err != nil {
		t.Fatal(err)
	}
	if got := drawn.String(); !strings.HasPrefix(got, "\x1b[H") || !strings.Contains(got, "|gpu02") || strings.Contains(got, "|gpu01") ||
		!strings.Contains(got, "there is no host gpu9*") {
		t.Errorf("%q", got)
	}
}

// A firstWrite calls then after it was written to.
type firstWrite struct {
	bytes.Buffer
	then func()
}

func (w *firstWrite) Write(p []byte) (int, error) {
	defer w.then()
	return w.Buffer.Write(p)
}

// A spreadsheet takes nothing that others wrote for a formula.
func TestCSVIsNoFormula(t *testing.T) {
	dir := t.TempDir()
	sitetest.Site{Busy: []string{"gpu01:0"}, Silent: []string{"gpu02"}, Name: "1+1", Comments: `{"gpu01": {"1": {"name": "@SUM(A1)", "date": "2026-11-21 10:00"}}}`}.Write(t, dir)
	got := ask(t, sitetest.Now, "status", "--from", dir, "--csv")
	rows, err := csv.NewReader(strings.NewReader(got.stdout)).ReadAll()
	if err != nil || got.code != 0 || len(rows) != 4 {
		t.Fatalf("%d, %v\n%s", got.code, err, got.stdout)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	for name, want := range map[string]string{
		"host": "gpu01", "gpu": "0", "state": "busy", "model": "1+1", "programs": "'=cmd|' /C calc'!A0", "users": "ann", "temperature_celsius": "-5",
		"since": "2026-11-18T07:42:00Z", "memory_used_mib": "20000", "power_draw_watts": "", "booked_by": "",
	} {
		if cell := rows[1][column[name]]; cell != want {
			t.Errorf("%s is %q, want %q", name, cell, want)
		}
	}
	if by := rows[2][column["booked_by"]]; by != "'@SUM(A1)" {
		t.Errorf("booked by %q", by)
	}
	if rows[3][0] != "gpu02" || rows[3][2] != "never" || rows[3][4] != "" {
		t.Errorf("a host without GPUs: %q", rows[3])
	}
}

// What a site in a directory or a data directory needs no address for.
func TestWhereABoardIsRead(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if got := ask(t, sitetest.Now, "status"); got.code != failure.ExitUsage || !strings.Contains(got.stderr, "hint: gpuboard status --from https://") {
		t.Errorf("nowhere: %+v", got)
	}
	for from, want := range map[string]string{"gpu.example.org/lab": "https://gpu.example.org/lab", "/nowhere/at/all": "there is no /nowhere", ".": "neither a site nor a data directory"} {
		if got := ask(t, sitetest.Now, "status", "--from", from); got.code != failure.ExitUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v", from, got)
		}
	}
	sitetest.Site{}.Write(t, filepath.Join(dir, "site"))
	for _, args := range [][]string{{}, {"--from", "site"}, {"--from", "site/api/v1/board.json"}, {"--site", filepath.Join(dir, "site")}} {
		if got := ask(t, sitetest.Now, append([]string{"status"}, args...)...); got.code != 0 || !strings.HasPrefix(got.stdout, "3 of 3 GPUs free") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	// A FIFO in the place of the file is not waited for.
	if err := os.MkdirAll("data/drop/gpu01", 0o755); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, sitetest.Now, "status", "--from", "data"); got.code != 0 || !strings.HasPrefix(got.stdout, "0 of 0 GPUs free") || !strings.Contains(got.stdout, "never heard of") {
		t.Errorf("a data directory: %+v", got)
	}
	if got := ask(t, sitetest.Now, "__complete", "status", "--from", "site", ""); got.stdout != "gpu01\ngpu02\n:4\n" {
		t.Errorf("completion: %q", got.stdout)
	}
	site := httptest.NewServer(http.FileServer(http.Dir("site")))
	defer site.Close()
	if got := ask(t, sitetest.Now, "__complete", "status", "gpu01", "--from", site.URL, "gpu"); got.stdout != "gpu02\n:4\n" {
		t.Errorf("completion by a site elsewhere: %q", got.stdout)
	}
	site.Close()
	if got := ask(t, sitetest.Now, "__complete", "status", "--from", site.URL, ""); got.stdout != ":4\n" || strings.Contains(got.stderr, "error") {
		t.Errorf("completion without a site: %+v", got)
	}
	if got := ask(t, sitetest.Now, "__complete", "status", "--from", "data", ""); got.stdout != "gpu01\n:4\n" {
		t.Errorf("completion: %q", got.stdout)
	}
}

// A login is not held up by a site that does not answer, nor spoiled by one that answers wrong, late or with nothing.
func TestMineSpoilsNoLogin(t *testing.T) {
	site := sitetest.Site{Busy: []string{"gpu01:0"}, Comments: `{"gpu01": {"1": {"name": "eva", "date": "2026-11-20 12:00"}, "0": {"name": "eva", "date": "2026-11-21"}}}`}
	files := site.Files(t)
	serve := func(w http.ResponseWriter, r *http.Request) {
		content, ok := files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(content)
	}
	whole := sitetest.Serve(t, serve)
	released := make(chan struct{})
	t.Cleanup(func() { close(released) })
	stall := sitetest.Serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-released:
		case <-r.Context().Done():
		}
	})
	broken := sitetest.Serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })
	bad := filepath.Join(t.TempDir(), "gpuboard.yml")
	if err := os.WriteFile(bad, []byte("interval: often\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		now  time.Time
		args []string
		why  string
	}{
		{"no answer", sitetest.Now, []string{"--from", stall, "--limit", "180ms"}, `no answer in time`},
		{"no board", sitetest.Now, []string{"--from", broken}, `that is no board`},
		{"nothing there", sitetest.Now, []string{"--from", whole + "/nowhere/"}, `404`},
		{"too old", sitetest.Now.Add(time.Hour), []string{"--from", whole}, `is 1 h old: its generator has stopped`},
		{"no site", sitetest.Now, []string{"--data", t.TempDir() + "/none"}, `no board to read`},
		{"a configuration that cannot be read", sitetest.Now, []string{"--config", bad}, `interval`},
		{"somebody else", sitetest.Now, []string{"--from", whole, "--name", "carla"}, `nothing concerns you now`},
	} {
		for _, as := range [][]string{nil, {"--json"}} {
			args := slices.Concat([]string{"mine", "--name", "eva", "--limit", need.Patience.String()}, c.args, as)
			got := ask(t, c.now, args...)
			if got.code != 0 || strings.Trim(got.stdout, "[]\n") != "" || got.stderr != "" {
				t.Errorf("%s: %v", c.name, got)
			}
			got = ask(t, c.now, append(args, "-v")...)
			if got.code != 0 || strings.Count(got.stderr, "\n") != 1 || !regexp.MustCompile(c.why).MatchString(got.stderr) {
				t.Errorf("%s: %v", c.name, got)
			}
		}
	}

	got := ask(t, sitetest.Now, "mine", "--from", whole, "--name", "eva", "--limit", need.Patience.String())
	id := regexp.MustCompile(`release (\S+)|extend (\S+)`).FindAllStringSubmatch(got.stdout, -1)
	if len(id) != 1 {
		t.Fatalf("%v", got)
	}
	want := "gpu01:1: your booking ends 12:00, in 2 h 18 min; to keep it, on the web host: gpuboard extend " + id[0][2] + " --for 1d --name eva\n" +
		"gpu01:0: used by ann (=cmd|' /C calc'!A0), and booked by you until Sun 00:00; to see more: gpuboard status gpu01 --detail --from " + whole + "\n"
	if got.stdout != want || got.stderr != "" || got.code != 0 {
		t.Errorf("%v\nwant\n%s", got, want)
	}
}
