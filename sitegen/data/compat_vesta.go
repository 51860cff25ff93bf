package data

import (
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
)

// A vestaDoc is one host in states/index.json. Data ascends: what history knows of
// the hour before, in means of five minutes and without processes, and at the end
// the newest snapshot.
type vestaDoc struct {
	Data    []vestaPoint `json:"data"`
	Address known        `json:"ip_address"`
	Status  string       `json:"status"`
}

type vestaPoint struct {
	GPUs      object `json:"gpu_data"`  // vestaGPU by name; empty for a host without news
	Timestamp int64  `json:"timestamp"` // YYYYMMDDhhmmss
}

// In a vestaGPU every value is a string.
type vestaGPU struct {
	MemoryFree  *decimal       `json:"available_memory"`
	Index       string         `json:"device_num"`
	Name        known          `json:"gpu_name"`
	Utilization *decimal       `json:"gpu_volatile"`
	Processes   []vestaProcess `json:"processes"`
	Temperature *decimal       `json:"temperature"`
	Timestamp   string         `json:"timestamp"`
	MemoryTotal *decimal       `json:"total_memory"`
	MemoryUsed  *decimal       `json:"used_memory"`
	UUID        known          `json:"uuid"`
}

type vestaProcess struct {
	Name       safe     `json:"name"`
	PID        string   `json:"pid"`
	UsedMemory *decimal `json:"used_memory"`
	User       safe     `json:"user"`
}

// A decimal is a number written as a string.
type decimal string

func decimalOf[N int | int64](v *N) *decimal {
	if v == nil {
		return nil
	}
	return new(decimal(strconv.FormatInt(int64(*v), 10)))
}

const vestaTime = "2006/01/02 15:04:05.000"

func vestaStamp(at time.Time) int64 {
	stamp, _ := strconv.ParseInt(at.Format("20060102150405"), 10, 64) // digits alone
	return stamp
}

func vestaHost(h *board.Host, zone *time.Location, past *render.History) vestaDoc {
	doc := vestaDoc{Address: known(vestaAddress(h)), Status: "down"}
	alive := h.State == board.Up || h.State == board.Maintenance
	switch {
	case alive:
		doc.Status = "running"
	case h.State == board.Never:
		doc.Status = "waiting for re-uplink"
	}
	if h.SnapshotAt.IsZero() {
		return doc
	}
	zone = compatZone(zone)
	if past != nil && past.Hosts[h.Name] != nil {
		doc.Data = vestaPast(h, &past.Hosts[h.Name].Fives, zone)
	}
	at := h.SnapshotAt.In(zone)
	newest := vestaPoint{Timestamp: vestaStamp(at)}
	for i := range h.GPUs {
		if g := &h.GPUs[i]; alive && g.State != board.Unknown {
			newest.GPUs = append(newest.GPUs, member{"gpu:" + strconv.Itoa(g.Index), vestaNow(g, at)})
		}
	}
	doc.Data = append(doc.Data, newest)
	return doc
}

// vestaAddress is the first address of the host that is not its own.
func vestaAddress(h *board.Host) string {
	for _, nic := range h.Node.Interfaces {
		for _, addr := range nic.Addrs {
			if nic.Name != "lo" && !strings.Contains(addr, ":") {
				address, _, _ := strings.Cut(addr, "/")
				return address
			}
		}
	}
	return h.Address
}

func vestaNow(g *board.GPU, at time.Time) vestaGPU {
	free := g.MemoryFree
	if free == nil && g.MemoryTotal != nil && g.MemoryUsed != nil {
		free = new(*g.MemoryTotal - *g.MemoryUsed)
	}
	doc := vestaGPU{
		MemoryFree: decimalOf(free), Index: strconv.Itoa(g.Index), Name: known(g.Name), Utilization: decimalOf(g.UtilizationGPU),
		Temperature: decimalOf(g.Temperature), Timestamp: at.Format(vestaTime),
		MemoryTotal: decimalOf(g.MemoryTotal), MemoryUsed: decimalOf(g.MemoryUsed), UUID: known(g.UUID),
	}
	for i := range g.Processes {
		p := &g.Processes[i]
		doc.Processes = append(doc.Processes, vestaProcess{safe(p.Program), strconv.Itoa(p.PID), decimalOf(p.UsedMemory), safe(p.User)})
	}
	return doc
}

// vestaPast is the points that lie before the newest snapshot. A step of which
// nothing is known is left out, as in the system that is replaced.
func vestaPast(h *board.Host, s *render.PastSpan, zone *time.Location) (points []vestaPoint) {
	for i := range s.Len() {
		at := s.From.Add(time.Duration(i) * s.Step).In(zone)
		if at.Add(s.Step).After(h.SnapshotAt) {
			break
		}
		point := vestaPoint{Timestamp: vestaStamp(at)}
		for j := range h.GPUs {
			g := &h.GPUs[j]
			if past, ok := s.GPUs[render.PastKey(g)]; ok && past.KnownAt(i) {
				point.GPUs = append(point.GPUs, member{"gpu:" + strconv.Itoa(g.Index), vestaThen(g, past, i, at)})
			}
		}
		if len(point.GPUs) > 0 {
			points = append(points, point)
		}
	}
	return points
}

// vestaThen is a GPU in one step of the past.
func vestaThen(g *board.GPU, past render.PastGPU, step int, at time.Time) vestaGPU {
	value := func(metric int, unit int64) *int64 {
		v := past[metric][step]
		if v == render.PastUnknown {
			return nil
		}
		return new(int64(v) * unit)
	}
	used := value(render.PastMemory, render.PastMemoryUnit)
	var free *int64
	if used != nil && g.MemoryTotal != nil {
		free = new(max(0, *g.MemoryTotal-*used))
	}
	return vestaGPU{
		MemoryFree: decimalOf(free), Index: strconv.Itoa(g.Index), Name: known(g.Name), Utilization: decimalOf(value(render.PastUtilization, 1)),
		Temperature: decimalOf(value(render.PastTemperature, 1)), Timestamp: at.Format(vestaTime),
		MemoryTotal: decimalOf(g.MemoryTotal), MemoryUsed: decimalOf(used), UUID: known(g.UUID),
	}
}
