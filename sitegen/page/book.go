package page

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// BookPages render what a server with a booking form shows below book/: the
// one part of the site that is not files. It may be used by several goroutines.
type BookPages struct {
	*look
	site render.Site
	all  map[string]*BookPages // by language
}

// NewBookPages reads the site's own look; what is wrong with it is an error. The
// pages are in the first of the site's languages.
func NewBookPages(site render.Site, own fs.FS) (*BookPages, error) {
	site = site.WithDefaults()
	all := map[string]*BookPages{}
	for _, lang := range site.Languages {
		l, err := readLook(own, site, lang)
		if err != nil {
			return nil, err
		}
		all[lang] = &BookPages{look: l, site: site, all: all}
	}
	return all[site.Languages[0]], nil
}

// In returns the pages in a language, or in the site's first one if it has none in that.
func (p *BookPages) In(lang string) *BookPages {
	return cmp.Or(p.all[lang], p)
}

// Address is the form's own address, with what the query says, in the same language.
func (p *BookPages) Address(q url.Values) string {
	if p.dir != "" {
		q.Set("lang", p.lang)
	}
	return "?" + q.Encode()
}

// Assets are the files that these pages refer to, as book/assets/NAME. They are
// the server's own, because the site may be of another version.
func (p *BookPages) Assets() []render.File {
	var files []render.File
	for _, f := range p.files {
		if strings.HasSuffix(f.Path, ".css") || f.Path == "favicon.svg" || f.Path == p.js["form"] {
			files = append(files, f)
		}
	}
	return files
}

// BookFields are what stands in the fields of the form.
type BookFields = templates.BookFields

// A Book is what the booking form shows.
type Book struct {
	User      string // who is logged in, canonical
	ForOthers bool   // the name can be chosen
	Now       time.Time
	Board     *board.Board
	At        []booking.Booking // the places that are to be booked; without, it is asked how many
	Fields    BookFields
	Zone      *time.Location // in which the times in the fields are read; nil for the site's
	Jobs      []booking.Job
	// Say is the key of what to say about a refusal, behind "book.say."; "" for
	// nothing. Detail is more about it, Field the field that it is about, and
	// Clashes are in the way.
	Say, Detail, Field string
	Clashes            []booking.Booking
	// Standing are the bookings of these places that are not over; without places,
	// those of the user.
	Standing []booking.Booking
	Active   []booking.Booking // all that are in force
	Saved    []booking.Booking // what has just been saved
	Released bool              // something has just been released
	Freed    []booking.Booking // what that was, where it is known
	Again    bool              // the form can book it again, as Fields say
	// Wish is what is asked for, and Offer what there is for it; nil for nothing.
	Wish  *board.Wish
	Offer *board.Offer
	Mine  func(booking.Booking) bool
}

// Refusal is why nothing was saved, as text.
func (p *BookPages) Refusal(b Book) string {
	lines := []string{strings.TrimSpace(p.words.T("book.say."+b.Say) + " " + b.Detail)}
	for _, c := range b.Clashes {
		lines = append(lines,
			c.Place()+" "+c.Name+": "+booking.Describe(c.From, c.Until, b.Now, cmp.Or(b.Zone, p.words.zone)))
	}
	if strings.HasPrefix(b.Say, "running") {
		for _, j := range booking.ByUser(b.Jobs) {
			lines = append(lines, strings.TrimSpace(j.Place+" "+j.Who.String()+" "+j.Program))
		}
	}
	return strings.Join(lines, "\n")
}

