package collector

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/collector/hostinfo"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/fakeps"
	"gpuboard/internal/testenv/fakesmi"
	"gpuboard/internal/testenv/need"
)

// The test binary is nvidia-smi and ps, too, when it is started by such a name.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "nvidia-smi":
		fakesmi.Main()
	case "ps":
		fakeps.Main()
	case "amd-smi", "rocm-smi":
		fakesmi.AMDMain()
	}
	if os.Getenv("GPUBOARD_TEST_SLEEP") != "" { // whatever its arguments are
		time.Sleep(10 * time.Minute)
	}
	os.Exit(m.Run())
}

// fake returns the path of a stand-in.
func fake(t testing.TB, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	return link
}

func capturePath(t testing.TB, name string) string {
	t.Helper()
	full, err := filepath.Abs(filepath.Join("nvidiasmi", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return full
}

// patient makes a collector whose programs have as long as a busy machine needs, unless a
// test sets budgets of its own. What this machine's engines have said is not read.
func patient(opts Options) *Collector {
	opts.SMIBudget = cmp.Or(opts.SMIBudget, need.Patience)
	opts.PSBudget = cmp.Or(opts.PSBudget, need.Patience)
	opts.Containers = cmp.Or(opts.Containers, "/none")
	return New(opts)
}

func collect(t testing.TB, c *Collector) *snapshot.Snapshot {
	t.Helper()
	s, err := c.Collect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func problems(s *snapshot.Snapshot) string {
	var codes []string
	for _, p := range s.Errors {
		codes = append(codes, p.Code)
	}
	return strings.Join(codes, " ")
}

func has(s *snapshot.Snapshot, code string) bool {
	for _, p := range s.Errors {
		if p.Code == code {
			return true
		}
	}
	return false
}

// live starts a process that lives until the test ends.
func live(t *testing.T, group bool, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep")
	cmd.Args = argv
	cmd.Env = append(os.Environ(), "SECRET=CANARY-env")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: group}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// gone returns the pid of a process that has ended, and that of a child which
// it left behind in its group.
func gone(t *testing.T) (pid, child int) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	child, err = strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) })
	return cmd.Process.Pid, child
}

// zombie returns the pid of a child that has ended and was not waited for.
func zombie(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	for {
		if state, _, ok := ProcStat("/proc", cmd.Process.Pid); ok && state == 'Z' {
			return cmd.Process.Pid
		}
	}
}

func TestProcessesGetTheirOwners(t *testing.T) {
	if inContainer("/proc") {
		t.Skip("in a container the collector cannot know who is dead")
	}
	worker := live(t, false, "/usr/bin/python3 /home/x/train.py --token=CANARY-a", "600")
	script := sleeping(t, "/usr/bin/python3", "-W", "ignore::x CANARY-b", "/home/CANARY-c/train.py", "CANARY-d")
	dead, orphan := gone(t)
	defunct := zombie(t)
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "mixed-4x-processes-535.xml"))
	t.Setenv("GPUBOARD_FAKE_SMI_PIDS",
		fmt.Sprintf("%d,%d,%d,%d", worker.Process.Pid, dead, script.Process.Pid, defunct))
	s := collect(t, patient(Options{Host: "n1", Version: "test", NvidiaSMI: fake(t, "nvidia-smi")}))

	if len(s.GPUs) != 4 || len(s.Errors) != 0 || s.Host != "n1" || s.IntervalSeconds != 0 ||
		s.DriverVersion != "535.161.08" || s.BootID == "" || s.Seq != 0 {
		t.Fatalf("%+v", s)
	}
	me := strconv.Itoa(os.Getuid())
	byPID := map[int]snapshot.Process{}
	for _, p := range s.Processes {
		byPID[p.PID] = p
	}
	w := byPID[worker.Process.Pid]
	if w.Alive == nil || !*w.Alive || w.User == "" || w.UID == nil || strconv.FormatInt(*w.UID, 10) != me ||
		w.StartedAt == nil || w.Type != snapshot.Compute || w.Program != "python3" {
		t.Errorf("the living one is %+v", w)
	}
	if age := time.Since(w.StartedAt.Time); age < -time.Second || age > time.Minute {
		t.Errorf("it started %s ago", age)
	}
	if p := byPID[script.Process.Pid]; p.Type != snapshot.ComputeGraphics || p.Alive == nil || !*p.Alive ||
		p.Program != "train.py" {
		t.Errorf("C+G is %+v", p)
	}
	if p := byPID[dead]; p.Alive == nil || *p.Alive || p.User != "" || p.UID != nil || p.Program != "python3" ||
		len(p.Children) != 1 || p.Children[0].PID != orphan || p.Children[0].User == "" ||
		p.Children[0].Program != "sleep" {
		t.Errorf("the dead one is %+v", p)
	}
	if p := byPID[defunct]; p.Alive == nil || *p.Alive || p.User == "" || p.UID == nil {
		t.Errorf("the zombie is %+v", p)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "CANARY") {
		t.Errorf("an argument is in the snapshot: %s", text)
	}
}

