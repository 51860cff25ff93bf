package serve

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
)

// BookingOptions are what the booking form needs to know.
type BookingOptions struct {
	// File is comments.json.
	File File
	// Zone is the one that people mean when they write a time.
	Zone *time.Location
	// FileZone is the one of the times in the file.
	FileZone booking.Zone
	// Aliases are read anew for every request, so that a new one counts at once.
	Aliases func() booking.Aliases
	// Limits are what one person may book.
	Limits booking.Limits
	// ForOthers lets people book in somebody else's name; who did it is recorded.
	ForOthers bool
	// Interval is how often a generation is due, to say when a booking is on the board.
	Interval time.Duration
	// Pages render what is shown.
	Pages *page.BookPages
	// Now is the clock.
	Now func() time.Time
	// BodyTimeout is how long a form may take to arrive; default 5 s.
	BodyTimeout time.Duration
}

// A File is where the bookings are, a [booking.File].
type File interface {
	Load(opts booking.Options) *booking.Calendar
	Update(ctx context.Context, by booking.By, edit func(data []byte) ([]byte, error)) error
}

// maxBody bounds a form. The longest that makes sense is a tenth of it.
const maxBody = 16 << 10

// Somebody may save so often at once, and then again after each pause.
const (
	saveBurst = 20
	savePause = 6 * time.Second
)

// bookPolicy is the Content-Security-Policy of the form: the one place of the
// site from where a form may be sent, and there only to itself. It needs no script.
const bookPolicy = "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// A desk is where bookings are made: everything below book/.
type desk struct {
	BookingOptions
	auth   *Auth
	guard  *guard
	saves  *limiter
	board  *fleetFile
	assets map[string]render.File
	server *server
}

func newDesk(o BookingOptions, s *server, root *os.Root) (*desk, error) {
	if o.BodyTimeout <= 0 {
		o.BodyTimeout = 5 * time.Second
	}
	if o.Aliases == nil {
		o.Aliases = func() booking.Aliases { return nil }
	}
	g, err := newGuard()
	if err != nil {
		return nil, err
	}
	d := &desk{BookingOptions: o, auth: s.auth, guard: g, saves: newLimiter(o.Now, saveBurst, savePause), board: &fleetFile{root: root}, assets: map[string]render.File{}, server: s}
	for _, f := range o.Pages.Assets() {
		d.assets[path.Base(f.Path)] = f
	}
	return d, nil
}

// serve answers what is below book/. name is the cleaned path without "book/".
func (d *desk) serve(w http.ResponseWriter, r *http.Request, name string) {
	h := w.Header()
	h.Set("Content-Security-Policy", bookPolicy)
	// With the site's no-referrer a browser would not say where a form comes from.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if d.public(w, r, name) {
		return
	}
	host, gpu, isForm := strings.Cut(name, "/")
	isHome := name == "" || name == "index.html"
	if !isHome && (!isForm || r.URL.EscapedPath() != "/book/"+name) {
		http.NotFound(w, r)
		return
	}
	allow := []string{http.MethodGet, http.MethodHead}
	if isForm {
		allow = append(allow, http.MethodPost)
	}
	if !slices.Contains(allow, r.Method) {
		h.Set("Allow", strings.Join(allow, ", "))
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	login := d.auth.who(w, r)
	if login == "" {
		return
	}
	f, err := d.board.read()
	if err != nil {
		d.server.log.Error("reading the board", "error", err)
		http.Error(w, "there is no board yet: nothing has been generated, or it cannot be read", http.StatusServiceUnavailable)
		return
	}
	aliases := d.Aliases()
	c := &changer{me: aliases.Canonical(login), now: d.Now(), zone: d.Zone, in: d.FileZone, aliases: aliases, fleet: f, limits: d.Limits}
	if isHome {
		d.home(w, r, c)
		return
	}
	p, ok := d.place(c, host, gpu)
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.Method == http.MethodPost {
		d.post(w, r, p)
		return
	}
	d.show(w, r, p, http.StatusOK)
}

