package collector

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/collector/hostinfo"
	"gpuboard/internal/board"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

// An amdNode is a node with two of AMD's cards. A process of this test holds memory of the first by KFD.
type amdNode struct {
	roots   hostinfo.Roots
	answers string // of the tool
	log     string // of its starts
}

func newAMDNode(t *testing.T) amdNode {
	t.Helper()
	dir := t.TempDir()
	n := amdNode{roots: hostinfo.Roots{Sys: dir + "/sys", Dev: dir + "/dev", Proc: "/proc"}, answers: dir + "/answers",
		log: dir + "/log"}
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i, bus := range []string{"43", "03"} {
		card := fmt.Sprintf("%s/class/drm/card%d/device/", n.roots.Sys, i)
		write(card+"uevent", "DRIVER=amdgpu\nPCI_ID=1002:740F\nPCI_SLOT_NAME=0000:"+bus+":00.0")
		write(card+"unique_id", "18f68e602b8a790"+strconv.Itoa(i))
		write(card+"mem_info_vram_total", "68702699520")
		write(card+"mem_info_vram_used", "10960896")
		write(card+"gpu_busy_percent", "0")
		node := fmt.Sprintf("%s/class/kfd/kfd/topology/nodes/%d/", n.roots.Sys, i)
		location, _ := strconv.ParseUint(bus, 16, 8)
		write(node+"gpu_id", strconv.Itoa(100+i))
		write(node+"properties", fmt.Sprintf("location_id %d\ndomain 0", location<<8))
	}
	process := fmt.Sprintf("%s/class/kfd/kfd/proc/%d/", n.roots.Sys, os.Getpid())
	write(process+"vram_100", "0")
	write(process+"vram_101", "2097152000")
	write(process+"queues/0/gpuid", "101")
	write(n.roots.Sys+"/module/amdgpu/version", "6.16.6")
	write(n.roots.Dev+"/kfd", "")
	write(
		n.answers+
			"/static", `[{"gpu":0,"asic":{"market_name":"AMD Instinct MI210"},"bus":{"bdf":"0000:03:00.0"},"limit":{"socket_power":{"value":300,"unit":"W"}}},
		{"gpu":1,"asic":{"market_name":"AMD Instinct MI210"},"bus":{"bdf":"0000:43:00.0"}}]`)
	write(n.answers+"/metric", `WARNING: [1]
		[{"gpu":0,"power":{"socket_power":{"value":182,"unit":"W"}},"mem_usage":{"used_vram":{"value":2010,"unit":"MB"}}},{"gpu":1,"power":{"socket_power":{"value":41,"unit":"W"}}}]`)
	write(n.answers+"/process",
		`[{"gpu":0,"process_list":[{"process_info":"No running processes detected"}]},{"gpu":1,"process_list":[{"process_info":"No running processes detected"}]}]`)
	write(n.answers+"/version", `[{"tool":"AMDSMI Tool","version":"24.6.3+9578815"}]`)
	write(n.answers+"/rocm", `ERROR: GPU[2]: no data
		{"card0":{"PCI Bus":"0000:03:00.0","Average Graphics Package Power (W)":"182.0","Card series":"Instinct MI210"},"card1":{"PCI Bus":"0000:43:00.0"},
		"system":{"Driver version":"6.7.0","PID`+strconv.Itoa(os.Getpid())+`":"collector.test, 1, 2097152000, 0, 4"}}`)
	t.Setenv("GPUBOARD_FAKE_AMD", n.answers)
	t.Setenv("GPUBOARD_FAKE_AMD_LOG", n.log)
	t.Setenv("PATH", "/nowhere") // nvidia-smi is not installed
	return n
}

func (n amdNode) starts() int {
	text, _ := os.ReadFile(n.log)
	return strings.Count(string(text), "\n")
}

// rows are the states that the board makes of a snapshot.
func rows(s *snapshot.Snapshot) string {
	b, _ := board.Merge(board.Input{Now: s.CollectedAt.Add(time.Second), Hosts: []inventory.Host{{Name: "amd01"}},
		Reports: map[string]board.Report{"amd01": {Snapshot: s}}})
	var list []string
	for _, g := range b.Hosts[0].GPUs {
		list = append(list, fmt.Sprintf("%d:%s", g.Index, g.State))
	}
	return strings.Join(list, " ")
}

