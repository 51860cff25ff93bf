package nvidiasmi

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gpuboard/snapshot"
)

// A handle is a GPU that nvidia-smi names only to say that it cannot be had.
type handle struct {
	index  int // -1 when not told
	busID  string
	reason string
}

var (
	// "GPU 0000:05:00.0: GPU is lost.  Reboot ..." of old, "GPU0000:05:00.0: Unknown
	// Error" from about 520, "GPU0: 0000:24:00.0: ..." of late.
	handleLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)unable to (?:determine|detect) the device handle for gpu\s*(?:(\d{1,3})\s*:\s*)?([0-9a-f]{1,8}:[0-9a-f]{1,2}:[0-9a-f]{1,2}\.[0-9a-f])\s*:\s*(.*)$`)
	})
	noDevices  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)^no devices were found`) })
	busAddress = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]`)
	})
)

// reading makes the result of all that was collected.
func (p *parser) reading(doc document) Reading {
	rest := p.handleLines()
	places := p.places()
	r := Reading{Driver: version(p.driver), CUDA: version(p.cuda), Notes: strings.Join(rest, "\n")}
	if r.Driver == "" {
		r.Driver = version(p.kmd)
	}
	switch {
	case doc.found && (doc.whole || len(places) > 0) || len(places) > 0:
		r.GPUs, r.Processes = []snapshot.GPU{}, []snapshot.Process{}
	case len(rest) > 0 && slices.ContainsFunc(rest, noDevices().MatchString):
		r.GPUs, r.Processes = []snapshot.GPU{}, []snapshot.Process{}
	}
	listed := len(places) == 0
	for i, place := range places {
		if place.block == nil {
			g := snapshot.GPU{Index: i, PCIBusID: place.handle.busID, Health: snapshot.HealthLost,
				HealthReason: snapshot.Text(place.handle.reason, snapshot.MaxTextBytes)}
			g.ProcessesUnknown = snapshot.Text(place.handle.reason, snapshot.MaxNameBytes)
			r.GPUs = append(r.GPUs, g)
			p.problem("gpu:lost", fmt.Sprintf("nvidia-smi cannot reach GPU %d (%s): %s", i, g.PCIBusID, place.handle.reason), &i)
			continue
		}
		g := p.gpu(i, place.block)
		listed = p.processes(&r, &g, place.block) || listed
		r.GPUs = append(r.GPUs, g)
	}
	if !listed {
		r.Processes = nil
	}
	if p.beyond > 0 {
		p.problem("smi:limit", fmt.Sprintf("+%d more GPUs; %d is the most", p.beyond, snapshot.MaxGPUs), nil)
	}
	if p.beyondProcs > 0 {
		p.problem("smi:limit", fmt.Sprintf("+%d more processes; %d is the most", p.beyondProcs, snapshot.MaxProcesses), nil)
	}
	r.Complete = p.complete(doc, len(places)+p.beyond)
	if !doc.found {
		r.Complete = r.GPUs != nil && len(places) == 0 && !p.cut // it says that there are none
	}
	for _, line := range rest {
		p.warning(line, r.GPUs)
	}
	r.Problems = p.problems
	return r
}

// version drops what some drivers write in place of a version.
func version(s string) string {
	if absence(s) || strings.Contains(s, "eprecated") {
		return ""
	}
	return s
}

// handleLines takes the lines about GPUs without a handle out of the notes.
func (p *parser) handleLines() []string {
	var rest []string
	for _, line := range p.notes {
		m := handleLine().FindStringSubmatch(line)
		if m == nil {
			rest = append(rest, line)
			continue
		}
		h := handle{index: -1, busID: strings.ToUpper(m[2]), reason: m[3]}
		if n, err := strconv.Atoi(m[1]); err == nil {
			h.index = n
		}
		same := func(other handle) bool { return normalBusID(other.busID) == normalBusID(h.busID) }
		if !slices.ContainsFunc(p.handles, same) && len(p.handles) < snapshot.MaxGPUs {
			p.handles = append(p.handles, h)
		}
	}
	return rest
}

// A place is one position in the list of GPUs.
type place struct {
	block  *block
	handle handle
}

func (pl place) busID() string {
	if pl.block == nil {
		return normalBusID(pl.handle.busID)
	}
	if pl.block.id != "" {
		return normalBusID(pl.block.id)
	}
	return normalBusID(pl.block.leaves["pci/pci_bus_id"])
}

// places puts the GPUs that have a block and those that have only a line in
// one list, so that a GPU keeps its index while another one is lost.
func (p *parser) places() []place {
	var list []place
	for _, b := range p.blocks {
		list = append(list, place{block: b})
	}
	sorted := slices.IsSortedFunc(list, func(a, b place) int { return strings.Compare(a.busID(), b.busID()) })
	slices.SortStableFunc(p.handles, func(a, b handle) int { return a.index - b.index })
	for _, h := range p.handles {
		lost := place{handle: h}
		if i := slices.IndexFunc(list, func(pl place) bool { return pl.busID() == lost.busID() }); i >= 0 {
			if b := list[i].block; b != nil && b.lost == "" {
				b.lost = h.reason
			}
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

// processes appends the processes of one GPU, and says where it has more of
// them than can be told. It reports whether there is a list at all, be it an
// empty one.
func (p *parser) processes(r *Reading, g *snapshot.GPU, b *block) (told bool) {
	told = b.listed && (len(b.procs) > 0 || b.processes == "")
	unreadable, more := "", b.moreProcs
	for _, proc := range b.procs {
		pid, err := strconv.Atoi(proc.pid)
		if err != nil || pid < 1 || pid > maxPID {
			unreadable = cmp.Or(snapshot.Text(proc.pid, 32), "no pid")
			p.once("pid", "smi:unknown-token", fmt.Sprintf("nvidia-smi lists a process with the pid %q; it is left out", snapshot.Text(proc.pid, 32)), g.Index)
			continue
		}
		if len(r.Processes) >= snapshot.MaxProcesses {
			more++
			continue
		}
		entry := snapshot.Process{
			GPU: g.Index, GPUUUID: g.UUID, PID: pid, Type: processType(proc.kind),
			Program:           snapshot.Text(BaseName(proc.name), snapshot.MaxProgramBytes),
			UsedMemory:        p.amount(g.Index, "processes/process_info/used_memory", proc.memory, maxMemory),
			GPUInstanceID:     instance(proc.gpuInstance),
			ComputeInstanceID: instance(proc.compInstance),
		}
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
	case b.damaged:
		why = "the output is damaged"
	case unreadable != "":
		why = unreadable
	case more > 0:
		why = fmt.Sprintf("%d more than are read", more)
	default:
		return told
	}
	g.ProcessesUnknown = snapshot.Text(why, snapshot.MaxNameBytes)
	if g.Health == snapshot.HealthOK {
		p.problem(snapshot.ErrProcesses, fmt.Sprintf("nvidia-smi does not list all processes of GPU %d (%s): who uses it is not known",
			g.Index, g.ProcessesUnknown), &g.Index)
	}
	return told
}

// processType keeps letters that are new (MPS has M and M+C); anything else is
// no letter, and an unknown one counts as computing.
func processType(s string) snapshot.ProcessType {
	if len(s) > 8 || absence(s) {
		return ""
	}
	for _, part := range strings.Split(s, "+") {
		if len(part) != 1 || part[0] < 'A' || part[0] > 'Z' {
			return ""
		}
	}
	return snapshot.ProcessType(s)
}

func instance(s string) *int {
	if n, err := strconv.Atoi(s); err == nil && n >= 0 && n < 1<<16 {
		return &n
	}
	return nil
}

// complete reports whether the document has all that it promised, and says
// what is wrong with it. A GPU without a handle counts as found; drivers differ
// in whether they count it as attached.
func (p *parser) complete(doc document, found int) bool {
	whole := doc.found && doc.whole && !doc.cut && !p.cut && p.partial == 0 && p.beyond == 0
	attached, err := strconv.Atoi(p.attached)
	agreed := err == nil && attached == found || err == nil && attached == len(p.blocks) && p.beyond == 0
	switch {
	case !doc.found:
	case !doc.whole || p.partial > 0 || len(p.stack) > 0:
		p.problem("smi:truncated", fmt.Sprintf("nvidia-smi's output is cut short: %d GPUs are there whole", found), nil)
		whole = false
	case err == nil && attached > found:
		p.problem("smi:truncated", fmt.Sprintf("nvidia-smi says that %d GPUs are attached, and lists %d", attached, found), nil)
	case err == nil && !agreed:
		p.problem("smi:malformed", fmt.Sprintf("nvidia-smi says that %d GPUs are attached, and lists %d", attached, found), nil)
	}
	if doc.cut {
		p.problem("smi:truncated", "the last of several documents is cut short; the one before it counts", nil)
	}
	if p.damage > 0 && doc.whole && p.partial == 0 {
		p.problem("smi:malformed", fmt.Sprintf("nvidia-smi's XML is damaged at byte %d; some readings may be missing", p.damage-1), nil)
	}
	return whole && agreed
}

// warning passes on a line that stands beside the XML, with the GPU it names.
func (p *parser) warning(line string, gpus []snapshot.GPU) {
	if !strings.HasPrefix(strings.ToUpper(line), "WARNING") {
		return
	}
	var gpu *int
	if id := busAddress().FindString(line); id != "" {
		for i := range gpus {
			if normalBusID(gpus[i].PCIBusID) == normalBusID(id) {
				gpu = &gpus[i].Index
			}
		}
	}
	code := "smi:warning"
	if strings.Contains(strings.ToLower(line), "inforom is corrupted") {
		code = "smi:inforom"
	}
	p.problem(code, "nvidia-smi says: "+line, gpu)
}
