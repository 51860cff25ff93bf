package collector

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSharedMemory: a GPU without memory of its own has the node's, and
// one that cannot be read has not.
func TestSharedMemory(t *testing.T) {
	text, err := os.ReadFile(capturePath(t, "gb10-580.xml"))
	if err != nil {
		t.Fatal(err)
	}
	proc := t.TempDir()
	if err := os.WriteFile(filepath.Join(proc, "meminfo"), []byte("MemTotal: 131072000 kB\nMemAvailable: 104857600 kB\n"), 0o644); err != nil {
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
		r := strings.NewReplacer("<product_name>NVIDIA GB10<", "<product_name>"+c.name+"<", "<total>N/A</total>", "<total>"+c.total+"</total>",
			"<used>N/A</used>", "<used>"+c.used+"</used>")
		if err := os.WriteFile(file, []byte(r.Replace(string(text))), 0o644); err != nil {
			t.Fatal(err)
		}
		s := collect(t, patient(Options{NvidiaSMI: smi, ProcRoot: proc}))
		g := s.GPUs[0]
		used := int64(-1)
		if g.MemoryUsed != nil {
			used = *g.MemoryUsed
		}
		if g.MemoryShared != c.shared || used != c.want || (c.want == 25600) != (g.MemoryTotal != nil && *g.MemoryTotal == 128000 && *g.MemoryFree == 102400) {
			t.Errorf("%s with %q: shared %v, used %d, %v", c.name, c.total, g.MemoryShared, used, g.MemoryTotal)
		}
	}
	if err := os.Remove(filepath.Join(proc, "meminfo")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if g := collect(t, patient(Options{NvidiaSMI: smi, ProcRoot: proc})).GPUs[0]; !g.MemoryShared || g.MemoryTotal != nil || g.MemoryUsed != nil {
		t.Errorf("without the node's memory: %+v", g)
	}
}
