package nvidiasmi

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpuboard/internal/snapshot"
)

// health sets the health of a GPU. "Unknown Error" counts as an error for memory and
// temperature only: healthy laptops report it for power.
func (p *parser) health(g *snapshot.GPU, b *gpuElement) {
	for _, path := range []string{"fb_memory_usage/total", "fb_memory_usage/used", "temperature/gpu_temp"} {
		if s := trimBrackets(b.leaves[path]); strings.EqualFold(s, "Unknown Error") {
			b.fault = cmp.Or(b.fault, s)
		}
	}
	uncorrected, pending := memoryErrors(g, b)
	action := b.leaves["gpu_recovery_action"]
	switch {
	case b.fault != "":
	case b.yes("gpu_reset_status/reset_required"):
		b.fault = "GPU requires reset"
	case b.yes("remapped_rows/remapped_row_failure"):
		b.fault = "row remapping failed"
	case uncorrected > 0 && pending != "":
		b.fault = fmt.Sprintf("%d uncorrectable memory errors, and %s", uncorrected, pending)
	case b.yes("gpu_reset_status/drain_and_reset_recommended"): // how drivers before the recovery action say it
		b.fault = "recovery action: Drain and Reset"
	case recoveryAction().MatchString(action):
		b.fault = "recovery action: " + action
	case !isAbsent(action):
		p.unknownToken(g.Index, "gpu_recovery_action", action)
	}
	fan := strings.ToLower(trimBrackets(b.leaves["fan_speed"]))
	switch {
	case b.lost != "" && !b.unreliable:
		markLost(g, b.lost)
		p.problem(&g.Index, "gpu:lost", "the driver has lost GPU %d (%s): %s; the node may have to be rebooted",
			g.Index, g.PCIBusID, b.lost)
	case b.fault != "" && !b.unreliable:
		g.Health, g.HealthReason = snapshot.HealthError, words(b.fault)
		p.problem(&g.Index, "gpu:error", "the driver reports an error for GPU %d (%s): %s", g.Index, g.PCIBusID, b.fault)
	case b.unreliable:
		clearReadings(g)
		g.Health, g.HealthReason = snapshot.HealthUnknown, "nvidia-smi's output is damaged where it tells of this GPU"
	case uncorrected > 0:
		p.problem(&g.Index, "gpu:ecc",
			"the memory of GPU %d (%s) has had %d uncorrectable errors since the last reset: see `dmesg | grep -i xid`, and reset the GPU when nobody uses it",
			g.Index, g.PCIBusID, uncorrected)
	}
	p.checkFabric(g, b)
	if g.Health == snapshot.HealthOK && (fan == "err!" || fan == "unknown error") {
		p.problem(&g.Index, "gpu:fan", "the fan of GPU %d (%s) cannot be read (%s): check that it turns",
			g.Index, g.PCIBusID, trimBrackets(b.leaves["fan_speed"]))
	}
}

// checkFabric reports a GPU whose NVLink fabric is not up. Programs on several GPUs, and
// on such machines all of CUDA, block or fail then.
func (p *parser) checkFabric(g *snapshot.GPU, b *gpuElement) {
	f := g.Fabric
	if f == nil || g.Health != snapshot.HealthOK {
		return
	}
	var wrong []string
	if !strings.EqualFold(f.State, "Completed") {
		wrong = append(wrong, "its state is "+f.State)
	}
	if f.Status != "" && !strings.EqualFold(f.Status, "Success") {
		wrong = append(wrong, "its status is "+f.Status)
	}
	if s := b.leaves["fabric/health/summary"]; !isAbsent(s) && !strings.EqualFold(s, "Healthy") {
		wrong = append(wrong, "its health is "+s)
	}
	if len(wrong) > 0 {
		p.problem(&g.Index, "gpu:fabric",
			"the NVLink fabric of GPU %d (%s) is not up: %s; see `systemctl status nvidia-fabricmanager`",
			g.Index, g.PCIBusID, strings.Join(wrong, ", "))
	}
}

