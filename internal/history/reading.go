package history

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
	"sort"

	"gpuboard/internal/snapshot"
)

// A reading is one sample of the boot that is going on: names are numbers of the host's
// own dictionary, and what was not known is none. It is exported to JSON alone.
type reading struct {
	At  int64 // ms since 1970
	Seq uint64
	// Host is the values of the host, each and one; 0 is not known, as of readings that were kept before there were any.
	Host [oFields / 2]int32
	GPUs []gpuReading
}

const none = -1

type gpuReading struct {
	GPU    uint32
	Values [sFields]int32 // or none
	// Users is nil when the processes were not known.
	Users []userMemory
}

// The values of a sample of one GPU, in their order.
const (
	sUtil  = iota // %
	sTemp         // °C + tempShift
	sMem          // MiB
	sPower        // W
	sFields
)

type userMemory struct {
	User   uint32
	Memory int32 // MiB
}

// tempShift keeps degrees below zero out of the way of none.
const tempShift = 100

// Bounds of one sample, beside those of package snapshot.
const (
	maxUsersPerGPU = 128
	maxMemory      = 1 << 30 // MiB
	maxPower       = 1 << 20 // W
	maxLoad        = 1 << 20 // %
)

// inOrder compares two samples, which are the same at 0.
func inOrder(a, b reading) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Seq, b.Seq)) }

func bootHash(boot string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(boot))
	return h.Sum64()
}

// between returns the part of a sorted list with from <= at < to.
func between(rs []reading, from, to int64) []reading {
	i := sort.Search(len(rs), func(i int) bool { return rs[i].At >= from })
	j := i + sort.Search(len(rs)-i, func(k int) bool { return rs[i+k].At >= to })
	return rs[i:j]
}

// read makes a reading of a sample. Values that cannot be (105 %, a negative
// memory) become unknown. GPUs and users that the host's dictionary has no room
// for are left out, or become the nameless user. GPUs that count elsewhere are left out, too.
func (h *host) read(s *snapshot.Sample, elsewhere map[string]bool) reading {
	r := reading{At: s.At.UnixMilli(), Seq: s.Seq}
	r.Host[oLoad/2] = above(s.Load, 0, maxLoad) + 1
	if mib := above(s.MemoryUsed, 0, maxMemory); mib >= 0 {
		r.Host[oMem/2] = (mib+HostMemoryUnit/2)/HostMemoryUnit + 1
	}
	n := min(len(s.GPUs), snapshot.MaxGPUs)
	r.GPUs = make([]gpuReading, 0, n)
	for i := range s.GPUs[:n] {
		g := &s.GPUs[i]
		if elsewhere[g.UUID] {
			continue
		}
		id, ok := h.gpus.id(gpuName(g))
		if !ok {
			continue
		}
		k := gpuReading{GPU: id, Values: [sFields]int32{
			sUtil: above(g.Utilization, 0, 100), sTemp: above(g.Temperature, -tempShift, 300),
			sMem: above(g.MemoryUsed, 0, maxMemory), sPower: above(g.Power, 0, maxPower),
		}}
		if g.Users != nil {
			k.Users = make([]userMemory, 0, min(len(g.Users), maxUsersPerGPU))
			for _, u := range g.Users[:cap(k.Users)] {
				id, _ := h.users.id(u.User)
				k.addUser(userMemory{id, int32(min(max(u.Memory, 0), maxMemory))})
			}
		}
		r.GPUs = append(r.GPUs, k)
	}
	slices.SortStableFunc(r.GPUs, func(a, b gpuReading) int { return cmp.Compare(a.GPU, b.GPU) })
	// A GPU that is named twice counts once.
	r.GPUs = slices.CompactFunc(r.GPUs, func(a, b gpuReading) bool { return a.GPU == b.GPU })
	return r
}

// above is by how much a value is more than least; none where it is not known, or
// cannot be.
func above[N int | int64 | float64](v *N, least, most N) int32 {
	if v != nil && *v >= least && *v <= most {
		return int32(math.Round(float64(*v - least)))
	}
	return none
}

// addUser inserts a user in order; memory of the same user adds up.
func (g *gpuReading) addUser(u userMemory) {
	i, found := slices.BinarySearchFunc(g.Users, u, func(a, b userMemory) int { return cmp.Compare(a.User, b.User) })
	if !found {
		g.Users = slices.Insert(g.Users, i, u)
		return
	}
	g.Users[i].Memory = int32(min(int64(g.Users[i].Memory)+int64(u.Memory), maxMemory))
}

func gpuName(g *snapshot.GPUSample) string {
	if g.UUID != "" {
		return g.UUID
	}
	return IndexKey(g.Index)
}
