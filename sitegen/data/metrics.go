package data

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// metricsFile is the board as Prometheus text 0.0.4. It has no sample
// timestamps (a scrape is stamped when it happens; how old the data is has
// metrics of its own), base units only, and neither pids nor programs, which
// would make a new series of every job. What is not known has no sample.
// The same file may be dropped in node_exporter's textfile directory.
func metricsFile(in render.Input, made []*hostData) [][]byte {
	m := &metricsSet{families: map[string]*metricsFamily{}}
	b := in.Board
	m.add("gpuboard_build_info", "The generator, by its version.", 1, "version", in.Site.Version)
	m.add("gpuboard_build_timestamp_seconds", "When this was generated.", float64(b.GeneratedAt.Unix()))
	m.totals(b)
	m.models(b)
	m.users(b)
	m.problems(healthProblems(in))
	for name, f := range metricsOfHosts(made) {
		m.family(name, f.help).hosts = f.samples
	}
	for i := range b.Hosts {
		m.idle(&b.Hosts[i], b.GeneratedAt)
	}
	return m.parts()
}

// metricsOfHosts joins the samples of all hosts by the name of the metric.
func metricsOfHosts(made []*hostData) map[string]*metricsFamily {
	m := &metricsSet{families: map[string]*metricsFamily{}}
	for _, d := range made {
		for _, part := range d.metrics {
			f := m.family(part.name, part.help)
			if f.samples == nil {
				f.samples = make([]byte, 0, len(made)*(len(part.samples)+16))
			}
			f.samples = append(f.samples, part.samples...)
		}
	}
	return m.families
}

type metricsFamily struct {
	name, help string
	samples    []byte
	hosts      []byte // samples of hosts
}

type metricsSet struct {
	families map[string]*metricsFamily
	labels   []byte
}

func (m *metricsSet) family(name, help string) *metricsFamily {
	f := m.families[name]
	if f == nil {
		f = &metricsFamily{name: name, help: help}
		m.families[name] = f
	}
	return f
}

// add appends one sample of a gauge; labels are names and values in turn.
func (m *metricsSet) add(name, help string, value float64, labels ...string) {
	f := m.family(name, help)
	m.labels = m.labels[:0]
	for i := 0; i+1 < len(labels); i += 2 {
		if i > 0 {
			m.labels = append(m.labels, ',')
		}
		m.labels = append(append(append(m.labels, labels[i]...), '=', '"'), metricsLabel(labels[i+1])...)
		m.labels = append(m.labels, '"')
	}
	f.samples = append(f.samples, name...)
	if len(m.labels) > 0 {
		f.samples = append(append(append(f.samples, '{'), m.labels...), '}')
	}
	f.samples = append(f.samples, ' ')
	if whole := int64(value); float64(whole) == value {
		f.samples = strconv.AppendInt(f.samples, whole, 10)
	} else {
		f.samples = strconv.AppendFloat(f.samples, value, 'g', -1, 64)
	}
	f.samples = append(f.samples, '\n')
}

func metricsLabel(s string) string {
	s = snapshot.Text(s, snapshot.MaxTextBytes)
	if strings.ContainsAny(s, `\"`) {
		s = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s)
	}
	return s
}

func (m *metricsSet) parts() [][]byte {
	parts := make([][]byte, 0, 2*len(m.families))
	for _, name := range slices.Sorted(maps.Keys(m.families)) {
		f := m.families[name]
		head := fmt.Appendf(nil, "# HELP %s %s\n# TYPE %s gauge\n", name, f.help, name)
		parts = append(parts, append(head, f.samples...), f.hosts)
	}
	return parts
}

func (m *metricsSet) totals(b *board.Board) {
	for _, s := range board.States() {
		m.add("gpuboard_gpus", "GPUs in each state.", float64(b.Totals.ByState[s]), "state", string(s))
	}
	for _, s := range []board.HostState{board.Up, board.Stale, board.Down, board.Never, board.Maintenance} {
		m.add("gpuboard_hosts", "Hosts in each state.", float64(b.Totals.ByHost[s]), "state", string(s))
	}
	m.add("gpuboard_gpus_held_idle", "GPUs that are held and idle.", float64(b.Totals.HeldIdle))
}

