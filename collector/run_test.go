package collector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/collector/nvidiasmi"
	"gpuboard/internal/testenv/need"
)

const (
	// slack is for a machine that is busy; none of these tests measures speed.
	slack = need.Patience
	// hangBudget is long enough for a stand-in to start and to write, even under
	// the race detector on such a machine.
	hangBudget = 10 * time.Second
)

func TestAProgramThatHangsIsEnded(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "cut-535.xml"))
	t.Setenv("GPUBOARD_FAKE_SMI_LOG", log)
	t.Setenv("GPUBOARD_FAKE_SMI_HANG", "1")
	began := time.Now()
	s := collect(t, patient(Options{NvidiaSMI: fake(t, "nvidia-smi"), SMIBudget: hangBudget}))
	if took := time.Since(began); took > hangBudget+killGrace+slack {
		t.Errorf("it took %s", took)
	}
	if !has(s, "smi:timeout") || has(s, "gpu:hung") || len(s.GPUs) != 1 {
		t.Errorf("%s, %d GPUs", problems(s), len(s.GPUs))
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d is still there", pid)
	}
}

func TestAProgramThatLeavesItsGroupIsEnded(t *testing.T) {
	t.Setenv("GPUBOARD_FAKE_SMI_LEAVE", "1")
	t.Setenv("GPUBOARD_FAKE_SMI_HANG", "1")
	s := collect(t, patient(Options{NvidiaSMI: fake(t, "nvidia-smi"), SMIBudget: time.Second}))
	if !has(s, "smi:timeout") || has(s, "gpu:hung") {
		t.Errorf("%s", problems(s))
	}
}

func TestAGrandchildThatHoldsTheOutput(t *testing.T) {
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "idle-8x-a100-550.xml"))
	t.Setenv("GPUBOARD_FAKE_SMI_ORPHAN", "1")
	began := time.Now()
	s := collect(t, patient(Options{NvidiaSMI: fake(t, "nvidia-smi")}))
	if took := time.Since(began); took > pipeGrace+slack {
		t.Errorf("it took %s", took)
	}
	if len(s.GPUs) != 8 || len(s.Errors) != 0 {
		t.Errorf("%d GPUs, %s", len(s.GPUs), problems(s))
	}
}

func TestOutputWithoutEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(file, bytes.Repeat([]byte("<x>y</x>\n"), nvidiasmi.MaxOutputBytes/8), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GPUBOARD_FAKE_SMI", file)
	s := collect(t, patient(Options{NvidiaSMI: fake(t, "nvidia-smi")}))
	if !has(s, "smi:limit") {
		t.Errorf("%s", problems(s))
	}
	r := execute(context.Background(), fake(t, "nvidia-smi"), nil, environment(), slack, 1000)
	if len(r.stdout) != 1000 || !r.cut || r.exit != 0 {
		t.Errorf("%d bytes, cut %v, exit %d, %v", len(r.stdout), r.cut, r.exit, r.err)
	}
}

// freezer makes a cgroup in which a process is in state D, as one that waits
// for a driver that is stuck.
func freezer(t *testing.T) (dir string, thaw func()) {
	t.Helper()
	dir = fmt.Sprintf("/sys/fs/cgroup/freezer/gpuboard-test-%d", os.Getpid())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no freezer to hang a process in: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "freezer.state")); err != nil {
		_ = os.Remove(dir)
		t.Skipf("no freezer to hang a process in: %v", err)
	}
	thaw = func() { _ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0o600) }
	t.Cleanup(func() {
		thaw()
		for range 100 {
			if os.Remove(dir) == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	return dir, thaw
}

func TestAProgramThatCannotBeEndedIsNotStartedAgain(t *testing.T) {
	dir, thaw := freezer(t)
	log, state := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "hung.json")
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "idle-8x-a100-550.xml"))
	t.Setenv("GPUBOARD_FAKE_SMI_LOG", log)
	t.Setenv("GPUBOARD_FAKE_SMI_FREEZE", dir)
	opts := Options{NvidiaSMI: fake(t, "nvidia-smi"), SMIBudget: hangBudget, StateFile: state}
	c := New(opts)
	for i := range 3 {
		began := time.Now()
		s := collect(t, c)
		if took := time.Since(began); took > opts.SMIBudget+killGrace+slack {
			t.Errorf("reading %d took %s", i, took)
		}
		if problems(s) != "gpu:hung" && i > 0 || !has(s, "gpu:hung") || s.Node.Load1 == nil {
			t.Errorf("reading %d: %s", i, problems(s))
		}
	}
	// Another process of ours, an hour later, knows it by the note.
	for range 3 {
		if s := collect(t, New(opts)); problems(s) != "gpu:hung" || s.GPUs != nil {
			t.Errorf("%s", problems(s))
		}
	}
	text, _ := os.ReadFile(log)
	if n := strings.Count(string(text), "\n"); n != 1 {
		t.Errorf("nvidia-smi was started %d times", n)
	}
	// The driver comes back: the killed program goes, and the next one runs.
	thaw()
	t.Setenv("GPUBOARD_FAKE_SMI_FREEZE", "")
	c.opts.SMIBudget = time.Minute
	deadline := time.Now().Add(slack)
	for {
		s := collect(t, c)
		if len(s.GPUs) == 8 && len(s.Errors) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %s", problems(s))
		}
	}
	if _, err := os.Stat(state); err == nil {
		t.Error("the note is still there")
	}
}

