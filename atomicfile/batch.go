package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sort"
)

// A Batch replaces many files below one directory at the price of one sync:
// [Batch.Add] stages each under a temporary name, [Batch.Commit] makes all of
// them durable at once and then renames them in the order they were added.
// Until Commit nothing visible changes. It is for one goroutine.
//
// Names are slash-separated and relative; none can lead out of the directory,
// through symlinks neither.
type Batch struct {
	// Written and Skipped count the files staged, and those that held the same
	// bytes already.
	Written, Skipped int

	root    *os.Root
	spares  *spares // nil without
	staged  []staged
	removed []string
	known   map[string]bool // directories that are there
	touched map[string]bool // directories whose names changed
	err     error           // the first error of Add; Commit refuses after it
	done    bool
}

// staged is one file that waits for Commit: under a temporary name, or in its
// spare when temp is "".
type staged struct {
	temp, rel string
	data      []byte
	perm      fs.FileMode
}

// NewBatch starts a batch below dir, which must exist.
func NewBatch(dir string) (*Batch, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("starting to write below %s: %w", dir, err)
	}
	return &Batch{root: root, known: map[string]bool{".": true}, touched: map[string]bool{}}, nil
}

// Add stages data as the file rel, unless the file holds those bytes already.
// Missing directories are made with mode 0755. After an error the batch can
// only be aborted.
func (b *Batch) Add(rel string, data []byte, perm fs.FileMode) error {
	if err := b.add(rel, data, perm); err != nil {
		b.err = fmt.Errorf("staging %s: %w", rel, err)
		return b.err
	}
	return nil
}

func (b *Batch) add(rel string, data []byte, perm fs.FileMode) error {
	switch {
	case b.done:
		return fs.ErrClosed
	case b.err != nil:
		return b.err
	case !fs.ValidPath(rel) || rel == ".":
		return fmt.Errorf("%w: it is not a clean relative path", fs.ErrInvalid)
	}
	dir := path.Dir(rel)
	if err := b.mkdirAll(dir); err != nil {
		return err
	}
	same, err := equal(b.root, rel, data, perm)
	if err != nil {
		return err
	}
	if same {
		b.Skipped++
		return nil
	}
	temp, err := b.stage(rel, data, perm)
	if err != nil {
		return err
	}
	b.staged = append(b.staged, staged{temp, rel, data, perm})
	b.touched[dir] = true
	b.Written++
	return nil
}

// stage puts data into the spare of a file that is there, else into a new
// temporary one, whose name it returns.
func (b *Batch) stage(rel string, data []byte, perm fs.FileMode) (temp string, err error) {
	if b.spares != nil {
		if _, err := b.root.Lstat(rel); err == nil {
			if done, err := b.spares.stage(rel, data, perm); done || err != nil {
				return "", err
			}
		}
	}
	return stage(b.root, rel, data, perm, false)
}

// replace makes one staged file visible.
func (b *Batch) replace(s staged) error {
	if s.temp != "" {
		return b.root.Rename(s.temp, s.rel)
	}
	err := b.spares.exchange(b, s.rel)
	if err == nil {
		return nil
	}
	// A file system that cannot exchange, or a file that vanished meanwhile.
	temp, err := stage(b.root, s.rel, s.data, s.perm, true)
	if err != nil {
		return err
	}
	return b.root.Rename(temp, s.rel)
}

// Remove lets Commit remove the file rel after all renames. That it is not
// there is no error.
func (b *Batch) Remove(rel string) error {
	if b.done || !fs.ValidPath(rel) || rel == "." {
		return fmt.Errorf("removing %s: %w", rel, fs.ErrInvalid)
	}
	b.removed = append(b.removed, rel)
	return nil
}

// mkdirAll makes the directories of rel one by one, so that each gets its mode
// and none is a symlink.
func (b *Batch) mkdirAll(rel string) error {
	if b.known[rel] {
		return nil
	}
	parent := path.Dir(rel)
	if err := b.mkdirAll(parent); err != nil {
		return err
	}
	info, err := b.root.Lstat(rel)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("making directory %s: a %s is in its place: %w", rel, kind(info.Mode()), ErrNotRegular)
	case errors.Is(err, fs.ErrNotExist):
		if err := b.root.Mkdir(rel, 0o755); err != nil {
			return err
		}
		if err := b.root.Chmod(rel, 0o755); err != nil {
			return err
		}
		b.touched[parent] = true
	case err != nil:
		return err
	}
	b.known[rel] = true
	return nil
}

// Commit makes everything staged durable, renames it into place in the order
// added, removes what [Batch.Remove] named and makes the directories durable.
// When the sync fails, nothing visible has changed. An error from a rename
// stops the batch there; what was renamed before it stays.
func (b *Batch) Commit() (err error) {
	if b.done {
		return fmt.Errorf("committing: %w", fs.ErrClosed)
	}
	defer func() { err = errors.Join(err, b.Abort()) }() // what is not renamed is not needed any more
	if b.err != nil {
		return b.err
	}
	if len(b.staged) > 0 {
		if err := b.sync(); err != nil {
			return fmt.Errorf("making %d files durable: %w", len(b.staged), err)
		}
	}
	for len(b.staged) > 0 {
		if err := b.replace(b.staged[0]); err != nil {
			return fmt.Errorf("renaming into place: %w", err)
		}
		b.staged = b.staged[1:]
	}
	for _, rel := range b.removed {
		info, err := b.root.Lstat(rel)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = b.root.Remove(rel)
		}
		if err != nil {
			return fmt.Errorf("removing: %w", err)
		}
		if err := b.spares.forget(rel); err != nil {
			return fmt.Errorf("removing a spare: %w", err)
		}
		b.touched[path.Dir(rel)] = true
		if info.IsDir() {
			delete(b.touched, rel)
		}
	}
	dirs := make([]string, 0, len(b.touched))
	for dir := range b.touched {
		dirs = append(dirs, dir)
	}
	sort.Strings(dirs)
	for _, dir := range dirs {
		if err := syncDir(b.root, dir); err != nil {
			return fmt.Errorf("making directory %s durable: %w", dir, err)
		}
	}
	return nil
}

// sync makes the staged files durable: all at once where the system can, which
// costs as much as a single file, and one by one elsewhere.
func (b *Batch) sync() error {
	if done, err := syncFS(b.root); done {
		return err
	}
	for _, s := range b.staged {
		if s.temp == "" {
			if err := b.spares.sync(s.rel); err != nil {
				return err
			}
			continue
		}
		f, err := b.root.Open(s.temp)
		if err != nil {
			return err
		}
		err = f.Sync()
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Abort removes what is staged and ends the batch. After Commit, or a second
// time, it does nothing.
func (b *Batch) Abort() error {
	if b.done {
		return nil
	}
	b.done = true
	var errs []error
	for _, s := range b.staged {
		if s.temp == "" {
			continue
		}
		if err := b.root.Remove(s.temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	b.staged = nil
	return errors.Join(append(errs, b.spares.close(), b.root.Close())...)
}
