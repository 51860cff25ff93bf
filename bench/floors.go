package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	fast "github.com/klauspost/compress/gzip"

	"gpuboard/internal/snapshot"
)

// This file does a part of the work of a generation as plainly as can be: what
// no program can do without, and what bare templates cost.

// overwrite puts content into a file that may be there, in place and without
// emptying it first: the cheapest that there is, and nothing that a reader of the
// file would like. Emptied files cost ext4 several times as much.
func overwrite(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if info, statErr := f.Stat(); err == nil && statErr == nil && info.Size() > int64(len(content)) {
		err = f.Truncate(int64(len(content)))
	}
	return errors.Join(err, f.Close())
}

// contents are all files of a site, by their names in it.
func contents(site string) (map[string][]byte, error) {
	all := map[string][]byte{}
	return all, filepath.WalkDir(site, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(site, path)
		if err != nil {
			return err
		}
		all[rel], err = os.ReadFile(path)
		return err
	})
}

// A copied site lies beside the real one, to be written to plainly.
type copied struct {
	dir   string
	files map[string][]byte
}

func newCopied(dir string, files map[string][]byte) (*copied, error) {
	c := &copied{dir, files}
	for name := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			return nil, err
		}
	}
	return c, c.write(overwrite)
}

func (c *copied) write(one func(path string, content []byte) error) error {
	for name, content := range c.files {
		if err := one(filepath.Join(c.dir, name), content); err != nil {
			return err
		}
	}
	return nil
}

// read takes in what the nodes pushed.
func (f *fleet) read() error {
	for _, name := range f.names {
		if _, err := os.ReadFile(f.path("data", "drop", name, "latest.json.gz")); err != nil {
			return err
		}
	}
	return nil
}

// bareSite is one page a host and an index, 7.8 KB each, as the floors had it
// that targets were told against.
func bareSite(hosts int) map[string][]byte {
	files := map[string][]byte{}
	for n := range hosts + 2 {
		files[fmt.Sprintf("page%04d.html", n)] = bytes.Repeat([]byte("<td>1"), 7800/5)
	}
	return files
}

// floors is what a cycle of everything costs otherwise.
func floors(f *fleet) (rivals []rival, besides []beside, err error) {
	bare, err := newCopied(filepath.Join(f.memory, "bare"), bareSite(len(f.names)))
	if err != nil {
		return nil, nil, err
	}
	floor, err := least(5, func() error { return errors.Join(f.read(), bare.write(overwrite)) })
	if err != nil {
		return nil, nil, err
	}
	all, err := contents(f.site())
	if err != nil {
		return nil, nil, err
	}
	same, err := newCopied(filepath.Join(f.memory, "plain"), all)
	if err != nil {
		return nil, nil, err
	}
	inPlace, err := least(5, func() error { return errors.Join(f.read(), same.write(overwrite)) })
	if err != nil {
		return nil, nil, err
	}
	emptied, err := least(3, func() error {
		return errors.Join(f.read(),
			same.write(func(path string, content []byte) error { return os.WriteFile(path, content, 0o644) }))
	})
	if err != nil {
		return nil, nil, err
	}
	var packs []float64
	for _, w := range []packer{gzip.NewWriter(io.Discard), fast.NewWriter(io.Discard)} {
		cost, err := least(1, func() error { return packAll(w, all) })
		if err != nil {
			return nil, nil, err
		}
		packs = append(packs, cost)
	}
	template, err := bareTemplate(f)
	if err != nil {
		return nil, nil, err
	}
	return []rival{{"reading the inputs and writing a page for each host in place, 7.8 KB and no more", floor, 0}},
		[]beside{{"reading the inputs and writing the same bytes in place", inPlace},
			{"likewise, each file emptied first", emptied}, {"compress/gzip of the same files", packs[0]},
			{"klauspost/compress/gzip of them", packs[1]}, {"bare html/template, one table a host", template}}, nil
}

