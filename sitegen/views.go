package sitegen

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/spf13/afero"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/events"
	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
	"gpuboard/sitegen/text"
)

// A view is one site that a generation writes.
type view struct {
	dir         string
	fs          afero.Fs // dir for a preview, else nil
	manifest    string   // file that lists what we put into dir
	privacy     board.Privacy
	help        bool      // the documentation is part of it
	compressors sync.Pool // of *compressor
}

// newViews lays out the sites of a generation: the one, and the public one
// beside it, if there is to be one.
func newViews(o *Options) ([]*view, []snapshot.Problem, error) {
	salt, lost, err := siteSalt(filepath.Join(o.State, saltFile))
	if err != nil {
		return nil, nil, err
	}
	views := []*view{{
		dir: o.Site, manifest: filepath.Join(o.State, manifestFile), privacy: o.Privacy, help: !o.NoHelp,
	}}
	if o.Public != "" {
		if within(o.Site, o.Public) || within(o.Public, o.Site) {
			return nil, nil, fmt.Errorf("the public site %s and the site %s must not lie within each other", o.Public,
				o.Site)
		}
		views = append(views, &view{
			dir: o.Public, manifest: filepath.Join(o.State, publicManifestFile), privacy: o.PublicPrivacy,
			help: o.PublicHelp,
		})
	}
	for _, v := range views {
		if within(v.dir, o.Data) || within(v.dir, o.State) {
			return nil, nil, fmt.Errorf("%s is served to everybody: the data and state directories must lie outside it",
				v.dir)
		}
		if within(o.Data, v.dir) {
			return nil, nil, fmt.Errorf(
				"the site %s must lie outside the data directory %s, which nodes and people write to",
				v.dir, o.Data)
		}
		v.privacy.Salt = salt
		if o.Preview {
			v.fs = readOnly(v.dir)
			continue
		}
		if err := atomicfile.MkdirAll(v.dir, 0o755); err != nil {
			return nil, nil, fmt.Errorf("making the site directory: %w", err)
		}
	}
	return views, lost, nil
}

// Files of the state directory that belong to views.
const (
	publicManifestFile = "manifest-public.json"
	saltFile           = "salt" // of the names that stand for people
)

// siteSalt reads the salt, and makes one the first time: names that stand for
// people stay the same from one generation to the next. A damaged salt is replaced,
// and lost reports it, because these names change.
func siteSalt(path string) (salt []byte, lost []snapshot.Problem, err error) {
	salt, err = atomicfile.Read(path, 64)
	switch {
	case err == nil && len(salt) >= 16:
		return salt, nil, nil
	case errors.Is(err, atomicfile.ErrNotRegular):
		return nil, nil, fmt.Errorf("reading the salt of names: %w", err)
	case err == nil:
		err = fmt.Errorf("it has %d bytes", len(salt))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		lost = []snapshot.Problem{{
			Code: "state:forgotten", File: saltFile,
			Message: fmt.Sprintf("the salt of names was damaged (%v) and is made anew: "+
				"on a masked site, other names stand for people from now on", err),
		}}
	}
	salt = make([]byte, 32)
	_, _ = rand.Read(salt) // which never fails
	if _, err := atomicfile.Write(path, salt, 0o600); err != nil {
		return nil, nil, fmt.Errorf("keeping the salt of names: %w", err)
	}
	return salt, lost, nil
}

// id is what tells this board from others. It is made of the salt, and says nothing of it.
func (g *Generator) id() string {
	if len(g.views) == 0 {
		return ""
	}
	sum := sha256.Sum256(append([]byte("board "), g.views[0].privacy.Salt...))
	return hex.EncodeToString(sum[:8])
}

// publish renders and writes every view. All are rendered and staged before the
// first becomes visible, so that a template that cannot work changes nothing.
func (g *Generator) publish(
	b *board.Board, recent *history.Recent, past *render.History, samples map[string][]snapshot.Sample,
	log []events.Event,
) (total Report, err error) {
	notice, notes := g.notes(b)
	writers := make([]*siteWriter, 0, len(g.views))
	defer func() {
		for _, w := range writers {
			err = errors.Join(err, w.abort())
		}
	}()
	for i, v := range g.views {
		in := render.Input{
			Board: b.Mask(v.privacy), Site: g.opt.About, Notice: notice, HostNotes: notes, Rendered: g.rendered,
			History: past, Events: v.maskEvents(log), Samples: samples, Help: v.help,
		}
		if every := g.opt.CopyEvery; i == len(g.views)-1 && every > b.Every() {
			in.Board = in.Board.MadeEvery(every)
		}
		if v.privacy.MasksPeople() {
			// Notes on hosts and the places of files are for those who may see people.
			in.History, in.HostNotes = past.Mask(v.privacy.Name), nil
			in.Site.CommentsPath, in.Site.BookCommand, in.Site.BookSSH = "", "", ""
		}
		if recent != nil {
			in.FreeMean2h, in.FreeMean24h, in.FreeMean1w = recent.FreeMean2h, recent.FreeMean24h, recent.FreeMean1w
		}
		w, err := v.newSiteWriter(b.GeneratedAt)
		if err != nil {
			return Report{}, err
		}
		writers = append(writers, w)
		in.Emit = w.add
		if err := g.render(in); err != nil {
			return Report{}, err
		}
	}
	for _, w := range writers {
		if err := w.commit(&total); err != nil {
			return Report{}, err
		}
	}
	return total, nil
}

// notes reads the Markdown that stands on every site, and renders what is new of it.
func (g *Generator) notes(b *board.Board) (notice string, hosts map[string]string) {
	rendered := map[string]string{}
	read := func(name string) string {
		source := g.markdown(name, b)
		if page.Excessive(source) {
			b.Problems = append(b.Problems, snapshot.Problem{
				Code: "note:excessive", File: filepath.ToSlash(name),
				Message: "a paragraph of it is too long, or it nests too deep, to be rendered: it is shown as it is written",
			})
		}
		html, kept := g.rendered[source]
		if !kept {
			html = page.Markdown(source)
		}
		rendered[source] = html
		return source
	}
	notice, hosts = read("notice.md"), map[string]string{}
	for _, h := range b.Hosts {
		if note := read(filepath.Join("hosts", h.Name+".md")); note != "" {
			hosts[h.Name] = note
		}
	}
	g.rendered = rendered
	return notice, hosts
}

// OwnLook is the directory of a site's own look, for reading; nil where dir is "".
func OwnLook(dir string) fs.FS {
	if dir == "" {
		return nil
	}
	return afero.NewIOFS(readOnly(dir))
}

func readOnly(dir string) afero.Fs {
	return afero.NewReadOnlyFs(afero.NewBasePathFs(afero.NewOsFs(), dir))
}

// render makes every file.
func (g *Generator) render(in render.Input) error {
	in.Generation = render.Generation(in.Board)
	if err := page.Files(in, OwnLook(g.opt.Templates)); err != nil {
		return fmt.Errorf("rendering the pages: %w", err)
	}
	if err := data.Files(in); err != nil {
		return fmt.Errorf("rendering the data files: %w", err)
	}
	if err := text.Files(in); err != nil {
		return fmt.Errorf("rendering the texts: %w", err)
	}
	return nil
}

// maskEvents masks what happened, as the board is masked.
func (v *view) maskEvents(log []events.Event) []events.Event {
	if !v.privacy.MasksPeople() {
		return log
	}
	out := make([]events.Event, len(log))
	for i, e := range log {
		out[i] = e.Mask(v.privacy.Name, v.privacy.BookingID)
	}
	return out
}
