package history

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"
)

// maxSteps bounds what one query may ask for.
const maxSteps = 20_000

// Steps returns the bounds of equal steps from from up to and including to; of
// more than a query may have (20,000), just enough for it to be refused.
func Steps(from, to time.Time, step time.Duration) []time.Time {
	var out []time.Time
	if step <= 0 {
		return nil
	}
	for t := from; !t.After(to) && len(out) <= maxSteps+1; t = t.Add(step) {
		out = append(out, t)
	}
	return out
}

// Days returns the local midnights from the day of from up to the end of the
// day that to lies in, in the given zone: bounds of days that are 23, 24 or 25
// hours long.
func Days(from, to time.Time, zone *time.Location) []time.Time {
	y, m, d := from.In(zone).Date()
	var out []time.Time
	for i := 0; len(out) <= maxSteps+1; i++ {
		t := time.Date(y, m, d+i, 0, 0, 0, 0, zone)
		out = append(out, t)
		if !t.Before(to) && i > 0 {
			break
		}
	}
	return out
}

// bounds checks the instants between which a query adds up.
func bounds(ts []time.Time) ([]int64, error) {
	if len(ts) < 2 || len(ts) > maxSteps+1 {
		return nil, fmt.Errorf("querying history: %d bounds, and 2 to %d are possible", len(ts), maxSteps+1)
	}
	out := make([]int64, len(ts))
	for i, t := range ts {
		out[i] = t.UnixMilli()
		if i > 0 && out[i] <= out[i-1] {
			return nil, fmt.Errorf("querying history: %s does not come after %s", t, ts[i-1])
		}
	}
	return out, nil
}

// inView runs fn on one view of the database, with memory in agreement.
func (s *Store) inView(ctx context.Context, fn func(q querier) error) error {
	if s.db == nil {
		return errClosed
	}
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := s.ensure(ctx, tx); err != nil {
		return err
	}
	return fn(tx)
}

// view runs a query for a caller from outside.
func (s *Store) view(ctx context.Context, what string, fn func(q querier) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.inView(ctx, fn); err != nil {
		if damaged(err) {
			s.suspect = err // the next writer, who knows the time, sets it aside
		}
		return fmt.Errorf("reading history for %s: %w", what, err)
	}
	return nil
}

// A table is the roll-ups of one host on one day, as fine as was needed.
type table struct {
	*frame
	start int64 // ms
	width int64 // ms of a slot
}

// A slotPart is the part (0 to 1) of a slot of a table that lies in a step.
type slotPart struct {
	slot, step int
	part       float64
}

// parts divides the slots of a table among the steps between bounds.
func (t table) parts(bs []int64) []slotPart {
	out := make([]slotPart, 0, t.slots)
	step := 0
	for slot := range t.slots {
		from := t.start + int64(slot)*t.width
		to := from + t.width
		for step < len(bs)-1 && bs[step+1] <= from {
			step++
		}
		for i := step; i < len(bs)-1 && bs[i] < to; i++ {
			if overlap := min(bs[i+1], to) - max(bs[i], from); overlap > 0 {
				out = append(out, slotPart{slot, i, float64(overlap) / float64(t.width)})
			}
		}
	}
	return out
}

// fine reports whether the bounds that lie in a day need more than its hours.
func fine(bs []int64, day int64) bool {
	i := sort.Search(len(bs), func(i int) bool { return bs[i] > day*dayMS })
	for ; i < len(bs) && bs[i] < (day+1)*dayMS; i++ {
		if bs[i]%hourMS != 0 {
			return true
		}
	}
	return false
}

// pendingOn reports whether what is pending of h can change a day.
func (h *host) pendingOn(day int64) bool {
	return h.pending() && h.pendLo-maxHold < (day+1)*dayMS && h.pendHi+2*maxHold >= day*dayMS
}

// keptDays are the first and the last day of which there are roll-ups; the last
// is before the first where there are none.
func keptDays(ctx context.Context, q querier) (first, last int64, err error) {
	var lo, hi sql.NullInt64
	err = q.QueryRowContext(ctx, "select (select min(id) from day), (select max(id) from day)").Scan(&lo, &hi)
	if err != nil || !lo.Valid {
		return 1, 0, err
	}
	return lo.Int64 >> idBits, hi.Int64 >> idBits, nil
}

