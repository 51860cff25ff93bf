package amdsmi

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpuboard/internal/snapshot"
)

// Present reports whether the driver is loaded. It costs a node without AMD's GPUs one or two stats.
func Present(sys fs.FS) bool {
	for _, name := range []string{"module/amdgpu", "class/kfd"} {
		if _, err := fs.Stat(sys, name); err == nil {
			return true
		}
	}
	return false
}

// A Kernel is what the driver's files tell, which anybody may read.
type Kernel struct {
	cards []*card
	// whole is true when the list of cards is that of the driver.
	whole  bool
	driver string
	// processes are those of KFD: all that compute if allProcesses is true.
	processes    map[int]held
	allProcesses bool
	// clients are what processes hold of each card by /proc/PID/fdinfo, in MiB, by the card's address. Those of
	// other accounts can be read by root alone: then unseen is true.
	clients map[int]map[string]int64
	unseen  bool
}

// A card is one GPU, by a tool or by /sys/class/drm.
type card struct {
	number     int
	bus        string // as snapshot.BusID has it; "" if it is not told
	uuid       string
	fields     fields
	integrated bool
	nodes      []node // of KFD: one, or one a partition
	// told is how many GPUs or partitions a tool tells of it, with these processes.
	told   int
	claims []claim
}

// A node is a GPU, or a partition of one, as KFD's topology has it.
type node struct {
	gpuID string
	bank  int64 // MiB; 0 if it is not known
}

// read returns the text of a file of the kernel; "" if it cannot be read.
func read(fsys fs.FS, name string) string {
	b, _ := fs.ReadFile(fsys, name)
	return string(bytes.TrimSpace(b))
}

// ReadKernel reads the cards and their processes below /sys and /proc, if there is a card other than the graphics of a
// processor, or those are asked for. It may block where the driver hangs.
func ReadKernel(sys, proc fs.FS, integrated bool) Kernel {
	k := Kernel{driver: snapshot.Shaped("version", read(sys, "module/amdgpu/version"))}
	entries, err := fs.ReadDir(sys, "class/drm")
	k.whole = err == nil
	for _, e := range entries {
		if !cardKey().MatchString(e.Name()) || len(k.cards) >= snapshot.MaxGPUs {
			continue
		}
		dir := path.Join("class/drm", e.Name(), "device")
		event := read(sys, dir+"/uevent")
		if property(event, "DRIVER=") == "amdgpu" {
			k.cards = append(k.cards, readCard(sys, dir, event))
		} else if event == "" && read(sys, dir+"/vendor") == "0x1002" {
			k.whole = false
		}
	}
	slices.SortFunc(k.cards, func(a, b *card) int { return strings.Compare(a.bus, b.bus) })
	if len(k.Keys(integrated)) > 0 {
		k.readNodes(sys)
		k.readProcesses(sys)
		k.readClients(proc)
	}
	return k
}

// property returns the rest of the line that begins with a name.
func property(lines, name string) string {
	for line := range strings.Lines(lines) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// readCard reads the directory of a card's device.
func readCard(sys fs.FS, dir, event string) *card {
	c := &card{fields: fields{}, bus: address(property(event, "PCI_SLOT_NAME="))}
	c.fields.add("pci id", property(event, "PCI_ID="))
	for _, name := range []string{"gpu_busy_percent", "mem_busy_percent", "current_link_width", "max_link_width",
		"product_name",
		"unique_id", "current_compute_partition", "current_memory_partition"} {
		c.fields.add(name, read(sys, path.Join(dir, name)))
	}
	for _, name := range []string{"mem_info_vram_total", "mem_info_vram_used"} {
		c.fields.add(name, strings.TrimSpace(read(sys, path.Join(dir, name))+" B"))
	}
	for _, name := range []string{"pp_dpm_sclk", "pp_dpm_mclk"} { // "1: 800Mhz *" is the level now
		for line := range strings.Lines(read(sys, path.Join(dir, name))) {
			if level, now := strings.CutSuffix(strings.TrimSpace(line), "*"); now {
				_, clock, _ := strings.Cut(level, ":")
				c.fields.add(name, strings.TrimSpace(clock))
			}
		}
	}
	c.readSensors(sys, dir)
	c.uuid = uuid(c.fields["unique_id"])
	c.integrated = c.integrated || smallMemory(c.fields)
	return c
}

// smallMemory reports whether the memory is the part that a computer's firmware sets aside for the graphics of its
// processor. No card has so little.
func smallMemory(f fields) bool {
	total := f.number(0, maxMemory, false, memoryTotal()...)
	return total != nil && *total < 1024
}

// readSensors reads hwmon: thousandths of degrees, millionths of watts.
func (c *card) readSensors(sys fs.FS, dir string) {
	dirs, _ := fs.Glob(sys, dir+"/hwmon/hwmon*")
	for _, dir := range dirs[:min(len(dirs), 4)] {
		file := func(name string) string { return read(sys, path.Join(dir, name)) }
		for _, name := range []string{"power1_average", "power1_input", "power1_cap"} {
			c.fields.add("hwmon/"+name, strings.TrimSpace(file(name)+" uW"))
		}
		for i := 1; i <= 3; i++ {
			sensor := fmt.Sprintf("temp%d_", i)
			c.fields.add("hwmon/temp "+file(sensor+"label"), strings.TrimSpace(file(sensor+"input")+" mC"))
		}
		if pwm, err := strconv.Atoi(file("pwm1")); err == nil && file("fan1_input") != "" {
			c.fields.add("hwmon/pwm1", strconv.Itoa(pwm*100/255))
		}
		// The driver has this voltage for the graphics of processors alone.
		c.integrated = c.integrated || file("in1_label") == "vddnb"
	}
}

// readNodes finds the nodes of KFD's topology that belong to the cards. A partitioned card has several.
func (k *Kernel) readNodes(sys fs.FS) {
	const dir = "class/kfd/kfd/topology/nodes"
	entries, _ := fs.ReadDir(sys, dir)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return nodeNumber(a) - nodeNumber(b) })
	for _, e := range entries[:min(len(entries), 1024)] {
		id := read(sys, path.Join(dir, e.Name(), "gpu_id"))
		if n, err := strconv.ParseUint(id, 10, 32); err != nil || n == 0 {
			continue // a processor, or one that this account's cgroup hides
		}
		text := read(sys, path.Join(dir, e.Name(), "properties"))
		location, _ := strconv.ParseUint(property(text, "location_id "), 10, 32)
		domain, _ := strconv.ParseUint(property(text, "domain "), 10, 32)
		// Bus and device. The function, and the highest bits, are the partition.
		slot := slotOf(snapshot.BusID(fmt.Sprintf("%04x:%02x:%02x.0", domain, location>>8&0xff, location>>3&0x1f)))
		bank, _ := strconv.ParseInt(
			property(read(sys, path.Join(dir, e.Name(), "mem_banks/0/properties")), "size_in_bytes "), 10, 64)
		for _, c := range k.cards {
			if slotOf(c.bus) == slot && len(c.nodes) < snapshot.MaxMIGDevices {
				c.nodes = append(c.nodes, node{gpuID: id, bank: min(max(0, bank)>>20, maxMemory)})
			}
		}
	}
}

func nodeNumber(e fs.DirEntry) int { n, _ := strconv.Atoi(e.Name()); return n }

// slotOf returns an address without its function.
func slotOf(bus string) string { slot, _, _ := strings.Cut(bus, "."); return slot }
