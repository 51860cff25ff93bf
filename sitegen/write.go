package sitegen

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gpuboard/internal/atomicfile"
	"gpuboard/sitegen/render"
)

// manifest is what this program has put into the site, so that it removes its
// own files and nobody else's.
type manifest struct {
	Files []string `json:"files"`
	// Assets are those of the generation before: a page that a browser loaded a
	// moment ago still asks for them.
	Assets []string `json:"assets"`
}

// A writing is one view being written: files are compressed and staged as they
// are made, and become visible all together.
type writing struct {
	v       *view
	batch   *atomicfile.Batch
	pack    *packer
	coming  []*packing // to be packed together
	waiting []*packing // for being packed, in the order in which they came
	have    []string
	closed  bool
}

// begin starts to write. It ends with abort, after commit or without.
func (v *view) begin() (*writing, error) {
	batch, err := atomicfile.NewBatch(v.dir)
	if err != nil {
		return nil, err
	}
	return &writing{v: v, batch: batch, pack: newPacker(v)}, nil
}

// add takes one file of the site.
func (w *writing) add(f render.File) error {
	w.have = append(w.have, f.Path)
	if worthTwin(f.Path, sizeOf(f.Parts)) {
		w.have = append(w.have, f.Path+".gz")
	}
	if w.coming = append(w.coming, &packing{File: f}); len(w.coming) < packTogether {
		return nil
	}
	w.start()
	if len(w.waiting) < packAhead {
		return nil
	}
	return w.stage(packTogether)
}

// start lets those that came be packed.
func (w *writing) start() {
	if len(w.coming) > 0 {
		w.pack.start(w.coming)
		w.waiting, w.coming = append(w.waiting, w.coming...), nil
	}
}

// alone removes what lies in the place of a twin that a file does not have: web
// servers would send it, whatever it holds.
func (w *writing) alone(name string) error {
	if !mayHaveTwin(name) {
		return nil
	}
	if _, err := os.Lstat(w.v.twinOf(name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return w.remove(name + ".gz")
}

// stage takes so many of those that wait, those that came first.
func (w *writing) stage(files int) error {
	for _, f := range w.waiting[:files] {
		if err := w.stageFile(f); err != nil {
			return err
		}
	}
	w.waiting = slices.Delete(w.waiting, 0, files)
	return nil
}

// stageFile takes a compressed twin, and then the file.
func (w *writing) stageFile(f *packing) error {
	<-f.ready
	if f.err != nil {
		return f.err
	}
	switch {
	case f.twin != nil:
		if err := w.batch.Add(f.Path+".gz", f.twin, 0o644); err != nil {
			return err
		}
	case f.right:
	default:
		if err := w.alone(f.Path); err != nil {
			return err
		}
	}
	return w.batch.Add(f.Path, bytes.Join(f.Parts, nil), 0o644)
}

// abort gives up what is not visible yet, which after commit is nothing.
func (w *writing) abort() error {
	if w.closed {
		return nil
	}
	w.closed = true
	w.pack.close()
	return w.batch.Abort()
}

// commit puts the files in place: what pages need before the pages, the index
// last, each compressed twin before its file, and nothing that is the same. Before
// all of them go the twins of files that have none any more.
func (w *writing) commit() (r Report, err error) {
	w.start()
	if err := w.stage(len(w.waiting)); err != nil {
		return r, err
	}
	w.batch.Order(func(a, b string) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(path.Dir(a), path.Dir(b)))
	})
	if r.Removed, err = w.list(); err != nil {
		return r, err
	}
	r.Written, r.Same = w.batch.Written, len(w.have)-w.batch.Written
	return r, nil
}

// list makes visible what was staged, removes files that the site has no more,
// and says how many. What it has now is listed for the next generation.
func (w *writing) list() (removed int, err error) {
	v := w.v
	slices.Sort(w.have)
	old := v.readManifest()
	next := manifest{Files: w.have}
	for _, name := range old.Files {
		if _, found := slices.BinarySearch(next.Files, name); found {
			continue
		}
		if strings.HasPrefix(name, "assets/") {
			next.Assets = append(next.Assets, name)
			continue
		}
		if err := w.remove(name); err != nil {
			return removed, err
		}
		removed++
	}
	for _, name := range old.Assets {
		if _, found := slices.BinarySearch(next.Files, name); !found {
			if err := w.remove(name); err != nil {
				return removed, err
			}
			removed++
		}
	}
	listed := !slices.Equal(old.Files, next.Files) || !slices.Equal(old.Assets, next.Assets)
	if listed {
		// The manifest comes first: a name in it without a file does no harm, a file
		// that nobody remembers stays for ever.
		if err := v.writeManifest(manifest{Files: union(old.Files, next.Files), Assets: old.Assets}); err != nil {
			return removed, err
		}
	}
	if err := w.batch.Commit(); err != nil {
		return removed, fmt.Errorf("writing the site: %w", err)
	}
	if listed {
		v.removeEmpty(old.Files, next.Files)
		if err := v.writeManifest(next); err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// remove takes a file away that the site has no more: a twin before the first new
// file becomes visible, because it would be sent in the place of it, and others
// after the last one, which may have led there.
func (w *writing) remove(name string) error {
	if strings.HasSuffix(name, ".gz") {
		return w.batch.RemoveFirst(name)
	}
	return w.batch.Remove(name)
}

// rank orders the files of a generation: assets, then what programs read, then
// pages, and last the page that links to everything.
func rank(name string) int {
	name = strings.TrimSuffix(name, ".gz")
	switch {
	case strings.HasPrefix(name, "assets/"):
		return 0
	case name == "index.html":
		return 3
	case strings.HasSuffix(name, ".html"):
		return 2
	default:
		return 1
	}
}

func (v *view) readManifest() manifest {
	var m manifest
	data, err := atomicfile.Read(v.manifest, maxMemoryBytes)
	if err != nil || json.Unmarshal(data, &m) != nil {
		return manifest{}
	}
	// It only ever names files below the site.
	ours := func(name string) bool { return !filepath.IsLocal(filepath.FromSlash(name)) }
	m.Files = slices.DeleteFunc(m.Files, ours)
	m.Assets = slices.DeleteFunc(m.Assets, ours)
	return m
}

func (v *view) writeManifest(m manifest) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	if _, err := atomicfile.Write(v.manifest, data, 0o600); err != nil {
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
func (v *view) removeEmpty(old, next []string) {
	for _, name := range old {
		if _, found := slices.BinarySearch(next, name); found {
			continue
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			// Remove refuses a directory that holds anything: that is the check.
			if os.Remove(filepath.Join(v.dir, filepath.FromSlash(dir))) != nil {
				break
			}
		}
	}
}
