package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/cli"
	"gpuboard/internal/testenv/sitetest"
)

// A counter is a directory in which people book.
type counter struct {
	t    testing.TB
	dir  string
	file string
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("GPUBOARD_TIMEZONE", "Europe/Paris")
	t.Setenv("GPUBOARD_BOOKING_TIMEZONE", "Europe/Paris")
	t.Setenv("GPUBOARD_CONFIG", "")
	t.Setenv("GPUBOARD_BOOKING_NAME", "ada")
	t.Setenv("GPUBOARD_COMMENTS", filepath.Join(dir, "comments.json"))
	t.Setenv("GPUBOARD_DATA", filepath.Join(t.TempDir(), "none"))
	return &counter{t, dir, filepath.Join(dir, "comments.json")}
}

// run runs the program in this process and expects its exit code.
func (c *counter) run(code int, args ...string) (stdout, stderr string) {
	c.t.Helper()
	var out, problems bytes.Buffer
	if got := cli.Main(args, strings.NewReader(""), &out, &problems); got != code {
		c.t.Errorf("gpuboard %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, out.String(),
			problems.String())
	}
	return out.String(), problems.String()
}

func (c *counter) read() string {
	c.t.Helper()
	data, err := os.ReadFile(c.file)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(data)
}

func (c *counter) write(name string, data []byte) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), data, 0o644); err != nil {
		c.t.Fatal(err)
	}
}

func TestBookings(t *testing.T) {
	c := newCounter(t)
	const now = "--now=2026-11-20T10:42:00Z"

	// What cannot work, and the code that says whether to try again.
	if _, stderr := c.run(2, "book", "gpu01:0", "--comments",
		filepath.Join(c.dir, "none", "comments.json")); !strings.Contains(stderr, "no directory") {
		t.Errorf("no such directory: %s", stderr)
	}
	if _, stderr := c.run(2, "book", "gpu01:0", "--comments",
		"sftp://web.example.org/srv/comments.json"); !strings.Contains(stderr, "booking.ssh") {
		t.Errorf("an address: %s", stderr)
	}

	example, err := os.ReadFile("../../data/comments.json.example")
	if err != nil {
		t.Fatal(err)
	}
	c.write("comments.json", example)
	c.write("aliases.csv", []byte("adal,ada\n"))

	if _, stderr := c.run(1, "book", "gpu01:0", "--name", "bob", now); !strings.Contains(stderr,
		"gpu01:0 is booked by ada") {
		t.Errorf("a conflict: %s", stderr)
	}
	if out, _ := c.run(0, "book", "gpu01:1", "--for", "2d", "--dry-run", now); !strings.Contains(out,
		`+       "date": "2026-11-22 11:42"`) || c.read() != string(example) {
		t.Errorf("dry run: %s", out)
	}
	out, stderr := c.run(0, "book", "gpu01:1", "--for", "2d", now)
	if !strings.HasPrefix(out, "gpu01:1 booked for ada: Fri 20 Nov 11:42 → Sun 22 Nov 11:42 CET (2 d) [") ||
		!strings.Contains(stderr, "it is not checked whether the GPUs exist: no board") {
		t.Errorf("booked: %q, %q", out, stderr)
	}
	onlyAdded(t, string(example), c.read(), "{},                               // GPU 1: not booked")

	// The alias beside the file is known: adal is ada.
	c.run(0, "extend", "gpu01:1", "--for", "1d", "--name", "adal", now)
	if out, _ := c.run(0, "bookings", "--mine", now); !strings.Contains(out, "Mon 23 Nov 11:42 CET") ||
		strings.Contains(out, "grace  ") {
		t.Errorf("listed: %s", out)
	}
	c.run(1, "release", "gpu01:1", "--name", "bob", now)
	c.run(0, "release", "gpu01:1", "--name", "adal", "--now=2026-11-20T11:42:00Z")
	if !strings.Contains(c.read(), `"date": "2026-11-20 12:42"`) {
		t.Errorf("released:\n%s", c.read())
	}
	if out, _ := c.run(0, "bookings", "--prune", "--now=2026-12-31T00:00:00Z"); !strings.HasPrefix(out,
		"moved 5 bookings that ended before Tue 1 Dec 2026 01:00 CET") {
		t.Errorf("pruned: %s", out)
	}
	archive, err := os.ReadFile(filepath.Join(c.dir, "comments.archive.json"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(archive)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("the archive has a line that is no JSON: %s", line)
		}
	}
	if strings.Contains(c.read(), "ended long ago") || !strings.Contains(string(archive), "ended long ago") {
		t.Errorf("pruned:\n%s\n%s", c.read(), archive)
	}

	entries, err := os.ReadDir(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, ".") && name != ".comments.json.previous" &&
			name != ".comments.json.last-good" && name != ".comments.json.lock" {
			t.Errorf("left behind: %s", name)
		}
	}
}

