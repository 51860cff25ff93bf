package history

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// idBits is how many bits of the ids of chunk and day are the host's.
const (
	idBits   = 20
	maxHosts = 1<<idBits - 1
)

func blobID(unit, hostID int64) int64 { return unit<<idBits | hostID }

// forget drops everything in memory; the next call reads it again.
func (s *Store) forget() {
	s.loaded = false
	s.hosts, s.byID = nil, nil
}

// ensure makes memory agree with the database: it is read when it never was,
// and again when somebody else wrote.
func (s *Store) ensure(ctx context.Context, q querier) error {
	epoch, err := getMeta(ctx, q, "epoch")
	if err != nil {
		return fmt.Errorf("reading the epoch: %w", err)
	}
	if s.loaded && epoch == s.epoch {
		return nil
	}
	s.forget()
	return s.read(ctx, q, epoch)
}

// eachRow visits the rows of a query.
func eachRow(ctx context.Context, q querier, visit func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := visit(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *Store) read(ctx context.Context, q querier, epoch int64) error {
	s.hosts, s.byID = map[string]*host{}, map[int64]*host{}
	s.lastAt, s.epoch, s.badBlobs = 0, epoch, 0
	var rebuilt, memFrom int64
	for key, value := range map[string]*int64{"pruned_hour": &s.pruned, "rebuilt_at": &rebuilt, "journal_from": &memFrom} {
		var err error
		if *value, err = getMeta(ctx, q, key); err != nil {
			return err
		}
	}
	s.rebuilt = time.Time{}
	if rebuilt != 0 {
		s.rebuilt = time.UnixMilli(rebuilt).UTC()
	}
	if err := s.readHosts(ctx, q, memFrom); err != nil {
		return fmt.Errorf("reading hosts: %w", err)
	}
	if err := s.readNames(ctx, q); err != nil {
		return fmt.Errorf("reading names: %w", err)
	}
	if err := s.replay(ctx, q); err != nil {
		return fmt.Errorf("reading the journal: %w", err)
	}
	for _, h := range s.hosts {
		h.trim()
		h.seal() // what had to be sorted in
	}
	s.loaded = true
	return nil
}

func (s *Store) readHosts(ctx context.Context, q querier, memFrom int64) error {
	return eachRow(ctx, q, func(rows *sql.Rows) error {
		var id, flushed, last int64
		var name string
		var raw sql.RawBytes
		if err := rows.Scan(&id, &name, &flushed, &last, &raw); err != nil {
			return err
		}
		h := newHost(name)
		h.id, h.flushed, h.lastAt, h.memFrom = id, flushed, last, memFrom
		if len(raw) > 0 {
			var err error
			if h.marks, err = decodeMarks(raw); err != nil {
				s.badBlobs++
				h.marks = marks{}
			}
		}
		s.hosts[name], s.byID[id] = h, h
		s.lastAt = max(s.lastAt, last)
		return nil
	}, "select id, name, flushed, last_at, marks from host")
}

func (s *Store) readNames(ctx context.Context, q querier) error {
	return eachRow(ctx, q, func(rows *sql.Rows) error {
		var hostID, id int64
		var kind, text string
		if err := rows.Scan(&hostID, &kind, &id, &text); err != nil {
			return err
		}
		h := s.byID[hostID]
		if h == nil {
			return nil
		}
		n := &h.gpus
		if kind == "user" {
			n = &h.users
		}
		if id == int64(len(n.text)) {
			n.text = append(n.text, text)
			n.ids[text] = uint32(id)
		}
		n.saved = len(n.text)
		return nil
	}, "select host_id, kind, id, text from name order by host_id, kind, id")
}

func (s *Store) replay(ctx context.Context, q querier) error {
	return eachRow(ctx, q, func(rows *sql.Rows) error {
		var id, at int64
		var blob sql.RawBytes
		if err := rows.Scan(&id, &at, &blob); err != nil {
			return err
		}
		if err := s.replayRow(id, at, blob); err != nil {
			s.badBlobs++
		}
		return nil
	}, "select id, at, entries from journal order by id")
}

func (s *Store) replayRow(id, at int64, blob []byte) error {
	raw, err := s.pack.unpack(blob, s.scratch)
	if err != nil {
		return err
	}
	s.scratch = raw
	return readEntries(raw, func(hostID int64, body []byte) error {
		h := s.byID[hostID]
		if h == nil {
			return nil
		}
		heads, err := decodeHeads(body)
		if err != nil || len(heads) == 0 {
			return err
		}
		for i := range heads {
			r := &heads[i]
			if id > h.flushed {
				h.marks.add(r.boot, r.seq, r.at)
				h.pend(id, at, r.at)
			}
			s.lastAt = max(s.lastAt, r.at)
		}
		h.hold(body, heads, id)
		return nil
	})
}

// readEntries walks a row of the journal: host, length, chunk, again and again.
func readEntries(raw []byte, visit func(hostID int64, body []byte) error) error {
	r := &reader{b: raw}
	for len(r.b) > 0 && r.err == nil {
		id := r.uvarint()
		body := r.bytes(r.uvarint())
		if r.err != nil {
			break
		}
		if err := visit(int64(id), body); err != nil {
			return err
		}
	}
	return r.err
}