// public answers what everybody may see, because it tells nothing about anybody.
func (d *desk) public(w http.ResponseWriter, r *http.Request, name string) bool {
	asset, isAsset := d.assets[strings.TrimPrefix(name, "assets/")]
	isAsset = isAsset && strings.HasPrefix(name, "assets/")
	if !isAsset && name != "capabilities.json" {
		return false
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return true
	}
	content := []byte("{\"booking\": true}\n")
	w.Header().Set("Content-Type", types[path.Ext(name)])
	if isAsset {
		w.Header().Set("Cache-Control", "max-age=31536000, immutable")
		content = asset.Bytes()
	}
	_, _ = w.Write(content) // who is gone misses nothing
	return true
}

// A place is one GPU, or a whole host, together with who stands before it.
type place struct {
	*changer
	target booking.Target
	form   page.BookForm
}

func (d *desk) place(c *changer, host, gpu string) (*place, bool) {
	h, g, target, ok := c.fleet.target(host, gpu)
	if !ok {
		return nil, false
	}
	p := &place{changer: c, target: target, form: page.BookForm{
		Host: h.Name, Title: h.Title, GPU: gpu, User: c.me, Name: c.me, ForOthers: d.ForOthers, Now: c.now, Interval: d.Interval,
	}}
	if g != nil {
		p.form.State = g.State
		if g.Name != nil {
			p.form.Model = *g.Name
		}
	}
	return p, true
}

// show shows the form as it was filled in, with the bookings as they are now.
func (d *desk) show(w http.ResponseWriter, r *http.Request, p *place, status int) {
	cal := d.load(p.changer)
	nobodys := booking.Booking{Host: p.form.Host, Target: p.target, Name: "\x00", From: p.now}
	for _, b := range booking.Conflicts(cal, nobodys, p.fleet.resolve) {
		p.form.Standing = append(p.form.Standing, line(b, p.changer))
	}
	if cal.Broken && p.form.Say == "" {
		p.form.Say, p.form.Detail = "broken", mistakeIn(cal)
	}
	p.form.Token = d.guard.token(w, r, p.me, d.auth.secure(r))
	page, err := d.Pages.Form(p.form)
	d.send(w, status, page, err)
}

func (d *desk) home(w http.ResponseWriter, r *http.Request, c *changer) {
	home := page.BookHome{User: c.me, Now: c.now}
	for _, b := range d.load(c).Bookings {
		if mine(c.me, b, c.aliases) && (b.Until.IsZero() || b.Until.After(c.now)) {
			home.Mine = append(home.Mine, line(b, c))
		}
	}
	for i := range c.fleet.Hosts {
		h := &c.fleet.Hosts[i]
		host := page.BookHost{Name: h.Name, Title: h.Title}
		for j := range h.GPUs {
			g := &h.GPUs[j]
			if len(g.Slices) == 0 {
				host.GPUs = append(host.GPUs, page.BookGPU{Path: strconv.Itoa(g.Index), Label: strconv.Itoa(g.Index), State: g.State})
			}
			for _, s := range g.Slices {
				if s.UUID != nil && inPath(*s.UUID) {
					host.GPUs = append(host.GPUs, page.BookGPU{Path: *s.UUID, Label: strconv.Itoa(g.Index) + ":" + strconv.Itoa(s.Index), State: s.State})
				}
			}
		}
		home.Hosts = append(home.Hosts, host)
	}
	page, err := d.Pages.Home(home)
	d.send(w, http.StatusOK, page, err)
}

// load reads the bookings for show; the last good ones where the file has an error.
func (d *desk) load(c *changer) *booking.Calendar {
	return d.File.Load(booking.Options{Aliases: c.aliases, Now: c.now})
}

// line is a booking as the pages name it.
func line(b booking.Booking, c *changer) page.BookLine {
	l := page.BookLine{
		ID: b.ID, Host: b.Host, Target: b.Target.String(), Name: b.Name, By: b.By, From: b.From, Until: b.Until, Comment: b.Comment,
		Maintenance: b.Kind == booking.Maintenance, Active: b.ActiveAt(c.now), Mine: mine(c.me, b, c.aliases),
	}
	switch index, ok := c.fleet.resolve(b); {
	case b.Target.All:
		l.GPU = "all"
	case strings.HasPrefix(b.Target.UUID, "MIG-"):
		l.GPU = b.Target.UUID
	case ok:
		l.GPU = strconv.Itoa(index)
	case b.Target.UUID == "":
		l.GPU = strconv.Itoa(b.Target.Index)
	}
	if _, _, _, ok := c.fleet.target(b.Host, l.GPU); !ok {
		l.GPU = "" // there is no form for what is not there
	}
	return l
}

