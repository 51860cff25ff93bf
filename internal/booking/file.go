package booking

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/shell"
)

// The errors of changing bookings where others change them too.
var (
	// ErrChanged says that people kept saving the file while the program changed it.
	ErrChanged = errors.New("the bookings were changed by somebody else at the same moment")
	// ErrLocked says that another program held the lock until the time limit.
	ErrLocked = errors.New("another program is changing the bookings")
)

// A File is comments.json on this machine, with the dot files beside it, which have its
// owner, group and mode. It is safe for use by several goroutines.
type File struct {
	path  string // without symbolic links
	link  string // the path that was named, if that is a symbolic link
	zone  Zone
	state string // where a generator keeps its copy of the last good content; "" for nowhere

	// exchange and step are replaced by tests: step is called before each
	// operation that changes a name, and before each reading.
	exchange func(a, b string) error
	step     func(what string)
}

// Open returns the File at a path. The file may be missing, its directory must exist.
func Open(path string, zone Zone) *File {
	zone.Location = cmp.Or(zone.Location, time.UTC)
	f := &File{path: withoutLinks(path), zone: zone, exchange: exchange, step: func(string) {}}
	if _, err := os.Readlink(path); err == nil { // it must stay a link, so the file that it leads to is replaced
		f.link = path
	}
	return f
}

// WithCopy names the directory where a generator keeps its copy of the last good
// content; "" for none. It returns the same File.
func (f *File) WithCopy(state string) *File {
	f.state = state
	return f
}

