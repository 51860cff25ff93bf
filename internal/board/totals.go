package board

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpuboard/internal/booking"
)

// Count sets the totals, the models and what is free, after hosts were made, read or changed.
func (b *Board) Count() {
	for i := range b.Hosts {
		here := b.Hosts[i : i+1]
		here[0].Totals, here[0].Models = totals(here), models(here)
	}
	b.Totals, b.Models = totals(b.Hosts), models(b.Hosts)
	b.FreeNow, b.NextFree = freeNow(b.Hosts), nextFree(b.Hosts)
}

func totals(hosts []Host) Totals {
	t := Totals{Hosts: len(hosts), ByHost: map[HostState]int{}}
	t.GPUs.ByState, t.Slices.ByState = map[State]int{}, map[State]int{}
	for i := range hosts {
		t.ByHost[hosts[i].State]++
	}
	for _, g := range units(hosts) {
		c := &t.GPUs
		if g.Slice != nil {
			c = &t.Slices
		}
		c.All++
		c.ByState[g.State]++
		if !g.IdleSince.IsZero() {
			c.HeldIdle++
		}
	}
	return t
}

// FreeOf counts what is free, for a sentence that goes on with "free": "4 of 36 GPUs and 1 of 4 MIG slices".
func (t Totals) FreeOf() string {
	gpus := fmt.Sprintf("%d of %s", t.GPUs.Free(), Number(t.GPUs.All, "GPU"))
	mig := fmt.Sprintf("%d of %s", t.Slices.Free(), Number(t.Slices.All, "MIG slice"))
	switch {
	case t.Slices.All == 0:
		return gpus
	case t.GPUs.All == 0:
		return mig
	}
	return gpus + " and " + mig
}

// WholeGiB is a memory size as cards are sold; 0 when it is not known. What one model reports differs by some MiB
// from driver to driver.
func WholeGiB(mib *int64) int {
	return int(math.Round(float64(orZero(mib)) / 1024))
}

// models counts GPUs by name and memory; those with most free come first.
func models(hosts []Host) []Model {
	type key struct {
		name string
		mig  bool
		gib  int
	}
	found := map[key]*Model{}
	sizes := map[key][]int{} // those that are told
	for h, g := range units(hosts) {
		if g.Name == "" && g.UUID == "" && g.PCIBusID == "" {
			continue // expected, and nothing is known of it
		}
		k := key{g.Name, g.Slice != nil, WholeGiB(g.MemoryTotal)}
		model := found[k]
		if model == nil {
			model = &Model{Name: g.ShortName, FullName: g.Name, MemoryTotal: g.MemoryTotal, MIG: k.mig}
			found[k] = model
			if k.gib > 0 {
				kind := key{k.name, k.mig, 0}
				sizes[kind] = append(sizes[kind], k.gib)
			}
		}
		model.Total++
		if g.State == Free {
			model.Free++
		} else if !g.FreeFrom.IsZero() {
			model.Next = model.Next.with(
				&Next{At: g.FreeFrom, Count: 1, Host: h.Name, GPU: g.Index, Slice: g.SliceIndex()})
		}
	}
	list := make([]Model, 0, len(found))
	for k, model := range found {
		if same := sizes[k]; k.gib == 0 && len(same) == 1 {
			// A lost card tells no memory. It is one of those, not a kind of its own.
			found[key{k.name, k.mig, same[0]}].add(model)
			delete(found, k)
		}
	}
	for _, model := range found {
		list = append(list, *model)
	}
	slices.SortFunc(list, func(x, y Model) int {
		return cmp.Or(
			y.Free-x.Free,
			cmp.Compare(orZero(y.MemoryTotal), orZero(x.MemoryTotal)),
			NaturalCompare(x.FullName, y.FullName),
		)
	})
	return list
}

// AddModels adds models to a sum, in which those that are the same are one.
func AddModels(sum, more []Model, same func(x, y Model) bool) []Model {
	for _, m := range more {
		i := slices.IndexFunc(sum, func(s Model) bool { return same(s, m) })
		if i < 0 {
			sum = append(sum, m)
			continue
		}
		sum[i].add(&m)
	}
	return sum
}

func (m *Model) add(other *Model) {
	m.Total += other.Total
	m.Free += other.Free
	m.Next = m.Next.with(other.Next)
}

// with is what comes first, and all of it that comes at the same time. It changes neither.
func (n *Next) with(other *Next) *Next {
	switch {
	case n == nil || other != nil && other.At.Before(n.At):
		return other
	case other == nil || n.At.Before(other.At):
		return n
	}
	both := *n
	both.Count += other.Count
	return &both
}

// orZero is a reading, or zero where it is not known.
func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// freeNow lists the free GPUs, largest memory first, then model, host and index.
func freeNow(hosts []Host) []Unit {
	var list []Unit
	for h, g := range units(hosts) {
		if g.State == Free {
			list = append(list, Unit{h, g})
		}
	}
	slices.SortStableFunc(list, func(x, y Unit) int {
		return cmp.Or(
			cmp.Compare(orZero(y.GPU.MemoryTotal), orZero(x.GPU.MemoryTotal)),
			NaturalCompare(x.GPU.ShortName, y.GPU.ShortName),
		)
	})
	return list
}

