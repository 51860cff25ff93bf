package booking

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpuboard/internal/atomicfile"
)

// The errors of changing bookings where others change them too.
var (
	// ErrChanged says that people kept saving the file while it was to be changed.
	ErrChanged = errors.New("the bookings were changed by somebody else at the same moment")
	// ErrLocked says that another program held the lock for as long as one was willing to wait.
	ErrLocked = errors.New("another program is changing the bookings")
)

// A File is comments.json on this machine. It may be used by several goroutines.
//
// Beside it lie, with its owner, group and mode, the lock (.comments.json.lock),
// what the file held before its last change (.comments.json.previous), and the
// last content without an error (.comments.json.last-good).
type File struct {
	path  string // without symbolic links
	zone  *time.Location
	state string // where a generator keeps its copy of the last good content; "" for nowhere

	// exchange and step are replaced by tests: step is called before each
	// operation that changes a name.
	exchange func(a, b string) error
	step     func(what string)
}

// Open returns the File at a path. It need not exist; its directory must. zone is
// that of the times in it, nil for UTC.
func Open(path string, zone *time.Location) *File {
	if zone == nil {
		zone = time.UTC
	}
	// The file is replaced, and not the link to it.
	return &File{path: behindLinks(path), zone: zone, exchange: exchange, step: func(string) {}}
}

