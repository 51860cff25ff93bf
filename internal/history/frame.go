package history

import (
	"cmp"
	"encoding/binary"
	"slices"
)

const frameVersion = 1

// The kinds of columns in a frame.
const (
	kindHost = 'h'
	kindGPU  = 'g'
	kindUser = 'u'
	// kindHolder is who held a GPU: the number of the user, which is no sum. It stands apart from the sums of the GPU, so
	// that frames without it are read, and nothing else changes.
	kindHolder = 'p'
	kindOwn    = 'o' // what the host itself does
)

// A frame is a table of buckets by time: the fields of the host, of each GPU, of who
// held it, and of each user, one number a slot. What nobody saw is zero everywhere.
type frame struct {
	slots int
	rows  []frameRow // by kind and id
}

type frameRow struct {
	kind byte
	id   uint32
	cols [][]int64 // nil for a column of zeros, or one not asked for
}

// fieldCounts is how many columns each kind of rows has; 0 for one that is not known.
var fieldCounts = [256]uint8{
	kindHost: hFields, kindGPU: gFields, kindUser: uFields, kindHolder: 1, kindOwn: oFields,
}

func fieldsOf(kind byte) int { return int(fieldCounts[kind]) }

// row returns the row of a kind and id, and makes it.
func (f *frame) row(kind byte, id uint32) *frameRow {
	i, found := f.find(kind, id)
	if !found {
		f.rows = slices.Insert(f.rows, i, frameRow{kind: kind, id: id, cols: make([][]int64, fieldsOf(kind))})
	}
	return &f.rows[i]
}

func (f *frame) find(kind byte, id uint32) (int, bool) {
	return slices.BinarySearchFunc(f.rows, frameRow{kind: kind, id: id}, func(a, b frameRow) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id))
	})
}

func (f *frame) set(kind byte, id uint32, slot int, v []int64) {
	row := f.row(kind, id)
	for field, x := range v {
		if row.cols[field] == nil {
			if x == 0 {
				continue
			}
			row.cols[field] = make([]int64, f.slots)
		}
		row.cols[field][slot] = x
	}
}

// clear forgets the slots [from, to).
func (f *frame) clear(from, to int) {
	for i := range f.rows {
		for _, col := range f.rows[i].cols {
			if col != nil {
				clear(col[from:to])
			}
		}
	}
}

// put replaces the slots from start on by buckets.
func (f *frame) put(start int, bs []bucket) {
	f.clear(start, start+len(bs))
	for i := range bs {
		b := &bs[i]
		if b.nothing() {
			continue
		}
		f.set(kindHost, 0, start+i, b.v[:])
		if b.own != [oFields]int64{} {
			f.set(kindOwn, 0, start+i, b.own[:])
		}
		for j := range b.gpus {
			f.set(kindGPU, b.gpus[j].gpu, start+i, b.gpus[j].v[:])
			if holder := b.gpus[j].holder; holder != 0 {
				f.set(kindHolder, b.gpus[j].gpu, start+i, []int64{int64(holder)})
			}
		}
		for j := range b.users {
			f.set(kindUser, b.users[j].user, start+i, b.users[j].v[:])
		}
	}
}

// host is one field of the host itself; 0 where there is none.
func (f *frame) host(field, slot int) int64 {
	i, found := f.find(kindHost, 0)
	if !found || f.rows[i].cols[field] == nil {
		return 0
	}
	return f.rows[i].cols[field][slot]
}

// addSlot adds one slot of another frame to a slot. A GPU that has a holder keeps it.
func (f *frame) addSlot(slot int, from *frame, its int) {
	for i := range from.rows {
		for field, col := range from.rows[i].cols {
			if col == nil || col[its] == 0 {
				continue
			}
			row := f.row(from.rows[i].kind, from.rows[i].id)
			if row.cols[field] == nil {
				row.cols[field] = make([]int64, f.slots)
			}
			if row.kind != kindHolder || row.cols[field][slot] == 0 {
				row.cols[field][slot] += col[its]
			}
		}
	}
}

// fold sums every n slots into one. It leaves out who held what.
func (f *frame) fold(n int) *frame {
	out := &frame{slots: f.slots / n, rows: make([]frameRow, len(f.rows))}
	for i := range f.rows {
		from := &f.rows[i]
		to := frameRow{kind: from.kind, id: from.id, cols: make([][]int64, len(from.cols))}
		for field, col := range from.cols {
			if col == nil || from.kind == kindHolder {
				continue
			}
			sum := make([]int64, out.slots)
			for s := range sum {
				for _, v := range col[s*n : s*n+n] {
					sum[s] += v
				}
			}
			to.cols[field] = sum
		}
		out.rows[i] = to
	}
	return out
}

// at is one number; 0 where there is none.
func (r *frameRow) at(field, slot int) float64 {
	if r.cols[field] == nil {
		return 0
	}
	return float64(r.cols[field][slot])
}

// encode writes the rows that hold anything: kind, id, and per field the length
// of its column in bytes (0 for nothing but zeros) and the column as differences.
func (f *frame) encode() []byte {
	b := append(make([]byte, 0, 16+len(f.rows)*f.slots*8), frameVersion)
	b = binary.AppendUvarint(b, uint64(f.slots))
	var col []byte
	for i := range f.rows {
		row := &f.rows[i]
		start := len(b)
		b = append(b, row.kind)
		b = binary.AppendUvarint(b, uint64(row.id))
		some := false
		for _, c := range row.cols {
			if c == nil || allZero(c) {
				b = append(b, 0)
				continue
			}
			some = true
			col = appendDeltas(col[:0], c)
			b = binary.AppendUvarint(b, uint64(len(col)))
			b = append(b, col...)
		}
		if !some {
			b = b[:start]
		}
	}
	return b
}

func allZero(col []int64) bool {
	return !slices.ContainsFunc(col, func(v int64) bool { return v != 0 })
}

// A wanted says which columns to decode: for each kind of row a bit for each field.
// Nil is everything.
type wanted map[byte]uint32

const allFields = ^uint32(0)

func (w wanted) has(kind byte, field int) bool { return w == nil || w[kind]>>field&1 == 1 }

func decodeFrame(data []byte, slots int, want wanted, pool *columnPool) (*frame, error) {
	r := &reader{b: data}
	if r.byte() != frameVersion {
		r.fail("its version is not known")
	}
	if r.count(maxSlots) != slots {
		r.fail("it has another number of buckets")
	}
	f := &frame{slots: slots}
	for len(r.b) > 0 && r.err == nil {
		kind, id := r.byte(), r.uvarint()
		n := fieldsOf(kind)
		if n == 0 || id > maxUserNames {
			r.fail("a row of nothing known")
			break
		}
		if k := len(f.rows); k > 0 &&
			(f.rows[k-1].kind > kind || f.rows[k-1].kind == kind && f.rows[k-1].id >= uint32(id)) {
			r.fail("rows out of order")
			break
		}
		row := frameRow{kind: kind, id: uint32(id), cols: make([][]int64, n)}
		for field := range row.cols {
			size := r.uvarint()
			if size == 0 {
				continue
			}
			in := r.bytes(size)
			if !want.has(kind, field) || r.err != nil {
				continue
			}
			if size < uint64(slots) {
				r.fail("a column is too short")
				break
			}
			c := &reader{b: in}
			row.cols[field] = pool.next(slots)
			c.deltas(row.cols[field])
			if err := c.end(); err != nil {
				r.fail("a column does not end where it should")
			}
		}
		f.rows = append(f.rows, row)
	}
	if r.err != nil {
		return nil, r.err
	}
	return f, nil
}
