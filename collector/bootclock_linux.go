package collector

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootClock returns how long the system has been up, including suspend: the clock of
// process starts. /proc/uptime is not used, because containers can replace it.
func bootClock() (time.Duration, bool) { return clock(unix.CLOCK_BOOTTIME) }

// kernelClock returns how long the system has been up, without suspend: the clock of the
// kernel's log.
func kernelClock() (time.Duration, bool) { return clock(unix.CLOCK_MONOTONIC) }

func clock(id int32) (time.Duration, bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}
