package board

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"gpuboard/internal/booking"
)

// Count sets the totals, the models and what is free, after hosts were made, read or changed.
func (b *Board) Count() {
	for i := range b.Hosts {
		here := b.Hosts[i : i+1]
		here[0].Free, here[0].Models = totals(here).Free(), models(here)
	}
	b.Totals, b.Models = totals(b.Hosts), models(b.Hosts)
	b.FreeNow, b.NextFree = freeNow(b.Hosts), nextFree(b.Hosts)
}

func totals(hosts []Host) Totals {
	t := Totals{Hosts: len(hosts), ByState: map[State]int{}, ByHost: map[HostState]int{}}
	for i := range hosts {
		t.ByHost[hosts[i].State]++
	}
	for _, g := range units(hosts) {
		t.GPUs++
		t.ByState[g.State]++
		if !g.IdleSince.IsZero() {
			t.HeldIdle++
		}
	}
	return t
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
		gib  int
	}
	found := map[key]*Model{}
	sizes := map[string][]int{} // by name, those that are told
	for _, g := range units(hosts) {
		if g.Name == "" && g.UUID == "" && g.PCIBusID == "" {
			continue // expected, and nothing is known of it
		}
		k := key{g.Name, WholeGiB(g.MemoryTotal)}
		model := found[k]
		if model == nil {
			model = &Model{Name: g.ShortName, FullName: g.Name, MemoryTotal: g.MemoryTotal}
			found[k] = model
			if k.gib > 0 {
				sizes[k.name] = append(sizes[k.name], k.gib)
			}
		}
		model.Total++
		if g.State == Free {
			model.Free++
		}
	}
	list := make([]Model, 0, len(found))
	for k, model := range found {
		if same := sizes[k.name]; k.gib == 0 && len(same) == 1 {
			// A lost card tells no memory. It is one of those, not a kind of its own.
			found[key{k.name, same[0]}].Total += model.Total
			found[key{k.name, same[0]}].Free += model.Free
			delete(found, k)
		}
	}
	for _, model := range found {
		list = append(list, *model)
	}
	slices.SortFunc(list, func(x, y Model) int {
		return cmp.Or(y.Free-x.Free, cmp.Compare(orZero(y.MemoryTotal), orZero(x.MemoryTotal)), NaturalCompare(x.FullName, y.FullName))
	})
	return list
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
		return cmp.Or(cmp.Compare(orZero(y.GPU.MemoryTotal), orZero(x.GPU.MemoryTotal)), NaturalCompare(x.GPU.ShortName, y.GPU.ShortName))
	})
	return list
}

// nextFree is the GPU whose bookings end first. One that somebody else uses does not count:
// nobody knows when that job ends.
func nextFree(hosts []Host) *Unit {
	var next *Unit
	for h, g := range units(hosts) {
		if g.State != Booked && g.State != InUse {
			continue
		}
		if g.Booking == nil || g.FreeFrom.IsZero() || next != nil && !g.FreeFrom.Before(next.GPU.FreeFrom) {
			continue
		}
		next = &Unit{h, g}
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
					user(name).Reserved++
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

// sortUsers sorts by bookings and present use, then by the mean use of the last two hours.
func sortUsers(list []User) {
	weight := func(u User) float64 { return float64(u.Reserved) + 1.5*u.Used + 0.15*orZero(u.Mean2h) }
	slices.SortFunc(list, func(x, y User) int {
		return cmp.Or(cmp.Compare(weight(y), weight(x)), NaturalCompare(x.Name, y.Name))
	})
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
		if total > 0 {
			u.Used += float64(memory[person]) / float64(total)
		} else {
			u.Used += 1 / float64(len(people))
		}
		u.Memory += memory[person]
		u.Processes += processes[person]
		if !g.IdleSince.IsZero() {
			u.IdleGPUs++
		}
		if n := len(u.Where); n > 0 && u.Where[n-1].Host == host {
			if here := &u.Where[n-1]; here.GPUs[len(here.GPUs)-1] != g.Index { // another slice of it
				here.GPUs = append(here.GPUs, g.Index)
			}
		} else {
			u.Where = append(u.Where, UserHost{Host: host, GPUs: []int{g.Index}})
		}
	}
}
