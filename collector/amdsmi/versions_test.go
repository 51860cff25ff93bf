package amdsmi

import (
	"encoding/json"
	"strings"
	"testing"
)

// shapes are the same two cards as amd-smi of several releases tells of them: bare arrays with plain numbers in ROCm
// 6.0, values with units from 6.1 on, one array a GPU behind a warning in 6.4.2, gpu_data from 7 (release 26) on.
func shapes() map[string][3]string {
	const (
		static60 = `[{"gpu":0,"asic":{"market_name":"AMD Instinct MI210","asic_serial":"0x18f68e602b8a790f"},"bus":{"bdf":"0000:03:00.0",
			"max_pcie_width":16,"max_pcie_speed":16},"limit":{"max_power":300,"current_power":290},"driver":{"driver_name":"amdgpu",
			"driver_version":"6.3.6"},"vram":{"vram_type":"HBM","vram_size_mb":65520}},
			{"gpu":1,"asic":{"market_name":"AMD Instinct MI210","asic_serial":"0x95a1ca7691e7c391"},"bus":{"bdf":"0000:43:00.0",
			"max_pcie_width":16},"limit":{"max_power":300,"current_power":290},"vram":{"vram_size_mb":65520}}]`
		metric60 = `[{"gpu":0,"usage":{"gfx_usage":97,"mem_usage":41,"mm_ip_usage":"N/A"},"power":{"current_power":182,"power_limit":300},
			"clock":{"gfx":{"cur_clk":1613,"max_clk":1700},"mem":{"cur_clk":1600}},"temperature":{"edge":49,"hotspot":52,"mem":43},
			"pcie":{"current_lanes":16},"fan":{"usage":"N/A"},"mem_usage":{"total_vram":65520,"used_vram":20480,"free_vram":45040}},
			{"gpu":1,"usage":{"gfx_usage":0,"mem_usage":0},"power":{"current_power":41},"clock":{"gfx":{"cur_clk":500},"mem":{"cur_clk":400}},
			"temperature":{"edge":38},"pcie":{"current_lanes":16},"mem_usage":{"total_vram":65520,"used_vram":10}}]`
		process60 = `[{"gpu":0,"values":{"process_info":{"name":"python3","pid":4001,"memory_usage":{"gtt_mem":2134016,"cpu_mem":0,
			"vram_mem":21008920000},"mem_usage":21010000000,"usage":{"gfx":0,"enc":0}}}},{"gpu":1,"values":{"process_info":"Not Found"}}]`
		static = `{"gpu":0,"asic":{"market_name":"AMD Instinct MI210","asic_serial":"0x18F68E602B8A790F","oam_id":"N/A"},
			"bus":{"bdf":"0000:03:00.0","max_pcie_width":16,"max_pcie_speed":{"value":16,"unit":"GT/s"}},"limit":{"max_power":{"value":300,
			"unit":"W"},"socket_power":{"value":290,"unit":"W"}},"driver":{"name":"amdgpu","version":"6.3.6"},"vram":{"type":"HBM",
			"size":{"value":65520,"unit":"MB"},"max_bandwidth":{"value":"N/A","unit":"GB/s"}},"partition":{"compute_partition":"N/A"}} ~
			{"gpu":1,"asic":{"market_name":"AMD Instinct MI210","asic_serial":"0x95a1ca7691e7c391"},"bus":{"bdf":"0000:43:00.0",
			"max_pcie_width":16},"limit":{"socket_power":{"value":290,"unit":"W"}},"vram":{"size":{"value":65520,"unit":"MB"}}}`
		metric = `{"gpu":0,"usage":{"gfx_activity":{"value":97,"unit":"%"},"umc_activity":{"value":41,"unit":"%"},"mm_activity":"N/A",
			"vcn_activity":["N/A"]},"power":{"socket_power":{"value":182,"unit":"W"},"throttle_status":"UNTHROTTLED"},
			"clock":{"gfx_0":{"clk":{"value":1613,"unit":"MHz"}},"mem_0":{"clk":{"value":1600,"unit":"MHz"}}},
			"temperature":{"edge":{"value":49,"unit":"C"},"hotspot":{"value":52,"unit":"C"}},"pcie":{"width":16,"speed":{"value":16,
			"unit":"GT/s"}},"fan":{"usage":"N/A"},"mem_usage":{"total_vram":{"value":65520,"unit":"MB"},"used_vram":{"value":20480,"unit":"MB"}}} ~
			{"gpu":1,"usage":{"gfx_activity":{"value":0,"unit":"%"},"umc_activity":{"value":0,"unit":"%"}},"power":{"socket_power":{"value":41,
			"unit":"W"}},"clock":{"gfx_0":{"clk":{"value":500,"unit":"MHz"}},"mem_0":{"clk":{"value":400,"unit":"MHz"}}},"temperature":{
			"edge":{"value":38,"unit":"C"}},"pcie":{"width":16},"mem_usage":{"total_vram":{"value":65520,"unit":"MB"},"used_vram":{"value":10,"unit":"MB"}}}`
		process = `{"gpu":0,"process_list":[{"process_info":{"name":"/usr/bin/python3","pid":4001,"memory_usage":{"gtt_mem":{"value":2134016,
			"unit":"B"},"vram_mem":{"value":21008920000,"unit":"B"}},"mem_usage":{"value":0,"unit":"B"}}}]} ~
			{"gpu":1,"process_list":[{"process_info":"No running processes detected"}]}`
	)
	array := func(s string) string { return "[" + strings.Replace(s, "~", ",", 1) + "]" }
	several := func(s string) string {
		return "WARNING: [amd-smi] User is missing groups {render}\n[" +
			strings.Replace(s, "~", "]\nNote: [1 of 2]\n[", 1) + "]\nEnd [of\n"
	}
	data := func(s string) string { return `{"gpu_data":` + array(s) + `}` }
	return map[string][3]string{
		"6.0":       {static60, metric60, process60},
		"6.3":       {array(static), array(metric), array(process)},
		"6.4.2":     {several(static), several(metric), several(process)},
		"7 (26)":    {data(static), data(metric), array(process)},
		"7.14 (27)": {"\n" + data(static) + "\n", data(metric) + "\nwarning: }\n", data(process)},
		"other keys": {strings.Replace(array(static), `"socket_power":{"value":290,"unit":"W"}`,
			`"ppt0":{"socket_power_limit":{"value":290,"unit":"W"}}`, 2), array(metric), array(process)},
	}
}

