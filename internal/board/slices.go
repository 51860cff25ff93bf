package board

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

// A Slice says which part of a partitioned GPU a row is.
type Slice struct {
	Index             int // among the GPU's slices
	GPUInstanceID     *int
	ComputeInstanceID *int
	Profile           string // "1g.10gb", "" when not told
	GPUUUID           string // of the GPU that it is a part of
}

// noInstance is why the processes of slices are not known where the driver does not name their instance.
const noInstance = "no instance"

// Rows yields every GPU, each followed by its slices.
func (h *Host) Rows() iter.Seq[*GPU] {
	return func(yield func(*GPU) bool) {
		for i := range h.GPUs {
			g := &h.GPUs[i]
			if !yield(g) {
				return
			}
			for j := range g.Slices {
				if !yield(&g.Slices[j]) {
					return
				}
			}
		}
	}
}

// Units yields what people can have: every GPU, or its slices where it is partitioned, but none that
// counts at another host.
func (h *Host) Units() iter.Seq[*GPU] {
	return func(yield func(*GPU) bool) {
		for g := range h.Rows() {
			if len(g.Slices) == 0 && g.CountedAt == "" && !yield(g) {
				return
			}
		}
	}
}

// Units yields what people can have on the hosts of the board, in their order.
func (b *Board) Units() iter.Seq2[*Host, *GPU] { return units(b.Hosts) }

// units yields what people can have on all hosts.
func units(hosts []Host) iter.Seq2[*Host, *GPU] {
	return func(yield func(*Host, *GPU) bool) {
		for i := range hosts {
			for g := range hosts[i].Units() {
				if !yield(&hosts[i], g) {
					return
				}
			}
		}
	}
}

// Unread is the problem because of which no GPU of the host can be read; nil if one can be, if
// the host's news is old, or if no problem is known.
func (h *Host) Unread() *snapshot.Problem {
	for g := range h.Units() {
		if g.State != Unknown || g.Reason == ReasonStale {
			return nil
		}
	}
	if i := slices.IndexFunc(h.Problems, snapshot.Problem.AboutGPUs); i >= 0 {
		return &h.Problems[i]
	}
	if len(h.Problems) > 0 {
		return &h.Problems[0]
	}
	return nil
}

// Label is the name of a row on its host: "2", or "2:0" for slice 0 of GPU 2, as NVIDIA's tools write it.
func (g *GPU) Label() string { return label(g.Index, g.SliceIndex()) }

// Labels are what is booked of the host, as [GPU.Label] has it; nil for all of it,
// or where the UUID that is booked is not there.
func (b *Booking) Labels() []string {
	var labels []string
	for _, i := range b.GPUs {
		labels = append(labels, label(i, b.Slice))
	}
	return labels
}

func label(gpu int, slice *int) string {
	if slice == nil {
		return itoa(gpu)
	}
	return itoa(gpu) + ":" + itoa(*slice)
}

// SliceIndex is which of its GPU's slices a row is; nil for a GPU.
func (g *GPU) SliceIndex() *int {
	if g.Slice == nil {
		return nil
	}
	return &g.Slice.Index
}

// CoveredBy reports whether a booking of the target is for this GPU, or for the GPU of this slice.
func (g *GPU) CoveredBy(t booking.Target) bool {
	if t.Covers(g.Index, g.UUID) {
		return true
	}
	return g.Slice != nil && t.UUID != "" && t.UUID == g.Slice.GPUUUID
}

// Target is how this GPU or slice is booked; false for a slice without a UUID.
func (g *GPU) Target() (booking.Target, bool) {
	if g.Slice == nil {
		return booking.Target{Index: g.Index}, true
	}
	return booking.Target{UUID: g.UUID, Index: -1}, g.UUID != ""
}

// FreeSlices is how many of the GPU's slices are free.
func (g *GPU) FreeSlices() int {
	n := 0
	for i := range g.Slices {
		if g.Slices[i].State == Free {
			n++
		}
	}
	return n
}

// OwnState reports whether the state of a partitioned GPU is not that of its slices.
func (g *GPU) OwnState() bool {
	switch g.State {
	case Lost, Drained:
		return true
	}
	return g.State == Unknown && slices.Contains([]string{ReasonStale, ReasonUnasked, ReasonNoSlices}, g.Reason)
}

// Unplaced are the processes of a partitioned GPU that are known to be on none of its slices.
func (g *GPU) Unplaced() []Process {
	type place struct{ pid, gpu, compute int }
	of := func(p *Process) place {
		return place{p.PID, *cmp.Or(p.GPUInstanceID, new(-1)), *cmp.Or(p.ComputeInstanceID, new(-1))}
	}
	placed := map[place]bool{}
	for i := range g.Slices {
		for j := range g.Slices[i].Processes {
			placed[of(&g.Slices[i].Processes[j])] = true
		}
	}
	var list []Process
	for i := range g.Processes {
		if !placed[of(&g.Processes[i])] {
			list = append(list, g.Processes[i])
		}
	}
	return list
}

