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
func metricsFile(in render.Input) []byte {
	m := metricsSet{}
	b := in.Board
	m.add("gpuboard_build_info", "The generator, by its version.", 1, "version", in.Site.Version)
	m.add("gpuboard_build_timestamp_seconds", "When this was generated.", float64(b.GeneratedAt.Unix()))
	m.totals(b)
	m.models(b)
	m.users(b)
	m.problems(healthProblems(in))
	for i := range b.Hosts {
		m.host(&b.Hosts[i], b.GeneratedAt)
	}
	return m.text()
}

// A metricsSet has the text of each metric by its name: help, type and samples.
type metricsSet map[string][]byte

// add appends one sample of a gauge; labels are names and values in turn.
func (m metricsSet) add(name, help string, value float64, labels ...string) {
	text := m[name]
	if text == nil {
		text = fmt.Appendf(nil, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
	}
	text = append(text, name...)
	for i := 0; i+1 < len(labels); i += 2 {
		between := byte(',')
		if i == 0 {
			between = '{'
		}
		text = append(text, between)
		text = append(text, labels[i]...)
		text = append(text, '=', '"')
		text = append(text, metricsLabel(labels[i+1])...)
		text = append(text, '"')
	}
	if len(labels) > 0 {
		text = append(text, '}')
	}
	text = append(text, ' ')
	if whole := int64(value); float64(whole) == value {
		text = strconv.AppendInt(text, whole, 10)
	} else {
		text = strconv.AppendFloat(text, value, 'g', -1, 64)
	}
	m[name] = append(text, '\n')
}

func metricsLabel(s string) string {
	s = snapshot.Text(s, snapshot.MaxTextBytes)
	if strings.ContainsAny(s, `\"`) {
		s = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s)
	}
	return s
}

// text is all metrics, by name.
func (m metricsSet) text() []byte {
	var all []byte
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[name]...)
	}
	return all
}

func (m metricsSet) totals(b *board.Board) {
	for _, s := range board.States() {
		m.add("gpuboard_gpus", "GPUs in each state.", float64(b.Totals.ByState[s]), "state", string(s))
	}
	for _, s := range board.HostStates() {
		m.add("gpuboard_hosts", "Hosts in each state.", float64(b.Totals.ByHost[s]), "state", string(s))
	}
	m.add("gpuboard_gpus_held_idle", "GPUs that are held and idle.", float64(b.Totals.HeldIdle))
}

func (m metricsSet) models(b *board.Board) {
	total, free := byModel(b)
	for _, name := range slices.Sorted(maps.Keys(total)) {
		m.add("gpuboard_gpus_free", "Free GPUs by model, net of bookings.", float64(free[name]), "model", name)
		m.add("gpuboard_gpus_known", "GPUs by model, whatever their state.", float64(total[name]), "model", name)
	}
}

func (m metricsSet) users(b *board.Board) {
	users := slices.Clone(b.Users)
	slices.SortStableFunc(users, func(a, b board.User) int { return strings.Compare(a.Name, b.Name) })
	users = slices.CompactFunc(users, func(a, b board.User) bool { return a.Name == b.Name })
	for i := range users {
		u := &users[i]
		m.add("gpuboard_user_gpus_reserved", "GPUs that a person has booked now.", float64(u.Reserved), "user", u.Name)
		m.add("gpuboard_user_gpus_used", "GPUs that a person uses now, in fractions by share of memory.", metricsRound(u.Used), "user", u.Name)
		m.add("gpuboard_user_memory_used_bytes", "GPU memory that a person uses now.", float64(u.Memory)*bytesPerMiB, "user", u.Name)
	}
}

func (m metricsSet) problems(problems []snapshot.Problem) {
	counts := map[string]int{}
	for i := range problems {
		counts[problems[i].Code]++
	}
	m.add("gpuboard_health_problems", "Problems of this generation; health.json has them in words.", float64(len(problems)))
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		m.add("gpuboard_problems", "Problems of this generation by code.", float64(counts[code]), "code", code)
	}
}

// host is what is known of a host. A GPU or slice that has the label of another is
// left out: a second sample with the same labels would void the whole scrape.
func (m metricsSet) host(h *board.Host, now time.Time) {
	m.add("gpuboard_host_state", "1 for the state that the host is in.", 1, "host", h.Name, "state", string(h.State))
	if !h.SnapshotAt.IsZero() {
		m.add("gpuboard_snapshot_timestamp_seconds", "When the newest good snapshot of the host was collected.",
			float64(h.SnapshotAt.UnixMilli())/1000, "host", h.Name)
	}
	seen := map[string]bool{}
	for g := range h.Rows() {
		label := g.Label()
		switch {
		case seen[label]:
		case g.Slice != nil:
			m.slice(h, g, now)
		default:
			m.gpu(h, g, now)
		}
		seen[label] = true
	}
}

