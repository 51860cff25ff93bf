package history

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"modernc.org/sqlite"

	"gpuboard/internal/snapshot"
)

// schemaVersion is pragma user_version of the database.
const schemaVersion = 2

//go:embed schema.sql
var schema string

var (
	// ErrNoSpace is wrapped when the disk is full. What was acknowledged before is
	// safe; the samples can be sent again.
	ErrNoSpace = errors.New("no space left for history")
	// ErrRebuilt is wrapped when the database was damaged and has been set
	// aside: the call did nothing, and the next one works on an empty history.
	ErrRebuilt = errors.New("history was damaged and begins anew")
)

// Options say how much is kept. The zero value is the default.
type Options struct {
	Hourly time.Duration // hours; 400 days. Fives are kept for 3 days.
	// IdlePercent is the mean utilization over five minutes under which a GPU
	// that is held counts as idle in the totals; 5. It applies to what comes after.
	IdlePercent float64
	// Once is for a process that calls [Store.Recent] once: it keeps no week of a
	// host, which saves a third of its memory (bench/NOTES.md).
	Once bool
}

func (o Options) withDefaults() Options {
	const day = 24 * time.Hour
	if o.Hourly <= 0 {
		o.Hourly = 400 * day
	}
	o.Hourly = max(o.Hourly, keepFives)
	if o.IdlePercent <= 0 {
		o.IdlePercent = 5
	}
	return o
}

// A Store is the history of a fleet in one SQLite file (schema.sql). It may be
// used from several goroutines; one process at a time should ingest, though
// others may read.
type Store struct {
	path string
	opts Options
	enc  *zstd.Encoder
	dec  *zstd.Decoder

	mu    sync.Mutex
	db    *sql.DB
	hosts map[string]*host
	byID  map[int64]*host
	// epoch counts transactions that wrote; when the database has another one,
	// somebody else wrote, or a transaction of ours failed, and memory is read again.
	epoch    int64
	loaded   bool
	lastAt   int64 // ms; newest sample of all
	pruned   int64 // the first hour of which fives are kept
	created  time.Time
	rebuilt  time.Time
	wrote    bool // in this transaction
	full     bool
	suspect  error // damage that a query met
	badBlobs int
	scratch  []byte
	columns  columnPool
}

// Open opens the history at path, and makes it when it is not there. A file
// that is no database, or that fails SQLite's quick check, is moved aside as
// history.db.corrupt-TIME beside it (the newest two are kept), an empty one
// begins, and [Store.Problems] says so. An error is something else: no
// permission, no directory, a disk that is full.
func Open(ctx context.Context, path string, now time.Time, opts Options) (*Store, error) {
	// The driver takes a URI, in which the first part of a relative path would be a host.
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("opening history: %w", err)
	}
	s := &Store{path: path, opts: opts.withDefaults()}
	// The errors are about options, and these are valid.
	s.enc, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	s.dec, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlob))
	err = s.connect(ctx, now, false)
	if damaged(err) { // a read that failed looks like damage, too: look again
		err = s.connect(ctx, now, false)
	}
	if damaged(err) {
		err = s.rebuild(ctx, now)
	}
	if noSpace(err) {
		err = fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	if err != nil {
		return nil, fmt.Errorf("opening history %s: %w", path, err)
	}
	return s, nil
}

// Close closes the database. Nothing waits in memory for it.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return nil
	}
	db := s.db
	s.db, s.loaded = nil, false
	if err := db.Close(); err != nil {
		return fmt.Errorf("closing history %s: %w", s.path, err)
	}
	return nil
}

// pragmas hold on every connection, because they are part of its name. FULL:
// what was acknowledged survives the loss of power too, for one fsync a tick.
func (s *Store) dsn() string {
	q := url.Values{}
	for _, p := range []string{
		"busy_timeout(10000)", "auto_vacuum(2)", "journal_mode(wal)",
		"synchronous(full)", "wal_autocheckpoint(1000)", "journal_size_limit(16777216)",
		"trusted_schema(off)", "cache_size(-8192)",
	} {
		q.Add("_pragma", p)
	}
	q.Set("_txlock", "immediate")
	return (&url.URL{Scheme: "file", Path: s.path, RawQuery: q.Encode()}).String()
}

