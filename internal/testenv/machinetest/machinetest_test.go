package machinetest

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gpuboard/internal/testenv/need"
)

// TestMachine: systemd runs it, what is written there stays there, and two of
// them can share a network.
func TestMachine(t *testing.T) {
	m := Boot(t, Options{})
	if out := m.Run("systemctl", "is-system-running", "--wait"); strings.TrimSpace(out) != "running" {
		t.Errorf("it is %s", out)
	}
	if got := m.Run("cat", "/proc/1/comm"); got != "systemd\n" {
		t.Errorf("process 1 is %s", got)
	}
	if got := m.Run("stat", "--file-system", "--format=%T", "/root"); got != "tmpfs\n" {
		t.Errorf("root has there what it has here: /root is of %s", got)
	}
	m.Write("/etc/machinetest", "there", 0o600)
	if got := m.Run("cat", "/etc/machinetest"); got != "there" {
		t.Errorf("it reads %q", got)
	}
	if _, err := os.Stat("/etc/machinetest"); err == nil {
		t.Fatal("what the machine writes is here")
	}
	second := Boot(t, Options{Beside: m})
	if m.Run("readlink", "/proc/self/ns/net") != second.Run("readlink", "/proc/self/ns/net") ||
		m.Run("readlink", "/proc/self/ns/mnt") == second.Run("readlink", "/proc/self/ns/mnt") {
		t.Error("they share the wrong things")
	}
	if got := second.Read("/etc/machinetest"); got != "" {
		t.Errorf("the second reads what the first wrote: %q", got)
	}
}

// TestNetworkEndsNoThread: programs that are killed with the thread that started
// them outlive calls into another network.
func TestNetworkEndsNoThread(t *testing.T) {
	need.Root(t)
	var programs []*exec.Cmd
	for range 8 {
		c := exec.Command("sleep", "60")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		programs = append(programs, c)
	}
	var calls sync.WaitGroup
	for range 100 {
		calls.Go(func() {
			if err := inNetwork(os.Getpid(), func() error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	for _, c := range programs {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
		if got := c.ProcessState.Sys().(syscall.WaitStatus).Signal(); got != syscall.SIGTERM {
			t.Errorf("%s was ended by %s before the test ended it", c, got)
		}
	}
}
