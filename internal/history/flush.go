package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

var errClosed = errors.New("history is closed")

// chunk reads the samples of one hour; a damaged record counts as none.
func (s *Store) chunk(ctx context.Context, q querier, h *host, hour int64) ([]reading, error) {
	var blob []byte
	err := q.QueryRowContext(ctx, "select data from chunk where id=?", blobID(hour, h.id)).Scan(&blob)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a chunk of %s: %w", h.name, err)
	}
	raw, err := s.pack.unpack(blob, s.scratch)
	if err == nil {
		s.scratch = raw
		var rs []reading
		if rs, err = decodeChunk(raw); err == nil {
			return rs, nil
		}
	}
	s.badBlobs++
	return nil, nil
}

// A hourCache keeps decoded chunks for the length of one job.
type hourCache map[int64][]reading

// readings returns every sample of the host with from <= at < to, in order.
func (s *Store) readings(ctx context.Context, q querier, h *host, from, to int64, cache hourCache) ([]reading, error) {
	recent := h.between(from, to)
	if from >= h.memFrom {
		return recent, nil
	}
	var out []reading
	for hour := floorDiv(from, hourMS); hour*hourMS < to; hour++ {
		rs, ok := cache[hour]
		if !ok {
			var err error
			if rs, err = s.chunk(ctx, q, h, hour); err != nil {
				return nil, err
			}
			if cache != nil {
				cache[hour] = rs
			}
		}
		out = append(out, between(rs, from, to)...)
	}
	return merge(out, recent), nil
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// flush moves what is pending of a host into its chunks, and adds up anew every
// hour that this can have changed.
func (s *Store) flush(ctx context.Context, tx *sql.Tx, h *host) error {
	cache := hourCache{}
	affected := map[int64]bool{}
	for waiting := h.unflushed(); len(waiting) > 0; {
		hour := floorDiv(waiting[0].at, hourMS)
		part := between(waiting, hour*hourMS, (hour+1)*hourMS)
		waiting = waiting[len(part):]
		old, err := s.chunk(ctx, tx, h, hour)
		if err != nil {
			return err
		}
		all := merge(old, part)
		all = all[:min(len(all), maxPerHour)]
		cache[hour] = all
		_, err = tx.ExecContext(ctx, "insert into chunk(id,samples,data) values(?,?,?) on conflict(id) do update set samples=excluded.samples, data=excluded.data",
			blobID(hour, h.id), len(all), s.pack.pack(encodeChunk(all)))
		if err != nil {
			return err
		}
		for _, r := range part {
			for hour := floorDiv(r.at-maxHold, hourMS); hour <= floorDiv(r.at+2*maxHold, hourMS); hour++ {
				affected[hour] = true
			}
		}
	}
	if err := s.rollupHours(ctx, tx, h, affected, cache); err != nil {
		return err
	}
	h.flushed, h.firstRow, h.firstAt, h.urgent = s.epoch+1, 0, 0, false
	h.marks.forgetBefore(h.lastAt - s.opts.Raw.Milliseconds() - 2*hourMS)
	h.trim()
	_, err := tx.ExecContext(ctx, "update host set flushed=?, last_at=?, marks=? where id=?", h.flushed, h.lastAt, h.marks.encode(), h.id)
	return err
}

func (s *Store) rollupHours(ctx context.Context, tx *sql.Tx, h *host, affected map[int64]bool, cache hourCache) error {
	days := map[int64][]int64{}
	for hour := range affected {
		day := floorDiv(hour, 24)
		days[day] = append(days[day], hour)
	}
	for day, hours := range days {
		d, err := s.day(ctx, tx, h, day)
		if err != nil {
			return err
		}
		for _, hour := range hours {
			rs, err := s.readings(ctx, tx, h, hour*hourMS-2*maxHold, (hour+1)*hourMS+maxHold, cache)
			if err != nil {
				return err
			}
			bs := h.rollup(rs, hour*hourMS, fiveMinutes, fivesAnHour, int64(s.opts.IdlePercent))
			d.put(int(hour-day*24)*fivesAnHour, bs)
		}
		if err := s.saveDay(ctx, tx, h, day, d); err != nil {
			return fmt.Errorf("writing a day: %w", err)
		}
	}
	return nil
}

// A dayRoll is the roll-ups of one host on one day. five is nil on a day whose
// buckets of five minutes are no longer kept.
type dayRoll struct {
	five  *frame
	hours *frame
}

func (d *dayRoll) put(slot int, bs []bucket) {
	if d.five != nil {
		d.five.put(slot, bs)
		d.hours = nil
	}
}

// hourly returns the hours; they are always the sums of the fives while there are fives.
func (d *dayRoll) hourly() *frame {
	if d.hours == nil {
		d.hours = d.five.fold(fivesAnHour)
	}
	return d.hours
}

// day reads the roll-ups of a day as they are on disk; one that is not there is
// empty.
func (s *Store) day(ctx context.Context, q querier, h *host, day int64) (*dayRoll, error) {
	var five, hours []byte
	err := q.QueryRowContext(ctx, "select five, hours from day where id=?", blobID(day, h.id)).Scan(&five, &hours)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("reading a day of %s: %w", h.name, err)
	}
	d := &dayRoll{}
	if five != nil || hours == nil {
		d.five = s.unpackFrame(five, fivesADay, nil, nil)
	} else {
		d.hours = s.unpackFrame(hours, 24, nil, nil)
	}
	return d, nil
}

