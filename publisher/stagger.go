package publisher

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// StaggerOffset returns the offset at which a host pushes within an interval. The interval must be above 0.
// It depends on the name alone and is spread evenly over many names. Without it,
// nodes that were all started at the same time would connect in the same second,
// and sshd refuses more than a third of 200 simultaneous connections.
func StaggerOffset(host string, interval time.Duration) time.Duration {
	sum := sha256.Sum256([]byte("gpuboard phase\x00" + host))
	return time.Duration(binary.BigEndian.Uint64(sum[:8]) % uint64(interval))
}

// UntilPush returns the time from now to a host's next push: the next moment at its
// [StaggerOffset] within an interval. A push that took longer than the interval leaves moments out.
func UntilPush(host string, interval time.Duration, now time.Time) time.Duration {
	since := time.Duration(now.UnixNano()-int64(StaggerOffset(host, interval))) % interval
	return interval - since
}

// jitter returns a backoff that waits a random time between 0 and a bound, which
// doubles with each attempt ("full jitter"). The library spreads a wait evenly
// over the interval from 0 to twice its mean.
func jitter() backoff.BackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: retryBase / 2, MaxInterval: retryCap / 2, Multiplier: 2, RandomizationFactor: 1,
	}
}
