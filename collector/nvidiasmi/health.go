package nvidiasmi

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gpuboard/internal/snapshot"
)

// health decides what the driver thinks of the GPU. The words "Unknown Error"
// count where they stand for memory or temperature; elsewhere a laptop's power
// reading says as much while all is well.
func (p *parser) health(g *snapshot.GPU, b *block) {
	for _, path := range []string{"fb_memory_usage/total", "fb_memory_usage/used", "temperature/gpu_temp"} {
		if s := b.leaves[path]; b.fault == "" && strings.EqualFold(bare(s), "Unknown Error") {
			b.fault = bare(s)
		}
	}
	if b.fault == "" && b.yes("gpu_reset_status/reset_required") {
		b.fault = "GPU requires reset"
	}
	if b.fault == "" && b.yes("remapped_rows/remapped_row_failure") {
		b.fault = "row remapping failed"
	}
	uncorrected, pending := worn(g, b)
	if b.fault == "" && uncorrected > 0 && pending != "" {
		b.fault = fmt.Sprintf("%d uncorrectable memory errors, and %s", uncorrected, pending)
	}
	if action := b.leaves["gpu_recovery_action"]; b.fault == "" && !absence(action) {
		b.fault = "recovery action: " + action
	}
	fan := strings.ToLower(bare(b.leaves["fan_speed"]))
	switch {
	case b.lost != "" && !b.torn:
		lose(g, b.lost)
		p.problem("gpu:lost", fmt.Sprintf("the driver has lost GPU %d (%s): %s; the node may have to be rebooted", g.Index, g.PCIBusID, b.lost), &g.Index)
	case b.fault != "" && !b.torn:
		g.Health, g.HealthReason = snapshot.HealthError, snapshot.Text(b.fault, snapshot.MaxTextBytes)
		p.problem("gpu:error", fmt.Sprintf("the driver reports an error for GPU %d (%s): %s", g.Index, g.PCIBusID, b.fault), &g.Index)
	case b.torn:
		forget(g)
		g.Health, g.HealthReason = snapshot.HealthUnknown, "nvidia-smi's output is damaged where it tells of this GPU"
	case uncorrected > 0:
		p.problem("gpu:ecc", fmt.Sprintf("the memory of GPU %d (%s) has had %d uncorrectable errors since the last reset: see `dmesg | grep -i xid`, and reset the GPU when nobody uses it",
			g.Index, g.PCIBusID, uncorrected), &g.Index)
	}
	p.connected(g, b)
	if g.Health == snapshot.HealthOK && (fan == "err!" || fan == "unknown error") {
		p.problem("gpu:fan", fmt.Sprintf("the fan of GPU %d (%s) cannot be read (%s): look whether it turns", g.Index, g.PCIBusID, bare(b.leaves["fan_speed"])), &g.Index)
	}
}

// connected says where a GPU is in a fabric that is not up: programs that use
// several GPUs, and on such machines all of CUDA, wait for it or fail.
func (p *parser) connected(g *snapshot.GPU, b *block) {
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
	if s := b.leaves["fabric/health/summary"]; !absence(s) && !strings.EqualFold(s, "Healthy") {
		wrong = append(wrong, "its health is "+s)
	}
	if len(wrong) > 0 {
		p.problem("gpu:fabric", fmt.Sprintf("the NVLink fabric of GPU %d (%s) is not up: %s; see `systemctl status nvidia-fabricmanager`",
			g.Index, g.PCIBusID, strings.Join(wrong, ", ")), &g.Index)
	}
}

// worn tells how many errors the memory has had since the last reset that could
// not be corrected, and what the GPU waits for, "" for nothing.
func worn(g *snapshot.GPU, b *block) (uncorrected int64, pending string) {
	if e := g.ECC; e != nil && e.UncorrectedVolatile != nil {
		uncorrected = *e.UncorrectedVolatile
	} else if r := g.RemappedRows; r != nil && r.Uncorrectable != nil && b.yes("remapped_rows/remapped_row_pending") {
		uncorrected = int64(*r.Uncorrectable) // what is pending is of the time since the reset
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

// lose marks a GPU as lost. Beside "GPU is lost" stand numbers from before; they
// are not news.
func lose(g *snapshot.GPU, reason string) {
	g.Health, g.HealthReason = snapshot.HealthLost, snapshot.Text(reason, snapshot.MaxTextBytes)
	forget(g)
	g.ProcessesUnknown = snapshot.Text(reason, snapshot.MaxNameBytes)
}

// forget takes the live readings away.
func forget(g *snapshot.GPU) {
	g.UtilizationGPU, g.UtilizationMemory, g.Temperature, g.Fan, g.PCIeWidth = nil, nil, nil, nil, nil
	g.MemoryUsed, g.MemoryFree, g.PowerDraw, g.ClockSM, g.ClockMemory = nil, nil, nil, nil, nil
	g.PState, g.ThrottleReasons = "", nil
}

var (
	// "GPU 3: ...", "GPU3 has fallen off the bus"; never the start of an address.
	gpuNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)\bGPU ?(\d{1,2})(?:$|: |[^\d:.])`) })
	gone      = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)fallen off the bus|\bis lost\b|device handle|unknown error|reboot`)
	})
)

// End makes a reading of what nvidia-smi wrote and the exit status that it
// ended with. The status is about one GPU where all could be listed: 15 takes
// the one that is named in the text beside the XML, and without a name nobody
// knows which are well. Other statuses are problems, see [Explain].
func (r *Reading) End(exit int) {
	answered := exit == 0 || exit == 6 && len(r.GPUs) == 0
	switch exit {
	case 8, 10, 14, 15: // power cables, an interrupt, an infoROM, one that fell off the bus
		answered = true
	}
	r.Complete = r.Complete && answered
	if exit != 15 {
		return
	}
	for line := range strings.Lines(r.Notes) {
		if g := named(line, r.GPUs); g != nil && g.Health != snapshot.HealthLost {
			lose(g, strings.TrimSpace(line))
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

// named returns the GPU that a line of text names as gone: by its bus address,
// its UUID, or its number; nil for none.
func named(line string, gpus []snapshot.GPU) *snapshot.GPU {
	if !gone().MatchString(line) {
		return nil
	}
	line = strings.TrimSpace(line)
	id := normalBusID(busAddress().FindString(line))
	number := gpuNumber().FindStringSubmatch(line)
	for i := range gpus {
		g := &gpus[i]
		switch {
		case id != "" && normalBusID(g.PCIBusID) == id, g.UUID != "" && strings.Contains(line, g.UUID):
			return g
		case id == "" && number != nil && number[1] == strconv.Itoa(g.Index):
			return g
		}
	}
	return nil
}
