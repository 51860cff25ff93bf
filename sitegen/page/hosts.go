package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// renderHosts renders the pages of every host in parallel, and returns their cards in order.
func (v *view) renderHosts() ([]*templates.Card, error) {
	hosts := v.in.Board.Hosts
	cards := make([]*templates.Card, len(hosts))
	err := render.InParallel(len(hosts), func(i int) error {
		cards[i] = v.lineOf(&hosts[i])
		return v.putHost(&hosts[i])
	})
	return cards, err
}

// putHost renders the pages of one host.
func (v *view) putHost(h *board.Host) error {
	p := v.hostPage(h)
	var beside *templates.HostHistoryPage
	kept := p.Past && v.in.History.Kept[h.Name]
	if p.Past {
		p.Charts, beside = v.hostCharts(h, kept)
	}
	if err := v.put(p.Frame, templates.Host(p)); err != nil {
		return err
	}
	switch {
	case kept:
		return v.in.Put(render.File{Path: render.ChartsPath(v.dir, h.Name), Kept: true})
	case beside != nil:
		return v.put(beside.Frame, templates.HostHistory(beside))
	}
	return nil
}

// hostPage is the page of one host, without its charts.
func (v *view) hostPage(h *board.Host) *templates.HostPage {
	const root = "../../"
	p := &templates.HostPage{
		Frame:    v.frame("host", hostHref("", h.Name), h.SnapshotAt, max(h.Interval, v.in.Board.Every())),
		Card:     v.card(h, whole, v.ref(h), root),
		Calendar: v.files(root) + "hosts/" + h.Name + ".ics",
		JSON:     v.files(root) + "api/v1/hosts/" + h.Name + ".json",
		Past:     v.in.History != nil,
	}
	p.Description = strings.Trim(v.words.models(h.Models)+": "+v.stateWords(&h.Totals), ": ")
	p.Note = v.markdown(v.in.HostNotes[h.Name])
	add := func(name, value string) {
		if value != "" {
			p.Facts = append(p.Facts, templates.Fact{Name: name, Value: value})
		}
	}
	add(v.words.T("fact.driver"), render.Clean(h.Driver))
	add(v.words.T("fact.cuda"), render.Clean(h.CUDA))
	for _, t := range h.Tools {
		add(render.Clean(t.Name), render.Clean(board.ToolSays(t, v.words.T("fact.driver"))))
	}
	add(v.words.T("fact.os"), render.Clean(h.Node.OS))
	add(v.words.T("fact.kernel"), render.Clean(h.Node.Kernel))
	if h.Node.UptimeSeconds != nil {
		add(v.words.T("fact.uptime"), v.words.length(time.Duration(*h.Node.UptimeSeconds)*time.Second))
	}
	for _, m := range p.Card.Meters {
		add(strings.TrimSpace(v.words.T("meter."+m.Key)+" "+m.Name), m.More)
	}
	add(v.words.T("fact.datacenter"), render.Clean(h.Datacenter))
	for _, i := range h.Node.Interfaces {
		add(render.Clean(i.Name), render.Clean(strings.Join(i.Addrs, ", ")))
	}
	for _, u := range h.Node.DiskUsers {
		add(render.Clean(u.User)+" · "+render.Clean(u.Path), v.words.quantity(v.words.gib(u.Used), "gib"))
	}
	return p
}

