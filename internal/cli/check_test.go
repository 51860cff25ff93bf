package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/publisher"
)

// running makes this very process the loop of the spool, with that heartbeat.
func (b *bed) running(change func(*heartbeat)) {
	b.t.Helper()
	b.must(os.Mkdir(b.path("spool"), 0o700))
	b.hold("spool/" + loopLock)
	beat := heartbeat{PID: os.Getpid(), Start: startTime(os.Getpid()), Host: "gpu01", Every: 20 * time.Second, Started: b.now().Add(-time.Hour),
		Beat: b.now().Add(-5 * time.Second), Version: version(), Settings: map[string]string{"host": "gpu01", "to": "sftp://n-gpu01@web/in"}}
	change(&beat)
	b.must(writeBeat(b.path("spool"), beat))
}

// TestCheckTellsOfPushes: the loop runs in each case; what differs is whether
// anything of it arrives.
func TestCheckTellsOfPushes(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	failed := func(since time.Duration) func(*heartbeat) {
		return func(h *heartbeat) {
			h.Push = pushes{Worked: now.Add(-since - 20*time.Second), Since: now.Add(-since), Failed: now, Error: "dialing web: connection refused", Code: "ssh:refused"}
		}
	}
	for _, test := range []struct {
		name   string
		change func(*heartbeat)
		exit   int
		stderr string
	}{
		{"in its first cycle", func(h *heartbeat) { h.Started, h.Beat = now.Add(-time.Second), time.Time{} }, exitOK, ""},
		{"pushes work", func(h *heartbeat) { h.Push = pushes{Worked: now, Since: now.Add(-time.Hour)} }, exitOK, ""},
		{"one that failed may pass", failed(time.Minute), exitOK, ""},
		{"they fail", failed(61 * time.Second), exitDegraded, "gpuboard: gpu01: every cycle has failed since 2026-11-20T07:58:59Z, and the last push that worked was at 2026-11-20T07:58:39Z: " +
			"dialing web: connection refused (gpuboard doctor node says what to do) [ssh:refused]\n"},
		{"a few long intervals", func(h *heartbeat) { failed(20 * time.Minute)(h); h.Every = 10 * time.Minute }, exitOK, ""},
		{"none has ever worked", func(h *heartbeat) { failed(time.Second)(h); h.Push.Worked = time.Time{} }, exitDegraded,
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

// TestPushesAreNoted: what the heartbeat says after each of these cycles.
func TestPushesAreNoted(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	refused := &publisher.Error{Code: publisher.CodeRefused, Err: errors.New("nobody listens")}
	var p pushes
	for i, step := range []struct {
		news  news
		want  pushes
		since int // the step
	}{
		{news{}, pushes{Worked: now}, 0},
		{news{}, pushes{Worked: now.Add(time.Minute)}, 0},
		{news{push: refused}, pushes{Worked: now.Add(time.Minute), Failed: now.Add(2 * time.Minute), Error: "nobody listens", Code: "ssh:refused"}, 2},
		{news{collect: syscall.ENOSPC}, pushes{Worked: now.Add(time.Minute), Failed: now.Add(3 * time.Minute), Error: "collecting: no space left on device", Code: "disk:space", Hint: "look at: df -h; df -i; quota"}, 2},
		{news{push: errors.New("broken")}, pushes{Worked: now.Add(time.Minute), Failed: now.Add(4 * time.Minute), Error: "broken", Code: "ssh:lost"}, 2},
		{news{}, pushes{Worked: now.Add(5 * time.Minute), Failed: now.Add(4 * time.Minute)}, 5},
	} {
		p.note(step.news, true, now.Add(time.Duration(i)*time.Minute))
		step.want.Since = now.Add(time.Duration(step.since) * time.Minute)
		if p != step.want {
			t.Errorf("after cycle %d: %+v\nwant %+v", i, p, step.want)
		}
	}
}

// TestALoopGoesOnWithWhatIsKnown: the last push that worked outlives the loop
// that made it, unless the drop is another.
func TestALoopGoesOnWithWhatIsKnown(t *testing.T) {
	b := newBed(t)
	worked := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for to, want := range map[string]time.Time{"file://" + b.path("none"): worked, "file://" + b.path("gone"): {}} {
		spool := b.path(filepath.Base(to) + "-spool")
		b.must(os.Mkdir(spool, 0o700))
		b.must(writeBeat(spool, heartbeat{PID: 4711, Settings: map[string]string{"to": "file://" + b.path("none")}, Push: pushes{Worked: worked, Since: worked}}))
		ctx, end := context.WithCancel(context.Background())
		ended := make(chan int)
		go func() {
			a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, now: b.now, getenv: func(k string) string { return b.env[k] },
				args: []string{"run", "--host", "gpu01", "--spool", spool, "--nvidia-smi", b.path("nvidia-smi"), "--to", to}}
			ended <- a.run(ctx)
		}()
		beat, err := (&app{now: time.Now}).waitForBeat(ctx, spool, time.Minute, nil, func(h heartbeat) bool { return h.PID == os.Getpid() && !h.Beat.IsZero() })
		end()
		if exit := <-ended; exit != exitOK || err != nil || beat.Push.Error == "" || !beat.Push.Worked.Equal(want) {
			t.Errorf("to %s: exit %d, %+v, %v, want %v as the last push that worked", to, exit, beat.Push, err, want)
		}
	}
}
