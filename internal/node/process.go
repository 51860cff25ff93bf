package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
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

// stat returns the fields of /proc/PID/stat behind the name: field 3 of proc(5) is the first.
func stat(pid int) ([]string, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:])), err
}

// startTime is when a process began, in ticks since boot; "" where there is no /proc.
func startTime(pid int) string {
	fields, _ := stat(pid)
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	if pid <= 1 || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	fields, err := stat(pid)
	return !errors.Is(err, fs.ErrNotExist) && (len(fields) == 0 || fields[0] != "Z")
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
