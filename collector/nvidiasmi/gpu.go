package nvidiasmi

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"gpuboard/internal/snapshot"
)

// Limits of values, narrower than those of package snapshot. A value outside them is shown
// as unknown, and reported.
const (
	maxMemory = 1 << 24 // MiB: 16 TiB
	maxCount  = 1 << 50
	maxPages  = 1 << 19
	maxPID    = 1 << 30
)

// measure parses the number in one leaf. ok is false when there is no value; an unknown
// or impossible one is reported.
func (p *parser) measure(gpu int, path, text string, low, high float64) (v float64, ok bool) {
	v, unit, kind := parseNumber(text)
	if kind == number && strings.Contains(path, "memory_usage") || kind == number &&
		strings.Contains(path, "used_memory") {
		if v, ok = mebibytes(v, unit); !ok {
			kind = unknown
		}
	}
	switch {
	case kind == absent:
		return 0, false
	case kind == unknown:
		p.unknownToken(gpu, path, text)
		return 0, false
	case kind == outside || v < low || v > high:
		p.problemOnce(gpu, "range "+path, "smi:range",
			"nvidia-smi says %q for %s, which is impossible; shown as unknown", snapshot.Text(text, 64), path)
		return 0, false
	}
	return v, true
}

// unknownToken reports a text that is no value and no known word for none.
func (p *parser) unknownToken(gpu int, path, text string) {
	token := snapshot.Text(text, 64)
	p.problemOnce(gpu, "token "+path+" "+token, "smi:unknown-token",
		"nvidia-smi says %q for %s; shown as unknown", token, path)
}

// reading returns the number in one leaf, rounded; nil for none.
func reading[T int | int64](p *parser, gpu int, path, text string, low, high float64) *T {
	if v, ok := p.measure(gpu, path, text, low, high); ok {
		return new(T(math.Round(v)))
	}
	return nil
}

// readings reads what is one number each.
func (p *parser) readings(g *snapshot.GPU, b *gpuElement) {
	for _, d := range snapshot.Descriptors() {
		for _, path := range d.Elements {
			if value, ok := p.measure(g.Index, path, b.leaves[path], d.Low, d.High); ok {
				d.Set(&g.Readings, value)
				break
			}
		}
	}
}

// integrated matches the names of GPUs without memory of their own. The missing memory
// reading alone does not tell them apart from a GPU with an error. GH200 and GB200 have
// memory of their own.
var integrated = snapshot.Pattern(`(?i)\b(GB10|Orin|Thor|Xavier|Jetson|Tegra)\b|\(nvgpu\)`)

// word returns a text of this shape, and "" for any other.
func (p *parser) word(gpu int, shape, path, s string) string {
	switch {
	case isAbsent(s):
		return ""
	case !snapshot.Fits(shape, s):
		p.unknownToken(gpu, path, s)
		return ""
	}
	return s
}

// gpu converts an element to a GPU.
func (p *parser) gpu(index int, b *gpuElement) snapshot.GPU {
	text := func(shape, path string) string { return p.word(index, shape, path, b.leaves[path]) }
	g := snapshot.GPU{
		Index: index, UUID: text("uuid", "uuid"), PCIBusID: text("pci_bus_id", "pci/pci_bus_id"),
		Name:            text("name", "product_name"),
		ThrottleReasons: p.throttle(index, b),
		MIGMode:         p.mode(index, "mig_mode/current_mig", b),
		Health:          snapshot.HealthOK,
	}
	if g.PCIBusID == "" {
		g.PCIBusID = p.word(index, "pci_bus_id", "id", b.id)
	}
	p.readings(&g, b)
	g.MemoryTotal, g.MemoryUsed, g.MemoryFree = p.memory(index, "", b.leaves)
	g.MemoryShared = integrated().MatchString(g.Name)
	p.pstate(&g, b)
	g.ECC = p.ecc(index, b)
	g.RetiredPages = sum[int](p, index, b, maxPages, "retired_pages/multiple_single_bit_retirement/retired_count",
		"retired_pages/double_bit_retirement/retired_count")
	g.RemappedRows = p.remapped(index, b)
	g.Fabric = p.fabric(index, b)
	p.health(&g, b)
	p.migDevices(&g, b)
	return g
}

// fabric returns the place of the GPU in the NVLink fabric; nil in machines without one.
func (p *parser) fabric(gpu int, b *gpuElement) *snapshot.Fabric {
	text := func(shape, name string) string { return p.word(gpu, shape, "fabric/"+name, b.leaves["fabric/"+name]) }
	f := snapshot.Fabric{State: text("fabric", "state"), Status: text("fabric", "status"),
		CliqueID: instance(b.leaves["fabric/cliqueId"]), ClusterUUID: text("uuid", "clusterUuid")}
	if f.State == "" {
		return nil
	}
	if strings.Trim(f.ClusterUUID, "0-") == "" {
		f.ClusterUUID = ""
	}
	return &f
}

