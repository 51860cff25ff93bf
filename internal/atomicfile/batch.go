package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
)

// A Batch replaces many files below one directory with a single sync: [Batch.Add]
// stages each under a temporary name, and [Batch.Commit] syncs the file system and
// renames them in the order in which they were added. Nothing visible changes before
// Commit. A Batch is for one goroutine.
//
// Names are slash-separated and relative. None can lead out of the directory, not
// even through a symlink.
type Batch struct {
	// Written counts the staged files, Skipped those that had the same content.
	Written, Skipped int

	root    *os.Root
	staged  []staged
	first   []string        // to be removed before the renames
	removed []string        // to be removed after the renames
	made    map[string]bool // directories that exist
	touched map[string]bool // directories in which names changed
	err     error           // the first error of Add; Commit refuses after it
	done    bool
}

// staged is one file that waits for Commit. Its temporary name is in the same directory.
type staged struct{ temp, rel string }

// NewBatch starts a batch below dir, which must exist.
func NewBatch(dir string) (*Batch, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("starting to write below %s: %w", dir, err)
	}
	return &Batch{root: root, made: map[string]bool{".": true}, touched: map[string]bool{}}, nil
}

// Add stages data as the file rel, unless the file has this content already.
// Missing directories are made with mode 0755. After an error the batch can only
// be aborted.
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
	same, err := hasContent(b.root, rel, data, perm)
	if err != nil {
		return err
	}
	if same {
		b.Skipped++
		return nil
	}
	temp, err := stage(b.root, rel, data, perm, false)
	if err != nil {
		return err
	}
	b.staged = append(b.staged, staged{temp, rel})
	b.touched[dir] = true
	b.Written++
	return nil
}

// Changed is how many files are staged.
func (b *Batch) Changed() int { return b.Written }

// Remove makes Commit remove the file rel after the renames. A missing file is no
// error.
func (b *Batch) Remove(rel string) error {
	return b.remove(&b.removed, rel)
}

// RemoveFirst makes Commit remove the file rel before the renames, for a file that
// must not be visible together with the new ones.
func (b *Batch) RemoveFirst(rel string) error {
	return b.remove(&b.first, rel)
}

func (b *Batch) remove(list *[]string, rel string) error {
	if b.done || !fs.ValidPath(rel) || rel == "." {
		return fmt.Errorf("removing %s: %w", rel, fs.ErrInvalid)
	}
	*list = append(*list, rel)
	return nil
}

// Order sorts the staged files, so that Commit renames them in that order. Files
// that compare equal keep the order in which they were added.
func (b *Batch) Order(compare func(rel, other string) int) {
	slices.SortStableFunc(b.staged, func(x, y staged) int { return compare(x.rel, y.rel) })
}

// mkdirAll makes directories one by one: each gets its mode, and none may be a symlink.
func (b *Batch) mkdirAll(rel string) error {
	if b.made[rel] {
		return nil
	}
	parent := path.Dir(rel)
	if err := b.mkdirAll(parent); err != nil {
		return err
	}
	info, err := b.root.Lstat(rel)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("making directory %s: a %s is in its place: %w", rel, Kind(info.Mode()), ErrNotRegular)
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
	b.made[rel] = true
	return nil
}

// Commit syncs the staged files, removes the files of [Batch.RemoveFirst], renames
// the staged files into place, removes the files of [Batch.Remove] and syncs the
// directories. When the sync of the files fails, nothing visible has changed. An
// error of a rename ends the commit; files that were renamed before stay.
func (b *Batch) Commit() (err error) {
	if b.done {
		return fmt.Errorf("committing: %w", fs.ErrClosed)
	}
	defer func() { err = errors.Join(err, b.Abort()) }() // removes staged files that were not renamed
	if b.err != nil {
		return b.err
	}
	if len(b.staged) > 0 {
		if err := b.sync(); err != nil {
			return fmt.Errorf("making %d files durable: %w", len(b.staged), err)
		}
	}
	if err := b.removeAll(b.first); err != nil {
		return err
	}
	for len(b.staged) > 0 {
		if err := b.root.Rename(b.staged[0].temp, b.staged[0].rel); err != nil {
			return fmt.Errorf("renaming into place: %w", err)
		}
		b.staged = b.staged[1:]
	}
	if err := b.removeAll(b.removed); err != nil {
		return err
	}
	return b.syncDirs()
}

func (b *Batch) removeAll(names []string) error {
	for _, rel := range names {
		err := b.root.Remove(rel)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("removing: %w", err)
		}
		b.touched[path.Dir(rel)] = true
		delete(b.touched, rel) // if it was a directory
	}
	return nil
}

// manyDirs is the number of directories from which syncing the file system, which
// has just been written back, is cheaper than syncing each directory.
const manyDirs = 16

// syncDirs syncs the directories in which names changed.
func (b *Batch) syncDirs() error {
	if len(b.touched) > manyDirs {
		if done, err := syncFS(b.root); done {
			return wrap("making", "directories durable", err)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(b.touched)) {
		if err := SyncDirIn(b.root, dir); err != nil {
			return fmt.Errorf("making directory %s durable: %w", dir, err)
		}
	}
	return nil
}

// sync makes the staged files durable: with one syncfs where the system has it, which
// costs about as much as syncing one file, and one by one elsewhere.
func (b *Batch) sync() error {
	if done, err := syncFS(b.root); done {
		return err
	}
	for _, s := range b.staged {
		f, err := b.root.Open(s.temp)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Abort removes the staged files and ends the batch. After Commit, and when called
// again, it does nothing.
func (b *Batch) Abort() error {
	if b.done {
		return nil
	}
	b.done = true
	var errs []error
	for _, s := range b.staged {
		if err := b.root.Remove(s.temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, b.root.Close())...)
}
