package board

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// LostFor is how long a GPU stays on the board after a full answer of the driver did not list it.
const LostFor = 30 * 24 * time.Hour

// Marks is what one generation remembers for the next. It is plain JSON, and the
// zero value remembers nothing.
type Marks struct {
	// GPUs is each row of the board. The keys are GPUs as [MarkKey] names them.
	GPUs map[string]Mark `json:"gpus,omitempty"`
	// Bookings is the identity of the card that a booking by number means.
	Bookings map[string]string `json:"bookings,omitempty"`
}

// A Mark is one remembered row.
type Mark struct {
	State State `json:"state"`
	// Since is when the state began, zero when that was before anybody looked.
	Since time.Time `json:"since,omitzero"`
	// Seen is when it was first seen.
	Seen time.Time `json:"seen"`
	// Card is what the GPU is; nil for one that was expected and never seen.
	Card *Card `json:"card,omitempty"`
	// First is when the driver first listed the card.
	First time.Time `json:"first,omitzero"`
	// Last is what was last known of it.
	Last *LastSeen `json:"last,omitempty"`
	// Lost is when a full answer of the driver first lacked it, zero for never.
	Lost time.Time `json:"lost,omitzero"`
}

// A Card is what a GPU is, whatever it does. Index is that when the driver last listed it.
type Card struct {
	Index       int                  `json:"index"`
	Vendor      snapshot.Vendor      `json:"vendor,omitempty"`
	UUID        string               `json:"uuid,omitempty"`
	PCIBusID    string               `json:"pci_bus_id,omitempty"`
	Name        string               `json:"name,omitempty"`
	MemoryTotal *int64               `json:"memory_total_mib,omitempty"`
	MIGMode     string               `json:"mig_mode,omitempty"`
	MIGDevices  []snapshot.MIGDevice `json:"mig_devices,omitempty"` // without readings
}

func cardOf(g *snapshot.GPU) *Card {
	c := &Card{
		Index: g.Index, Vendor: g.Vendor, UUID: g.UUID, PCIBusID: g.PCIBusID, Name: g.Name, MemoryTotal: g.MemoryTotal,
		MIGMode: g.MIGMode,
	}
	for _, d := range g.MIGDevices {
		d.MemoryUsed = nil
		c.MIGDevices = append(c.MIGDevices, d)
	}
	return c
}

// MarkKey names a GPU over time, among those of all hosts.
func MarkKey(host string, g *GPU) string { return host + "/" + g.Key() }

// Key names a GPU of a host over time, as history does: by its identity where it has one, else by its index. A slice
// without a UUID has none.
func (g *GPU) Key() string {
	if id := g.Identity(); id != "" && (g.Slice == nil || g.UUID != "") {
		return id
	}
	return "index:" + g.Label()
}

// A place is one row before its state is decided. A place that is not listed
// stands for a GPU that was known, or that the inventory expects.
type place struct {
	host   *Host
	gpu    snapshot.GPU
	listed bool  // the driver lists it
	known  *Mark // what is remembered of it; nil for nothing
	lost   time.Time
	// repeated are the UUIDs of it and its slices that others have, too; they are not in gpu.
	repeated []string
}

// missing reports whether the driver answered in full and did not list it.
func (p *place) missing() bool { return !p.lost.IsZero() }

// uuids are the UUIDs of the GPU and of its slices, so that they can be changed.
func (p *place) uuids() []*string {
	uuids := []*string{&p.gpu.UUID}
	for i := range p.gpu.MIGDevices {
		uuids = append(uuids, &p.gpu.MIGDevices[i].UUID)
	}
	return uuids
}

// sure reports whether the number of the row is the one that the driver gave.
func (p *place) sure() bool { return p.listed || p.known != nil && p.known.Card.Index == p.gpu.Index }

