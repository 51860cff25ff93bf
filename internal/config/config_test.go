package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/failure"
)

// try loads a configuration file with these variables and flags (--name=value).
func try(t *testing.T, file string, env map[string]string, flags ...string) (*Config, error) {
	t.Helper()
	given := map[string]string{}
	for _, f := range flags {
		name, value, _ := strings.Cut(strings.TrimPrefix(f, "--"), "=")
		given[name] = value
	}
	if file != "" {
		given["config"] = filepath.Join(t.TempDir(), "gpuboard.yml")
		if err := os.WriteFile(given["config"], []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Load(Sources{
		Getenv: func(k string) string { return env[k] },
		Flag:   func(name string) (string, bool) { v, ok := given[name]; return v, ok },
	})
}

func TestFlagsOverVariablesOverFileOverDefaults(t *testing.T) {
	const file = "title: from the file\nevery: 30s\nlab: ours\n"
	env := map[string]string{"GPUBOARD_TITLE": "from a variable", "GPUBOARD_EVERY": "40s"}
	cfg, err := try(t, file, env, "--title=from a flag")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ key, value, origin string }{
		{"title", "from a flag", "--title"},
		{"every", "40s", "GPUBOARD_EVERY"},
		{"lab", "ours", "gpuboard.yml:3"},
		{"nvidia_smi", "nvidia-smi", "default"},
	} {
		if got := cfg.String(tt.key); got != tt.value {
			t.Errorf("%s = %q, want %q", tt.key, got, tt.value)
		}
		if got := cfg.Origin(tt.key); !strings.HasSuffix(got, tt.origin) {
			t.Errorf("%s comes from %q, want %q", tt.key, got, tt.origin)
		}
	}
	if cfg.Duration("every") != 40*time.Second {
		t.Errorf("every is %v", cfg.Duration("every"))
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
container_uids: trusted
short_names:
  NVIDIA A100-SXM4-40GB: A100
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Hosts) != 2 || cfg.Hosts[1].Name != "gpu02" || cfg.Hosts[1].GPUs != 8 ||
		cfg.Hosts[1].Title != "The big one" || cfg.Hosts[1].Maintenance != "new fans" {
		t.Errorf("hosts %+v", cfg.Hosts)
	}
	if got := cfg.List("identity"); len(got) != 2 || got[1] != "b" {
		t.Errorf("identity %q", got)
	}
	if cfg.String("consul.service") != "gpus" || cfg.String("consul.node_meta") != "rack=2" {
		t.Errorf("consul %q %q", cfg.String("consul.service"), cfg.String("consul.node_meta"))
	}
	if !cfg.Board().TrustContainerUIDs {
		t.Error("container_uids: trusted is not in force")
	}
	if cfg.ShortNames["NVIDIA A100-SXM4-40GB"] != "A100" {
		t.Errorf("short names %v", cfg.ShortNames)
	}
}

func TestConfigurationErrorsPointAtThePlace(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"unknown key", "title: x\nintervall: 20s\n",
			`gpuboard.yml:2:1: there is no setting "intervall"; did you mean "interval"?`},
		{"unknown key in a section", "consul:\n  servise: x\n",
			`:2:3: there is no setting "consul.servise"; did you mean "consul.service"?`},
		{"a setting of an earlier version", "history:\n  hourly: 2160h\n  raw: 168h\n",
			":3:3: the setting history.raw is gone: delete this line"},
		{"nothing like it", "zzzzzzzz: 1\n", `there is no setting "zzzzzzzz"` + "\n"},
		{"bad duration", "every: soon\n", `:1:8: every: "soon" is not a duration; write it as 20s, 5m or 24h`},
		{"negative duration", "every: -1s\n", `"-1s" is not a duration`},
		{"twice", "lab: a\nlab: b\n", `:2:1: lab stands in line 1 already`},
		{"twice, spelt apart", "no_history: true\nno-history: true\n", "no_history is set twice"},
		{"list for one value", "title: [a]\n", "takes one value, not a list"},
		{"section for one value", "title:\n  a: b\n", "takes a plain value"},
		{"not a mapping", "- a\n", "lines of the form key: value"},
		{"bad host", "hosts: [../x]\n", "not a host name"},
		{"bad host field", "hosts:\n  - name: a\n    gpu: 3\n", `a host has no "gpu"; did you mean "gpus"?`},
		{"hosts without commas", "hosts: gpu01 gpu02\n",
			`:1:8: hosts: not a host name: "gpu01 gpu02": letters, digits, inner hyphens and dots only; write a list`},
		{"hosts without a blank", "hosts:\n  -gpu01\n", ":2:3: write a blank behind the dash"},
		{"hosts without dashes", "hosts:\n  gpu01: 4\n",
			"hosts: write a list, in which each host begins with a dash, or names with commas"},
		{"no colon", "lab: a\ntitle = x\n", ":2:1: write this line as key: value"},
		{"a value for a section", "booking: true\n", ":1:10: booking takes, below it, lines of the form key: value"},
		{"no line of a hook", "notify:\n  - {command: [a], on: [b]}\n",
			`a hook has no "on"; there are command, daily, `},
		{"pairs for a list", "sites:\n  north: https://x\n", "sites takes NAME=URL, with = between them"},
		{"a daily report", "notify:\n  - {command: [a], report: daily}\n",
			`"daily" is neither weekly nor monthly; a summary each day is daily: 08:00`},
		{"no scheme", "sites: north=gpu.example.org/n\n",
			"north: an address begins with its scheme: https://gpu.example.org/n"},
		{"bad gpus", "hosts:\n  - name: a\n    gpus: many\n", `"many" is not a number of GPUs`},
		{"not YAML", "lab: [\n", "gpuboard.yml:1:"},
		{"bad zone", "timezone: Mars/Base\n",
			`:1:11: timezone: "Mars/Base" is not a time zone; names are those of the IANA list`},
		{"bad word", "users: nick\n", `:1:8: users: "nick" is none of full, initials, hash, none`},
		{"no word", "commands:\n", `"" is none of program, none`},
		{"bad system", "compat: [vesta, ganglia]\n",
			`compat: "ganglia" is none of vesta, nvgpu, gpu-cluster-monitor, all`},
		{"bad source", "hosts_from: [consul, dns]\n", `hosts_from: "dns" is none of consul, list, drops`},
		{"empty hook", "notify:\n  - {}\n",
			`:2:5: a hook has one of webhook, webhook_file, mail and command, and this one has 0`},
		{"not a boolean", "accept_shrink: perhaps\n", `"perhaps" is neither true nor false`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := try(t, tt.file, nil)
			if err == nil {
				t.Fatal("no error")
			}
			if exit := failure.Explain(err).Exit; exit != failure.ExitUsage {
				t.Errorf("exit status of %v: %d", err, exit)
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

// TestHostsInALine: names with commas between them are the hosts, as those of a list are.
func TestHostsInALine(t *testing.T) {
	cfg, err := try(t, "hosts: gpu01, GPU02\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Hosts) != 2 || cfg.Hosts[0].Name != "gpu01" || cfg.Hosts[1].Name != "gpu02" {
		t.Errorf("hosts are %+v", cfg.Hosts)
	}
}

func TestMissingConfigurationThatWasAskedFor(t *testing.T) {
	if _, err := try(t, "", nil, "--config=/nowhere/gpuboard.yml"); err == nil {
		t.Error("a file that was named and is not there is no error")
	}
	if _, err := try(t, "", map[string]string{"GPUBOARD_EVERY": "never"}); err == nil ||
		!strings.Contains(err.Error(), "GPUBOARD_EVERY") {
		t.Errorf("error is %v, want one that names the variable", err)
	}
}

func TestEveryKeyIsSound(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Keys() {
		if seen[k.Flag()] || seen[k.Env()] {
			t.Errorf("%s: its flag or variable is another's", k.Name)
		}
		seen[k.Flag()], seen[k.Env()] = true, true
		if err := k.check(k.Default); err != nil {
			t.Errorf("%s: its own default: %v", k.Name, err)
		}
		if k.Help == "" || strings.HasSuffix(k.Help, ".") {
			t.Errorf("%s: help %q", k.Name, k.Help)
		}
	}
}

func TestAliasesOfTheOlderBoard(t *testing.T) {
	dir := t.TempDir()
	data, older := filepath.Join(dir, "data"), filepath.Join(dir, "older")
	for _, d := range []string{data, older} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := &Config{values: map[string]string{"data": data, "legacy": older, "aliases": ""}}
	write := func(path string) {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.AliasesPath(); got != data+"/aliases.csv" {
		t.Errorf("with neither: %s", got)
	}
	write(older + "/aliases.csv")
	if got := c.AliasesPath(); got != older+"/aliases.csv" {
		t.Errorf("with the older one: %s", got)
	}
	write(data + "/aliases.csv")
	if got := c.AliasesPath(); got != data+"/aliases.csv" {
		t.Errorf("with both: %s", got)
	}
	c.values["aliases"] = "/elsewhere"
	if got := c.AliasesPath(); got != "/elsewhere" {
		t.Errorf("with a setting: %s", got)
	}
}
