package publisher

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// StaggerOffset returns the offset within an interval at which a host pushes. It
// depends on the name alone and is spread evenly over many names. Without it,
// nodes that were all started at the same time would connect in the same second,
// and sshd refuses more than a third of 200 simultaneous connections.
func StaggerOffset(host string, interval time.Duration) time.Duration {
	if interval <= 0 {
		return 0
	}
	sum := sha256.Sum256([]byte("gpuboard phase\x00" + host))
	return time.Duration(binary.BigEndian.Uint64(sum[:8]) % uint64(interval))
}

// UntilPush returns the time from now to a host's next push: the next moment at its
// [StaggerOffset] within an interval. A push that took longer than the interval leaves moments out.
func UntilPush(host string, interval time.Duration, now time.Time) time.Duration {
	since := time.Duration(now.UnixNano()-int64(StaggerOffset(host, interval))) % interval
	if since < 0 {
		since += interval
	}
	return interval - since
}

// fullJitter is a backoff that waits a random time between 0 and a bound. The
// bound doubles with every attempt, up to cap.
type fullJitter struct {
	base, cap time.Duration
	tries     int
}

func (j *fullJitter) Reset() { j.tries = 0 }

func (j *fullJitter) NextBackOff() time.Duration {
	bound := j.cap
	if j.tries < 20 {
		bound = min(j.cap, j.base<<j.tries)
	}
	j.tries++
	return rand.N(bound + 1)
}
