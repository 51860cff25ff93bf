package data

import (
	"slices"
	"strconv"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
)

// A vestaDoc is one host in states/index.json. Data is the newest snapshot; in
// samples.json, those of the last quarter of an hour come before it, without processes.
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
	return orNull(v, func(v *N) decimal { return decimal(strconv.FormatInt(int64(*v), 10)) })
}

const vestaTime = "2006/01/02 15:04:05.000"

func vestaStamp(at time.Time) int64 {
	stamp, _ := strconv.ParseInt(at.Format("20060102150405"), 10, 64) // digits alone
	return stamp
}

func vestaHost(h *board.Host, zone *time.Location, samples []snapshot.Sample) vestaDoc {
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
	for i := range samples {
		if s := &samples[i]; s.At.Before(h.SnapshotAt) {
			doc.Data = append(doc.Data, vestaSample(h, s, s.At.In(zone)))
		}
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
	for _, address := range addresses(h) {
		return address
	}
	return h.Address
}

func vestaNow(g *board.GPU, at time.Time) vestaGPU {
	doc := vestaAt(g, at, g.MemoryUsed, g.UtilizationGPU, g.Temperature)
	if g.MemoryFree != nil {
		doc.MemoryFree = decimalOf(g.MemoryFree)
	}
	for i := range g.Processes {
		p := &g.Processes[i]
		doc.Processes = append(doc.Processes, vestaProcess{safe(p.Program), strconv.Itoa(p.PID), decimalOf(p.UsedMemory), safe(p.Owner().String())})
	}
	return doc
}

// vestaAt is a GPU at one moment.
func vestaAt(g *board.GPU, at time.Time, used *int64, utilization, temperature *int) vestaGPU {
	doc := vestaGPU{
		Index: strconv.Itoa(g.Index), Name: known(g.Name), Utilization: decimalOf(utilization), Temperature: decimalOf(temperature),
		Timestamp: at.Format(vestaTime), MemoryTotal: decimalOf(g.MemoryTotal), MemoryUsed: decimalOf(used), UUID: known(g.UUID),
	}
	if used != nil && g.MemoryTotal != nil {
		doc.MemoryFree = decimalOf(new(max(0, *g.MemoryTotal-*used)))
	}
	return doc
}

// vestaSample is the host in one sample.
func vestaSample(h *board.Host, s *snapshot.Sample, at time.Time) vestaPoint {
	point := vestaPoint{Timestamp: vestaStamp(at)}
	for i := range s.GPUs {
		was := &s.GPUs[i]
		j := slices.IndexFunc(h.GPUs, func(g board.GPU) bool { return g.UUID == was.UUID && (was.UUID != "" || g.Index == was.Index) })
		if j < 0 {
			continue
		}
		g := &h.GPUs[j]
		point.GPUs = append(point.GPUs, member{"gpu:" + strconv.Itoa(g.Index), vestaAt(g, at, was.MemoryUsed, was.Utilization, was.Temperature)})
	}
	return point
}