// A metricsReading is a gauge that has a sample where it is known.
type metricsReading struct {
	name, help string
	value      *float64
}

// row is what GPUs and slices have in common. Slices have names of their own, so that
// nothing is counted twice in a sum over GPUs.
func (m metricsSet) row(g *board.GPU, what string, now time.Time, labels []string, readings ...metricsReading) {
	prefix := "gpuboard_" + strings.ToLower(what) + "_"
	one := func(name, help string, v float64) { m.add(prefix+name, help, v, labels...) }
	booked := 0.0
	if g.Booking != nil {
		booked = 1
	}
	one("booked", "Whether a booking is in force.", booked)
	if g.State == board.Unknown {
		return
	}
	for _, r := range readings {
		if r.value != nil {
			one(r.name, r.help, *r.value)
		}
	}
	if g.State == board.Lost {
		return
	}
	one("processes", "Processes on the "+what+".", float64(len(g.Processes)))
	if len(g.Slices) == 0 {
		one("idle_seconds", "For how long it has been held and idle; 0 when it is not.", float64(int64(g.IdleFor(now).Seconds())))
	}
}

func (m metricsSet) slice(h *board.Host, g *board.GPU, now time.Time) {
	labels := []string{"host", h.Name, "gpu", strconv.Itoa(g.Index), "slice", strconv.Itoa(g.Slice.Index)}
	of := func(more ...string) []string { return slices.Concat(labels, more) }
	m.add("gpuboard_slice_info", "What the MIG slice is.", 1, of("uuid", g.UUID, "profile", g.Slice.Profile, "model", g.Name)...)
	m.add("gpuboard_slice_state", "1 for the state that the MIG slice is in.", 1, of("state", string(g.State))...)
	m.row(g, "slice", now, labels,
		metricsReading{"memory_used_bytes", "Memory in use; compute instances of one GPU instance all show that of it.", scaled(g.MemoryUsed, bytesPerMiB)},
		metricsReading{"memory_total_bytes", "Memory of the slice.", scaled(g.MemoryTotal, bytesPerMiB)})
}

func (m metricsSet) gpu(h *board.Host, g *board.GPU, now time.Time) {
	labels := []string{"host", h.Name, "gpu", strconv.Itoa(g.Index)}
	of := func(more ...string) []string { return slices.Concat(labels, more) }
	m.add("gpuboard_gpu_info", "What the GPU is.", 1, of("uuid", g.UUID, "model", g.Name, "driver_version", h.Driver)...)
	m.add("gpuboard_gpu_state", "1 for the state that the GPU is in.", 1, of("state", string(g.State))...)
	m.row(g, "GPU", now, labels,
		metricsReading{"utilization_ratio", "Utilization, 0 to 1.", ratio(g.UtilizationGPU)},
		metricsReading{"memory_used_bytes", "Memory in use.", scaled(g.MemoryUsed, bytesPerMiB)},
		metricsReading{"memory_total_bytes", "Memory of the card.", scaled(g.MemoryTotal, bytesPerMiB)},
		metricsReading{"temperature_celsius", "Temperature of the chip.", scaled(g.Temperature, 1)},
		metricsReading{"power_draw_watts", "Power drawn now.", g.PowerDraw},
		metricsReading{"power_limit_watts", "Power that it may draw.", g.PowerLimit},
		metricsReading{"pcie_lanes", "Lanes of the PCIe link now.", scaled(g.PCIeWidth, 1)},
		metricsReading{"pcie_lanes_max", "Lanes that the GPU can have where it is.", scaled(g.PCIeWidthMax, 1)})
	if x := g.XID; x != nil && g.State != board.Unknown {
		m.add("gpuboard_gpu_xid_timestamp_seconds", "When the driver last reported an error of it, and which.", float64(x.At.Unix()),
			of("xid", strconv.Itoa(x.Code))...)
	}
}

// bytesPerMiB is for readings in MiB.
const bytesPerMiB = 1 << 20

// scaled is a reading times factor; nil for nil.
func scaled[N int | int64](v *N, factor float64) *float64 {
	return orNull(v, func(v *N) float64 { return float64(*v) * factor })
}

// ratio is a reading in percent as a number from 0 to 1; nil for nil.
func ratio(percent *int) *float64 {
	return orNull(percent, func(v *int) float64 { return float64(*v) / 100 })
}

func metricsRound(v float64) float64 { return float64(int64(v*10000+0.5)) / 10000 }
