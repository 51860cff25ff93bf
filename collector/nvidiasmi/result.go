package nvidiasmi

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpuboard/collector/ps"
	"gpuboard/internal/snapshot"
)

// A handle is a GPU that nvidia-smi names only in an error about its device handle.
type handle struct {
	index  int // -1 if it is not given
	busID  string
	reason string
}

var (
	// "GPU 0000:05:00.0: GPU is lost.  Reboot ..." of old, "GPU0000:05:00.0: Unknown
	// Error" from about 520, "GPU0: 0000:24:00.0: ..." of late.
	handleLine = snapshot.Pattern(
		`(?i)unable to (?:determine|detect) the device handle for gpu\s*(?:(\d{1,3})\s*:\s*)?([0-9a-f]{1,8}:[0-9a-f]{1,2}:[0-9a-f]{1,2}\.[0-9a-f])\s*:\s*(.*)$`)
	busAddress = snapshot.Pattern(`[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]`)
)

// result returns what was parsed.
func (p *parser) result() Reading {
	genuine := p.dropForged()
	notes := p.notes
	if genuine {
		notes = append(notes, p.inner...)
	}
	rest := p.handleLines(notes)
	slots := p.slots()
	r := Reading{Driver: p.driver, CUDA: p.cuda, Notes: strings.Join(rest, "\n")}
	none := p.closed && p.attached == "0" || p.in == nil && slices.ContainsFunc(rest, noDevices)
	if len(slots) > 0 || none {
		r.GPUs, r.Processes = []snapshot.GPU{}, []snapshot.Process{}
	}
	listed := len(slots) == 0
	for i, b := range slots {
		g := p.gpu(i, b)
		listed = p.processes(&r, &g, b) || listed
		r.GPUs = append(r.GPUs, g)
	}
	if !listed {
		r.Processes = nil
	}
	if p.beyond > 0 {
		p.problem(nil, "smi:limit", "+%d more GPUs; %d is the most", p.beyond, snapshot.MaxGPUs)
	}
	if p.beyondProcs > 0 {
		p.problem(nil, "smi:limit", "+%d more processes; %d is the most", p.beyondProcs, snapshot.MaxProcesses)
	}
	r.Complete = p.complete(len(slots)+p.beyond) || p.in == nil && none
	for _, line := range rest {
		p.warning(line, r.GPUs)
	}
	r.Problems = p.problems
	return r
}

// noDevices reports whether a line says that the driver finds no GPU.
func noDevices(line string) bool {
	return strings.HasPrefix(strings.ToLower(line), "no devices were found")
}

// handleLines removes the lines about GPUs without a handle from the notes.
func (p *parser) handleLines(notes []string) []string {
	var rest []string
	for _, line := range notes {
		m := handleLine().FindStringSubmatch(line)
		if m == nil {
			rest = append(rest, line)
			continue
		}
		h := handle{index: -1, busID: strings.ToUpper(m[2]), reason: m[3]}
		if n, err := strconv.Atoi(m[1]); err == nil {
			h.index = n
		}
		same := func(other handle) bool { return snapshot.BusID(other.busID) == snapshot.BusID(h.busID) }
		if !slices.ContainsFunc(p.handles, same) && len(p.handles) < snapshot.MaxGPUs {
			p.handles = append(p.handles, h)
		}
	}
	return rest
}

// busID returns the address of a GPU in one spelling.
func (b *gpuElement) busID() string {
	return snapshot.BusID(cmp.Or(b.id, b.leaves["pci/pci_bus_id"]))
}