// TestAMD: amd-smi, rocm-smi and the driver's files alone each make the whole node.
func TestAMD(t *testing.T) {
	n := newAMDNode(t)
	amd, rocm := fake(t, "amd-smi"), fake(t, "rocm-smi")
	for _, c := range []struct {
		program, tool, driver string
		power                 float64
		starts                int
	}{{amd, "amd-smi 24.6.3+9578815", "6.16.6", 182, 4}, {rocm, "rocm-smi ", "6.7.0", 182, 1}, {"", "sysfs ", "6.16.6",
		0, 0}, {"not-there", "sysfs ", "6.16.6", 0, 0}} {
		before := n.starts()
		collector := patient(Options{Host: "amd01", PS: "/bin/ps", AMDSMI: c.program, Roots: n.roots})
		s := collect(t, collector)
		if len(s.GPUs) != 2 || len(s.Errors) != 0 || !s.GPUsComplete || rows(s) != "0:busy 1:free" ||
			len(s.Tools) != 1 {
			t.Fatalf("%s: %s, %s, complete %v", c.tool, problems(s), rows(s), s.GPUsComplete)
		}
		if tool := s.Tools[0]; tool.Name+" "+tool.Version != c.tool || tool.Driver != c.driver ||
			tool.Vendor != snapshot.AMD {
			t.Errorf("%s: %+v", c.tool, tool)
		}
		g := s.GPUs[0]
		if g.UUID != "GPU-18f68e602b8a7901" || g.PCIBusID != "00000000:03:00.0" || *g.MemoryTotal != 65520 ||
			c.power != 0 && *g.PowerDraw != c.power {
			t.Errorf("%s: %+v", c.tool, g)
		}
		if p := s.Processes; len(p) != 1 || p[0].PID != os.Getpid() || p[0].GPU != 0 || p[0].GPUUUID != g.UUID ||
			p[0].UID == nil || *p[0].UsedMemory != 2000 {
			t.Errorf("%s: %+v", c.tool, p)
		}
		if got := n.starts() - before; got != c.starts {
			t.Errorf("%s: %d programs were started, want %d", c.tool, got, c.starts)
		}
		if c.starts == 4 { // what does not change is asked for once
			if collect(t, collector); n.starts()-before != 6 {
				t.Errorf("%d starts after a second reading", n.starts()-before)
			}
		}
	}
}

// TestNoAMD: without the driver no program is looked for, unless one is named by its path.
func TestNoAMD(t *testing.T) {
	n := newAMDNode(t)
	n.roots.Sys = t.TempDir()
	t.Setenv("PATH", filepath.Dir(fake(t, "amd-smi")))
	if s := collect(t, patient(Options{AMDSMI: "amd-smi", Roots: n.roots})); n.starts() != 0 ||
		problems(s) != "smi:missing" || s.GPUs != nil || s.Tools != nil {
		t.Errorf("%d starts, %s", n.starts(), problems(s))
	}
	s := collect(t, patient(Options{Host: "amd01", AMDSMI: fake(t, "amd-smi"), Roots: n.roots}))
	if len(s.GPUs) != 2 || rows(s) != "0:unknown 1:unknown" || s.GPUsComplete {
		t.Errorf("a tool alone: %s, %s", problems(s), rows(s))
	}
}

// TestAMDBehindNVIDIA: indices go on behind NVIDIA's, also while nvidia-smi does not answer.
func TestAMDBehindNVIDIA(t *testing.T) {
	n := newAMDNode(t)
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "idle-8x-a100-550.xml"))
	c := patient(Options{Host: "amd01", NvidiaSMI: fake(t, "nvidia-smi"), PS: "/bin/ps", Roots: n.roots})
	s := collect(t, c)
	if len(s.GPUs) != 10 || s.GPUs[8].Index != 8 || s.GPUs[8].Vendor != snapshot.AMD || s.GPUs[7].Vendor != "" ||
		s.Processes[0].GPU != 8 || !s.GPUsComplete {
		t.Fatalf("%s, %+v", problems(s), s.GPUs)
	}
	t.Setenv("GPUBOARD_FAKE_SMI", "")
	t.Setenv("GPUBOARD_FAKE_SMI_EXIT", "9")
	if s := collect(t, c); len(s.GPUs) != 2 || s.GPUs[0].Index != 8 || s.GPUsComplete ||
		!has(s, "smi:driver-not-loaded") {
		t.Errorf("%s, %+v", problems(s), s.GPUs)
	}
}

