package pull

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/collector"
	"gpuboard/collector/hostinfo"
	"gpuboard/internal/board"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// amdRoot makes the /sys of a node with two cards, of which the process computes on the first, and what the tools say.
func amdRoot(t *testing.T, pid int) (root, answers string) {
	t.Helper()
	root, answers = t.TempDir(), t.TempDir()
	put := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, text+"\n", 0o644)
	}
	for i, bus := range []string{"43", "03"} {
		card := fmt.Sprintf("%s/sys/class/drm/card%d/device/", root, i)
		put(card+"uevent", "DRIVER=amdgpu\nPCI_ID=1002:740F\nPCI_SLOT_NAME=0000:"+bus+":00.0")
		put(card+"unique_id", "18f68e602b8a790"+strconv.Itoa(i))
		put(card+"mem_info_vram_total", "68702699520")
		put(card+"mem_info_vram_used", []string{"10960896", "2107152000"}[i])
		put(card+"gpu_busy_percent", "0")
		put(card+"pp_dpm_sclk", "0: 500Mhz \n1: 800Mhz *")
		put(card+"hwmon/hwmon3/temp1_input", "41000")
		put(card+"hwmon/hwmon3/temp1_label", "edge")
		node := fmt.Sprintf("%s/sys/class/kfd/kfd/topology/nodes/%d/", root, i)
		location, _ := strconv.ParseUint(bus, 16, 8)
		put(node+"gpu_id", strconv.Itoa(100+i))
		put(node+"properties", fmt.Sprintf("location_id %d\ndomain 0", location<<8))
	}
	process := fmt.Sprintf("%s/sys/class/kfd/kfd/proc/%d/", root, pid)
	put(process+"vram_100", "0")
	put(process+"vram_101", "2097152000")
	put(process+"queues/0/gpuid", "101")
	put(root+"/sys/module/amdgpu/version", "6.16.6")
	put(answers+"/static", `[{"gpu":0,"asic":{"market_name":"AMD Instinct MI210"},"bus":{"bdf":"0000:03:00.0"}},
		{"gpu":1,"asic":{"market_name":"AMD Instinct MI210"},"bus":{"bdf":"0000:43:00.0"}}]`)
	put(answers+"/metric",
		`[{"gpu":0,"power":{"socket_power":{"value":182,"unit":"W"}}},{"gpu":1,"power":{"socket_power":{"value":41,"unit":"W"}}}]`)
	put(answers+"/process", `[{"gpu":0,"process_list":[{"process_info":"No running processes detected"}]}]`)
	put(answers+"/version", `[{"tool":"AMDSMI Tool","version":"24.6.3"}]`)
	put(answers+"/rocm",
		`{"card0":{"PCI Bus":"0000:03:00.0"},"card1":{"PCI Bus":"0000:43:00.0"},"system":{"Driver version":"6.7.0"}}`)
	return root, answers
}

// rowsOf are the states that the board makes of a snapshot.
func rowsOf(s *snapshot.Snapshot) string {
	b, _ := board.Merge(board.Input{Now: s.CollectedAt.Add(time.Second), Hosts: []inventory.Host{{Name: s.Host}},
		Reports: map[string]board.Report{s.Host: {Snapshot: s}}})
	var list []string
	for _, g := range b.Hosts[0].GPUs {
		list = append(list, fmt.Sprintf("%d:%s", g.Index, g.State))
	}
	return strings.Join(list, " ")
}

// below is the command with another directory for /sys, and for the /proc that is searched for files of the driver.
func below(t *testing.T, command, root string) string {
	t.Helper()
	if strings.Count(command, "cd /;") != 1 {
		t.Fatalf("the command has no single root: %s", command)
	}
	return strings.Replace(command, "cd /;", "cd "+root+";", 1)
}

