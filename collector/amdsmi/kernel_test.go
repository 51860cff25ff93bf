package amdsmi

import (
	"testing"
)

// TestKernelAlone: the driver's files, without a tool, tell all that a row needs.
func TestKernelAlone(t *testing.T) {
	sys := tree(twoCards(21037355008, idleBytes), kfdProcess(4001, idA, map[int]int64{idA: 21008920000, idB: 0}))
	r := readTree(sys, tree())
	if len(r.GPUs) != 2 || !r.Complete || r.Tool.Name != "sysfs" || r.Tool.Driver != "6.16.6" {
		t.Fatalf("%+v", r)
	}
	g := r.GPUs[0]
	if g.UUID != "GPU-7a24b5d2e8f1c906" || g.PCIBusID != "00000000:03:00.0" || g.Name != "Radeon AI PRO R9700" ||
		g.Index != 0 || g.Vendor != "amd" {
		t.Errorf("identity: %+v", g)
	}
	if r.GPUs[1].UUID != "GPU-00000000000000b2" || r.GPUs[1].PCIBusID != "00000000:43:00.0" || r.GPUs[1].Index != 1 {
		t.Errorf("identity of the second: %+v", r.GPUs[1])
	}
	if *g.UtilizationGPU != 3 || *g.UtilizationMemory != 1 || *g.Temperature != 41 || *g.PowerDraw != 21 ||
		*g.PowerLimit != 300 ||
		*g.Fan != 20 || *g.PCIeWidth != 16 || *g.PCIeWidthMax != 16 || *g.ClockSM != 2300 || *g.ClockMemory != 96 ||
		*g.MemoryTotal != 32624 || *g.MemoryUsed != 20062 || g.UtilizationEncoder != nil {
		t.Errorf("readings: %+v", g)
	}
	if used(r) != "0:4001:C:20035" || unknowns(r) != "|" {
		t.Errorf("%s, unknown %s", used(r), unknowns(r))
	}
}

