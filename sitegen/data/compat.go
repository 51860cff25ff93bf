package data

import (
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
)

// A compat writes the shapes of the systems that gpuboard replaces, so that what
// was written for them keeps working when it is pointed at a file:
//
//	vesta                states/index.json             all hosts, every value a string
//	                     states/<h>/index.json         the same of one host
//	gpu-cluster-monitor  compat/get-status.json        {"Nodes": […]}, numbers as numbers
//	nvgpu                compat/gpu_status/<h>.json    one agent: {"hostname", "gpus": […]}
//	                     compat/cluster_status.json    a list of those
//	                     compat/gpu_info.json          by host, the list of that system's library
//
// A reading that is not known is null in all of them.
type compat struct {
	vesta, nvgpu, monitor       bool
	zone                        *time.Location
	past                        *render.History
	states, nodes, agents, info [][]byte // by host; only those that are written
}

func newCompat(in render.Input) *compat {
	c := &compat{vesta: in.Site.Replaces("vesta"), nvgpu: in.Site.Replaces("nvgpu"), monitor: in.Site.Replaces("gpu-cluster-monitor"), zone: in.Site.Zone}
	hosts := len(in.Board.Hosts)
	if hosts <= render.FullHistoryHosts {
		c.past = in.History // an hour of a thousand hosts would be 35 MB in every generation
	}
	for _, list := range []*[][]byte{&c.states, &c.nodes, &c.agents, &c.info} {
		*list = make([][]byte, hosts)
	}
	return c
}

// host encodes host number i, and returns its own files. Hosts may be encoded at
// the same time.
func (c *compat) host(i int, h *board.Host) (files []render.File) {
	encode := func(write func(*apiEnc)) []byte {
		e := &apiEnc{}
		write(e)
		return e.b
	}
	if c.vesta {
		c.states[i] = encode(func(e *apiEnc) { compatStates(e, h, c.zone, c.past) })
		files = append(files, render.NewFile("states/"+h.Name+"/index.json", []byte("{"), c.states[i], []byte("}\n")))
	}
	if c.nvgpu {
		c.info[i] = encode(func(e *apiEnc) { compatInfo(e, h) })
		c.agents[i] = encode(func(e *apiEnc) { compatAgent(e, h) })
		files = append(files, render.NewFile("compat/gpu_status/"+h.Name+".json", c.agents[i], []byte("\n")))
	}
	if c.monitor {
		c.nodes[i] = encode(func(e *apiEnc) { compatNode(e, h, c.zone) })
	}
	return files
}

// files are those of all hosts, once each is encoded.
func (c *compat) files() (files []render.File) {
	if c.vesta {
		files = append(files, render.NewFile("states/index.json", apiParts([]byte("{"), c.states, ",", "}\n")...))
	}
	if c.nvgpu {
		files = append(files,
			render.NewFile("compat/gpu_info.json", apiParts([]byte("{"), c.info, ",", "}\n")...),
			render.NewFile("compat/cluster_status.json", apiParts([]byte("["), c.agents, ",", "]\n")...))
	}
	if c.monitor {
		files = append(files, render.NewFile("compat/get-status.json", apiParts([]byte(`{"Nodes":[`), c.nodes, ",", "]}\n")...))
	}
	return files
}

func compatZone(zone *time.Location) *time.Location {
	if zone == nil {
		return time.UTC
	}
	return zone
}

func compatIP(h *board.Host) string {
	for _, nic := range h.Node.Interfaces {
		for _, addr := range nic.Addrs {
			if nic.Name != "lo" && !strings.Contains(addr, ":") {
				return strings.SplitN(addr, "/", 2)[0]
			}
		}
	}
	return h.Address
}

// compatText writes a number as a string, as the shape wants it.
func compatText[N int | int64](e *apiEnc, key string, v *N) {
	if v == nil {
		e.null(key)
		return
	}
	e.str(key, strconv.FormatInt(int64(*v), 10))
}

