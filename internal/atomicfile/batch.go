package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
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
	folders []folder // in which files were of late, the last one first
	staged  []staged
	first   []string        // to be removed before the first rename
	removed []string        // and after the last one
	made    map[string]bool // directories that are there
	touched map[string]bool // directories whose names changed
	err     error           // the first error of Add; Commit refuses after it
	done    bool
}

// staged is one file that waits for Commit, under a temporary name in its own
// directory.
type staged struct{ temp, rel string }

// NewBatch starts a batch below dir, which must exist.
func NewBatch(dir string) (*Batch, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("starting to write below %s: %w", dir, err)
	}
	return &Batch{root: root, made: map[string]bool{".": true}, touched: map[string]bool{}}, nil
}

// Add stages data as the file rel, unless the file holds those bytes already.
// Missing directories are made with mode 0755. After an error the batch can
// only be aborted.
func (b *Batch) Add(rel string, data []byte, perm fs.FileMode) error {
	return b.AddParts(rel, [][]byte{data}, perm)
}

// AddParts is [Batch.Add] of a file whose content is in parts.
func (b *Batch) AddParts(rel string, parts [][]byte, perm fs.FileMode) error {
	if err := b.add(rel, parts, perm); err != nil {
		b.err = fmt.Errorf("staging %s: %w", rel, err)
		return b.err
	}
	return nil
}

func (b *Batch) add(rel string, data parts, perm fs.FileMode) error {
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
	in, err := b.within(dir)
	if err != nil {
		return err
	}
	same, err := holds(in, path.Base(rel), data, perm)
	if err != nil {
		return err
	}
	if same {
		b.Skipped++
		return nil
	}
	temp, err := stage(in, path.Base(rel), data, perm, false)
	if err != nil {
		return err
	}
	b.staged = append(b.staged, staged{temp, rel})
	b.touched[dir] = true
	b.Written++
	return nil
}

// A folder is a directory of the batch, kept open while the files come from it:
// through the root, every operation opens all directories above a file anew.
type folder struct {
	rel  string
	root *os.Root
}

// openFolders is how many are kept open: what belongs together may lie in several.
const openFolders = 8

// within opens a directory of the batch, and closes the one that was needed
// longest ago.
func (b *Batch) within(rel string) (*os.Root, error) {
	for i, f := range b.folders {
		if f.rel == rel {
			copy(b.folders[1:], b.folders[:i])
			b.folders[0] = f
			return f.root, nil
		}
	}
	if last := len(b.folders) - 1; last+1 == openFolders {
		if err := b.folders[last].root.Close(); err != nil {
			return nil, err
		}
		b.folders = b.folders[:last]
	}
	root, err := b.root.OpenRoot(rel)
	if err != nil {
		return nil, err
	}
	b.folders = slices.Insert(b.folders, 0, folder{rel, root})
	return root, nil
}

// replace makes one staged file visible.
func (b *Batch) replace(s staged) error {
	in, err := b.within(path.Dir(s.rel))
	if err != nil {
		return err
	}
	return in.Rename(s.temp, path.Base(s.rel))
}

// Remove lets Commit remove the file rel after all renames. That it is not
// there is no error.
func (b *Batch) Remove(rel string) error {
	return b.remove(&b.removed, rel)
}

// RemoveFirst is Remove before all renames, and once what is staged is durable:
// for what must not be seen beside the new files.
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

// Order lets Commit rename the files in another order than they were added in,
// except those of which compare says 0.
func (b *Batch) Order(compare func(rel, other string) int) {
	slices.SortStableFunc(b.staged, func(x, y staged) int { return compare(x.rel, y.rel) })
}

// mkdirAll makes the directories of rel one by one, so that each gets its mode
// and none is a symlink.
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

// Commit makes everything staged durable, removes what [Batch.RemoveFirst] named,
// renames what is staged into place in the order added, removes what
// [Batch.Remove] named and makes the directories durable.
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
	if err := b.removeAll(b.first); err != nil {
		return err
	}
	for len(b.staged) > 0 {
		if err := b.replace(b.staged[0]); err != nil {
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
		b.touched[path.Dir(rel)] = true
		if info.IsDir() {
			delete(b.touched, rel)
		}
	}
	return nil
}

// manyDirs is how many directories cost more one by one than the whole file
// system at once, which has just been written back.
const manyDirs = 16

// syncDirs makes the names in the directories durable that changed.
func (b *Batch) syncDirs() error {
	if len(b.touched) > manyDirs {
		if done, err := syncFS(b.root); done {
			return wrap("making", "directories durable", err)
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
		f, err := b.root.Open(path.Join(path.Dir(s.rel), s.temp))
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
		if err := b.root.Remove(path.Join(path.Dir(s.rel), s.temp)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	b.staged = nil
	for _, f := range b.folders {
		errs = append(errs, f.root.Close())
	}
	b.folders = nil
	return errors.Join(append(errs, b.root.Close())...)
}