// TestVersionsSideBySide: the same cards are the same snapshot, whichever release tells of them.
func TestVersionsSideBySide(t *testing.T) {
	nodes := driverLoaded + noProcesses + kfdNode(1, 3, 0, idA, 0) + kfdNode(2, 0x43, 0, idB, 0) +
		"class/drm/card0/device/uevent: DRIVER=amdgpu\\nPCI_SLOT_NAME=0000:03:00.0\nclass/drm/card1/device/uevent: DRIVER=amdgpu\\nPCI_SLOT_NAME=0000:43:00.0\n" +
		kfdProcess(4001, idA, map[int]int64{idA: 21008920000, idB: 0})
	first := ""
	for name, out := range shapes() {
		a := ParseSMI([]byte(`[{"tool":"AMDSMI Tool","version":"26.2.1+fc0010cf6a","rocm_version":"7.2.0"}]`),
			[]byte(out[0]), []byte(out[1]), []byte(out[2]))
		r := readWith(tree(nodes), tree(), a, Options{})
		r.Tool.Driver = "" // amd-smi and the kernel may differ
		if len(r.GPUs) != 2 || !r.Complete || r.Tool.Version != "26.2.1+fc0010cf6a" || r.Tool.Name != "amd-smi" {
			t.Fatalf("%s: %+v", name, r)
		}
		g, h := r.GPUs[0], r.GPUs[1]
		if g.UUID != "GPU-18f68e602b8a790f" || g.PCIBusID != "00000000:03:00.0" || g.Name != "AMD Instinct MI210" ||
			*g.UtilizationGPU != 97 ||
			*g.UtilizationMemory != 41 || *g.PowerDraw != 182 || *g.PowerLimit != 290 || *g.ClockSM != 1613 ||
			*g.ClockMemory != 1600 ||
			*g.Temperature != 49 || *g.PCIeWidth != 16 || *g.PCIeWidthMax != 16 || g.Fan != nil ||
			*g.MemoryTotal != 65520 ||
			*g.MemoryUsed != 20480 || *g.MemoryFree != 45040 {
			t.Errorf("%s: %+v", name, g)
		}
		if h.UUID != "GPU-95a1ca7691e7c391" || *h.UtilizationGPU != 0 || *h.MemoryUsed != 10 || *h.PowerDraw != 41 ||
			*h.Temperature != 38 {
			t.Errorf("%s: %+v", name, h)
		}
		if used(r) != "0:4001:C:20035" || r.Processes[0].Program != "python3" || unknowns(r) != "|" {
			t.Errorf("%s: %s, unknown %s", name, used(r), unknowns(r))
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(text)
		} else if string(text) != first {
			t.Errorf("%s differs:\n%s\n%s", name, first, text)
		}
	}
}