func TestNoProcessIsDeadInAContainer(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "self/ns"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("pid:[4026532200]", filepath.Join(root, "self/ns/pid")); err != nil {
		t.Fatal(err)
	}
	dead, _ := gone(t)
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "new-595.xml"))
	t.Setenv("GPUBOARD_FAKE_SMI_PIDS", strconv.Itoa(dead))
	s := collect(t, patient(Options{NvidiaSMI: fake(t, "nvidia-smi"), Roots: hostinfo.Roots{Proc: root}}))
	if !has(s, "ps:namespace") || s.Processes[0].Alive != nil || s.Processes[0].User != "" {
		t.Errorf("%s %+v", problems(s), s.Processes)
	}
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "trimmed-3of6-535.xml"))
	s = collect(t, patient(Options{NvidiaSMI: fake(t, "nvidia-smi"), Roots: hostinfo.Roots{Proc: root}}))
	if len(s.GPUs) != 3 || s.GPUs[0].ProcessesUnknown != "" || s.GPUs[1].ProcessesUnknown == "" {
		t.Errorf("processes that a container does not see are known: %+v", s.GPUs)
	}
}

// nvidia-smi lists nobody who has no pid where it runs.
func TestProcessesHiddenByAContainer(t *testing.T) {
	s := &snapshot.Snapshot{GPUs: []snapshot.GPU{
		{Index: 0, MemoryUsed: new(int64(9000))}, {Index: 1, MemoryUsed: new(int64(9000))},
		{Index: 2, MemoryUsed: new(int64(4))}, {Index: 3},
		{Index: 4, MemoryUsed: new(int64(4)), MemoryShared: true}, {Index: 5, MemoryUsed: new(int64(9000))},
	}, Processes: []snapshot.Process{{GPU: 1, PID: 7}, {GPU: 5, PID: 8, Type: snapshot.Graphics}}}
	markHiddenProcesses(s)
	for i, want := range []bool{false, true, true, false, false, false} {
		if known := s.ProcessesKnownOf(&s.GPUs[i]); known != want {
			t.Errorf("GPU %d: processes known is %v", i, known)
		}
	}
}

func TestEveryExitStatusIsASnapshot(t *testing.T) {
	smi := fake(t, "nvidia-smi")
	for _, c := range []struct {
		exit         int
		text, stderr string
		want         string
		gpus         int // -1: not known
	}{
		{2, "", "", "smi:usage", -1}, {3, "", "", "smi:unsupported", -1}, {4, "", "", "smi:permission", -1},
		{6, "No devices were found\n", "", "smi:no-devices", 0}, {8, "", "", "smi:power-cable", -1},
		{9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "",
			"smi:driver-not-loaded", -1},
		{10, "", "", "smi:interrupt", -1},
		{12, "", "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", "smi:no-library", -1},
		{13, "", "", "smi:function-missing", -1}, {14, "", "", "smi:inforom", -1}, {15, "", "", "gpu:lost", -1},
		{15,
			"Unable to determine the device handle for GPU 0000:05:00.0: GPU is lost.  Reboot the system to recover this GPU\n", "", "gpu:lost", 1},
		{18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.183\n", "",
			"smi:driver-mismatch", -1},
		{255, "Failed to initialize NVML: Unknown Error\n", "", "smi:nvml-unknown", -1},
		{255, "", "", "smi:failed", -1},
		{1, "", "", "smi:failed", -1}, {0, "", "", "smi:empty", -1}, {0, "hello\n", "", "smi:parse", -1},
		{0, "No devices were found\n", "", "smi:no-devices", 0},
	} {
		t.Run(fmt.Sprint(c.exit, c.want), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "out")
			if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			t.Setenv("GPUBOARD_FAKE_SMI", file)
			t.Setenv("GPUBOARD_FAKE_SMI_EXIT", strconv.Itoa(c.exit))
			t.Setenv("GPUBOARD_FAKE_SMI_STDERR", c.stderr)
			s := collect(t, patient(Options{NvidiaSMI: smi}))
			if !has(s, c.want) || s.Errors[0].Message == "" {
				t.Errorf("problems are %q, want %s", problems(s), c.want)
			}
			known := -1
			if s.GPUs != nil {
				known = len(s.GPUs)
			}
			if known != c.gpus || s.Node.Load1 == nil || s.BootID == "" {
				t.Errorf("%d GPUs, want %d; %+v", known, c.gpus, s.Node)
			}
		})
	}
}

