package page

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/a-h/templ"

	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// BookPages renders what a server with a booking form shows below book/: the
// one part of the site that is not files. It may be used by several goroutines.
type BookPages struct {
	*look
	site   render.Site
	dir    string                // of the site's pages in the same language: "" or "de/"
	query  string                // that asks for this language: "" or "?lang=de"
	others map[string]*BookPages // by language
}

// NewBookPages reads the site's own look; what is wrong with it is an error. The
// pages are in the first of the site's languages.
func NewBookPages(site render.Site, own fs.FS) (*BookPages, error) {
	site = site.WithDefaults()
	first := &BookPages{site: site, others: map[string]*BookPages{}}
	for i, lang := range site.Languages {
		l, err := readLook(own, site, lang)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			first.look = l
			continue
		}
		first.others[lang] = &BookPages{look: l, site: site, dir: lang + "/", query: "?lang=" + lang}
	}
	return first, nil
}

// In returns the pages in a language, or in the site's first one if it has none in that.
func (p *BookPages) In(lang string) *BookPages {
	if other, ok := p.others[lang]; ok {
		return other
	}
	return p
}

// Dir is where the site's pages in the same language lie: "" or "de/".
func (p *BookPages) Dir() string { return p.dir }

// Assets are the files that these pages refer to, as book/assets/NAME. They are
// the server's own, because the site may be of another version.
func (p *BookPages) Assets() []render.File {
	var files []render.File
	for _, f := range p.files {
		if strings.HasSuffix(f.Path, ".css") || f.Path == "favicon.svg" {
			files = append(files, f)
		}
	}
	return files
}

// A BookForm is the page on which one GPU, or a whole host, is booked.
type BookForm struct {
	Host, Title string
	GPU         string // its index, the UUID of a slice, or "all"
	Model       string
	State       string // of the GPU, as on the board
	User        string // who is logged in, canonical
	ForOthers   bool   // the name can be chosen
	Now         time.Time
	Interval    time.Duration // until a booking is on the board
	// What was typed, so that a refusal loses nothing of it. Sure is what was
	// asked about.
	Name, From, Until, Comment, Sure string
	// ID and End are the booking that was to be changed, and its new end as typed.
	ID, End string
	// Say is the key of what to say about a refusal, behind "book.say."; "" for
	// nothing. Detail is more about it, Field the field that it is about.
	Say, Detail, Field string
	// Clashes are in the way; Standing are all of this GPU that are not over.
	Clashes, Standing []BookLine
}

// A BookLine is one booking.
type BookLine struct {
	ID, Host    string
	Target      string // as in comments.json
	GPU         string // index or "all", for the address of its form; "" for none
	Name, By    string
	From, Until time.Time
	Comment     string
	Maintenance bool
	Active      bool
	Mine        bool
}

// A BookHome is the front page of the form: one's own bookings, and what there is to book.
type BookHome struct {
	User  string
	Now   time.Time
	Mine  []BookLine
	Hosts []BookHost
}

// A BookHost is a host that can be booked.
type BookHost struct {
	Name, Title string
	GPUs        []BookGPU
}

// A BookGPU is one of its GPUs, or of the slices of one.
type BookGPU struct {
	Path  string // of its form: its index, or the UUID of a slice
	Label string
	State string // as on the board
}

// Form renders the page of one GPU.
func (p *BookPages) Form(f BookForm) ([]byte, error) {
	d := p.page("../../", "../assets/", f.User)
	d.Form = templates.Form{
		Host: f.Host, Model: f.Model, State: f.State, ForOthers: f.ForOthers,
		Name: f.Name, From: f.From, Until: f.Until, Comment: f.Comment, Sure: f.Sure, Say: f.Say, Detail: f.Detail, Field: f.Field,
	}
	if _, known := p.words.list[f.State]; !known {
		d.Form.State = "" // the site was made by another version
	}
	d.Where, d.Wait = p.where(f.Host, f.GPU), int((f.Interval+time.Second-1)/time.Second)
	if f.Title != "" && f.Title != f.Host {
		d.Where = render.Clean(f.Title) + " · " + d.Where
	}
	for _, l := range f.Standing {
		line := p.line(l, f.Now)
		if l.ID == f.ID && l.ID != "" {
			line.Typed, line.Wrong = f.End, f.Say != ""
		}
		d.Lines = append(d.Lines, line)
	}
	if asked, err := time.Parse(time.RFC3339, f.Sure); err == nil && f.Say == "sure" {
		d.Asked = p.words.near(asked, f.Now)
	}
	for _, l := range f.Clashes {
		d.Clashes = append(d.Clashes, p.line(l, f.Now))
	}
	return bookPage(templates.BookForm(d))
}

// Home renders the front page of the form.
func (p *BookPages) Home(h BookHome) ([]byte, error) {
	d := p.page("../", "assets/", h.User)
	for _, host := range h.Hosts {
		shown := templates.BookableHost{Name: host.Name, Title: host.Title}
		if shown.Title == "" {
			shown.Title = host.Name
		}
		for _, g := range host.GPUs {
			if _, known := p.words.list[g.State]; !known {
				g.State = "unknown"
			}
			shown.GPUs = append(shown.GPUs, templates.BookableGPU(g))
		}
		d.Hosts = append(d.Hosts, shown)
	}
	for _, l := range h.Mine {
		d.Mine = append(d.Mine, p.line(l, h.Now))
	}
	return bookPage(templates.BookHome(d))
}

func (p *BookPages) page(root, assets, user string) *templates.BookPage {
	s := p.site
	return &templates.BookPage{User: user, Query: p.query, Frame: templates.Frame{
		Words: p.words.Words, Kind: "book", Root: root + p.dir, Book: root + "book/" + p.query, Lang: p.lang, Title: render.Clean(s.Title), Lab: render.Clean(s.Lab),
		CSS: assets + strings.TrimPrefix(p.css, "assets/"), Icon: assets + "favicon.svg",
	}}
}

func (p *BookPages) where(host, gpu string) string {
	if gpu == "all" || gpu == "*" {
		return render.Clean(host) + p.words.T("book.all")
	}
	return render.Clean(host) + " " + render.Clean(gpu)
}

func (p *BookPages) line(l BookLine, now time.Time) templates.BookedLine {
	line := templates.BookedLine{
		ID: l.ID, Name: render.Clean(l.Name), By: render.Clean(l.By),
		From: p.words.near(l.From, now), Until: p.words.near(l.Until, now), Comment: remark(l.Comment),
		Maintenance: l.Maintenance, Active: l.Active, Mine: l.Mine,
	}
	if strings.EqualFold(l.By, l.Name) {
		line.By = ""
	}
	gpu := l.GPU
	if gpu == "" {
		gpu = l.Target
	} else {
		line.Href = l.Host + "/" + gpu + p.query
	}
	line.Where = p.where(l.Host, gpu)
	return line
}

func bookPage(c templ.Component) ([]byte, error) {
	var out bytes.Buffer
	if err := c.Render(context.Background(), &out); err != nil {
		return nil, fmt.Errorf("rendering the booking page: %w", err)
	}
	return out.Bytes(), nil
}
