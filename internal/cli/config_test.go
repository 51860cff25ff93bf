package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/failure"
)

// try loads a configuration as a command with every setting as a flag would.
func try(t *testing.T, file string, env map[string]string, flags ...string) (*config, error) {
	t.Helper()
	a := &app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, now: time.Now, getenv: func(k string) string { return env[k] }}
	c := &cobra.Command{Use: "test", RunE: func(*cobra.Command, []string) error { return nil }}
	c.Flags().String("config", "", "")
	for _, k := range keys() {
		a.flags(c, k.name)
	}
	if file != "" {
		path := filepath.Join(t.TempDir(), "gpuboard.yml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "--config="+path)
	}
	if err := c.ParseFlags(flags); err != nil {
		t.Fatal(err)
	}
	return a.load(c)
}

func TestFlagsOverVariablesOverFileOverDefaults(t *testing.T) {
	const file = "title: from the file\nevery: 30s\nlab: ours\n"
	env := map[string]string{"GPUBOARD_TITLE": "from a variable", "GPUBOARD_EVERY": "40s"}
	cfg, err := try(t, file, env, "--title", "from a flag")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ key, value, origin string }{
		{"title", "from a flag", "--title"},
		{"every", "40s", "GPUBOARD_EVERY"},
		{"lab", "ours", "gpuboard.yml:3"},
		{"nvidia_smi", "nvidia-smi", "default"},
	} {
		if got := cfg.string(tt.key); got != tt.value {
			t.Errorf("%s = %q, want %q", tt.key, got, tt.value)
		}
		if got := cfg.origin[tt.key]; !strings.HasSuffix(got, tt.origin) {
			t.Errorf("%s comes from %q, want %q", tt.key, got, tt.origin)
		}
	}
	if cfg.duration("every") != 40*time.Second {
		t.Errorf("every is %v", cfg.duration("every"))
	}
}

func TestConfigurationFile(t *testing.T) {
	cfg, err := try(t, `
# everything that is not a plain value
hosts:
  - gpu01
  - name: GPU02
    title: The big one
    gpus: 8
    maintenance: new fans
    note:
identity: [a, b]
consul:
  service: gpus
  node-meta: [rack=2]
short_names:
  NVIDIA A100-SXM4-40GB: A100
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.hosts) != 2 || cfg.hosts[1].Name != "gpu02" || cfg.hosts[1].GPUs != 8 || cfg.hosts[1].Title != "The big one" || cfg.hosts[1].Maintenance != "new fans" {
		t.Errorf("hosts %+v", cfg.hosts)
	}
	if got := cfg.list("identity"); len(got) != 2 || got[1] != "b" {
		t.Errorf("identity %q", got)
	}
	if cfg.string("consul.service") != "gpus" || cfg.string("consul.node_meta") != "rack=2" {
		t.Errorf("consul %q %q", cfg.string("consul.service"), cfg.string("consul.node_meta"))
	}
	if cfg.shortNames["NVIDIA A100-SXM4-40GB"] != "A100" {
		t.Errorf("short names %v", cfg.shortNames)
	}
}

func TestConfigurationErrorsPointAtThePlace(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"unknown key", "title: x\nintervall: 20s\n", `gpuboard.yml:2:1: there is no setting "intervall"; did you mean "interval"?`},
		{"unknown key in a section", "consul:\n  servise: x\n", `:2:3: there is no setting "consul.servise"; did you mean "consul.service"?`},
		{"nothing like it", "zzzzzzzz: 1\n", `there is no setting "zzzzzzzz"` + "\n"},
		{"bad duration", "every: soon\n", `:1:8: every: "soon" is not a duration; write it as 20s, 5m or 24h`},
		{"negative duration", "every: -1s\n", `"-1s" is not a duration`},
		{"twice", "lab: a\nlab: b\n", `:2:1: mapping key "lab" already defined`},
		{"twice, spelt apart", "no_history: true\nno-history: true\n", "no_history is set twice"},
		{"list for one value", "title: [a]\n", "takes one value, not a list"},
		{"section for one value", "title:\n  a: b\n", "takes a plain value"},
		{"not a mapping", "- a\n", "lines of the form key: value"},
		{"bad host", "hosts: [../x]\n", "not a host name"},
		{"bad host field", "hosts:\n  - name: a\n    gpu: 3\n", `a host has no "gpu"; did you mean "gpus"?`},
		{"bad gpus", "hosts:\n  - name: a\n    gpus: many\n", `"many" is not a number of GPUs`},
		{"not YAML", "lab: [\n", "gpuboard.yml:1:"},
		{"not a boolean", "accept_shrink: perhaps\n", `"perhaps" is neither true nor false`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := try(t, tt.file, nil)
			if err == nil {
				t.Fatal("no error")
			}
			var f *failure.Error
			if !errors.As(err, &f) || f.Exit != exitUsage {
				t.Errorf("exit code of %v, want %d", err, exitUsage)
			}
			if !strings.Contains(err.Error()+"\n", tt.want) {
				t.Errorf("error is\n%v\nwant\n%s", err, tt.want)
			}
		})
	}
	_, err := try(t, "title: x\n  every: 3s\nlab: [\n", nil)
	if err == nil {
		t.Error("a broken file was read")
	}
}

func TestErrorShowsLineAndCaret(t *testing.T) {
	_, err := try(t, "title: x\nevery: soon\n", nil)
	if err == nil || !strings.Contains(err.Error(), "\n    every: soon\n           ^") {
		t.Errorf("error is\n%v", err)
	}
}

func TestMissingConfigurationThatWasAskedFor(t *testing.T) {
	if _, err := try(t, "", nil, "--config=/nowhere/gpuboard.yml"); err == nil {
		t.Error("a file that was named and is not there is no error")
	}
	if _, err := try(t, "", map[string]string{"GPUBOARD_EVERY": "never"}); err == nil || !strings.Contains(err.Error(), "GPUBOARD_EVERY") {
		t.Errorf("error is %v, want one that names the variable", err)
	}
}

func TestEveryKeyIsSound(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range keys() {
		if seen[k.flag()] || seen[k.env()] {
			t.Errorf("%s: its flag or variable is another's", k.name)
		}
		seen[k.flag()], seen[k.env()] = true, true
		if err := k.check(k.value); err != nil {
			t.Errorf("%s: its own default: %v", k.name, err)
		}
		if k.help == "" || strings.HasSuffix(k.help, ".") {
			t.Errorf("%s: help %q", k.name, k.help)
		}
	}
}

func TestUntilNextKeepsToThePhase(t *testing.T) {
	const every, phase = 20 * time.Second, 7 * time.Second
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for range 100 {
		wait := untilNext(at, every, phase)
		if wait <= 0 || wait > every {
			t.Fatalf("at %v: wait %v", at, wait)
		}
		next := at.Add(wait)
		if d := time.Duration(next.UnixNano()) % every; d != phase {
			t.Fatalf("next at %v, %v after a multiple of the interval", next, d)
		}
		at = next.Add(3*time.Second + time.Millisecond)
	}
}