// onlyAdded checks that every line of before is in after, in order, but for one.
func onlyAdded(t *testing.T, before, after, but string) {
	t.Helper()
	rest := strings.Split(after, "\n")
	for _, line := range strings.Split(before, "\n") {
		if strings.TrimSpace(line) == strings.TrimSpace(but) {
			continue
		}
		i := 0
		for i < len(rest) && rest[i] != line {
			i++
		}
		if i == len(rest) {
			t.Fatalf("the line %q is gone from\n%s", line, after)
		}
		rest = rest[i+1:]
	}
}

// A yes is for the jobs that were shown. What begins between the look and the change refuses it, for
// people and for programs.
func TestOverRunningIsForWhatWasShown(t *testing.T) {
	first := sitetest.Site{Busy: []string{"gpu01:0"}}.Files(t)
	second := sitetest.Site{Busy: []string{"gpu01:1"}}.Files(t)
	var looks atomic.Int32
	var changeAt int32 // at which look the jobs are others; 0 for never
	site := sitetest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		files := first
		if r.URL.Path == "/api/v1/board.json" {
			if n := looks.Add(1); changeAt > 0 && n >= changeAt {
				files = second
			}
		}
		_, _ = w.Write(files[strings.TrimPrefix(r.URL.Path, "/")])
	})
	c := newCounter(t)
	book := func(code int, changed int32, args ...string) (stdout, stderr string) {
		looks.Store(0)
		changeAt = changed
		return c.run(code,
			append([]string{"book", "gpu01:0,1", "--for", "1d", "--site-url", site, "--now=2026-11-20T09:42:00Z"},
				args...)...)
	}

	_, stderr := book(1, 0)
	digest := regexp.MustCompile(`hint: .*: gpuboard book .* '?(--over-running=[\w-]+)`).FindStringSubmatch(stderr)
	if digest == nil || !strings.Contains(stderr, "gpu01:0 is in use by ann") {
		t.Fatalf("no hint with what was shown: %s", stderr)
	}

	// The digest of the refusal, and whatever runs at the first look: both meet others under the lock.
	for _, yes := range []string{digest[1], "--over-running"} {
		_, stderr := book(1, 2, yes)
		if !strings.Contains(stderr, "who is using it has changed since you looked: gpu01:1 is in use by ann") {
			t.Errorf("%s: %s", yes, stderr)
		}
	}
	if _, stderr := book(1, 1, digest[1]); !strings.Contains(stderr, "has changed since you looked") {
		t.Errorf("others at the first look: %s", stderr)
	}

	// Programs are told the same, and pass it back.
	stdout, _ := book(1, 0, "--json")
	var refused struct {
		Action      string
		Running     []struct{ Place, User string }
		OverRunning string `json:"over_running"`
	}
	if err := json.Unmarshal([]byte(stdout), &refused); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	if refused.Action != "refused" || len(refused.Running) != 1 || refused.Running[0].Place != "gpu01:0" ||
		refused.Running[0].User != "ann" {
		t.Errorf("refused as JSON: %s", stdout)
	}
	if _, err := os.Stat(c.file); !os.IsNotExist(err) {
		t.Errorf("a refusal booked: %v", err)
	}
	if _, stderr := book(0, 0, "--over-running="+refused.OverRunning, "--json"); !strings.Contains(stderr,
		"note: gpu01:0 is in use by ann") {
		t.Errorf("what it went over is not named: %s", stderr)
	}
}

