package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// This is the only file of the command line that starts programs: the loop
// itself, kept alive by check, OpenSSH's own reading of its configuration, and
// OpenSSH to run a command on the web host.

// maxLogBytes is how large the loop's log may be when the loop is started;
// a larger one is set aside once, so there are never more than two.
const maxLogBytes = 1 << 20

// startLoop starts "gpuboard run" with these flags in a session of its own, so
// that neither the end of cron's shell nor a closed terminal ends it, and
// returns its pid. Its output goes to the log file.
func startLoop(flags []string, logPath string) (pid int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("finding this program: %w", err)
	}
	if info, err := os.Lstat(logPath); err == nil && info.Size() > maxLogBytes {
		if err := os.Rename(logPath, logPath+".1"); err != nil {
			return 0, fmt.Errorf("setting the old log aside: %w", err)
		}
	}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return 0, fmt.Errorf("opening the loop's log: %w", err)
	}
	defer log.Close()
	c := exec.Command(self, append([]string{"run"}, flags...)...)
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return 0, fmt.Errorf("starting the loop: %w", err)
	}
	pid = c.Process.Pid
	// Somebody has to collect its exit status while we wait for its heartbeat;
	// when we are gone, that is init.
	go func() { _ = c.Wait() }()
	return pid, nil
}

// sshConfig asks OpenSSH what it would use to reach a host ("ssh -G"), which
// is the truth for Match, tokens and canonical names. It returns fs.ErrNotExist
// where there is no ssh.
func sshConfig(ctx context.Context, host string) ([]byte, error) {
	path, err := exec.LookPath("ssh")
	if err != nil {
		return nil, fs.ErrNotExist
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var stderr bytes.Buffer
	c := exec.CommandContext(ctx, path, "-G", "--", host)
	c.Stderr = &stderr
	c.WaitDelay = time.Second
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("asking ssh for its configuration of %s: %w: %s", host, err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// ssh runs a command on a host, with our own streams, and returns its exit code;
// 255 is an error of ssh itself. The command is for the shell there.
func (a *app) ssh(ctx context.Context, host, command string) (code int, err error) {
	c := exec.CommandContext(ctx, "ssh", "--", host, command)
	c.Stdin, c.Stdout, c.Stderr = a.stdin, a.stdout, a.stderr
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 5 * time.Second
	err = c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// startTime is when a process began, in the kernel's ticks since boot: with the
// pid it names a process for good. It is "" where there is no /proc.
func startTime(pid int) string {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	// The name in parentheses may hold anything, parentheses included.
	_, rest, ok := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return ""
	}
	return fields[19] // field 22 of proc(5), the third after the name being field 3
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	if pid <= 1 {
		return false
	}
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	after := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return len(after) == 0 || after[0] != "Z"
}

// installed reports whether a program can be found.
func installed(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}
