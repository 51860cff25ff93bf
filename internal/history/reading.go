package history

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
	"sort"

	"gpuboard/internal/snapshot"
)

// A reading is one sample as it is kept: names are numbers of the host's own
// dictionary, and what was not known is none.
type reading struct {
	at   int64 // ms since 1970
	boot uint64
	seq  uint64
	row  int64 // of the journal; not kept in chunks
	gpus []gpuReading
}

const none = -1

type gpuReading struct {
	gpu    uint32
	values [sFields]int32 // or none
	// users is nil when the processes were not known.
	users []userMemory
}

// The values of a sample of one GPU, in the order of the columns of a chunk.
const (
	sUtil  = iota // %
	sTemp         // °C + tempShift
	sMem          // MiB
	sPower        // W
	sFields
)

type userMemory struct {
	user uint32
	mem  int32 // MiB
}

// tempShift keeps degrees below zero out of the way of none.
const tempShift = 100

// Bounds of one sample, beside those of package snapshot.
const (
	maxUsersPerGPU = 128
	maxMemory      = 1 << 30 // MiB
	maxPower       = 1 << 20 // W
)

// inOrder compares two samples, which are the same at 0.
func inOrder(a, b reading) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.boot, b.boot), cmp.Compare(a.seq, b.seq))
}

func bootHash(boot string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(boot))
	return h.Sum64()
}

// merge returns the union of two sorted lists; of a pair that is the same, a's.
func merge(a, b []reading) []reading {
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, inOrder)
	return slices.CompactFunc(all, func(x, y reading) bool { return inOrder(x, y) == 0 })
}

// between returns the part of a sorted list with from <= at < to.
func between(rs []reading, from, to int64) []reading {
	i := sort.Search(len(rs), func(i int) bool { return rs[i].at >= from })
	j := i + sort.Search(len(rs)-i, func(k int) bool { return rs[i+k].at >= to })
	return rs[i:j]
}

// read makes a reading of a sample. Values that cannot be (105 %, a negative
// memory) become unknown. GPUs and users that the host's dictionary has no room
// for are left out, or become the nameless user. GPUs that count elsewhere are left out, too.
func (h *host) read(boot uint64, s *snapshot.Sample, elsewhere map[string]bool) reading {
	r := reading{at: s.At.UnixMilli(), boot: boot, seq: s.Seq}
	n := min(len(s.GPUs), snapshot.MaxGPUs)
	r.gpus = make([]gpuReading, 0, n)
	total := 0
	for i := range s.GPUs[:n] {
		total += min(len(s.GPUs[i].Users), maxUsersPerGPU)
	}
	slab := make([]userMemory, 0, total)
	for i := range s.GPUs[:n] {
		g := &s.GPUs[i]
		if elsewhere[g.UUID] {
			continue
		}
		id, ok := h.gpus.id(gpuName(g))
		if !ok {
			continue
		}
		k := gpuReading{gpu: id, values: [sFields]int32{
			sUtil: above(g.Utilization, 0, 100), sTemp: above(g.Temperature, -tempShift, 300),
			sMem: above(g.MemoryUsed, 0, maxMemory), sPower: above(g.Power, 0, maxPower),
		}}
		if g.Users != nil {
			start := len(slab)
			for _, u := range g.Users[:min(len(g.Users), maxUsersPerGPU)] {
				id, _ := h.users.id(u.User)
				slab = addUser(slab, start, userMemory{id, int32(min(max(u.Memory, 0), maxMemory))})
			}
			k.users = slab[start:len(slab):len(slab)]
		}
		r.gpus = append(r.gpus, k)
	}
	slices.SortStableFunc(r.gpus, func(a, b gpuReading) int { return cmp.Compare(a.gpu, b.gpu) })
	// A GPU that is named twice counts once.
	r.gpus = slices.CompactFunc(r.gpus, func(a, b gpuReading) bool { return a.gpu == b.gpu })
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

// addUser inserts u into slab[start:], which is kept in order of user; memory
// of the same user adds up.
func addUser(slab []userMemory, start int, u userMemory) []userMemory {
	i := len(slab)
	for i > start && slab[i-1].user > u.user {
		i--
	}
	if i > start && slab[i-1].user == u.user {
		slab[i-1].mem = int32(min(int64(slab[i-1].mem)+int64(u.mem), maxMemory))
		return slab
	}
	return slices.Insert(slab, i, u)
}

func gpuName(g *snapshot.GPUSample) string {
	if g.UUID != "" {
		return g.UUID
	}
	return IndexKey(g.Index)
}