// compatStates is one member of states/index.json:
//
//	"host": {"data": [{"gpu_data": {"gpu:0": {available_memory, device_num, gpu_name,
//	gpu_volatile, processes: [{name, pid, used_memory, user}], temperature, timestamp,
//	total_memory, used_memory, uuid}}, "timestamp": YYYYMMDDhhmmss}], "ip_address", "status"}
//
// Every value in gpu_data is a string. A host without news has an empty
// gpu_data and the time of its last news. "data" ascends: what history knows of
// the hour before, in means of five minutes and without processes, and at the
// end the newest snapshot.
func compatStates(e *apiEnc, h *board.Host, zone *time.Location, past *render.History) {
	zone = compatZone(zone)
	at := h.SnapshotAt.In(zone)
	e.sep()
	e.b = append(apiQuote(e.b, h.Name), ':')
	e.open('{')
	e.array("data")
	if !h.SnapshotAt.IsZero() {
		if past != nil && past.Hosts[h.Name] != nil {
			compatPast(e, h, &past.Hosts[h.Name].Fives, zone)
		}
		e.elem()
		e.object("gpu_data")
		for i := range h.GPUs {
			g := &h.GPUs[i]
			if h.State != board.Up && h.State != board.Maintenance || g.State == board.Unknown {
				continue
			}
			compatStatesGPU(e, g, at.Format("2006/01/02 15:04:05.000"))
		}
		e.close('}')
		stamp, _ := strconv.ParseInt(at.Format("20060102150405"), 10, 64)
		e.int64("timestamp", stamp)
		e.close('}')
	}
	e.close(']')
	e.strNull("ip_address", compatIP(h))
	status := "down"
	switch h.State {
	case board.Up, board.Maintenance:
		status = "running"
	case board.Never:
		status = "waiting for re-uplink"
	}
	e.str("status", status)
	e.close('}')
}

func compatStatesGPU(e *apiEnc, g *board.GPU, stamp string) {
	index := strconv.Itoa(g.Index)
	e.object("gpu:" + index)
	free := g.MemoryFree
	if free == nil && g.MemoryTotal != nil && g.MemoryUsed != nil {
		left := *g.MemoryTotal - *g.MemoryUsed
		free = &left
	}
	compatText(e, "available_memory", free)
	e.str("device_num", index)
	e.strNull("gpu_name", g.Name)
	compatText(e, "gpu_volatile", g.UtilizationGPU)
	e.array("processes")
	for i := range g.Processes {
		p := &g.Processes[i]
		e.elem()
		e.str("name", p.Program)
		e.str("pid", strconv.Itoa(p.PID))
		compatText(e, "used_memory", p.UsedMemory)
		e.str("user", p.User)
		e.close('}')
	}
	e.close(']')
	compatText(e, "temperature", g.Temperature)
	e.str("timestamp", stamp)
	compatText(e, "total_memory", g.MemoryTotal)
	compatText(e, "used_memory", g.MemoryUsed)
	e.strNull("uuid", g.UUID)
	e.close('}')
}

// compatNode is one element of compat/get-status.json:
//
//	{hostname, last_update (ISO, no zone), ips: [[interface, ip]], gpus: [{index, name,
//	use_mem, tot_mem, utilize, temp, users: [{pid, username, "mem(MiB)", command}]}],
//	version (the first GPU's name), status}
//
// A host that is not up keeps what is known of it, with status false.
func compatNode(e *apiEnc, h *board.Host, zone *time.Location) {
	e.elem()
	e.str("hostname", h.Name)
	if h.SnapshotAt.IsZero() {
		e.null("last_update")
	} else {
		e.str("last_update", h.SnapshotAt.In(compatZone(zone)).Format("2006-01-02T15:04:05.000000"))
	}
	e.array("ips")
	for _, nic := range h.Node.Interfaces {
		for _, addr := range nic.Addrs {
			if nic.Name == "lo" || strings.Contains(addr, ":") {
				continue
			}
			e.sep()
			e.open('[')
			e.sep()
			e.b = apiQuote(e.b, nic.Name)
			e.sep()
			e.b = apiQuote(e.b, strings.SplitN(addr, "/", 2)[0])
			e.close(']')
		}
	}
	e.close(']')
	e.array("gpus")
	version := ""
	for i := range h.GPUs {
		g := &h.GPUs[i]
		if version == "" {
			version = g.Name
		}
		e.elem()
		e.int("index", g.Index)
		e.strNull("name", g.Name)
		e.int64Ptr("use_mem", g.MemoryUsed)
		e.int64Ptr("tot_mem", g.MemoryTotal)
		e.intPtr("utilize", g.UtilizationGPU)
		e.intPtr("temp", g.Temperature)
		e.array("users")
		for j := range g.Processes {
			p := &g.Processes[j]
			e.elem()
			e.int("pid", p.PID)
			e.str("username", p.User)
			e.int64Ptr("mem(MiB)", p.UsedMemory)
			e.str("command", p.Program)
			e.close('}')
		}
		e.close(']')
		e.close('}')
	}
	e.close(']')
	e.str("version", version)
	e.bool("status", h.State == board.Up || h.State == board.Maintenance)
	e.close('}')
}

