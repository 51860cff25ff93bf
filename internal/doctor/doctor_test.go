package doctor

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/config"
	"gpuboard/internal/node"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/watch"
)

// nobody looks at a machine with this /proc.
func nobody(proc string, euid int) *examination {
	n := node.Node{Getenv: func(string) string { return "" }}
	return &examination{Options: Options{Node: n}, proc: proc, euid: euid}
}

// TestHiddenProcesses looks at a /proc in which process 1 can be read, and at one in which it cannot.
func TestHiddenProcesses(t *testing.T) {
	for entry, want := range map[string]string{"1/status": "proc:ok", "2/status": "proc:hidepid"} {
		proc := t.TempDir()
		for _, name := range []string{"self", filepath.Dir(entry)} {
			if err := os.Mkdir(filepath.Join(proc, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(proc, entry), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		d := nobody(proc, 1000)
		d.hiddenProcesses()
		if got := d.findings[0].Code; got != want {
			t.Errorf("where %s can be read: found %+v", entry, d.findings)
		}
	}
}

// TestToolsOfEachVendor: what showed how many GPUs of each vendor is told, without nvidia-smi where it has a problem.
func TestToolsOfEachVendor(t *testing.T) {
	snap := &snapshot.Snapshot{
		DriverVersion: "570.86",
		Tools:         []snapshot.Tool{{Vendor: snapshot.AMD, Name: "amd-smi", Version: "26.2.0", Driver: "6.12.12"}},
		GPUs:          []snapshot.GPU{{Index: 0}, {Index: 1, Vendor: snapshot.AMD}, {Index: 2, Vendor: snapshot.AMD}},
	}
	const (
		nvidia = "smi:ok nvidia-smi shows 1 GPU with driver 570.86, in 300ms\n"
		amd    = "amd:ok amd-smi 26.2.0 shows 2 GPUs with driver 6.12.12, in 300ms\n"
	)
	for problem, want := range map[bool]string{false: nvidia + amd, true: amd} {
		d, got := nobody("", 1000), ""
		d.tools(snap, 300*time.Millisecond, problem)
		for _, f := range d.findings {
			got += f.Code + " " + f.Message + "\n"
		}
		if got != want {
			t.Errorf("with a problem of nvidia-smi: %v:\n%swant\n%s", problem, got, want)
		}
	}
}

// TestGroupsOfDevices: an account joins the groups that own the devices that it may not open, and never root's.
func TestGroupsOfDevices(t *testing.T) {
	need.Root(t) // whose files they are
	for _, tt := range []struct {
		kfd, render int // groups
		opens, want string
	}{
		{44871, 44872, "", "usermod -aG 44871,44872 1000 "},
		{44871, 44871, "", "usermod -aG 44871 1000 "},
		{44871, 44872, "kfd", "usermod -aG 44872 1000 "},
		{0, 44872, "", "usermod -aG 44872 1000 "},
		{0, 0, "", "ls -l /dev/kfd /dev/dri "},
	} {
		d := nobody("", 1000)
		d.dev, d.opens = t.TempDir(), func(device string) bool { return filepath.Base(device) == tt.opens }
		if err := os.Mkdir(filepath.Join(d.dev, "dri"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, group := range map[string]int{"kfd": tt.kfd, "dri/renderD128": tt.render} {
			path := filepath.Join(d.dev, name)
			if err := os.WriteFile(path, nil, 0o660); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(path, 0, group); err != nil {
				t.Fatal(err)
			}
		}
		if got := d.fixReading(snapshot.Problem{Code: "amd:permission"}); !strings.HasPrefix(got, tt.want) {
			t.Errorf("kfd of %d, render of %d, opens %q: %s, want %s", tt.kfd, tt.render, tt.opens, got, tt.want)
		}
	}
}

// TestWhoseContainersThereAre: the answers of the engines are missed where most processes need them, and only there.
func TestWhoseContainersThereAre(t *testing.T) {
	need.Root(t) // whose file it is
	now := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	root, mira := int64(0), int64(1000)
	boxed := snapshot.Process{User: "root", UID: &root, Container: "a1b2c3d4e5f6"}
	likely := snapshot.Process{User: "mira", UID: &mira, Container: "a1b2c3d4e5f6"}
	plain := snapshot.Process{User: "mira", UID: &mira}
	for name, test := range map[string]struct {
		file string // "" for none
		mode os.FileMode
		list []snapshot.Process
		want string // code and state, "" for nothing
	}{
		"nobody computes":  {"", 0, nil, ""},
		"most are outside": {"", 0, []snapshot.Process{boxed, plain}, ""},
		"most are inside":  {"", 0, []snapshot.Process{boxed, plain, likely}, "containers:missing note"},
		"the line works": {`{"at": "2026-11-28T08:55:30Z"}`, 0o644, []snapshot.Process{boxed},
			"containers:ok ok"},
		"the line has stopped": {`{"at": "2026-11-28T08:54:30Z"}`, 0o644, []snapshot.Process{boxed},
			"containers:old bad"},
		"others can write it": {`{"at": "2026-11-28T08:59:30Z"}`, 0o666, []snapshot.Process{boxed},
			"containers:unusable bad"},
		"it is not needed": {"{", 0o644, []snapshot.Process{plain}, ""},
	} {
		d := nobody("", 1000)
		d.Node.Now = func() time.Time { return now }
		d.answers = filepath.Join(t.TempDir(), "containers.json")
		if test.file != "" {
			if err := errors.Join(os.WriteFile(d.answers, []byte(test.file), 0o600),
				os.Chmod(d.answers, test.mode)); err != nil {
				t.Fatal(err)
			}
		}
		d.engines(test.list)
		got := ""
		for _, f := range d.findings {
			got += f.Code + " " + f.State
			if (f.State != OK) != strings.Contains(f.Fix, "sudo ") {
				t.Errorf("%s: the fix is %q", name, f.Fix)
			}
		}
		if got != test.want {
			t.Errorf("%s: found %q, want %q", name, got, test.want)
		}
	}
}

// TestRootRunsNoProgramOfOthers: what mira can replace is copied first.
func TestRootRunsNoProgramOfOthers(t *testing.T) {
	need.Root(t)
	program := filepath.Join(t.TempDir(), "gpuboard")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	want := "echo '* * * * * root " + program + " containers >/dev/null' | sudo tee /etc/cron.d/gpuboard-containers"
	if got := rootsCron(program); got != want {
		t.Errorf("it says %q", got)
	}
	want = "sudo install " + program +
		" /usr/local/bin/gpuboard && echo '* * * * * root /usr/local/bin/gpuboard containers >/dev/null' | sudo tee /etc/cron.d/gpuboard-containers"
	for _, spoil := range []func() error{
		func() error { return os.Chmod(program, 0o775) },
		func() error { return errors.Join(os.Chmod(program, 0o755), os.Chown(program, 12345, 12345)) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if got := rootsCron(program); got != want {
			t.Errorf("it says %q", got)
		}
	}
}

// TestNothingIsTakenFromAService: what another account's program writes stays that account's.
func TestNothingIsTakenFromAService(t *testing.T) {
	need.Root(t)
	daemon, err := user.Lookup("daemon")
	if err != nil {
		need.Skip(t, err.Error())
	}
	uid, _ := strconv.Atoi(daemon.Uid)
	site := t.TempDir()
	d := nobody("/proc", 12345)
	d.side = Web
	if d.Config, err = config.Load(config.Sources{Getenv: func(string) string { return "" }}); err != nil {
		t.Fatal(err)
	}
	for owner, want := range map[int]string{
		0: "chown 12345 " + site, 12345: "chown 12345 " + site,
		uid: "sudo -u daemon gpuboard doctor web    (it belongs to that account)",
	} {
		if err := os.Chown(site, owner, -1); err != nil {
			t.Fatal(err)
		}
		if got := d.takeOver(site); got != want {
			t.Errorf("of %d's it says %q, want %q", owner, got, want)
		}
	}
}

func TestHiddenProcessesUnknown(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	d := nobody(none, 1000)
	d.hiddenProcesses()
	d.room("nothing", none)
	d.Config = &config.Config{Path: none}
	d.configFile()
	for i, want := range []string{"proc:unknown", "disk:unknown", "config:unreadable"} {
		if d.findings[i].Code != want {
			t.Errorf("finding %d is %+v, want %s", i, d.findings[i], want)
		}
	}
	if f := d.findings[2]; f.State != Bad || f.Fix == "" {
		t.Errorf("a configuration that went away: %+v", f)
	}
}

func TestPasswordsAreNotShown(t *testing.T) {
	for value, want := range map[string]string{
		"https://ada:secret@gpu.example.org/": "https://ada:xxxxx@gpu.example.org/",
		"https://gpu.example.org/":            "https://gpu.example.org/", "20s": "20s", "%zz": "%zz",
	} {
		if got := shown(value); got != want {
			t.Errorf("%s is shown as %s, want %s", value, got, want)
		}
	}
}

// TestLargeSiteOnADisk: the same files are worth a note on a disk, and none in memory.
func TestLargeSiteOnADisk(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	if watch.InMemory(dir) {
		need.Skip(t, "temporary files lie in memory here")
	}
	memory := filepath.Join(dir, "memory")
	if err := os.Mkdir(memory, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", memory, "tmpfs", 0, "size=16m"); err != nil {
		need.Skip(t, "no file system can be mounted here: "+err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(memory, syscall.MNT_DETACH) })
	disk := filepath.Join(dir, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	look := func(site string) []Finding {
		d := nobody("/proc", 1000)
		d.siteMedium(site)
		return d.findings
	}
	for _, site := range []string{disk, memory} {
		for i := range 2000 {
			if err := os.WriteFile(filepath.Join(site, fmt.Sprint(i)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if found := look(site); len(found) > 0 {
			t.Errorf("2,000 files in %s: %+v", site, found)
		}
		if err := os.WriteFile(filepath.Join(site, "one more"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if found := look(disk); len(found) != 1 || found[0].Code != "site:on-disk" || found[0].State != Note ||
		!strings.Contains(found[0].Fix, "/run/gpuboard/site 0755") {
		t.Errorf("on a disk: %+v", found)
	}
	if found := look(memory); len(found) > 0 {
		t.Errorf("in memory: %+v", found)
	}
}