// Book renders the booking form.
func (p *BookPages) Book(b Book) ([]byte, error) {
	s := p.site
	d := &templates.BookPage{
		Frame: templates.Frame{
			Words: p.words.Words, Kind: "book", Root: "../" + p.dir, Lang: p.lang, Book: p.Address(url.Values{}),
			Title: render.Clean(s.Title), Lab: render.Clean(s.Lab),
			CSS: p.css, JS: []string{p.js["form"]}, Icon: "assets/favicon.svg",
			ZoneName: ZoneName(p.words.zone, b.Now),
		},
		FieldZone: ZoneName(cmp.Or(b.Zone, p.words.zone), b.Now),
		User:      b.User, ForOthers: b.ForOthers, Fields: b.Fields, Where: p.where(b.Board, b.At),
		Action: p.places(b.At),
		Say:    b.Say, Detail: b.Detail, Field: b.Field, Released: b.Released,
		Wait: int(b.Board.UntilNext().Round(time.Second) / time.Second), Models: modelNames(b.Board),
	}
	if b.Board.Late(b.Now) {
		d.Old = p.words.near(b.Board.GeneratedAt, b.Now)
	}
	if len(b.At) == 1 {
		p.one(d, b)
	} else if len(b.At) == 0 {
		d.Hosts = p.bookable(b)
	}
	if asked, err := time.Parse(time.RFC3339, b.Fields.Sure); err == nil && b.Say == "sure" {
		d.Asked = p.words.near(asked, b.Now)
	}
	d.Over = booking.Consent(b.Jobs)
	for _, j := range booking.ByUser(b.Jobs) {
		job := templates.BookJob{
			Where: j.Place, Who: p.words.owner(j.Who), Program: render.Clean(j.Program),
			Since:   p.words.near(j.Since, b.Now),
			Unknown: j.Unknown,
		}
		if j.Memory > 0 {
			job.Memory = p.words.T("book.job.memory", float64(j.Memory)/1024)
		}
		d.Jobs = append(d.Jobs, job)
	}
	d.Lines, d.Clashes, d.Saved = p.lines(b, b.Standing), p.lines(b, b.Clashes), p.lines(b, b.Saved)
	if d.Freed = p.lines(b, b.Freed); b.Again {
		d.Again = p.places(b.Freed)
	}
	var places []string
	for _, sv := range b.Saved {
		places = append(places, sv.Place())
	}
	if len(places) > 0 {
		d.SeeBoard = d.Root + "index.html?" + url.Values{"booked": {strings.Join(places, ",")},
			"saved": {"1"}}.Encode() +
			"#" + url.PathEscape(b.Saved[0].Host)
	}
	if b.Offer != nil {
		d.Offer = p.offer(b)
	}
	var out bytes.Buffer
	if err := templates.Book(d).Render(context.Background(), &out); err != nil {
		return nil, fmt.Errorf("rendering the booking page: %w", err)
	}
	return out.Bytes(), nil
}

// Period is a stretch of time to the minute, in the words of the page and the times of a zone. Without until it has
// no end.
func (p *BookPages) Period(from, until, now time.Time, zone *time.Location) string {
	moment := func(t time.Time) string {
		if t.Year() == now.In(zone).Year() {
			return p.words.time("date.near", t)
		}
		return p.words.time("date.far", t) + t.Format(" 15:04")
	}
	from, until = from.In(zone), until.In(zone)
	if until.IsZero() {
		return moment(from) + from.Format(" MST – ") + p.words.T("book.open")
	}
	return moment(from) + " – " + moment(until) + until.Format(" MST")
}

// one adds what is known about the only GPU that is to be booked.
func (p *BookPages) one(d *templates.BookPage, b Book) {
	for i := range b.Board.Hosts {
		h := &b.Board.Hosts[i]
		if h.Name != b.At[0].Host || b.At[0].Target.All {
			continue
		}
		for g := range h.Rows() {
			if b.At[0].Target.Covers(g.Index, g.UUID) && (g.Slice == nil || b.At[0].Target.UUID != "") {
				d.Model, d.State = render.Clean(g.Name), p.state(b, h, g)
				return
			}
		}
	}
}

// state is the state of a GPU on the board. A free one that was booked since is not free.
func (p *BookPages) state(b Book, h *board.Host, g *board.GPU) string {
	if g.State == board.Free &&
		slices.ContainsFunc(b.Active,
			func(bk booking.Booking) bool { return bk.Host == h.Name && g.CoveredBy(bk.Target) }) {
		return string(board.Booked)
	}
	if _, known := p.words.list[string(g.State)]; !known {
		return string(board.Unknown) // the site was made by another version
	}
	return string(g.State)
}

// bookable lists what can be booked.
func (p *BookPages) bookable(b Book) (hosts []templates.BookableHost) {
	for i := range b.Board.Hosts {
		h := &b.Board.Hosts[i]
		host := templates.BookableHost{
			Title: title(h),
			Href:  p.places([]booking.Booking{{Host: h.Name, Target: booking.Target{All: true, Index: -1}}}),
		}
		here := b
		here.Active = slices.DeleteFunc(slices.Clone(b.Active),
			func(bk booking.Booking) bool { return bk.Host != h.Name })
		for g := range h.Units() {
			if target, ok := g.Target(); ok {
				href := p.places([]booking.Booking{{Host: h.Name, Target: target}})
				host.GPUs = append(host.GPUs,
					templates.BookableGPU{Href: href, Label: g.Label(), State: p.state(here, h, g)})
			}
		}
		hosts = append(hosts, host)
	}
	return hosts
}

