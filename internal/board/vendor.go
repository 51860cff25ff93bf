package board

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"gpuboard/internal/snapshot"
)

// superchip matches GPUs that have memory of their own and can use that of their Grace processor as well.
var superchip = regexp.MustCompile(`(?i)\bG[BH][2-9]00\b`)

// processesDecide reports whether little memory in use proves nothing, so that the processes have to be known before
// a GPU is free. What a program holds may be in the memory of the node. And what an idle card holds differs by vendor
// and model: it is known of NVIDIA's ([Settings.freeMemory]), and a card of another vendor has no limit until its
// model was measured.
func processesDecide(g *GPU) bool {
	return g.MemoryShared || superchip.MatchString(g.Name) || g.Maker() != snapshot.NVIDIA
}

// mayBeIdle reports whether an idle card of a vendor without a limit may hold the memory in use: none holds half.
func mayBeIdle(used, total int64) bool { return used <= total/2 }

// ToolsOf are the tools of a host that answered, NVIDIA's first.
func (h *Host) ToolsOf() []snapshot.Tool {
	if h.Driver == "" {
		return h.Tools
	}
	return append([]snapshot.Tool{{Vendor: snapshot.NVIDIA, Name: "nvidia-smi", Driver: h.Driver}}, h.Tools...)
}

// ToolSays is what a tool says of itself, with a word for the driver: "26.2.0, driver 6.12.12"; the vendor's name where
// it says nothing.
func ToolSays(t snapshot.Tool, driver string) string {
	if t.Driver != "" {
		driver += " " + t.Driver
	} else {
		driver = ""
	}
	said := strings.Trim(t.Version+", "+driver, ", ")
	return cmp.Or(said, strings.ToUpper(string(t.Vendor)))
}

// DriverOf is the version of the driver of a GPU of the host; "" if it is not known.
func (h *Host) DriverOf(g *GPU) string {
	tools := h.ToolsOf()
	if i := slices.IndexFunc(tools, func(t snapshot.Tool) bool { return t.Vendor == g.Maker() }); i >= 0 {
		return tools[i].Driver
	}
	return ""
}

// OneVendor keeps the units of one vendor, because no program uses GPUs of two: of the vendor that the first one is of,
// or of the next one if that has too few.
func OneVendor(units []Unit, n int) []Unit {
	if len(units) == 0 {
		return nil
	}
	of := map[snapshot.Vendor][]Unit{}
	for _, u := range units {
		of[u.GPU.Maker()] = append(of[u.GPU.Maker()], u)
	}
	enough := func(u Unit) int { return min(len(of[u.GPU.Maker()]), max(n, 1)) }
	first := slices.MaxFunc(units, func(x, y Unit) int { return cmp.Compare(enough(x), enough(y)) })
	return of[first.GPU.Maker()]
}

// rocrUUID is the form in which AMD's runtime takes a UUID.
var rocrUUID = regexp.MustCompile(`^GPU-[0-9a-f]{16}$`)

// Device is how the runtime of the vendor names a GPU or slice of the host: by UUID, which CUDA knows whatever its order,
// or else by number; "" for a slice that it has no name for.
func (h *Host) Device(g *GPU) string {
	switch {
	case g.Maker() != snapshot.NVIDIA && !rocrUUID.MatchString(g.UUID):
		return h.place(g)
	case shellSafe(g.UUID):
		return g.UUID
	case g.Slice != nil: // CUDA knows a slice by nothing else
		return ""
	}
	return itoa(g.Index)
}

// Environment sets the variables with which the runtime of a vendor shows a program these GPUs and slices, which are of
// one vendor and host; "" for none.
func Environment(units []Unit) string {
	var devices []string
	variables := "ROCR_VISIBLE_DEVICES="
	for _, u := range units {
		device := u.Host.Device(u.GPU)
		if u.GPU.Maker() == snapshot.NVIDIA {
			// CUDA counts by speed unless it is told to count as nvidia-smi does.
			variables = "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES="
			if u.GPU.Slice == nil {
				device = itoa(u.GPU.Index)
			}
		}
		devices = append(devices, device)
	}
	if len(devices) == 0 {
		return ""
	}
	return variables + strings.Join(devices, ",")
}

// place counts the GPUs and slices of the same vendor before g, as its runtime does: they are in the order of their bus
// addresses. It is "" if g is not of the host.
func (h *Host) place(g *GPU) string {
	n := 0
	for one := range h.Units() {
		switch {
		case one == g:
			return itoa(n)
		case one.Maker() == g.Maker() && !one.Missing:
			n++
		}
	}
	return ""
}
