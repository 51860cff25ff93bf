package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"gpuboard/internal/history"
)

// This file keeps the samples of history as somebody would who has a database or
// a file, and no format of his own: rows of SQLite, and lines of JSON.

// A moment is what all hosts said then.
type moment struct {
	at      time.Time
	batches []history.Batch
}

// A reading is one GPU at one moment: the six values that are counted.
type reading struct {
	gpu                                         int
	utilization, memory, temperature, milliwatt int64
	user, held                                  int64 // a number for each name; 0 for nobody
}

// readings are the GPUs of one host at one moment.
func readings(b history.Batch) []reading {
	var all []reading
	for _, sample := range b.Samples {
		for _, g := range sample.GPUs {
			r := reading{gpu: g.Index, utilization: int64(*g.Utilization), memory: *g.MemoryUsed,
				temperature: int64(*g.Temperature), milliwatt: int64(*g.Power * 1000)}
			for _, u := range g.Users {
				n, _ := strconv.Atoi(u.User[len("user"):])
				r.user, r.held = int64(n)+1, u.Memory
			}
			all = append(all, r)
		}
	}
	return all
}

// A table is rows in SQLite, one for each GPU and moment, in the order in which
// charts read them.
type table struct {
	db   *sql.DB
	path string
}

func newTable(path string) (*table, error) {
	db, err := sql.Open("sqlite", path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.Exec(`CREATE TABLE readings (host INTEGER, at INTEGER, gpu INTEGER, utilization INTEGER, memory INTEGER,
		temperature INTEGER, milliwatt INTEGER, user INTEGER, held INTEGER, PRIMARY KEY (host, at, gpu)) WITHOUT ROWID`)
	return &table{db, path}, err
}

// insert takes in moments, in one transaction that is on the disk when it returns.
func (t *table) insert(ctx context.Context, moments ...moment) error {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	stmt, err := tx.PrepareContext(ctx, `INSERT INTO readings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer stmt.Close()
	for _, m := range moments {
		for host, b := range m.batches {
			for _, r := range readings(b) {
				if _, err := stmt.ExecContext(ctx, host, m.at.Unix(), r.gpu, r.utilization, r.memory, r.temperature,
					r.milliwatt, r.user, r.held); err != nil {
					return err
				}
			}
		}
	}
	return tx.Commit()
}

// series is what a chart of a host's utilization needs: one value a step.
func (t *table) series(ctx context.Context, host int, from, to time.Time, step time.Duration) ([]float64, error) {
	rows, err := t.db.QueryContext(ctx, `SELECT at, utilization FROM readings WHERE host = ? AND at >= ? AND at < ?`,
		host, from.Unix(), to.Unix())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	sums := newMeans(from, to, step)
	for rows.Next() {
		var at, value int64
		if err := rows.Scan(&at, &value); err != nil {
			return nil, err
		}
		sums.add(at, value)
	}
	return sums.values(), rows.Err()
}

// size is the bytes of the file when all is in it.
func (t *table) size(first ...string) (int64, error) {
	for _, command := range append(first, "PRAGMA wal_checkpoint(TRUNCATE)") {
		if _, err := t.db.Exec(command); err != nil {
			return 0, err
		}
	}
	info, err := os.Stat(t.path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (t *table) close() error { return t.db.Close() }

// means adds up values by steps.
type means struct {
	from, step int64
	sum, n     []float64
}

func newMeans(from, to time.Time, step time.Duration) *means {
	n := int(to.Sub(from)/step) + 1
	return &means{from.Unix(), int64(step / time.Second), make([]float64, n), make([]float64, n)}
}

func (m *means) add(at, value int64) {
	if i := (at - m.from) / m.step; i >= 0 && int(i) < len(m.sum) {
		m.sum[i] += float64(value)
		m.n[i]++
	}
}

func (m *means) values() []float64 {
	out := make([]float64, len(m.sum))
	for i := range out {
		out[i] = m.sum[i] / max(m.n[i], 1)
	}
	return out
}

// appendLine adds a host at one moment as a line of JSON, six values a GPU.
func appendLine(b []byte, at time.Time, gpus []reading) []byte {
	b = strconv.AppendInt(append(b, '['), at.Unix(), 10)
	for _, r := range gpus {
		b = append(b, ",["...)
		for i, v := range [...]int64{r.utilization, r.memory, r.temperature, r.milliwatt, r.user, r.held} {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, v, 10)
		}
		b = append(b, ']')
	}
	return append(b, "]\n"...)
}

// lines are hours of one host as JSON, each compressed by itself.
type lines struct {
	hours        [][]byte
	plain, small int
}

func (l *lines) add(hour []byte, enc *zstd.Encoder) {
	packed := enc.EncodeAll(hour, nil)
	l.hours = append(l.hours, packed)
	l.plain, l.small = l.plain+len(hour), l.small+len(packed)
}

// series is what a chart of the host's utilization needs.
func (l *lines) series(dec *zstd.Decoder, from, to time.Time, step time.Duration) ([]float64, error) {
	sums := newMeans(from, to, step)
	var plain []byte
	for _, hour := range l.hours {
		var err error
		if plain, err = dec.DecodeAll(hour, plain[:0]); err != nil {
			return nil, err
		}
		for len(plain) > 0 {
			n := 0
			for n < len(plain) && plain[n] != '\n' {
				n++
			}
			var fields []json.RawMessage
			if err := json.Unmarshal(plain[:n], &fields); err != nil {
				return nil, err
			}
			at, err := strconv.ParseInt(string(fields[0]), 10, 64)
			if err != nil {
				return nil, err
			}
			for _, raw := range fields[1:] {
				var v [6]int64
				if err := json.Unmarshal(raw, &v); err != nil {
					return nil, err
				}
				sums.add(at, v[0])
			}
			plain = plain[min(n+1, len(plain)):]
		}
	}
	return sums.values(), nil
}

// others keeps moments in both ways, to see how large they get.
type others struct {
	rows  *table
	enc   *zstd.Encoder
	hours map[int][]byte // the lines of each host's hour that is not over
	lines lines
	count int // values
}

func (s *suite) others() (*others, error) {
	dir, err := os.MkdirTemp(s.dir, "")
	if err != nil {
		return nil, err
	}
	rows, err := newTable(filepath.Join(dir, "rows.db"))
	if err != nil {
		return nil, err
	}
	enc, err := zstd.NewWriter(nil)
	return &others{rows: rows, enc: enc, hours: map[int][]byte{}}, err
}

// keep takes in moments of the same hour.
func (o *others) keep(ctx context.Context, moments ...moment) error {
	for _, m := range moments {
		for host, b := range m.batches {
			all := readings(b)
			o.hours[host] = appendLine(o.hours[host], m.at, all)
			o.count += 6 * len(all)
		}
		if m.at.Truncate(time.Hour).Equal(m.at) {
			o.seal()
		}
	}
	return o.rows.insert(ctx, moments...)
}

func (o *others) seal() {
	for host, hour := range o.hours {
		if len(hour) > 0 {
			o.lines.add(hour, o.enc)
		}
		o.hours[host] = hour[:0]
	}
}

// sizes are bytes a value, for those that a target was told against, and others.
func (o *others) sizes() ([]rival, []beside, error) {
	defer o.rows.close()
	o.seal()
	rows, err := o.rows.size()
	if err != nil {
		return nil, nil, err
	}
	vacuumed, err := o.rows.size("VACUUM")
	each := func(n int64) float64 { return float64(n) / float64(o.count) }
	return []rival{{"rows of SQLite", each(rows), 0}, {"lines of JSON, zstd an hour", each(int64(o.lines.small)), 0}},
		[]beside{{"rows of SQLite, vacuumed", each(vacuumed)}, {"lines of JSON", each(int64(o.lines.plain))}}, err
}

// A plainFile takes in ticks as lines of JSON, which are on the disk afterwards.
type plainFile struct {
	f   *os.File
	buf []byte
}

func (s *suite) plainFile(name string) (*plainFile, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	return &plainFile{f: f}, err
}

func (p *plainFile) insert(at time.Time, batches []history.Batch) error {
	p.buf = p.buf[:0]
	for host, b := range batches {
		p.buf = strconv.AppendInt(p.buf, int64(host), 10)
		p.buf = appendLine(append(p.buf, ' '), at, readings(b))
	}
	if _, err := p.f.Write(p.buf); err != nil {
		return err
	}
	if err := p.f.Sync(); err != nil {
		return fmt.Errorf("keeping a tick: %w", err)
	}
	return nil
}
