package page

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"strings"
	"time"

	"gpuboard/sitegen/render"
)

// BookPages renders what a server with a booking form shows below book/: the
// one part of the site that is not files. It may be used by several goroutines.
type BookPages struct {
	site   render.Site
	words  *words
	set    *template.Template
	assets assets
}

// NewBookPages reads the templates; what is wrong with them is an error.
func NewBookPages(site render.Site, tmpl fs.FS) (*BookPages, error) {
	site = site.WithDefaults()
	w, err := readWords(tmpl, site.Zone)
	if err != nil {
		return nil, err
	}
	a, err := readAssets(tmpl, w)
	if err != nil {
		return nil, err
	}
	set, err := parsePages(tmpl, w)
	if err != nil {
		return nil, err
	}
	return &BookPages{site: site, words: w, set: set.set, assets: a}, nil
}

// Assets are the files that these pages refer to, as book/assets/NAME. They are
// the server's own, because the site may be of another version.
func (p *BookPages) Assets() []render.File {
	var files []render.File
	for _, f := range p.assets.files {
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

type bookPage struct {
	page
	Form  BookForm
	Home  BookHome
	Where string // "atlas 0", "atlas, all GPUs"
	Lines []bookLineView
	Clash []bookLineView
	Mine  []bookLineView
	Wait  int     // seconds until it is on the board
	Asked *moment // the end that was asked about, in words of the site's
}

type bookLineView struct {
	BookLine
	Comment     safeHTML // hides BookLine's, which is as it was typed
	Where       string
	From, Until *moment
	Open        bool
	Typed       string // its new end as it was typed
	Wrong       bool   // and refused
}

// Form renders the page of one GPU.
func (p *BookPages) Form(f BookForm) ([]byte, error) {
	d := p.page("../../", "../assets/")
	if _, known := p.words.list[f.State]; !known {
		f.State = "" // the site was made by another version
	}
	d.Form, d.Where, d.Wait = f, p.where(f.Host, f.GPU), int((f.Interval+time.Second-1)/time.Second)
	if f.Title != "" && f.Title != f.Host {
		d.Where = render.Clean(f.Title) + " · " + d.Where
	}
	for _, l := range f.Standing {
		v := p.line(l, f.Now)
		if l.ID == f.ID && l.ID != "" {
			v.Typed, v.Wrong = f.End, f.Say != ""
		}
		d.Lines = append(d.Lines, v)
	}
	if asked, err := time.Parse(time.RFC3339, f.Sure); err == nil && f.Say == "sure" {
		d.Asked = p.words.near(asked, f.Now)
	}
	for _, l := range f.Clashes {
		d.Clash = append(d.Clash, p.line(l, f.Now))
	}
	return p.render("book-form", d)
}

// Home renders the front page of the form.
func (p *BookPages) Home(h BookHome) ([]byte, error) {
	d := p.page("../", "assets/")
	for _, host := range h.Hosts {
		for i := range host.GPUs {
			if _, known := p.words.list[host.GPUs[i].State]; !known {
				host.GPUs[i].State = "unknown"
			}
		}
	}
	d.Home = h
	for _, l := range h.Mine {
		d.Mine = append(d.Mine, p.line(l, h.Now))
	}
	return p.render("book-home", d)
}

func (p *BookPages) page(root, assets string) bookPage {
	s := p.site
	return bookPage{page: page{
		Kind: "book", Root: root, Lang: s.Lang, Title: render.Clean(s.Title), Lab: render.Clean(s.Lab), Version: render.Clean(s.Version),
		CSS: assets + strings.TrimPrefix(p.assets.css, "assets/"), Icon: assets + "favicon.svg", Zone: p.words.zone.String(),
	}}
}

func (p *BookPages) where(host, gpu string) string {
	if gpu == "all" || gpu == "*" {
		return render.Clean(host) + p.words.list["book.all"]
	}
	return render.Clean(host) + " " + render.Clean(gpu)
}

func (p *BookPages) line(l BookLine, now time.Time) bookLineView {
	gpu := l.GPU
	if gpu == "" {
		gpu = l.Target
	}
	v := bookLineView{BookLine: l, Where: p.where(l.Host, gpu), From: p.words.near(l.From, now), Until: p.words.near(l.Until, now), Open: l.Until.IsZero()}
	v.Name, v.Comment, v.By = render.Clean(l.Name), remark(l.Comment), render.Clean(l.By)
	if strings.EqualFold(l.By, l.Name) {
		v.By = ""
	}
	return v
}

func (p *BookPages) render(name string, d bookPage) ([]byte, error) {
	var out bytes.Buffer
	if err := p.set.ExecuteTemplate(&out, name, d); err != nil {
		return nil, fmt.Errorf("rendering the booking page: %w", err)
	}
	return out.Bytes(), nil
}