// TestAMDFails: a tool that fails, hangs or refuses costs no rows, and none of them is free by it.
func TestAMDFails(t *testing.T) {
	write := func(n amdNode, name, text string) {
		if err := os.WriteFile(filepath.Join(n.answers, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		set  func(n amdNode)
		code string
		rows string
	}{
		"ends with an error": {func(amdNode) { t.Setenv("GPUBOARD_FAKE_AMD_EXIT", "1") }, "amd:failed",
			"0:busy 1:unknown"},
		"writes no JSON": {func(n amdNode) {
			for _, name := range []string{"static", "metric", "process"} {
				write(n, name, "ERROR: GPU[0]")
			}
		}, "amd:parse", "0:busy 1:unknown"},
		"hangs": {func(amdNode) { t.Setenv("GPUBOARD_FAKE_AMD_HANG", "1") }, "amd:timeout", "0:busy 1:unknown"},
		"refuses": {func(n amdNode) {
			t.Setenv("GPUBOARD_FAKE_AMD_EXIT", "1")
			t.Setenv("GPUBOARD_FAKE_AMD_STDERR",
				"RuntimeError: WARNING: User is missing the following required groups: render")
		}, "amd:permission", "0:busy 1:free"},
		"is too old": {func(n amdNode) {
			t.Setenv("GPUBOARD_FAKE_AMD_EXIT", "2")
			t.Setenv("GPUBOARD_FAKE_AMD_STDERR", "rocm-smi: error: unrecognized arguments: --showmemuse")
		}, "amd:too-old", "0:busy 1:free"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, option := range []string{"EXIT", "HANG", "STDERR"} {
				t.Setenv("GPUBOARD_FAKE_AMD_"+option, "")
			}
			n := newAMDNode(t)
			c.set(n)
			opts := Options{Host: "amd01", PS: "/bin/ps", AMDSMI: fake(t, "amd-smi"), Roots: n.roots}
			if c.code == "amd:timeout" {
				opts.SMIBudget = hangBudget
			}
			if s := collect(t, patient(opts)); problems(s) != c.code || rows(s) != c.rows {
				t.Errorf("%s, %s, want %s, %s", problems(s), rows(s), c.code, c.rows)
			}
		})
	}
}

// TestAMDPermission: devices that this account may not open are reported with the group that owns them. KFD's list is
// complete all the same, and without it nothing is free.
func TestAMDPermission(t *testing.T) {
	n := newAMDNode(t)
	c := patient(Options{Host: "amd01", PS: "/bin/ps", AMDSMI: fake(t, "amd-smi"), Roots: n.roots})
	c.amd.mayOpen = func(string) bool { return false }
	s := collect(t, c)
	if problems(s) != "amd:permission" ||
		!strings.Contains(s.Errors[0].Message, n.roots.Dev+"/kfd, which belongs to the group ") ||
		rows(s) != "0:busy 1:free" {
		t.Errorf("%+v, %s", s.Errors, rows(s))
	}
	if err := os.RemoveAll(n.roots.Sys + "/class/kfd/kfd/proc"); err != nil {
		t.Fatal(err)
	}
	if s := collect(t, c); strings.Contains(rows(s), "free") {
		t.Errorf("without KFD's list: %s", rows(s))
	}
}

// TestAMDHung: an amd-smi that hangs is not started again, and nvidia-smi is.
func TestAMDHung(t *testing.T) {
	n := newAMDNode(t)
	state := filepath.Join(t.TempDir(), "nvidia-smi.json")
	_, started, _ := ProcStat("/proc", os.Getpid())
	if err := writeHung(filepath.Join(filepath.Dir(state), "amd-smi.json"),
		hungProcess{PID: os.Getpid(), Started: started, BootID: bootID("/proc"), Since: "x"}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "idle-8x-a100-550.xml"))
	s := collect(t,
		patient(
			Options{Host: "amd01", NvidiaSMI: fake(t, "nvidia-smi"), PS: "/bin/ps", AMDSMI: fake(t, "amd-smi"),
				Roots: n.roots, StateFile: state}))
	if problems(s) != "gpu:hung" || n.starts() != 0 || len(s.GPUs) != 10 ||
		!strings.HasSuffix(rows(s), "7:free 8:busy 9:unknown") || s.GPUsComplete {
		t.Errorf("%s, %d starts, %s", problems(s), n.starts(), rows(s))
	}
}

// TestAMDFilesThatHang: a driver that does not answer costs its own GPUs, and is not asked twice at once.
func TestAMDFilesThatHang(t *testing.T) {
	need.Time(t, "it waits twice for a driver that hangs")
	n := newAMDNode(t)
	file := n.roots.Sys + "/class/drm/card0/device/gpu_busy_percent"
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(file, 0o644); err != nil {
		t.Skipf("no fifo: %v", err)
	}
	c := patient(Options{Host: "amd01", PS: "/bin/ps", Roots: n.roots, SMIBudget: hangBudget})
	if s := collect(t, c); problems(s) != "amd:timeout" || s.GPUs != nil || s.GPUsComplete || s.Node.Load1 == nil {
		t.Errorf("%s, %+v", problems(s), s.GPUs)
	}
	running := c.amd.kernel.running
	if s := collect(t, c); problems(s) != "amd:timeout" || c.amd.kernel.running != running {
		t.Errorf("again: %s, or another reading was begun", problems(s))
	}
	err := os.WriteFile(file, []byte("0\n"), 0o644)
	if err = errors.Join(err, os.Remove(file), os.WriteFile(file, []byte("0\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	c.opts.SMIBudget = time.Minute
	if s := collect(t, c); rows(s) != "0:busy 1:free" {
		t.Errorf("after it: %s, %s", problems(s), rows(s))
	}
}
