package amdsmi

import (
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing/fstest"

	"gpuboard/internal/snapshot"
)

// tree makes a tree of files of "path: text" lines; "->" makes a link.
func tree(parts ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for _, part := range parts {
		for line := range strings.Lines(part) {
			line = strings.TrimSpace(line)
			if path, text, ok := strings.Cut(line, ": "); ok {
				fsys[path] = &fstest.MapFile{Data: []byte(
					strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(text) + "\n"), Mode: 0o444}
			} else if path, to, ok := strings.Cut(line, " -> "); ok {
				fsys[path] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
			} else if path, ok := strings.CutSuffix(line, "/"); ok {
				fsys[path] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
			}
		}
	}
	return fsys
}

// sysCard are the files of a card: a number of DRM, the bus of its address, its unique id, and used of 32 GiB.
func sysCard(number, bus int, unique string, used int64) string {
	dir := fmt.Sprintf("class/drm/card%d/device/", number)
	return strings.ReplaceAll(fmt.Sprintf(`
		@uevent: DRIVER=amdgpu\nPCI_ID=1002:7551\nPCI_SLOT_NAME=0000:%02x:00.0
		@vendor: 0x1002
		@unique_id: %s
		@gpu_busy_percent: 3
		@mem_busy_percent: 1
		@mem_info_vram_total: 34208743424
		@mem_info_vram_used: %d
		@current_link_width: 16
		@max_link_width: 16
		@pp_dpm_sclk: 0: 500Mhz \n1: 2300Mhz *
		@pp_dpm_mclk: 0: 96Mhz *\n1: 1258Mhz
		@product_name: Radeon AI PRO R9700
		@hwmon/hwmon4/temp1_input: 41000
		@hwmon/hwmon4/temp1_label: edge
		@hwmon/hwmon4/temp2_input: 44000
		@hwmon/hwmon4/temp2_label: junction
		@hwmon/hwmon4/power1_average: 21000000
		@hwmon/hwmon4/power1_cap: 300000000
		@hwmon/hwmon4/fan1_input: 700
		@hwmon/hwmon4/pwm1: 51
	`, bus, unique, used), "@", dir)
}

// kfdNode is a node of KFD's topology. The function of the address is the partition.
func kfdNode(number, bus, function, gpuID int, bank int64) string {
	dir := fmt.Sprintf("class/kfd/kfd/topology/nodes/%d/", number)
	return fmt.Sprintf(`
		%sgpu_id: %d
		%sproperties: simd_count 128\nlocation_id %d\ndomain 0\nvendor_id 4098
		%smem_banks/0/properties: heap_type 1\nsize_in_bytes %d
	`, dir, gpuID, dir, bus<<8|function, dir, bank)
}

// kfdProcess is a process of KFD's with memory of GPUs, and one queue on queueOn unless that is 0.
func kfdProcess(pid, queueOn int, memory map[int]int64) string {
	dir := fmt.Sprintf("class/kfd/kfd/proc/%d/", pid)
	text := dir + "pasid: 32771\n" + dir + "queues/\n"
	for id, n := range memory {
		text += fmt.Sprintf("%svram_%d: %d\n%sstats_%d/evicted_ms: 0\n", dir, id, n, dir, id)
	}
	if queueOn != 0 {
		text += fmt.Sprintf("%squeues/0/gpuid: %d\n", dir, queueOn)
	}
	return text
}

const (
	idA, idB     = 51110, 4711 // of KFD
	noProcesses  = "class/kfd/kfd/proc/\n"
	driverLoaded = "module/amdgpu/version: 6.16.6\n"
)

// twoCards is a node with two cards, on buses 3 and 0x43.
func twoCards(usedA, usedB int64) string {
	return driverLoaded + "class/drm/card0/device/uevent: DRIVER=ast\n" + noProcesses +
		sysCard(1, 0x43, "00000000000000b2", usedB) + sysCard(2, 3, "7a24b5d2e8f1c906", usedA) +
		"class/kfd/kfd/topology/nodes/0/gpu_id: 0\n" + kfdNode(1, 3, 0, idA, 34208743424) +
		kfdNode(2, 0x43, 0, idB, 34208743424)
}

const idleBytes = 28311552 // 27 MiB

// readTree reads a tree without a tool.
func readTree(sys, proc fs.FS) Reading { return readWith(sys, proc, Answer{}, Options{}) }

func readWith(sys, proc fs.FS, a Answer, opts Options) Reading {
	k := ReadKernel(sys, proc, opts.Integrated)
	return Read(&k, &a, opts)
}

// without is a tree without the files below a path.
func without(fsys fstest.MapFS, path string) fstest.MapFS {
	less := maps.Clone(fsys)
	maps.DeleteFunc(less,
		func(name string, _ *fstest.MapFile) bool { return name == path || strings.HasPrefix(name, path+"/") })
	return less
}

// used are the processes of a reading: gpu, pid, type, memory.
func used(r Reading) string {
	var b strings.Builder
	for _, p := range r.Processes {
		memory := "?"
		if p.UsedMemory != nil {
			memory = fmt.Sprint(*p.UsedMemory)
		}
		fmt.Fprintf(&b, "%d:%d:%s:%s ", p.GPU, p.PID, p.Type, memory)
	}
	return strings.TrimSpace(b.String())
}

func unknowns(r Reading) string {
	var list []string
	for _, g := range r.GPUs {
		list = append(list, g.ProcessesUnknown)
	}
	return strings.Join(list, "|")
}

func snapshotOf(r Reading) *snapshot.Snapshot {
	s := &snapshot.Snapshot{Schema: snapshot.Schema, Host: "amd01", BootID: "b", Seq: 1, GPUs: r.GPUs,
		GPUsComplete: r.Complete,
		Processes:    append([]snapshot.Process{}, r.Processes...), Tools: []snapshot.Tool{r.Tool},
		Errors: []snapshot.Problem{}}
	return s
}
