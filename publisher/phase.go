package publisher

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// Phase is the moment within an interval at which a host pushes: always the
// same for one name, spread evenly over many names. Nodes that are all started
// by the same clock would otherwise knock at the server in the same second,
// where sshd turns away more than a third of 200.
func Phase(host string, interval time.Duration) time.Duration {
	if interval <= 0 {
		return 0
	}
	sum := sha256.Sum256([]byte("gpuboard phase\x00" + host))
	return time.Duration(binary.BigEndian.Uint64(sum[:8]) % uint64(interval))
}

// fullJitter waits a random time between nothing and a bound that doubles.
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
