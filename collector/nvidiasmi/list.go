package nvidiasmi

import (
	"slices"
	"strconv"
	"strings"

	"gpuboard/internal/snapshot"
)

// ListArgs are the arguments that make nvidia-smi write what [ParseList] reads.
func ListArgs() []string { return []string{"-L"} }

// A Listed is one MIG device in `nvidia-smi -L`, which has UUIDs and profiles. The XML
// has neither.
type Listed struct {
	GPU     int    // index of its GPU
	GPUUUID string // "" if it is not given
	Device  int    // index within the GPU
	Profile string // 1g.10gb
	UUID    string
}

var (
	listGPU = snapshot.Pattern(`^GPU (\d{1,3}): .*\(UUID: ([^()\s]{1,128})\)\s*$`)
	listMIG = snapshot.Pattern(`^\s+MIG (\S{1,64})\s+Device\s+(\d{1,3}): \(UUID: ([^()\s]{1,128})\)\s*$`)
)

// ParseList parses `nvidia-smi -L` and ignores other lines.
func ParseList(out []byte) []Listed {
	if len(out) > MaxOutputBytes {
		out = out[:MaxOutputBytes]
	}
	var list []Listed
	gpu, uuid := -1, ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\r\n")
		if m := listGPU().FindStringSubmatch(line); m != nil {
			gpu, _ = strconv.Atoi(m[1])
			uuid = m[2]
		} else if m := listMIG().FindStringSubmatch(line); m != nil && gpu >= 0 &&
			len(list) < snapshot.MaxGPUs*snapshot.MaxMIGDevices &&
			snapshot.Fits("profile", m[1]) && snapshot.Fits("uuid", m[3]) {
			device, _ := strconv.Atoi(m[2])
			list = append(list, Listed{GPU: gpu, GPUUUID: uuid, Device: device,
				Profile: m[1], UUID: m[3]})
		}
	}
	return list
}

// NeedsList reports whether a MIG device lacks its UUID or profile.
func NeedsList(gpus []snapshot.GPU) bool {
	return slices.ContainsFunc(gpus, func(g snapshot.GPU) bool {
		return slices.ContainsFunc(g.MIGDevices,
			func(d snapshot.MIGDevice) bool { return d.UUID == "" || d.Profile == "" })
	})
}

// Label sets UUIDs and profiles of MIG devices from the list, and reports whether the
// list has every device.
func Label(gpus []snapshot.GPU, list []Listed) bool {
	all := true
	for _, g := range gpus {
		for j := range g.MIGDevices {
			d := &g.MIGDevices[j]
			i := slices.IndexFunc(list, func(l Listed) bool {
				return l.Device == d.Index && (l.GPUUUID == g.UUID || g.UUID == "" && l.GPU == g.Index)
			})
			if i < 0 {
				all = false
				continue
			}
			d.UUID, d.Profile = list[i].UUID, list[i].Profile
		}
	}
	return all
}
