package sitegen

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/afero"
	"golang.org/x/sync/errgroup"

	"gpuboard/internal/atomicfile"
	"gpuboard/sitegen/render"
)

// manifest is what this program has put into the site, so that it removes its
// own files and nobody else's.
type manifest struct {
	Files []string `json:"files"`
	// Assets are those of earlier generations, and when they were replaced: pages
	// with charts that are not due, and those that a browser loaded a moment ago,
	// still ask for them.
	Assets map[string]time.Time `json:"assets"`
}

// assetsFor is how long assets stay after they were replaced.
const assetsFor = 24 * time.Hour

// A siteWriter writes one view. Files are compressed several at a time and staged one
// by one, as they come, and become visible together.
type siteWriter struct {
	v       *view
	now     time.Time
	workers errgroup.Group
	mu      sync.Mutex // guards batch and files
	batch   staging
	files   []string // all files of the site
}

// staging takes the files of a site and makes them visible together: [atomicfile.Batch], or in a preview fsBatch.
type staging interface {
	Add(name string, data []byte, mode fs.FileMode) error
	RemoveFirst(name string) error
	Remove(name string) error
	Order(compare func(a, b string) int)
	Commit() error
	Abort() error
	// Changed is how many files are new or have other content.
	Changed() int
}

// newSiteWriter starts to write. Whoever calls it calls abort in the end, after
// commit or without.
func (v *view) newSiteWriter(now time.Time) (*siteWriter, error) {
	var batch staging = &fsBatch{fs: v.fs}
	if v.fs == nil {
		onDisk, err := atomicfile.NewBatch(v.dir)
		if err != nil {
			return nil, err
		}
		batch = onDisk
	}
	w := &siteWriter{v: v, now: now, batch: batch}
	w.workers.SetLimit(runtime.GOMAXPROCS(0))
	return w, nil
}

// add takes one file of the site. It waits while all workers are busy, and commit says what went wrong.
func (w *siteWriter) add(f render.File) error {
	w.workers.Go(func() error { return w.stage(&f) })
	return nil
}

