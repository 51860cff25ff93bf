package history

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"gpuboard/internal/snapshot"
)

// chunkVersion is the first byte of a chunk, decompressed.
const chunkVersion = 1

const (
	// maxPerHour bounds the samples of one host in one hour: one a second, where
	// the collector's floor is one in two.
	maxPerHour = 3600
	// maxChunk bounds the samples of one chunk of any kind.
	maxChunk = 1 << 16
)

// A chunk is columns, each with its length in bytes before it, so that similar
// numbers lie side by side: in the columns of GPUs, all samples of one GPU come before
// those of the next. Most numbers are differences from the sample before, and mostly zero.
const (
	cSamples = iota              // for each sample: time (difference of differences, ms), boot, sequence number
	cGPUs                        // for each sample: how many GPUs; their numbers
	cValues                      // for each GPU: utilization; the next columns have temperature, memory and power
	cUsers   = cValues + sFields // for each GPU: 0 as before, 1 unknown, else how many + 2; their numbers
	cMemory  = cUsers + 1        // for each user
	cCount   = cMemory + 1
)

// encodeChunk writes sorted readings.
func encodeChunk(rs []reading) []byte {
	var cols [cCount][]byte
	put := func(col int, v int64) { cols[col] = binary.AppendVarint(cols[col], v) }
	var last reading
	var step int64
	for i := range rs {
		r := &rs[i]
		put(cSamples, r.at-last.at-step)
		put(cSamples, int64(r.boot-last.boot))
		put(cSamples, int64(r.seq-last.seq))
		if i > 0 {
			step = r.at - last.at
		}
		put(cGPUs, int64(len(r.gpus)))
		for k := range r.gpus {
			put(cGPUs, int64(r.gpus[k].gpu))
		}
		last = *r
	}
	eachGPU(rs, func(g *gpuReading, before gpuReading) {
		for field, v := range g.values {
			put(cValues+field, int64(v-before.values[field]))
		}
		same := sameUsers(before.users, g.users)
		switch {
		case same:
			put(cUsers, 0)
		case g.users == nil:
			put(cUsers, 1)
		default:
			put(cUsers, int64(len(g.users))+2)
		}
		for n, u := range g.users {
			if same {
				put(cMemory, int64(u.mem-before.users[n].mem))
			} else {
				put(cUsers, int64(u.user))
				put(cMemory, int64(u.mem))
			}
		}
	})
	b := binary.AppendUvarint([]byte{chunkVersion}, uint64(len(rs)))
	for _, col := range cols {
		b = binary.AppendUvarint(b, uint64(len(col)))
		b = append(b, col...)
	}
	return b
}

// eachGPU visits the first GPU of every sample, then the second, and so on. before is
// the same GPU in the sample before; zero where there is none.
func eachGPU(rs []reading, visit func(g *gpuReading, before gpuReading)) {
	for k, more := 0, true; more; k++ {
		more = false
		var last reading
		for i := range rs {
			r := &rs[i]
			if k < len(r.gpus) {
				more = true
				visit(&r.gpus[k], last.gpuAt(k, r.gpus[k].gpu))
			}
			last = *r
		}
	}
}

// gpuAt is what the k-th GPU of a sample was, if that is the GPU of this number.
func (r *reading) gpuAt(k int, gpu uint32) gpuReading {
	if k < len(r.gpus) && r.gpus[k].gpu == gpu {
		return r.gpus[k]
	}
	return gpuReading{}
}

func sameUsers(a, b []userMemory) bool {
	return (a == nil) == (b == nil) && slices.EqualFunc(a, b, func(x, y userMemory) bool { return x.user == y.user })
}

// A chunkReader takes numbers out of the columns of a chunk.
type chunkReader struct {
	cols [cCount][]byte
	err  error
}

// next is the next difference of a column, added to base; 0 and an error where the sum is out of range.
func (c *chunkReader) next(col int, base, least, most int64) int64 {
	if b := c.cols[col]; len(b) > 0 && b[0] == 0 { // most are
		c.cols[col] = b[1:]
		return base
	}
	d, n := binary.Varint(c.cols[col])
	if v := base + d; n > 0 && v >= least && v <= most {
		c.cols[col] = c.cols[col][n:]
		return v
	}
	c.err = fmt.Errorf("%w: a number is missing or out of range", errBlob)
	return 0
}

// heads reads a chunk up to its samples, without their GPUs.
func (c *chunkReader) heads(data []byte) []reading {
	r := &reader{b: data}
	if r.byte() != chunkVersion {
		r.fail("its version is not known")
	}
	rs := make([]reading, r.count(min(maxChunk, len(r.b))))
	for col := range c.cols {
		c.cols[col] = r.bytes(r.uvarint())
	}
	c.err = r.end()
	any := func() int64 { return c.next(cSamples, 0, math.MinInt64, math.MaxInt64) }
	var last reading
	var step int64
	for i := range rs {
		if c.err != nil {
			break
		}
		r := &rs[i]
		r.at, r.boot, r.seq = last.at+step+any(), last.boot+uint64(any()), last.seq+uint64(any())
		if i > 0 {
			step = r.at - last.at
			if inOrder(last, *r) >= 0 {
				c.err = fmt.Errorf("%w: samples out of order", errBlob)
			}
		}
		last = *r
	}
	return rs
}

// decodeHeads is [decodeChunk] without the GPUs.
func decodeHeads(data []byte) ([]reading, error) {
	var c chunkReader
	rs := c.heads(data)
	return rs, c.err
}

// decodeChunk reads what [encodeChunk] wrote.
func decodeChunk(data []byte) ([]reading, error) {
	var c chunkReader
	rs := c.heads(data)
	for i := range rs {
		n := c.next(cGPUs, 0, 0, snapshot.MaxGPUs)
		if c.err != nil {
			return nil, c.err
		}
		if n > 0 {
			rs[i].gpus = make([]gpuReading, n)
		}
		for k := range rs[i].gpus {
			rs[i].gpus[k].gpu = uint32(c.next(cGPUs, 0, 0, maxGPUNames))
		}
	}
	eachGPU(rs, func(g *gpuReading, before gpuReading) {
		if c.err != nil {
			return
		}
		for field, most := range [sFields]int64{100, 300 + tempShift, maxMemory, maxPower} {
			g.values[field] = int32(c.next(cValues+field, int64(before.values[field]), none, most))
		}
		g.users = c.users(before.users)
	})
	for _, col := range c.cols {
		if len(col) > 0 {
			return nil, fmt.Errorf("%w: trailing data", errBlob)
		}
	}
	return rs, c.err
}

// users reads who had memory of a GPU, where before is who had it in the sample before.
func (c *chunkReader) users(before []userMemory) []userMemory {
	code := c.next(cUsers, 0, 0, maxUsersPerGPU+2)
	switch {
	case c.err != nil || code == 1:
		return nil
	case code == 0:
		users := slices.Clone(before)
		for i := range users {
			users[i].mem = int32(c.next(cMemory, int64(users[i].mem), 0, maxMemory))
		}
		return users
	}
	users := make([]userMemory, code-2)
	for i := range users {
		users[i] = userMemory{uint32(c.next(cUsers, 0, 0, maxUserNames)), int32(c.next(cMemory, 0, 0, maxMemory))}
	}
	return users
}
