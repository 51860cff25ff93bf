package serve

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
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

// A bookingForm answers everything below book/.
type bookingForm struct {
	BookingOptions
	auth   *Auth
	saves  *limiter
	board  *boardFile
	assets map[string]render.File
	server *server
}

func newBookingForm(o BookingOptions, s *server, root *os.Root) *bookingForm {
	if o.BodyTimeout <= 0 {
		o.BodyTimeout = 5 * time.Second
	}
	if o.Aliases == nil {
		o.Aliases = func() booking.Aliases { return nil }
	}
	d := &bookingForm{BookingOptions: o, auth: s.auth, saves: newLimiter(o.Now, saveBurst, savePause), board: &boardFile{root: root}, assets: map[string]render.File{}, server: s}
	for _, f := range o.Pages.Assets() {
		d.assets[path.Base(f.Path)] = f
	}
	return d
}

// serve answers what is below book/. name is the cleaned path without "book/".
func (d *bookingForm) serve(w http.ResponseWriter, r *http.Request, name string) {
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
	board, fleet, err := d.board.read()
	if err != nil {
		d.server.log.Error("reading the board", "error", err)
		http.Error(w, "there is no board yet: nothing has been generated, or it cannot be read", http.StatusServiceUnavailable)
		return
	}
	aliases := d.Aliases()
	me := aliases.Canonical(login)
	v := &visit{pages: d.Pages.In(r.URL.Query().Get("lang")), board: board, Policy: booking.Policy{Login: me, Person: me, Now: d.Now(), Zone: d.Zone, FileZone: d.FileZone, Aliases: aliases, Limits: d.Limits, Fleet: fleet}}
	switch {
	case isHome:
		d.home(w, v)
	case !v.find(d, host, gpu):
		http.NotFound(w, r)
	case r.Method == http.MethodPost:
		d.post(w, r, v)
	default:
		d.show(w, v, http.StatusOK)
	}
}

