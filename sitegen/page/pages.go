// Package page renders what a browser shows: a Board becomes HTML, with its
// style, script and pictures. It reads no clock, and no disk but a site's own look.
package page

import (
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/a-h/templ"

	"gpuboard/docs"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// Files renders everything that a browser shows: pages, script, style, icons.
// The files come in the order in which they should be published: what a page
// refers to before the page, index.html last. own is the directory of the site's
// own look, nil for none; an error in it names the file.
//
// A host's page depends on that host alone, never on the moment of the
// generation, so that it stays byte for byte the same while there is no news.
func Files(in render.Input, own fs.FS) ([]render.File, error) {
	in.Site = in.Site.WithDefaults()
	l, err := readLook(own, in.Site)
	if err != nil {
		return nil, err
	}
	v := newView(in, l)
	out := &render.Sink{Emit: in.Emit}
	if err := out.Put(append(slices.Clip(l.files), render.NewFile("book/capabilities.json", []byte(capabilities)))...); err != nil {
		return nil, err
	}
	if v.in.Help {
		if v.help, err = v.makeHelp(docs.Files(), docs.Pages()); err != nil {
			return nil, fmt.Errorf("rendering the help: %w", err)
		}
	}
	cards, err := v.renderHosts(out)
	if err != nil {
		return nil, err
	}
	if err := v.userPages(out); err != nil {
		return nil, err
	}
	if v.in.Help {
		if err := out.Put(v.help.files...); err != nil {
			return nil, err
		}
	}
	index, err := v.indexPage(cards)
	if err != nil {
		return nil, err
	}
	for i, p := range v.bookingsPages() {
		file, err := newFile(bookingsPath(i), templates.Bookings(p))
		if err != nil {
			return nil, err
		}
		if err := out.Put(file); err != nil {
			return nil, err
		}
	}
	for _, p := range []struct {
		path string
		page templ.Component
	}{
		{"about/index.html", templates.About(v.aboutPage())},
		{"book/index.html", templates.BookPlain(v.bookPlainPage())},
		{"history/index.html", templates.History(v.historyPage())},
		{"users/index.html", templates.Everybody(v.peoplePage())},
		{"kiosk/index.html", templates.Kiosk(v.kioskPage(index))},
		{"index.html", templates.Index(index)},
	} {
		file, err := newFile(p.path, p.page)
		if err != nil {
			return nil, err
		}
		if err := out.Put(file); err != nil {
			return nil, err
		}
	}
	return out.Files, nil
}

func newView(in render.Input, l *look) *view {
	v := &view{
		in: in, look: l, hosts: map[string]bool{}, people: render.People(in.Board), generation: in.GenerationID(),
		due: dueBookings(in.Board), booked: bookedByHost(in.Board),
	}
	for i := range in.Board.Hosts {
		v.hosts[in.Board.Hosts[i].Name] = true
	}
	return v
}

func (v *view) aboutPage() *templates.AboutPage {
	host := "gpu01"
	if len(v.in.Board.Hosts) > 0 {
		host = v.in.Board.Hosts[0].Name
	}
	return &templates.AboutPage{
		Frame:    v.frame("about", "../", time.Time{}, v.interval()),
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

func (v *view) interval() time.Duration {
	for _, d := range []time.Duration{v.in.Board.Interval, v.in.Site.Interval} {
		if d > 0 {
			return d
		}
	}
	return time.Minute
}
