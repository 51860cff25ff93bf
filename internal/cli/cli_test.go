package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuboard/internal/config"
	"gpuboard/internal/testenv/need"
)

// settingsOf are the settings in force with these variables, and defaults besides.
func settingsOf(t *testing.T, values map[string]string) *config.Config {
	t.Helper()
	env := map[string]string{}
	for name, value := range values {
		env[config.Among(config.Keys(), name).Env()] = value
	}
	cfg, err := config.Load(config.Sources{Getenv: func(name string) string { return env[name] }})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// loadText reads a configuration file with this content.
func loadText(t *testing.T, text string) (*config.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gpuboard.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(config.Sources{Getenv: func(string) string { return "" }, Flag: func(name string) (string, bool) { return path, name == "config" }})
}

// TestDemoOnASlowMachine: where making up the history takes ten minutes, the first page
// is of snapshots that are new, and shows the GPUs that a node had before its driver stopped.
func TestDemoOnASlowMachine(t *testing.T) {
	need.Time(t, "it makes up a month of history")
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 11, 20, 9, 42, 10, 0, time.UTC)
	var asked atomic.Int64
	now := func() time.Time {
		if asked.Add(1) == 1 {
			return start
		}
		return start.Add(10 * time.Minute)
	}
	address, stdout := io.Pipe()
	a := &app{stdout: stdout, stderr: io.Discard, now: now}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := a.demo(ctx, settingsOf(t, map[string]string{"nvidia_smi": "no-such-program"}), l)
		stdout.CloseWithError(err)
		ended <- err
	}()
	line, err := bufio.NewReader(address).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(strings.TrimSpace(line) + "api/v1/board.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b struct {
		Hosts []struct {
			Name, State string
			GPUs        []struct{ State string }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&b); err != nil {
		t.Fatal(err)
	}
	up := 0
	for _, h := range b.Hosts {
		if h.State == "up" {
			up++
		}
		if h.Name == "iris" && (len(h.GPUs) != 2 || h.GPUs[0].State != "unknown") {
			t.Errorf("iris has %v, want two GPUs that are unknown", h.GPUs)
		}
	}
	if up < len(b.Hosts)/2 {
		t.Errorf("%d of %d hosts are up: %v", up, len(b.Hosts), b.Hosts)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestColorsAndUnicodeOfStdout(t *testing.T) {
	for _, c := range []struct {
		env             string
		colors, unicode bool
		width           int
	}{
		{"", false, true, 80},
		{"CLICOLOR_FORCE=1", true, true, 80},
		{"CLICOLOR_FORCE=0", false, true, 80},
		{"CLICOLOR_FORCE=1 NO_COLOR=1", false, true, 80},
		{"CLICOLOR_FORCE=1 TERM=dumb", true, true, 80},
		{"COLUMNS=132 LANG=C", false, false, 132},
		{"COLUMNS=-1 LANG=de_DE.UTF-8", false, true, 80},
		{"COLUMNS=999999 LC_ALL=C LANG=de_DE.UTF-8", false, false, 1000},
		{"LC_CTYPE=en_US.utf8 LANG=C", false, true, 80},
	} {
		a := &app{stdout: &strings.Builder{}, getenv: func(name string) string {
			for pair := range strings.FieldsSeq(c.env) {
				if k, v, _ := strings.Cut(pair, "="); k == name {
					return v
				}
			}
			return ""
		}}
		if a.colors() != c.colors || a.unicode() != c.unicode || a.width(80) != c.width {
			t.Errorf("%s: colours %v, unicode %v, %d columns", c.env, a.colors(), a.unicode(), a.width(80))
		}
	}
}

func TestDiffLines(t *testing.T) {
	for _, tc := range []struct{ name, before, after, want string }{
		{"nothing", "a\nb\n", "a\nb\n", ""},
		{"new file", "", "{\n}\n", "+ {\n+ }\n"},
		{"in the middle", "1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\nx\n5\n6\n7\n", "  1\n  2\n  3\n- 4\n+ x\n  5\n  6\n  7\n"},
		{"two places", "a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n", "- a\n+ A\n  1\n  2\n  3\n  ...\n  5\n  6\n  7\n- b\n+ B\n"},
		{"ends of lines", "a\r\nb\r\n", "a\r\nc\r\n", "  a\n- b\n+ c\n"},
		{"Latin-1", "P\xe8re\n", "P\xe8re\nMerc\xe9\n", "  Père\n+ Mercé\n"},
		{"hostile", "", "\x1b[31m\u202e\n", "+ \\x1b[31m\\u202e\n"},
	} {
		if got := diffLines([]byte(tc.before), []byte(tc.after)); got != tc.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tc.name, got, tc.want)
		}
	}
	// Beyond the bound every line is shown, and it does not take long.
	long := strings.Repeat("x\n", 3000)
	if got := diffLines([]byte("a\n"+long), []byte(strings.ReplaceAll(long, "x", "y"))); strings.Count(got, "\n- ") != 3000 || strings.Count(got, "+ y") != 3000 {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
}

func TestHelpFitsOneScreen(t *testing.T) {
	help := rootHelp(Root())
	if lines := strings.Count(help, "\n"); lines > 24 {
		t.Errorf("help has %d lines, and a terminal has 24", lines)
	}
	for line := range strings.Lines(help) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("a line of help has %d characters: %s", n, line)
		}
	}
	for _, c := range Root().Commands() {
		name := c.Name()
		if name == "help" || name == "completion" {
			continue
		}
		if !strings.Contains(help, " "+name+" ") {
			t.Errorf("help does not list %s", name)
		}
		if !strings.HasPrefix(commandHelp(c), "  ") || !strings.Contains(strings.SplitN(commandHelp(c), "\n", 2)[0], name) {
			t.Errorf("help of %s does not begin with an example:\n%.200s", name, commandHelp(c))
		}
	}
}

// A loop that somebody started beside a demonstration pushes while its files are removed.
func TestRemoveDemoBesideALoop(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	drop := filepath.Join(dir, "drop")
	if err := os.MkdirAll(drop, 0o755); err != nil {
		t.Fatal(err)
	}
	var loops sync.WaitGroup
	for i := range 4 {
		loops.Go(func() {
			for n, end := 0, time.Now().Add(200*time.Millisecond); time.Now().Before(end); n++ {
				_ = os.WriteFile(filepath.Join(drop, fmt.Sprint(i, n)), nil, 0o644)
			}
		})
	}
	for pushed, _ := os.ReadDir(drop); len(pushed) == 0; pushed, _ = os.ReadDir(drop) {
	}
	if err := removeDemo(dir); err != nil {
		t.Error(err)
	}
	loops.Wait()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the files of the demonstration: %v", err)
	}
}