// memory reads the amounts of memory of a GPU or MIG device, in MiB. What cannot be is nil.
func (p *parser) memory(gpu int, of string, leaves map[string]string) (total, used, free *int64) {
	read := func(name string) *int64 {
		text := leaves["fb_memory_usage/"+name]
		if isAbsent(text) {
			text = leaves["shared_fb_memory_usage/"+name] // of MIG devices, since 610
		}
		return reading[int64](p, gpu, of+"fb_memory_usage/"+name, text, 0, maxMemory)
	}
	total, used, free = read("total"), read("used"), read("free")
	if total == nil {
		return total, used, free
	}
	if *total == 0 {
		p.problemOnce(gpu, "range memory total", "smi:range",
			"nvidia-smi says that a GPU has no memory; shown as not known")
		return nil, nil, nil
	}
	part := func(name string, of *int64) *int64 {
		if of == nil || *of <= *total {
			return of
		}
		p.problemOnce(gpu, "range memory "+name, "smi:range",
			"nvidia-smi says that %d MiB of memory are %s, of %d in all; shown as unknown", *of, name, *total)
		return nil
	}
	return total, part("used", used), part("free", free)
}

func (p *parser) pstate(g *snapshot.GPU, b *gpuElement) {
	for _, path := range []string{"performance_state", "gpu_power_readings/power_state", "power_readings/power_state"} {
		if g.PState = p.word(g.Index, "pstate", path, b.leaves[path]); g.PState != "" {
			return
		}
	}
}

func (p *parser) throttle(gpu int, b *gpuElement) []string {
	var active []string
	for _, reason := range b.throttle {
		reason = cmp.Or(p.word(gpu, "throttle reason", "clocks_event_reasons", reason), "unknown")
		if !slices.Contains(active, reason) {
			active = append(active, reason)
		}
	}
	return active
}

// mode returns "enabled", "disabled", or "" for none.
func (p *parser) mode(gpu int, path string, b *gpuElement) string {
	return p.word(gpu, "mig_mode", path, strings.ToLower(b.leaves[path]))
}

// sum adds the leaves that are numbers; nil if none is.
func sum[T int | int64](p *parser, gpu int, b *gpuElement, high float64, paths ...string) *T {
	var total *T
	for _, path := range paths {
		if n := reading[T](p, gpu, path, b.leaves[path], 0, high); n != nil {
			if total == nil {
				total = new(T)
			}
			*total += *n
		}
	}
	return total
}

// ecc reads the counters in either form: single_bit and double_bit for cards before
// Turing, sram and dram for later ones.
func (p *parser) ecc(gpu int, b *gpuElement) *snapshot.ECC {
	count := func(period, old string, since ...string) *int64 {
		period = "ecc_errors/" + period + "/"
		if n := sum[int64](p, gpu, b, maxCount, period+old+"/total"); n != nil {
			return n
		}
		var paths []string
		for _, name := range since {
			paths = append(paths, period+name)
		}
		return sum[int64](p, gpu, b, maxCount, paths...)
	}
	corrected := []string{"sram_correctable", "dram_correctable"}
	uncorrected := []string{"sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded",
		"dram_uncorrectable"}
	e := snapshot.ECC{
		Mode:                 p.mode(gpu, "ecc_mode/current_ecc", b),
		CorrectedVolatile:    count("volatile", "single_bit", corrected...),
		UncorrectedVolatile:  count("volatile", "double_bit", uncorrected...),
		CorrectedAggregate:   count("aggregate", "single_bit", corrected...),
		UncorrectedAggregate: count("aggregate", "double_bit", uncorrected...),
	}
	if e == (snapshot.ECC{}) {
		return nil
	}
	return &e
}

func (p *parser) remapped(gpu int, b *gpuElement) *snapshot.Remapped {
	yes := func(path string) *bool {
		if v := b.yes(path); v || strings.EqualFold(b.leaves[path], "No") {
			return &v
		}
		return nil
	}
	r := snapshot.Remapped{
		Correctable:   sum[int](p, gpu, b, maxPages, "remapped_rows/remapped_row_corr"),
		Uncorrectable: sum[int](p, gpu, b, maxPages, "remapped_rows/remapped_row_unc"),
		Pending:       yes("remapped_rows/remapped_row_pending"),
		Failure:       yes("remapped_rows/remapped_row_failure"),
	}
	if r == (snapshot.Remapped{}) {
		return nil
	}
	return &r
}

func (p *parser) migDevices(g *snapshot.GPU, b *gpuElement) {
	for i, m := range b.migs {
		if i >= snapshot.MaxMIGDevices {
			p.problemOnce(g.Index, "mig limit", "smi:limit", "+%d more MIG devices on GPU %d", len(b.migs)-i, g.Index)
			return
		}
		d := snapshot.MIGDevice{Index: i, GPUInstanceID: instance(m["gpu_instance_id"]),
			ComputeInstanceID: instance(m["compute_instance_id"])}
		d.MemoryTotal, d.MemoryUsed, _ = p.memory(g.Index, "mig_device/", m)
		if n := instance(m["index"]); n != nil {
			d.Index = *n
		}
		d.UUID = p.word(g.Index, "uuid", "mig_device/uuid", m["uuid"])
		g.MIGDevices = append(g.MIGDevices, d)
	}
}
