package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"syscall"

	"gpuboard/collector"
)

// maxLogBytes is the size from which the log is renamed when a loop starts.
const maxLogBytes = 1 << 20

// start starts "gpuboard run" with these flags and returns its pid. The process has a session of
// its own, so it outlives cron's shell and a closed terminal. Its output goes to the log file, which had
// logged bytes before.
func start(flags []string, logPath string) (pid int, logged int64, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, 0, fmt.Errorf("finding this program: %w", err)
	}
	if info, err := os.Lstat(logPath); err == nil && info.Size() > maxLogBytes {
		if err := os.Rename(logPath, logPath+".1"); err != nil {
			return 0, 0, fmt.Errorf("renaming the old log: %w", err)
		}
	}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return 0, 0, fmt.Errorf("opening the loop's log: %w", err)
	}
	defer log.Close()
	if info, err := log.Stat(); err == nil {
		logged = info.Size()
	}
	c := exec.Command(self, append([]string{"run"}, flags...)...)
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return 0, 0, fmt.Errorf("starting the loop: %w", err)
	}
	pid = c.Process.Pid
	go func() { _ = c.Wait() }() // without it a loop that ends at once stays a zombie
	return pid, logged, nil
}

// startTime is when a process began, in ticks since boot; "" where there is no /proc.
func startTime(pid int) string {
	_, started, ok := collector.ProcStat("/proc", pid)
	if !ok {
		return ""
	}
	return strconv.FormatUint(started, 10)
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	if pid <= 1 || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	state, _, ok := collector.ProcStat("/proc", pid)
	return !ok || state != 'Z'
}

// unit is the systemd unit whose main process this one is; "" for none. A loop that check started
// is not, even if check itself ran in a unit.
func unit(getenv func(string) string) string {
	if getenv("SYSTEMD_EXEC_PID") != strconv.Itoa(os.Getpid()) {
		return ""
	}
	cgroup, _ := os.ReadFile("/proc/self/cgroup")
	name := path.Base(strings.TrimSpace(string(cgroup)))
	if !strings.HasSuffix(name, ".service") {
		return "systemd"
	}
	return name
}