// places lists the rows of a host by index: what the driver lists, what it is
// known to have besides, and what the inventory expects. They are never more
// than [snapshot.MaxGPUs].
func (m *merger) places(h *Host, inv inventory.Host, snap *snapshot.Snapshot) []place {
	var lostNow time.Time // since when a GPU is lost that was not before
	if snap.GPUsComplete {
		lostNow = earliest(snap.CollectedAt.Time, m.Now) // a clock may be ahead
	}
	known := m.facts(h.Name).known
	rows, taken := pair(snap.GPUs, known)
	nameByIndex(rows, snap.RepeatedUUIDs())
	var kept, lost []place
	for i := range known {
		k := &known[i]
		if taken[i] {
			continue
		}
		p := place{gpu: k.Card.gpu(), known: k, lost: cmp.Or(k.Lost, lostNow)}
		switch {
		case !p.missing():
			kept = append(kept, p)
		case m.Now.Sub(p.lost) > LostFor || snap.GPUsComplete && replaced(k, rows, known):
		default:
			lost = append(lost, p)
		}
	}
	rows = append(rows, newest(kept, snapshot.MaxGPUs-len(rows))...)
	room := snapshot.MaxGPUs - len(rows)
	if inv.ExpectedGPUs > 0 {
		room = max(0, min(room, inv.ExpectedGPUs-len(rows)))
	}
	rows = append(rows, newest(lost, room)...)
	for len(rows) < min(inv.ExpectedGPUs, snapshot.MaxGPUs) {
		rows = append(rows, place{gpu: snapshot.GPU{Index: -1, Health: snapshot.HealthUnknown}, lost: lostNow})
	}
	number(rows)
	slices.SortStableFunc(rows, func(x, y place) int { return cmp.Compare(x.gpu.Index, y.gpu.Index) })
	for i := range rows {
		rows[i].host = h
	}
	return rows
}

// pair finds for each GPU that is listed what is known of it: by UUID, else by
// its place on the bus, else by index where nothing better is told. What the
// driver does not say of a GPU that it lost is filled in.
func pair(listed []snapshot.GPU, known []Mark) (rows []place, taken []bool) {
	taken = make([]bool, len(known))
	for _, g := range listed {
		rows = append(rows, place{gpu: g, listed: true})
	}
	match := func(same func(g *snapshot.GPU, c *Card) bool) {
		for i := range rows {
			p := &rows[i]
			for j := range known {
				if p.known == nil && !taken[j] && same(&p.gpu, known[j].Card) {
					p.known, taken[j] = &known[j], true
				}
			}
		}
	}
	untold := func(x, y string) bool { return x == "" || y == "" }
	match(func(g *snapshot.GPU, c *Card) bool { return g.UUID != "" && g.UUID == c.UUID })
	match(func(g *snapshot.GPU, c *Card) bool { return untold(g.UUID, c.UUID) && sameBus(g.PCIBusID, c.PCIBusID) })
	match(func(g *snapshot.GPU, c *Card) bool {
		return untold(g.UUID, c.UUID) && untold(g.PCIBusID, c.PCIBusID) && g.Index == c.Index && g.Vendor == c.Vendor
	})
	for i := range rows {
		g := &rows[i].gpu
		if k := rows[i].known; k != nil {
			g.UUID, g.PCIBusID, g.Name = cmp.Or(g.UUID, k.Card.UUID), cmp.Or(g.PCIBusID, k.Card.PCIBusID),
				cmp.Or(g.Name, k.Card.Name)
			if g.MemoryTotal == nil && g.Health != snapshot.HealthOK {
				g.MemoryTotal = k.Card.MemoryTotal
			}
		}
	}
	return rows, taken
}

// nameByIndex takes away the UUIDs that name several GPUs or slices, so that indices name these.
func nameByIndex(rows []place, repeated map[string]bool) {
	for i := range rows {
		p := &rows[i]
		p.gpu.MIGDevices = slices.Clone(p.gpu.MIGDevices)
		for _, uuid := range p.uuids() {
			if repeated[*uuid] {
				p.repeated = append(p.repeated, *uuid)
				*uuid = ""
			}
		}
	}
}

func sameBus(x, y string) bool { return x != "" && snapshot.BusID(x) == snapshot.BusID(y) }

// replaced reports whether another card was put in the place of one that is
// gone: the driver lists as many as there were when it was last seen, and one
// that is newer sits where it sat.
func replaced(gone *Mark, rows []place, known []Mark) bool {
	before := 0
	for i := range known {
		if k := &known[i]; !k.First.After(gone.lastAt()) && (k.Lost.IsZero() || k.Lost.After(gone.lastAt())) {
			before++
		}
	}
	return len(rows) >= before && slices.ContainsFunc(rows, func(p place) bool {
		return p.listed && p.gpu.UUID != "" && gone.Card.UUID != "" && sameBus(p.gpu.PCIBusID, gone.Card.PCIBusID) &&
			(p.known == nil || p.known.First.After(gone.lastAt()))
	})
}

