package history

import (
	"encoding/binary"
	"math"
	"slices"

	"gpuboard/internal/snapshot"
)

// chunkVersion is the first byte of a chunk, decompressed.
const chunkVersion = 1

// maxPerHour bounds the samples of one host in one hour: one a second, where
// the collector's floor is one in two.
const maxPerHour = 3600

// maxChunk bounds the samples of one chunk of any kind.
const maxChunk = 1 << 16

// encodeChunk writes sorted readings column by column: a column is what one
// metric of one GPU did, and its differences are mostly zero.
//
//	version  n
//	times    first, then differences of differences, ms
//	boots    runs of (hash, how many)
//	seq      differences
//	GPUs     how many, and for each: number, runs of (present, absent),
//	         utilization, temperature, memory, power (differences of value + 1, 0 unknown),
//	         users (0 the same as before, 1 unknown, n+2 then n numbers), their memory (differences)
func encodeChunk(rs []reading) []byte {
	b := make([]byte, 0, 64+len(rs)*32)
	b = append(b, chunkVersion)
	b = binary.AppendUvarint(b, uint64(len(rs)))
	var last, step int64
	for i := range rs {
		d := rs[i].at - last
		b = binary.AppendVarint(b, d-step)
		last = rs[i].at
		if i > 0 {
			step = d
		}
	}
	for i := 0; i < len(rs); {
		j := i
		for j < len(rs) && rs[j].boot == rs[i].boot {
			j++
		}
		b = binary.LittleEndian.AppendUint64(b, rs[i].boot)
		b = binary.AppendUvarint(b, uint64(j-i))
		i = j
	}
	var seq uint64
	for i := range rs {
		b = binary.AppendVarint(b, int64(rs[i].seq-seq))
		seq = rs[i].seq
	}
	ids := gpuIDs(rs)
	b = binary.AppendUvarint(b, uint64(len(ids)))
	cursor := make([]int, len(rs)) // each reading lists its GPUs in the same order
	for _, id := range ids {
		b = appendGPU(b, rs, cursor, id)
	}
	return b
}

func gpuIDs(rs []reading) []uint32 {
	var ids []uint32
	for i := range rs {
		k := 0
		for j := range rs[i].gpus {
			id := rs[i].gpus[j].gpu
			for k < len(ids) && ids[k] < id {
				k++
			}
			if k == len(ids) || ids[k] != id {
				ids = slices.Insert(ids, k, id)
			}
		}
	}
	return ids
}

func appendGPU(b []byte, rs []reading, cursor []int, id uint32) []byte {
	b = binary.AppendUvarint(b, uint64(id))
	gs := make([]*gpuReading, 0, len(rs))
	run, present := uint64(0), true
	for i := range rs {
		c := cursor[i]
		has := c < len(rs[i].gpus) && rs[i].gpus[c].gpu == id
		if has {
			gs = append(gs, &rs[i].gpus[c])
			cursor[i]++
		}
		if has != present {
			b = binary.AppendUvarint(b, run)
			run, present = 0, has
		}
		run++
	}
	b = binary.AppendUvarint(b, run)
	for i := range sFields {
		var last int64
		for _, g := range gs {
			v := int64(g.values[i]) + 1
			b = binary.AppendVarint(b, v-last)
			last = v
		}
	}
	var before *gpuReading
	for _, g := range gs {
		switch {
		case before != nil && sameUsers(before.users, g.users):
			b = append(b, 0)
		case g.users == nil:
			b = append(b, 1)
		default:
			b = binary.AppendUvarint(b, uint64(len(g.users))+2)
			for _, u := range g.users {
				b = binary.AppendUvarint(b, uint64(u.user))
			}
		}
		before = g
	}
	before = nil
	for _, g := range gs {
		follows := before != nil && sameUsers(before.users, g.users)
		for i, u := range g.users {
			d := int64(u.mem)
			if follows {
				d -= int64(before.users[i].mem)
			}
			b = binary.AppendVarint(b, d)
		}
		before = g
	}
	return b
}

func sameUsers(a, b []userMemory) bool {
	return (a == nil) == (b == nil) && slices.EqualFunc(a, b, func(x, y userMemory) bool { return x.user == y.user })
}

