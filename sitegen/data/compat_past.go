package data

import (
	"strconv"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
)

// compatPast writes the points of "data" that lie before the newest snapshot.
// A step of which nothing is known is left out, as it would have been in the
// system that is replaced.
func compatPast(e *apiEnc, h *board.Host, s *render.PastSpan, zone *time.Location) {
	for i := range s.Len() {
		at := s.From.Add(time.Duration(i) * s.Step)
		if at.Add(s.Step).After(h.SnapshotAt) {
			return
		}
		some := false
		for j := range h.GPUs {
			if gpu, ok := s.GPUs[render.PastKey(&h.GPUs[j])]; ok && gpu.KnownAt(i) {
				if !some {
					e.elem()
					e.object("gpu_data")
					some = true
				}
				compatPastGPU(e, &h.GPUs[j], gpu, i, at.In(zone).Format("2006/01/02 15:04:05.000"))
			}
		}
		if some {
			e.close('}')
			stamp, _ := strconv.ParseInt(at.In(zone).Format("20060102150405"), 10, 64)
			e.int64("timestamp", stamp)
			e.close('}')
		}
	}
}

func compatPastGPU(e *apiEnc, g *board.GPU, past render.PastGPU, step int, stamp string) {
	value := func(metric int) *int64 {
		v := past[metric][step]
		if v == render.PastUnknown {
			return nil
		}
		n := int64(v)
		if metric == render.PastMemory {
			n *= render.PastMemoryUnit
		}
		return &n
	}
	used := value(render.PastMemory)
	var free *int64
	if used != nil && g.MemoryTotal != nil {
		left := max(0, *g.MemoryTotal-*used)
		free = &left
	}
	index := strconv.Itoa(g.Index)
	e.object("gpu:" + index)
	compatText(e, "available_memory", free)
	e.str("device_num", index)
	e.strNull("gpu_name", g.Name)
	compatText(e, "gpu_volatile", value(render.PastUtilization))
	e.array("processes")
	e.close(']')
	compatText(e, "temperature", value(render.PastTemperature))
	e.str("timestamp", stamp)
	compatText(e, "total_memory", g.MemoryTotal)
	compatText(e, "used_memory", used)
	e.strNull("uuid", g.UUID)
	e.close('}')
}
