// Package page renders what a browser shows: a Board becomes HTML, with its
// style, script and pictures. It reads no clock, and no disk but a site's own look.
package page

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// Files renders everything that a browser shows. own is the directory of the site's own
// look, nil for none. A host's page depends on that host alone, so it stays the same while
// there is no news.
func Files(in render.Input, own fs.FS) error {
	in.Site, in.Generation = in.Site.WithDefaults(), in.GenerationID()
	looks := make([]*look, len(in.Site.Languages))
	for i, lang := range in.Site.Languages {
		var err error
		if looks[i], err = readLook(own, in.Site, lang); err != nil {
			return err
		}
	}
	v := newView(in, looks)
	files := append(slices.Clip(v.look.files), render.NewFile("book/capabilities.json", []byte(capabilities)))
	if err := in.Put(files...); err != nil {
		return err
	}
	if v.in.Help {
		if err := v.putHelp(); err != nil {
			return fmt.Errorf("rendering the help: %w", err)
		}
	}
	missing := v.frame("missing", missingPath, time.Time{}, v.in.Board.Every())
	if err := v.put(missing, templates.Missing(missing)); err != nil {
		return err
	}
	for _, l := range looks {
		v.look = l
		if err := v.pages(); err != nil {
			return err
		}
	}
	return nil
}

// missingPath is the page in the place of those that do not exist. It is sent at any depth, so its links begin
// where the site does.
const missingPath = "404.html"

// home is the path of the site on its web server, as far as that is known.
func home(baseURL string) string {
	u, err := url.Parse(baseURL)
	if err != nil {
		return "/"
	}
	return strings.TrimSuffix(u.EscapedPath(), "/") + "/"
}

// pages renders all pages in one language.
func (v *view) pages() error {
	if err := v.in.Put(v.scripts...); err != nil {
		return err
	}
	cards, err := v.renderHosts()
	if err != nil {
		return err
	}
	if err := v.userPages(); err != nil {
		return err
	}
	type page struct {
		templates.Frame
		templ.Component
	}
	var list []page
	for _, p := range v.bookingsPages() {
		list = append(list, page{p.Frame, templates.Bookings(p)})
	}
	index := v.indexPage(cards)
	about, book, history, kiosk := v.aboutPage(), v.bookPlainPage(), v.historyPage(), *index
	kiosk.Frame = v.frame("kiosk", "kiosk/index.html", v.in.Board.GeneratedAt, v.in.Board.Every())
	people := v.peoplePage()
	if len(index.Sites) > 0 {
		sites := &templates.SitesPage{
			Frame: v.frame("sites", "sites/index.html", v.in.Board.GeneratedAt, v.in.Board.Every()), Sites: index.Sites,
		}
		list = append(list, page{sites.Frame, templates.Sites(sites)})
	}
	list = append(list,
		page{about.Frame, templates.About(about)},
		page{book.Frame, templates.BookPlain(book)},
		page{history.Frame, templates.History(history)},
		page{people.Frame, templates.Everybody(people)},
		page{kiosk.Frame, templates.Kiosk(&kiosk)},
		page{index.Frame, templates.Index(index)},
	)
	for _, p := range list {
		if err := v.put(p.Frame, p.Component); err != nil {
			return err
		}
	}
	return nil
}

// put renders a page, which lies where its frame says, and hands it on.
func (v *view) put(f templates.Frame, page templ.Component) error {
	path := v.dir + f.Path
	var out bytes.Buffer
	out.Grow(32 << 10)
	if err := page.Render(context.Background(), &out); err != nil {
		return fmt.Errorf("rendering %s: %w", path, err)
	}
	return v.in.Put(render.NewFile(path, out.Bytes()))
}

// newView is the view in the first language, which every site has.
func newView(in render.Input, looks []*look) *view {
	v := &view{
		in: in, look: looks[0], hosts: map[string]*board.Host{}, people: render.People(in.Board),
		booked: in.Board.BookingsByHost(), names: shortNames(in.Board.Hosts), sizes: memorySizes(in.Board),
	}
	rows := 0
	for i := range in.Board.Hosts {
		v.hosts[in.Board.Hosts[i].Name] = &in.Board.Hosts[i]
		for range in.Board.Hosts[i].Rows() {
			rows++
		}
	}
	v.rowed = len(in.Board.Hosts) <= rowHosts && rows <= frontRows
	if len(looks) > 1 {
		for _, l := range looks {
			v.languages = append(v.languages, templates.Language{Code: l.lang, Name: l.words.T("language"), Dir: l.dir})
		}
	}
	return v
}

func (v *view) aboutPage() *templates.AboutPage {
	host := "gpu01"
	if len(v.in.Board.Hosts) > 0 {
		host = v.in.Board.Hosts[0].Name
	}
	return &templates.AboutPage{
		Frame:    v.frame("about", "about/index.html", time.Time{}, v.in.Board.Every()),
		Comments: render.Clean(v.in.Site.CommentsPath),
		Command:  render.Clean(v.in.Site.BookCommand) + " book " + host + `:0 --for 8h --comment "camera ready"`,
		Sample:   fmt.Sprintf(bookingSample, host),
	}
}

// bookingSample is a bookings file with two bookings of one host.
const bookingSample = `{
  %q: {
    "0": { "name": "mira", "date": "2030-05-02 18:00", "comment": "camera ready" },
    "3": { "name": "eva", "from": "2030-05-01 09:00", "date": "2030-05-03 18:00" }
  }
}`
