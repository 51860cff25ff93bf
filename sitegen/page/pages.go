// Package page renders what a browser shows: a Board becomes HTML, with its
// style, script and pictures. It reads no clock, and no disk but the templates.
package page

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"slices"
	"strings"
	"time"

	"gpuboard/docs"
	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
)

// The templates: one a page, and the parts that they share.
var pageTemplates = [...]string{
	"base.html", "parts.html", "host-card.html", "book.html",
	"chart.html", "history.html", "index.html", "host.html", "user.html", "bookings.html", "about.html", "kiosk.html",
	"help.html",
}

// Files renders everything that a browser shows: pages, script, style, icons.
// The files come in the order in which they should be published: what a page
// refers to before the page, index.html last. tmpl holds the templates (see
// package templates); an error in one of them names its file and line.
//
// A host's page depends on that host alone, never on the moment of the
// generation, so that it stays byte for byte the same while there is no news.
func Files(in render.Input, tmpl fs.FS) ([]render.File, error) {
	return renderPages(in, tmpl, parsePages)
}

func renderPages(in render.Input, tmpl fs.FS, parse func(fs.FS, *words) (*press, error)) ([]render.File, error) {
	in.Site = in.Site.WithDefaults()
	w, err := readWords(tmpl, in.Site.Zone)
	if err != nil {
		return nil, err
	}
	a, err := readAssets(tmpl, w)
	if err != nil {
		return nil, err
	}
	set, err := parse(tmpl, w)
	if err != nil {
		return nil, err
	}
	v := newView(in, w, a)
	v.due, v.booked = dueBookings(in.Board), bookedByHost(in.Board)
	out := &render.Sink{Emit: in.Emit}
	if err := out.Put(append(slices.Clip(a.files), render.NewFile("book/capabilities.json", []byte(capabilities)))...); err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	execute := func(path, name string, data any) ([]byte, error) {
		buf.Reset()
		if err := set.execute(&buf, name, data); err != nil {
			return nil, fmt.Errorf("rendering %s: %w", path, err)
		}
		return bytes.Clone(buf.Bytes()), nil
	}

	if v.in.Help {
		if v.help, err = v.makeHelp(set, docs.Files(), docs.Pages()); err != nil {
			return nil, fmt.Errorf("rendering the help: %w", err)
		}
	}
	done, err := v.renderHosts(set, out)
	if err != nil {
		return nil, err
	}
	if err := v.userPages(set, out); err != nil {
		return nil, err
	}
	if v.in.Help {
		if err := out.Put(v.help.files...); err != nil {
			return nil, err
		}
	}
	index, err := v.indexPage(done)
	if err != nil {
		return nil, err
	}
	for _, p := range []struct {
		path, name string
		data       any
	}{
		{"about/index.html", "about.html", v.aboutPage()},
		{"book/index.html", "book-plain", v.plainPage()},
		{"bookings/index.html", "bookings.html", v.bookingsPage()},
		{"history/index.html", "history.html", v.historyPage()},
		{"kiosk/index.html", "kiosk.html", v.kioskPage(index)},
		{"index.html", "index.html", index},
	} {
		content, err := execute(p.path, p.name, p.data)
		if err != nil {
			return nil, err
		}
		page := render.NewFile(p.path, content)
		if p.path == "index.html" {
			page.Parts = splice(content, index.cards...)
		}
		if err := out.Put(page); err != nil {
			return nil, err
		}
	}
	return out.Files, nil
}

func parsePages(tmpl fs.FS, w *words) (*press, error) {
	funcs := template.FuncMap{
		"t":      func(key any, args ...any) (string, error) { return w.say(fmt.Sprint(key), args...) },
		"n":      w.count,
		"length": w.length,
	}
	set := template.New("").Funcs(funcs)
	for _, name := range pageTemplates {
		b, err := fs.ReadFile(tmpl, name)
		if err != nil {
			return nil, fmt.Errorf("reading templates: %w", err)
		}
		text, err := w.fill(name, string(b))
		if err != nil {
			return nil, err
		}
		if _, err := set.New(name).Parse(text); err != nil {
			return nil, fmt.Errorf("parsing templates: %w", err)
		}
	}
	return newPress(set, funcs), nil
}

func newView(in render.Input, w *words, a assets) *view {
	v := &view{in: in, words: w, assets: a, hosts: map[string]bool{}, people: render.People(in.Board), generation: in.GenerationID()}
	for i := range in.Board.Hosts {
		v.hosts[in.Board.Hosts[i].Name] = true
	}
	return v
}

// A hostPage is hosts/<h>/index.html.
type hostPage struct {
	page
	Host   *hostView
	Kernel string
	OS     string
	Uptime string
	Net    []factView
	Disk   []factView
	Where  []factView
	Past   bool // there is a history
	Charts bool // and it stands on this page
}

func (v *view) hostPage(h *board.Host) (*hostPage, error) {
	hv, err := v.host(h, whole, v.ref(h), "../../")
	if err != nil {
		return nil, err
	}
	hp := &hostPage{
		page: v.page("host", "../../", h.SnapshotAt, max(h.Interval, v.in.Site.Interval, v.in.Board.Interval)),
		Host: hv, Kernel: render.Clean(h.Node.Kernel), OS: render.Clean(h.Node.OS),
	}
	hp.Past = v.in.History != nil
	hp.Charts = hp.Past && len(v.in.Board.Hosts) <= render.FullHistoryHosts
	if h.Node.UptimeSeconds != nil {
		hp.Uptime = v.words.length(time.Duration(*h.Node.UptimeSeconds) * time.Second)
	}
	for _, i := range h.Node.Interfaces {
		hp.Net = append(hp.Net, factView{render.Clean(i.Name), render.Clean(strings.Join(i.Addrs, ", "))})
	}
	for _, u := range h.Node.DiskUsers {
		hp.Disk = append(hp.Disk, factView{render.Clean(u.User) + " · " + render.Clean(u.Path), v.words.quantity(gib(u.Used), "gib")})
	}
	if h.Datacenter != "" {
		hp.Where = append(hp.Where, factView{v.words.list["fact.datacenter"], render.Clean(h.Datacenter)})
	}
	return hp, nil
}

// An aboutPage is about/index.html.
type aboutPage struct {
	page
	Comments, Command string
	Stale             int
	Example           string // a host, for the lines to copy
}

func (v *view) aboutPage() *aboutPage {
	p := &aboutPage{
		page:     v.page("about", "../", time.Time{}, v.interval()),
		Comments: render.Clean(v.in.Site.CommentsPath), Command: render.Clean(v.in.Site.BookCommand), Example: "gpu01",
	}
	if len(v.in.Board.Hosts) > 0 {
		p.Example = v.in.Board.Hosts[0].Name
	}
	return p
}

func (v *view) interval() time.Duration {
	for _, d := range []time.Duration{v.in.Board.Interval, v.in.Site.Interval} {
		if d > 0 {
			return d
		}
	}
	return time.Minute
}
