package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/internal/testenv/need"
)

// TestCyclesLongerThanTheInterval: nvidia-smi takes longer than the interval.
// Cycles follow each other and never overlap, it is said once, in the log and in
// the snapshot, and the heartbeat tells of the last cycle that there was.
func TestCyclesLongerThanTheInterval(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newNode(t, builtProgram(t), t.TempDir())
	marks := filepath.Join(n.dir, "marks")
	putFile(t, filepath.Join(n.dir, "nvidia-smi"),
		[]byte(
			"#!/bin/sh\necho begin >>\"${0%/*}/marks\"\nsleep 3\necho end >>\"${0%/*}/marks\"\nexec cat \"${0%/*}/capture.xml\"\n"), 0o755)
	c := exec.Command(n.program, "run", "--host", "gpu01", "--spool", n.spool, "--nvidia-smi",
		filepath.Join(n.dir, "nvidia-smi"), "--every", "2s", "--to", "file://"+n.dir)
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	seen := func() []string {
		data, _ := os.ReadFile(marks)
		return strings.Fields(string(data))
	}
	for end := time.Now().Add(need.Patience); len(seen()) < 7; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("in a minute there were only %v", seen())
			break
		}
	}
	latest, err := os.ReadFile(filepath.Join(n.dir, "drop", "gpu01", spool.LatestName))
	if err != nil {
		t.Error(err)
	}
	pushed := time.Now()
	var heart struct {
		Beat time.Time `json:"beat"`
	}
	for end := pushed.Add(need.Patience); !heart.Beat.After(pushed); time.Sleep(50 * time.Millisecond) {
		beat, err := os.ReadFile(filepath.Join(n.spool, "run.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(beat, &heart); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatalf("no cycle ends with a heartbeat; the last is of %v", heart.Beat)
		}
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("ended with %v: %s", err, said.String())
	}
	for i, mark := range seen() {
		if want := []string{"begin", "end"}[i%2]; mark != want {
			t.Fatalf("cycles overlap: %v", seen())
		}
	}
	if got := said.String(); strings.Count(got, "[loop:slow]") != 1 || strings.Count(got, "\n") != 1 {
		t.Errorf("said %q, want once that cycles are slow", got)
	}
	b, err := snapshot.DecodeBundle(bytes.NewReader(latest))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range b.Snapshot.Errors {
		found = found || p.Code == "loop:slow"
	}
	if !found {
		t.Errorf("the snapshot does not tell: %v", b.Snapshot.Errors)
	}
}
