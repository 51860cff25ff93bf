package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
)

// TestCronExample installs the blocks of cron.example, with only the names in
// capitals and the schedules put in, into a real cron daemon, which lives in a
// mount namespace of its own so that the machine's crontabs are not touched.
// cron wakes once a minute, so the test mostly waits.
func TestCronExample(t *testing.T) {
	need.Root(t)
	need.Time(t, "it takes three minutes of waiting for cron")
	cron := need.Program(t, "cron")
	unshare := need.Program(t, "unshare")
	t.Parallel()

	h := newHouse(t)
	blocks := cronBlocks(t)
	if len(blocks) != 5 {
		t.Fatalf("cron.example has %d entries, want five", len(blocks))
	}
	put := func(line, host string) string {
		r := strings.NewReplacer(
			"sftp://n-HOSTNAME@WEBHOST/in",
			fmt.Sprintf("sftp://%s@%s%s", h.sshd.User, h.sshd.Addr, filepath.Join(h.data, "drop", host)),
			"HOSTNAME", host, "/srv/gpuboard", h.dir)
		return everyMinute(t, r.Replace(line))
	}
	head := strings.Join([]string{
		"PATH=" + filepath.Dir(h.program) + ":/usr/bin:/bin", "SHELL=/bin/sh", `MAILTO=""`,
		"GPUBOARD_NVIDIA_SMI=" + h.smi, "GPUBOARD_IDENTITY=" + h.sshd.Key, "GPUBOARD_KNOWN_HOSTS=" + h.sshd.KnownHosts,
		"GPUBOARD_EVERY=2s",
	}, "\n") + "\n"
	loop := head + "GPUBOARD_SPOOL=" + filepath.Join(h.dir, "spool-gpu01") + "\n"
	once := "GPUBOARD_SPOOL=" + filepath.Join(h.dir, "spool-gpu02") + "\n"

	tabs, run := filepath.Join(h.dir, "crontabs"), filepath.Join(h.dir, "run")
	h.must(os.MkdirAll(tabs, 0o1730))
	h.must(os.MkdirAll(run, 0o755))
	h.must(os.MkdirAll(filepath.Join(h.dir, "empty"), 0o755))
	install := func(content string) {
		// cron notices a table by the change of its directory.
		h.must(os.WriteFile(filepath.Join(tabs, ".new"), []byte(content), 0o600))
		h.must(os.Rename(filepath.Join(tabs, ".new"), filepath.Join(tabs, "root")))
	}
	install(loop + put(blocks[0], "gpu01") + once + put(blocks[2], "gpu02") + put(blocks[3], "") + put(blocks[4], ""))

	script := fmt.Sprintf(
		"mount --make-rprivate / && mount --bind %s /var/spool/cron/crontabs && mount --bind %s /run && "+
			"mount --bind %s /etc/cron.d && : > %s && mount --bind %s /etc/crontab && exec %s -f",
		tabs, run, filepath.Join(h.dir, "empty"), filepath.Join(h.dir, "crontab"), filepath.Join(h.dir, "crontab"),
		cron)
	daemon := exec.Command(unshare, "-m", "/bin/sh", "-c", script)
	daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log := &strings.Builder{}
	daemon.Stdout, daemon.Stderr = log, log
	h.must(daemon.Start())
	ended := make(chan struct{})
	go func() { _ = daemon.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		<-ended
		h.run(0, h.node("gpu01", "check", "kill")...)
	})
	until := func(what string, ok func() bool) {
		t.Helper()
		// cron wakes once a minute, and a node may wait for most of one before it pushes.
		deadline := time.After(3 * need.Patience)
		for !ok() {
			select {
			case <-ended:
				t.Fatalf("%s: cron has ended, %s; it says %s", what, daemon.ProcessState, log)
			case <-deadline:
				t.Fatalf("%s: not within nine minutes; cron says %s", what, log)
			case <-time.After(100 * time.Millisecond):
			}
		}
	}

	// Blocks 1 and 3: a loop is kept alive, and a node without one reports.
	drop := func(host string) string { return filepath.Join(h.data, "drop", host, "latest.json.gz") }
	until("both nodes have reported", func() bool { return exists(drop("gpu01")) && exists(drop("gpu02")) })
	first, err := os.ReadFile(filepath.Join(h.dir, "spool-gpu01", "run.json"))
	h.must(err)

	// Block 4: the answers of the engines, whichever this machine has, are where the collector looks.
	until("the engines were asked", func() bool { return exists(filepath.Join(run, "gpuboard", "containers.json")) })

	// Block 5: the next minute's generation shows both.
	until("the site shows both nodes", func() bool {
		if !exists(filepath.Join(h.site, "api", "v1", "board.json")) {
			return false
		}
		b := h.board()
		return len(b.Hosts) == 2 && b.Hosts[0].State == "up" && b.Hosts[1].State == "up"
	})

	// Block 2: the loop starts afresh, and there is one loop as before.
	install(loop + put(blocks[1], "gpu01"))
	until("another loop runs", func() bool {
		now, err := os.ReadFile(filepath.Join(h.dir, "spool-gpu01", "run.json"))
		return err == nil && pidOf(string(now)) != pidOf(string(first))
	})
}

// cronBlocks are the entries of cron.example, without their comments.
func cronBlocks(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("cron.example")
	if err != nil {
		t.Fatal(err)
	}
	var entries []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") &&
			!strings.HasPrefix(line, "PATH=") {
			entries = append(entries, line)
		}
	}
	return entries
}

// everyMinute puts another schedule before the command of an entry.
func everyMinute(t *testing.T, entry string) string {
	t.Helper()
	fields := strings.SplitN(entry, " ", 6)
	if len(fields) != 6 {
		t.Fatalf("%q is no entry of a crontab", entry)
	}
	return "* * * * * " + fields[5] + "\n"
}

func pidOf(beat string) string {
	_, after, _ := strings.Cut(beat, `"pid":`)
	pid, _, _ := strings.Cut(after, ",")
	return pid
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }
