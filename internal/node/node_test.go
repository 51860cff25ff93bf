package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/sshclient"
	"gpuboard/publisher"
)

// testNode makes a node with these settings.
func testNode(t *testing.T, settings map[string]string) Node {
	t.Helper()
	none := func(string) string { return "" }
	cfg, err := config.Load(config.Sources{Getenv: none})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range settings {
		cfg.Set(name, value, "the test")
	}
	return Node{Config: cfg, Version: "1.0.0", Now: time.Now, Getenv: none, Stderr: io.Discard}
}

// TestALoopSaysWhoLogsIn: a drop whose URL names no user is said once, when the loop begins.
func TestALoopSaysWhoLogsIn(t *testing.T) {
	for to, want := range map[string]string{
		"sftp://web/in":         "sftp://web/in names no user: the one with whom ssh web logs in is taken",
		"sftp://n-gpu01@web/in": "", "file:///srv/gpuboard/data": "",
	} {
		var log bytes.Buffer
		n := testNode(t, map[string]string{"host": "gpu01", "spool": filepath.Join(t.TempDir(), "spool"), "to": to})
		n.Stderr = &log
		l, err := n.Loop(false)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if got := log.String(); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: the log is %q, want %q", to, got, want)
		}
	}
}

// TestPushesAreRecorded: what the heartbeat says after each of these cycles.
func TestPushesAreRecorded(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	refused := &publisher.Error{Code: sshclient.CodeRefused, Err: errors.New("nobody listens")}
	var p Pushes
	for i, step := range []struct {
		cycle cycle
		want  Pushes
		since int // the step
	}{
		{cycle{}, Pushes{Worked: now}, 0},
		{cycle{}, Pushes{Worked: now.Add(time.Minute)}, 0},
		{cycle{pushErr: refused}, Pushes{Worked: now.Add(time.Minute), Error: "nobody listens", Code: "ssh:refused"},
			2},
		{cycle{collectErr: syscall.ENOSPC},
			Pushes{Worked: now.Add(time.Minute), Error: "collecting: no space left on device", Code: "disk:space",
				Hint: "look at: df -h; df -i; quota"}, 2},
		{cycle{pushErr: errors.New("broken")}, Pushes{Worked: now.Add(time.Minute), Error: "broken", Code: "ssh:lost"},
			2},
		{cycle{}, Pushes{Worked: now.Add(5 * time.Minute)}, 5},
	} {
		step.cycle.pushed = true
		p.record(step.cycle, now.Add(time.Duration(i)*time.Minute))
		step.want.Since = now.Add(time.Duration(step.since) * time.Minute)
		if p != step.want {
			t.Errorf("after cycle %d: %+v\nwant %+v", i, p, step.want)
		}
	}
}