func TestOutputBeforeAFailureIsRead(t *testing.T) {
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "cut-535.xml"))
	t.Setenv("GPUBOARD_FAKE_SMI_EXIT", "255")
	s := collect(t, patient(Options{NvidiaSMI: fake(t, "nvidia-smi")}))
	if len(s.GPUs) != 1 || s.GPUsComplete || !has(s, "smi:failed") || !has(s, "smi:truncated") {
		t.Errorf("%d GPUs, %s", len(s.GPUs), problems(s))
	}
}

// TestCompleteByExitStatus: a document that lists all GPUs, and how nvidia-smi
// ended beside it.
func TestCompleteByExitStatus(t *testing.T) {
	smi := fake(t, "nvidia-smi")
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "idle-8x-a100-550.xml"))
	for exit, want := range map[int]bool{0: true, 8: true, 14: true, 4: false, 9: false, 13: false, 18: false,
		255: false} {
		t.Setenv("GPUBOARD_FAKE_SMI_EXIT", strconv.Itoa(exit))
		if s := collect(t, patient(Options{NvidiaSMI: smi})); s.GPUsComplete != want || len(s.GPUs) != 8 {
			t.Errorf("exit status %d: complete is %v with %d GPUs", exit, s.GPUsComplete, len(s.GPUs))
		}
	}
	t.Setenv("GPUBOARD_FAKE_SMI_EXIT", "0")
	t.Setenv("GPUBOARD_FAKE_SMI_HANG", "1")
	for budget := 300 * time.Millisecond; ; budget *= 2 { // until it has the time to write everything
		s := collect(t, patient(Options{NvidiaSMI: smi, SMIBudget: budget}))
		if s.GPUsComplete || !has(s, "smi:timeout") {
			t.Errorf("it hangs after the last byte: complete is %v with %d GPUs, %s", s.GPUsComplete, len(s.GPUs),
				problems(s))
		}
		if len(s.GPUs) == 8 {
			break
		}
		if budget > need.Patience {
			t.Fatalf("%d GPUs within %v", len(s.GPUs), budget)
		}
	}
}

func TestMissingPrograms(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "nvidia-smi")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{"/does/not/exist": "smi:missing",
		"no-such-program-at-all": "smi:missing", plain: "smi:missing"} {
		s := collect(t, patient(Options{NvidiaSMI: program}))
		if problems(s) != want || s.GPUs != nil {
			t.Errorf("%s: %s, %v", program, problems(s), s.GPUs)
		}
	}
	// A program in the working directory is nobody's nvidia-smi.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "no-such-program-at-all"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Setenv("PATH", ".:")
	if s := collect(t, patient(Options{NvidiaSMI: "no-such-program-at-all"})); problems(s) != "smi:missing" {
		t.Errorf("%s", problems(s))
	}
}

func TestProgramsSeeNoSecrets(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "new-595.xml"))
	t.Setenv("GPUBOARD_FAKE_SMI_LOG", log)
	t.Setenv("CONSUL_HTTP_TOKEN", "CANARY-token")
	t.Setenv("HOME", "/CANARY-home")
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	t.Setenv("LD_LIBRARY_PATH", "/opt/driver-lib")
	collect(t, patient(Options{NvidiaSMI: fake(t, "nvidia-smi")}))
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); strings.Contains(s, "CANARY") || strings.Contains(s, "de_DE") ||
		!strings.Contains(s, "LC_ALL=C ") || !strings.Contains(s, "LD_LIBRARY_PATH=/opt/driver-lib") ||
		!strings.Contains(s, "-q -x") {
		t.Errorf("it saw %s", s)
	}
}

