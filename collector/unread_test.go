package collector

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuboard/collector/hostinfo"
)

// TestAcceleratorsThatAreNotRead: what stands on the bus and is not read is named, and nobody is told to install a
// driver of NVIDIA's for it. Names are made of the kernel's files alone, once.
func TestAcceleratorsThatAreNotRead(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nvidia-smi")
	for _, tt := range []struct {
		name    string
		devices string // address vendor class driver; …
		tree    string // compatible
		want    string // what is named
		missing bool   // nvidia-smi is asked for
	}{
		{"nothing", "0000:00:1f.0 0x8086 0x060100 -", "", "", true},
		{"Ascend", "0000:c1:00.0 0x19e5 0x120000 devdrv_device_driver; 0000:c2:00.0 0x19e5 0x120000 -", "",
			"an Ascend NPU", false},
		{"a server's display by Huawei", "0000:07:00.0 0x19e5 0x030000 hibmc-drm", "", "", true},
		{"Intel", "0000:03:00.0 0x8086 0x030000 xe; 0000:00:02.0 0x8086 0x030000 i915", "", "a discrete Intel GPU",
			false},
		{"Intel's graphics alone", "0000:00:02.0 0x8086 0x030000 i915", "", "", true},
		{"Intel without a driver", "0000:03:00.0 0x8086 0x038000 -", "", "", true},
		{"beside a card of NVIDIA's", "0000:c1:00.0 0x19e5 0x120000 -; 0000:01:00.0 0x10de 0x030200 -", "",
			"an Ascend NPU", true},
		{"Jetson", "", "nvidia,p3737-0000+p3701-0000\x00nvidia,tegra234\x00", "a Jetson without nvidia-smi", false},
		{"another board", "", "raspberrypi,5-model-b\x00", "", true},
	} {
		root := t.TempDir()
		write := func(path, text string) {
			t.Helper()
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write("proc/device-tree/compatible", tt.tree)
		for device := range strings.SplitSeq(tt.devices, "; ") {
			if f := strings.Fields(device); len(f) == 4 {
				dir := filepath.Join("sys/bus/pci/devices", f[0])
				write(filepath.Join(dir, "vendor"), f[1]+"\n")
				write(filepath.Join(dir, "class"), f[2]+"\n")
				if err := os.Symlink("../../../../bus/pci/drivers/"+f[3],
					filepath.Join(root, dir, "driver")); err != nil {
					t.Fatal(err)
				}
			}
		}
		c := patient(Options{NvidiaSMI: nowhere, Roots: hostinfo.Roots{
			Proc: filepath.Join(root, "proc"), Sys: filepath.Join(root, "sys"),
		}})
		for range 2 { // the second time without a look
			s := collect(t, c)
			var named []string
			for _, p := range s.Errors {
				if p.Code == "gpu:unread" {
					named = append(named, p.Message)
				}
			}
			want := ""
			if tt.want != "" {
				want = tt.want + " is here; gpuboard does not read it yet"
			}
			if has(s, "smi:missing") != tt.missing || strings.Join(named, ", ") != want {
				t.Errorf("%s: %s, named %q", tt.name, problems(s), named)
			}
			if err := os.RemoveAll(filepath.Join(root, "sys")); err != nil {
				t.Fatal(err)
			}
		}
	}

	// A Jetson whose nvidia-smi answers is read.
	tree := filepath.Join(t.TempDir(), "device-tree")
	if err := os.MkdirAll(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, "compatible"), []byte("nvidia,tegra264\x00"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GPUBOARD_FAKE_SMI", capturePath(t, "orin-540.xml"))
	if s := collect(t,
		patient(Options{NvidiaSMI: fake(t, "nvidia-smi"), Roots: hostinfo.Roots{Proc: filepath.Dir(tree)}})); has(s,
		"gpu:unread") {
		t.Errorf("a Jetson that is read: %s", problems(s))
	}
}