// TestPlaces: what a tool tells without an address is found by its UUID or by the order of addresses, and a card more
// than the driver has is not put in the place of another.
func TestPlaces(t *testing.T) {
	sys := tree(twoCards(idleBytes, idleBytes))
	for _, c := range []struct {
		name, json string
		heat       [2]int
		complete   bool
	}{
		{"by UUID",
			`[{"gpu":0,"asic":{"asic_serial":"0xb2"},"temperature":{"edge":77}},{"gpu":1,"asic":{"asic_serial":"0x7a24b5d2e8f1c906"},"temperature":{"edge":55}}]`, [2]int{55, 77}, true},
		{"by order", `[{"gpu":1,"temperature":{"edge":77}},{"gpu":0,"temperature":{"edge":55}}]`, [2]int{55, 77}, true},
		{"fewer", `[{"gpu":1,"temperature":{"edge":77}}]`, [2]int{41, 41}, false},
		{"more",
			`[{"gpu":0,"temperature":{"edge":1}},{"gpu":1,"temperature":{"edge":2}},{"gpu":2,"temperature":{"edge":3}}]`, [2]int{41, 41}, false},
		{"a stranger", `[{"gpu":0,"bus":{"bdf":"0001:03:00.0"},"temperature":{"edge":77}}]`, [2]int{41, 41}, false},
		{"without a domain", `[{"gpu":0,"bus":{"bdf":"43:00.0"},"temperature":{"edge":77}}]`, [2]int{41, 77}, true},
		{"one of them", `[{"gpu":0,"bus":{"bdf":"0000:43:00.0"},"temperature":{"edge":77}}]`, [2]int{41, 77}, true},
		{"absent sensors",
			`[{"gpu":0,"bus":{"bdf":"0000:43:00.0"},"temperature":{"edge":0,"hotspot":{"value":"N/A","unit":"C"}}}]`,
			[2]int{41, 41}, true},
	} {
		r := readWith(sys, tree(), ParseSMI(nil, nil, []byte(c.json), nil), Options{})
		if len(r.GPUs) != 2 || *r.GPUs[0].Temperature != c.heat[0] || *r.GPUs[1].Temperature != c.heat[1] ||
			r.Complete != c.complete {
			t.Errorf("%s: %d GPUs, %d and %d, complete %v", c.name, len(r.GPUs), *r.GPUs[0].Temperature,
				*r.GPUs[1].Temperature, r.Complete)
		}
	}
}

// TestExplain: why a tool told of nothing, and whether the driver may be at fault.
func TestExplain(t *testing.T) {
	for _, c := range []struct {
		exit        int
		text, code  string
		driverFault bool
	}{
		{1,
			"RuntimeError: WARNING: User is missing the following required groups: render, video. Please add user to these groups.", "amd:permission", false},
		{1, "Permission needed to access /dev/kfd", "amd:permission", false},
		{2, "usage: rocm-smi\nrocm-smi: error: unrecognized arguments: --showmemuse", "amd:too-old", false},
		{0, "ERROR: GPU[0] : no data", "amd:parse", true},
		{255, "", "amd:failed", true},
		{-11, "", "amd:failed", true},
	} {
		code, words, fault := Explain(c.exit, c.text)
		if code != c.code || fault != c.driverFault || !strings.HasPrefix(c.text, words) {
			t.Errorf("%d %s: %s %s %v", c.exit, c.text, code, words, fault)
		}
	}
}
