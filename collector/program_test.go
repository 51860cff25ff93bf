package collector

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/collector/ps"
	"gpuboard/internal/snapshot"
)

// sleeping starts a process with these arguments, which lives until the test
// ends. Its process group is that of this test.
func sleeping(t *testing.T, argv ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Args = argv
	cmd.Env = append(os.Environ(), "GPUBOARD_TEST_SLEEP=1", "SECRET=CANARY-env")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// Of the arguments of living processes, nothing but a base name is in a snapshot.
func TestNoArgumentIsCollected(t *testing.T) {
	if inContainer("/proc") {
		t.Skip("in a container the collector cannot know whose the processes are")
	}
	smi := fake(t, "nvidia-smi")
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "mixed-4x-processes-535.xml"))
	type shape struct {
		want string
		argv []string
	}
	for group := range slices.Chunk([]shape{
		{"train.py",
			[]string{"/usr/bin/python3", "-W", "ignore::x CANARY", "/home/CANARY/train.py", "--key", "CANARY"}},
		{"python3", []string{"python3", "-c", "CANARY"}},
		{"python3", []string{"python3", "-m", "CANARY x"}},
		{"sim.jl", []string{"julia", "--project=/a CANARY", "sim.jl"}},
		{"org.example.Main",
			[]string{"java", "-Dkey=x CANARY", "-XX:OnError=kill CANARY", "org.example.Main", "CANARY"}},
		{"x.rb", []string{"ruby", "-C", "/d CANARY", "x.rb"}},
		{"bash", []string{"bash", "-c", "CANARY"}},
		{"env", []string{"env", "KEY=CANARY", "prog"}},
		{"ray::train", []string{"ray::train(CANARY)"}},
		{"token", []string{"token:CANARY trainer"}},
		{"y.exe", []string{`C:\x\CANARY\y.exe`}},
		{"python3", []string{"python3 /home/CANARY/train.py --key CANARY"}},
	}, 4) {
		var pids []string
		want := map[int]string{}
		for _, s := range group {
			pid := sleeping(t, s.argv...).Process.Pid
			pids, want[pid] = append(pids, fmt.Sprint(pid)), s.want
		}
		t.Setenv("GPUBOARD_FAKE_SMI_PIDS", strings.Join(pids, ","))
		s := collect(t, patient(Options{NvidiaSMI: smi}))
		for _, p := range s.Processes {
			if name, listed := want[p.PID]; listed && p.Program != name {
				t.Errorf("it is %q, want %q", p.Program, name)
			}
			delete(want, p.PID)
		}
		text, err := json.Marshal(s)
		if err != nil || strings.Contains(string(text), "CANARY") || len(want) > 0 {
			t.Errorf("%v are missing, or an argument is in the snapshot: %s %v", want, text, err)
		}
	}
}

// The arguments under a pid count where that process was there when ps looked.
func TestArgumentsOfAnotherProcess(t *testing.T) {
	root := t.TempDir()
	process := func(pid, stat, cmdline string) {
		t.Helper()
		dir := filepath.Join(root, pid)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"stat": stat, "cmdline": cmdline} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	stat := func(ticks int) string {
		return fmt.Sprintf("10 (a) b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0", ticks)
	}
	process("10", stat(500), "python3\x00train.py\x00")
	process("11", stat(1000), "other\x00")
	process("12", "garbage", "other\x00")
	process("13", stat(500), "")
	process("14", stat(500), "python3\x00"+strings.Repeat("x", ps.MaxCommandLineBytes)+"y\x00train.py\x00")
	yes := true
	list := []snapshot.Process{{PID: 9, Alive: &yes}, {PID: 10, Alive: &yes}, {PID: 11, Alive: &yes},
		{PID: 12, Alive: &yes}, {PID: 13, Alive: &yes},
		{PID: 14, Alive: &yes}, {PID: 10},
		{PID: 8, Children: []snapshot.Child{{PID: 10, Program: "as-ps-says"}, {PID: 11, Program: "as-ps-says"}}}}
	for i := range list {
		list[i].Program = "as-ps-says"
	}
	programs(root, list, 10*time.Second)
	var got []string
	for _, p := range list {
		got = append(got, p.Program)
	}
	want := []string{"as-ps-says", "train.py", "as-ps-says", "as-ps-says", "as-ps-says", "python3", "as-ps-says",
		"as-ps-says"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if children := list[7].Children; children[0].Program != "train.py" || children[1].Program != "as-ps-says" {
		t.Errorf("%+v", children)
	}
}
