// Package amdsmi reads AMD's GPUs: the output of amd-smi or rocm-smi, and the driver's own files below /sys and
// /proc, with which it is compared. It is pure; package collector runs the programs.
//
// An empty list of processes proves nothing: without permission, and before ROCm 6.2, the tools list none, or one under
// every GPU. KFD, the driver's part for computing, lists those of every account, so it decides who uses a GPU. Where
// it cannot be read, or a tool lists a process that the kernel does not know, processes are unknown.
package amdsmi

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"gpuboard/internal/snapshot"
)

// MaxOutputBytes limits the output that is parsed.
const MaxOutputBytes = 16 << 20

// A Reading is what is known of the GPUs.
type Reading struct {
	// Complete is true when GPUs are all that the driver has.
	Complete  bool
	GPUs      []snapshot.GPU
	Processes []snapshot.Process
	Tool      snapshot.Tool
	// Integrated is true when graphics of a processor were left out.
	Integrated bool
}

// Options say how to read.
type Options struct {
	// First is the index of the first GPU.
	First int
	// Integrated is true to list the graphics of processors, too.
	Integrated bool
	// Failed says why a tool did not answer in a way after which its processes count as unknown; "" otherwise.
	Failed string
	// Unseen is true where files of processes may be missing, as of another machine: memory that no process explains
	// is then in use.
	Unseen bool
}

// Keys lists the addresses of the cards that are not integrated, or all if asked.
func (k *Kernel) Keys(integrated bool) (list []string) {
	for _, c := range k.cards {
		if integrated || !c.integrated {
			list = append(list, c.bus)
		}
	}
	return list
}

// Read puts together what the driver's files and a tool tell.
func Read(k *Kernel, a *Answer, opts Options) Reading {
	cards, strangers := match(k, a)
	r := Reading{Complete: k.whole && strangers == 0 && opts.Failed == "" && len(k.cards) > 0, Tool: a.Tool}
	k.unseen = k.unseen || opts.Unseen
	r.Tool.Driver = cmp.Or(r.Tool.Driver, k.driver)
	if !a.Said {
		r.Tool.Vendor, r.Tool.Name = snapshot.AMD, "sysfs"
	}
	for _, c := range cards {
		g := c.gpu()
		r.Tool.Driver = cmp.Or(r.Tool.Driver,
			snapshot.Shaped("version", c.fields.first("driver/version", "driver/driver_version")))
		if c.isIntegrated(g.Name) {
			if !opts.Integrated {
				r.Integrated = true
				continue
			}
			g.MemoryShared, g.MemoryTotal, g.MemoryUsed, g.MemoryFree = true, nil, nil, nil
		}
		if len(r.GPUs) >= snapshot.MaxGPUs {
			r.Complete = false
			break
		}
		g.Index = opts.First + len(r.GPUs)
		processes, why := c.processes(k, a, &g)
		g.ProcessesUnknown = cmp.Or(opts.Failed, why)
		for _, p := range processes {
			p.GPU, p.GPUUUID = g.Index, g.UUID
			r.Processes = append(r.Processes, p)
		}
		r.GPUs = append(r.GPUs, g)
	}
	return r
}

// match finds the cards of the driver in what a tool tells: by address, by UUID, and where it tells neither, in the
// order of addresses, which is that of the tools, if there are as many. Without the driver's files, the tool alone
// tells of cards. strangers are how many of the tool's are not among the driver's.
func match(k *Kernel, a *Answer) (cards []*card, strangers int) {
	for _, c := range k.cards {
		cards = append(cards, new(*c))
	}
	var nameless []*card
	for _, t := range a.cards {
		i := slices.IndexFunc(cards, func(c *card) bool {
			return t.bus != "" && slotOf(c.bus) == slotOf(t.bus) || t.bus == "" && t.uuid != "" && t.uuid == c.uuid
		})
		switch {
		case i >= 0:
			cards[i].absorb(t)
		case len(k.cards) == 0:
			c := &card{bus: t.bus}
			c.absorb(t)
			cards = append(cards, c)
		case t.bus == "":
			nameless = append(nameless, t)
		default:
			strangers++
		}
	}
	var untold []*card
	for _, c := range cards {
		if c.told == 0 {
			untold = append(untold, c)
		}
	}
	for i, t := range nameless {
		if len(untold) == len(nameless) {
			untold[i].absorb(t)
		} else {
			strangers++
		}
	}
	slices.SortStableFunc(cards, func(a, b *card) int { return strings.Compare(a.bus, b.bus) })
	return cards, strangers
}

