package pull_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/collector"
	"gpuboard/internal/cli"
	"gpuboard/internal/config"
	"gpuboard/internal/doctor"
	"gpuboard/internal/node"
	"gpuboard/internal/pull"
	"gpuboard/internal/spool"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/internal/watch"
	"gpuboard/publisher"
)

// A lab is a web host with a node that pushes, and the same machine behind an sshd.
type lab struct {
	t      *testing.T
	dir    string
	sshd   *sshtest.Server
	login  string
	smi    string
	config string // the file
}

func newLab(t *testing.T, capture string) *lab {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, dir: t.TempDir()}
	l.smi = filepath.Join(l.dir, "nvidia-smi")
	if err := os.Symlink(self, l.smi); err != nil {
		t.Fatal(err)
	}
	work := exec.Command("sleep", "600")
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { work.Process.Kill(); work.Wait() })
	file, err := filepath.Abs("../../collector/nvidiasmi/testdata/" + capture)
	if err != nil {
		t.Fatal(err)
	}
	pids := strings.TrimSuffix(strings.Repeat(fmt.Sprint(work.Process.Pid, ","), 8), ",")
	t.Setenv("GPUBOARD_FAKE_SMI", file)
	t.Setenv("GPUBOARD_FAKE_SMI_PIDS", strings.ReplaceAll(pids, " ", ""))
	l.sshd = sshtest.Start(t,
		sshtest.Options{Config: fmt.Sprintf("SetEnv PATH=%s:%s GPUBOARD_FAKE_SMI=%s GPUBOARD_FAKE_SMI_PIDS=%s\n",
			l.dir, os.Getenv("PATH"), file, os.Getenv("GPUBOARD_FAKE_SMI_PIDS"))})
	l.login = fmt.Sprintf("%s@%s:%d", l.sshd.User, l.sshd.Host, l.sshd.Port)
	if err := os.MkdirAll(filepath.Join(l.dir, "data", "drop"), 0o755); err != nil {
		t.Fatal(err)
	}
	return l
}

// load reads a configuration with these nodes to be pulled.
func (l *lab) load(pulled string) *config.Config {
	l.t.Helper()
	l.config = filepath.Join(l.dir, "gpuboard.yml")
	text := fmt.Sprintf(
		"data: %[1]s/data\nsite: %[1]s/site\nstate: %[1]s/state\nidentity: %[2]s\nknown_hosts: %[3]s\nno_help: true\npull: %[4]s\n",
		l.dir, l.sshd.Key, l.sshd.KnownHosts, pulled)
	if err := os.WriteFile(l.config, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	cfg, err := config.Load(config.Sources{Getenv: func(name string) string {
		if name == "GPUBOARD_CONFIG" {
			return l.config
		}
		return ""
	}})
	if err != nil {
		l.t.Fatal(err)
	}
	cfg.Once = true
	return cfg
}

// push brings what this machine says into the drop of a host.
func (l *lab) push(host string) {
	l.t.Helper()
	snap, err := collector.New(collector.Options{Host: host, Version: "test", NvidiaSMI: l.smi}).Collect(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	snap.IntervalSeconds = 20
	s, err := spool.Open(filepath.Join(l.dir, "spool-"+host))
	if err != nil {
		l.t.Fatal(err)
	}
	defer s.Close()
	if err := s.Add(snap); err != nil {
		l.t.Fatal(err)
	}
	p, err := publisher.New(
		publisher.Options{Target: publisher.Target{Scheme: "file", Dir: filepath.Join(l.dir, "data")}, Host: host})
	if err != nil {
		l.t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Publish(l.t.Context(), s); err != nil {
		l.t.Fatal(err)
	}
}

// TestAPulledNodeHasTheSameRow: in board.json, a node that pushes and one that is pulled differ by their names alone, if
// they answer the same.
func TestAPulledNodeHasTheSameRow(t *testing.T) {
	for _, capture := range []string{"mixed-4x-processes-535.xml", "mig-h100-610.xml", "lost-1of2-580.xml"} {
		t.Run(capture, func(t *testing.T) {
			l := newLab(t, capture)
			cfg := l.load("[{host: gpu07, ssh: '" + l.login + "'}, {host: gpu09, ssh: 'nobody@127.0.0.1:1'}]")
			t.Setenv("GPUBOARD_FAKE_SMI_CARDS", "7") // else one card would be in two hosts
			l.push("gpu08")
			g, err := watch.NewGenerator(cfg, "test", time.Now, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			if _, err := watch.Generate(t.Context(), g, time.Now()); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(l.dir, "site/api/v1/board.json"))
			if err != nil {
				t.Fatal(err)
			}
			var board struct{ Hosts []map[string]any }
			if err := json.Unmarshal(text, &board); err != nil || len(board.Hosts) != 3 {
				t.Fatalf("%v, %d hosts", err, len(board.Hosts))
			}
			pulled, pushed, dead := board.Hosts[0], board.Hosts[1], board.Hosts[2]
			if pulled["pulled"] != true || pushed["pulled"] != false || pulled["state"] != "up" ||
				len(pulled["gpus"].([]any)) == 0 {
				t.Errorf("pulled %v, pushed %v, state %v", pulled["pulled"], pushed["pulled"], pulled["state"])
			}
			if diff := cmp.Diff(plain(pushed), plain(pulled)); diff != "" {
				t.Errorf("-pushed +pulled:\n%s", diff)
			}
			if said := fmt.Sprint(dead["problems"]); dead["state"] != "never" ||
				!strings.Contains(said, "pull:timeout") {
				t.Errorf("%v, %s", dead["state"], said)
			}
			page, err := os.ReadFile(filepath.Join(l.dir, "site/hosts/gpu07/index.html"))
			if err != nil || !strings.Contains(string(page), ">pulled<") {
				t.Errorf("%v: the page does not say that the node is pulled", err)
			}
		})
	}
}

// plain is a host without what differs between two readings of one machine, or by the name.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, value := range v {
			switch name {
			case "uuid", "name", "address", "host", "where", "pulled", "snapshot_at", "since", "seen_at", "started_at", "program", "interfaces",
				"load1", "load5", "load15", "memory_used_mib", "uptime_seconds", "used_mib", "message":
				if name == "name" && v["uuid"] != nil {
					kept[name] = value // of a GPU
				}
			default:
				kept[name] = plain(value)
			}
		}
		return kept
	case []any:
		kept := []any{}
		for _, value := range v {
			kept = append(kept, plain(value))
		}
		return kept
	}
	return v
}

