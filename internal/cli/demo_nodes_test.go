package cli

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpuboard/internal/demo"
)

// A machine that makes up the history slowly still shows which GPUs a node had
// before its driver stopped.
func TestDemoNodesBeginAtTheStart(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"keys", "known"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Date(2026, 11, 20, 9, 42, 10, 0, time.UTC)
	a := &app{stderr: io.Discard, now: func() time.Time { return start.Add(10 * time.Minute) }}
	cfg := settingsOf(t, map[string]string{"nvidia_smi": "no-such-program"})
	nodes, err := a.demoNodes(cfg, dir, demo.New(1, start), start)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if n.host != "iris" {
			continue
		}
		first, err := n.snap(t.Context())
		if err != nil || len(first.GPUs) != 2 {
			t.Fatalf("its first snapshot has no GPUs (%v)", err)
		}
		next, err := n.snap(t.Context())
		if err != nil || next.GPUs != nil || !next.CollectedAt.After(first.CollectedAt.Time) {
			t.Fatalf("its driver does not stop (%v)", err)
		}
		return
	}
	t.Fatal("there is no iris")
}
