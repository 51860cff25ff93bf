package history

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"gpuboard/internal/snapshot"
)

const (
	// maxFuture is how far ahead of our clock a node's may be.
	maxFuture = 5 * time.Minute
	// keepFives is how long fives are kept, and how old samples may be.
	keepFives = 72 * time.Hour
	// silent is after how long without samples the last five of a boot is closed: what
	// nodes send again reaches less far back.
	silent = int64(snapshot.BundleWindow/time.Millisecond) + maxHold
	// before is how far back from the open five readings are kept: what it is added up from.
	before = 2 * maxHold
	// maxWindow bounds what is kept of one host's readings: GPUs, and users of each. A machine of 8 GPUs has 20,000
	// with a sample a second.
	maxWindow = 1 << 16
)

// A Batch is what came from one boot of one host: samples in the order of their numbers, of
// which none is missing between the first and the last; or a single one.
type Batch struct {
	Host    string
	Boot    string
	Samples []snapshot.Sample
	// Elsewhere is the GPUs, by UUID, that count at another host: here they are left out.
	Elsewhere map[string]bool
	// Whole says that these are the finished hours of this boot. They replace what is known of them.
	Whole bool
}

// IngestAll takes what came in one tick, in one transaction. When it returns
// without an error, what was sampled is on disk or comes again with the next batch of its
// host, and survives kill -9 and the loss of power. On an error nothing of the call was
// taken, and the same samples may be given again. Errors wrap [ErrNoSpace] and [ErrRebuilt]
// where they apply; none of them concerns the live board.
//
// Totals depend on what came, and not on the order or the repetitions in which it
// came: of two versions of a five, that of more samples stands. Samples that are
// more than 5 minutes ahead of now, or older than three days, are left out.
func (s *Store) IngestAll(ctx context.Context, now time.Time, batches []Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return errClosed
	}
	err := s.suspect
	s.suspect = nil
	if err == nil {
		err = s.ingest(ctx, now, batches)
	}
	if err != nil {
		return fmt.Errorf("ingesting samples: %w", s.handleError(ctx, now, err))
	}
	return nil
}

func (s *Store) ingest(ctx context.Context, now time.Time, batches []Batch) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if err := s.ensure(ctx, tx); err != nil {
		return err
	}
	s.wrote = false
	for i := range batches {
		if err := s.take(ctx, tx, now, &batches[i]); err != nil {
			return err
		}
	}
	for _, h := range s.hosts {
		if len(h.window) > 0 && now.UnixMilli()-h.newest() > silent {
			if err := s.closeAll(ctx, tx, h); err != nil {
				return err
			}
		}
	}
	pruned, err := s.prune(ctx, tx, now)
	if err != nil {
		return fmt.Errorf("applying retention: %w", err)
	}
	if !s.wrote && !pruned {
		return nil
	}
	if err := setMeta(ctx, tx, "epoch", s.epoch+1); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	s.epoch++
	s.full = false
	if pruned {
		// The samples are safe; pages that could not be given back now are next time.
		_ = s.shrink(ctx)
	}
	return nil
}