// stage compresses a file and stages both, unless they are on disk already.
func (w *siteWriter) stage(f *render.File) (err error) {
	if f.Kept {
		w.keep(f.Path)
		return nil
	}
	var packed []byte // nil where there is no compressed copy
	if hasGzip(f.Path, len(f.Content)) {
		c, ok := w.v.compressors.Get().(*compressor)
		if !ok {
			c = &compressor{writers: map[int]*gzip.Writer{}}
		}
		defer w.v.compressors.Put(c)
		packed = c.gzip(f)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files = append(w.files, f.Path)
	switch {
	case packed != nil:
		w.files = append(w.files, f.Path+".gz")
		err = w.batch.Add(f.Path+".gz", packed, 0o644)
	case mayHaveGzip(f.Path): // web servers would send an old copy, whatever it holds
		err = w.remove(f.Path + ".gz")
	}
	if err != nil {
		return err
	}
	return w.batch.Add(f.Path, f.Content, 0o644)
}

// keep takes a file and its compressed copy, where there are any, as they are.
func (w *siteWriter) keep(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range []string{name, name + ".gz"} {
		if w.v.has(name) {
			w.files = append(w.files, name)
		}
	}
}

// abort gives up what is not visible yet, which after commit is nothing.
func (w *siteWriter) abort() error {
	_ = w.workers.Wait() // its error came from add or commit
	return w.batch.Abort()
}

// commit makes the files visible: what pages need before the pages, the index
// last, and each compressed copy before its file. Compressed copies that files no
// longer have are removed first. It adds what it did to a report.
func (w *siteWriter) commit(r *Report) error {
	if err := w.workers.Wait(); err != nil {
		return err
	}
	w.batch.Order(func(a, b string) int {
		return cmp.Or(render.Rank(a)-render.Rank(b), strings.Compare(path.Dir(a), path.Dir(b)))
	})
	removed, err := w.replace()
	if err != nil {
		return err
	}
	changed := w.batch.Changed()
	r.Written, r.Same, r.Removed = r.Written+changed, r.Same+len(w.files)-changed, r.Removed+removed
	if b, ok := w.batch.(*fsBatch); ok {
		r.Changes = append(r.Changes, b.changes...)
	}
	return nil
}

// replace makes visible what was staged, removes the files that the site no longer
// has, and writes the manifest for the next generation.
func (w *siteWriter) replace() (removed int, err error) {
	v := w.v
	slices.Sort(w.files)
	old := readManifest(v.manifest)
	next := manifest{Files: w.files, Assets: map[string]time.Time{}}
	has := func(name string) bool {
		_, found := slices.BinarySearch(next.Files, name)
		return found
	}
	var gone []string
	for name, replaced := range old.Assets {
		switch {
		case has(name):
		case w.now.Sub(replaced) < assetsFor:
			next.Assets[name] = replaced
		default:
			gone = append(gone, name)
		}
	}
	for _, name := range old.Files {
		switch {
		case has(name):
		case strings.HasPrefix(name, "assets/"):
			next.Assets[name] = w.now
		default:
			gone = append(gone, name)
		}
	}
	for _, name := range gone {
		if err := w.remove(name); err != nil {
			return 0, err
		}
	}
	listed := !slices.Equal(old.Files, next.Files) || !maps.Equal(old.Assets, next.Assets)
	if listed {
		// The manifest comes first: a name in it without a file does no harm, a file
		// that nobody remembers stays for ever.
		if err := v.writeManifest(manifest{Files: union(old.Files, next.Files), Assets: old.Assets}); err != nil {
			return 0, err
		}
	}
	if err := w.batch.Commit(); err != nil {
		return 0, fmt.Errorf("writing the site: %w", err)
	}
	if listed {
		v.removeEmpty(gone)
		if err := v.writeManifest(next); err != nil {
			return 0, err
		}
	}
	return len(gone), nil
}

// remove removes a file that the site no longer has: a compressed copy before the
// first new file becomes visible, because web servers would send it in place of the
// new one; other files after the last, because pages may have linked to them.
func (w *siteWriter) remove(name string) error {
	if strings.HasSuffix(name, ".gz") {
		return w.batch.RemoveFirst(name)
	}
	return w.batch.Remove(name)
}

// FilesOf lists the files of the site that a generator with this state directory has written, or of the public one
// beside it.
func FilesOf(state string, public bool) []string {
	name := manifestFile
	if public {
		name = publicManifestFile
	}
	m := readManifest(filepath.Join(state, name))
	return append(m.Files, slices.Collect(maps.Keys(m.Assets))...)
}

func readManifest(path string) manifest {
	var m manifest
	data, err := atomicfile.Read(path, maxMemoryBytes)
	if err != nil || json.Unmarshal(data, &m) != nil {
		return manifest{}
	}
	outside := func(name string) bool { return !filepath.IsLocal(filepath.FromSlash(name)) }
	m.Files = slices.DeleteFunc(m.Files, outside)
	maps.DeleteFunc(m.Assets, func(name string, _ time.Time) bool { return outside(name) })
	return m
}

func (v *view) writeManifest(m manifest) error {
	if err := writeState(v.manifest, m); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	return nil
}

func union(a, b []string) []string {
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}

// removeEmpty takes away directories that held only what is gone now.
func (v *view) removeEmpty(gone []string) {
	if v.fs != nil {
		return
	}
	for _, name := range gone {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			// Remove refuses a directory that holds anything: that is the check.
			if os.Remove(filepath.Join(v.dir, filepath.FromSlash(dir))) != nil {
				break
			}
		}
	}
}

// has reports whether the site has a file of this name, whoever wrote it.
func (v *view) has(name string) bool {
	name = filepath.FromSlash(name)
	if v.fs != nil {
		_, err := v.fs.Stat(name)
		return err == nil
	}
	_, err := os.Lstat(filepath.Join(v.dir, name))
	return err == nil
}

// fsBatch finds out what would change in a site, and changes nothing.
type fsBatch struct {
	fs                     afero.Fs
	staged, first, removed []string
	changes                []string // what Commit would do, in words
}

func (b *fsBatch) Add(name string, data []byte, _ fs.FileMode) error {
	if old, err := afero.ReadFile(b.fs, filepath.FromSlash(name)); err != nil || !bytes.Equal(old, data) {
		b.staged = append(b.staged, name)
	}
	return nil
}

func (b *fsBatch) RemoveFirst(name string) error {
	b.first = append(b.first, name)
	return nil
}

func (b *fsBatch) Remove(name string) error {
	b.removed = append(b.removed, name)
	return nil
}

func (b *fsBatch) Order(compare func(a, b string) int) { slices.SortStableFunc(b.staged, compare) }

func (b *fsBatch) Changed() int { return len(b.staged) }

func (b *fsBatch) Commit() error {
	b.tell(b.first, "remove", "")
	b.tell(b.staged, "change", "add")
	b.tell(b.removed, "remove", "")
	return nil
}

// tell adds a verb for each file that is there, and another for those that are missing, "" for none.
func (b *fsBatch) tell(names []string, there, missing string) {
	for _, name := range names {
		verb := missing
		if _, err := b.fs.Stat(filepath.FromSlash(name)); err == nil {
			verb = there
		}
		if verb != "" {
			b.changes = append(b.changes, verb+" "+name)
		}
	}
}

func (b *fsBatch) Abort() error { return nil }
