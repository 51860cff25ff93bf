package history

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errBlob is wrapped by every error about the inside of a blob.
var errBlob = errors.New("damaged record")

// maxBlob bounds what a blob may decompress to.
const maxBlob = 32 << 20

// A reader takes numbers out of bytes that may be damaged. The first thing
// that is wrong sticks, and everything after it reads as zero.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", errBlob, what)
		r.b = nil
	}
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("it ends early")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if v := r.bytes(1); v != nil {
		return v[0]
	}
	return 0
}

// bytes returns the next n bytes without copying them.
func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail("it ends early")
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// count reads a number of things, of which there are at most limit.
func (r *reader) count(limit int) int {
	v := r.uvarint()
	if v > uint64(limit) {
		r.fail("a count is too large")
		return 0
	}
	return int(v)
}

func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail("trailing data")
	}
	return r.err
}

// appendDeltas writes a column as differences, the first from zero.
func appendDeltas(b []byte, col []int64) []byte {
	var last int64
	for _, v := range col {
		b = binary.AppendVarint(b, v-last)
		last = v
	}
	return b
}

// deltas reads a column.
func (r *reader) deltas(col []int64) {
	var last int64
	for k := range col {
		delta, n := binary.Varint(r.b)
		if n <= 0 {
			r.fail("it ends early")
			return
		}
		r.b = r.b[n:]
		last += delta
		col[k] = last
	}
}

// A columnPool lends columns to frames that are looked at and forgotten; nil
// makes new ones.
type columnPool struct {
	cols [][]int64
	used int
}

func (p *columnPool) next(n int) []int64 {
	if p == nil {
		return make([]int64, n)
	}
	if p.used == len(p.cols) {
		p.cols = append(p.cols, make([]int64, maxSlots))
	}
	p.used++
	return p.cols[p.used-1][:n]
}

// reset takes all columns back. What a host of thousands of users needed once is
// not kept for the others.
func (p *columnPool) reset() {
	if len(p.cols) > maxPooled {
		p.cols = nil
	}
	p.used = 0
}

// maxPooled is how many columns are kept, of 200 bytes each.
const maxPooled = 1024