// withPS collects with one process on a GPU and a stand-in for ps.
func withPS(t *testing.T, c *Collector) *snapshot.Snapshot {
	t.Helper()
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "new-595.xml"))
	t.Setenv("GPUBOARD_FAKE_SMI_PIDS", strconv.Itoa(os.Getpid()))
	return collect(t, c)
}

func TestNoProcessIsDeadWithoutPS(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		ps   string
		want string
	}{
		"missing": {nil, "/does/not/exist", "ps:missing"},
		"failing": {map[string]string{"EXIT": "1", "STDERR": "error: no such column"}, "", "ps:failed"},
		"empty":   {nil, "", "ps:failed"},
		"hanging": {map[string]string{"HANG": "1"}, "", "ps:timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv("GPUBOARD_FAKE_PS_"+k, v)
			}
			if c.ps == "" {
				c.ps = fake(t, "ps")
			}
			budget := time.Minute
			if c.want == "ps:timeout" {
				budget = 300 * time.Millisecond
			}
			s := withPS(t, patient(Options{NvidiaSMI: fake(t, "nvidia-smi"), PS: c.ps, PSBudget: budget}))
			if problems(s) != c.want || len(s.Processes) != 1 {
				t.Fatalf("%s: %+v", problems(s), s.Processes)
			}
			if p := s.Processes[0]; p.Alive != nil || p.User != "" || p.UID != nil ||
				p.Program != "nvidia-cuda-mps-server" {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestMIGDevicesAreNamed(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "mig-h100-590.xml"))
	t.Setenv("GPUBOARD_FAKE_SMI_LOG", log)
	t.Setenv("GPUBOARD_FAKE_SMI_PIDS", "1,1")
	smi := fake(t, "nvidia-smi")
	s := collect(t, patient(Options{NvidiaSMI: smi}))
	if !has(s, "smi:mig-list") || len(s.GPUs[0].MIGDevices) != 4 || s.GPUs[0].MIGDevices[0].UUID != "" {
		t.Errorf("without -L: %s %+v", problems(s), s.GPUs[0].MIGDevices)
	}
	t.Setenv("GPUBOARD_FAKE_SMI_LIST", capturePath(t, "mig-h100-590-L.txt"))
	c := patient(Options{NvidiaSMI: smi})
	for range 3 {
		s = collect(t, c)
		if d := s.GPUs[0].MIGDevices; has(s, "smi:mig-list") || d[0].Profile != "3g.40gb" || d[3].UUID == "" {
			t.Errorf("%s %+v", problems(s), d)
		}
	}
	if i := s.Processes[0].GPUInstanceID; i == nil || *i != 2 {
		t.Errorf("%+v", s.Processes[0])
	}
	text, _ := os.ReadFile(log)
	if n := strings.Count(string(text), " -L "); n != 2 {
		t.Errorf("-L ran %d times, want 2: one failed, and one for the three readings after it", n)
	}
}

func TestContextEndsCollect(t *testing.T) {
	t.Setenv("GPUBOARD_FAKE_SMI_HANG", "1")
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	s, err := New(Options{NvidiaSMI: fake(t, "nvidia-smi")}).Collect(ctx)
	if s != nil || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > need.Patience {
		t.Errorf("%v, %v after %s", s, err, time.Since(began))
	}
}

func TestProblemsAreBounded(t *testing.T) {
	var all []snapshot.Problem
	for i := range 200 {
		all = append(all, snapshot.Problem{Code: "x:y", Message: strconv.Itoa(i)},
			snapshot.Problem{Code: "x:y", Message: "0"})
	}
	kept := limitProblems(all)
	if len(kept) != snapshot.MaxErrors || kept[len(kept)-1].Message != "+137 more problems" {
		t.Errorf("%d: %+v", len(kept), kept[len(kept)-1])
	}
}

func BenchmarkCollect(b *testing.B) {
	b.Setenv("GPUBOARD_FAKE_SMI", capturePath(b, "idle-8x-a100-550.xml"))
	c := New(Options{NvidiaSMI: fake(b, "nvidia-smi")})
	for b.Loop() {
		if s := collect(b, c); len(s.GPUs) != 8 {
			b.Fatal(problems(s))
		}
	}
}
