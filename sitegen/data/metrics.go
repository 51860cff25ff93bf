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
	m.problems(b.Problems)
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
	count := func(what, help string, c board.Count) {
		for _, s := range board.States() {
			m.add("gpuboard_"+what, help+" in each state.", float64(c.ByState[s]), "state", string(s))
		}
		m.add("gpuboard_"+what+"_held_idle", help+" that are held and idle.", float64(c.HeldIdle))
	}
	count("gpus", "GPUs", b.Totals.GPUs)
	if b.Totals.Slices.All > 0 {
		count("slices", "MIG slices", b.Totals.Slices)
	}
	for _, s := range board.HostStates() {
		m.add("gpuboard_hosts", "Hosts in each state.", float64(b.Totals.ByHost[s]), "state", string(s))
	}
}

func (m metricsSet) models(b *board.Board) {
	for _, sum := range byModel(b) {
		what, help := "gpus", "GPUs"
		if sum.MIG {
			what, help = "slices", "MIG slices"
		}
		m.add("gpuboard_"+what+"_free", help+" that are free, by model, net of bookings.",
			float64(sum.Free), "model", sum.Name)
		m.add("gpuboard_"+what+"_known", help+" by model, whatever their state.",
			float64(sum.Total), "model", sum.Name)
	}
}

func (m metricsSet) users(b *board.Board) {
	users := slices.Clone(b.Users)
	slices.SortStableFunc(users, func(a, b board.User) int { return strings.Compare(a.Name, b.Name) })
	users = slices.CompactFunc(users, func(a, b board.User) bool { return a.Name == b.Name })
	for i := range users {
		u := &users[i]
		m.add("gpuboard_user_gpus_reserved", "GPUs that a person has booked now.", float64(u.Reserved), "user", u.Name)
		m.add("gpuboard_user_gpus_used", "GPUs that a person uses now, in fractions by share of memory.",
			metricsRound(u.Used), "user", u.Name)
		if u.Slices != (board.Holding{}) {
			m.add("gpuboard_user_slices_reserved", "MIG slices that a person has booked now.",
				float64(u.Slices.Reserved), "user", u.Name)
			m.add("gpuboard_user_slices_used", "MIG slices that a person uses now, in fractions by share of memory.",
				metricsRound(u.Slices.Used), "user", u.Name)
		}
		m.add("gpuboard_user_memory_used_bytes", "GPU memory that a person uses now.", float64(u.Memory)*bytesPerMiB,
			"user",
			u.Name)
	}
}

func (m metricsSet) problems(problems []snapshot.Problem) {
	m.add("gpuboard_health_problems", "Problems of this generation; health.json has them in words.",
		float64(len(problems)))
	counts := countByCode(problems)
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
		if label := g.Label(); !seen[label] {
			seen[label] = true
			m.row(h, g, now)
		}
	}
}

// row is a GPU or a slice. Slices have names of their own, so that nothing is counted twice in a sum over GPUs.
func (m metricsSet) row(h *board.Host, g *board.GPU, now time.Time) {
	what, name := "GPU", "GPU"
	labels := []string{"host", h.Name, "gpu", strconv.Itoa(g.Index)}
	info := []string{"uuid", g.UUID, "model", g.Name, "driver_version", h.DriverOf(g), "vendor", string(g.Maker())}
	if g.Slice != nil {
		what, name = "slice", "MIG slice"
		labels = append(labels, "slice", strconv.Itoa(g.Slice.Index))
		info = []string{"uuid", g.UUID, "profile", g.Slice.Profile, "model", g.Name, "vendor", string(g.Maker())}
	}
	prefix := "gpuboard_" + strings.ToLower(what) + "_"
	one := func(metric, help string, v float64, more ...string) {
		m.add(prefix+metric, help, v, append(slices.Clip(labels), more...)...)
	}
	one("info", "What the "+name+" is.", 1, info...)
	one("state", "1 for the state that the "+name+" is in.", 1, "state", string(g.State))
	booked := 0.0
	if g.Booking != nil {
		booked = 1
	}
	one("booked", "Whether a booking is in force.", booked)
	if g.State == board.Unknown {
		return
	}
	used, total := "Memory in use.", "Memory of the card."
	if g.Slice != nil {
		used, total = "Memory in use; compute instances of one GPU instance all show that of it.", "Memory of the slice."
	}
	if g.MemoryUsed != nil {
		one("memory_used_bytes", used, float64(*g.MemoryUsed)*bytesPerMiB)
	}
	if g.MemoryTotal != nil {
		one("memory_total_bytes", total, float64(*g.MemoryTotal)*bytesPerMiB)
	}
	for _, d := range snapshot.Descriptors() {
		value, known := d.Of(&g.Readings)
		switch {
		case !known || d.Metric == "":
		case d.Unit == snapshot.Percent:
			one(d.Metric, d.Help+", 0 to 1.", value/100)
		default:
			one(d.Metric, d.Help+".", value)
		}
	}
	if x := g.XID; x != nil {
		one("xid_timestamp_seconds", "When the driver last reported an error of it, and which.", float64(x.At.Unix()),
			"xid", strconv.Itoa(x.Code))
	}
	if g.State == board.Lost {
		return
	}
	one("processes", "Processes on the "+what+".", float64(len(g.Processes)))
	for _, who := range slices.Compact(slices.Sorted(slices.Values(safes(namesOf(g.Left()))))) {
		one("left", "1 for whoever left the memory of a stuck "+what+".", 1, "user", string(who))
	}
	if len(g.Slices) == 0 {
		one("idle_seconds", "For how long it has been held and idle; 0 when it is not.",
			float64(int64(g.IdleFor(now).Seconds())))
	}
}

// bytesPerMiB is for readings in MiB.
const bytesPerMiB = 1 << 20

func metricsRound(v float64) float64 { return float64(int64(v*10000+0.5)) / 10000 }