// connect opens the database and reads it into memory. anew says that it begins after another one was lost.
func (s *Store) connect(ctx context.Context, now time.Time, anew bool) error {
	info, err := os.Lstat(s.path)
	if err == nil && !info.Mode().IsRegular() {
		return errors.New("it is not a regular file: move it away")
	}
	anew = anew || err == nil && info.Size() == 0
	db, err := sql.Open("sqlite", s.dsn())
	if err != nil {
		return err
	}
	// One connection: the store is one writer anyway, and reads are short.
	db.SetMaxOpenConns(1)
	s.db = db
	if err := s.checked(ctx, now, anew); err != nil {
		db.Close() // it failed already
		s.db = nil
		return err
	}
	return nil
}

// checked looks whether the database can be worked with, and reads it.
func (s *Store) checked(ctx context.Context, now time.Time, anew bool) error {
	var mode string // SQLite takes another one where the file system has no shared memory
	if err := s.db.QueryRowContext(ctx, "pragma journal_mode").Scan(&mode); err != nil {
		return fmt.Errorf("asking for journal_mode: %w", err)
	}
	if mode != "wal" {
		return fmt.Errorf("sqlite has journal_mode %s, and wal is needed", mode)
	}
	if err := s.prepare(ctx, now, anew); err != nil {
		return err
	}
	return s.inView(ctx, func(querier) error { return nil })
}

// smallPages is the size up to which a database is checked at every start: 8 MiB.
const smallPages = 2048

// prepare makes the tables of a new database, and checks an old one: at most once a day when it is large, because a
// check reads all of it.
func (s *Store) prepare(ctx context.Context, now time.Time, anew bool) error {
	var version, pages int64
	if err := s.db.QueryRowContext(ctx, "pragma user_version").Scan(&version); err != nil {
		return err
	}
	if version > schemaVersion {
		return fmt.Errorf("it was written by a newer gpuboard (schema %d, and this one knows %d)", version,
			schemaVersion)
	}
	if version == 0 {
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		var tables int
		if err := tx.QueryRowContext(ctx, "select count(*) from sqlite_schema").Scan(&tables); err != nil {
			return err
		}
		if tables > 0 {
			return fmt.Errorf("%w: another program made this database", errForeign)
		}
		if _, err := tx.ExecContext(ctx, schema+fmt.Sprintf("pragma user_version=%d;", schemaVersion)); err != nil {
			return err
		}
		facts := []string{"checked_at", "created_at"}
		if anew {
			facts = append(facts, "rebuilt_at")
		}
		for _, key := range facts {
			if err := setMeta(ctx, tx, key, now.UnixMilli()); err != nil {
				return err
			}
		}
		return tx.Commit()
	}
	if err := s.db.QueryRowContext(ctx, "pragma page_count").Scan(&pages); err != nil {
		return err
	}
	checked, err := getMeta(ctx, s.db, "checked_at")
	if err != nil {
		return err
	}
	age := now.UnixMilli() - checked
	if pages > smallPages && age >= 0 && age < dayMS {
		return nil
	}
	var verdict string
	if err := s.db.QueryRowContext(ctx, "pragma quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: %s", errCheck, verdict)
	}
	if pages <= smallPages {
		return nil
	}
	if err := setMeta(ctx, s.db, "checked_at", now.UnixMilli()); err != nil && !noSpace(err) {
		return err // on a full disk, what is there can still be read
	}
	return nil
}

// Created returns since when fives are kept. What drops hold of the time before was never given to it.
func (s *Store) Created() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.created
}