// TestALoopGoesOnWithWhatIsKnown: the last push that worked outlives the loop that made it, unless
// the drop is another.
func TestALoopGoesOnWithWhatIsKnown(t *testing.T) {
	dir := t.TempDir()
	worked := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	none := "file://" + filepath.Join(dir, "none")
	for to, want := range map[string]time.Time{none: worked, "file://" + filepath.Join(dir, "gone"): {}} {
		spool := filepath.Join(dir, filepath.Base(to)+"-spool")
		if err := os.Mkdir(spool, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := (Heartbeat{PID: 4711, Settings: map[string]string{"to": none}, Push: Pushes{Worked: worked, Since: worked}}).Write(spool); err != nil {
			t.Fatal(err)
		}
		l, err := testNode(t, map[string]string{"host": "gpu01", "spool": spool, "to": to, "every": "1m", "nvidia_smi": "/bin/false", "ps": "/bin/false"}).Loop(false)
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		beat, err := waitForHeartbeat(ctx, spool, time.Minute, func(h Heartbeat) bool { return h.PID == os.Getpid() && !h.Beat.IsZero() }, nil)
		end()
		if runErr := <-ended; runErr != nil || err != nil || beat.Push.Error == "" || !beat.Push.Worked.Equal(want) {
			t.Errorf("to %s: %v, %+v, %v, want %v as the last push that worked", to, runErr, beat.Push, err, want)
		}
		l.Close()
	}
}

// TestCheckLeavesASystemdUnitAlone: check neither replaces nor stops a loop that systemd keeps
// alive, whatever it is given, because systemd would start it again.
func TestCheckLeavesASystemdUnitAlone(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	spool := t.TempDir()
	lock, err := atomicfile.Lock(filepath.Join(spool, LockFile), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	beat := Heartbeat{PID: os.Getpid(), Start: startTime(os.Getpid()), Host: "gpu01", Every: 20 * time.Second, Started: now, Beat: now,
		Unit: "gpuboard-node.service", Settings: testNode(t, map[string]string{"host": "gpu01", "to": "sftp://web/in"}).loopSettings()}
	if err := beat.Write(spool); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		to   string
		at   time.Time
		want string // the error; "" for none
	}{
		{"as it is", "sftp://web/in", now, ""},
		{"nothing is given", "", now, ""},
		{"other settings", "sftp://web2/in", now, "the loop is gpuboard-node.service, which has other settings: to"},
		{"it hangs", "", now.Add(time.Hour), "the loop of gpuboard-node.service has been silent for 1h0m0s"},
	} {
		n := testNode(t, map[string]string{"host": "gpu01", "spool": spool})
		n.Now = func() time.Time { return tt.at }
		if tt.to != "" {
			n.Config.Set("to", tt.to, "--to")
		}
		got, err := n.Check(t.Context(), nil)
		if got.Launched || got.Replaced || err == nil && tt.want != "" || err != nil && err.Error() != tt.want {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
	was, err := testNode(t, map[string]string{"spool": spool}).Stop(t.Context())
	if e := failure.Explain(err); !was || err == nil || e.Hint != "systemctl stop gpuboard-node.service" {
		t.Errorf("stop: %v, %v", was, err)
	}
}

// TestUnit: a process is a systemd unit only if systemd itself started it, and not if it inherited
// the environment of one.
func TestUnit(t *testing.T) {
	for env, want := range map[string]bool{"": false, "1": false, strconv.Itoa(os.Getpid()): true} {
		if got := unit(func(string) string { return env }); (got != "") != want {
			t.Errorf("SYSTEMD_EXEC_PID=%s: %q", env, got)
		}
	}
}

func TestSSHAddress(t *testing.T) {
	for _, tt := range []struct {
		in, host string
		port     int
		ok       bool
	}{
		{"", "", 0, true},
		{"gpu01.lab.example", "gpu01.lab.example", 0, true},
		{"gpu01.lab.example:2222", "gpu01.lab.example", 2222, true},
		{"192.0.2.7:22", "192.0.2.7", 22, true},
		{"2001:db8::7", "2001:db8::7", 0, true},
		{"[2001:db8::7]:2222", "2001:db8::7", 2222, true},
		{"gpu01:0", "", 0, false},
		{"gpu01:ssh", "", 0, false},
		{"-oProxyCommand=x", "", 0, false},
		{"eva@gpu01", "", 0, false},
		{"gpu01; rm", "", 0, false},
	} {
		host, port, err := sshAddress(tt.in)
		if host != tt.host || port != tt.port || (err == nil) != tt.ok {
			t.Errorf("sshAddress(%q) = %q, %d, %v", tt.in, host, port, err)
		}
	}
}

func gpus(names ...string) *snapshot.Snapshot {
	used, total := int64(3), int64(81920)
	s := &snapshot.Snapshot{Host: "gpu01", CollectedAt: snapshot.TimeOf(time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)), IntervalSeconds: 20, DriverVersion: "550.90",
		GPUsComplete: true, Processes: []snapshot.Process{}}
	for i, name := range names {
		s.GPUs = append(s.GPUs, snapshot.GPU{Index: i, Name: name, MemoryUsed: &used, MemoryTotal: &total, Health: snapshot.HealthOK})
	}
	return s
}

// How many GPUs there should be is what somebody configured, never what the driver lists at the
// moment.
func TestTheNumberOfGPUsIsNotLearned(t *testing.T) {
	for _, configured := range []int{0, 8} {
		reg := inventory.Registration{GPUs: configured}
		for _, tt := range []struct {
			snap   *snapshot.Snapshot
			models int
		}{
			{&snapshot.Snapshot{}, 0}, // nvidia-smi fails
			{gpus("A100", "A100", "H100"), 2},
			{&snapshot.Snapshot{}, 2},
			{gpus("A100"), 1},
		} {
			Learn(&reg, tt.snap)
			if reg.GPUs != configured || len(reg.Models) != tt.models {
				t.Errorf("%d configured, after %d GPUs: %d of the models %v", configured, len(tt.snap.GPUs), reg.GPUs, reg.Models)
			}
		}
		if reg.Driver != "550.90" {
			t.Errorf("the driver is %q", reg.Driver)
		}
	}
}

func TestJudge(t *testing.T) {
	r := &consulReporter{pushes: true}
	busy := gpus("A100", "A100")
	much := int64(40000)
	busy.GPUs[1].MemoryUsed = &much
	one := 1
	faulty := gpus("A100")
	faulty.Errors = []snapshot.Problem{{Code: "gpu:lost", GPU: &one, Message: "it is lost"}, {Code: "ps:timeout", Message: "ps took too long"}}
	for _, tt := range []struct {
		name  string
		cycle cycle
		check inventory.Check
		want  string
	}{
		{"all free", cycle{snap: gpus("A100", "A100")}, inventory.Passing, "2 of 2 GPUs free"},
		{"one in use", cycle{snap: busy}, inventory.Passing, "1 of 2 GPUs free"},
		{"no GPUs", cycle{snap: gpus()}, inventory.Passing, "0 of 0 GPUs free"},
		{"not read", cycle{snap: faulty}, inventory.Warning, "GPU 1: it is lost (+1 more)"},
		{"not pushed", cycle{snap: faulty, pushErr: errors.New("no route")}, inventory.Warning, "collected, and not delivered: no route"},
		{"not spooled", cycle{snap: busy, collectErr: errors.New("disk full")}, inventory.Warning, "collecting: disk full"},
		{"nothing", cycle{}, inventory.Warning, "nothing was collected"},
	} {
		if check, output := r.judge(tt.cycle); check != tt.check || output != tt.want {
			t.Errorf("%s: %s: %s, want %s: %s", tt.name, check, output, tt.check, tt.want)
		}
	}
	r.pushes = false
	if _, output := r.judge(cycle{snap: busy}); output != "1 of 2 GPUs free (collected; no drop is set)" {
		t.Errorf("without a drop: %s", output)
	}
}

// Only the newest cycle counts, and handing it over never waits.
func TestSendNeverWaits(t *testing.T) {
	r := &consulReporter{cycles: make(chan cycle, 1)}
	for i := range 5 {
		r.send(cycle{snap: &snapshot.Snapshot{Seq: uint64(i)}})
	}
	if c := <-r.cycles; c.snap.Seq != 4 {
		t.Errorf("snapshot %d is left, want the last", c.snap.Seq)
	}
}

// The reason why a loop did not start is the first error that it has logged itself.
func TestWhyALoopDidNotStart(t *testing.T) {
	const before = "gpuboard: error: of an earlier loop\n"
	log := filepath.Join(t.TempDir(), LogFile)
	for after, want := range map[string]string{
		"": "it ended at once, or did not start",
		"gpuboard: error: no room [disk:space]\ngpuboard: hint: df -h\ngpuboard: error: another\n": "no room [disk:space]",
	} {
		if err := os.WriteFile(log, []byte(before+after), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := whyNot(log, int64(len(before))); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := whyNot(log+".none", 0); !strings.Contains(got, "did not start") {
		t.Errorf("without a log: %q", got)
	}
}
