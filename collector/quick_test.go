package collector

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gpuboard/internal/testenv/need"
)

// loggedPS is the real ps, which records its arguments. before is run first.
func loggedPS(t *testing.T, before string) (program string, arguments func() string) {
	t.Helper()
	real := need.Program(t, "ps")
	dir := t.TempDir()
	program, log := filepath.Join(dir, "ps"), filepath.Join(dir, "log")
	script := fmt.Sprintf("#!/bin/sh\nprintf '%%s ' \"$1\" >>%s\n%s\nexec %s \"$@\"\n", log, before, real)
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return program, func() string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(log)
		return strings.TrimSpace(string(text))
	}
}

// TestPSReadsOnlyTheProcessesNeeded: living processes by name, and the whole
// table only while one is gone, or where ps knows no better.
func TestPSReadsOnlyTheProcessesNeeded(t *testing.T) {
	if inContainer("/proc") {
		t.Skip("in a container the collector cannot know who is dead")
	}
	b := live(t, false, "/usr/bin/sleep", "600")
	dead, orphan := gone(t)
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "new-595.xml"))
	pids := func(third int) {
		t.Setenv("GPUBOARD_FAKE_SMI_PIDS", strconv.Itoa(third))
	}
	for _, test := range []struct {
		name, before    string
		well, ill, then string // the arguments of ps: all alive; one gone, twice; all alive again, twice
	}{
		{"procps", "", "-q", "-q -A -A", "-A -q"},
		{"one that has no quick mode", `[ "$1" = -q ] && { echo "error: unsupported option" >&2; exit 1; }`, "-q -A",
			"-A -A", "-A -A"},
	} {
		t.Run(test.name, func(t *testing.T) {
			program, arguments := loggedPS(t, test.before)
			c := patient(Options{NvidiaSMI: fake(t, "nvidia-smi"), PS: program})
			pids(b.Process.Pid)
			s := collect(t, c)
			if got := arguments(); got != test.well || len(s.Errors) != 0 {
				t.Errorf("all alive: run with %q, want %q; %s", got, test.well, problems(s))
			}
			for _, p := range s.Processes {
				if p.Alive == nil || !*p.Alive || p.User == "" || p.StartedAt == nil {
					t.Errorf("%+v", p)
				}
			}
			pids(dead)
			collect(t, c)
			s = collect(t, c)
			if got := arguments(); got != test.ill || len(s.Errors) != 0 {
				t.Errorf("one gone: run with %q, want %q; %s", got, test.ill, problems(s))
			}
			for _, p := range s.Processes {
				if p.PID == dead &&
					(p.Alive == nil || *p.Alive || len(p.Children) != 1 || p.Children[0].PID != orphan) {
					t.Errorf("the dead one is %+v", p)
				}
			}
			pids(b.Process.Pid)
			collect(t, c)
			collect(t, c)
			if got := arguments(); got != test.then {
				t.Errorf("all alive again: run with %q, want %q", got, test.then)
			}
		})
	}
}