// public answers what everybody may see, because it tells nothing about anybody.
func (d *bookingForm) public(w http.ResponseWriter, r *http.Request, name string) bool {
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

// A visit is one request of one person, for the whole form or for one GPU or host.
type visit struct {
	booking.Policy
	pages  *page.BookPages // in the language that was asked for
	board  *board.Board
	target booking.Target
	form   page.BookForm
}

// find fills in the form for what a path names; false if there is no such GPU.
func (v *visit) find(d *bookingForm, host, gpu string) bool {
	h, g, target, ok := findTarget(v.board, host, gpu)
	if !ok {
		return false
	}
	v.target = target
	v.form = page.BookForm{Host: h.Name, Title: h.Title, GPU: gpu, User: v.Login, Name: v.Login, ForOthers: d.ForOthers, Now: v.Now, Interval: d.Interval}
	if g != nil {
		v.form.State, v.form.Model = string(g.State), g.Name
	}
	return true
}

// show shows the form as it was filled in, with the bookings as they are now.
func (d *bookingForm) show(w http.ResponseWriter, v *visit, status int) {
	v.Person = v.Login
	cal := d.load(v)
	from := booking.Booking{Host: v.form.Host, Target: v.target, From: v.Now}
	v.form.Standing = v.lines(booking.Conflicts(cal, from, booking.Everybody, v.Fleet))
	if cal.Broken && v.form.Say == "" {
		v.form.Say, v.form.Detail = "broken", mistakeIn(cal)
	}
	body, err := v.pages.Form(v.form)
	d.send(w, status, body, err)
}

func (d *bookingForm) home(w http.ResponseWriter, v *visit) {
	var mine []booking.Booking
	for _, b := range d.load(v).Bookings {
		if v.Mine(b) && !b.OverAt(v.Now) {
			mine = append(mine, b)
		}
	}
	home := page.BookHome{User: v.Login, Now: v.Now, Mine: v.lines(mine)}
	for i := range v.board.Hosts {
		h := &v.board.Hosts[i]
		host := page.BookHost{Name: h.Name, Title: h.Title}
		for g := range h.Units() {
			if path := gpuPath(g); path != "" {
				host.GPUs = append(host.GPUs, page.BookGPU{Path: path, Label: g.Label(), State: string(g.State)})
			}
		}
		home.Hosts = append(home.Hosts, host)
	}
	body, err := v.pages.Home(home)
	d.send(w, http.StatusOK, body, err)
}

// load reads the bookings for show; the last good ones where the file has an error.
func (d *bookingForm) load(v *visit) *booking.Calendar {
	return d.File.Load(booking.Options{Aliases: v.Aliases, Now: v.Now})
}

// lines are bookings as the pages name them.
func (v *visit) lines(bookings []booking.Booking) []page.BookLine {
	var lines []page.BookLine
	for _, b := range bookings {
		gpu := "all"
		if strings.HasPrefix(b.Target.UUID, "MIG-") {
			gpu = b.Target.UUID
		} else if !b.Target.All {
			gpu = ""
			if index, ok := v.Fleet.Index(b); ok {
				gpu = strconv.Itoa(index)
			}
		}
		if _, _, _, ok := findTarget(v.board, b.Host, gpu); !ok {
			gpu = "" // there is no form for what does not exist
		}
		lines = append(lines, page.BookLine{
			ID: b.ID, Host: b.Host, Target: b.Target.String(), GPU: gpu, Name: b.Name, By: b.By, From: b.From, Until: b.Until, Comment: b.Comment,
			Maintenance: b.Kind == booking.Maintenance, Active: b.ActiveAt(v.Now), Mine: v.Mine(b),
		})
	}
	return lines
}

// post answers a form that was sent.
func (d *bookingForm) post(w http.ResponseWriter, r *http.Request, v *visit) {
	if !d.sameOrigin(r) {
		d.server.log.Warn("a form that another site sent", "user", v.Login, "origin", r.Header.Get("Origin"))
		http.Error(w, "this form was sent by another site, or by none: nothing was saved", http.StatusForbidden)
		return
	}
	q, err := d.body(w, r)
	if err != nil {
		bodyError(w, err)
		return
	}
	f := &v.form
	f.From, f.Until, f.Comment, f.ID, f.End, f.Sure = q.Get("from"), q.Get("until"), q.Get("comment"), q.Get("id"), q.Get("end"), q.Get("sure")
	if d.ForOthers && q.Has("name") {
		f.Name = strings.TrimSpace(q.Get("name"))
	}
	if wait := d.saves.take("as "+v.Login, "at "+addressKey(d.auth.client(r))); wait > 0 {
		later(w, wait)
		f.Say = "often"
		d.show(w, v, http.StatusTooManyRequests)
		return
	}
	edit, done, err := d.edit(v, q.Get("action"))
	if err == nil {
		// A client that disconnects meanwhile still wants it saved.
		err = d.File.Update(context.WithoutCancel(r.Context()), booking.By{Name: v.Login, At: d.Now()}, edit)
	}
	if err != nil {
		why, ok := refused(err, endField(q.Get("action")))
		if !ok {
			d.fail(w, "saving a booking", err)
			return
		}
		f.Say, f.Detail, f.Field = why.say, why.detail, why.field
		f.Clashes = v.lines(why.clashes)
		if why.status == http.StatusServiceUnavailable {
			later(w, time.Second)
		}
		d.show(w, v, why.status)
		return
	}
	d.server.log.Info(done, "user", v.Login, "host", f.Host, "gpu", f.GPU, "id", f.ID)
	// Relative, so that it holds behind any proxy and under any path.
	w.Header().Set("Location", "../../"+v.pages.Dir()+"?saved=1#"+url.PathEscape(f.Host))
	w.WriteHeader(http.StatusSeeOther)
}

// sameOrigin reports whether a form was sent from a page of this site, and not by
// another site in the name of somebody who is logged in here. Every browser sends
// at least one of the two headers with a form. Behind a trusted proxy the host is
// the one that the browser asked for.
func (d *bookingForm) sameOrigin(r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" {
		return false
	}
	asked := *r
	if _, proxied := d.auth.peer(r); proxied {
		asked.Host = cmp.Or(r.Header.Get("X-Forwarded-Host"), r.Host)
	}
	return http.NewCrossOriginProtection().Check(&asked) == nil
}

// edit returns the change to the bookings that a form asks for, and its name.
func (d *bookingForm) edit(v *visit, action string) (edit func([]byte) ([]byte, error), done string, err error) {
	var change func(data []byte) (booking.Change, error)
	switch action {
	case "extend":
		done = "a booking extended"
		change = func(data []byte) (booking.Change, error) {
			c, _, err := v.Extend(data, v.form.ID, v.form.End)
			return c, err
		}
	case "release":
		done = "a booking released"
		change = func(data []byte) (booking.Change, error) { return v.Release(data, v.form.ID) }
	case "book":
		done = "a booking made"
		wanted, err := d.wanted(v)
		if err != nil {
			return nil, "", err
		}
		change = func(data []byte) (booking.Change, error) { return v.Book(data, wanted) }
	default:
		return nil, "", &refusal{status: http.StatusBadRequest, say: "invalid", detail: "the form does not say what to do"}
	}
	return func(data []byte) ([]byte, error) {
		v.Now = d.Now()
		c, err := change(data)
		return c.After, err
	}, done, nil
}

// endField is the field of the form that an action reads an end from.
func endField(action string) string {
	if action == "extend" {
		return "end"
	}
	return "until"
}

// fail answers when something is wrong here, and tells the log alone what.
func (d *bookingForm) fail(w http.ResponseWriter, doing string, err error) {
	d.server.log.Error(doing, "error", err)
	http.Error(w, "something went wrong here, and nothing is known to be saved: look at the bookings, and tell whoever runs this", http.StatusInternalServerError)
}

func (d *bookingForm) send(w http.ResponseWriter, status int, page []byte, err error) {
	if err != nil {
		d.fail(w, "rendering the booking page", err)
		return
	}
	w.Header().Set("Content-Type", types[".html"])
	w.WriteHeader(status)
	_, _ = w.Write(page) // who is gone misses nothing
}