func (m *metricsSet) models(b *board.Board) {
	total, free := map[string]int{}, map[string]int{}
	for i := range b.Models {
		total[b.Models[i].Name] += b.Models[i].Total
		free[b.Models[i].Name] += b.Models[i].Free
	}
	for _, name := range slices.Sorted(maps.Keys(total)) {
		m.add("gpuboard_gpus_free", "Free GPUs by model, net of bookings.", float64(free[name]), "model", name)
		m.add("gpuboard_gpus_known", "GPUs by model, whatever their state.", float64(total[name]), "model", name)
	}
}

func (m *metricsSet) users(b *board.Board) {
	users := slices.Clone(b.Users)
	slices.SortStableFunc(users, func(a, b board.User) int { return strings.Compare(a.Name, b.Name) })
	users = slices.CompactFunc(users, func(a, b board.User) bool { return a.Name == b.Name })
	for i := range users {
		u := &users[i]
		m.add("gpuboard_user_gpus_reserved", "GPUs that a person has booked now.", float64(u.Reserved), "user", u.Name)
		m.add("gpuboard_user_gpus_used", "GPUs that a person uses now, in fractions by share of memory.", metricsRound(u.Used), "user", u.Name)
		m.add("gpuboard_user_memory_used_bytes", "GPU memory that a person uses now.", metricsMiB(u.Memory), "user", u.Name)
	}
}

func (m *metricsSet) problems(problems []snapshot.Problem) {
	counts := map[string]int{}
	for i := range problems {
		counts[problems[i].Code]++
	}
	m.add("gpuboard_health_problems", "Problems of this generation; health.json has them in words.", float64(len(problems)))
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		m.add("gpuboard_problems", "Problems of this generation by code.", float64(counts[code]), "code", code)
	}
}

// metricsHost is all of a host that does not change while it has no news.
func metricsHost(h *board.Host) []*metricsFamily {
	m := &metricsSet{families: map[string]*metricsFamily{}}
	m.add("gpuboard_host_state", "1 for the state that the host is in.", 1, "host", h.Name, "state", string(h.State))
	if !h.SnapshotAt.IsZero() {
		m.add("gpuboard_snapshot_timestamp_seconds", "When the newest good snapshot of the host was collected.",
			float64(h.SnapshotAt.UnixMilli())/1000, "host", h.Name)
	}
	metricsGPUs(h, func(g *board.GPU) { m.gpu(h, g) })
	return slices.Collect(maps.Values(m.families))
}

// metricsGPUs calls do for each GPU and slice: a second sample with the same labels
// would void the whole scrape.
func metricsGPUs(h *board.Host, do func(*board.GPU)) {
	seen := map[string]bool{}
	for g := range h.Rows() {
		if label := g.Label(); !seen[label] {
			seen[label] = true
			do(g)
		}
	}
}

// idle is what grows with every generation.
func (m *metricsSet) idle(h *board.Host, now time.Time) {
	metricsGPUs(h, func(g *board.GPU) {
		switch idle := float64(int64(g.IdleFor(now).Seconds())); {
		case g.State == board.Unknown || g.State == board.Lost || len(g.Slices) > 0:
		case g.Slice != nil:
			m.add("gpuboard_slice_idle_seconds", "For how long it has been held and idle; 0 when it is not.", idle, metricsSlice(h, g)...)
		default:
			m.add("gpuboard_gpu_idle_seconds", "For how long it has been held and idle; 0 when it is not.", idle, "host", h.Name, "gpu", strconv.Itoa(g.Index))
		}
	})
}

func metricsSlice(h *board.Host, g *board.GPU) []string {
	return []string{"host", h.Name, "gpu", strconv.Itoa(g.Index), "slice", strconv.Itoa(g.Slice.Index)}
}