// A querier is the database or a transaction on it.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func getMeta(ctx context.Context, q querier, key string) (int64, error) {
	var v int64
	err := q.QueryRowContext(ctx, "select value from meta where key=?", key).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return v, err
}

func setMeta(ctx context.Context, q querier, key string, v int64) error {
	_, err := q.ExecContext(ctx,
		"insert into meta(key,value) values(?,?) on conflict(key) do update set value=excluded.value", key, v)
	return err
}

var (
	errCheck   = errors.New("its check failed")
	errForeign = errors.New("it is not a history")
)

// SQLite's result codes, https://www.sqlite.org/rescode.html.
const (
	codeCorrupt   = 11
	codeFull      = 13
	codeNotADB    = 26
	codeShortRead = 10 | 2<<8 // the file ends before a page of it
)

func sqliteCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// damaged reports whether an error says that the database is damaged.
func damaged(err error) bool {
	code := sqliteCode(err)
	return errors.Is(err, errCheck) || errors.Is(err, errBlob) ||
		code&0xff == codeCorrupt || code&0xff == codeNotADB || code == codeShortRead
}

func noSpace(err error) bool { return sqliteCode(err)&0xff == codeFull }

const corruptInfix = ".corrupt-"

// rebuild moves a damaged database aside with its log, and begins an empty one.
func (s *Store) rebuild(ctx context.Context, now time.Time) error {
	if s.db != nil {
		s.db.Close() // it is beyond help, and so is what Close says
		s.db = nil
	}
	aside := s.path + corruptInfix + now.UTC().Format("20060102T150405.000Z")
	if err := os.Rename(s.path, aside); err != nil {
		return fmt.Errorf("moving the damaged file aside: %w", err)
	}
	if err := os.Rename(s.path+"-wal", aside+"-wal"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("moving its log aside: %w", err)
	}
	if err := os.Remove(s.path + "-shm"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing its index: %w", err)
	}
	s.sweepAside()
	s.forget()
	s.full = false
	return s.connect(ctx, now, true)
}

// sweepAside keeps the newest two damaged databases; a disk that keeps damaging
// them must not fill up with them.
func (s *Store) sweepAside() {
	dir := filepath.Dir(s.path)
	old, _ := fs.Glob(os.DirFS(dir), filepath.Base(s.path)+corruptInfix+"*Z") // sorted, so the oldest come first
	for _, name := range old[:max(0, len(old)-2)] {
		os.Remove(filepath.Join(dir, name)) // what cannot be removed now is tried again next time
		os.Remove(filepath.Join(dir, name+"-wal"))
	}
}

// handleError brings the store into a state that the next call can use.
func (s *Store) handleError(ctx context.Context, now time.Time, err error) error {
	switch {
	case damaged(err):
		if again := s.rebuild(ctx, now); again != nil {
			return fmt.Errorf("rebuilding history after %q: %w", err, again)
		}
		return fmt.Errorf("%w: %w", ErrRebuilt, err)
	case noSpace(err):
		s.full = true
		s.forget()
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	default:
		s.forget()
		return err
	}
}

// Problems says what is wrong with the history at present: history:rebuilt for
// a day after it began anew, history:nospace while it cannot grow, and
// history:record when records were damaged and passed over.
func (s *Store) Problems(now time.Time) []snapshot.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []snapshot.Problem
	problem := func(code, message string) {
		out = append(out, snapshot.Problem{Code: code, File: filepath.Base(s.path), Message: message})
	}
	if d := now.Sub(s.rebuilt); !s.rebuilt.IsZero() && d < 24*time.Hour {
		problem("history:rebuilt", "history was damaged or emptied, and begins anew at "+
			s.rebuilt.Format(time.RFC3339)+"; a damaged file lies beside it")
	}
	if s.full {
		problem("history:nospace",
			"there is no space for new history; what is shown of the past ends where it filled up")
	}
	if s.badBlobs > 0 {
		problem("history:record", fmt.Sprintf("%d damaged records of history are passed over", s.badBlobs))
	}
	return out
}