// TestAMDIsAsCollected: AMD's GPUs with each tool and without one, read here and over SSH.
func TestAMDIsAsCollected(t *testing.T) {
	pid := work(t, "train")
	for _, tool := range []string{"amd-smi", "rocm-smi", "refuses", ""} {
		t.Run(tool, func(t *testing.T) {
			root, answers := amdRoot(t, pid)
			if err := os.Symlink("/proc", root+"/proc"); err != nil {
				t.Fatal(err)
			}
			dir, program := t.TempDir(), tool
			env := []string{"GPUBOARD_FAKE_AMD=" + answers}
			if tool == "refuses" {
				program = "amd-smi"
				env = append(env, "GPUBOARD_FAKE_AMD_EXIT=1", "GPUBOARD_FAKE_AMD_STDERR=permission denied")
				for _, name := range []string{"static", "metric", "process", "version"} {
					write(t, filepath.Join(answers, name), "", 0o644)
				}
			}
			if program != "" {
				dir = fakes(t, program)
				program = filepath.Join(dir, program)
			}
			for i, e := range env {
				name, value, _ := strings.Cut(e, "=")
				t.Setenv(name, value)
				env[i] = `"` + e + `"`
			}
			s := serve(t, "", append(env, "PATH="+dir+":"+os.Getenv("PATH"))...)
			authorized := filepath.Join(s.Root, "authorized")
			public, err := os.ReadFile(authorized)
			if err != nil {
				t.Fatal(err)
			}
			write(t, authorized, below(t, Authorized(string(public)), root)+"\n", 0o600)
			here, err := collector.New(
				collector.Options{Host: "amd01", Version: "test", NvidiaSMI: "none", AMDSMI: program,
					Roots: hostinfo.Roots{Sys: root + "/sys", Dev: root + "/dev"}}).Collect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			there, err := Once(t.Context(), Target{Host: "amd01", SSH: login(s)}, optionsFor(s))
			if err != nil {
				t.Fatal(err)
			}
			if rowsOf(there) != "0:busy 1:free" || rowsOf(here) != rowsOf(there) || len(there.Tools) != 1 {
				t.Errorf("here %s, over SSH %s, %+v, %+v", rowsOf(here), rowsOf(there), there.Tools, there.Errors)
			}
			type amd struct {
				GPUs      []snapshot.GPU
				Complete  bool
				Processes []snapshot.Process
				Tools     []snapshot.Tool
				Errors    []snapshot.Problem
			}
			near := cmp.Comparer(func(a, b snapshot.Time) bool { return a.Sub(b.Time).Abs() <= 2*time.Second })
			of := func(s *snapshot.Snapshot) amd {
				for i := range s.Processes { // a pull reads no arguments
					s.Processes[i].Program = ""
				}
				return amd{s.GPUs, s.GPUsComplete, s.Processes, s.Tools, s.Errors}
			}
			if diff := cmp.Diff(of(here), of(there), near); diff != "" {
				t.Errorf("here and over SSH (-here +there):\n%s", diff)
			}
		})
	}
}

// runBelow is what the command prints below a root by this shell.
func runBelow(t *testing.T, shell, root string) string {
	t.Helper()
	inner := strings.TrimSuffix(strings.TrimPrefix(below(t, Command(), root), "exec sh -c '"), "'")
	out, err := exec.Command("/bin/sh", "-c", `exec `+shell+` -c "$1"`, "sh", inner).Output()
	if err != nil {
		t.Fatalf("%s: %v", shell, err)
	}
	return string(out)
}