// slots merges the GPUs that have an element with those that have only an error line, so
// that a GPU keeps its index while another one is lost.
func (p *parser) slots() []*gpuElement {
	list := slices.Clone(p.elements)
	sorted := slices.IsSortedFunc(list, func(a, b *gpuElement) int { return strings.Compare(a.busID(), b.busID()) })
	slices.SortStableFunc(p.handles, func(a, b handle) int { return a.index - b.index })
	for _, h := range p.handles {
		lost := &gpuElement{id: h.busID, lost: h.reason}
		if i := slices.IndexFunc(list, func(b *gpuElement) bool { return b.busID() == lost.busID() }); i >= 0 {
			list[i].lost = cmp.Or(list[i].lost, h.reason)
			continue
		}
		at := len(list)
		switch {
		case h.index >= 0:
			at = min(h.index, len(list))
		case sorted: // nvidia-smi lists in PCI order
			for at > 0 && list[at-1].busID() > lost.busID() {
				at--
			}
		}
		if len(list) < snapshot.MaxGPUs {
			list = slices.Insert(list, at, lost)
		} else {
			p.beyond++
		}
	}
	return list
}

// processes appends the processes of one GPU, and reports whether there is a list of
// them, possibly empty. Where the list may be incomplete, it sets ProcessesUnknown.
func (p *parser) processes(r *Reading, g *snapshot.GPU, b *gpuElement) (hasList bool) {
	hasList = b.listed && (len(b.procs) > 0 || b.processes == "")
	unreadable, more, noInstance := "", b.moreProcs, false
	for _, proc := range b.procs {
		pid, err := strconv.Atoi(proc["pid"])
		if err != nil || pid < 1 || pid > maxPID {
			shown := snapshot.Text(proc["pid"], 32)
			unreadable = cmp.Or(shown, "no pid")
			p.problemOnce(g.Index, "pid", "smi:unknown-token",
				"nvidia-smi lists a process with the pid %q; it is left out", shown)
			continue
		}
		if len(r.Processes) >= snapshot.MaxProcesses {
			more++
			continue
		}
		entry := snapshot.Process{
			GPU: g.Index, GPUUUID: g.UUID, PID: pid,
			Type:    cmp.Or(snapshot.ProcessType(snapshot.Shaped("process type", proc["type"])), snapshot.UnknownType),
			Program: ps.BaseName(proc["process_name"]),
			UsedMemory: reading[int64](p, g.Index, "processes/process_info/used_memory", proc["used_memory"], 0,
				maxMemory),
			GPUInstanceID:     instance(proc["gpu_instance_id"]),
			ComputeInstanceID: instance(proc["compute_instance_id"]),
		}
		noInstance = noInstance || len(b.migs) > 0 && entry.GPUInstanceID == nil
		r.Processes = append(r.Processes, entry)
	}
	p.beyondProcs += more
	why := ""
	switch {
	case b.lost != "":
		why = b.lost
	case !b.listed:
		why = "not listed"
	case b.processes != "":
		why = b.processes
	case b.forged:
		why = "the name of a process holds a part of nvidia-smi's output"
		if g.Health != snapshot.HealthLost {
			p.problem(&g.Index, "smi:process-name", "%s on GPU %d: its other processes are unknown", why, g.Index)
		}
	case b.damaged:
		why = "the output is damaged"
	case unreadable != "":
		why = unreadable
	case noInstance:
		why = "a process without its MIG instance"
	case b.windows():
		why = "Windows' driver model does not tell all of them"
	case more > 0:
		why = fmt.Sprintf("%d more than are read", more)
	default:
		return hasList
	}
	g.ProcessesUnknown = words(why)
	if g.Health == snapshot.HealthOK {
		p.problem(&g.Index, snapshot.CodeProcesses,
			"nvidia-smi does not list all processes of GPU %d (%s): its users are unknown", g.Index, g.ProcessesUnknown)
	}
	return hasList
}

func instance(s string) *int {
	if n, err := strconv.Atoi(s); err == nil && n >= 0 && n < 1<<16 {
		return &n
	}
	return nil
}

