package history

import (
	"cmp"
	"encoding/json"
	"fmt"
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
	Newest int64 // ms; the newest sample of this boot
	Spans  []span
}

type span struct{ Lo, Hi uint64 } // both included

func (m *mark) find(seq uint64) int {
	if n := len(m.Spans); n > 0 && seq > m.Spans[n-1].Hi {
		return n
	}
	return sort.Search(len(m.Spans), func(i int) bool { return m.Spans[i].Hi >= seq })
}

func (ms marks) has(boot, seq uint64) bool {
	m := ms[boot]
	if m == nil {
		return false
	}
	i := m.find(seq)
	return i < len(m.Spans) && m.Spans[i].Lo <= seq
}

// add remembers a sample, and forgets the oldest boot or gap when a node makes
// more of them than anybody honest does.
func (ms marks) add(boot, seq uint64, at int64) {
	m := ms[boot]
	if m == nil {
		if len(ms) >= maxBoots {
			ms.forgetOldest()
		}
		m = &mark{Newest: at}
		ms[boot] = m
	}
	m.Newest = max(m.Newest, at)
	i := m.find(seq)
	if i < len(m.Spans) && m.Spans[i].Lo <= seq {
		return
	}
	left := i > 0 && m.Spans[i-1].Hi+1 == seq
	right := i < len(m.Spans) && seq+1 == m.Spans[i].Lo
	switch {
	case left && right:
		m.Spans[i-1].Hi = m.Spans[i].Hi
		m.Spans = slices.Delete(m.Spans, i, i+1)
	case left:
		m.Spans[i-1].Hi = seq
	case right:
		m.Spans[i].Lo = seq
	default:
		m.Spans = slices.Insert(m.Spans, i, span{seq, seq})
		if len(m.Spans) > maxSpans {
			m.Spans[1].Lo = m.Spans[0].Lo
			m.Spans = m.Spans[1:]
		}
	}
}

func (ms marks) forgetOldest() {
	delete(ms, slices.MinFunc(slices.Collect(maps.Keys(ms)), func(a, b uint64) int {
		return cmp.Or(cmp.Compare(ms[a].Newest, ms[b].Newest), cmp.Compare(a, b))
	}))
}

// forgetBefore drops boots whose samples would be refused as too old anyway.
func (ms marks) forgetBefore(at int64) {
	maps.DeleteFunc(ms, func(_ uint64, m *mark) bool { return m.Newest < at })
}

func (ms marks) encode() []byte {
	b, _ := json.Marshal(ms) // numbers alone: it cannot fail
	return b
}

func decodeMarks(data []byte) (ms marks, err error) {
	if err := json.Unmarshal(data, &ms); err != nil || ms == nil {
		return nil, fmt.Errorf("%w: marks: %w", errBlob, err)
	}
	return ms, nil
}
