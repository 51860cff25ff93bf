package history

import (
	"bytes"
	"slices"
	"sort"
)

const (
	// openFor is how far back from the newest sample of a host readings are open:
	// what adding up the present needs.
	openFor = int64(6 * 60 * 1000)
	// A seal is for at least and at most so many.
	minSealed = 16
	maxSealed = 128
)

// A sealed is some readings in a row, encoded: an eighth of the memory.
type sealed struct {
	body        []byte
	n           int
	first, last int64 // ms
	row         int64 // of the journal; all of them are flushed, or none
}

// open decodes it.
func (k *sealed) open() []reading {
	rs, err := decodeChunk(k.body)
	if err != nil {
		return nil
	}
	for i := range rs {
		rs[i].row = k.row
	}
	return rs
}

// take adds a reading that came with a row of the journal.
func (h *host) take(r reading) {
	h.lastAt = max(h.lastAt, r.at)
	h.reopen(r.at) // it may be late
	i := len(h.recent)
	for i > 0 && inOrder(r, h.recent[i-1]) < 0 {
		i--
	}
	h.recent = slices.Insert(h.recent, i, r)
	if h.week != nil {
		h.week.touch(h.changed(i))
	}
}

// hold keeps readings of a row of the journal that are encoded already, unless
// they have to be sorted in. heads are their times, in order.
func (h *host) hold(body []byte, heads []reading, row int64) {
	first, last := heads[0].at, heads[len(heads)-1].at
	if n := len(h.sealed); len(h.recent) == 0 && (n == 0 || h.sealed[n-1].last < first) {
		h.lastAt = max(h.lastAt, last)
		h.sealed = append(h.sealed, sealed{bytes.Clone(body), len(heads), first, last, row})
		return
	}
	k := sealed{body: body, row: row}
	for _, r := range k.open() {
		h.take(r)
	}
}

// reopen opens what is sealed and not older than from.
func (h *host) reopen(from int64) {
	n := len(h.sealed)
	for n > 0 && h.sealed[n-1].last >= from {
		n--
	}
	var open []reading
	for i := range h.sealed[n:] {
		open = append(open, h.sealed[n+i].open()...)
	}
	if len(open) > 0 {
		h.recent, h.sealed = append(open, h.recent...), h.sealed[:n]
	}
}

// changed is the time for which a reading that was just put at i changes what is
// known: how long its neighbours stand for depends on it.
func (h *host) changed(i int) (from, to int64) {
	at := h.recent[i].at
	from, to = at-maxHold, at+maxHold
	if i > 0 && h.recent[i-1].at >= h.memFrom {
		from = max(from, h.recent[i-1].at)
	}
	if at < h.lastAt {
		to += maxHold
	}
	return from, to
}

// seal encodes what is not needed open any more.
func (h *host) seal() {
	n, first := 0, 0
	for first < len(h.recent) && h.recent[first].at < h.lastAt-openFor {
		first++
	}
	if first < minSealed {
		return
	}
	for n < first {
		end, row := n, int64(0)
		for end < first && end-n < maxSealed && (h.recent[end].row > h.flushed) == (h.recent[n].row > h.flushed) {
			row = max(row, h.recent[end].row)
			end++
		}
		rs := h.recent[n:end]
		h.sealed = append(h.sealed, sealed{encodeChunk(rs), len(rs), rs[0].at, rs[len(rs)-1].at, row})
		n = end
	}
	h.recent = append([]reading(nil), h.recent[n:]...)
}

// waiting is how many readings are in memory.
func (h *host) waiting() int {
	n := len(h.recent)
	for i := range h.sealed {
		n += h.sealed[i].n
	}
	return n
}

// between returns what is in memory with from <= at < to.
func (h *host) between(from, to int64) []reading {
	var out []reading
	i := sort.Search(len(h.sealed), func(i int) bool { return h.sealed[i].last >= from })
	for ; i < len(h.sealed) && h.sealed[i].first < to; i++ {
		out = append(out, between(h.sealed[i].open(), from, to)...)
	}
	open := between(h.recent, from, to)
	if out == nil {
		return open
	}
	return append(out, open...)
}

// around returns what the time from <= at < to follows from, if all of that is
// open: what lies in it, the reading that may reach into it, and the neighbours
// of both.
func (h *host) around(from, to int64) ([]reading, bool) {
	i := sort.Search(len(h.recent), func(i int) bool { return h.recent[i].at >= from })
	if i < 2 || h.recent[i-2].at < h.memFrom {
		return nil, false
	}
	j := i + sort.Search(len(h.recent)-i, func(k int) bool { return h.recent[i+k].at >= to })
	return h.recent[i-2 : min(j+1, len(h.recent))], true
}

// unflushed returns what is not flushed.
func (h *host) unflushed() []reading {
	var out []reading
	for i := range h.sealed {
		if h.sealed[i].row > h.flushed {
			out = append(out, h.sealed[i].open()...)
		}
	}
	for i := range h.recent {
		if h.recent[i].row > h.flushed {
			out = append(out, h.recent[i])
		}
	}
	return out
}

// trim forgets flushed readings that are older than what memory keeps, of those that are sealed: few others are so old.
func (h *host) trim() {
	cut := h.lastAt - keepInMemory
	n := 0
	for n < len(h.sealed) && h.sealed[n].last < cut && h.sealed[n].row <= h.flushed {
		h.memFrom = max(h.memFrom, h.sealed[n].last+1)
		n++
	}
	if n > 0 {
		h.sealed = append([]sealed(nil), h.sealed[n:]...)
	}
}
