package pull

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/collector"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/sshclient"
	"gpuboard/internal/testenv/fakeps"
	"gpuboard/internal/testenv/fakesmi"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
)

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "nvidia-smi":
		fakesmi.Main()
	case "amd-smi", "rocm-smi":
		fakesmi.AMDMain()
	case "ps":
		fakeps.Main()
	}
	os.Exit(m.Run())
}

// fakes returns a directory with these programs, which are this one.
func fakes(t testing.TB, names ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range names {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func write(t testing.TB, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// serve starts an sshd whose sessions have these variables.
func serve(t testing.TB, config string, env ...string) *sshtest.Server {
	t.Helper()
	lines := "MaxStartups 200\n" + config
	if len(env) > 0 {
		lines += "SetEnv " + strings.Join(env, " ") + "\n"
	}
	return sshtest.Start(t, sshtest.Options{Config: lines})
}

func login(s *sshtest.Server) string { return fmt.Sprintf("%s@%s:%d", s.User, s.Host, s.Port) }

func optionsFor(s *sshtest.Server) Options {
	return Options{Version: "test", Now: time.Now, Identity: []string{s.Key}, KnownHosts: []string{s.KnownHosts},
		Budget: need.Patience}
}

// work starts a process that a GPU could have.
func work(t testing.TB, name string) int {
	t.Helper()
	c := exec.Command("sleep", "600")
	c.Args[0] = name
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return c.Process.Pid
}

// TestPulledIsAsCollected: the same answers of the same machine, read here and over SSH.
func TestPulledIsAsCollected(t *testing.T) {
	captures, err := filepath.Abs("../../collector/nvidiasmi/testdata")
	if err != nil {
		t.Fatal(err)
	}
	// The second forges a name, and the third does not exist.
	pids := fmt.Sprintf("%d,%d,4194303,%d", work(t, "one"), work(t, "x</process_name>"), work(t, "three"))
	for _, c := range []struct{ capture, list string }{
		{"mixed-4x-processes-535.xml", ""}, {"mig-h100-590.xml", "mig-h100-590-L.txt"}, {"lost-1of2-580.xml", ""},
		{"forged-names-535.xml", ""}, {"idle-8x-a100-550.xml", ""}, {"cut-535.xml", ""},
	} {
		t.Run(c.capture, func(t *testing.T) {
			dir := fakes(t, "nvidia-smi")
			env := []string{"GPUBOARD_FAKE_SMI=" + filepath.Join(captures, c.capture), "GPUBOARD_FAKE_SMI_PIDS=" + pids,
				"GPUBOARD_FAKE_SMI_STDERR=careful"}
			if c.list != "" {
				env = append(env, "GPUBOARD_FAKE_SMI_LIST="+filepath.Join(captures, c.list))
			}
			for _, e := range env {
				name, value, _ := strings.Cut(e, "=")
				t.Setenv(name, value)
			}
			s := serve(t, "", append(env, "PATH="+dir+":"+os.Getenv("PATH"))...)
			here, err := collector.New(
				collector.Options{Host: "gpu07", Version: "test", NvidiaSMI: filepath.Join(dir, "nvidia-smi")}).Collect(
				t.Context())
			if err != nil {
				t.Fatal(err)
			}
			there, err := Once(t.Context(), Target{Host: "gpu07", SSH: login(s)}, optionsFor(s))
			if err != nil {
				t.Fatal(err)
			}
			if !there.Pulled || len(here.GPUs) == 0 {
				t.Errorf("pulled %v, %d GPUs", there.Pulled, len(here.GPUs))
			}
			for _, s := range []*snapshot.Snapshot{here, there} {
				s.CollectedAt, s.Pulled, s.Node.Interfaces, s.Node.Load1, s.Node.MemoryUsed, s.Node.UptimeSeconds = snapshot.Time{}, false, nil, nil, nil, nil
				s.Node.Load5, s.Node.Load15 = nil, nil
				s.Node.Disks = slices.DeleteFunc(s.Node.Disks, func(d snapshot.Disk) bool { // other tests mount some meanwhile
					return strings.HasPrefix(d.Mount, os.TempDir()+"/")
				})
				for i := range s.Node.Disks {
					s.Node.Disks[i].Used = 0
				}
				for i := range s.Processes { // a pull reads no arguments, by which python is called by its script
					s.Processes[i].Program = ""
				}
			}
			near := cmp.Comparer(func(a, b snapshot.Time) bool { return a.Sub(b.Time).Abs() <= 20*time.Second }) // a busy machine answers late
			if diff := cmp.Diff(here, there, near); diff != "" {
				t.Errorf("here and over SSH (-here +there):\n%s", diff)
			}
		})
	}
}

// TestAProcessThatBeganLater: whether a pid was used again is decided by the node's own clock.
func TestAProcessThatBeganLater(t *testing.T) {
	const smi = "<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu id=\"0\"><uuid>GPU-1</uuid><processes><process_info><pid>42</pid><type>C</type>" +
		"<process_name>x</process_name><used_memory>100 MiB</used_memory></process_info></processes></gpu></nvidia_smi_log>"
	for started, alive := range map[int]bool{900: true, 1001: true, 1100: false} { // ticks; nvidia-smi ran at 10 s
		n, err := New(Target{Host: "gpu07", SSH: "gpu07"}, filepath.Join(t.TempDir(), "read"), Options{Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		n.at = time.Now()
		n.reply, err = parse(
			[]byte(
				"@10\n>smi\n|" + smi + "\n%?0\n@13\n>ps\n%?0\n|42 1 42 1000 " + strconv.Itoa((1300-started)/100) +
					" S eva\n" +
					"/proc/42/stat:42 (x) S 1 42 42 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 " + strconv.Itoa(started) +
					" 0 0\n.\n"))
		if err != nil {
			t.Fatal(err)
		}
		if err := n.reply.write(n.dir); err != nil {
			t.Fatal(err)
		}
		snap, err := n.collector.Collect(t.Context())
		if err != nil || len(snap.Processes) != 1 || snap.Processes[0].Alive == nil ||
			*snap.Processes[0].Alive != alive {
			t.Errorf("started at %d: %v, %+v", started, err, snap.Processes)
		}
	}
}

// TestTheCommandIsOneLine: it stands in quotes of a shell, and in those of authorized_keys.
func TestTheCommandIsOneLine(t *testing.T) {
	inner := strings.TrimSuffix(strings.TrimPrefix(Command(), "exec sh -c '"), "'")
	if strings.ContainsAny(inner, "'!\n") || strings.Contains(inner, "@SMI") || strings.Contains(inner, "cmdline:") ||
		len(Authorized("ssh-ed25519 AAAA")) > 8000 {
		t.Errorf("%d bytes: %s", len(inner), inner)
	}
	for _, shell := range []string{"dash", "bash", "busybox"} {
		program, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		args := []string{"-c", inner}
		if shell == "busybox" {
			args = append([]string{"sh"}, args...)
		}
		out, err := exec.Command(program, args...).Output()
		if err != nil {
			t.Fatalf("%s: %v", shell, err)
		}
		a, err := parse(out)
		if err != nil || a.files["proc/meminfo"] == nil || len(a.programs["ps"].Stdout) == 0 {
			t.Errorf("%s: %v\n%.300s", shell, err, out)
		}
	}
}

// TestNothingIsLeft: a reading writes no file on the node, and no process outlives it, nor a line that was cut.
func TestNothingIsLeft(t *testing.T) {
	home := t.TempDir()
	dir := fakes(t, "nvidia-smi", "ps")
	s := serve(t, "", "HOME="+home, "TMPDIR="+home, "PATH="+dir+":"+os.Getenv("PATH"), "GPUBOARD_FAKE_SMI_HANG=1")
	kernel := func() string {
		out, _ := exec.Command("find", home, "/tmp", "-maxdepth", "1", "-newer", s.KnownHosts, "-name", "*gpuboard*",
			"-not", "-regex", ".*/gpuboard-[a-z]*-?[0-9]*").Output() // which other tests make by MkdirTemp
		return string(out)
	}
	before := kernel()
	n, err := New(Target{Host: "gpu07", SSH: login(s)}, filepath.Join(t.TempDir(), "read"), optionsFor(s))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := n.Collect(t.Context())
	if err != nil ||
		!slices.ContainsFunc(snap.Errors, func(p snapshot.Problem) bool { return p.Code == "smi:timeout" }) {
		t.Fatalf("%v, %+v", err, snap)
	}
	if left, _ := os.ReadDir(home); len(left) > 0 || kernel() != before {
		t.Errorf("left: %v %s", left, kernel())
	}

	ctx, cut := context.WithCancel(t.Context())
	time.AfterFunc(time.Second, cut)
	if _, err := n.Collect(ctx); err == nil {
		t.Error("a line that was cut gave a snapshot")
	}
	for end := time.Now().Add(need.Patience); len(s.Sessions()) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("processes stay: %v", s.Sessions())
		}
	}
	if out, _ := exec.Command("pgrep", "-f", dir+"/nvidia-smi").Output(); len(out) > 0 {
		t.Errorf("nvidia-smi stays: %s", out)
	}
}

// TestAKeyForTheCommandAlone: the line that is printed for authorized_keys lets a key read the node, and do nothing else.
func TestAKeyForTheCommandAlone(t *testing.T) {
	s := serve(t, "")
	public, err := os.ReadFile(filepath.Join(s.Root, "authorized"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(s.Root, "authorized"), Authorized(string(public))+"\n", 0o600)
	if _, err := Once(t.Context(), Target{Host: "gpu07", SSH: login(s)}, optionsFor(s)); err != nil {
		t.Fatal(err)
	}

	conn, err := sshclient.Dial(t.Context(),
		sshclient.Options{User: s.User, Host: s.Host, Port: s.Port, Identity: []string{s.Key},
			KnownHosts: []string{s.KnownHosts}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	out, err := conn.Output(t.Context(), "echo something else", maxOutput)
	if _, bad := parse(out); err != nil || bad != nil || strings.Contains(string(out), "something else") {
		t.Errorf("%v, %v: %.200s", err, bad, out)
	}
	if through, err := conn.Client().Dial("tcp", s.Addr); err == nil {
		through.Close()
		t.Error("the key can open connections from the node")
	}
}

// TestParse: what is hostile or not whole is refused, and nothing but the known files is kept.
func TestParse(t *testing.T) {
	const good = "hello from .bashrc\n@10.5\n>smi\n|<a>\n%careful?0\n%?9\n@11.50\n/proc/uptime:11.5 3\n/proc/1/cgroup:a:b\n.\n"
	a, err := parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if p := a.programs["smi"]; string(p.Stdout) != "<a>\n" || p.Exit != 9 || p.TimedOut ||
		strings.TrimSpace(string(p.Stderr)) != "careful?0" {
		t.Errorf("%+v", p)
	}
	if cut, err := parse([]byte(strings.Replace(good, "%?9\n", "", 1))); err != nil || !cut.programs["smi"].TimedOut {
		t.Errorf("%v: a program without its status counts as one that ended well", err)
	}
	if a.files["proc/1/cgroup"].String() != "a:b\n" || a.up[1]-a.up[0] != time.Second {
		t.Errorf("%+v", a)
	}
	for name, text := range map[string]string{
		"empty": "", "cut": strings.TrimSuffix(good, ".\n"), "words behind": good + "more\n",
		"no uptime":    strings.ReplaceAll(good, "@", "#"),
		"back in time": strings.Replace(good, "@10.5", "@12", 1), "three uptimes": "@1\n" + good,
		"odd uptime": strings.Replace(good, "@10.5", "@NaN", 1),
	} {
		if _, err := parse([]byte(text)); err == nil {
			t.Errorf("%s: is taken", name)
		}
	}
	var many strings.Builder
	for i := range 2 * maxFiles {
		many.WriteString("/proc/" + strconv.Itoa(i+1) + "/stat:x\n")
	}
	hostile := "/../../etc/cron.d/x:boo\n/etc/shadow:x\n/proc/1/../../x:x\n/proc/1/environ:x\n/proc/1/cmdline\x00:x\n/proc/self/ns/pid:/etc/passwd\n>other\n|x\n"
	a, err = parse([]byte(strings.Replace(good, "@11.50\n", "@11.50\n"+hostile+many.String(), 1)))
	if err != nil || len(a.files) > maxFiles || len(a.programs) != 1 {
		t.Fatalf("%v: %d files, %d programs", err, len(a.files), len(a.programs))
	}
	dir := filepath.Join(t.TempDir(), "read")
	if err := a.write(dir); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) != 1 {
		t.Errorf("written beside: %v", left)
	}
	if top, _ := os.ReadDir(dir); len(top) != 1 {
		t.Errorf("written below: %v", top)
	}
	if link, err := os.Readlink(filepath.Join(dir, "proc/self/ns/pid")); err == nil {
		t.Errorf("a link to %s was made", link)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("@1\n>smi\n|x\n%?0\n@2\n/proc/1/stat:x\n/proc/self/ns/pid:pid:[1]\n."))
	f.Add(
		[]byte(
			"@1\n@2\n/sys/class/kfd/kfd/proc/:\n/sys/class/kfd/kfd/proc/4001/queues/:\n/proc/7/fdinfo/3:drm-driver: amdgpu\n."))
	f.Fuzz(func(t *testing.T, out []byte) {
		a, err := parse(out)
		if err != nil {
			return
		}
		dir := filepath.Join(t.TempDir(), "read")
		if err := a.write(dir); err != nil {
			t.Fatal(err)
		}
		if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) > 1 {
			t.Fatalf("%q: written beside: %v", out, left)
		}
	})
}
