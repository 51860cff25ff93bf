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

// Steps returns the bounds of equal steps from from up to and including to.
func Steps(from, to time.Time, step time.Duration) (at []time.Time) {
	for t := from; !t.After(to); t = t.Add(step) {
		at = append(at, t)
	}
	return at
}

// Days returns the local midnights from the day of from up to the end of the
// day that to lies in, in the given zone: bounds of days that are 23, 24 or 25
// hours long.
func Days(from, to time.Time, zone *time.Location) (at []time.Time) {
	y, m, d := from.In(zone).Date()
	for i := 0; i < 2 || at[i-1].Before(to); i++ {
		at = append(at, time.Date(y, m, d+i, 0, 0, 0, 0, zone))
	}
	return at
}

// bounds are the instants between which a query adds up, two or more in their order, in ms.
func bounds(at []time.Time) []int64 {
	bs := make([]int64, len(at))
	for i, t := range at {
		bs[i] = t.UnixMilli()
	}
	return bs
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

// allHosts are all hosts in the order of their numbers.
func (s *Store) allHosts() []*host {
	return slices.SortedFunc(maps.Values(s.hosts), func(a, b *host) int { return cmp.Compare(a.id, b.id) })
}

// tables visits what is known of hosts, which are in the order of their numbers, on every day that the bounds touch:
// fives where the bounds need them, as far as they are kept, and hours elsewhere. Fives that are still open are
// included.
func (s *Store) tables(
	ctx context.Context, q querier, hosts []*host, bs []int64, want wanted, visit func(h *host, t table),
) error {
	from, to := bs[0], bs[len(bs)-1]
	first, last := floorDiv(from, dayMS), floorDiv(to-1, dayMS)
	for day := first; day <= last; {
		asFives := s.asFives(bs, day)
		end := day + 1 // of days that are read in the same way
		for end <= last && s.asFives(bs, end) == asFives {
			end++
		}
		var err error
		if asFives {
			lo, hi := max(day*24, floorDiv(from, hourMS)), min(end*24-1, floorDiv(to-1, hourMS))
			err = s.hours(ctx, q, hosts, lo, hi, want, visit)
		} else {
			err = s.days(ctx, q, hosts, day, end-1, wholeDays(bs), want, visit)
		}
		if err != nil {
			return err
		}
		day = end
	}
	for _, h := range hosts {
		if t := h.open(s.opts.IdlePercent); t.start < to && t.start+int64(t.slots)*t.width > from {
			visit(h, t)
		}
	}
	return nil
}

// wholeDays reports whether all bounds are midnights.
func wholeDays(bs []int64) bool {
	return !slices.ContainsFunc(bs, func(at int64) bool { return at%dayMS != 0 })
}

// asFives reports whether a day is read as fives.
func (s *Store) asFives(bs []int64, day int64) bool { return day*24 >= s.pruned && fine(bs, day) }

// hours visits the fives of hosts from an hour up to and including another.
func (s *Store) hours(
	ctx context.Context, q querier, hosts []*host, lo, hi int64, want wanted, visit func(h *host, t table),
) error {
	want = maps.Clone(want)
	want[kindHost] |= 1 << hCover // by which together decides
	return s.eachBlob(ctx, q, "hour", "data", hosts, lo, hi, func(h *host, hour int64, raw []byte) error {
		boots, err := decodeBoots(raw, want, &s.columns)
		if err == nil {
			visit(h, table{together(boots), hour * hourMS, fiveMinutes})
		}
		return err
	})
}

// days visits the hours of hosts from a day up to and including another, or their sums where whole days are asked for.
func (s *Store) days(
	ctx context.Context, q querier, hosts []*host, lo, hi int64, whole bool, want wanted, visit func(h *host, t table),
) error {
	column, slots := "hours", 24
	if whole {
		column, slots = "total", 1
	}
	return s.eachBlob(ctx, q, "day", column, hosts, lo, hi, func(h *host, day int64, raw []byte) error {
		f, err := decodeFrame(raw, slots, want, &s.columns)
		if err == nil {
			visit(h, table{f, day * dayMS, dayMS / int64(slots)})
		}
		return err
	})
}

// eachBlob visits the records of hosts in some units of time. Damaged ones are passed over.
func (s *Store) eachBlob(ctx context.Context, q querier, name, column string, hosts []*host, lo, hi int64,
	visit func(h *host, unit int64, raw []byte) error,
) error {
	if len(hosts) == 0 || lo > hi {
		return nil
	}
	query := fmt.Sprintf(`with recursive unit(n) as (values(?) union all select n+1 from unit where n < ?)
		select id, %s from unit cross join %s
		where id between unit.n << %d | ? and unit.n << %d | ?`, column, name, idBits, idBits)
	return eachRow(ctx, q, func(rows *sql.Rows) error {
		var id int64
		var packed sql.RawBytes
		if err := rows.Scan(&id, &packed); err != nil {
			return err
		}
		i, found := slices.BinarySearchFunc(hosts, id&maxHosts,
			func(h *host, id int64) int { return cmp.Compare(h.id, id) })
		if !found {
			return nil
		}
		s.columns.reset()
		if raw := s.unpack(packed); raw != nil && visit(hosts[i], id>>idBits, raw) != nil {
			s.badBlobs++
		}
		return nil
	}, query, lo, hi, hosts[0].id, hosts[len(hosts)-1].id)
}
