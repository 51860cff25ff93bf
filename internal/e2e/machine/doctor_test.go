package machine_test

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

	"gpuboard/internal/cli"
	"gpuboard/internal/doctor"
	"gpuboard/internal/failure"
	"gpuboard/internal/node"
	"gpuboard/internal/snapshot"
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
	capture, err := filepath.Abs("../../../collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
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
	getenv := func(k string) string { return b.env[k] }
	p := cli.Process{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Now: b.now, Getenv: getenv}
	code = p.Run(context.Background())
	return out.String(), errs.String(), code
}

// version is that of the program.
func (b *bed) version() string {
	out, _, _ := b.run("version")
	return strings.TrimSpace(strings.TrimPrefix(out, "gpuboard "))
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
	case e.Findings[i].State != doctor.Bad || e.Findings[i].Fix == "" ||
		!strings.Contains(e.Findings[i].Message+e.Findings[i].Fix, words):
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
	b.args = []string{"node", "--host", "gpu01", "--spool", b.path("spool"), "--nvidia-smi", b.path("nvidia-smi"),
		"--push-timeout", "10s",
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
		{name: "no nvidia-smi", code: "smi:missing", words: "--nvidia-smi",
			spoil: func(b *bed, _ *sshtest.Server) { b.with("--nvidia-smi", b.path("none")) }},
		{name: "nvidia-smi hangs", code: "smi:timeout", words: "nvidia-smi -pm 1",
			spoil: func(b *bed, _ *sshtest.Server) {
				b.program("nvidia-smi", "exec sleep 60")
				b.with("--nvidia-smi-timeout", "300ms")
			}},
		{name: "no ps", code: "ps:missing", words: "procps",
			spoil: func(b *bed, _ *sshtest.Server) { b.with("--ps", b.path("none")) }},
		{name: "spool open to all", code: "spool:not-private", words: "chmod 700",
			spoil: func(b *bed, _ *sshtest.Server) { b.must(os.Chmod(b.path("spool"), 0o777)) }},
		{name: "nothing runs", code: "loop:not-running", words: "gpuboard check gpu01",
			spoil: func(b *bed, _ *sshtest.Server) { b.must(os.Remove(b.path("spool", "latest.json.gz"))) }},
		{name: "cron is off", code: "loop:not-running", words: "1h0m", spoil: func(b *bed, _ *sshtest.Server) {
			b.now = func() time.Time { return time.Now().Add(time.Hour) }
		}},
		{name: "the loop hangs", code: "loop:hangs", words: "not responded", spoil: func(b *bed, _ *sshtest.Server) {
			b.hold("spool/" + node.LockFile)
			b.must(
				node.Heartbeat{PID: 4711, Every: time.Second, Beat: time.Now().Add(-time.Hour),
					Version: b.version()}.Write(b.path("spool")))
		}},
		{name: "key open to all", code: "ssh:key-mode", words: "chmod 600",
			spoil: func(b *bed, s *sshtest.Server) { b.must(os.Chmod(s.Key, 0o644)) }},
		{name: "another key", code: "ssh:auth", words: "/etc/ssh/gpudrop/ACCOUNT",
			spoil: func(b *bed, _ *sshtest.Server) {
				sshtest.WriteKey(b.t, b.path("other"), "ed25519", "")
				b.with("--identity", b.path("other"))
			}},
		{name: "no known_hosts", code: "ssh:hostkey-unknown", words: "ssh-keyscan",
			spoil: func(b *bed, _ *sshtest.Server) {
				b.write("empty", "")
				b.with("--known-hosts", b.path("empty"))
			}},
		{name: "another server", code: "ssh:hostkey-changed", words: "ssh-keygen",
			spoil: func(b *bed, s *sshtest.Server) {
				other := sshtest.WriteKey(b.t, b.path("other"), "ed25519", "")
				b.write("known",
					fmt.Sprintf("[127.0.0.1]:%d %s %s\n", s.Port, other.Type(),
						strings.Fields(string(mustRead(b, "other.pub")))[1]))
				b.with("--known-hosts", b.path("known"))
			}},
		{name: "nobody listens", code: "ssh:refused", words: "sshd",
			spoil: func(_ *bed, s *sshtest.Server) { s.Stop() }},
		{name: "no posix-rename", code: "ssh:no-posix-rename", words: "internal-sftp",
			o: sshtest.Options{Command: "internal-sftp -p open,close,write,fsync,remove,realpath"}},
		{name: "may not open", code: "remote:permission", words: "posix-rename",
			o: sshtest.Options{Command: "internal-sftp -p close,write,fsync,posix-rename,remove,realpath"}},
		{name: "the server's disk is full", code: "remote:failure", words: "df -h",
			spoil: func(b *bed, _ *sshtest.Server) {
				need.Root(b.t)
				b.mount("drop/gpu01", "size=4k")
				b.write("drop/gpu01/full", strings.Repeat("x", 4096))
			}},
		{name: "no such drop", code: "remote:directory", words: "to:", spoil: func(b *bed, s *sshtest.Server) {
			b.with("--to", fmt.Sprintf("sftp://%s@%s/nowhere/in", s.User, s.Addr))
		}},
		{name: "no Consul", code: "discovery:unreachable", words: "CONSUL_HTTP_ADDR",
			spoil: func(b *bed, _ *sshtest.Server) {
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
		"title": "Ours from " + b.path("gpuboard.yml") + ":1", "every": "30s from GPUBOARD_EVERY",
		"host": "gpu01 from --host", "ps": "ps from default",
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

// running makes this very process the loop of the spool, with that heartbeat.
func (b *bed) running(change func(*node.Heartbeat)) {
	b.t.Helper()
	b.must(os.Mkdir(b.path("spool"), 0o700))
	b.hold("spool/" + node.LockFile)
	beat := node.Heartbeat{PID: os.Getpid(), Host: "gpu01", Every: 20 * time.Second, Started: b.now().Add(-time.Hour),
		Beat: b.now().Add(-5 * time.Second), Version: b.version(),
		Settings: map[string]string{"host": "gpu01", "to": "sftp://n-gpu01@web/in"}}
	change(&beat)
	b.must(beat.Write(b.path("spool")))
}

// TestCheckReportsFailingPushes: the loop runs in each case; what differs is whether
// anything of it arrives.
func TestCheckReportsFailingPushes(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	failed := func(since time.Duration) func(*node.Heartbeat) {
		return func(h *node.Heartbeat) {
			h.Push = node.Pushes{Worked: now.Add(-since - 20*time.Second), Since: now.Add(-since),
				Error: "dialing web: connection refused", Code: "ssh:refused"}
		}
	}
	for _, test := range []struct {
		name   string
		change func(*node.Heartbeat)
		exit   int
		stderr string
	}{
		{"in its first cycle", func(h *node.Heartbeat) { h.Started, h.Beat = now.Add(-time.Second), time.Time{} },
			failure.ExitOK, ""},
		{"pushes work", func(h *node.Heartbeat) { h.Push = node.Pushes{Worked: now, Since: now.Add(-time.Hour)} },
			failure.ExitOK, ""},
		{"the newest failed", failed(time.Second), failure.ExitDegraded,
			"gpuboard: gpu01: every cycle has failed since 2026-11-20T07:59:59Z, and the last push that worked was at 2026-11-20T07:59:39Z: " +
				"dialing web: connection refused [ssh:refused]\n"},
		{"none has ever worked", func(h *node.Heartbeat) { failed(time.Second)(h); h.Push.Worked = time.Time{} },
			failure.ExitDegraded,
			"gpuboard: gpu01: every cycle has failed since 2026-11-20T07:59:59Z, and no push has worked yet: dialing web: connection refused [ssh:refused]\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBed(t)
			b.now = func() time.Time { return now }
			b.running(test.change)
			out, errs, exit := b.run("check", "gpu01", "--spool", b.path("spool"))
			if test.stderr != "" {
				test.stderr += "gpuboard: hint: gpuboard doctor node --host=gpu01 --spool=" + b.path("spool") +
					" --to=sftp://n-gpu01@web/in\n"
			}
			if !strings.HasPrefix(out, "Running gpu01 (pid ") || exit != test.exit || errs != test.stderr {
				t.Errorf("exit %d, want %d; stdout %q; stderr\n%swant\n%s", exit, test.exit, out, errs, test.stderr)
			}
		})
	}
}

// TestASnapshotWithErrorsEndsWithThree: what cron sees of a node where something
// is not well is exit status 3 and one line, and the snapshot is there all the same.
func TestASnapshotWithErrorsEndsWithThree(t *testing.T) {
	captures, err := filepath.Abs("../../../collector/nvidiasmi/testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, capture string
		want          string // the line, "" for none
	}{
		{"well", "idle-8x-a100-550.xml", ""},
		{"one problem", "trimmed-3of6-535.xml",
			"gpuboard: gpu01: nvidia-smi says that 6 GPUs are attached, and lists 3 [smi:truncated]\n"},
		{"several", "old-tesla-p100-384.xml",
			"gpuboard: gpu01 #0: the memory of GPU 0 (00000000:02:00.0) has had 3 uncorrectable errors since the last reset: " +
				"see `dmesg | grep -i xid`, and reset the GPU when nobody uses it (+1 more) [gpu:ecc]\n"},
	} {
		b := newBed(t)
		b.program("nvidia-smi", "sed -e s/@PID.@/"+"1/ "+filepath.Join(captures, c.capture))
		b.must(os.Mkdir(b.path("data"), 0o755))
		node := []string{"--host", "gpu01", "--nvidia-smi", b.path("nvidia-smi")}
		code := failure.ExitOK
		if c.want != "" {
			code = failure.ExitDegraded
		}
		for _, args := range [][]string{
			append([]string{"collect", "--json"}, node...),
			append([]string{"collect", "--spool", b.path("spool")}, node...),
			{"publish", "--host", "gpu01", "--spool", b.path("spool"), "--to", "file://" + b.path("data")},
			append([]string{"run", "--once", "--spool", b.path("once"), "--to", "file://" + b.path("data")}, node...),
		} {
			stdout, stderr, got := b.run(args...)
			if got != code || stderr != c.want {
				t.Errorf("%s: %v: exit %d, want %d: %q, want %q", c.name, args[:2], got, code, stderr, c.want)
			}
			var s snapshot.Snapshot
			if args[1] == "--json" {
				if err := json.Unmarshal([]byte(stdout), &s); err != nil || len(s.GPUs) == 0 {
					t.Errorf("%s: %v: %.100s", c.name, err, stdout)
				}
			} else if stdout != "" {
				t.Errorf("%s: %v: %q", c.name, args[:2], stdout)
			}
		}
		if files, err := filepath.Glob(b.path("data/drop/gpu01/latest*")); err != nil || len(files) != 1 {
			t.Errorf("%s: delivered are %v, %v", c.name, files, err)
		}
		// A push that fails is more than a snapshot with errors.
		if _, stderr, got := b.run("publish", "--host", "gpu01", "--spool", b.path("spool"), "--to",
			"file://"+b.path("nowhere")); got == failure.ExitOK || got == failure.ExitDegraded ||
			!strings.Contains(stderr, "error: ") {
			t.Errorf("%s: a push to nowhere: exit %d, %s", c.name, got, stderr)
		}
	}
}

// TestRootWritesNoSpoolOfOthers: the account that owns a spool could not go on with files that
// root has made there.
func TestRootWritesNoSpoolOfOthers(t *testing.T) {
	need.Root(t)
	for _, command := range [][]string{{"collect"}, {"publish", "--to", "file:///nowhere"}, {"run", "--once"},
		{"check"}} {
		b := newBed(t)
		spool := b.path("spool")
		b.must(os.Mkdir(spool, 0o700))
		b.must(os.Chown(spool, 65534, 65534)) // nobody
		_, errs, exit := b.run(append(command, "--host", "gpu01", "--spool", spool)...)
		if exit != failure.ExitUsage || !strings.Contains(errs, "runuser -u nobody -- gpuboard "+command[0]) {
			t.Errorf("%q: exit %d, %s", command, exit, errs)
		}
		if left, err := os.ReadDir(spool); err != nil || len(left) != 0 {
			t.Errorf("%q left %v, %v", command, left, err)
		}
	}
}