// Many want the same GPU at the same moment: one of them gets it.
func TestSimultaneousBookingsHaveOneWinner(t *testing.T) {
	c := newCounter(t)
	var won, lost atomic.Int32
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			var out, problems bytes.Buffer
			args := []string{"book", "gpu01:0", "--for", "1d", "--name", fmt.Sprintf("u%d", i)}
			switch code := cli.Main(args, strings.NewReader(""), &out, &problems); {
			case code == 0:
				won.Add(1)
			case code == 1 && strings.Contains(problems.String(), "is booked by u"):
				lost.Add(1)
			default:
				t.Errorf("exit %d: %s", code, problems.String())
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || lost.Load() != 5 {
		t.Errorf("%d got it and %d were refused", won.Load(), lost.Load())
	}
	if got := strings.Count(c.read(), `"name": "u`); got != 1 {
		t.Errorf("%d bookings in the file, want one", got)
	}
}

func TestLatin1StaysLatin1(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "comments.json")
	before := "{\n  \"gpu01\": [ { \"name\": \"P\xe8re\", \"date\": \"2020-01-01\" } ]\n}\n"
	if err := os.WriteFile(file, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GPUBOARD_BOOKING_NAME", "zoë")
	book := func(comment string) (int, string) {
		var out, problems bytes.Buffer
		code := cli.Main([]string{"book", "gpu01:1", "--for", "1d", "--comment", comment, "--comments", file},
			strings.NewReader(""), &out, &problems)
		return code, problems.String()
	}
	if code, stderr := book("日本"); code != 1 || !strings.Contains(stderr, "iconv") {
		t.Errorf("a character that is not in Latin-1: exit %d, %s", code, stderr)
	}
	if code, stderr := book("für später"); code != 0 {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	data, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(data, []byte("P\xe8re")) || !bytes.Contains(data, []byte("f\xfcr sp\xe4ter")) ||
		!bytes.Contains(data, []byte("zo\xeb")) {
		t.Errorf("the encoding changed: %q, %v", data, err)
	}
}

// Every command of docs/bookings.md is run by a script, word for word.
func TestDocumentedCommandsAreRun(t *testing.T) {
	doc, err := os.ReadFile("../../docs/bookings.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/script/docs_bookings.txtar")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^(?:    |\$ )?(gpuboard .*)$`).FindAllSubmatch(doc, -1)
	if len(commands) < 10 {
		t.Fatalf("only %d commands found", len(commands))
	}
	for _, m := range commands {
		// A script quotes with single quotes where a shell has double ones.
		if command := strings.ReplaceAll(string(m[1]), `"`, `'`); !strings.Contains(string(script),
			"exec "+command+"\n") {
			t.Errorf("docs/bookings.md says %q, and no script runs it", command)
		}
	}
}

// What cannot be meant is refused with exit code 2 before anything is written.
func TestBookUsageErrors(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GPUBOARD_CONFIG", "")
	t.Setenv("GPUBOARD_TIMEZONE", "UTC")
	t.Setenv("GPUBOARD_BOOKING_NAME", "ada")
	t.Setenv("GPUBOARD_COMMENTS", filepath.Join(dir, "comments.json"))
	t.Setenv("GPUBOARD_DATA", dir)
	t.Setenv("GPUBOARD_SITE", dir)
	for _, tc := range []struct {
		args, want string
		env        string
	}{
		{args: "gpu01:0 --until 11/12", want: "with slashes, some read day/month"},
		{args: "gpu01:0 --until 2019-01-01", want: "is over"},
		{args: "gpu01:0 --until 2026-11-19 --now 2026-11-20T10:00:00Z", want: "Fri 20 Nov 2026 00:00 UTC\n"},
		{args: "gpu01:0 --from 2019-01-01 --for 1d", want: "hint: leave --from out"},
		{args: "gpu01:0 --from 2099-01-02 --until 2099-01-01", want: "before the beginning"},
		{args: "gpu01:0 --for 0d", want: "a length of time is from 1m"},
		{args: "gpu01:x --for 1d", want: "names no GPU"},
		{args: "gpu01:0,, --for 1d", want: "names no GPU"},
		{args: "gpu01:3-1 --for 1d", want: "no range of GPUs"},
		{args: "../etc:0 --for 1d", want: "../etc"},
		{args: "gpu01:0 --kind party", want: "neither booking nor maintenance"},
		{args: "gpu01:0 --model a100", want: "go with --gpus"},
		{args: "--gpus 0", want: "at least 1"},
		{args: "--gpus 1 --min-memory lots", want: "is no amount of memory"},
		{args: "gpu01:0 --for 1d --until fri", want: "both say when it ends"},
		{args: "gpu01:0 --until 18h",
			want: `--until: "18h" can mean a time of day and a length of time: write "18:00" or "in 18h"`},
		{args: "gpu01:0 --from 9h --for 1d",
			want: `--from: "9h" can mean a time of day and a length of time: write "09:00" or "in 9h"`},
		{args: "extend gpu01:0", want: "how long"},
		{args: "extend gpu01:0 --for 1d gpu02", want: `extend takes WHICH: "gpu02" is too much`},
		{args: "extend gpu01:0 --for 1d --until fri", want: "both say when it ends"},
		{args: "extend gpu01:0 --until 18h", want: `write "18:00" or "in 18h"`},
		{args: "extend gpu01:x --for 1d", want: "names no GPU"},
		{args: "gpu01:0 --now yesterday", want: "RFC 3339"},
		{args: "gpu01:0 --timezone Mars/Olympus", want: "is not a time zone"},
		{args: "gpu01:0", env: "GPUBOARD_BOOKING_DEFAULT_DURATION=soon",
			want: "booking.default_duration from GPUBOARD_BOOKING_DEFAULT_DURATION"},
		{args: "gpu01:0", env: "GPUBOARD_BOOKING_MAX_DURATION=-1d", want: "booking.max_duration from"},
		{args: "gpu01:0 --for 1d --name " + strings.Repeat("x", 200), want: "its name is 200 bytes long"},
		{args: "gpu01:0 --for 1d --comment " + strings.Repeat("x", 3000), want: "its comment is 3000 bytes long"},
	} {
		if name, value, ok := strings.Cut(tc.env, "="); ok {
			t.Setenv(name, value)
		}
		var out, problems bytes.Buffer
		words := strings.Fields(tc.args)
		if words[0] != "extend" {
			words = append([]string{"book"}, words...)
		}
		code := cli.Main(words, strings.NewReader(""), &out, &problems)
		if name, _, ok := strings.Cut(tc.env, "="); ok {
			t.Setenv(name, "")
		}
		if code != 2 || !strings.Contains(problems.String(), tc.want) || out.Len() > 0 {
			t.Errorf("%s: exit %d, want 2 and %q\n%s%s", tc.args, code, tc.want, out.String(), problems.String())
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "comments.json")); !os.IsNotExist(err) {
		t.Errorf("a file was made: %v", err)
	}
}