// take adds what one host sent. If the transaction fails after this, memory has to be read again.
func (s *Store) take(ctx context.Context, tx *sql.Tx, now time.Time, b *Batch) error {
	h, err := s.hostFor(ctx, tx, b.Host)
	if err != nil || h == nil {
		return err
	}
	boot := bootHash(b.Boot)
	oldest := now.Add(-keepFives).UnixMilli()
	if !b.Whole && boot == h.boot {
		oldest = max(oldest, h.closed-before)
	}
	var fresh []reading
	for i := range b.Samples {
		sample := &b.Samples[i]
		at := sample.At.UnixMilli()
		if at < oldest || at > now.Add(maxFuture).UnixMilli() || sample.At.Year() > 9999 ||
			!b.Whole && boot == h.boot && h.has(sample.Seq) {
			continue
		}
		fresh = append(fresh, h.read(sample, b.Elsewhere))
	}
	if len(fresh) == 0 {
		return nil
	}
	if err := s.saveNames(ctx, tx, h); err != nil {
		return fmt.Errorf("writing names of %s: %w", h.name, err)
	}
	slices.SortFunc(fresh, inOrder)
	fresh = slices.CompactFunc(fresh, func(x, y reading) bool { return inOrder(x, y) == 0 })
	newest := fresh[len(fresh)-1].At
	if b.Whole || boot != h.boot && newest <= h.lastAt {
		return s.takeHours(ctx, tx, h, boot, fresh, b.Whole)
	}
	if boot != h.boot {
		if len(h.window) > 0 {
			if err := s.closeAll(ctx, tx, h); err != nil {
				return err
			}
		}
		h.boot, h.closed, h.window = boot, 0, nil
	}
	carried := len(h.window) == 0 || b.Samples[0].At.UnixMilli() <= h.window[0].At
	h.window = append(h.window, fresh...)
	slices.SortFunc(h.window, inOrder)
	h.window = slices.CompactFunc(h.window, func(x, y reading) bool { return inOrder(x, y) == 0 })
	h.live = table{}
	h.lastAt = max(h.lastAt, newest)
	s.lastAt = max(s.lastAt, newest)
	open := floorDiv(h.newest(), fiveMinutes)
	if open*fiveMinutes > h.closed && floorDiv(h.window[0].At, fiveMinutes) < open {
		if err := s.closeFives(ctx, tx, h, open, open); err != nil {
			return err
		}
	}
	h.limit(maxWindow)
	// A sender that sends its last samples again needs no copy of them.
	if h.saved = len(b.Samples) == 1 || !carried; h.saved {
		return s.saveHost(ctx, tx, h)
	}
	return nil
}

// limit forgets the oldest readings of a window that has more than so many GPUs and users.
func (h *host) limit(most int) {
	for i := len(h.window) - 1; i >= 0; i-- {
		most--
		for k := range h.window[i].GPUs {
			most -= 1 + len(h.window[i].GPUs[k].Users)
		}
		if most < 0 {
			h.window = h.window[i+1:]
			return
		}
	}
}

// has reports whether a sample of the boot that is going on is in the window. One that it does not find, where a
// clock went back, is found when it is sorted in.
func (h *host) has(seq uint64) bool {
	_, found := slices.BinarySearchFunc(h.window, seq, func(r reading, seq uint64) int {
		return cmp.Compare(r.Seq, seq)
	})
	return found
}

// takeHours writes the fives of hours that are not going on any more.
func (s *Store) takeHours(ctx context.Context, tx *sql.Tx, h *host, boot uint64, rs []reading, whole bool) error {
	first, last := rs[0].At, rs[len(rs)-1].At
	for hour := floorDiv(first, hourMS); hour <= floorDiv(last, hourMS); hour++ {
		part := between(rs, hour*hourMS, (hour+1)*hourMS)
		if len(part) == 0 {
			continue
		}
		lo := hour * fivesAnHour
		fives := h.fives(part, lo, lo+fivesAnHour-1, s.opts.IdlePercent)
		if err := s.writeFives(ctx, tx, h, boot, lo, fives, whole); err != nil {
			return err
		}
	}
	s.lastAt = max(s.lastAt, last)
	if last <= h.lastAt && (boot != h.boot || last < h.closed) {
		return nil
	}
	h.lastAt = max(h.lastAt, last)
	if boot == h.boot {
		h.closed = max(h.closed, (floorDiv(last, hourMS)+1)*hourMS)
		h.week = nil
	}
	h.trim()
	return s.saveHost(ctx, tx, h)
}

// closeAll closes the five of the newest sample, and writes what it stands for after that.
func (s *Store) closeAll(ctx context.Context, tx *sql.Tx, h *host) error {
	return s.closeFives(ctx, tx, h, floorDiv(h.newest()+maxHold, fiveMinutes)+1, floorDiv(h.newest(), fiveMinutes)+1)
}

