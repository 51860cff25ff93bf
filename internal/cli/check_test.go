package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/failure"
	"gpuboard/internal/node"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

// running makes this very process the loop of the spool, with that heartbeat.
func (b *bed) running(change func(*node.Heartbeat)) {
	b.t.Helper()
	b.must(os.Mkdir(b.path("spool"), 0o700))
	b.hold("spool/" + node.LockFile)
	beat := node.Heartbeat{PID: os.Getpid(), Host: "gpu01", Every: 20 * time.Second, Started: b.now().Add(-time.Hour),
		Beat: b.now().Add(-5 * time.Second), Version: version(), Settings: map[string]string{"host": "gpu01", "to": "sftp://n-gpu01@web/in"}}
	change(&beat)
	b.must(beat.Write(b.path("spool")))
}

// TestCheckReportsFailingPushes: the loop runs in each case; what differs is whether
// anything of it arrives.
func TestCheckReportsFailingPushes(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	failed := func(since time.Duration) func(*node.Heartbeat) {
		return func(h *node.Heartbeat) {
			h.Push = node.Pushes{Worked: now.Add(-since - 20*time.Second), Since: now.Add(-since), Error: "dialing web: connection refused", Code: "ssh:refused"}
		}
	}
	for _, test := range []struct {
		name   string
		change func(*node.Heartbeat)
		exit   int
		stderr string
	}{
		{"in its first cycle", func(h *node.Heartbeat) { h.Started, h.Beat = now.Add(-time.Second), time.Time{} }, failure.ExitOK, ""},
		{"pushes work", func(h *node.Heartbeat) { h.Push = node.Pushes{Worked: now, Since: now.Add(-time.Hour)} }, failure.ExitOK, ""},
		{"the newest failed", failed(time.Second), failure.ExitDegraded, "gpuboard: gpu01: every cycle has failed since 2026-11-20T07:59:59Z, and the last push that worked was at 2026-11-20T07:59:39Z: " +
			"dialing web: connection refused [ssh:refused]\n"},
		{"none has ever worked", func(h *node.Heartbeat) { failed(time.Second)(h); h.Push.Worked = time.Time{} }, failure.ExitDegraded,
			"gpuboard: gpu01: every cycle has failed since 2026-11-20T07:59:59Z, and no push has worked yet: dialing web: connection refused [ssh:refused]\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBed(t)
			b.now = func() time.Time { return now }
			b.running(test.change)
			out, errs, exit := b.run("check", "gpu01", "--spool", b.path("spool"))
			if test.stderr != "" {
				test.stderr += "gpuboard: hint: gpuboard doctor node --spool=" + b.path("spool") + " --host=gpu01\n"
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
	captures, err := filepath.Abs("../../collector/nvidiasmi/testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, capture string
		want          string // the line, "" for none
	}{
		{"well", "idle-8x-a100-550.xml", ""},
		{"one problem", "trimmed-3of6-535.xml", "gpuboard: gpu01: nvidia-smi says that 6 GPUs are attached, and lists 3 [smi:truncated]\n"},
		{"several", "old-tesla-p100-384.xml", "gpuboard: gpu01 #0: the memory of GPU 0 (00000000:02:00.0) has had 3 uncorrectable errors since the last reset: " +
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
		if _, stderr, got := b.run("publish", "--host", "gpu01", "--spool", b.path("spool"), "--to", "file://"+b.path("nowhere")); got == failure.ExitOK || got == failure.ExitDegraded || !strings.Contains(stderr, "error: ") {
			t.Errorf("%s: a push to nowhere: exit %d, %s", c.name, got, stderr)
		}
	}
}

// TestRootWritesNoSpoolOfOthers: the account that owns a spool could not go on with files that
// root has made there.
func TestRootWritesNoSpoolOfOthers(t *testing.T) {
	need.Root(t)
	for _, command := range [][]string{{"collect"}, {"publish", "--to", "file:///nowhere"}, {"run", "--once"}, {"check"}} {
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