// Whenever pruning is killed, each booking is in the file or in the archive,
// both are whole, and the next run ends what was begun.
func TestPruneKilledAtAnyMoment(t *testing.T) {
	const old = 40
	dir := t.TempDir()
	file, archive := filepath.Join(dir, "comments.json"), filepath.Join(dir, "comments.archive.json")
	var text strings.Builder
	text.WriteString("{\n  \"gpu01\": { \"0\": [\n")
	for i := range old {
		fmt.Fprintf(&text, "    { \"name\": \"u\", \"date\": \"2020-01-%02d\", \"comment\": \"c%d\" },\n", i%28+1, i)
	}
	text.WriteString("    { \"name\": \"u\", \"comment\": \"stays\" }\n  ] }\n}\n")

	inFile := func() map[string]int {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cal := booking.Parse(file, data, booking.Zone{Location: time.UTC}, booking.Options{})
		if cal.Broken {
			t.Fatalf("the file is broken: %v", cal.Problems)
		}
		have := map[string]int{}
		for _, b := range cal.Bookings {
			have[b.Comment]++
		}
		return have
	}
	inArchive := func() map[string]int {
		have := map[string]int{}
		data, err := os.ReadFile(archive)
		if errors.Is(err, fs.ErrNotExist) {
			return have
		}
		for line := range strings.Lines(string(data)) {
			var b struct{ Comment string }
			if err := json.Unmarshal([]byte(line), &b); err != nil || !strings.HasSuffix(line, "\n") {
				t.Fatalf("the archive is broken at %q: %v", line, err)
			}
			have[b.Comment]++
		}
		return have
	}
	prune := func() *exec.Cmd {
		cmd := exec.Command("gpuboard", "bookings", "--prune", "--comments", file)
		cmd.Env = append(os.Environ(), "GPUBOARD_TIMEZONE=UTC", "GPUBOARD_CONFIG=", "GPUBOARD_SITE="+dir,
			"GPUBOARD_DATA="+dir)
		return cmd
	}
	between := 0
	for i := range 6 {
		if err := errors.Join(os.WriteFile(file, []byte(text.String()), 0o644), os.RemoveAll(archive)); err != nil {
			t.Fatal(err)
		}
		cmd := prune()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(12+10*i) * time.Millisecond) // the moment of the kill is what is tried
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		have, moved := inFile(), inArchive()
		for n := range old {
			c := fmt.Sprintf("c%d", n)
			if have[c]+moved[c] == 0 || have[c] > 1 || moved[c] > 1 {
				t.Fatalf("killed at %d: %s is %d times in the file and %d times in the archive", i, c, have[c],
					moved[c])
			}
		}
		if len(moved) > 0 && len(have) > 1 {
			between++
		}
		if out, err := prune().CombinedOutput(); err != nil {
			t.Fatalf("afterwards: %v\n%s", err, out)
		}
		have, moved = inFile(), inArchive()
		if len(have) != 1 || have["stays"] != 1 || len(moved) != old {
			t.Fatalf("afterwards: %d in the file, %d in the archive", len(have), len(moved))
		}
		for c, n := range moved {
			if n != 1 {
				t.Fatalf("afterwards %s is %d times in the archive", c, n)
			}
		}
	}
	t.Logf("killed between the two files %d times", between)
}