// post takes in a form.
func (d *desk) post(w http.ResponseWriter, r *http.Request, p *place) {
	forwarded := ""
	if _, proxied := d.auth.peer(r); proxied {
		forwarded = r.Header.Get("X-Forwarded-Host")
	}
	if !ownForm(r, forwarded) {
		d.server.log.Warn("a form that another site sent", "user", p.me, "origin", r.Header.Get("Origin"))
		http.Error(w, "this form was sent by another site, or by none: nothing was saved", http.StatusForbidden)
		return
	}
	q, err := d.body(w, r)
	if err != nil {
		bodyError(w, err)
		return
	}
	f := &p.form
	f.From, f.Until, f.Comment, f.ID, f.End, f.Sure = q.Get("from"), q.Get("until"), q.Get("comment"), q.Get("id"), q.Get("end"), q.Get("sure")
	if d.ForOthers && q.Has("name") {
		f.Name = strings.TrimSpace(q.Get("name"))
	}
	if !d.guard.holds(r, p.me, q.Get("token")) {
		f.Say = "old"
		d.show(w, r, p, http.StatusForbidden)
		return
	}
	if wait := d.saves.take("as "+p.me, "at "+addressKey(d.auth.client(r))); wait > 0 {
		later(w, wait)
		f.Say = "often"
		d.show(w, r, p, http.StatusTooManyRequests)
		return
	}
	edit, done, err := d.edit(p, q.Get("action"))
	if err == nil {
		// Whoever goes away while it is saved wants it saved.
		err = d.File.Update(context.WithoutCancel(r.Context()), booking.By{Name: p.me, At: d.Now()}, edit)
	}
	if err != nil {
		why, ok := refused(err)
		if !ok {
			d.fail(w, "saving a booking", err)
			return
		}
		f.Say, f.Detail, f.Field = why.say, why.detail, why.field
		for _, b := range why.clashes {
			f.Clashes = append(f.Clashes, line(b, p.changer))
		}
		if why.status == http.StatusServiceUnavailable {
			later(w, time.Second)
		}
		d.show(w, r, p, why.status)
		return
	}
	d.server.log.Info(done, "user", p.me, "host", f.Host, "gpu", f.GPU, "id", f.ID)
	// Relative, so that it holds behind any proxy and under any path.
	w.Header().Set("Location", "../../?saved=1#"+url.PathEscape(f.Host))
	w.WriteHeader(http.StatusSeeOther)
}

// edit makes of a form the change to the bookings, and says what it is.
func (d *desk) edit(p *place, action string) (edit func([]byte) ([]byte, error), done string, err error) {
	f := &p.form
	switch action {
	case "extend":
		return func(data []byte) ([]byte, error) { p.now = d.Now(); return p.extend(data, f.ID, f.End) }, "a booking extended", nil
	case "release":
		return func(data []byte) ([]byte, error) { p.now = d.Now(); return p.release(data, f.ID) }, "a booking released", nil
	case "book":
		want, err := d.wanted(p)
		return func(data []byte) ([]byte, error) { p.now = d.Now(); return p.book(data, want) }, "a booking made", err
	}
	return nil, "", &refusal{status: http.StatusBadRequest, say: "invalid", detail: "the form does not say what to do"}
}

// fail answers when something is wrong here, and tells the log alone what.
func (d *desk) fail(w http.ResponseWriter, doing string, err error) {
	d.server.log.Error(doing, "error", err)
	http.Error(w, "something went wrong here, and nothing is known to be saved: look at the bookings, and tell whoever runs this", http.StatusInternalServerError)
}

func (d *desk) send(w http.ResponseWriter, status int, page []byte, err error) {
	if err != nil {
		d.fail(w, "rendering the booking page", err)
		return
	}
	w.Header().Set("Content-Type", types[".html"])
	w.WriteHeader(status)
	_, _ = w.Write(page) // who is gone misses nothing
}
