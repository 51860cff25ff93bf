// Package proctest ends what a test has left running.
package proctest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// KillAll kills every process that has this variable in its environment, "HOME=/tmp/x", also
// one with a session of its own, such as a loop that check has started. It returns when none
// is left, or after deadline.
func KillAll(variable string, deadline time.Time) {
	for kill(variable) > 0 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
}

// kill sends the signal once and returns to how many processes. A zombie has no environment.
func kill(variable string) (n int) {
	found, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range found {
		data, err := os.ReadFile(path)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && pid != os.Getpid() &&
			bytes.Contains(append([]byte("\x00"), data...), []byte("\x00"+variable+"\x00")) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			n++
		}
	}
	return n
}
