package demo_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/collector"
	"gpuboard/internal/demo"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

// read makes up a machine as its snapshot says, and lets the collector read it.
func read(t *testing.T, f *demo.Fleet, s *snapshot.Snapshot, patience time.Duration) *snapshot.Snapshot {
	t.Helper()
	dir := t.TempDir()
	if err := demo.WriteMachine(dir, s); err != nil {
		t.Fatal(err)
	}
	o := collector.Options{
		Host: s.Host, Version: s.Collector, SMIBudget: patience, PSBudget: need.Patience,
		Now: func() time.Time { return s.CollectedAt.Time },
	}
	f.Machine(dir, &o)
	got, err := collector.New(o).Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// What the collector reads of a made-up machine is what there is.
func TestCollectorFindsTheFleet(t *testing.T) {
	start := time.Date(2026, 11, 20, 9, 42, 10, 0, time.UTC)
	f := demo.New(1, start)
	problems := map[string]string{"ceres": "gpu:ecc", "europa": "gpu:lost"}
	for _, at := range []time.Time{start, start.Add(-37 * time.Hour)} {
		for _, h := range f.Hosts() {
			want := f.Snapshot(h.Name, at)
			got := read(t, f, want, need.Patience)
			codes := ""
			for _, p := range got.Errors {
				codes += p.Code
			}
			if at.Equal(start) && codes != problems[h.Name] {
				t.Errorf("%s at %v: problems %+v", h.Name, at, got.Errors)
			}
			want.Seq, want.IntervalSeconds, want.Errors, got.Errors = 0, 0, nil, nil // which the spool and the loop set
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s at %v:\n%s", h.Name, at, diff)
			}
		}
	}
}

// The driver of iris stops after the start: its nvidia-smi does not answer, and is ended.
func TestDriverThatDoesNotAnswer(t *testing.T) {
	start := time.Date(2026, 11, 20, 9, 42, 10, 0, time.UTC)
	f := demo.New(1, start)
	got := read(t, f, f.Snapshot("iris", start.Add(3*time.Minute)), 500*time.Millisecond)
	timeout := len(got.Errors) == 1 && got.Errors[0].Code == "smi:timeout"
	if !timeout || got.GPUs != nil || got.GPUsComplete || got.Node.Load1 == nil {
		t.Errorf("iris is %+v", got)
	}
}