// NewSlice is one MIG device of a GPU as a row, or one partition of AMD's, without what people make of it.
// The reading of utilization is the whole GPU's, and so are its heat and its power.
func NewSlice(g *GPU, d *snapshot.MIGDevice) GPU {
	short, name := cmp.Or(d.Profile, "MIG"), "MIG "+d.Profile
	if g.Maker() != snapshot.NVIDIA {
		short = cmp.Or(d.Profile, "partition")
		name = short
	}
	s := GPU{ShortName: snapshot.Text(strings.TrimSpace(g.ShortName+" "+short), snapshot.MaxNameBytes)}
	s.GPU = snapshot.GPU{
		Index: g.Index, Vendor: g.Vendor, UUID: d.UUID, PCIBusID: g.PCIBusID,
		Name:        snapshot.Text(strings.TrimSpace(g.Name+" "+name), snapshot.MaxNameBytes),
		MemoryTotal: d.MemoryTotal, MemoryUsed: d.MemoryUsed, ProcessesUnknown: g.ProcessesUnknown,
		ECC: g.ECC, RemappedRows: g.RemappedRows, Health: g.Health, HealthReason: g.HealthReason,
	}
	s.Slice = &Slice{
		Index: d.Index, GPUInstanceID: d.GPUInstanceID, ComputeInstanceID: d.ComputeInstanceID, Profile: d.Profile,
		GPUUUID: g.UUID,
	}
	return s
}

// gpu makes the row of a GPU, with those of its slices where it is partitioned.
func (m *merger) gpu(h *Host, snap *snapshot.Snapshot, sg snapshot.GPU, procs []snapshot.Process) GPU {
	g := GPU{GPU: sg, ShortName: m.shortName(sg.Name)}
	g.MIGDevices = nil
	if g.ProcessesUnknown == "" && !snap.ProcessesKnownOf(&sg) {
		g.ProcessesUnknown = "not read"
	}
	whole := g
	g = m.row(h, g, procs)
	if sg.MIGMode == "enabled" || len(sg.MIGDevices) > 0 {
		g.Slices = m.slices(h, &whole, sg.MIGDevices, procs)
		g.sumUp()
	}
	return g
}

// slices makes the rows of a GPU's slices. g is as the driver told it.
func (m *merger) slices(h *Host, g *GPU, devices []snapshot.MIGDevice, procs []snapshot.Process) []GPU {
	on := make([][]snapshot.Process, len(devices))
	for _, p := range procs {
		if i := snapshot.MIGDeviceOf(devices, &p); i >= 0 {
			on[i] = append(on[i], p)
		} else {
			g.ProcessesUnknown = cmp.Or(g.ProcessesUnknown, noInstance)
		}
	}
	if g.Maker() != snapshot.NVIDIA && g.Works() && len(procs) == 0 {
		g.ProcessesUnknown = cmp.Or(g.ProcessesUnknown, "on none of them")
	}
	rows := make([]GPU, len(devices))
	for i := range devices {
		s := NewSlice(g, &devices[i])
		told := s.MemoryUsed
		others := beside(&s, devices, on, i)
		row := m.row(h, s, on[i])
		if row.MemoryUsed != nil {
			row.MemoryUsed = told
		}
		if others && row.State == Stuck {
			row.State, row.Reason = Unknown, ReasonShared
		}
		rows[i] = row
	}
	return rows
}

// beside takes the processes of the other instances off the memory of slice i, and
// reports whether one of them may hold some of what is left. Compute instances of
// one GPU instance all show its memory.
func beside(s *GPU, devices []snapshot.MIGDevice, on [][]snapshot.Process, i int) bool {
	theirs, others := int64(0), false
	for j := range devices {
		a, b := devices[i].GPUInstanceID, devices[j].GPUInstanceID
		if i == j || a != nil && b != nil && *a != *b {
			continue
		}
		for _, p := range on[j] {
			if p.Alive == nil || *p.Alive {
				others = true
			}
			if a != nil && b != nil && p.Alive != nil && *p.Alive && p.UsedMemory != nil {
				theirs += *p.UsedMemory
			}
		}
	}
	if readable(s.MemoryUsed, s.MemoryTotal) {
		s.MemoryUsed = new(max(0, *s.MemoryUsed-theirs))
	}
	return others
}

// sumUp derives the state of a partitioned GPU from its slices, unless it has one of its own.
func (g *GPU) sumUp() {
	if g.Last != nil && len(g.Slices) > 0 {
		g.Last.State = g.Slices[mostUsed(g.Slices, func(s *GPU) State { return s.Last.State })].Last.State
	}
	if g.OwnState() {
		return
	}
	g.State, g.Reason = Unknown, ReasonNoSlices
	if len(g.Slices) > 0 {
		s := &g.Slices[mostUsed(g.Slices, func(s *GPU) State { return s.State })]
		g.State, g.Reason = s.State, s.Reason
	}
	g.Since, g.IdleSince, g.FreeUntil = time.Time{}, time.Time{}, time.Time{}
	if g.State == Free && g.Next != nil {
		g.FreeUntil = g.Next.From
	}
}

// mostUsed is the slice whose state is that of its GPU: free only when all are,
// and booked, which is not in use, only when each is known not to be.
func mostUsed(list []GPU, of func(*GPU) State) int {
	order := []State{Contested, InUse, Busy, Stuck, Lost, Unknown, Booked, Drained, Free}
	first := 0
	for i := range list {
		if slices.Index(order, of(&list[i])) < slices.Index(order, of(&list[first])) {
			first = i
		}
	}
	return first
}
