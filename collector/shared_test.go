package collector

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpuboard/collector/hostinfo"
	"gpuboard/internal/board"
	"gpuboard/internal/inventory"
)

// TestSharedMemory: a GPU without memory of its own has the node's, and
// one that cannot be read has not.
func TestSharedMemory(t *testing.T) {
	text, err := os.ReadFile(capturePath(t, "gb10-580.xml"))
	if err != nil {
		t.Fatal(err)
	}
	proc := t.TempDir()
	if err := os.WriteFile(filepath.Join(proc, "meminfo"),
		[]byte("MemTotal: 131072000 kB\nMemAvailable: 104857600 kB\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "out")
	t.Setenv("GPUBOARD_FAKE_SMI", file)
	smi := fake(t, "nvidia-smi")
	for _, c := range []struct {
		name, total, used string
		shared            bool
		want              int64 // used; -1 for not known
	}{
		{"NVIDIA GB10", "N/A", "N/A", true, 25600},
		{"NVIDIA GB10", "Not Supported", "[Not Supported]", true, 25600},
		{"NVIDIA GB10", "", "", true, 25600},
		{"Orin (nvgpu)", "Not Supported", "N/A", true, 25600},
		{"NVIDIA Jetson AGX Orin", "N/A", "N/A", true, 25600},
		{"NVIDIA Thor", "N/A", "N/A", true, 25600},
		{"NVIDIA GB10", "122880 MiB", "4096 MiB", true, 4096},
		{"NVIDIA GB10", "GPU is lost", "GPU is lost", true, -1},
		{"NVIDIA GB100", "N/A", "N/A", false, -1},
		{"NVIDIA GB200", "N/A", "N/A", false, -1},
		{"NVIDIA GH200 480GB", "N/A", "N/A", false, -1},
		{"NVIDIA H100 80GB HBM3", "N/A", "N/A", false, -1},
		{"NVIDIA GeForce RTX 3090", "Not Supported", "Not Supported", false, -1},
		{"NVIDIA GH200 480GB", "97871 MiB", "1 MiB", false, 1},
	} {
		r := strings.NewReplacer("<product_name>NVIDIA GB10<", "<product_name>"+c.name+"<", "<total>N/A</total>",
			"<total>"+c.total+"</total>",
			"<used>N/A</used>", "<used>"+c.used+"</used>")
		if err := os.WriteFile(file, []byte(r.Replace(string(text))), 0o644); err != nil {
			t.Fatal(err)
		}
		s := collect(t, patient(Options{NvidiaSMI: smi, Roots: hostinfo.Roots{Proc: proc}}))
		g := s.GPUs[0]
		used := int64(-1)
		if g.MemoryUsed != nil {
			used = *g.MemoryUsed
		}
		if g.MemoryShared != c.shared || used != c.want ||
			(c.want == 25600) != (g.MemoryTotal != nil && *g.MemoryTotal == 128000 && *g.MemoryFree == 102400) {
			t.Errorf("%s with %q: shared %v, used %d, %v", c.name, c.total, g.MemoryShared, used, g.MemoryTotal)
		}
	}
	if err := os.Remove(filepath.Join(proc, "meminfo")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if g := collect(t, patient(Options{NvidiaSMI: smi, Roots: hostinfo.Roots{Proc: proc}})).GPUs[0]; !g.MemoryShared ||
		g.MemoryTotal != nil || g.MemoryUsed != nil {
		t.Errorf("without the node's memory: %+v", g)
	}
}

// TestSharedMemoryNeedsKnownProcesses: memory that is the node's says nothing about the GPU,
// and one reading of 0 % is no proof. So where processes are not known, it is not free.
func TestSharedMemoryNeedsKnownProcesses(t *testing.T) {
	capture, err := os.ReadFile(capturePath(t, "gb10-580.xml"))
	if err != nil {
		t.Fatal(err)
	}
	idle := strings.Replace(string(capture), "<gpu_util>35 %<", "<gpu_util>0 %<", 1)
	list := regexp.MustCompile(`(?s)<processes>.*</processes>`)
	with := func(processes string) string { return list.ReplaceAllLiteralString(idle, processes) }
	host, container := t.TempDir(), t.TempDir()
	for root, namespace := range map[string]string{host: hostPIDs, container: "pid:[4026532200]"} {
		if err := os.MkdirAll(filepath.Join(root, "self/ns"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "meminfo"),
			[]byte("MemTotal: 131072000 kB\nMemAvailable: 104857600 kB\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(namespace, filepath.Join(root, "self/ns/pid")); err != nil {
			t.Fatal(err)
		}
	}
	listed := func(kind string) string {
		return with("<processes>\n<process_info>\n<pid>" + strconv.Itoa(os.Getpid()) + "</pid>\n<type>" + kind +
			"</type>\n<process_name>Xorg</process_name>\n<used_memory>30 MiB</used_memory>\n</process_info>\n</processes>")
	}
	file := filepath.Join(t.TempDir(), "out")
	t.Setenv("GPUBOARD_FAKE_SMI", file)
	smi := fake(t, "nvidia-smi")
	for _, c := range []struct {
		name, text string
		root       string
		want       board.State
	}{
		{"none is listed", with("<processes>\n</processes>"), host, board.Free},
		{"a display server", listed("G"), host, board.Free},
		{"a process", listed("C"), host, board.Busy},
		{"no element", with(""), host, board.Unknown},
		{"N/A", with("<processes>N/A</processes>"), host, board.Unknown},
		{"Not Supported", with("<processes>[Not Supported]</processes>"), host, board.Unknown},
		{"no permission", with("<processes>Insufficient Permissions</processes>"), host, board.Unknown},
		{"without a pid", regexp.MustCompile(`<pid>.*</pid>`).ReplaceAllString(idle, ""), host, board.Unknown},
		{"with the pid N/A", strings.Replace(idle, "@PID1@", "[N/A]", 1), host, board.Unknown},
		{"cut within the list", idle[:strings.Index(idle, "<pid>")], host, board.Unknown},
		{"cut behind the list", with("<processes>\n</process_info>"), host, board.Unknown},
		{"in a container", with("<processes>\n</processes>"), container, board.Unknown},
		{"a display server in a container", listed("G"), container, board.Unknown},
	} {
		for _, memory := range []string{"N/A", "122880 MiB"} {
			text := strings.Replace(c.text, "<total>N/A</total>", "<total>"+memory+"</total>", 1)
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			s := collect(t, patient(Options{Host: "spark", NvidiaSMI: smi, Roots: hostinfo.Roots{Proc: c.root}}))
			in := board.Input{Now: s.CollectedAt.Add(time.Second), Hosts: []inventory.Host{{Name: "spark"}},
				Reports: map[string]board.Report{"spark": {Snapshot: s}}}
			b, _ := board.Merge(in)
			state := board.Unknown // a cut answer may have no GPU at all
			for _, g := range b.Hosts[0].GPUs {
				state = g.State
			}
			if state != c.want || b.Totals.GPUs.Free() != 0 && c.want != board.Free {
				t.Errorf("%s, memory %s: %s, want %s; %s", c.name, memory, state, c.want, problems(s))
			}
		}
	}
}
