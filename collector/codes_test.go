package collector

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"gpuboard/collector/hostinfo"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

// TestPSThatHidesProcesses: nvidia-smi lists a process that is there, and ps
// shows another one alone.
func TestPSThatHidesProcesses(t *testing.T) {
	if inContainer("/proc") {
		t.Skip("in a container the collector cannot know who is hidden")
	}
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "new-595.xml"))
	t.Setenv("GPUBOARD_FAKE_SMI_PIDS", strconv.Itoa(os.Getpid()))
	real := need.Program(t, "ps")
	blind := filepath.Join(t.TempDir(), "ps")
	script := fmt.Sprintf("#!/bin/sh\n%s \"$@\" | /usr/bin/env grep -v '^ *%d '\nexit 0\n", real, os.Getpid())
	if err := os.WriteFile(blind, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s := collect(t, patient(Options{NvidiaSMI: fake(t, "nvidia-smi"), PS: blind}))
	if !has(s, "ps:hidden") || s.Processes[0].User != "" {
		t.Errorf("%s %+v", problems(s), s.Processes)
	}
}

// TestAHostThatCannotBeReadInTime: a disk that hangs costs its own readings.
func TestAHostThatCannotBeReadInTime(t *testing.T) {
	c := New(Options{Host: "n1"})
	var s snapshot.Snapshot
	late := make(chan hostinfo.Info, 1)
	c.host.running = late
	c.finishHost(context.Background(), &s)
	if !has(&s, "host:timeout") || c.host.running == nil {
		t.Fatalf("%+v", s.Errors)
	}
	if c.startHost(); c.host.running != late {
		t.Error("a second reading was begun while the first one hangs")
	}
	late <- hostinfo.Info{BootID: "b"}
	s = snapshot.Snapshot{}
	c.finishHost(context.Background(), &s)
	if s.BootID != "b" || len(s.Errors) > 0 {
		t.Errorf("the late one is %+v", s)
	}
	var many []snapshot.Problem
	for n := range 200 {
		many = append(many, snapshot.Problem{Code: "host:partial", Message: strconv.Itoa(n)})
	}
	if kept := limitProblems(many); kept[len(kept)-1].Code != "host:limit" {
		t.Errorf("the last of too many is %+v", kept[len(kept)-1])
	}
}