// TestWhoUses: what KFD and fdinfo say decides, and where they do not say, nothing is known.
func TestWhoUses(t *testing.T) {
	idle := twoCards(idleBytes, idleBytes)
	display := `
		812/fd/7 -> /dev/dri/renderD129
		812/fdinfo/7: drm-driver:\tamdgpu\ndrm-pdev: 0000:43:00.0\ndrm-client-id: 217\ndrm-memory-vram: 204800 KiB
		812/fd/8 -> /dev/dri/card1
		812/fdinfo/8: drm-driver: amdgpu\ndrm-pdev: 0000:43:00.0\ndrm-client-id: 217\ndrm-memory-vram: 204800 KiB
		812/fd/9 -> /dev/dri/renderD130
		812/fdinfo/9: drm-driver: i915\ndrm-pdev: 0000:00:02.0\ndrm-client-id: 4\ndrm-memory-vram: 204800 KiB
		812/fd/1 -> /dev/null
	`
	lists := func(pid string) Answer {
		return ParseSMI(nil, nil, nil,
			[]byte(`[{"gpu":0,"process_list":[{"process_info":{"name":"/usr/bin/python3.12","pid":`+pid+`,
			"memory_usage":{"vram_mem":{"value":21008920000,"unit":"B"}}}}]},{"gpu":1,"process_list":[{"process_info":{"name":"N/A","pid":`+pid+`,
			"memory_usage":{"vram_mem":{"value":21008920000,"unit":"B"}}}}]}]`))
	}
	none := ParseSMI(nil, nil, nil,
		[]byte(`[{"gpu":0,"process_list":[{"process_info":"No running processes detected"}]},{"gpu":1,
		"process_list":[{"process_info":"No running processes detected"}]}]`))
	both := map[int]int64{idA: 21008920000, idB: 0}
	for _, c := range []struct {
		name, sys, proc string
		tool            Answer
		used, unknown   string
	}{
		{"nobody", idle, "", Answer{}, "", "|"},
		{"nobody, and the tool says so", idle, "", none, "", "|"},
		{"the tool does not see it", idle + kfdProcess(4001, idA, both), "", none, "0:4001:C:20035", "|"},
		{"one process under every GPU", idle + kfdProcess(4001, idA, both), "", lists("4001"), "0:4001:C:20035", "|"},
		{"one that the kernel does not know", idle, "", lists("4001"), "",
			"amd-smi lists a process that the kernel does not|amd-smi lists a process that the kernel does not"},
		{"a display", idle, display, Answer{}, "1:812:G:200", "|"},
		{"a display that the tool lists under both", idle, display, lists("812"), "1:812:G:200", "|"},
		{"one that holds nothing", idle + kfdProcess(4001, 0, map[int]int64{idA: 0, idB: 0}), "", Answer{}, "", "|"},
		{"a queue alone, as of a chip that has the memory of its processor",
			idle + kfdProcess(4001, idB, map[int]int64{idA: 0, idB: 0}), "",
			Answer{}, "1:4001:C:?", "|"},
		{"a further context", idle + kfdProcess(4001, 0, map[int]int64{idA: 0, idB: 0}) +
			"class/kfd/kfd/proc/4001/context_1/vram_4711: 3145728\n", "", Answer{}, "1:4001:C:3", "|"},
		{"a process that may use one GPU", idle + kfdProcess(4001, idB, map[int]int64{idB: 3 << 20}), "", Answer{},
			"1:4001:C:3", "|"},
		{"without its queues",
			idle + "class/kfd/kfd/proc/4001/vram_4711: 3145728\nclass/kfd/kfd/proc/4001/vram_51110: 0\n", "", Answer{},
			"1:4001:C:3", "what a process holds cannot be read|"},
		{"more memory than there is", idle + kfdProcess(4001, 0, map[int]int64{idB: 1 << 62}), "", Answer{},
			"1:4001:C:16777216",
			"the list of KFD cannot be read|the list of KFD cannot be read"},
		{"memory that is no number", idle + kfdProcess(4001, 0, both) + "class/kfd/kfd/proc/4001/vram_51110: x\n", "",
			Answer{}, "",
			"the list of KFD cannot be read|the list of KFD cannot be read"},
	} {
		r := readWith(tree(c.sys), tree(c.proc), c.tool, Options{})
		if used(r) != c.used || unknowns(r) != c.unknown {
			t.Errorf("%s: %q, unknown %q", c.name, used(r), unknowns(r))
		}
	}
}

// TestHiddenMemory: memory that no process of KFD's explains may be that of a process that this account cannot see.
func TestHiddenMemory(t *testing.T) {
	sys := tree(twoCards(9<<30, idleBytes))
	k := ReadKernel(sys, tree(), false)
	k.unseen = true
	if r := Read(&k, &Answer{}, Options{}); unknowns(r) != "more memory is in use than its processes hold|" {
		t.Errorf("unknown: %s", unknowns(r))
	}
}

// TestWithoutKFD: a tool alone proves nothing, and what it lists is kept where it can be told apart.
func TestWithoutKFD(t *testing.T) {
	sys := without(tree(twoCards(21037355008, idleBytes)), "class/kfd")
	process := func(pid, memory string) string {
		return `{"process_info":{"name":"N/A","pid":` + pid + `,"memory_usage":{"vram_mem":{"value":` + memory +
			`,"unit":"B"}}}}`
	}
	a := ParseSMI(nil, nil, nil,
		[]byte(`[{"gpu":0,"process_list":[`+process("4001", "56000")+`,`+process("4002", "21008920000")+`,`+
			process("4003", "0")+`]},{"gpu":1,"process_list":[`+process("4001", "56000")+`,`+process("4003", "60000")+
			`]}]`))
	r := readWith(sys, tree(), a, Options{})
	if used(r) != "0:4002:C:20035" || unknowns(r) != "the list of KFD cannot be read|the list of KFD cannot be read" {
		t.Errorf("%s, unknown %s", used(r), unknowns(r))
	}
}