// decodeChunk reads what [encodeChunk] wrote, and believes none of it: what it
// returns is sorted, within every bound, and encodes again.
func decodeChunk(data []byte) ([]reading, error) {
	r := &reader{b: data}
	rs := r.heads()
	// A reading takes its GPUs from one slab, sized by what the bytes could hold.
	count := r.count(maxGPUNames)
	budget := len(r.b) / 4
	gpu := int64(-1)
	for range count {
		id := r.uvarint()
		if r.err == nil && (id > maxGPUNames || int64(id) <= gpu) {
			r.fail("GPUs out of order")
		}
		gpu = int64(id)
		budget = r.gpu(rs, uint32(id), count, budget)
		if r.err != nil {
			break
		}
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return rs, nil
}

// decodeHeads is decodeChunk without the GPUs, of which it finds out nothing.
func decodeHeads(data []byte) ([]reading, error) {
	r := &reader{b: data}
	rs := r.heads()
	return rs, r.err
}

// heads reads what says when samples came and of what.
func (r *reader) heads() []reading {
	if r.byte() != chunkVersion {
		r.fail("its version is not known")
	}
	n := r.count(min(maxChunk, len(r.b)/2))
	rs := make([]reading, n)
	var last, step int64
	for i := range rs {
		d := r.varint() + step
		last += d
		rs[i].at = last
		if i > 0 {
			step = d
		}
	}
	for i := 0; i < n && r.err == nil; {
		boot := r.fixed64()
		run := r.count(n - i)
		if run == 0 {
			r.fail("an empty run")
		}
		for range run {
			rs[i].boot = boot
			i++
		}
	}
	var seq uint64
	for i := range rs {
		seq += uint64(r.varint())
		rs[i].seq = seq
		if i > 0 && r.err == nil && !before(&rs[i-1], &rs[i]) {
			r.fail("samples out of order")
		}
	}
	return rs
}

// gpu reads one GPU's columns into rs.
func (r *reader) gpu(rs []reading, id uint32, expect, budget int) int {
	at := make([]int32, 0, len(rs))
	present := true
	for i := 0; i < len(rs) && r.err == nil; {
		run := r.count(len(rs) - i)
		if run == 0 && i > 0 {
			r.fail("an empty run")
		}
		for range run {
			if present {
				at = append(at, int32(i))
			}
			i++
		}
		present = !present
	}
	if budget -= len(at); budget < 0 {
		r.fail("more GPUs than it has bytes for")
	}
	if len(rs) == 0 && r.uvarint() != 0 {
		r.fail("a run of nothing")
	}
	if r.err != nil {
		return 0
	}
	gs := make([]*gpuReading, len(at))
	for k, i := range at {
		if rs[i].gpus == nil {
			rs[i].gpus = make([]gpuReading, 0, min(expect, snapshot.MaxGPUs))
		}
		if len(rs[i].gpus) == snapshot.MaxGPUs {
			r.fail("too many GPUs")
			return 0
		}
		rs[i].gpus = append(rs[i].gpus, gpuReading{gpu: id})
		gs[k] = &rs[i].gpus[len(rs[i].gpus)-1]
	}
	col := make([]int64, len(gs))
	for i, limit := range [sFields]int64{101, 301 + tempShift, maxMemory + 1, maxPower + 1} {
		r.deltas(col)
		for k, v := range col {
			if r.err == nil && (v < 0 || v > limit) {
				r.fail("a value is out of range")
			}
			gs[k].values[i] = int32(v - 1)
		}
	}
	if r.err != nil {
		return 0
	}
	r.userSets(gs)
	return budget
}

func (r *reader) userSets(gs []*gpuReading) {
	follows := make([]bool, len(gs))
	var last []userMemory
	need := 0 // each user of each sample has at least one byte still to come
	for k, g := range gs {
		code := r.count(maxUsersPerGPU + 2)
		switch {
		case r.err != nil:
			return
		case code == 0 && k == 0:
			r.fail("users like nothing before")
			return
		case code == 0:
			follows[k] = true
			if need += len(last); need > len(r.b) {
				r.fail("more users than it has bytes for")
				return
			}
			if last != nil {
				g.users = append(make([]userMemory, 0, len(last)), last...)
			}
		case code == 1:
			g.users = nil
		default:
			g.users = make([]userMemory, code-2)
			need += len(g.users)
			for i := range g.users {
				u := r.uvarint()
				if u > math.MaxUint32 || i > 0 && u <= uint64(g.users[i-1].user) {
					r.fail("users out of order")
					return
				}
				g.users[i].user = uint32(u)
			}
		}
		last = g.users
	}
	for k, g := range gs {
		for i := range g.users {
			v := r.varint()
			if follows[k] {
				v += int64(gs[k-1].users[i].mem)
			}
			if v < 0 || v > maxMemory {
				r.fail("a memory is out of range")
				return
			}
			g.users[i].mem = int32(v)
		}
	}
}
