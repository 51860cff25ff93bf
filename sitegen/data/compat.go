package data

import (
	"cmp"
	"iter"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
)

// compatFiles are the shapes of the systems that gpuboard replaces, so that what
// was written for them keeps working:
//
//	vesta                states/index.json             all hosts, every value a string
//	                     states/<h>/index.json         the same of one host
//	                     states/<h>/samples.json       and of its last quarter of an hour
//	gpu-cluster-monitor  compat/get-status.json        {"Nodes": […]}, numbers as numbers
//	nvgpu                compat/gpu_status/<h>.json    one agent: {"hostname", "gpus": […]}; a
//	                                                   master asks gpu_status/<h> for gpu_status
//	                     compat/cluster_status.json    a list of those
//	                     compat/gpu_info.json          by host, the list of that system's library
//
// What was a route of those servers is there under its old address, too, such as
// get-status/index.json, which every web server shows for /get-status. A reading that is not known is null in all of
// them, and an empty text in get-status, whose page shows every value as it is.
func compatFiles(in render.Input) (files []render.File) {
	if in.Site.Replaces("vesta") {
		files = vestaFiles(in)
	}
	if in.Site.Replaces("nvgpu") {
		files = append(files, nvgpuFiles(in)...)
	}
	if in.Site.Replaces("gpu-cluster-monitor") {
		nodes := docsOf(in.Board.Hosts, func(h *board.Host) object { return monitorNode(h, in.Site.Zone) })
		files = append(files, routed("get-status", encodeFile(object{{"Nodes", nodes}}))...)
	}
	return files
}

// routed is a file below compat/, and the same where its route was.
func routed(route string, content []byte) []render.File {
	return []render.File{render.NewFile("compat/"+route+".json", content), render.NewFile(route+"/index.json", content)}
}

// orEmpty is a number, or an empty text where it is not known.
func orEmpty[N int | int64](n *N) any {
	if n == nil {
		return safe("")
	}
	return *n
}

// monitorNode is one element of compat/get-status.json. It keeps what is known of a host that is not up, with
// status false.
func monitorNode(h *board.Host, zone *time.Location) object {
	updated, version := "", ""
	if !h.SnapshotAt.IsZero() {
		updated = h.SnapshotAt.In(zone).Format("2006-01-02T15:04:05.000000")
	}
	var ips [][2]safe
	for nic, address := range addresses(h) {
		ips = append(ips, [2]safe{safe(nic), safe(address)})
	}
	gpus := docsOf(h.GPUs, func(g *board.GPU) object {
		version = cmp.Or(version, g.Name)
		var users []object
		for _, p := range g.Holding() {
			users = append(users, object{
				{"pid", p.PID}, {"username", safe(p.Owner().String())}, {"mem(MiB)", orEmpty(p.UsedMemory)},
				{"command", safe(p.Program)},
			})
		}
		return object{
			{"index", g.Index}, {"name", g.Name},
			{"use_mem", orEmpty(g.MemoryUsed)}, {"tot_mem", orEmpty(g.MemoryTotal)},
			{"utilize", orEmpty(g.UtilizationGPU)}, {"temp", orEmpty(g.Temperature)}, {"users", users},
		}
	})
	return object{
		{"hostname", safe(h.Name)},
		{"last_update", updated}, // ISO 8601, without a zone
		{"ips", ips},             // interface and address
		{"gpus", gpus},
		{"version", safe(version)}, // the first GPU's name
		{"status", h.State == board.Up || h.State == board.Maintenance},
	}
}

// addresses are the IPv4 addresses of a host that are not its own, with their interfaces.
func addresses(h *board.Host) iter.Seq2[string, string] {
	return func(yield func(nic, address string) bool) {
		for _, nic := range h.Node.Interfaces {
			for _, addr := range nic.Addrs {
				address, _, _ := strings.Cut(addr, "/")
				if nic.Name != "lo" && !strings.Contains(addr, ":") && !yield(nic.Name, address) {
					return
				}
			}
		}
	}
}

