package data

import (
	"slices"
	"strconv"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

const vestaTime = "2006/01/02 15:04:05.000"

func vestaStamp(at time.Time) int64 {
	stamp, _ := strconv.ParseInt(at.Format("20060102150405"), 10, 64) // digits alone
	return stamp
}

func vestaFiles(in render.Input) (files []render.File) {
	var all object
	for i := range in.Board.Hosts {
		h := &in.Board.Hosts[i]
		host := member{h.Name, vestaHost(h, in.Site.Zone, nil)}
		all = append(all, host)
		files = append(files, render.NewFile("states/"+h.Name+"/index.json", encodeFile(object{host})))
		samples := in.Samples[h.Name]
		if len(samples) > 0 && len(in.Board.Hosts) <= render.FullHistoryHosts { // of a thousand they would be 100 MB
			host.value = vestaHost(h, in.Site.Zone, samples)
			files = append(files, render.NewFile("states/"+h.Name+"/samples.json", encodeFile(object{host})))
		}
	}
	return append(files, render.NewFile("states/index.json", encodeFile(all)))
}

// vestaHost is one host in states/index.json. Its data is the newest snapshot; in samples.json, those of the last
// quarter of an hour come before it, without processes.
func vestaHost(h *board.Host, zone *time.Location, samples []snapshot.Sample) object {
	alive, status := h.State == board.Up || h.State == board.Maintenance, "down"
	switch {
	case alive:
		status = "running"
	case h.State == board.Never:
		status = "waiting for re-uplink"
	}
	points := []object{}
	if !h.SnapshotAt.IsZero() {
		for i := range samples {
			if s := &samples[i]; s.At.Before(h.SnapshotAt) {
				points = append(points, vestaSample(h, s, s.At.In(zone)))
			}
		}
		at := h.SnapshotAt.In(zone)
		var newest object
		for i := range h.GPUs {
			if g := &h.GPUs[i]; alive && g.State != board.Unknown {
				newest = append(newest, vestaNow(g, at))
			}
		}
		points = append(points, vestaPoint(newest, at))
	}
	return object{{"data", points}, {"ip_address", vestaAddress(h)}, {"status", status}}
}

// vestaPoint is a host at one moment. It has no GPUs for a host without news.
func vestaPoint(gpus object, at time.Time) object {
	return object{{"gpu_data", gpus}, {"timestamp", vestaStamp(at)}}
}

// vestaAddress is the first address of the host that is not its own.
func vestaAddress(h *board.Host) string {
	for _, address := range addresses(h) {
		return address
	}
	return h.Address
}

func vestaNow(g *board.GPU, at time.Time) member {
	processes := docsOf(g.Processes, func(p *board.Process) object {
		return object{
			{"name", safe(p.Program)}, {"pid", quoted(&p.PID)}, {"used_memory", quoted(p.UsedMemory)},
			{"user", safe(p.Owner().String())},
		}
	})
	return vestaGPU(g, at, g.MemoryUsed, g.MemoryFree, g.UtilizationGPU, g.Temperature, processes)
}

// vestaGPU is a GPU at one moment. Every value is a string.
func vestaGPU(
	g *board.GPU, at time.Time, used, free *int64, utilization, temperature *int, processes []object,
) member {
	if free == nil && used != nil && g.MemoryTotal != nil {
		free = new(max(0, *g.MemoryTotal-*used))
	}
	return member{"gpu:" + strconv.Itoa(g.Index), object{
		{"available_memory", quoted(free)}, {"device_num", quoted(&g.Index)}, {"gpu_name", g.Name},
		{"gpu_volatile", quoted(utilization)}, {"processes", processes}, {"temperature", quoted(temperature)},
		{"timestamp", at.Format(vestaTime)}, {"total_memory", quoted(g.MemoryTotal)}, {"used_memory", quoted(used)},
		{"uuid", g.UUID},
	}}
}

// quoted is a number as a string; nil where it is not known.
func quoted[N int | int64](n *N) *safe {
	if n == nil {
		return nil
	}
	return new(safe(strconv.FormatInt(int64(*n), 10)))
}

// vestaSample is the host in one sample.
func vestaSample(h *board.Host, s *snapshot.Sample, at time.Time) object {
	var gpus object
	for i := range s.GPUs {
		was := &s.GPUs[i]
		j := slices.IndexFunc(h.GPUs,
			func(g board.GPU) bool { return g.UUID == was.UUID && (was.UUID != "" || g.Index == was.Index) })
		if j >= 0 {
			gpu := vestaGPU(&h.GPUs[j], at, was.MemoryUsed, nil, was.Utilization, was.Temperature, []object{})
			gpus = append(gpus, gpu)
		}
	}
	return vestaPoint(gpus, at)
}