// closeFives writes the fives of the window that come before the five numbered to, and closes those before closed.
func (s *Store) closeFives(ctx context.Context, tx *sql.Tx, h *host, to, closed int64) error {
	lo := max(floorDiv(h.closed, fiveMinutes), floorDiv(h.window[0].At, fiveMinutes))
	if lo < to {
		fives := h.fives(h.window, lo, to-1, s.opts.IdlePercent)
		if err := s.writeFives(ctx, tx, h, h.boot, lo, fives, false); err != nil {
			return err
		}
	}
	h.closed = max(h.closed, closed*fiveMinutes)
	h.trim()
	return s.saveHost(ctx, tx, h)
}

// trim forgets readings from which nothing is added up any more, all of them where no five is open.
func (h *host) trim() {
	h.live = table{}
	if len(h.window) == 0 || h.newest() < h.closed {
		h.window = nil
		return
	}
	h.window = slices.Clone(between(h.window, h.closed-before, math.MaxInt64))
}

// saveHost writes what is kept of a host beside its hours.
func (s *Store) saveHost(ctx context.Context, tx *sql.Tx, h *host) error {
	s.wrote = true
	var open []byte
	if h.saved {
		open, _ = json.Marshal(h.window) // numbers alone: it cannot fail
	}
	_, err := tx.ExecContext(ctx, "update host set last_at=?, boot=?, closed=?, open=? where id=?",
		h.lastAt, int64(h.boot), h.closed, open, h.id)
	if err != nil {
		return fmt.Errorf("writing host %s: %w", h.name, err)
	}
	return nil
}

// hostFor finds or makes a host; nil is one that cannot be had.
func (s *Store) hostFor(ctx context.Context, tx *sql.Tx, name string) (*host, error) {
	if h := s.hosts[name]; h != nil {
		return h, nil
	}
	canonical, err := snapshot.ParseHost(name)
	if err != nil || canonical != name {
		return nil, nil
	}
	res, err := tx.ExecContext(ctx, "insert into host(name) values(?)", name)
	if err != nil {
		return nil, fmt.Errorf("writing host %s: %w", name, err)
	}
	h := newHost(name)
	if h.id, err = res.LastInsertId(); err != nil {
		return nil, err
	}
	if h.id > maxHosts {
		return nil, nil
	}
	s.wrote = true
	s.hosts[name], s.byID[h.id] = h, h
	return h, nil
}

func (s *Store) saveNames(ctx context.Context, tx *sql.Tx, h *host) error {
	for _, d := range []struct {
		kind string
		n    *names
	}{{"gpu", &h.gpus}, {"user", &h.users}} {
		for ; d.n.saved < len(d.n.text); d.n.saved++ {
			s.wrote = true
			_, err := tx.ExecContext(ctx, "insert or replace into name(host_id,kind,id,text) values(?,?,?,?)",
				h.id, d.kind, d.n.saved, d.n.text[d.n.saved])
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// prune applies retention, once an hour of the fleet's time: the older of our
// clock and the newest sample, so that a clock that jumps ahead deletes nothing.
func (s *Store) prune(ctx context.Context, tx *sql.Tx, now time.Time) (bool, error) {
	ref := min(now.UnixMilli(), s.lastAt)
	cut := floorDiv(ref-keepFives.Milliseconds(), hourMS)
	if s.lastAt == 0 || cut <= s.pruned {
		return false, nil
	}
	days := floorDiv(ref-s.opts.Hourly.Milliseconds(), dayMS)
	for table, first := range map[string]int64{"hour": cut, "day": days} {
		if _, err := tx.ExecContext(ctx, "delete from "+table+" where id < ?", blobID(first, 0)); err != nil {
			return false, err
		}
	}
	if err := setMeta(ctx, tx, "pruned_hour", cut); err != nil {
		return false, err
	}
	for name, h := range s.hosts {
		if h.lastAt == 0 || h.lastAt >= (days-1)*dayMS {
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
	vacuum := fmt.Sprintf("pragma incremental_vacuum(%d)", free/2)
	return eachRow(ctx, s.db, func(*sql.Rows) error { return nil }, vacuum)
}
