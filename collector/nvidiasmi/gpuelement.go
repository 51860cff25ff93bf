package nvidiasmi

import (
	"bytes"
	"strings"
	"sync"

	"gpuboard/internal/snapshot"
)

// A gpuElement is one <gpu> element: the texts of the leaves that are used, by path.
type gpuElement struct {
	id        string
	leaves    map[string]string
	throttle  []string            // reasons that are active
	procs     []map[string]string // leaves of each process
	migs      []map[string]string // leaves of each MIG device
	inProc    bool                // the last process that began is among procs
	inMIG     bool                // the last MIG device that began is among migs
	moreProcs int
	// processes is the text in place of a list of processes. listed is true after the
	// start of the element.
	processes  string
	listed     bool
	damaged    bool   // the XML of this GPU is malformed
	unreliable bool   // its readings may be those of another GPU
	forged     bool   // the name of a process contains XML
	children   []byte // names of its children before the processes
	// lost and fault are texts of the driver, from any leaf.
	lost, fault string
}

const (
	maxProcsPerGPU = 4096
	maxMIGsRead    = 64
)

// leavesOfGPU is the initial size of the map of leaves.
const leavesOfGPU = 48

// wanted reports whether the text of a leaf is used.
func wanted(path []byte) bool {
	switch string(path) {
	case "product_name", "uuid", "performance_state", "gpu_recovery_action",
		"mig_mode/current_mig", "ecc_mode/current_ecc", "pci/pci_bus_id",
		"driver_model/current_dm", "driver_model/pending_dm",
		"fb_memory_usage/total", "fb_memory_usage/used", "fb_memory_usage/free",
		"shared_fb_memory_usage/total", "shared_fb_memory_usage/used", "shared_fb_memory_usage/free",
		"gpu_power_readings/power_state", "power_readings/power_state",
		"gpu_reset_status/reset_required", "gpu_reset_status/drain_and_reset_recommended",
		"retired_pages/multiple_single_bit_retirement/retired_count",
		"retired_pages/double_bit_retirement/retired_count",
		"retired_pages/pending_retirement", "retired_pages/pending_blacklist",
		"fabric/state", "fabric/status", "fabric/cliqueId", "fabric/clusterUuid", "fabric/health/summary",
		"ecc_errors/channel_repair_pending", "ecc_errors/tpc_repair_pending",
		"remapped_rows/remapped_row_corr", "remapped_rows/remapped_row_unc",
		"remapped_rows/remapped_row_pending", "remapped_rows/remapped_row_failure":
		return true
	}
	return ofReading()[string(path)] ||
		bytes.HasPrefix(path, []byte("ecc_errors/volatile/")) || bytes.HasPrefix(path, []byte("ecc_errors/aggregate/"))
}

// ofReading has the elements of readings that are one number.
var ofReading = sync.OnceValue(func() map[string]bool {
	elements := map[string]bool{}
	for _, d := range snapshot.Descriptors() {
		for _, path := range d.Elements {
			elements[path] = true
		}
	}
	return elements
})

// child notes the name of a child element. All GPUs of a document have the same
// children, because one driver wrote them.
func (b *gpuElement) child(name []byte) {
	if !b.listed {
		b.children = append(append(b.children, name...), ' ')
	}
}

// begin is called at the start of an element.
func (b *gpuElement) begin(path []byte) {
	switch string(path) {
	case "processes":
		b.forged = b.forged || b.listed // the driver writes one list
		b.listed = true
	case "processes/process_info":
		if b.inProc = len(b.procs) < maxProcsPerGPU; b.inProc {
			b.procs = append(b.procs, map[string]string{})
		} else {
			b.moreProcs++
		}
	case "mig_devices/mig_device":
		if b.inMIG = len(b.migs) < maxMIGsRead && !b.listed; b.inMIG {
			b.migs = append(b.migs, map[string]string{})
		}
	}
}

// leaf stores the text of an element without children.
func (b *gpuElement) leaf(path, text []byte) {
	if rest, ok := bytes.CutPrefix(path, []byte("processes")); ok && (len(rest) == 0 || rest[0] == '/') {
		// A process chooses its own name, so no text in here is the driver's.
		b.processLeaf(rest, text)
		return
	}
	if b.listed { // elements after the processes are not used, and may be part of a name
		return
	}
	if name, ok := bytes.CutPrefix(path, []byte("mig_devices/mig_device/")); ok {
		if b.inMIG {
			b.migs[len(b.migs)-1][string(name)] = unescape(text)
		}
		return
	}
	if len(text) >= 4 && (text[0] == '[' || text[0] == 'G' || text[0] == 'E') {
		// A fan that cannot be read is no error of the GPU itself.
		if s := unescape(text); string(path) != "fan_speed" || !strings.EqualFold(trimBrackets(s), "ERR!") {
			b.noteStatus(s)
		}
	}
	reason, ok := bytes.CutPrefix(path, []byte("clocks_throttle_reasons/clocks_throttle_reason_"))
	if !ok {
		reason, ok = bytes.CutPrefix(path, []byte("clocks_event_reasons/clocks_event_reason_"))
	}
	if ok {
		if string(text) == "Active" {
			b.throttle = append(b.throttle, string(reason))
		}
		return
	}
	if wanted(path) {
		if _, twice := b.leaves[string(path)]; twice {
			b.damaged, b.unreliable = true, true
			return
		}
		b.leaves[string(path)] = unescape(text)
	}
}

func (b *gpuElement) yes(path string) bool { return strings.EqualFold(b.leaves[path], "Yes") }

// windows reports whether Windows manages the GPU, as it does for WSL, by one of its driver models for displays
// (WDDM, MCDM). The driver then does not know all processes. TCC is the model without a display.
func (b *gpuElement) windows() bool {
	models := b.leaves["driver_model/current_dm"] + b.leaves["driver_model/pending_dm"]
	return strings.Contains(models, "WDDM") || strings.Contains(models, "MCDM")
}

// noteStatus looks for texts of the driver that mean that the GPU is lost or has an error.
func (b *gpuElement) noteStatus(s string) {
	switch w := strings.ToLower(trimBrackets(s)); {
	case w == "gpu is lost" || strings.Contains(w, "fallen off the bus"):
		b.lost = trimBrackets(s)
	case w == "gpu requires reset" || w == "err!":
		b.fault = trimBrackets(s)
	}
}

func (b *gpuElement) processLeaf(rest, text []byte) {
	name, ok := bytes.CutPrefix(rest, []byte("/process_info/"))
	if !ok {
		if len(rest) == 0 {
			b.processes = unescape(text)
		}
		return
	}
	if b.inProc {
		b.procs[len(b.procs)-1][string(name)] = unescape(text)
	}
}