// TestIntegrated: the graphics of a processor are left out, unless they are asked for; then their memory is the node's.
func TestIntegrated(t *testing.T) {
	apu := driverLoaded + noProcesses + `
		class/drm/card0/device/uevent: DRIVER=amdgpu\nPCI_ID=1002:164E\nPCI_SLOT_NAME=0000:13:00.0
		class/drm/card0/device/mem_info_vram_total: 8589934592
		class/drm/card0/device/mem_info_vram_used: 445550592
		class/drm/card0/device/gpu_busy_percent: 2
		class/drm/card0/device/hwmon/hwmon1/in1_label: vddnb
	` + kfdNode(1, 0x13, 0, 7, 1<<29)
	client := `812/fd/7 -> /dev/dri/renderD128
		812/fdinfo/7: drm-driver: amdgpu\ndrm-pdev: 0000:13:00.0\ndrm-client-id: 1\ndrm-memory-vram: 2048 KiB\ndrm-memory-gtt: 8192 KiB`
	r := readTree(tree(apu), tree(client))
	if len(r.GPUs) != 0 || !r.Integrated || len(r.Processes) != 0 {
		t.Errorf("not asked for: %+v", r)
	}
	r = readWith(tree(apu), tree(client), Answer{}, Options{Integrated: true, First: 4})
	if len(r.GPUs) != 1 || used(r) != "4:812:G:10" {
		t.Fatalf("asked for: %+v", r)
	}
	if g := r.GPUs[0]; !g.MemoryShared || g.MemoryTotal != nil || g.MemoryUsed != nil || g.Name != "AMD GPU 164E" ||
		g.UUID != "" || *g.UtilizationGPU != 2 {
		t.Errorf("asked for: %+v", g)
	}
}

// TestPartitions: eight partitions are rows of one card. Their memory and processes are KFD's, and the numbers that the
// tool repeats for each count once.
func TestPartitions(t *testing.T) {
	text := driverLoaded + noProcesses + sysCard(1, 0xc, "0123456789abcdef", 22<<30) +
		"class/drm/card1/device/current_compute_partition: CPX\nclass/drm/card1/device/current_memory_partition: NPS4\n"
	var metric string
	for i := range 8 {
		text += kfdNode(i+2, 0xc, i, 100+i, 24<<30)
		metric += `{"gpu":` + string(rune('0'+i)) + `,"bus":{"bdf":"0000:0C:00.` + string(rune('0'+i)) +
			`"},"power":{"socket_power":{"value":140,"unit":"W"}}},`
	}
	text += kfdProcess(4001, 103, map[int]int64{100: 0, 103: 21 << 30})
	a := ParseSMI(nil, nil, []byte("["+metric[:len(metric)-1]+"]"), nil)
	for _, tool := range []Answer{{}, a} {
		r := readWith(tree(text), tree(), tool, Options{})
		if len(r.GPUs) != 1 || !r.Complete || unknowns(r) != "" {
			t.Fatalf("%d GPUs, complete %v, %s", len(r.GPUs), r.Complete, unknowns(r))
		}
		g := r.GPUs[0]
		if g.MIGMode != "enabled" || len(g.MIGDevices) != 8 || g.MIGDevices[7].Profile != "CPX NPS4" ||
			*g.MIGDevices[3].GPUInstanceID != 3 ||
			*g.MIGDevices[3].MemoryUsed != 21<<10 || *g.MIGDevices[4].MemoryUsed != 0 ||
			*g.MIGDevices[4].MemoryTotal != 24<<10 {
			t.Errorf("partitions: %+v", g)
		}
		if used(r) != "0:4001:C:21504" || *r.Processes[0].GPUInstanceID != 3 {
			t.Errorf("%s %+v", used(r), r.Processes)
		}
		if tool.Said && *g.PowerDraw != 140 {
			t.Errorf("power: %v", *g.PowerDraw)
		}
	}
	less := readWith(without(tree(text), "class/kfd/kfd/topology/nodes/5"), tree(), a, Options{})
	if unknowns(less) != "KFD does not tell of all its partitions" {
		t.Errorf("without one node: %s", unknowns(less))
	}
}
