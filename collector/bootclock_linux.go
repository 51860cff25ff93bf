package collector

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootClock is how long the system has been up, sleep included: the clock that
// process starts are told in. /proc/uptime is not it: containers change that.
func bootClock() (time.Duration, bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}

// kernelClock is how long the system has been up, sleep left out: the clock of
// the kernel's log.
func kernelClock() (time.Duration, bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}