// complete reports whether the document lists all attached GPUs, each with a UUID, and
// reports what is wrong with it. A GPU without a handle counts as found; drivers differ
// in whether they count it as attached.
func (p *parser) complete(found int) bool {
	if p.in == nil {
		return false
	}
	attached, counted := p.count()
	agreed := counted && p.beyond == 0 && (attached == found || attached == len(p.elements))
	short := p.rooted && !p.closed || p.partial > 0 || len(p.stack) > 0
	switch {
	case short:
		p.problem(nil, "smi:truncated", "nvidia-smi's output is incomplete: it has %d complete GPUs", found)
	case found == 0 && !counted:
		p.problem(nil, "smi:no-gpus", "nvidia-smi's document has no GPUs, and does not say that none are attached")
	case counted && attached > found:
		p.problem(nil, "smi:truncated", "nvidia-smi says that %d GPUs are attached, and lists %d", attached, found)
	case counted && !agreed:
		p.problem(nil, "smi:malformed", "nvidia-smi says that %d GPUs are attached, and lists %d", attached, found)
	}
	if p.damage > 0 && !short {
		p.problem(nil, "smi:malformed", "nvidia-smi's XML is damaged at byte %d; some readings may be missing",
			p.damage-1)
	}
	uuids := map[string]bool{}
	for _, b := range p.elements {
		if uuid := b.leaves["uuid"]; !isAbsent(uuid) && !b.unreliable {
			uuids[uuid] = true
		}
	}
	return agreed && p.closed && !short && !p.cut && len(uuids) == len(p.elements)
}

// count returns the number of attached GPUs in the head of the document.
func (p *parser) count() (attached int, ok bool) {
	attached, err := strconv.Atoi(p.attached)
	return attached, err == nil && attached >= 0
}

// dropForged removes GPUs that the name of a process has added to the document, and
// reports whether there was no attempt.
//
// A name can add GPUs and cannot remove any, because every <gpu> tag is found whatever
// precedes it. So the GPUs up to the first one with a process are genuine. If there are
// more GPUs than are attached, those whose child elements differ from the first one's
// are removed. If there are still too many, they cannot be told apart: each bus address
// is shown once, without readings.
func (p *parser) dropForged() (genuine bool) {
	attached, counted := p.count()
	tooMany := func() bool { return counted && len(p.elements)+p.beyond > attached }
	attempt := slices.ContainsFunc(p.elements, func(b *gpuElement) bool { return b.forged })
	if p.damage == 0 && !tooMany() && (counted || !attempt) {
		return !attempt
	}
	sure := 1 + max(0, slices.IndexFunc(p.elements, func(b *gpuElement) bool { return len(b.procs) > 0 }))
	if tooMany() && sure >= attached && attached > 0 {
		p.elements = p.elements[:attached]
		p.elements[attached-1].forged = true
	}
	var kept []*gpuElement
	for i, b := range p.elements {
		foreign := i >= sure && !bytes.Equal(b.children, p.elements[0].children) && !p.elements[0].unreliable
		if foreign && (tooMany() || !counted && attempt) {
			kept[len(kept)-1].forged = true // its process has the forged name
			continue
		}
		b.unreliable = b.unreliable || foreign && b.damaged
		kept = append(kept, b)
	}
	p.elements = kept
	if tooMany() {
		seen := map[string]bool{}
		p.elements = slices.DeleteFunc(kept, func(b *gpuElement) bool {
			id := snapshot.BusID(b.id)
			twice := seen[id]
			seen[id] = true
			return twice
		})
		for i, b := range p.elements {
			b.unreliable, b.forged = i >= sure, true
		}
	}
	return false
}

// warning reports a warning line outside the XML, with the GPU that it names.
func (p *parser) warning(line string, gpus []snapshot.GPU) {
	if !strings.HasPrefix(strings.ToUpper(line), "WARNING") {
		return
	}
	var gpu *int
	if id := busAddress().FindString(line); id != "" {
		for i := range gpus {
			if snapshot.BusID(gpus[i].PCIBusID) == snapshot.BusID(id) {
				gpu = &gpus[i].Index
			}
		}
	}
	code := "smi:warning"
	if strings.Contains(strings.ToLower(line), "inforom is corrupted") {
		code = "smi:inforom"
	}
	p.problem(gpu, code, "nvidia-smi says: %s", line)
}