// offer is what there is for a wish.
func (p *BookPages) offer(b Book) *templates.BookOffer {
	const layout = "2006-01-02 15:04 -07:00"
	w, o := b.Wish, b.Offer
	shown := &templates.BookOffer{
		GPUs: w.GPUs, Open: o.Open, Fit: o.Fit, From: p.words.near(w.From, b.Now), Until: p.words.near(w.Until, b.Now),
	}
	shown.FromText, shown.UntilText = w.From.Format(layout), "never"
	if !w.From.After(b.Now) {
		shown.FromText = ""
	}
	if !w.Until.IsZero() {
		shown.UntilText = w.Until.Format(layout)
	}
	var places []booking.Booking
	for _, u := range o.Units {
		target, _ := u.GPU.Target()
		places = append(places, booking.Booking{Host: u.Host.Name, Target: target})
	}
	shown.Where, shown.Action = p.where(b.Board, places), p.places(places)
	if !o.Next.IsZero() {
		then := w.Moved(o.Next)
		q := url.Values{
			"gpus": {b.Fields.GPUs}, "model": {b.Fields.Model}, "memory": {b.Fields.Memory}, "name": {b.Fields.Name},
			"comment": {b.Fields.Comment}, "from": {then.From.In(p.words.zone).Format(layout)}, "until": {"never"},
		}
		if b.Fields.OneHost {
			q.Set("one-host", "1")
		}
		if !w.Until.IsZero() {
			q.Set("until", then.Until.In(p.words.zone).Format(layout))
		}
		shown.Next, shown.NextHref = p.words.near(o.Next, b.Now), p.Address(q)
	}
	return shown
}

// where names places: "atlas 0, 1", "atlas, all GPUs".
func (p *BookPages) where(b *board.Board, places []booking.Booking) string {
	var out strings.Builder
	for i, at := range places {
		gpu := at.Target.String()
		switch {
		case i > 0 && places[i-1].Host == at.Host && !at.Target.All:
			out.WriteString(", " + gpu)
			continue
		case i > 0:
			out.WriteString(" · ")
		}
		for j := range b.Hosts {
			if h := &b.Hosts[j]; h.Name == at.Host && h.Title != "" && h.Title != h.Name && i == 0 {
				out.WriteString(render.Clean(h.Title) + " · ")
			}
		}
		if at.Target.All {
			out.WriteString(render.Clean(at.Host) + p.words.T("book.all"))
		} else {
			out.WriteString(render.Clean(at.Host) + " " + render.Clean(gpu))
		}
	}
	return out.String()
}

// places is the address of the form for some places.
func (p *BookPages) places(places []booking.Booking) string {
	q := url.Values{}
	for _, at := range places {
		q.Add("at", at.Place())
	}
	return p.Address(q)
}

func (p *BookPages) lines(b Book, list []booking.Booking) (lines []templates.BookedLine) {
	for _, bk := range list {
		line := templates.BookedLine{
			ID: bk.ID, Name: render.Clean(bk.Name), From: p.words.near(bk.From, b.Now),
			Until:       p.words.near(bk.Until, b.Now),
			Comment:     remark(bk.Comment),
			Maintenance: bk.Kind == booking.Maintenance, Active: bk.ActiveAt(b.Now), Mine: b.Mine(bk),
			Where: p.where(&board.Board{}, []booking.Booking{bk}), Href: p.places([]booking.Booking{bk}),
		}
		if !strings.EqualFold(bk.By, bk.Name) {
			line.By = render.Clean(bk.By)
		}
		if slices.Contains(b.Fields.IDs, bk.ID) {
			line.Typed, line.Wrong = b.Fields.End, b.Say != ""
		}
		lines = append(lines, line)
	}
	return lines
}

// modelNames are the models of a board, for people to choose from.
func modelNames(b *board.Board) (names []string) {
	for _, m := range b.Models {
		names = append(names, render.Clean(m.Name))
	}
	slices.Sort(names)
	return names
}