// allHosts are all hosts in the order of their numbers.
func (s *Store) allHosts() []*host {
	return slices.SortedFunc(maps.Values(s.hosts), func(a, b *host) int { return cmp.Compare(a.id, b.id) })
}

// tables visits the roll-ups of hosts, in the order of their numbers, for every
// day that the bounds touch. Pending samples are included.
func (s *Store) tables(ctx context.Context, q querier, hosts []*host, bs []int64, want wanted, visit func(h *host, t table)) error {
	first, last, err := keptDays(ctx, q)
	if err != nil {
		return err
	}
	for day := floorDiv(bs[0], dayMS); day*dayMS < bs[len(bs)-1]; day++ {
		pending := slices.ContainsFunc(hosts, func(h *host) bool { return h.pendingOn(day) })
		if day >= first && day <= last || pending {
			if err := s.tablesOf(ctx, q, hosts, day, fine(bs, day), want, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// tablesOf visits the roll-ups of one day.
func (s *Store) tablesOf(ctx context.Context, q querier, hosts []*host, day int64, fine bool, want wanted, visit func(h *host, t table)) error {
	if len(hosts) == 0 {
		return nil
	}
	show := func(h *host, d *dayRoll) error {
		if h.pendingOn(day) {
			if err := s.overlay(ctx, q, h, day, d); err != nil {
				return err
			}
		}
		if fine && d.five != nil {
			visit(h, table{d.five, day * dayMS, fiveMinutes})
		} else {
			visit(h, table{d.hourly(), day * dayMS, hourMS})
		}
		return nil
	}
	pending := map[*host]bool{} // and not seen yet
	for _, h := range hosts {
		if h.pendingOn(day) {
			pending[h] = true
		}
	}
	query := "select id, null, hours from day where id between ? and ?"
	if fine || len(pending) > 0 {
		query = "select id, five, hours from day where id between ? and ?"
	}
	err := eachRow(ctx, q, func(rows *sql.Rows) error {
		s.columns.reset()
		var id int64
		var five, hours sql.RawBytes
		if err := rows.Scan(&id, &five, &hours); err != nil {
			return err
		}
		i, found := slices.BinarySearchFunc(hosts, id&maxHosts, func(h *host, id int64) int { return cmp.Compare(h.id, id) })
		if !found {
			return nil
		}
		h := hosts[i]
		d := &dayRoll{}
		if five != nil && (fine || pending[h]) {
			d.five = s.unpackFrame(five, fivesADay, want, &s.columns)
		} else {
			d.hours = s.unpackFrame(hours, 24, want, &s.columns)
		}
		delete(pending, h)
		return show(h, d)
	}, query, blobID(day, hosts[0].id), blobID(day, hosts[len(hosts)-1].id))
	if err != nil {
		return err
	}
	for h := range pending {
		if err := show(h, &dayRoll{five: &frame{slots: fivesADay}}); err != nil {
			return err
		}
	}
	return nil
}

// overlay adds up anew, in memory, what is pending can have changed on a day.
func (s *Store) overlay(ctx context.Context, q querier, h *host, day int64, d *dayRoll) error {
	lo := max(floorDiv(h.pendLo-maxHold, fiveMinutes), day*fivesADay)
	hi := min(floorDiv(h.pendHi+2*maxHold, fiveMinutes), day*fivesADay+fivesADay-1)
	if d.five == nil || lo > hi {
		return nil
	}
	bs, err := s.buckets(ctx, q, h, lo, hi)
	if err != nil {
		return err
	}
	d.put(int(lo-day*fivesADay), bs)
	return nil
}

// buckets adds up the fives numbered lo to hi since 1970 from the samples.
func (s *Store) buckets(ctx context.Context, q querier, h *host, lo, hi int64) ([]bucket, error) {
	rs, open := h.around(lo*fiveMinutes, (hi+1)*fiveMinutes)
	if !open {
		var err error
		if rs, err = s.readings(ctx, q, h, lo*fiveMinutes-2*maxHold, (hi+1)*fiveMinutes+maxHold, nil); err != nil {
			return nil, err
		}
	}
	return h.rollup(rs, lo*fiveMinutes, fiveMinutes, int(hi-lo+1), int64(s.opts.IdlePercent)), nil
}
