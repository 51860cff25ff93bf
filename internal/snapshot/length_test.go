package snapshot_test

import (
	"testing"
	"time"

	"gpuboard/internal/snapshot"
)

func TestLength(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 45 * time.Second: "45 s", 150 * time.Minute: "2 h 30 min", 36 * time.Hour: "1 d 12 h",
		-time.Hour: "1 h", 13 * 24 * time.Hour: "13 d", time.Hour + time.Second: "1 h", 61 * time.Minute: "1 h 1 min",
		90 * time.Second: "1 min 30 s", 59600 * time.Millisecond: "1 min",
	} {
		if got := snapshot.Length(d); got != want {
			t.Errorf("Length(%v) = %q, want %q", d, got, want)
		}
	}
}
