package data

import (
	"cmp"
	"iter"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// A compat writes the shapes of the systems that gpuboard replaces, so that what
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
// get-status/index.json, which every web server shows for /get-status. A reading that is not known is null in all of them.
type compat struct {
	vesta, nvgpu, monitor       bool
	zone                        *time.Location
	now                         time.Time
	samples                     map[string][]snapshot.Sample
	states, nodes, agents, info [][]byte // by host; only those that are written
}

func newCompat(in render.Input) *compat {
	c := &compat{vesta: in.Site.Replaces("vesta"), nvgpu: in.Site.Replaces("nvgpu"), monitor: in.Site.Replaces("gpu-cluster-monitor"), zone: in.Site.Zone, now: in.Board.GeneratedAt}
	hosts := len(in.Board.Hosts)
	if hosts <= render.FullHistoryHosts {
		c.samples = in.Samples // those of a thousand hosts would be 100 MB in every generation
	}
	for _, list := range []*[][]byte{&c.states, &c.nodes, &c.agents, &c.info} {
		*list = make([][]byte, hosts)
	}
	return c
}

// host encodes host number i, and returns its own files. Hosts may be encoded at
// the same time.
func (c *compat) host(i int, h *board.Host) (files []render.File) {
	if c.vesta {
		c.states[i] = members(encode(object{{h.Name, vestaHost(h, c.zone, nil)}}))
		files = append(files, render.NewFile("states/"+h.Name+"/index.json", joined("{", c.states[i:i+1], "", "}\n")))
		if samples := c.samples[h.Name]; len(samples) > 0 {
			all := encode(object{{h.Name, vestaHost(h, c.zone, samples)}})
			files = append(files, render.NewFile("states/"+h.Name+"/samples.json", append(all, '\n')))
		}
	}
	if c.nvgpu {
		c.info[i] = members(encode(object{{h.Name, nvgpuInfo(h)}}))
		c.agents[i] = encode(nvgpuAgent(h, c.now))
		agent := joined("", c.agents[i:i+1], "", "\n")
		files = append(files, routed("gpu_status/"+h.Name, agent)...)
		files = append(files, render.NewFile("gpu_status/"+h.Name+"/gpu_status/index.json", agent))
	}
	if c.monitor {
		c.nodes[i] = encode(monitorNode(h, c.zone))
	}
	return files
}

// files are those of all hosts, once each is encoded.
func (c *compat) files() (files []render.File) {
	if c.vesta {
		files = append(files, render.NewFile("states/index.json", joined("{", c.states, ",", "}\n")))
	}
	if c.nvgpu {
		files = append(files, render.NewFile("compat/gpu_info.json", joined("{", c.info, ",", "}\n")))
		files = append(files, routed("cluster_status", joined("[", c.agents, ",", "]\n"))...)
		if len(c.agents) == 1 { // of several there is no telling which one is asked for
			files = append(files, render.NewFile("gpu_status/index.json", joined("", c.agents, "", "\n")))
		}
	}
	if c.monitor {
		files = append(files, routed("get-status", joined(`{"Nodes":[`, c.nodes, ",", "]}\n"))...)
	}
	return files
}

// routed is a file below compat/, and the same where its route was.
func routed(route string, content []byte) []render.File {
	return []render.File{render.NewFile("compat/"+route+".json", content), render.NewFile(route+"/index.json", content)}
}

// A monitorDoc is one element of compat/get-status.json.
type monitorDoc struct {
	Hostname   safe         `json:"hostname"`
	LastUpdate known        `json:"last_update"` // ISO 8601, without a zone
	IPs        [][2]safe    `json:"ips"`         // interface and address
	GPUs       []monitorGPU `json:"gpus"`
	Version    safe         `json:"version"` // the first GPU's name
	Status     bool         `json:"status"`
}

type monitorGPU struct {
	Index       int           `json:"index"`
	Name        known         `json:"name"`
	MemoryUsed  *int64        `json:"use_mem"`
	MemoryTotal *int64        `json:"tot_mem"`
	Utilization *int          `json:"utilize"`
	Temperature *int          `json:"temp"`
	Users       []monitorUser `json:"users"`
}

type monitorUser struct {
	PID      int    `json:"pid"`
	Username safe   `json:"username"`
	Memory   *int64 `json:"mem(MiB)"`
	Command  safe   `json:"command"`
}

// monitorNode keeps what is known of a host that is not up, with status false.
func monitorNode(h *board.Host, zone *time.Location) monitorDoc {
	doc := monitorDoc{Hostname: safe(h.Name), Status: h.State == board.Up || h.State == board.Maintenance}
	if !h.SnapshotAt.IsZero() {
		doc.LastUpdate = known(h.SnapshotAt.In(zone).Format("2006-01-02T15:04:05.000000"))
	}
	for nic, address := range addresses(h) {
		doc.IPs = append(doc.IPs, [2]safe{safe(nic), safe(address)})
	}
	for i := range h.GPUs {
		g := &h.GPUs[i]
		doc.Version = cmp.Or(doc.Version, safe(g.Name))
		gpu := monitorGPU{Index: g.Index, Name: known(g.Name), MemoryUsed: g.MemoryUsed, MemoryTotal: g.MemoryTotal, Utilization: g.UtilizationGPU, Temperature: g.Temperature}
		for _, p := range g.Computing() {
			gpu.Users = append(gpu.Users, monitorUser{p.PID, safe(p.Owner().String()), p.UsedMemory, safe(p.Program)})
		}
		doc.GPUs = append(doc.GPUs, gpu)
	}
	return doc
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

// An agentDoc is compat/gpu_status/<h>.json, the answer of one agent of nvgpu. A
// host that is not up has no GPUs and an error.
type agentDoc struct {
	Hostname safe       `json:"hostname"`
	GPUs     []agentGPU `json:"gpus"`
	Error    string     `json:"error,omitempty"`
}

type agentGPU struct {
	Type        known `json:"type"`
	Available   bool  `json:"is_available"`  // net of bookings, which those agents did not know
	PIDs        safe  `json:"pids"`          // separated by commas
	Users       safe  `json:"users"`         // separated by commas, ? for an unknown one
	Since       known `json:"running_since"` // "2 days ago"
	Utilization *int  `json:"utilization"`
	Clock       *int  `json:"clock_mhz"`
	Temperature *int  `json:"temperature"`
	Command     known `json:"cmd"` // the first program
}

func nvgpuAgent(h *board.Host, now time.Time) agentDoc {
	doc := agentDoc{Hostname: safe(h.Name)}
	switch h.State {
	case board.Never:
		doc.Error = "Host not available"
	case board.Stale, board.Down:
		doc.Error = "Connection timeout"
	case board.Up, board.Maintenance:
		for i := range h.GPUs {
			doc.GPUs = append(doc.GPUs, nvgpuGPU(&h.GPUs[i], now))
		}
	}
	return doc
}

func nvgpuGPU(g *board.GPU, now time.Time) agentGPU {
	var since time.Time
	var pids, users []string
	doc := agentGPU{Type: known(g.Name), Available: g.State == board.Free, Utilization: g.UtilizationGPU, Clock: g.ClockSM, Temperature: g.Temperature}
	for _, p := range g.Computing() {
		pids, users = append(pids, strconv.Itoa(p.PID)), append(users, cmp.Or(p.Person, "?"))
		doc.Command = cmp.Or(doc.Command, known(p.Program))
		if p.StartedAt != nil && (since.IsZero() || p.StartedAt.Before(since)) {
			since = p.StartedAt.Time
		}
	}
	if !since.IsZero() {
		doc.Since = known(ago(now.Sub(since)))
	}
	doc.PIDs, doc.Users = safe(strings.Join(pids, ",")), safe(strings.Join(users, ","))
	return doc
}

// ago is a length of time in words, as nvgpu's agents say it.
func ago(d time.Duration) string {
	const day = 24 * time.Hour
	for _, unit := range []struct {
		length time.Duration
		one    string
		many   string
	}{{365 * day, "a year", "years"}, {30 * day, "a month", "months"}, {7 * day, "a week", "weeks"}, {day, "a day", "days"}, {time.Hour, "an hour", "hours"}, {time.Minute, "a minute", "minutes"}} {
		switch n := d / unit.length; {
		case n == 1:
			return unit.one + " ago"
		case n > 1:
			return strconv.Itoa(int(n)) + " " + unit.many + " ago"
		}
	}
	return "just now"
}

// An infoDoc is one GPU in compat/gpu_info.json.
type infoDoc struct {
	Index       string  `json:"index"`
	MemoryTotal int64   `json:"mem_total"` // MiB
	MemoryUsed  int64   `json:"mem_used"`
	Percent     reading `json:"mem_used_percent"`
	Type        safe    `json:"type"`
	UUID        safe    `json:"uuid"`
}

// nvgpuInfo leaves out GPUs whose memory is not known: the shape has no word for it.
func nvgpuInfo(h *board.Host) []infoDoc {
	var docs []infoDoc
	for i := range h.GPUs {
		g := &h.GPUs[i]
		if g.State == board.Unknown || g.MemoryTotal == nil || g.MemoryUsed == nil || *g.MemoryTotal <= 0 {
			continue
		}
		docs = append(docs, infoDoc{
			strconv.Itoa(g.Index), *g.MemoryTotal, *g.MemoryUsed, reading(100 * float64(*g.MemoryUsed) / float64(*g.MemoryTotal)), safe(g.Name), safe(g.UUID),
		})
	}
	return docs
}
