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

// TestAVerbIsMadeByItsName: a run makes the one command that stands first, so
// the list has to have each under the name by which cobra knows it.
func TestAVerbIsMadeByItsName(t *testing.T) {
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, now: time.Now, getenv: func(string) string { return "" }}
	seen := map[string]bool{}
	for _, v := range a.commands() {
		c := v.make()
		if c.Name() != v.name || seen[v.name] {
			t.Errorf("the list calls %q what is %q (seen before: %v)", v.name, c.Name(), seen[v.name])
		}
		seen[v.name] = true
		a.args = []string{v.name, "--help"}
		if got := a.wanted(); len(got) != 1 || got[0]().Name() != v.name {
			t.Errorf("%s makes %d commands", v.name, len(got))
		}
	}
	for _, args := range [][]string{nil, {"--config", "collect"}, {"help", "collect"}, {"colect"}, {"__complete", "col"}} {
		a.args = args
		if got := a.wanted(); len(got) != len(seen) {
			t.Errorf("%q makes %d of %d commands", args, len(got), len(seen))
		}
	}
}

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
	dir := t.TempDir()
	for _, d := range []string{"keys", "known"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Date(2026, 11, 20, 9, 42, 10, 0, time.UTC)
	a := &app{stderr: io.Discard, now: func() time.Time { return start.Add(10 * time.Minute) }}
	cfg := settingsOf(t, map[string]string{"nvidia_smi": "no-such-program"})
	nodes, err := a.demoNodes(cfg, dir, demo.New(1, start), start)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
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