func TestWrongRecordOfAHungProgramIsIgnored(t *testing.T) {
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "idle-8x-a100-550.xml"))
	smi := fake(t, "nvidia-smi")
	_, started, ok := ProcStat("/proc", os.Getpid())
	if !ok {
		need.Skip(t, "no /proc")
	}
	boot := bootID("/proc")
	for name, text := range map[string]string{
		"garbage":       "{",
		"another start": fmt.Sprintf(`{"pid":%d,"started_ticks":%d,"boot_id":%q}`, os.Getpid(), started+1, boot),
		"another boot":  fmt.Sprintf(`{"pid":%d,"started_ticks":%d,"boot_id":"x"}`, os.Getpid(), started),
		"gone":          fmt.Sprintf(`{"pid":4194300,"started_ticks":1,"boot_id":%q}`, boot),
	} {
		file := filepath.Join(t.TempDir(), "hung.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s := collect(t, patient(Options{NvidiaSMI: smi, StateFile: file})); len(s.GPUs) != 8 {
			t.Errorf("%s: %s", name, problems(s))
		}
	}
	// And one that is true is.
	file := filepath.Join(t.TempDir(), "hung.json")
	if err := writeHung(file, hungProcess{PID: os.Getpid(), Started: started, BootID: boot, Since: "x"}); err != nil {
		t.Fatal(err)
	}
	if s := collect(t, patient(Options{NvidiaSMI: smi, StateFile: file})); !has(s, "gpu:hung") {
		t.Errorf("%s", problems(s))
	}
}

func TestParseStat(t *testing.T) {
	rest := strings.Repeat(" 1", 18) + " 4711" + strings.Repeat(" 2", 30)
	for text, want := range map[string]bool{"17 (a) b) (c) D" + rest: true, "17 (a\n) R" + rest: true,
		"17 (a) D 1": false, "": false, "17 a D" + rest: false} {
		_, started, ok := parseStat([]byte(text))
		if ok != want || ok && started != 4711 {
			t.Errorf("%q: %d %v", text, started, ok)
		}
	}
}

// TestProgramsOfOthers: a directory that other accounts can write, or one below such a directory,
// gives no program that is looked for by name; a path is the operator's own choice.
func TestProgramsOfOthers(t *testing.T) {
	const name = "gpuboard-test-program"
	for mode, found := range map[os.FileMode]bool{0o755: true, 0o700: true, 0o775: false, 0o757: false,
		0o777 | os.ModeSticky: true} {
		above := t.TempDir()
		dir := filepath.Join(above, "bin")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(above, mode); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", "relative:"+dir)
		got, err := resolve(name)
		if found && (got != path || err != nil) || !found &&
			(err == nil || !strings.Contains(err.Error(), path+" is skipped, because others can replace it")) {
			t.Errorf("below a directory of mode %v: %q, %v", mode, got, err)
		}
		if got, err := resolve(path); got != path || err != nil {
			t.Errorf("by its path: %q, %v", got, err)
		}
		if os.Geteuid() == 0 && found {
			if err := os.Chown(above, 4242, -1); err != nil {
				t.Fatal(err)
			}
			if got, err := resolve(name); err == nil {
				t.Errorf("below a directory of another account: %q", got)
			}
		}
	}
}

// TestAProgramThatOthersCanReplace: it is not looked for by name, whatever its directory is.
func TestAProgramThatOthersCanReplace(t *testing.T) {
	const name = "gpuboard-test-program"
	write := func(dir string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(target string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		path  string
		found bool
	}{
		"a file that others can write":     {write(t.TempDir(), 0o757), false},
		"a link to a file of this account": {link(write(t.TempDir(), 0o755)), true},
		"a link to what others can write":  {link(write(t.TempDir(), 0o775)), false},
		"a link to where others can write": {link(write(open, 0o755)), false},
	} {
		t.Setenv("PATH", filepath.Dir(c.path))
		if got, err := resolve(name); (err == nil) != c.found || c.found && got != c.path {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	if os.Geteuid() != 0 {
		return
	}

	shared := t.TempDir()
	path := write(shared, 0o755)
	if err := errors.Join(os.Chown(path, 4242, -1), os.Chmod(shared, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", shared)
	if got, err := resolve(name); err == nil {
		t.Errorf("another account's file in a sticky directory: %q", got)
	}
}
