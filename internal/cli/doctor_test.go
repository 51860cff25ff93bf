package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/doctor"
	"gpuboard/internal/failure"
	"gpuboard/internal/node"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
)

// A bed is a machine where all is well, until a test breaks one thing.
type bed struct {
	t    *testing.T
	dir  string
	env  map[string]string
	now  func() time.Time
	args []string
}

func newBed(t *testing.T) *bed {
	t.Helper()
	dir := t.TempDir()
	b := &bed{t: t, dir: dir, now: time.Now, env: map[string]string{"HOME": dir, "USER": "tester"}}
	capture, err := filepath.Abs("../../collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
	if err != nil {
		t.Fatal(err)
	}
	b.program("nvidia-smi", "exec cat "+capture)
	b.cron("* * * * * gpuboard run --once --every 1m --host gpu01")
	return b
}

func (b *bed) path(elements ...string) string {
	return filepath.Join(append([]string{b.dir}, elements...)...)
}

func (b *bed) write(name, content string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(content), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// cron makes these lines the crontab of the bed.
func (b *bed) cron(lines ...string) {
	b.t.Helper()
	b.env["PATH"] = b.path("bin")
	b.write("crontab.txt", strings.Join(lines, "\n")+"\n")
	b.program("bin/crontab", "exec cat "+b.path("crontab.txt"))
}

func (b *bed) program(name, script string) {
	b.t.Helper()
	b.write(name, "#!/bin/sh\n"+script+"\n")
	b.must(os.Chmod(b.path(name), 0o755))
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) run(args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, now: b.now, getenv: func(k string) string { return b.env[k] }, args: args}
	code = a.run(context.Background())
	return out.String(), errs.String(), code
}

func (b *bed) do(args ...string) {
	b.t.Helper()
	if out, errs, code := b.run(args...); code != failure.ExitOK {
		b.t.Fatalf("gpuboard %s: exit %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
}

// examine runs doctor and returns what it found.
func (b *bed) examine() (doctor.Report, int) {
	b.t.Helper()
	out, errs, code := b.run(append([]string{"doctor", "--json"}, b.args...)...)
	var e doctor.Report
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		b.t.Fatalf("exit %d: %v\n%s%s", code, err, out, errs)
	}
	return e, code
}

// wantWell fails the test unless all is well.
func (b *bed) wantWell() {
	b.t.Helper()
	e, code := b.examine()
	if code != failure.ExitOK || !e.OK || len(e.Findings) < 5 {
		b.t.Fatalf("exit %d, before anything is broken:\n%s", code, listed(e, doctor.Bad))
	}
}

// wantNamed fails the test unless the code is found, with something to type.
func (b *bed) wantNamed(want, words string) {
	b.t.Helper()
	e, code := b.examine()
	if code != failure.ExitDegraded || e.OK {
		b.t.Errorf("exit %d, want %d", code, failure.ExitDegraded)
	}
	i := slices.IndexFunc(e.Findings, func(f doctor.Finding) bool { return f.Code == want })
	switch {
	case i < 0:
		b.t.Errorf("%s is not named:\n%s", want, listed(e, doctor.Bad))
	case e.Findings[i].State != doctor.Bad || e.Findings[i].Fix == "" || !strings.Contains(e.Findings[i].Message+e.Findings[i].Fix, words):
		b.t.Errorf("found %+v, want %q in it and something to type", e.Findings[i], words)
	}
}

func listed(e doctor.Report, state string) string {
	var b strings.Builder
	for _, f := range e.Findings {
		if f.State == state {
			fmt.Fprintf(&b, "%s: %s (%s)\n", f.Code, f.Message, f.Fix)
		}
	}
	return b.String()
}

// nodeBed is a node that pushes to a real sshd.
func nodeBed(t *testing.T, o sshtest.Options) (*bed, *sshtest.Server) {
	b := newBed(t)
	if o.Command == "" {
		o.Command = sshtest.LockedDown
	}
	if o.Dir == "" {
		o.Dir = b.path("drop", "gpu01")
		b.must(os.MkdirAll(o.Dir, 0o755))
	}
	s := sshtest.Start(t, o)
	b.do("collect", "--host", "gpu01", "--spool", b.path("spool"), "--nvidia-smi", b.path("nvidia-smi"))
	b.args = []string{"node", "--host", "gpu01", "--spool", b.path("spool"), "--nvidia-smi", b.path("nvidia-smi"), "--push-timeout", "10s",
		"--to", fmt.Sprintf("sftp://%s@%s", s.User, s.Addr), "--identity", s.Key, "--known-hosts", s.KnownHosts}
	return b, s
}

func (b *bed) with(flags ...string) { b.args = append(b.args, flags...) }

func TestDoctorNamesWhatIsWrongWithANode(t *testing.T) {
	for _, test := range []struct {
		name, code, words string
		o                 sshtest.Options
		spoil             func(b *bed, s *sshtest.Server)
	}{
		{name: "no nvidia-smi", code: "smi:missing", words: "--nvidia-smi", spoil: func(b *bed, _ *sshtest.Server) { b.with("--nvidia-smi", b.path("none")) }},
		{name: "nvidia-smi hangs", code: "smi:timeout", words: "nvidia-smi -pm 1", spoil: func(b *bed, _ *sshtest.Server) {
			b.program("nvidia-smi", "exec sleep 60")
			b.with("--nvidia-smi-timeout", "300ms")
		}},
		{name: "no ps", code: "ps:missing", words: "procps", spoil: func(b *bed, _ *sshtest.Server) { b.with("--ps", b.path("none")) }},
		{name: "spool open to all", code: "spool:not-private", words: "chmod 700", spoil: func(b *bed, _ *sshtest.Server) { b.must(os.Chmod(b.path("spool"), 0o777)) }},
		{name: "nothing runs", code: "loop:not-running", words: "gpuboard check gpu01", spoil: func(b *bed, _ *sshtest.Server) { b.must(os.Remove(b.path("spool", "latest.json.gz"))) }},
		{name: "cron is off", code: "loop:not-running", words: "1h0m", spoil: func(b *bed, _ *sshtest.Server) {
			b.now = func() time.Time { return time.Now().Add(time.Hour) }
		}},
		{name: "the loop hangs", code: "loop:hangs", words: "not responded", spoil: func(b *bed, _ *sshtest.Server) {
			b.hold("spool/" + node.LockFile)
			b.must(node.Heartbeat{PID: 4711, Every: time.Second, Beat: time.Now().Add(-time.Hour), Version: version()}.Write(b.path("spool")))
		}},
		{name: "key open to all", code: "ssh:key-mode", words: "chmod 600", spoil: func(b *bed, s *sshtest.Server) { b.must(os.Chmod(s.Key, 0o644)) }},
		{name: "another key", code: "ssh:auth", words: "/etc/ssh/gpudrop/ACCOUNT", spoil: func(b *bed, _ *sshtest.Server) {
			sshtest.WriteKey(b.t, b.path("other"), "ed25519", "")
			b.with("--identity", b.path("other"))
		}},
		{name: "no known_hosts", code: "ssh:hostkey-unknown", words: "ssh-keyscan", spoil: func(b *bed, _ *sshtest.Server) {
			b.write("empty", "")
			b.with("--known-hosts", b.path("empty"))
		}},
		{name: "another server", code: "ssh:hostkey-changed", words: "ssh-keygen", spoil: func(b *bed, s *sshtest.Server) {
			other := sshtest.WriteKey(b.t, b.path("other"), "ed25519", "")
			b.write("known", fmt.Sprintf("[127.0.0.1]:%d %s %s\n", s.Port, other.Type(), strings.Fields(string(mustRead(b, "other.pub")))[1]))
			b.with("--known-hosts", b.path("known"))
		}},
		{name: "nobody listens", code: "ssh:refused", words: "sshd", spoil: func(_ *bed, s *sshtest.Server) { s.Stop() }},
		{name: "no posix-rename", code: "ssh:no-posix-rename", words: "internal-sftp", o: sshtest.Options{Command: "internal-sftp -p open,close,write,fsync,remove,realpath"}},
		{name: "may not open", code: "remote:permission", words: "posix-rename", o: sshtest.Options{Command: "internal-sftp -p close,write,fsync,posix-rename,remove,realpath"}},
		{name: "the server's disk is full", code: "remote:failure", words: "df -h", spoil: func(b *bed, _ *sshtest.Server) {
			need.Root(b.t)
			b.mount("drop/gpu01", "size=4k")
			b.write("drop/gpu01/full", strings.Repeat("x", 4096))
		}},
		{name: "no such drop", code: "remote:directory", words: "to:", spoil: func(b *bed, s *sshtest.Server) {
			b.with("--to", fmt.Sprintf("sftp://%s@%s/nowhere/in", s.User, s.Addr))
		}},
		{name: "no Consul", code: "discovery:unreachable", words: "CONSUL_HTTP_ADDR", spoil: func(b *bed, _ *sshtest.Server) {
			b.t.Setenv("CONSUL_HTTP_ADDR", "127.0.0.1:1")
			b.with("--register")
		}},
		{name: "clock off", code: "clock:ahead", words: "1 h 30 min", spoil: func(b *bed, _ *sshtest.Server) {
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", time.Now().Add(-90*time.Minute).UTC().Format(http.TimeFormat))
			}))
			b.t.Cleanup(web.Close)
			b.env["GPUBOARD_SITE_URL"] = web.URL
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, s := nodeBed(t, test.o)
			if test.spoil != nil {
				b.wantWell()
				test.spoil(b, s)
			}
			b.wantNamed(test.code, test.words)
			if left, err := filepath.Glob(b.path("drop", "gpu01", ".tmp-*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func mustRead(b *bed, name string) []byte {
	b.t.Helper()
	data, err := os.ReadFile(b.path(name))
	b.must(err)
	return data
}

func TestDoctorSaysWhereEachSettingComesFrom(t *testing.T) {
	b := newBed(t)
	b.write("gpuboard.yml", "title: Ours\nspool: "+b.path("spool")+"\n")
	b.env["GPUBOARD_EVERY"] = "30s"
	b.args = []string{"node", "--host", "gpu01", "--config", b.path("gpuboard.yml")}
	e, _ := b.examine()
	got := map[string]string{}
	for _, v := range e.InForce {
		got[v.Key] = v.Value + " from " + v.Origin
	}
	for key, want := range map[string]string{
		"title": "Ours from " + b.path("gpuboard.yml") + ":1", "every": "30s from GPUBOARD_EVERY", "host": "gpu01 from --host", "ps": "ps from default",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	b.must(os.Chmod(b.path("gpuboard.yml"), 0o666))
	b.wantNamed("config:mode", "chmod o-w")
	if _, _, code := b.run("doctor", "--config", b.path("none.yml")); code != failure.ExitUsage {
		t.Errorf("without its configuration: exit %d", code)
	}
	if _, _, code := b.run("doctor", "both"); code != failure.ExitUsage {
		t.Errorf("no such side: exit %d", code)
	}
}