// readOf is the snapshot of what the command printed.
func readOf(t *testing.T, out string) *snapshot.Snapshot {
	t.Helper()
	n, err := New(Target{Host: "amd01", SSH: "amd01"}, filepath.Join(t.TempDir(), "read"), Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	n.at = time.Now()
	if n.reply, err = parse([]byte(out)); err != nil {
		t.Fatal(err)
	}
	if err := n.reply.write(n.dir); err != nil {
		t.Fatal(err)
	}
	s, err := n.collector.Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// without is what was printed without a section or a file.
func without(out, part string) string {
	var kept strings.Builder
	here := ""
	for line := range strings.Lines(out) {
		switch line[0] {
		case '>':
			here = strings.TrimSpace(line)
		case '/':
			here, _, _ = strings.Cut(line, ":")
		case '@', '.':
			here = ""
		}
		if here == "" || here != part {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// TestNothingTakenAwayFrees: each section and each file of a node in use, taken away in turn, by every shell.
func TestNothingTakenAwayFrees(t *testing.T) {
	pid, display := work(t, "train"), work(t, "display")
	stranger := fmt.Sprintf(
		`[{"gpu":1,"process_list":[{"process_info":{"name":"x","pid":%d,"memory_usage":{"vram_mem":{"value":5,"unit":"B"}}}}]}]`, display)
	usual := os.Getenv("PATH")
	for _, c := range []struct {
		shell, tool, want string
		set               func(root, answers string)
	}{
		{"dash", "amd-smi", "0:busy 1:unknown",
			func(_, answers string) { write(t, answers+"/process", stranger, 0o644) }},
		{"bash", "rocm-smi", "0:busy 1:unknown", func(_, answers string) {
			write(t, answers+"/rocm",
				fmt.Sprintf(
					`{"card0":{"PCI Bus":"0000:03:00.0"},"card1":{"PCI Bus":"0000:43:00.0"},"system":{"PID%d":"x, 1, 5"}}`, display), 0o644)
		}},
		{"busybox sh", "", "0:busy 1:busy", func(root, _ string) {
			for _, dir := range []string{"1/fd", strconv.Itoa(display) + "/fd", strconv.Itoa(display) + "/fdinfo"} {
				if err := os.MkdirAll(filepath.Join(root, "proc", dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			dir := fmt.Sprintf("%s/proc/%d/", root, display)
			if err := os.Symlink("/dev/dri/renderD129", dir+"fd/7"); err != nil {
				t.Fatal(err)
			}
			write(t, dir+"fdinfo/7",
				"pos:\t0\ndrm-driver:\tamdgpu\ndrm-pdev:\t0000:43:00.0\ndrm-client-id:\t2\ndrm-memory-vram:\t3145728 KiB\n", 0o644)
			write(t, root+"/sys/class/drm/card0/device/mem_info_vram_used", "3300000000\n", 0o644)
		}},
	} {
		if _, err := exec.LookPath(strings.Fields(c.shell)[0]); err != nil {
			t.Logf("not with %s: %v", c.shell, err)
			c.shell = "sh"
		}
		root, answers := amdRoot(t, pid)
		c.set(root, answers)
		t.Setenv("GPUBOARD_FAKE_AMD", answers)
		t.Setenv("PATH", usual)
		if c.tool != "" {
			t.Setenv("PATH", fakes(t, c.tool)+":"+usual)
		}
		out := runBelow(t, c.shell, root)
		s := readOf(t, out)
		if rowsOf(s) != c.want {
			t.Fatalf("%s, %s: %s, want %s", c.shell, c.tool, rowsOf(s), c.want)
		}
		parts := map[string]bool{}
		for line := range strings.Lines(out) {
			name, _, isFile := strings.Cut(strings.TrimSpace(line), ":")
			if line[0] == '>' || isFile && line[0] == '/' {
				parts[name] = true
			}
		}
		for _, pid := range []int{pid, display} {
			if !parts[fmt.Sprintf("/proc/%d/status", pid)] {
				t.Errorf("%s, %s: whose process %d is was not asked", c.shell, c.tool, pid)
			}
		}
		for part := range parts {
			if strings.HasPrefix(part, "/proc/") && !strings.Contains(part, "/fdinfo/") {
				continue // who owns a process, and not that it is there
			}
			if s := readOf(t, without(out, part)); strings.Contains(rowsOf(s), "free") {
				t.Errorf("%s, %s: without %s: %s", c.shell, c.tool, part, rowsOf(s))
			}
		}
	}
}

// TestAMDOverABound: a list of KFD that is not printed or not taken whole makes processes unknown.
func TestAMDOverABound(t *testing.T) {
	root, _ := amdRoot(t, work(t, "train"))
	good := runBelow(t, "sh", root)
	if rowsOf(readOf(t, good)) != "0:busy 1:free" {
		t.Fatal(rowsOf(readOf(t, good)))
	}
	end := func(more string) string { return strings.TrimSuffix(good, ".\n") + more + ".\n" }
	var many strings.Builder
	for i := range 2 * maxFiles {
		fmt.Fprintf(&many, "/sys/class/kfd/kfd/proc/%d/vram_100:0\n", i+1)
	}
	for name, out := range map[string]string{
		"too many files": end(many.String()), "an odd name": end("/sys/class/kfd/kfd/proc/4001/vram_12345678901:5\n"),
	} {
		s := readOf(t, out)
		if rowsOf(s) != "0:unknown 1:unknown" {
			t.Errorf("%s: %s", name, rowsOf(s))
		}
	}
	for i := range 4000 {
		write(t, fmt.Sprintf("%s/sys/class/kfd/kfd/proc/%s/vram_%d", root, firstProcess(t, root), 1000+i), "0\n", 0o644)
	}
	out := runBelow(t, "sh", root)
	if s := readOf(t, out); rowsOf(s) != "0:unknown 1:unknown" || strings.Contains(out, "kfd/proc") {
		t.Errorf("more than the command prints: %s", rowsOf(s))
	}
	if err := os.RemoveAll(root + "/sys/module/amdgpu"); err != nil {
		t.Fatal(err)
	}
	if out := runBelow(t, "sh", root); strings.Contains(out, "\n/sys/") || strings.Contains(out, "\n>none") {
		t.Error("files of AMD's driver are printed where it is not loaded")
	}
}

func firstProcess(t *testing.T, root string) string {
	t.Helper()
	list, err := os.ReadDir(root + "/sys/class/kfd/kfd/proc")
	if err != nil || len(list) == 0 {
		t.Fatal(err)
	}
	return list[0].Name()
}

// TestAMDThatHangs: neither a tool nor a file of a driver that hangs is read again, and no GPU is free by that. A process
// of both vendors' lists is read once.
func TestAMDThatHangs(t *testing.T) {
	root, _ := amdRoot(t, 1)
	usual := os.Getenv("PATH")
	for hangs, want := range map[string]string{
		"D       00:10 python3 /opt/rocm/bin/amd-smi static": "0:busy 1:unknown",
		"S    02:11:03 amd-smi":                              "0:busy 1:free",
		"D       00:09 amd-smi static":                       "0:busy 1:free", // so it may end by itself
		"D    02:11:03 grep x sys/class/drm/card0":           "",
	} {
		dir := t.TempDir()
		write(t, dir+"/ps", "#!/bin/sh\ncase $* in *args=*) echo '"+hangs+"';; *) exec /bin/ps \"$@\";; esac\n", 0o755)
		t.Setenv("PATH", dir+":"+usual)
		out := runBelow(t, "sh", root)
		if want == "" {
			if _, err := parse([]byte(out)); err == nil || strings.Contains(out, "/sys/") {
				t.Errorf("%s: the node was read", hangs)
			}
			continue
		}
		if s := readOf(t, out); rowsOf(s) != want || strings.Count(out, "\n/proc/1/status:Name:") != 1 {
			t.Errorf("%s: %s, want %s", hangs, rowsOf(s), want)
		}
	}
}

// TestNvidiaSMIThatHangs: one that has waited for the driver for ten seconds counts as ended by time, and no other is
// started; a younger one may be anybody's that is just starting.
func TestNvidiaSMIThatHangs(t *testing.T) {
	root, _ := amdRoot(t, 1)
	usual := os.Getenv("PATH")
	for state, hangs := range map[string]bool{
		"D       00:10 nvidia-smi": true, "D       00:09 nvidia-smi": false, "S    02:11:03 nvidia-smi": false,
	} {
		dir := t.TempDir()
		write(t, dir+"/ps", "#!/bin/sh\ncase $* in *comm=*) echo '"+state+"';; *) exec /bin/ps \"$@\";; esac\n", 0o755)
		t.Setenv("PATH", dir+":"+usual)
		if out := runBelow(t, "sh", root); strings.Contains(out, ">smi\n%?124") != hangs {
			t.Errorf("%s: hangs %v, want %v", state, !hangs, hangs)
		}
	}
}