// memoryErrors returns the number of uncorrectable memory errors since the last reset,
// and what the next reset is needed for, "" for nothing.
func memoryErrors(g *snapshot.GPU, b *gpuElement) (uncorrected int64, pending string) {
	if e := g.ECC; e != nil && e.UncorrectedVolatile != nil {
		uncorrected = *e.UncorrectedVolatile
	} else if r := g.RemappedRows; r != nil && r.Uncorrectable != nil && b.yes("remapped_rows/remapped_row_pending") {
		uncorrected = int64(*r.Uncorrectable) // pending errors are later than the last reset
	}
	switch {
	case b.yes("remapped_rows/remapped_row_pending"):
		pending = "a row is remapped at the next reset"
	case b.yes("retired_pages/pending_retirement") || b.yes("retired_pages/pending_blacklist"):
		pending = "a page is retired at the next reset"
	case b.yes("ecc_errors/channel_repair_pending") || b.yes("ecc_errors/tpc_repair_pending"):
		pending = "a repair waits for the next reset"
	}
	return uncorrected, pending
}

// markLost marks a GPU as lost and removes its readings, which are old then.
func markLost(g *snapshot.GPU, reason string) {
	g.Health, g.HealthReason = snapshot.HealthLost, words(reason)
	clearReadings(g)
	g.ProcessesUnknown = g.HealthReason
}

// words returns the driver's words, or "unknown" where they do not look like those of a driver.
func words(s string) string {
	return cmp.Or(snapshot.Shaped("reason", snapshot.Text(s, snapshot.MaxNameBytes-len("…"))), "unknown")
}

// clearReadings removes the live readings.
func clearReadings(g *snapshot.GPU) {
	g.ClearLive()
	g.MemoryUsed, g.MemoryFree = nil, nil
	g.PState, g.ThrottleReasons = "", nil
}

// recoveryAction matches what nvidia-smi and NVML call the actions after which a GPU can
// be used again: Reset, GPU Reset, NODE_REBOOT, Drain P2P, Drain and Reset.
var recoveryAction = snapshot.Pattern(
	`(?i)^(?:drain[ _](?:p2p[ _])?and[ _])?(?:(?:gpu|bus|node|system)[ _])*(?:reset|reboot)(?:[ _]bus)?(?:[ _]required)?$|^drain[ _]p2p$`)

var (
	// Matches "GPU 3: ..." and "GPU3 has fallen off the bus", but not a PCI address.
	gpuNumber = snapshot.Pattern(`(?i)\bGPU ?(\d{1,2})(?:$|: |[^\d:.])`)
	gone      = snapshot.Pattern(`(?i)fallen off the bus|\bis lost\b|device handle|unknown error|reboot`)
)

// End applies the exit status of nvidia-smi. Status 15 means that a GPU has fallen off
// the bus: the one that the text beside the XML names, or, without a name, any of them.
// Other statuses are problems, see [Explain].
func (r *Reading) End(exit int) {
	switch exit {
	case 0, 8, 10, 14, 15: // power cables, an interrupt, an infoROM, one that fell off the bus
	case 6:
		r.Complete = r.Complete && len(r.GPUs) == 0
	default:
		r.Complete = false
	}
	if exit != 15 {
		return
	}
	for line := range strings.Lines(r.Notes) {
		if g := gpuNamedIn(line, r.GPUs); g != nil && g.Health != snapshot.HealthLost {
			markLost(g, strings.TrimSpace(line))
		}
	}
	if slices.ContainsFunc(r.GPUs, func(g snapshot.GPU) bool { return g.Health == snapshot.HealthLost }) {
		return
	}
	r.Complete = false
	for i := range r.GPUs {
		if g := &r.GPUs[i]; g.Health == snapshot.HealthOK {
			g.Health, g.HealthReason = snapshot.HealthUnknown, "a GPU has fallen off the bus, and nvidia-smi does not say which"
		}
	}
}

// gpuNamedIn returns the GPU that a line of text reports as gone, by bus address, UUID
// or number; nil for none.
func gpuNamedIn(line string, gpus []snapshot.GPU) *snapshot.GPU {
	if !gone().MatchString(line) {
		return nil
	}
	line = strings.TrimSpace(line)
	id := snapshot.BusID(busAddress().FindString(line))
	number := gpuNumber().FindStringSubmatch(line)
	for i := range gpus {
		g := &gpus[i]
		switch {
		case id != "" && snapshot.BusID(g.PCIBusID) == id, g.UUID != "" && strings.Contains(line, g.UUID):
			return g
		case id == "" && number != nil && number[1] == strconv.Itoa(g.Index):
			return g
		}
	}
	return nil
}