// newest keeps the rows that were seen last.
func newest(rows []place, most int) []place {
	slices.SortStableFunc(rows, func(x, y place) int { return y.known.lastAt().Compare(x.known.lastAt()) })
	return rows[:min(len(rows), max(0, most))]
}

// number gives each unlisted row its former index if that is not taken, else the first that is not.
// The listed rows come first, and keep theirs.
func number(rows []place) {
	used := map[int]bool{}
	var others []*place
	for i := range rows {
		p := &rows[i]
		if !p.listed && (p.gpu.Index < 0 || used[p.gpu.Index]) {
			others = append(others, p)
			continue
		}
		used[p.gpu.Index] = true
	}
	next := 0
	for _, p := range others {
		for used[next] {
			next++
		}
		used[next], p.gpu.Index = true, next
	}
}

// lastAt is when the card was last seen, as far as that is known.
func (k *Mark) lastAt() time.Time {
	if k.Last != nil {
		return latest(k.First, k.Last.At)
	}
	return k.First
}

// gpu is the card without readings.
func (c *Card) gpu() snapshot.GPU {
	return snapshot.GPU{Index: c.Index, Vendor: c.Vendor, UUID: c.UUID, PCIBusID: c.PCIBusID, Name: c.Name,
		MemoryTotal: c.MemoryTotal, MIGMode: c.MIGMode, MIGDevices: slices.Clone(c.MIGDevices),
		Health: snapshot.HealthUnknown}
}

// absent makes the row of a GPU that the driver does not list.
func (m *merger) absent(h *Host, p *place) GPU {
	g := GPU{GPU: p.gpu, ShortName: m.shortName(p.gpu.Name), Missing: p.missing()}
	g.MIGDevices = nil
	state, reason := Unknown, ReasonUnasked
	if g.Missing {
		g.Health = snapshot.HealthLost
		state, reason = Lost, ReasonMissing
	}
	for i := range p.gpu.MIGDevices {
		s := NewSlice(&g, &p.gpu.MIGDevices[i])
		s.Missing = g.Missing
		g.Slices = append(g.Slices, m.decided(h, s, state, reason))
	}
	if p.known != nil {
		g.Last = p.known.Last
	}
	return m.decided(h, g, state, reason)
}

// recall adds to a listed row what was last known, and returns what to remember of the row.
func (m *merger) recall(h *Host, g *GPU, p *place) Mark {
	var mark Mark
	if k := p.known; k != nil {
		mark.Card, mark.First, mark.Last = k.Card, k.First, k.Last
	}
	mark.Lost = p.lost
	if !p.listed {
		return mark
	}
	mark.Card = cardOf(&p.gpu)
	mark.First = cmp.Or(mark.First, h.SnapshotAt)
	switch {
	case g.Last != nil && g.Last.State != Unknown:
		mark.Last = g.Last
	case g.State != Unknown && g.State != Drained:
		mark.Last = g.lastSeen(h.SnapshotAt)
	case mark.Last != nil:
		g.Last = mark.Last
	}
	return mark
}

// repeated says which GPUs have UUIDs that others have, too.
func (h *Host) repeated(places []place) {
	const most = 8
	var named []string
	for i := range places {
		for _, uuid := range places[i].repeated {
			named = append(named, fmt.Sprintf("GPU %d (%s)", places[i].gpu.Index, uuid))
		}
	}
	if len(named) > 0 {
		h.problem("gpu:same-uuid", "several GPUs or slices have the same UUID and are named by index: "+
			strings.Join(named[:min(len(named), most)], ", "))
	}
}

// missing says which GPUs a full answer lacks.
func (h *Host) missing(inv inventory.Host, places []place) {
	const most = 4
	var gone []string
	listed, missing := 0, 0
	for i := range places {
		p := &places[i]
		switch {
		case p.listed:
			listed++
		case p.missing():
			missing++
			if p.known != nil && len(gone) < most {
				gone = append(gone, fmt.Sprintf("GPU %d (%s)",
					p.known.Card.Index, cmp.Or(p.gpu.UUID, p.gpu.PCIBusID, "without a UUID")))
			}
		}
	}
	if missing == 0 || h.State != Up {
		return
	}
	message := "the driver lists " + itoa(listed) + " GPUs"
	if inv.ExpectedGPUs > 0 {
		message = "the inventory expects " + itoa(inv.ExpectedGPUs) + " GPUs and the driver lists " + itoa(listed)
	}
	if len(gone) > 0 {
		message += ", and " + strings.Join(gone, ", ") + " no more"
	}
	h.problem("gpu:missing", message)
}