// slice is what is known of a MIG slice. Its metrics have names of their own, so
// that nothing is counted twice in a sum over GPUs.
func (m *metricsSet) slice(h *board.Host, g *board.GPU) {
	labels := metricsSlice(h, g)
	one := func(name, help string, v float64, more ...string) {
		m.add(name, help, v, append(labels[:6:6], more...)...)
	}
	one("gpuboard_slice_info", "What the MIG slice is.", 1, "uuid", g.UUID, "profile", g.Slice.Profile, "model", g.Name)
	one("gpuboard_slice_state", "1 for the state that the MIG slice is in.", 1, "state", string(g.State))
	booked := 0.0
	if g.Booking != nil {
		booked = 1
	}
	one("gpuboard_slice_booked", "Whether a booking is in force.", booked)
	if g.State == board.Unknown {
		return
	}
	if g.MemoryUsed != nil {
		one("gpuboard_slice_memory_used_bytes", "Memory in use; compute instances of one GPU instance all show that of it.", metricsMiB(*g.MemoryUsed))
	}
	if g.MemoryTotal != nil {
		one("gpuboard_slice_memory_total_bytes", "Memory of the slice.", metricsMiB(*g.MemoryTotal))
	}
	if g.State != board.Lost {
		one("gpuboard_slice_processes", "Processes on the slice.", float64(len(g.Processes)))
	}
}

func (m *metricsSet) gpu(h *board.Host, g *board.GPU) {
	if g.Slice != nil {
		m.slice(h, g)
		return
	}
	gpu := strconv.Itoa(g.Index)
	one := func(name, help string, v float64) { m.add(name, help, v, "host", h.Name, "gpu", gpu) }
	m.add("gpuboard_gpu_info", "What the GPU is.", 1, "host", h.Name, "gpu", gpu, "uuid", g.UUID, "model", g.Name, "driver_version", h.Driver)
	m.add("gpuboard_gpu_state", "1 for the state that the GPU is in.", 1, "host", h.Name, "gpu", gpu, "state", string(g.State))
	booked := 0.0
	if g.Booking != nil {
		booked = 1
	}
	one("gpuboard_gpu_booked", "Whether a booking is in force.", booked)
	if g.State == board.Unknown {
		return
	}
	if g.UtilizationGPU != nil {
		one("gpuboard_gpu_utilization_ratio", "Utilization, 0 to 1.", metricsRound(float64(*g.UtilizationGPU)/100))
	}
	if g.MemoryUsed != nil {
		one("gpuboard_gpu_memory_used_bytes", "Memory in use.", metricsMiB(*g.MemoryUsed))
	}
	if g.MemoryTotal != nil {
		one("gpuboard_gpu_memory_total_bytes", "Memory of the card.", metricsMiB(*g.MemoryTotal))
	}
	if g.Temperature != nil {
		one("gpuboard_gpu_temperature_celsius", "Temperature of the chip.", float64(*g.Temperature))
	}
	if g.PowerDraw != nil {
		one("gpuboard_gpu_power_draw_watts", "Power drawn now.", *g.PowerDraw)
	}
	if g.PowerLimit != nil {
		one("gpuboard_gpu_power_limit_watts", "Power that it may draw.", *g.PowerLimit)
	}
	if g.PCIeWidth != nil {
		one("gpuboard_gpu_pcie_lanes", "Lanes of the PCIe link now.", float64(*g.PCIeWidth))
	}
	if g.PCIeWidthMax != nil {
		one("gpuboard_gpu_pcie_lanes_max", "Lanes that the GPU can have where it is.", float64(*g.PCIeWidthMax))
	}
	if x := g.XID; x != nil {
		m.add("gpuboard_gpu_xid_timestamp_seconds", "When the driver last reported an error of it, and which.", float64(x.At.Unix()),
			"host", h.Name, "gpu", gpu, "xid", strconv.Itoa(x.Code))
	}
	if g.State != board.Lost {
		one("gpuboard_gpu_processes", "Processes on the GPU.", float64(len(g.Processes)))
	}
}

func metricsMiB(mib int64) float64   { return float64(mib) * (1 << 20) }
func metricsRound(v float64) float64 { return float64(int64(v*10000+0.5)) / 10000 }