func (s *Store) unpackFrame(blob []byte, slots int, want wanted, pool *columnPool) *frame {
	if blob == nil {
		return &frame{slots: slots}
	}
	raw, err := s.pack.unpack(blob, s.scratch)
	if err == nil {
		s.scratch = raw
		var f *frame
		if f, err = decodeFrame(raw, slots, want, pool); err == nil {
			return f
		}
	}
	s.badBlobs++
	return &frame{slots: slots}
}

func (s *Store) saveDay(ctx context.Context, tx *sql.Tx, h *host, day int64, d *dayRoll) error {
	hours := d.hourly()
	if len(hours.rows) == 0 {
		return nil
	}
	var five []byte
	if d.five != nil {
		five = s.pack.pack(d.five.encode())
	}
	_, err := tx.ExecContext(ctx, "insert into day(id,five,hours) values(?,?,?) on conflict(id) do update set five=excluded.five, hours=excluded.hours",
		blobID(day, h.id), five, s.pack.pack(hours.encode()))
	return err
}

// prune applies retention, once an hour of the fleet's time: the older of our
// clock and the newest sample, so that a clock that jumps ahead deletes nothing.
func (s *Store) prune(ctx context.Context, tx *sql.Tx, now time.Time) (bool, error) {
	ref := min(now.UnixMilli(), s.lastAt)
	cut := floorDiv(ref-s.opts.Raw.Milliseconds(), hourMS) - pruneSlackHours
	if s.lastAt == 0 || cut <= s.pruned {
		return false, nil
	}
	fives := floorDiv(ref-s.opts.Five.Milliseconds(), dayMS)
	days := floorDiv(ref-s.opts.Hourly.Milliseconds(), dayMS)
	fivesDone, err := getMeta(ctx, tx, "pruned_five_day")
	if err != nil {
		return false, err
	}
	for _, step := range []struct {
		query string
		args  []any
	}{
		{"delete from chunk where id < ?", []any{blobID(cut, 0)}},
		{"update day set five=null where id >= ? and id < ? and five is not null", []any{blobID(fivesDone, 0), blobID(fives, 0)}},
		{"delete from day where id < ?", []any{blobID(days, 0)}},
	} {
		if _, err := tx.ExecContext(ctx, step.query, step.args...); err != nil {
			return false, err
		}
	}
	if err := setMeta(ctx, tx, "pruned_hour", cut); err != nil {
		return false, err
	}
	if err := setMeta(ctx, tx, "pruned_five_day", max(fives, fivesDone)); err != nil {
		return false, err
	}
	for name, h := range s.hosts {
		if h.pending() || h.lastAt == 0 || h.lastAt >= (days-1)*dayMS {
			continue
		}
		for _, query := range []string{"delete from name where host_id=?", "delete from host where id=?"} {
			if _, err := tx.ExecContext(ctx, query, h.id); err != nil {
				return false, err
			}
		}
		delete(s.hosts, name)
		delete(s.byID, h.id)
	}
	s.pruned = cut
	return true, nil
}

// shrink gives freed pages back to the file system, some at a time.
func (s *Store) shrink(ctx context.Context) error {
	var free int64
	if err := s.db.QueryRowContext(ctx, "pragma freelist_count").Scan(&free); err != nil {
		return err
	}
	if free < 256 {
		return nil
	}
	// The pragma steps a page at a time, so its rows have to be read to the end.
	return eachRow(ctx, s.db, func(*sql.Rows) error { return nil }, fmt.Sprintf("pragma incremental_vacuum(%d)", free/2))
}