func nvgpuFiles(in render.Input) (files []render.File) {
	var info object
	line := func(value any) []byte { return append(encode(value), '\n') }
	agents := docsOf(in.Board.Hosts, func(h *board.Host) object {
		info = append(info, member{h.Name, nvgpuInfo(h)})
		agent := nvgpuAgent(h, in.Board.GeneratedAt)
		files = append(files, routed("gpu_status/"+h.Name, line(agent))...)
		files = append(files, render.NewFile("gpu_status/"+h.Name+"/gpu_status/index.json", line(agent)))
		return agent
	})
	files = append(files, render.NewFile("compat/gpu_info.json", encodeFile(info)))
	files = append(files, routed("cluster_status", line(agents))...)
	if len(agents) == 1 { // of several there is no telling which one is asked for
		files = append(files, render.NewFile("gpu_status/index.json", line(agents[0])))
	}
	return files
}

// nvgpuAgent is compat/gpu_status/<h>.json, the answer of one agent of nvgpu. A
// host that is not up has no GPUs and an error.
func nvgpuAgent(h *board.Host, now time.Time) object {
	doc := object{{"hostname", safe(h.Name)}}
	switch h.State {
	case board.Never:
		return append(doc, member{"gpus", []object{}}, member{"error", "Host not available"})
	case board.Stale, board.Down:
		return append(doc, member{"gpus", []object{}}, member{"error", "Connection timeout"})
	}
	return append(doc, member{"gpus", docsOf(h.GPUs, func(g *board.GPU) object { return nvgpuGPU(g, now) })})
}

func nvgpuGPU(g *board.GPU, now time.Time) object {
	var started time.Time
	var pids, users []string
	since, program := "", ""
	for _, p := range g.Holding() {
		pids, users = append(pids, strconv.Itoa(p.PID)), append(users, cmp.Or(p.Owner().Name(), "?"))
		program = cmp.Or(program, p.Program)
		if p.StartedAt != nil && (started.IsZero() || p.StartedAt.Before(started)) {
			started = p.StartedAt.Time
		}
	}
	if !started.IsZero() {
		since = ago(now.Sub(started))
	}
	return object{
		{"type", g.Name},
		{"is_available", g.State == board.Free}, // net of bookings, which those agents did not know
		{"pids", safe(strings.Join(pids, ","))},
		{"users", safe(strings.Join(users, ","))}, // ? for an unknown one
		{"running_since", since},                  // "2 days ago"
		{"utilization", g.UtilizationGPU}, {"clock_mhz", g.ClockSM}, {"temperature", g.Temperature},
		{"cmd", program}, // the first program
	}
}

// ago is a length of time in words, as nvgpu's agents say it.
func ago(d time.Duration) string {
	const day = 24 * time.Hour
	for _, unit := range []struct {
		length time.Duration
		one    string
		many   string
	}{
		{365 * day, "a year", "years"}, {30 * day, "a month", "months"}, {7 * day, "a week", "weeks"},
		{day, "a day", "days"},
		{time.Hour, "an hour", "hours"}, {time.Minute, "a minute", "minutes"},
	} {
		switch n := d / unit.length; {
		case n == 1:
			return unit.one + " ago"
		case n > 1:
			return strconv.Itoa(int(n)) + " " + unit.many + " ago"
		}
	}
	return "just now"
}

// nvgpuInfo is a host in compat/gpu_info.json. GPUs whose memory is not known are left out: the shape has no word
// for it.
func nvgpuInfo(h *board.Host) []object {
	docs := []object{}
	for i := range h.GPUs {
		g := &h.GPUs[i]
		if g.State == board.Unknown || g.MemoryTotal == nil || g.MemoryUsed == nil || *g.MemoryTotal <= 0 {
			continue
		}
		docs = append(docs, object{
			{"index", strconv.Itoa(g.Index)}, {"mem_total", *g.MemoryTotal}, {"mem_used", *g.MemoryUsed}, // MiB
			{"mem_used_percent", 100 * float64(*g.MemoryUsed) / float64(*g.MemoryTotal)},
			{"type", safe(g.Name)}, {"uuid", safe(g.UUID)},
		})
	}
	return docs
}