// compatAgent is compat/gpu_status/<h>.json, the answer of one agent:
//
//	{hostname, gpus: [{type, is_available, pids, users, running_since, utilization,
//	clock_mhz, temperature, cmd}]}
//
// pids and users are joined by commas, an unknown user is "?", cmd is the first
// program. is_available is net of bookings, which those agents did not know.
// running_since is a moment in RFC 3339 where they said "2 days ago": a file
// does not age. A host that is not up has no gpus and an "error".
func compatAgent(e *apiEnc, h *board.Host) {
	e.open('{')
	e.str("hostname", h.Name)
	e.array("gpus")
	alive := h.State == board.Up || h.State == board.Maintenance
	for i := range h.GPUs {
		if alive {
			compatAgentGPU(e, &h.GPUs[i])
		}
	}
	e.close(']')
	switch h.State {
	case board.Never:
		e.str("error", "Host not available")
	case board.Stale, board.Down:
		e.str("error", "Connection timeout")
	}
	e.close('}')
}

func compatAgentGPU(e *apiEnc, g *board.GPU) {
	var pids, users []string
	var since time.Time
	cmd := ""
	for i := range g.Processes {
		p := &g.Processes[i]
		if !p.Type.Computes() {
			continue
		}
		pids = append(pids, strconv.Itoa(p.PID))
		user := p.User
		if user == "" || p.Alive != nil && !*p.Alive {
			user = "?"
		}
		users = append(users, user)
		if cmd == "" {
			cmd = p.Program
		}
		if p.StartedAt != nil && (since.IsZero() || p.StartedAt.Before(since)) {
			since = p.StartedAt.Time
		}
	}
	e.elem()
	e.strNull("type", g.Name)
	e.bool("is_available", g.State == board.Free)
	e.str("pids", strings.Join(pids, ","))
	e.str("users", strings.Join(users, ","))
	e.time("running_since", since)
	e.intPtr("utilization", g.UtilizationGPU)
	e.intPtr("clock_mhz", g.ClockSM)
	e.intPtr("temperature", g.Temperature)
	e.strNull("cmd", cmd)
	e.close('}')
}

// compatInfo is one member of compat/gpu_info.json:
//
//	"host": [{index, mem_total, mem_used, mem_used_percent, type, uuid}]
//
// index is a string there, and memory a number of MiB. A GPU whose memory is
// not known is left out: that shape has no word for it.
func compatInfo(e *apiEnc, h *board.Host) {
	e.sep()
	e.b = append(apiQuote(e.b, h.Name), ':')
	e.open('[')
	for i := range h.GPUs {
		g := &h.GPUs[i]
		if g.State == board.Unknown || g.MemoryTotal == nil || g.MemoryUsed == nil || *g.MemoryTotal <= 0 {
			continue
		}
		e.elem()
		e.str("index", strconv.Itoa(g.Index))
		e.int64("mem_total", *g.MemoryTotal)
		e.int64("mem_used", *g.MemoryUsed)
		e.float("mem_used_percent", 100*float64(*g.MemoryUsed)/float64(*g.MemoryTotal))
		e.str("type", g.Name)
		e.str("uuid", g.UUID)
		e.close('}')
	}
	e.close(']')
}