// absorb adds what a tool tells. Its texts go before those of the driver's files. The first GPU that it tells of is the
// card, or the first partition, which has the card's numbers; others are further partitions, which repeat them.
func (c *card) absorb(t *card) {
	c.claims = append(c.claims, t.claims...)
	c.told++
	if c.told > 1 {
		return
	}
	all := maps.Clone(t.fields)
	for path, s := range c.fields {
		all.add(path, s)
	}
	c.fields, c.uuid = all, cmp.Or(c.uuid, t.uuid)
}

func memoryTotal() []string {
	return []string{"mem_usage/total_vram", "VRAM Total Memory (B)", "mem_info_vram_total", "vram/size",
		"vram/vram_size_mb"}
}

// gpu returns the card without its processes.
func (c *card) gpu() snapshot.GPU {
	g := snapshot.GPU{Vendor: snapshot.AMD, UUID: c.uuid, PCIBusID: c.bus, Name: c.name(), Health: snapshot.HealthOK}
	for _, d := range snapshot.Descriptors() {
		heat := d.Unit == "celsius" || d.Unit == "watt"
		if v := c.fields.number(d.Low, d.High, !heat, d.AMD...); v != nil {
			d.Set(&g.Readings, *v)
		}
	}
	if total := c.fields.number(1, maxMemory, false, memoryTotal()...); total != nil {
		g.MemoryTotal = new(int64(*total))
		used := c.fields.number(0, *total, true, "mem_usage/used_vram", "VRAM Total Used Memory (B)",
			"mem_info_vram_used")
		if used != nil {
			g.MemoryUsed, g.MemoryFree = new(int64(*used)), new(int64(*total)-int64(*used))
		}
	}
	if g.Temperature == nil && g.MemoryUsed == nil && g.UtilizationGPU == nil {
		g.Health, g.HealthReason = snapshot.HealthUnknown, "none of its readings can be read"
	}
	c.partitions(&g)
	return g
}

// partitions lists the partitions of the card, whose numbers a tool repeats from the card: what each has is known
// from KFD alone.
func (c *card) partitions(g *snapshot.GPU) {
	n := max(c.told, len(c.nodes))
	if n < 2 {
		return
	}
	compute := c.fields.first("partition/accelerator_partition", "partition/compute_partition",
		"current_compute_partition")
	memory := c.fields.first("partition/memory_partition", "current_memory_partition")
	profile := cmp.Or(snapshot.Shaped("profile", strings.TrimSpace(compute+" "+memory)), snapshot.Shaped("profile", compute))
	g.MIGMode = "enabled"
	for i := range min(n, snapshot.MaxMIGDevices) {
		d := snapshot.MIGDevice{Index: i, GPUInstanceID: new(i), Profile: profile}
		if i < len(c.nodes) && c.nodes[i].bank > 0 {
			d.MemoryTotal = new(c.nodes[i].bank)
		}
		g.MIGDevices = append(g.MIGDevices, d)
	}
}

// name returns the name for buyers: "Radeon RX 7800 XT" of "Navi 32 [Radeon RX 7800 XT]".
func (c *card) name() string {
	for _, path := range []string{"asic/market_name", "board/product_name", "Card Series", "Card series", "Device Name",
		"product_name"} {
		s := c.fields[path]
		if _, inner, ok := strings.Cut(s, "["); ok {
			s, _, _ = strings.Cut(inner, "]")
		}
		if s = strings.TrimSpace(s); snapshot.Fits("name", s) && !strings.HasPrefix(s, "0x") {
			return s
		}
	}
	if _, device, ok := strings.Cut(c.fields["pci id"], ":"); ok {
		return snapshot.Shaped("name", "AMD GPU "+device)
	}
	return ""
}