// A packer is a gzip.Writer of either library.
type packer interface {
	io.WriteCloser
	Reset(io.Writer)
}

// packAll compresses what a site has compressed.
func packAll(w packer, all map[string][]byte) error {
	for name, content := range all {
		if _, twin := all[name+".gz"]; !twin {
			continue
		}
		w.Reset(&bytes.Buffer{})
		if _, err := w.Write(content); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
	return nil
}

// replaced is what ways of replacing files cost, a page for each host: in a row
// of cycles by temporary files and renames, which is the usual way, the last of
// them against the 4th; and what else there is.
func replaced(f *fleet, cycles int) (ms []float64, last float64, besides []beside, err error) {
	c, err := newCopied(filepath.Join(f.memory, "renamed"), bareSite(len(f.names)))
	if err != nil {
		return nil, 0, nil, err
	}
	renamed := func(path string, content []byte) error {
		if err := os.WriteFile(path+".new", content, 0o644); err != nil {
			return err
		}
		return os.Rename(path+".new", path)
	}
	for range cycles {
		u, err := mine(func() error { return c.write(renamed) })
		if err != nil {
			return nil, 0, nil, err
		}
		ms = append(ms, u.ms())
	}
	last = ms[len(ms)-1] / ms[3]
	for _, way := range []struct {
		what string
		one  func(path string, content []byte) error
	}{
		{"in place", overwrite},
		{"synced each, and renamed", func(path string, content []byte) error {
			f, err := os.Create(path + ".new")
			if err != nil {
				return err
			}
			_, err = f.Write(content)
			if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		}},
	} {
		cost, err := least(3, func() error { return c.write(way.one) })
		if err != nil {
			return nil, 0, nil, err
		}
		besides = append(besides, beside{way.what, cost})
	}
	return ms[3:], last, besides, nil
}

// written is how many bytes a generation writes: those of the files that differ in
// their time from what there was.
func written(site string, generation func() error) (size int64, err error) {
	before := map[string]time.Time{}
	look := func(visit func(path string, info fs.FileInfo)) error {
		return filepath.WalkDir(site, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			info, err := d.Info()
			if err == nil {
				visit(path, info)
			}
			return err
		})
	}
	if err := look(func(path string, info fs.FileInfo) { before[path] = info.ModTime() }); err != nil {
		return 0, err
	}
	if err := generation(); err != nil {
		return 0, err
	}
	err = look(func(path string, info fs.FileInfo) {
		if !before[path].Equal(info.ModTime()) {
			size += info.Size()
		}
	})
	return size, err
}

// bareTemplate renders a page with a row for each GPU and process of each host,
// and nothing besides.
func bareTemplate(f *fleet) (float64, error) {
	page := template.Must(template.New("").Parse(`<!doctype html><title>{{.Host}}</title><h1>{{.Host}}</h1><table>
{{range .GPUs}}<tr><th>{{.Index}}<td>{{.Name}}<td>{{.UUID}}<td>{{.MemoryUsed}}<td>{{.MemoryTotal}}<td>{{.UtilizationGPU}}<td>{{.Temperature}}<td>{{.PowerDraw}}
{{end}}</table><table>{{range .Processes}}<tr><td>{{.PID}}<td>{{.User}}<td>{{.Program}}<td>{{.UsedMemory}}{{end}}</table>`))
	var all []*snapshot.Snapshot
	for _, name := range f.names {
		all = append(all, f.Snapshot(name, f.at))
	}
	var out bytes.Buffer
	return least(5, func() error {
		for _, s := range all {
			out.Reset()
			if err := page.Execute(&out, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// least is the least processor time of several runs, in ms.
func least(times int, f func() error) (float64, error) {
	best := 0.0
	for n := range times {
		u, err := mine(f)
		if err != nil {
			return 0, err
		}
		if n == 0 || u.ms() < best {
			best = u.ms()
		}
	}
	return best, nil
}
