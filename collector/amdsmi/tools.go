package amdsmi

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"gpuboard/collector/ps"
	"gpuboard/internal/snapshot"
)

// An Answer is what a tool tells.
type Answer struct {
	// Tool names the program and its version.
	Tool snapshot.Tool
	// Said is true when it has told of GPUs.
	Said bool
	// Notes are the beginnings of what it wrote, for [Explain].
	Notes string
	cards []*card // GPUs and partitions in the order of the tool's numbers
	// anywhere are processes of which rocm-smi does not tell the GPU.
	anywhere []claim
	times    map[int]int // under how many cards a process is listed
}

// A claim is a process that a tool lists.
type claim struct {
	pid    int
	name   string
	memory *float64 // MiB; nil if it is not told or is 0, which some cards always read
}

const (
	maxPID       = 1 << 30
	maxMemory    = 1 << 24 // MiB
	maxProcesses = 4096    // of a node
	maxNotes     = 4 << 10
)

// StaticArgs, MetricArgs, ProcessArgs and VersionArgs make amd-smi write what [ParseSMI] reads. What the first and
// the last write stays the same while the cards do.
func StaticArgs() []string  { return []string{"static", "--json"} }
func MetricArgs() []string  { return []string{"metric", "--json"} }
func ProcessArgs() []string { return []string{"process", "--json"} }
func VersionArgs() []string { return []string{"version", "--json"} }

// ParseSMI parses the outputs of amd-smi from ROCm 6.0 on. A GPU is told in several documents, by its number.
func ParseSMI(version, static, metric, process []byte) Answer {
	a := Answer{Tool: snapshot.Tool{Vendor: snapshot.AMD, Name: "amd-smi"}}
	for _, out := range [][]byte{static, metric, process} {
		for _, document := range documents(out) {
			objects(document, "gpu", 0, func(record map[string]any) { a.card(text(record["gpu"])).take(record) })
		}
		a.Notes += string(out[:min(len(out), maxNotes)])
	}
	for _, document := range documents(version) {
		objects(document, "version", 0,
			func(record map[string]any) { a.Tool.Version = snapshot.Shaped("version", text(record["version"])) })
	}
	a.finish()
	return a
}

// card returns the card with a number, a new one for one that is new.
func (a *Answer) card(number string) *card {
	for _, c := range a.cards {
		if c.fields["number"] == number {
			return c
		}
	}
	c := &card{fields: fields{"number": number}}
	if n, err := strconv.Atoi(number); err == nil && n >= 0 && len(a.cards) < 4*snapshot.MaxGPUs {
		c.number = n
		a.cards = append(a.cards, c)
	}
	return c
}

// finish sorts the cards and finds their addresses and UUIDs.
func (a *Answer) finish() {
	a.Said, a.times = len(a.cards) > 0, map[int]int{}
	slices.SortStableFunc(a.cards, func(x, y *card) int { return x.number - y.number })
	for _, c := range a.cards {
		c.bus = address(c.fields.first("bus/bdf", "PCI Bus"))
		c.uuid = uuid(c.fields.first("asic/asic_serial", "Unique ID"))
		for _, x := range c.claims {
			a.times[x.pid]++
		}
	}
}

// take adds a record of amd-smi. The list of processes is in process_list, and before ROCm 6.1 in values.
func (c *card) take(record map[string]any) {
	for _, key := range []string{"process_list", "values"} {
		objects(record[key], "pid", 0, func(process map[string]any) {
			f := fields{}
			f.flatten("", process, 0)
			c.claims = claims(c.claims, f["pid"], f["name"], f.first("memory_usage/vram_mem", "vram_mem", "mem_usage"))
		})
		delete(record, key)
	}
	c.fields.flatten("", record, 0)
}

// claims adds a process to a list. Memory without a unit is in bytes.
func claims(list []claim, pid, name, memory string) []claim {
	n, err := strconv.Atoi(pid)
	if err != nil || n < 1 || n > maxPID || len(list) >= maxProcesses {
		return list
	}
	if _, err := strconv.ParseUint(memory, 10, 64); err == nil {
		memory += " B"
	}
	return append(list, claim{pid: n, name: ps.BaseName(name), memory: fields{"": memory}.number(0, maxMemory, false, "")})
}

// uuid returns what ROCR_VISIBLE_DEVICES takes: GPU- and the 16 hexadecimal digits of the chip's unique id.
func uuid(id string) string {
	n, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(id), "0x"), 16, 64)
	if err != nil || n == 0 || n == math.MaxUint64 {
		return ""
	}
	hex := strconv.FormatUint(n, 16)
	return "GPU-" + strings.Repeat("0", 16-len(hex)) + hex
}

// address returns a PCI address with its domain in one spelling, and "" for what is none.
func address(s string) string {
	if strings.Count(s, ":") == 1 {
		s = "0000:" + s
	}
	return snapshot.BusID(snapshot.Shaped("pci_bus_id", s))
}

// ROCmArgs make rocm-smi write what [ParseROCm] reads.
func ROCmArgs() []string {
	return []string{"--json", "--showid", "--showuniqueid", "--showbus", "--showproductname", "--showtemp", "--showuse",
		"--showmemuse", "--showpower", "--showmaxpower", "--showclocks", "--showfan", "--showmeminfo", "vram",
		"--showdriverversion", "--showpids"}
}

var cardKey = snapshot.Pattern(`^card[0-9]{1,3}$`)

// ParseROCm parses the output of rocm-smi --json: an object of cards, and system beside them. Errors stand in the
// same output.
func ParseROCm(out []byte) Answer {
	a := Answer{Tool: snapshot.Tool{Vendor: snapshot.AMD, Name: "rocm-smi"},
		Notes: string(out[:min(len(out), maxNotes)])}
	for _, document := range documents(out) {
		cards, _ := document.(map[string]any)
		for key, v := range cards {
			record, _ := v.(map[string]any)
			if key == "system" {
				a.system(record)
			} else if cardKey().MatchString(key) {
				c := a.card(strings.TrimPrefix(key, "card"))
				for name, value := range record {
					unit := ""
					if strings.HasSuffix(name, "(B)") {
						unit = " B"
					}
					c.fields.add(name, text(value)+unit)
				}
			}
		}
	}
	a.finish()
	return a
}

// system reads the driver's version and the processes: "PID4001": "python, 1, 177386942464, 0, 4", of which the
// second is how many GPUs it is on.
func (a *Answer) system(record map[string]any) {
	for key, v := range record {
		digits, isPID := strings.CutPrefix(key, "PID")
		switch cells := strings.Split(text(v)+",,", ","); {
		case key == "Driver version":
			a.Tool.Driver = snapshot.Shaped("version", text(v))
		case isPID:
			a.anywhere = claims(a.anywhere, digits, cells[0], strings.TrimSpace(cells[2]))
		}
	}
}
