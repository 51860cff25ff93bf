package cli

import (
	"os"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/node"
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

// TestCheckTellsOfPushes: the loop runs in each case; what differs is whether
// anything of it arrives.
func TestCheckTellsOfPushes(t *testing.T) {
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
		{"in its first cycle", func(h *node.Heartbeat) { h.Started, h.Beat = now.Add(-time.Second), time.Time{} }, exitOK, ""},
		{"pushes work", func(h *node.Heartbeat) { h.Push = node.Pushes{Worked: now, Since: now.Add(-time.Hour)} }, exitOK, ""},
		{"one that failed may pass", failed(time.Minute), exitOK, ""},
		{"they fail", failed(61 * time.Second), exitDegraded, "gpuboard: gpu01: every cycle has failed since 2026-11-20T07:58:59Z, and the last push that worked was at 2026-11-20T07:58:39Z: " +
			"dialing web: connection refused (gpuboard doctor node says what to do) [ssh:refused]\n"},
		{"a few long intervals", func(h *node.Heartbeat) { failed(20 * time.Minute)(h); h.Every = 10 * time.Minute }, exitOK, ""},
		{"none has ever worked", func(h *node.Heartbeat) { failed(time.Second)(h); h.Push.Worked = time.Time{} }, exitDegraded,
			"gpuboard: gpu01: every cycle has failed since 2026-11-20T07:59:59Z, and no push has worked yet: dialing web: connection refused (gpuboard doctor node says what to do) [ssh:refused]\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBed(t)
			b.now = func() time.Time { return now }
			b.running(test.change)
			out, errs, exit := b.run("check", "gpu01", "--spool", b.path("spool"))
			if !strings.HasPrefix(out, "Running gpu01 (pid ") || exit != test.exit || errs != test.stderr {
				t.Errorf("exit %d, want %d; stdout %q; stderr\n%swant\n%s", exit, test.exit, out, errs, test.stderr)
			}
		})
	}
}
