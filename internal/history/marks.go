package history

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"sort"
)

// Bounds of what is remembered about the boots of one host.
const (
	maxBoots = 128
	maxSpans = 1024
)

// marks remembers which samples of one host are known, by a hash of the boot
// id and the sequence number. A well-behaved node costs one span a boot.
type marks map[uint64]*mark

type mark struct {
	newest int64 // ms; the newest sample of this boot
	spans  []span
}

type span struct{ lo, hi uint64 } // both included

func (m *mark) find(seq uint64) int {
	if n := len(m.spans); n > 0 && seq > m.spans[n-1].hi {
		return n
	}
	return sort.Search(len(m.spans), func(i int) bool { return m.spans[i].hi >= seq })
}

func (ms marks) has(boot, seq uint64) bool {
	m := ms[boot]
	if m == nil {
		return false
	}
	i := m.find(seq)
	return i < len(m.spans) && m.spans[i].lo <= seq
}

// add remembers a sample, and forgets the oldest boot or gap when a node makes
// more of them than anybody honest does.
func (ms marks) add(boot, seq uint64, at int64) {
	m := ms[boot]
	if m == nil {
		if len(ms) >= maxBoots {
			ms.forgetOldest()
		}
		m = &mark{newest: at}
		ms[boot] = m
	}
	m.newest = max(m.newest, at)
	i := m.find(seq)
	if i < len(m.spans) && m.spans[i].lo <= seq {
		return
	}
	left := i > 0 && m.spans[i-1].hi+1 == seq
	right := i < len(m.spans) && seq+1 == m.spans[i].lo
	switch {
	case left && right:
		m.spans[i-1].hi = m.spans[i].hi
		m.spans = slices.Delete(m.spans, i, i+1)
	case left:
		m.spans[i-1].hi = seq
	case right:
		m.spans[i].lo = seq
	default:
		m.spans = slices.Insert(m.spans, i, span{seq, seq})
		if len(m.spans) > maxSpans {
			m.spans[1].lo = m.spans[0].lo
			m.spans = m.spans[1:]
		}
	}
}

func (ms marks) forgetOldest() {
	delete(ms, slices.MinFunc(slices.Collect(maps.Keys(ms)), func(a, b uint64) int {
		return cmp.Or(cmp.Compare(ms[a].newest, ms[b].newest), cmp.Compare(a, b))
	}))
}

// forgetBefore drops boots whose samples would be refused as too old anyway.
func (ms marks) forgetBefore(at int64) {
	maps.DeleteFunc(ms, func(_ uint64, m *mark) bool { return m.newest < at })
}

func (ms marks) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(len(ms)))
	for _, boot := range slices.Sorted(maps.Keys(ms)) {
		m := ms[boot]
		b = binary.LittleEndian.AppendUint64(b, boot)
		b = binary.AppendVarint(b, m.newest)
		b = binary.AppendUvarint(b, uint64(len(m.spans)))
		var last uint64
		for _, s := range m.spans {
			b = binary.AppendUvarint(b, s.lo-last)
			b = binary.AppendUvarint(b, s.hi-s.lo)
			last = s.hi
		}
	}
	return b
}

func decodeMarks(data []byte) (marks, error) {
	r := &reader{b: data}
	ms := marks{}
	n := r.count(maxBoots)
	for range n {
		boot := r.fixed64()
		m := &mark{newest: r.varint()}
		spans := r.count(maxSpans)
		var last uint64
		for i := range spans {
			lo := last + r.uvarint()
			hi := lo + r.uvarint()
			if r.err == nil && (hi < lo || i > 0 && lo <= last) {
				r.fail("spans out of order")
			}
			m.spans = append(m.spans, span{lo, hi})
			last = hi
		}
		ms[boot] = m
	}
	return ms, r.end()
}
