package history

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// idBits is how many bits of the ids of hour and day are the host's.
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
	var rebuilt, created int64
	for key, value := range map[string]*int64{
		"pruned_hour": &s.pruned, "rebuilt_at": &rebuilt, "created_at": &created,
	} {
		var err error
		if *value, err = getMeta(ctx, q, key); err != nil {
			return err
		}
	}
	s.created, s.rebuilt = time.UnixMilli(created).UTC(), time.Time{}
	if rebuilt != 0 {
		s.rebuilt = time.UnixMilli(rebuilt).UTC()
	}
	if err := s.readHosts(ctx, q); err != nil {
		return fmt.Errorf("reading hosts: %w", err)
	}
	if err := s.readNames(ctx, q); err != nil {
		return fmt.Errorf("reading names: %w", err)
	}
	s.loaded = true
	return nil
}

func (s *Store) readHosts(ctx context.Context, q querier) error {
	return eachRow(ctx, q, func(rows *sql.Rows) error {
		h := newHost("")
		var boot int64
		var open sql.RawBytes
		if err := rows.Scan(&h.id, &h.name, &h.lastAt, &boot, &h.closed, &open); err != nil {
			return err
		}
		h.boot, h.saved = uint64(boot), open != nil
		if h.saved && json.Unmarshal(open, &h.window) != nil {
			s.badBlobs++
			h.window = nil
		}
		s.hosts[h.name], s.byID[h.id] = h, h
		s.lastAt = max(s.lastAt, h.lastAt)
		return nil
	}, "select id, name, last_at, boot, closed, open from host")
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