// behindLinks is where a file lies, or would, that links lead to.
func behindLinks(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	for range 8 { // the file is not there, and links to it may be
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return path
}

// Read returns the content. A file that does not exist has nil, an empty one
// has not.
func (f *File) Read() ([]byte, error) {
	data, _, err := readRegular(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// readRegular reads a regular file up to one byte more than the bound.
func readRegular(path string) ([]byte, fs.FileInfo, error) {
	f, info, err := atomicfile.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if data == nil {
		data = []byte{}
	}
	return data, info, nil
}

// updateBudget bounds one Update, the waiting for the lock included.
const updateBudget = 20 * time.Second

// Update changes the bookings. It takes the lock, reads the file, lets edit make
// the new content, puts that in place and records what changed. If somebody saved
// the file in between, their save stays and edit is called again with it, so edit
// must have no other effects.
//
// The lock is flock(2), so it ends with its process. A process that is killed
// leaves the old file or the new one, whole. After an error the file is not
// changed, unless the error is about recording the change or making it durable.
func (f *File) Update(ctx context.Context, by By, edit func(data []byte) ([]byte, error)) error {
	return f.locked(ctx, func(ctx context.Context, log *os.File) error { return f.update(ctx, log, by, edit) })
}

// RecordReleases records that bookings which vanished from the file are released.
func (f *File) RecordReleases(ctx context.Context, by By, vanished []Entry) error {
	return f.locked(ctx, func(_ context.Context, log *os.File) error {
		var entries []Entry
		for _, e := range vanished {
			e.At, e.By, e.Action, e.Was = by.At.UTC().Truncate(time.Second), by.Name, Released, ""
			entries = append(entries, e)
		}
		if err := record(log, entries); err != nil {
			return fmt.Errorf("recording the release: %w", err)
		}
		return nil
	})
}

// locked calls do with the lock held and the record of changes open.
func (f *File) locked(ctx context.Context, do func(ctx context.Context, log *os.File) error) error {
	ctx, cancel := context.WithTimeout(ctx, updateBudget)
	defer cancel()
	unlock, err := f.lock(ctx)
	if err != nil {
		return fmt.Errorf("locking the bookings: %w", err)
	}
	defer unlock()
	if err := f.recover(); err != nil {
		return fmt.Errorf("looking for what an interrupted change left: %w", err)
	}
	log, err := f.openRecord()
	if err != nil {
		return fmt.Errorf("opening the record of bookings: %w", err)
	}
	defer log.Close()
	return do(ctx, log)
}

func (f *File) update(ctx context.Context, log *os.File, by By, edit func(data []byte) ([]byte, error)) error {
	for try := 0; ; try++ {
		data, err := f.readSaved(ctx)
		if err != nil {
			return err
		}
		if err := f.Intact(data); err != nil {
			return err
		}
		next, err := edit(data)
		if err != nil {
			return err
		}
		if data != nil && bytes.Equal(next, data) {
			return nil
		}
		err = f.replace(data, next)
		if errors.Is(err, ErrChanged) && try < 20 && ctx.Err() == nil {
			continue
		}
		if err == nil {
			_ = f.writeGood(next, time.Time{}) // the next generation does it, too
			if err := record(log, f.changes(by, data, next)); err != nil {
				return fmt.Errorf("recording a change that was made: %w", err)
			}
			err = f.syncDir()
		}
		if err != nil {
			return fmt.Errorf("replacing the bookings: %w", err)
		}
		return nil
	}
}

// How long a reader waits for a file that is being saved: an editor, or a program
// that copies a file over a network, truncates it first and writes it then.
const (
	savingTries = 5
	savingPause = 100 * time.Millisecond
)

// readSaved reads the file, and again after a while when it is empty, or gone
// where bookings stood.
func (f *File) readSaved(ctx context.Context) ([]byte, error) {
	for try := 0; ; try++ {
		f.step("read")
		data, err := f.Read()
		if err != nil {
			return nil, fmt.Errorf("reading the bookings: %w", err)
		}
		if len(data) > MaxFileBytes {
			return nil, fmt.Errorf("reading the bookings: the file is larger than %d KiB", MaxFileBytes>>10)
		}
		if len(data) > 0 || data == nil && f.Intact(nil) == nil || try == savingTries {
			return data, nil
		}
		if err := sleep(ctx, savingPause); err != nil {
			return nil, err
		}
	}
}

// replace puts next in the place of what was read, nil for no file. The error
// wraps ErrChanged when the file is another one by then; it stays so.
func (f *File) replace(read, next []byte) error {
	if err := f.stage(f.beside(newSuffix), next); err != nil {
		return err
	}
	// The name tells what the file is to replace, and by what: enough for recover.
	staged := f.beside(exchangeSuffix + fingerprint(read) + "." + fingerprint(next))
	f.step("name")
	if err := os.Rename(f.beside(newSuffix), staged); err != nil {
		_ = os.Remove(f.beside(newSuffix))
		return err
	}
	if read == nil {
		defer os.Remove(staged)
		return f.appear(staged, f.path)
	}
	// Exchange the files and compare what came out with what was read. If it differs,
	// somebody saved the file meanwhile: put it back, and compare again.
	placed, want := next, read
	for range 20 {
		f.step("exchange")
		if err := f.swap(staged, want); err != nil {
			return errors.Join(err, f.setAside(staged, next))
		}
		out, _, err := readRegular(staged)
		if err != nil {
			return errors.Join(err, f.swap(staged, nil))
		}
		if bytes.Equal(out, want) {
			break
		}
		placed, want = out, placed
	}
	_ = f.setAside(staged, next) // else recover does it the next time
	if !bytes.Equal(placed, next) {
		return ErrChanged
	}
	return nil
}

// setAside removes a staged file that is not needed any more. If it holds anything
// but the new content, it is kept until the next change instead.
func (f *File) setAside(staged string, next []byte) error {
	f.step("previous")
	if data, _, err := readRegular(staged); err == nil && bytes.Equal(data, next) {
		return os.Remove(staged)
	}
	return os.Rename(staged, f.beside(previousSuffix))
}

// swap exchanges the file with a staged one. Where the file system cannot do
// that (NFS, FAT), it replaces the file if that still holds want, and staged
// becomes what was replaced: somebody who saves by renaming right between the
// look and the replacement is overwritten there. That the file is gone is ErrChanged.
func (f *File) swap(staged string, want []byte) error {
	err := f.exchange(staged, f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrChanged
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	aside := staged + "+"
	if err := os.Link(f.path, aside); errors.Is(err, fs.ErrNotExist) {
		return ErrChanged
	}
	defer os.Remove(aside)
	now, _, err := readRegular(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrChanged
	case err != nil:
		return err
	case want != nil && !bytes.Equal(now, want):
		return ErrChanged
	}
	f.step("rename")
	if err := os.Rename(staged, f.path); err != nil {
		return err
	}
	if err := os.Rename(aside, staged); err != nil {
		return os.WriteFile(staged, now, 0o600) // a file system without links
	}
	return nil
}

// recover cleans up after a program that was killed while it changed the file. The
// caller holds the lock.
func (f *File) recover() error {
	if err := os.Remove(f.beside(newSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(f.beside(madeSuffix))) {
			_ = os.Remove(filepath.Join(filepath.Dir(f.path), e.Name()))
		}
		rest, ok := strings.CutPrefix(e.Name(), filepath.Base(f.beside(exchangeSuffix)))
		was, put, whole := strings.Cut(strings.TrimSuffix(rest, "+"), ".")
		if !ok || !whole {
			continue
		}
		left := filepath.Join(filepath.Dir(f.path), e.Name())
		data, _, err := readRegular(left)
		if err != nil {
			return err
		}
		now, err := f.Read()
		if err != nil {
			return err
		}
		switch is := fingerprint(data); {
		case is == put || bytes.Equal(data, now):
			// It was not exchanged yet, or is back in place.
			err = os.Remove(left)
		case is != was && fingerprint(now) == put:
			// Somebody saved at the last moment, and nobody was told of the change.
			err = os.Rename(left, f.path)
		default:
			err = os.Rename(left, f.beside(previousSuffix))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fingerprint is short enough for the name of a file.
func fingerprint(data []byte) string {
	if data == nil {
		return "none"
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

func (f *File) syncDir() error { return atomicfile.SyncDir(filepath.Dir(f.path)) }

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