// facts lists what else is known about a GPU, for its host's page.
func (v *view) facts(g *board.GPU) []templates.Fact {
	var f []templates.Fact
	w := v.words
	add := func(name, value string) {
		if value != "" {
			f = append(f, templates.Fact{Name: w.T("fact." + name), Value: render.Clean(value)})
		}
	}
	add("uuid", g.UUID)
	add("pci", g.PCIBusID)
	add("product", g.Name)
	for _, d := range snapshot.Descriptors() {
		if value, known := d.Of(&g.Readings); known && d.Fact != "" {
			add(d.Fact, w.quantity(strconv.FormatFloat(value, 'f', 0, 64), d.Unit))
		}
	}
	if x := g.XID; x != nil {
		add("xid", strconv.Itoa(x.Code)+" · "+w.full(x.At.Time).Text+" · "+render.XIDMeaning(w.list, x.Code))
	}
	add("link", strings.Trim(w.number(g.PCIeWidth, "")+" / "+w.number(g.PCIeWidthMax, ""), " /"))
	add("clocks", strings.Trim(w.number(g.ClockSM, "megahertz")+" · "+w.number(g.ClockMemory, "megahertz"), " ·"))
	add("pstate", g.PState)
	add("throttle", strings.Join(g.ThrottleReasons, ", "))
	if g.MemoryShared {
		add("memory", w.list["fact.shared"])
	}
	if x := g.Fabric; x != nil {
		parts := []string{x.State, x.Status}
		if x.CliqueID != nil {
			parts = append(parts, strings.ReplaceAll(w.list["fact.clique"], "{id}", strconv.Itoa(*x.CliqueID)))
		}
		parts = append(parts, x.ClusterUUID)
		add("fabric", strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · "))
	}
	add("mig", g.MIGMode)
	if e := g.ECC; e != nil {
		add("ecc", strings.TrimSpace(e.Mode+" "+counts(e.CorrectedVolatile, e.UncorrectedVolatile)))
		add("ecc-life", counts(e.CorrectedAggregate, e.UncorrectedAggregate))
	}
	add("retired", w.number(g.RetiredPages, ""))
	if m := g.RemappedRows; m != nil {
		text := strings.Trim(w.number(m.Correctable, "")+" / "+w.number(m.Uncorrectable, ""), " /")
		if m.Pending != nil && *m.Pending {
			text += " · " + w.list["fact.pending"]
		}
		if m.Failure != nil && *m.Failure {
			text += " · " + w.list["fact.failure"]
		}
		add("remapped", text)
	}
	return f
}

// number is a reading with its unit, if there is one; "" if it is not known.
func (w *words) number(n *int, unit string) string {
	if n == nil {
		return ""
	}
	return strings.TrimSpace(w.quantity(strconv.Itoa(*n), unit)) // what has no unit has no sign of one
}

// counts is corrected / uncorrected.
func counts(corrected, uncorrected *int64) string {
	one := func(n *int64) string {
		if n == nil {
			return "–"
		}
		return strconv.FormatInt(*n, 10)
	}
	if corrected == nil && uncorrected == nil {
		return ""
	}
	return one(corrected) + " / " + one(uncorrected)
}

const meterWidth = 46

// meters are the host's CPU, RAM and disks; the fullest disk alone unless full.
func (w *words) meters(h *board.Host, full bool) []templates.Meter {
	var out []templates.Meter
	add := func(key, name, more string, share float64) {
		if math.IsNaN(share) || math.IsInf(share, 0) || share < 0 {
			return
		}
		out = append(out, templates.Meter{
			Key: key, Name: name, More: more, Over: share > 0.9,
			Text:  strconv.Itoa(int(math.Round(100 * min(share, 99)))),
			Width: strconv.FormatFloat(math.Round(meterWidth*min(1, share)*10)/10, 'f', -1, 64),
		})
	}
	n := &h.Node
	if share, ok := n.LoadShare(); ok {
		add("cpu", "", fmt.Sprintf("%s / %d", w.float(*n.Load1, 1), *n.Cores), share)
	}
	if n.MemoryUsed != nil && n.MemoryTotal != nil && *n.MemoryTotal > 0 {
		add("ram", "", w.quantity(fmt.Sprintf("%d / %d", *n.MemoryUsed/1024, *n.MemoryTotal/1024), "gib"),
			float64(*n.MemoryUsed)/float64(*n.MemoryTotal))
	}
	used := func(d snapshot.Disk) float64 { return float64(d.Used) / float64(max(1, d.Total)) }
	disks := slices.DeleteFunc(slices.Clone(n.Disks), func(d snapshot.Disk) bool { return d.Total <= 0 })
	slices.SortStableFunc(disks, func(x, y snapshot.Disk) int { return cmp.Compare(used(y), used(x)) })
	if !full {
		disks = disks[:min(1, len(disks))]
	}
	for _, d := range disks {
		add("disk", render.Clean(d.Mount), w.quantity(fmt.Sprintf("%d / %d", d.Used/1024, d.Total/1024), "gib"),
			used(d))
		if len(n.Disks) > 1 && full && len(out) > 0 {
			out[len(out)-1].Label = render.Clean(d.Mount)
		}
	}
	return out
}

// What follows the family in a product's name: the form factor, the memory.
var variant = snapshot.Pattern(`[- ](SXM\d?|PCIE|PCIe|NVL|HBM\d?e?|\d+ ?GB)\b.*$`)

// migProfile is how NVIDIA names the sizes of MIG slices: 1g.10gb, 1c.2g.20gb; MIG for an unknown one.
var migProfile = snapshot.Pattern(` (MIG|(\d+c\.)?\d+g\.\d+gb\S*)$`)

// models says how many there are of each model: "8 × H100 80 GB · 2 × A100 40 GB".
func (w *words) models(list []board.Model) string {
	texts := make([]string, len(list))
	for i, m := range list {
		texts[i] = fmt.Sprintf("%d × %s", m.Total, w.model(m.Name, m.MemoryTotal))
	}
	return strings.Join(texts, " · ")
}

// familyOf is the family of a model, with its memory where there are several sizes of that family.
func (w *words) familyOf(short string, memory *int64, sizes map[string]int) string {
	if name := family(short); sizes[name] < 2 {
		return name
	}
	return w.model(short, memory)
}

// model is a GPU's family and rounded memory: "H100 80 GB" of "H100 80GB HBM3".
func (w *words) model(short string, memory *int64) string {
	name := family(short)
	if memory == nil || migProfile().MatchString(name) && !strings.HasSuffix(name, " MIG") { // which tells the memory
		return name
	}
	return strings.TrimSpace(name + " " + w.quantity(strconv.Itoa(board.WholeGiB(memory)), "gb"))
}

func family(short string) string {
	name := render.Clean(strings.TrimSpace(short))
	if profile := migProfile().FindString(name); profile != "" && profile != name {
		return family(strings.TrimSuffix(name, profile)) + profile
	}
	if cut := variant().ReplaceAllString(name, ""); cut != "" {
		return cut
	}
	return name
}
