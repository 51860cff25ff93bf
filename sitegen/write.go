package sitegen

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpuboard/atomicfile"
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

// checkEvery is how often a generator that goes on looks at all files of the
// site. In between it relies on what it wrote itself: what somebody else
// deleted or changed there is put right at the next look.
const checkEvery = time.Minute

// write puts the files in place: what pages need before the pages, the index
// last, each compressed twin before its file, and nothing that is the same.
func (v *view) write(files []render.File) (r Report, err error) {
	clock := time.Now()
	check := clock.Sub(v.checked) >= checkEvery || clock.Before(v.checked)
	if check {
		v.checked = time.Time{} // until all of it is done
	}
	slices.SortStableFunc(files, func(a, b render.File) int { return rank(a.Path) - rank(b.Path) })
	have := make([]string, 0, 2*len(files))
	changed := make([]render.File, 0, len(files))
	for _, f := range files {
		have = append(have, f.Path)
		if compressible(f.Path) {
			have = append(have, f.Path+".gz")
		}
		if check || !v.known.Holds(f.Path, f.Parts...) {
			changed = append(changed, f)
		}
	}
	for i := range files {
		files[i].Parts = nil // held by what is to be written, and by caches
	}
	slices.Sort(have)

	batch, err := atomicfile.NewBatch(v.dir)
	if err != nil {
		return r, err
	}
	defer batch.Abort()
	batch.Remember(&v.known)
	if err := batch.SpareIn(v.spares); err != nil {
		return r, err
	}
	if !check {
		batch.Trust()
	}
	stop := make(chan struct{})
	defer close(stop) // nobody waits for what is left
	pack := newPacker(changed, v.dir, &v.pieces, check, stop)
	for i, f := range changed {
		twin, err := pack.twin(i)
		if err != nil {
			return r, err
		}
		if twin != nil {
			if err := batch.Add(f.Path+".gz", twin, 0o644); err != nil {
				return r, err
			}
		}
		if err := batch.AddParts(f.Path, f.Parts, 0o644); err != nil {
			return r, err
		}
		changed[i].Parts = nil // a process that makes one generation has no more use for it
	}

	old := v.listed
	if check || old.Files == nil {
		old = v.readManifest()
	}
	next := manifest{Files: have}
	for _, name := range old.Files {
		if _, found := slices.BinarySearch(next.Files, name); found {
			continue
		}
		if strings.HasPrefix(name, "assets/") {
			next.Assets = append(next.Assets, name)
			continue
		}
		if err := batch.Remove(name); err != nil {
			return r, err
		}
		r.Removed++
	}
	for _, name := range old.Assets {
		if _, found := slices.BinarySearch(next.Files, name); !found {
			if err := batch.Remove(name); err != nil {
				return r, err
			}
			r.Removed++
		}
	}
	listed := !slices.Equal(old.Files, next.Files) || !slices.Equal(old.Assets, next.Assets)
	if listed {
		// The manifest comes first: a name in it without a file does no harm, a file
		// that nobody remembers stays for ever.
		v.listed = manifest{}
		if err := v.writeManifest(manifest{Files: union(old.Files, next.Files), Assets: old.Assets}); err != nil {
			return r, err
		}
	}
	if err := batch.Commit(); err != nil {
		v.checked = time.Time{} // something is not as it was left
		return r, fmt.Errorf("writing the site: %w", err)
	}
	r.Written, r.Same = batch.Written, len(have)-batch.Written
	if listed {
		v.removeEmpty(old.Files, next.Files)
		if err := v.writeManifest(next); err != nil {
			return r, err
		}
	}
	v.listed = next
	if check {
		v.checked = clock
	}
	return r, nil
}

// rank orders the files of a generation: assets, then what programs read, then
// pages, and last the page that links to everything.
func rank(name string) int {
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
