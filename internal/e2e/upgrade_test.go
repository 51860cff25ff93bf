package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
)

// TestServersFollowAnUpgrade replaces the program below servers that cron has started: each ends, and the new
// program goes on in its place, with the same arguments and under the same lock.
func TestServersFollowAnUpgrade(t *testing.T) {
	t.Parallel()
	need.Time(t, "servers look every five seconds whether they were replaced")
	flock := need.Program(t, "flock")
	s := newSandbox(t, builtProgram(t))
	s.board()
	s.must(os.MkdirAll(s.path("srv/gpuboard/state/keys"), 0o700))
	s.typed("ssh-keygen -q -t ed25519 -N '' -f key && cp key.pub /srv/gpuboard/state/keys/gpu01.pub")
	for _, server := range []string{"serve", "receive"} {
		program := s.path("usr/local/bin/" + server)
		mustRun(t, ".", nil, "install", "--mode=755", builtProgram(t), program)
		address := fmt.Sprintf("127.0.0.1:%d", sshtest.FreePort(t))
		log, err := os.Create(s.path(server + ".log"))
		s.must(err)
		defer log.Close()
		c := exec.Command(flock, "-n", s.path(server+".lock"), program, server, "--listen", address)
		c.Env, c.Stdout, c.Stderr = s.env, log, log
		s.must(c.Start())
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		t.Cleanup(func() { _ = c.Process.Kill() })
		s.until(server+" listens", func() bool { return listening.Match(s.logged(log.Name())) })

		// The next version says what it was called with, whether the lock is held, and ends.
		said := s.path(server + ".said")
		next := program + ".next"
		s.must(
			os.WriteFile(next,
				[]byte("#!/bin/sh\n"+flock+" -n "+s.path(server+".lock")+" true && held=no || held=yes\n"+
					"echo \"$@\" $held > "+said+".part && mv "+said+".part "+said+"\n"), 0o755))
		s.must(os.Rename(next, program))
		s.until("the next "+server, func() bool { return exists(said) })
		if got := strings.TrimSpace(string(s.logged(said))); got != server+" --listen "+address+" yes" {
			t.Errorf("the next %s was called with %q", filepath.Base(program), got)
		}
		if err := <-ended; err != nil {
			t.Errorf("%s: %v\n%s", server, err, s.logged(log.Name()))
		}
	}
}

// TestCheckFollowsAnUpgrade: check, which cron types every minute, replaces a loop of another version, and no other.
func TestCheckFollowsAnUpgrade(t *testing.T) {
	t.Parallel()
	need.Time(t, "it links another version of the program")
	s := newSandbox(t, builtProgram(t))
	s.must(os.MkdirAll(s.path("srv/gpuboard/data/drop"), 0o755))
	program := s.path("usr/local/bin/gpuboard")
	mustRun(t, ".", nil, "go", "build", "-ldflags", "-X gpuboard/internal/cli.release=0.9.9", "-o", program, ".")
	check := func(want string) {
		t.Helper()
		out, code := s.shell(program + " check gpu01 --every 1m --to file:///srv/gpuboard/data")
		if code != 0 || !strings.HasPrefix(out, want) {
			t.Errorf("exit %d, want %q; it says\n%s", code, want, out)
		}
	}
	check("Launched gpu01 ")
	check("Running gpu01 ")

	mustRun(t, ".", nil, "install", "--mode=755", builtProgram(t), program)
	if out, code := s.shell(
		"env -u GPUBOARD_EVERY -u GPUBOARD_IDENTITY -u GPUBOARD_KNOWN_HOSTS " + program + " check gpu01"); code != 0 ||
		!strings.HasPrefix(out, "Running gpu01 ") {
		t.Errorf("without the loop's settings: exit %d\n%s", code, out)
	}
	out, code := s.shell(program + " check gpu01 --every 1m --to file:///srv/gpuboard/data")
	if code != 0 || !strings.HasPrefix(out, "Relaunched gpu01 ") ||
		!strings.Contains(out, "which was version 0.9.9\n") {
		t.Errorf("after the upgrade: exit %d\n%s", code, out)
	}
	check("Running gpu01 ")
}

// until waits for something that another process does.
func (s *sandbox) until(what string, there func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(need.Patience); !there(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("not in a minute and a half: %s", what)
		}
	}
}
