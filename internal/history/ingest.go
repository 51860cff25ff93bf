package history

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"gpuboard/internal/snapshot"
)

const (
	// maxFuture is how far ahead of our clock a node's may be.
	maxFuture = 5 * time.Minute
	// flushAfter is how long samples wait in the journal before they go into
	// chunks and roll-ups; queries see them at once all the same.
	flushAfter = 20 * time.Minute
	// keepInMemory reaches back far enough to add up the current quarter of an
	// hour without reading a chunk.
	keepInMemory = int64(30 * time.Minute / time.Millisecond)
	// keepJournal is the same for a process that has just begun.
	keepJournal = int64(35 * time.Minute / time.Millisecond)
	// maxWaiting bounds the samples of one host that wait.
	maxWaiting = 2048
	// pruneSlackHours is how long chunks outlive the age at which samples are refused,
	// so that a late sample always finds its neighbours.
	pruneSlackHours = 3
)

// A Batch is what came from one boot of one host; the samples may be in any
// order, known already, or from long ago.
type Batch struct {
	Host    string
	Boot    string
	Samples []snapshot.Sample
	// Elsewhere is the GPUs, by UUID, that count at another host: here they are left out.
	Elsewhere map[string]bool
}

// Counts says what became of the samples of a call.
type Counts struct {
	Accepted  int
	Duplicate int // known by (host, boot, seq)
	Future    int // refused: more than 5 minutes ahead of now
	Old       int // refused: older than what is kept as it came
	Refused   int // refused: no host, or more hosts than there is room for
}

// IngestAll takes what came in one tick, in one transaction. When it returns
// without an error, everything accepted is on disk and survives kill -9 and the
// loss of power. On an error nothing of the call was taken, and the same
// samples may be given again. Errors wrap [ErrNoSpace] and [ErrRebuilt] where
// they apply; none of them concerns the live board.
//
// Totals depend on the set of samples alone, not on the order, the batches or
// the repetitions in which they came.
func (s *Store) IngestAll(ctx context.Context, now time.Time, batches []Batch) (Counts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return Counts{}, errClosed
	}
	if err := s.suspect; err != nil {
		s.suspect = nil
		return Counts{}, fmt.Errorf("ingesting samples: %w", s.handleError(ctx, now, err))
	}
	c, err := s.ingest(ctx, now, batches)
	if err != nil {
		return Counts{}, fmt.Errorf("ingesting samples: %w", s.handleError(ctx, now, err))
	}
	return c, nil
}

func (s *Store) ingest(ctx context.Context, now time.Time, batches []Batch) (c Counts, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return c, err
	}
	defer tx.Rollback() // does nothing after Commit
	if err := s.ensure(ctx, tx); err != nil {
		return c, err
	}
	known := len(s.hosts)
	row := s.epoch + 1
	entries, err := s.accept(ctx, tx, now, row, batches, &c)
	if err != nil {
		return c, err
	}
	if len(entries) > 0 {
		if _, err := tx.ExecContext(ctx, "insert into journal(id,at,entries) values(?,?,?)", row, now.UnixMilli(), s.pack.pack(entries)); err != nil {
			return c, fmt.Errorf("writing the journal: %w", err)
		}
	}
	made := len(s.hosts) != known
	due := s.due(now)
	for _, h := range due {
		if err := s.flush(ctx, tx, h); err != nil {
			return c, fmt.Errorf("writing chunks of %s: %w", h.name, err)
		}
	}
	swept := false
	if row%16 == 0 {
		if swept, err = s.sweepJournal(ctx, tx, now); err != nil {
			return c, fmt.Errorf("sweeping the journal: %w", err)
		}
	}
	pruned, err := s.prune(ctx, tx, now)
	if err != nil {
		return c, fmt.Errorf("applying retention: %w", err)
	}
	if len(entries) == 0 && len(due) == 0 && !pruned && !swept && !made {
		return c, nil
	}
	if err := setMeta(ctx, tx, "epoch", row); err != nil {
		return c, err
	}
	if err := tx.Commit(); err != nil {
		return c, fmt.Errorf("committing: %w", err)
	}
	s.epoch = row
	if len(entries) > 0 {
		s.full = false
	}
	if pruned {
		// The samples are safe; pages that could not be given back now are next time.
		_ = s.shrink(ctx)
	}
	return c, nil
}

