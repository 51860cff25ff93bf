package nvidiasmi

import "strings"

// A block is one <gpu> element: the text of the leaves that are wanted, by path.
type block struct {
	id        string
	leaves    map[string]string
	throttle  []string // reasons that are active
	procs     []process
	migs      []migDevice
	inProc    bool
	inMIG     bool
	moreProcs int
	// processes says what stands in place of the list of processes; listed is
	// true once the element was there.
	processes string
	listed    bool
	// lost and fault are the driver's own words, from whichever leaf has them.
	lost, fault string
}

type process struct {
	pid, kind, name, memory   string
	gpuInstance, compInstance string
}

type migDevice struct {
	index, gpuInstance, compInstance string
	uuid                             string
	total, used                      string
}

const (
	maxProcsPerGPU = 4096
	maxMIGsRead    = 64
)

func wanted(path string) bool {
	switch path {
	case "product_name", "uuid", "fan_speed", "performance_state", "gpu_recovery_action",
		"mig_mode/current_mig", "ecc_mode/current_ecc", "pci/pci_bus_id",
		"pci/pci_gpu_link_info/link_widths/current_link_width", "pci/pci_gpu_link_info/link_widths/max_link_width",
		"fb_memory_usage/total", "fb_memory_usage/used", "fb_memory_usage/free",
		"utilization/gpu_util", "utilization/memory_util", "temperature/gpu_temp",
		"clocks/sm_clock", "clocks/mem_clock", "clocks/graphics_clock",
		"gpu_reset_status/reset_required",
		"retired_pages/multiple_single_bit_retirement/retired_count",
		"retired_pages/double_bit_retirement/retired_count",
		"remapped_rows/remapped_row_corr", "remapped_rows/remapped_row_unc",
		"remapped_rows/remapped_row_pending", "remapped_rows/remapped_row_failure":
		return true
	}
	return strings.HasPrefix(path, "power_readings/") || strings.HasPrefix(path, "gpu_power_readings/") ||
		strings.HasPrefix(path, "ecc_errors/volatile/") || strings.HasPrefix(path, "ecc_errors/aggregate/")
}

// begin is called where an element opens.
func (b *block) begin(path string) {
	switch path {
	case "processes":
		b.listed = true
	case "processes/process_info":
		if b.inProc = len(b.procs) < maxProcsPerGPU; b.inProc {
			b.procs = append(b.procs, process{})
		} else {
			b.moreProcs++
		}
	case "mig_devices/mig_device":
		if b.inMIG = len(b.migs) < maxMIGsRead; b.inMIG {
			b.migs = append(b.migs, migDevice{})
		}
	}
}

// end is called where an element closes.
func (b *block) end(path string) {
	switch path {
	case "processes/process_info":
		b.inProc = false
	case "mig_devices/mig_device":
		b.inMIG = false
	}
}

// leaf takes the text of an element without children.
func (b *block) leaf(path, text []byte) {
	at := string(path)
	if rest, ok := strings.CutPrefix(at, "processes"); ok && (rest == "" || rest[0] == '/') {
		// A process chooses its own name, so no word in here is the driver's.
		b.processLeaf(rest, unescape(text))
		return
	}
	if strings.HasPrefix(at, "accounted_processes") {
		return
	}
	if rest, ok := strings.CutPrefix(at, "mig_devices/mig_device/"); ok {
		b.migLeaf(rest, unescape(text))
		return
	}
	if len(text) >= 4 && (text[0] == '[' || text[0] == 'G' || text[0] == 'E') {
		b.word(unescape(text))
	}
	for _, prefix := range []string{"clocks_throttle_reasons/clocks_throttle_reason_", "clocks_event_reasons/clocks_event_reason_"} {
		if reason, ok := strings.CutPrefix(at, prefix); ok {
			if string(text) == "Active" {
				b.throttle = append(b.throttle, reason)
			}
			return
		}
	}
	if wanted(at) {
		if _, twice := b.leaves[at]; !twice {
			b.leaves[at] = unescape(text)
		}
	}
}

// word looks for the driver's words that say the GPU itself is not well.
func (b *block) word(s string) {
	switch w := strings.ToLower(bare(s)); {
	case w == "gpu is lost" || strings.Contains(w, "fallen off the bus"):
		b.lost = bare(s)
	case w == "gpu requires reset" || w == "err!":
		b.fault = bare(s)
	}
}

func (b *block) processLeaf(rest, text string) {
	name, ok := strings.CutPrefix(rest, "/process_info/")
	if !ok {
		if rest == "" {
			b.processes = text
		}
		return
	}
	if !b.inProc {
		return
	}
	p := &b.procs[len(b.procs)-1]
	switch name {
	case "pid":
		p.pid = text
	case "type":
		p.kind = text
	case "process_name":
		p.name = text
	case "used_memory":
		p.memory = text
	case "gpu_instance_id":
		p.gpuInstance = text
	case "compute_instance_id":
		p.compInstance = text
	}
}

func (b *block) migLeaf(name, text string) {
	if !b.inMIG {
		return
	}
	m := &b.migs[len(b.migs)-1]
	switch name {
	case "index":
		m.index = text
	case "gpu_instance_id":
		m.gpuInstance = text
	case "compute_instance_id":
		m.compInstance = text
	case "uuid":
		m.uuid = text
	case "fb_memory_usage/total":
		m.total = text
	case "fb_memory_usage/used":
		m.used = text
	}
}