// TestPullByHand: the command shows what list does, and prints what is needed to set it up.
func TestPullByHand(t *testing.T) {
	l := newLab(t, "mixed-4x-processes-535.xml")
	run := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		p := cli.Process{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Now: time.Now,
			Getenv: func(name string) string { return map[string]string{"HOME": l.dir, "GPUBOARD_STATE": l.dir}[name] }}
		code = p.Run(t.Context())
		return code, out.String(), errs.String()
	}
	flags := []string{"--identity", l.sshd.Key, "--known-hosts", l.sshd.KnownHosts}
	_, stdout, stderr := run(append([]string{"pull", l.login}, flags...)...)
	_, listed, _ := run("list", "--nvidia-smi", l.smi, "--host", "127.0.0.1")
	if strings.Count(stdout, "\n") < 4 || strings.Count(stdout, "\n") != strings.Count(listed, "\n") {
		t.Errorf("pull prints\n%s%s\nand list\n%s", stdout, stderr, listed)
	}
	code, stdout, stderr := run(append([]string{"pull", l.login, "--json"}, flags...)...)
	if !strings.Contains(stdout, `"pulled":true`) {
		t.Errorf("%d: %s%s", code, stdout, stderr)
	}
	if _, stdout, _ := run("pull", "--authorize", l.sshd.Key+".pub"); strings.Count(stdout, "\n") != 1 ||
		!strings.HasPrefix(stdout, `restrict,command="exec sh -c '`) {
		t.Errorf("%s", stdout)
	}
	if _, stdout, _ := run("pull", "--print-command"); strings.TrimSpace(stdout) != pull.Command() {
		t.Errorf("%s", stdout)
	}
	for _, args := range [][]string{{"pull"}, {"pull", "-x"}, {"pull", "user@"}, {"pull", "eva:secret@gpu07"}} {
		if code, _, stderr := run(args...); code != 2 {
			t.Errorf("%q ends with %d: %s", args, code, stderr)
		}
	}
	if code, _, stderr := run(append([]string{"pull", "nobody@127.0.0.1:1"}, flags...)...); code != 75 ||
		!strings.Contains(stderr, "ssh -o BatchMode=yes ") {
		t.Errorf("%d: %s", code, stderr)
	}
}

// TestDoctorReadsPulledNodes connects to each once, and says what it found.
func TestDoctorReadsPulledNodes(t *testing.T) {
	l := newLab(t, "idle-8x-a100-550.xml")
	cfg := l.load("[{host: gpu07, ssh: '" + l.login + "'}, 'nobody@127.0.0.1:1']")
	report, err := doctor.Examine(t.Context(), doctor.Options{
		Config:    cfg,
		Node:      node.Node{Config: cfg, Version: "test", Now: time.Now, Getenv: func(string) string { return "" }},
		Installed: func(string) bool { return false }, Crontab: func(context.Context) []byte { return nil },
	}, doctor.Web)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, f := range report.Findings {
		if strings.HasPrefix(f.Code, "pull:") {
			found[f.Code] += f.Message + " " + f.Fix
		}
	}
	if !strings.Contains(found["pull:ok"], "gpu07 was read over SSH as "+l.login+": 8 GPUs") ||
		!strings.Contains(found["pull:timeout"], "ssh -o BatchMode=yes ") {
		t.Errorf("%v", found)
	}
}