// ofProcessor matches names of the graphics of processors.
var ofProcessor = snapshot.Pattern(
	`(?i)\b(Raphael|Rembrandt|Phoenix|Renoir|Cezanne|Picasso|Raven|Lucienne|Barcelo|Mendocino|` +
		`Granite Ridge|Strix|Hawk Point|Krackan|Radeon (Vega )?Graphics|[6789][0-9]0M|80[456]0S)\b`)

// isIntegrated reports whether this is the graphics of a processor, which shares the node's memory.
func (c *card) isIntegrated(name string) bool {
	kind := c.fields["vram/type"]
	return c.integrated || smallMemory(c.fields) || strings.HasPrefix(kind, "DDR") ||
		strings.HasPrefix(kind, "LPDDR") ||
		ofProcessor().MatchString(name)
}

// processes lists who uses the card, and says why that may not be all.
func (c *card) processes(k *Kernel, a *Answer, g *snapshot.GPU) (list []snapshot.Process, why string) {
	names := map[int]string{}
	for _, claimed := range slices.Concat(a.anywhere, c.claims) {
		names[claimed.pid] = cmp.Or(names[claimed.pid], claimed.name)
		if k.processes[claimed.pid] == nil && k.clients[claimed.pid] == nil {
			why = a.Tool.Name + " lists a process that the kernel does not"
		}
	}
	switch {
	case !k.allProcesses:
		why = "the list of KFD cannot be read"
	case len(c.nodes) == 0:
		why = "KFD does not tell of this GPU"
	case len(g.MIGDevices) > len(c.nodes):
		why = "KFD does not tell of all its partitions"
	}
	pids := slices.Sorted(maps.Keys(k.processes))
	for i, n := range c.nodes {
		sum := int64(0)
		for _, pid := range pids {
			x := k.processes[pid][n.gpuID]
			if x.memory == 0 && !x.queue {
				if x.doubt {
					why = cmp.Or(why, "what a process holds cannot be read")
				}
				continue
			}
			p := snapshot.Process{PID: pid, Type: snapshot.Compute, Program: names[pid]}
			if x.memory > 0 { // a chip with the memory of its processor always says 0
				p.UsedMemory = new(x.memory >> 20)
			}
			if len(g.MIGDevices) > 0 {
				p.GPUInstanceID = new(i)
			}
			sum += x.memory >> 20
			list = append(list, p)
		}
		if i < len(g.MIGDevices) && k.allProcesses && g.MIGDevices[i].MemoryTotal != nil {
			g.MIGDevices[i].MemoryUsed = new(min(sum, *g.MIGDevices[i].MemoryTotal))
		}
	}
	for _, pid := range slices.Sorted(maps.Keys(k.clients)) {
		if memory, ok := k.clients[pid][c.bus]; ok && k.processes[pid] == nil {
			list = append(list,
				snapshot.Process{PID: pid, Type: snapshot.Graphics, Program: names[pid], UsedMemory: &memory})
		}
	}
	if !k.allProcesses {
		list = append(list, c.claimed(k, a)...)
	}
	if why == "" && k.unseen && unexplained(g, list) {
		why = "more memory is in use than its processes hold"
	}
	return list, why
}

// claimed are the processes by the tool alone, where the kernel's list cannot be read: those that hold memory here and
// that it does not list under another card, too.
func (c *card) claimed(k *Kernel, a *Answer) (list []snapshot.Process) {
	for _, x := range c.claims {
		known := k.processes[x.pid] != nil || k.clients[x.pid] != nil
		if !known && x.memory != nil && a.times[x.pid] == 1 {
			list = append(list,
				snapshot.Process{PID: x.pid, Type: snapshot.Compute, Program: x.name,
					UsedMemory: new(int64(*x.memory))})
		}
	}
	return list
}

// unexplained reports whether much more memory is in use than processes hold, as where those of other accounts that
// do not compute cannot be seen. What a card without any holds differs by model: 280 MiB are common.
func unexplained(g *snapshot.GPU, list []snapshot.Process) bool {
	if g.MemoryUsed == nil || g.MemoryTotal == nil {
		return false
	}
	left := *g.MemoryUsed
	for _, p := range list {
		if p.UsedMemory != nil {
			left -= *p.UsedMemory
		}
	}
	return left > max(500, *g.MemoryTotal/50)
}
