//go:build !linux

package collector

import "time"

// bootClock is not available: there is no /proc to compare it with.
func bootClock() (time.Duration, bool) { return 0, false }

func kernelClock() (time.Duration, bool) { return 0, false }