// accept sorts out what is new, adds it to memory, and returns the journal's
// row. If the transaction fails after this, memory has to be read again.
func (s *Store) accept(ctx context.Context, tx *sql.Tx, now time.Time, row int64, batches []Batch, c *Counts) ([]byte, error) {
	nowMS := now.UnixMilli()
	future := nowMS + maxFuture.Milliseconds()
	old := max(nowMS-s.opts.Raw.Milliseconds(), (s.pruned+pruneSlackHours)*hourMS)
	if s.pruned == 0 {
		old = nowMS - s.opts.Raw.Milliseconds()
	}
	var entries []byte
	var fresh []reading
	for i := range batches {
		b := &batches[i]
		h, err := s.hostFor(ctx, tx, b.Host)
		if err != nil {
			return nil, err
		}
		if h == nil {
			c.Refused += len(b.Samples)
			continue
		}
		boot := bootHash(b.Boot)
		fresh = fresh[:0]
		for j := range b.Samples {
			sample := &b.Samples[j]
			at := sample.At.UnixMilli()
			switch {
			case at > future || sample.At.Year() > 9999:
				c.Future++
			case at < old:
				c.Old++
			case h.marks.has(boot, sample.Seq):
				c.Duplicate++
			default:
				h.marks.add(boot, sample.Seq, at)
				fresh = append(fresh, h.read(boot, sample, b.Elsewhere))
			}
		}
		if len(fresh) == 0 {
			continue
		}
		c.Accepted += len(fresh)
		slices.SortFunc(fresh, inOrder)
		h.urgent = h.urgent || h.lastAt != 0 && fresh[0].at < h.lastAt-keepInMemory
		for _, r := range fresh {
			r.row = row
			h.pend(row, nowMS, r.at)
			h.take(r)
			s.lastAt = max(s.lastAt, r.at)
		}
		h.seal()
		body := encodeChunk(fresh)
		entries = binary.AppendUvarint(entries, uint64(h.id))
		entries = binary.AppendUvarint(entries, uint64(len(body)))
		entries = append(entries, body...)
		if err := s.saveNames(ctx, tx, h); err != nil {
			return nil, fmt.Errorf("writing names of %s: %w", h.name, err)
		}
	}
	return entries, nil
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
	s.hosts[name], s.byID[h.id] = h, h
	return h, nil
}

func (s *Store) saveNames(ctx context.Context, tx *sql.Tx, h *host) error {
	for _, d := range []struct {
		kind string
		n    *names
	}{{"gpu", &h.gpus}, {"user", &h.users}} {
		for ; d.n.saved < len(d.n.text); d.n.saved++ {
			_, err := tx.ExecContext(ctx, "insert or replace into name(host_id,kind,id,text) values(?,?,?,?)", h.id, d.kind, d.n.saved, d.n.text[d.n.saved])
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// due picks the hosts whose samples go into chunks now: those with samples from
// before what memory keeps, or with very many, at once; of those whose
// samples have waited long enough only some a tick, so that no tick is slow.
func (s *Store) due(now time.Time) []*host {
	var at, wait []*host
	nowMS := now.UnixMilli()
	for _, h := range s.hosts {
		if !h.pending() {
			continue
		}
		age := nowMS - h.firstAt
		switch {
		case h.urgent, h.waiting() > maxWaiting, age >= 2*flushAfter.Milliseconds():
			at = append(at, h)
		case age >= flushAfter.Milliseconds() || age < -maxFuture.Milliseconds():
			wait = append(wait, h)
		}
	}
	slices.SortFunc(wait, func(a, b *host) int {
		return cmp.Or(cmp.Compare(a.firstRow, b.firstRow), cmp.Compare(a.id, b.id))
	})
	return append(at, wait[:min(len(wait), 8+len(s.hosts)/30)]...)
}

// sweepJournal deletes rows whose samples are all in chunks, and which no
// process that begins now needs to be quick.
func (s *Store) sweepJournal(ctx context.Context, tx *sql.Tx, now time.Time) (bool, error) {
	limit := s.epoch + 1
	for _, h := range s.hosts {
		if h.pending() {
			limit = min(limit, h.firstRow)
		}
	}
	nowMS := now.UnixMilli()
	const which = " from journal where id < ? and (at < ? or at > ?)"
	args := []any{limit, nowMS - keepJournal, nowMS + maxFuture.Milliseconds()}
	var newest sql.NullInt64
	if err := tx.QueryRowContext(ctx, "select max(at)"+which, args...).Scan(&newest); err != nil {
		return false, err
	}
	if !newest.Valid {
		return false, nil
	}
	if _, err := tx.ExecContext(ctx, "delete"+which, args...); err != nil {
		return false, err
	}
	// What came by the newest of them was at most maxFuture ahead.
	from, err := getMeta(ctx, tx, "journal_from")
	if err != nil {
		return false, err
	}
	if err := setMeta(ctx, tx, "journal_from", max(from, newest.Int64+maxFuture.Milliseconds()+1)); err != nil {
		return false, err
	}
	return true, nil
}
