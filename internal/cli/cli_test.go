package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/config"
	"gpuboard/internal/demo"
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

// A machine that makes up the history slowly still shows which GPUs a node had
// before its driver stopped.
func TestDemoNodesBeginAtTheStart(t *testing.T) {
	start := time.Date(2026, 11, 20, 9, 42, 10, 0, time.UTC)
	a := &app{stderr: io.Discard, now: func() time.Time { return start.Add(10 * time.Minute) }}
	cfg := settingsOf(t, map[string]string{"nvidia_smi": "no-such-program"})
	for _, n := range a.demoNodes(cfg, demo.New(1, start), start) {
		if n.host != "iris" {
			continue
		}
		first, err := n.snap(t.Context())
		if err != nil || len(first.GPUs) != 2 {
			t.Fatalf("its first snapshot has no GPUs (%v)", err)
		}
		next, err := n.snap(t.Context())
		if err != nil || next.GPUs != nil || !next.CollectedAt.After(first.CollectedAt.Time) {
			t.Fatalf("its driver does not stop (%v)", err)
		}
		return
	}
	t.Fatal("there is no iris")
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