// nextFree is the GPU whose bookings end first. One that somebody else uses does not count:
// nobody knows when that job ends.
func nextFree(hosts []Host) *Unit {
	var next *Unit
	for h, g := range units(hosts) {
		ends := (g.State == Booked || g.State == InUse) && g.Booking != nil && !g.FreeFrom.IsZero()
		if ends && (next == nil || g.FreeFrom.Before(next.GPU.FreeFrom)) {
			next = &Unit{h, g}
		}
	}
	return next
}

// users sums up who holds what, over all hosts.
func (m *merger) users(hosts []Host) []User {
	found := map[string]*User{}
	user := func(name string) *User {
		key := strings.ToLower(name)
		u := found[key]
		if u == nil {
			u = &User{Name: name}
			found[key] = u
		}
		return u
	}
	for i := range hosts {
		h, booked := &hosts[i], map[string]bool{} // the first maxPeople of them
		for g := range h.Units() {
			for _, name := range g.Bookers() {
				if booked[name] || len(booked) < maxPeople {
					booked[name] = true
					user(name).of(g).Reserved++
				}
			}
			addUse(user, h.Name, g)
		}
	}
	for _, past := range m.Recent.Users {
		if who := m.Who(past.Name); who != "" {
			addMeans(user(who), past.Mean2h, past.Mean24h, past.Mean1w)
		}
	}
	list := make([]User, 0, len(found))
	for _, u := range found {
		list = append(list, *u)
	}
	sortUsers(list)
	return list
}

// Bookers are the people whose bookings are in force on the GPU, each once.
func (g *GPU) Bookers() []string {
	var names []string
	if g.Booking == nil {
		return nil
	}
	seen := map[string]bool{}
	for _, b := range append([]Booking{*g.Booking}, g.Others...) {
		if key := strings.ToLower(b.Name); b.ByPerson() && b.Kind != string(booking.Maintenance) && !seen[key] {
			seen[key] = true
			names = append(names, b.Name)
		}
	}
	return names
}

// sortUsers sorts by bookings and present use of GPUs, with the mean use of the last two hours, then by those of
// slices.
func sortUsers(list []User) {
	weight := func(h Holding) float64 { return float64(h.Reserved) + 1.5*h.Used }
	gpus := func(u User) float64 { return weight(u.Holding) + 0.15*orZero(u.Mean2h) }
	slices.SortFunc(list, func(x, y User) int {
		bySlices := cmp.Compare(weight(y.Slices), weight(x.Slices))
		return cmp.Or(cmp.Compare(gpus(y), gpus(x)), bySlices, NaturalCompare(x.Name, y.Name))
	})
}

// of returns the holding that counts a GPU or a slice.
func (u *User) of(g *GPU) *Holding {
	if g.Slice != nil {
		return &u.Slices
	}
	return &u.Holding
}

// add adds the holding of a user who has the same name on a masked site.
func (h *Holding) add(other Holding) {
	h.Reserved += other.Reserved
	h.Used += other.Used
	h.Idle += other.Idle
}

// addMeans adds the past of one Unix user to that of the person, who may have several.
func addMeans(u *User, mean2h, mean24h, mean1w *float64) {
	u.Mean2h, u.Mean24h, u.Mean1w = sum(u.Mean2h, mean2h), sum(u.Mean24h, mean24h), sum(u.Mean1w, mean1w)
}

// sum adds two numbers; nil is one that is not known.
func sum(a, b *float64) *float64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	default:
		return new(*a + *b)
	}
}

// addUse shares a GPU among the people who use it: by memory, or equally where that is not known.
func addUse(user func(string) *User, host string, g *GPU) {
	people, total := g.Users(), int64(0)
	memory, processes := map[string]int64{}, map[string]int{}
	for _, p := range g.Computing() {
		if p.Person == "" {
			continue
		}
		total += orZero(p.UsedMemory)
		memory[p.Person] += orZero(p.UsedMemory)
		processes[p.Person]++
	}
	for _, person := range people {
		u := user(person)
		held := u.of(g)
		if total > 0 {
			held.Used += float64(memory[person]) / float64(total)
		} else {
			held.Used += 1 / float64(len(people))
		}
		u.Memory += memory[person]
		u.Processes += processes[person]
		if !g.IdleSince.IsZero() {
			held.Idle++
		}
		if n := len(u.Where); n == 0 || u.Where[n-1].Host != host {
			u.Where = append(u.Where, UserHost{Host: host})
		}
		here := &u.Where[len(u.Where)-1]
		if g.Slice != nil {
			here.Slices = append(here.Slices, g.Label())
		} else {
			here.GPUs = append(here.GPUs, g.Index)
		}
	}
}