// withoutLinks resolves symbolic links, also those to a file that does not exist yet.
func withoutLinks(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	for range 8 {
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

// Read returns the content: nil if the file does not exist, and not nil if it is empty. A
// symbolic link that leads nowhere is a [*RestorableError]: the bookings are where nobody
// can read them now.
func (f *File) Read() ([]byte, error) {
	data, _, err := readRegular(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && f.link != "":
		return nil, &RestorableError{
			Err: fmt.Errorf("%w: the file is a link to another one that is not there", ErrBroken),
			Hint: "mount the file system that " + shell.Quote(f.link) + " leads to; or begin without bookings: " +
				shell.Join("rm", f.link) + " && echo '{}' > " + shell.Quote(f.link),
		}
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return data, nil
}

// readRegular reads a regular file, up to one byte more than [MaxFileBytes]. nil would mean that there is no file.
func readRegular(path string) ([]byte, fs.FileInfo, error) {
	return atomicfile.ReadUpTo(path, MaxFileBytes+1)
}

// updateBudget limits one Update, including the wait for the lock.
const updateBudget = 20 * time.Second

// Update changes the bookings. It takes the lock, reads the file, calls edit for the
// new content, replaces the file and records what changed. If somebody saved the file
// in between, their save stays and edit is called again with it, so edit must have no
// other effects. After an error the file is unchanged, unless it is a [*MadeError].
func (f *File) Update(ctx context.Context, by By, edit func(data []byte) ([]byte, error)) error {
	return f.locked(ctx,
		func(ctx context.Context, lock, log *os.File) error { return f.update(ctx, lock, log, by, edit) })
}

// A MadeError says that the bookings are changed, and that Err kept the change out of the record, or
// from being durable.
type MadeError struct{ Err error }

func (e *MadeError) Error() string {
	return "the bookings are changed, but recording the change failed: " + e.Err.Error()
}

// Unwrap is the cause.
func (e *MadeError) Unwrap() error { return e.Err }

// RecordReleases records a release of bookings that have vanished from the file.
func (f *File) RecordReleases(ctx context.Context, by By, vanished []Entry) error {
	return f.locked(ctx, func(_ context.Context, _, log *os.File) error {
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

// locked calls do while it holds the lock and the record of changes is open, and again
// if do returns that the lock was lost.
func (f *File) locked(ctx context.Context, do func(ctx context.Context, lock, log *os.File) error) error {
	ctx, cancel := context.WithTimeout(ctx, updateBudget)
	defer cancel()
	if _, err := os.Stat(f.path); err != nil { // if the bookings are away, nothing is left in their place
		if _, err := f.ReadSaved(ctx); err != nil {
			return err
		}
	}
	for {
		err := f.lockedOnce(ctx, do)
		if !errors.Is(err, errLockLost) || ctx.Err() != nil {
			return err
		}
	}
}

func (f *File) lockedOnce(ctx context.Context, do func(ctx context.Context, lock, log *os.File) error) error {
	lock, err := f.lock(ctx)
	if err != nil {
		return fmt.Errorf("locking the bookings: %w", err)
	}
	defer atomicfile.Unlock(lock)
	if err := f.recover(); err != nil {
		return fmt.Errorf("looking for what an interrupted change left: %w", err)
	}
	log, err := f.openRecord()
	if err != nil {
		return fmt.Errorf("opening the record of bookings: %w", err)
	}
	defer log.Close()
	return do(ctx, lock, log)
}

func (f *File) update(ctx context.Context, lock, log *os.File, by By, edit func(data []byte) ([]byte, error)) error {
	for try := 0; ; try++ {
		data, err := f.ReadSaved(ctx)
		if err != nil {
			return err
		}
		next, err := edit(data)
		if err != nil {
			return err
		}
		if bytes.Equal(next, data) && (data == nil) == (next == nil) {
			return nil
		}
		err = f.replace(lock, data, next)
		if errors.Is(err, ErrChanged) && try < 20 && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("replacing the bookings: %w", err)
		}
		_ = f.writeGood(next, time.Time{}) // if it fails, the next generation does it, or says why not
		if err = cmp.Or(record(log, f.changes(by, data, next)), f.syncDir()); err != nil {
			return &MadeError{err}
		}
		return nil
	}
}

// How long Update waits for somebody who is saving the file: some editors, and programs
// that copy over a network, truncate it first and then write it.
const (
	savingTries = 5
	savingPause = 100 * time.Millisecond
)

// ReadSaved reads the file, and again if it is empty, or missing where there were bookings: then
// somebody is saving it, or has just made it. What it returns is intact.
func (f *File) ReadSaved(ctx context.Context) ([]byte, error) {
	for try := 0; ; try++ {
		f.step("read")
		data, err := f.Read()
		if len(data) > MaxFileBytes {
			err = fmt.Errorf("the file is larger than %d KiB", MaxFileBytes>>10)
		}
		if err != nil && (!errors.Is(err, ErrBroken) || try == savingTries) {
			return nil, fmt.Errorf("reading the bookings: %w", err)
		}
		if err == nil {
			err = f.Intact(data)
			if len(data) > 0 || data == nil && err == nil || try == savingTries {
				return data, err
			}
		}
		if err := sleep(ctx, savingPause); err != nil {
			return nil, err
		}
	}
}

// replace writes next in the place of what was read, nil for no file. If the file is
// another one by then, it is left as it is, and the error wraps ErrChanged. If the lock
// is lost by then, the error wraps errLockLost.
func (f *File) replace(lock *os.File, read, next []byte) error {
	written, err := f.stage(next)
	if err != nil {
		return err
	}
	// The name says what the file replaces, and by what. That is enough for recover.
	staged := f.beside(exchangeSuffix + fingerprint(read) + "." + fingerprint(next))
	f.step("name")
	if err := os.Rename(written, staged); err != nil {
		_ = os.Remove(written)
		return errors.Join(err, stillLocked(lock))
	}
	if err := stillLocked(lock); err != nil {
		_ = os.Remove(staged)
		return err
	}
	if read == nil {
		defer os.Remove(staged)
		return f.linkNew(staged, f.path)
	}
	// Exchange the two files and compare what came out with what was read. If it differs,
	// somebody has saved the file in between: exchange again, and compare again.
	placed, want := next, read
	for range 20 {
		f.step("exchange")
		err := f.exchange(staged, f.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = ErrChanged
		case errors.Is(err, errors.ErrUnsupported):
			return f.replaceUnexchanged(staged, read)
		}
		if err != nil {
			return errors.Join(err, f.discard(staged, next))
		}
		out, _, err := readRegular(staged)
		if err != nil {
			return errors.Join(err, f.exchange(staged, f.path))
		}
		if bytes.Equal(out, want) {
			break
		}
		placed, want = out, placed
	}
	_ = f.discard(staged, next) // if it fails, recover does it
	if !bytes.Equal(placed, next) {
		return ErrChanged
	}
	return nil
}

// discard removes a staged file with the new content. Any other content is kept until
// the next change, in case an editor still has the file open.
func (f *File) discard(staged string, next []byte) error {
	f.step("previous")
	if data, _, err := readRegular(staged); err == nil && bytes.Equal(data, next) {
		return os.Remove(staged)
	}
	return os.Rename(staged, f.beside(previousSuffix))
}

// replaceUnexchanged is replace for file systems that cannot exchange files (NFS, FAT).
// Somebody who saves by a rename between the comparison and the replacement is
// overwritten.
func (f *File) replaceUnexchanged(staged string, read []byte) (err error) {
	defer func() {
		if err != nil {
			_ = os.Remove(staged)
		}
	}()
	previous := f.beside(previousSuffix)
	_ = os.Remove(previous)
	_ = os.Link(f.path, previous) // FAT has no links, and then no previous content
	now, err := f.Read()
	if err != nil {
		return err
	}
	if now == nil || !bytes.Equal(now, read) {
		return ErrChanged
	}
	f.step("rename")
	if err := os.Rename(staged, f.path); err != nil {
		return err
	}
	// The old file has changed if somebody wrote into it meanwhile.
	if out, _, err := readRegular(previous); err == nil && !bytes.Equal(out, read) {
		return errors.Join(ErrChanged, os.Rename(previous, f.path))
	}
	return nil
}

// recover completes or undoes the change of a program that was killed. The caller holds the lock.
func (f *File) recover() error {
	entries, err := os.ReadDir(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	for _, e := range entries {
		left := filepath.Join(filepath.Dir(f.path), e.Name())
		if strings.HasPrefix(e.Name(), filepath.Base(f.beside(newSuffix))) {
			_ = os.Remove(left)
		}
		rest, ok := strings.CutPrefix(e.Name(), filepath.Base(f.beside(exchangeSuffix)))
		was, put, named := strings.Cut(rest, ".")
		if !ok || !named {
			continue
		}
		// It may be gone: whoever had a lock that was replaced has completed the change.
		if err := f.recoverOne(left, was, put); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// recoverOne does it for one file, whose name says what it was to replace, and by what.
func (f *File) recoverOne(left, was, put string) error {
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
		// The files were not exchanged, or exchanged twice.
		return os.Remove(left)
	case is != was && fingerprint(now) == put:
		// A save that came before the exchange; the change was not confirmed to anybody.
		return os.Rename(left, f.path)
	}
	return os.Rename(left, f.beside(previousSuffix))
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

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
