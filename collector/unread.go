package collector

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpuboard/internal/snapshot"
)

// An unread kind of accelerator is one that is found on the bus and not read: the PCI vendor, the beginning of its
// class, and the kernel's drivers if only those count.
type unread struct {
	vendor, class string
	drivers       []string
	what          string
}

const nvidiaOnBus = "0x10de"

func unreadKinds() []unread {
	return []unread{
		{"0x19e5", "0x1200", nil, "an Ascend NPU"}, // its vendor also makes the displays of servers
		{"0x8086", "0x03", []string{"xe", "i915"}, "a discrete Intel GPU"},
		{"0xcabc", "0x1200", nil, "a Cambricon MLU"},
		{"0x1ed5", "0x03", nil, "a Moore Threads GPU"},
	}
}

// found is what stands on the bus of this node, which is looked at once.
type found struct {
	looked, nvidia bool
	unread         []string
}

// look reads the bus. A machine without one may be a Jetson, whose GPU is a part of its processor.
func (f *found) look(sys, proc string) {
	*f = found{looked: true}
	devices, _ := filepath.Glob(filepath.Join(sys, "bus/pci/devices/*"))
	for _, dir := range devices {
		vendor := oneLine(filepath.Join(dir, "vendor"))
		f.nvidia = f.nvidia || vendor == nvidiaOnBus && strings.HasPrefix(oneLine(filepath.Join(dir, "class")), "0x03")
		for _, kind := range unreadKinds() {
			if vendor == kind.vendor && kind.at(dir) && !slices.Contains(f.unread, kind.what) {
				f.unread = append(f.unread, kind.what)
			}
		}
	}
	compatible, _ := os.ReadFile(filepath.Join(proc, "device-tree/compatible"))
	if strings.Contains(string(compatible), "nvidia,tegra") {
		f.unread = append(f.unread, jetson)
	}
}

const jetson = "a Jetson without nvidia-smi"

func (k *unread) at(dir string) bool {
	if !strings.HasPrefix(oneLine(filepath.Join(dir, "class")), k.class) {
		return false
	}
	driver, _ := os.Readlink(filepath.Join(dir, "driver"))
	integrated := strings.HasSuffix(filepath.Base(dir), ":00:02.0")
	return k.drivers == nil || slices.Contains(k.drivers, filepath.Base(driver)) && !integrated
}

// oneLine is the content of a small file; "" if it cannot be read.
func oneLine(path string) string {
	text, _ := os.ReadFile(path)
	return strings.TrimSpace(string(text))
}

// nameUnread names the accelerators that are here and not read. On such a node nobody is told to install a driver of
// NVIDIA's, unless there is a card of theirs as well.
func (c *Collector) nameUnread(s *snapshot.Snapshot) {
	if !c.found.looked {
		c.found.look(c.opts.Roots.Sys, c.opts.Roots.Proc)
	}
	without := slices.ContainsFunc(s.Errors, smiMissing)
	for _, what := range c.found.unread {
		if what == jetson && !without {
			continue // which nvidia-smi reads
		}
		report(s, "gpu:unread", "%s is here; gpuboard does not read it yet", what)
		if !c.found.nvidia {
			s.Errors = slices.DeleteFunc(s.Errors, smiMissing)
		}
	}
}
