package snapshot

import (
	"testing"
	"time"
)

// TestARepeatedGPUCountsOnce: the first of two with one index is believed.
func TestARepeatedGPUCountsOnce(t *testing.T) {
	s := &Snapshot{Host: "gpu01", CollectedAt: TimeOf(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)), GPUs: []GPU{{Index: 0, Name: "first"}, {Index: 0, Name: "second"}, {Index: 1}}}
	problems := s.Validate()
	if len(problems) != 1 || problems[0].Code != BadRepeated || len(s.GPUs) != 2 || s.GPUs[0].Name != "first" {
		t.Errorf("%+v, %+v", problems, s.GPUs)
	}
}
