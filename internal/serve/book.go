package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
)

// BookingOptions are what the booking form needs to know.
type BookingOptions struct {
	// File opens comments.json, which may be a link that leads elsewhere by the next request.
	File func() File
	// Zone is the one that people mean when they write a time, where their browser does not say theirs.
	Zone *time.Location
	// FileZone is the one of the times in the file.
	FileZone booking.Zone
	// Aliases are read anew for every request, so that a new one counts at once.
	Aliases func() booking.Aliases
	// Limits are what one person may book.
	Limits booking.Limits
	// ForOthers lets people book in somebody else's name; who did it is recorded.
	ForOthers bool
	// Changed is called with the board's interval after each change of a booking, and does not wait. It may be nil.
	Changed func(interval time.Duration)
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

// What a form may hold: the longest that makes sense is a tenth of maxBody.
const (
	maxBody   = 16 << 10
	maxPlaces = 256
)

// Somebody may save so often at once, and then again after each pause.
const (
	saveBurst = 20
	savePause = 6 * time.Second
)

// A bookingForm answers everything below book/.
type bookingForm struct {
	BookingOptions
	saves  *limiter
	assets map[string][]byte // by name below book/
	server *server
}

func newBookingForm(o BookingOptions, s *server) *bookingForm {
	o.BodyTimeout = cmp.Or(max(o.BodyTimeout, 0), 5*time.Second)
	d := &bookingForm{BookingOptions: o, saves: newLimiter(o.Now, saveBurst, savePause), assets: map[string][]byte{},
		server: s}
	for _, f := range o.Pages.Assets() {
		d.assets["assets/"+path.Base(f.Path)] = f.Content
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
	if name != "" && name != "index.html" {
		http.NotFound(w, r)
		return
	}
	if !allowed(w, r, http.MethodGet, http.MethodHead, http.MethodPost) {
		return
	}
	login := d.server.Auth.who(w, r)
	if login == "" {
		return
	}
	v, err := d.visit(login, r.URL.Query())
	switch {
	case err != nil:
		d.server.Log.Error("reading the board", "error", err)
		http.Error(w, "there is no board yet: nothing has been generated, or it cannot be read",
			http.StatusServiceUnavailable)
	case v == nil:
		http.NotFound(w, r)
	case r.Method == http.MethodPost:
		v.plain = r.Header.Get("Accept") == "text/plain"
		d.post(w, r, v)
	default:
		d.show(w, v, http.StatusOK)
	}
}

// public answers what everybody may see, because it tells nothing about anybody else.
func (d *bookingForm) public(w http.ResponseWriter, r *http.Request, name string) bool {
	content, isAsset := d.assets[name]
	if !isAsset && name != "times.json" && name != "capabilities.json" {
		return false
	}
	if !allowed(w, r, http.MethodGet, http.MethodHead) {
		return true
	}
	switch name {
	case "times.json":
		d.answerTimes(w, r)
		return true
	case "capabilities.json":
		able := struct {
			Booking bool   `json:"booking"`
			Name    string `json:"name,omitempty"` // of whoever asks, if the browser says it by itself
		}{Booking: true}
		if login, no := d.server.Auth.identify(r); no == nil {
			able.Name = d.Aliases().Canonical(login)
		}
		content, _ = json.Marshal(able) // it always can be
	default:
		w.Header().Set("Cache-Control", "max-age=31536000, immutable")
	}
	w.Header().Set("Content-Type", render.ContentType(name))
	_, _ = w.Write(content) // who is gone misses nothing
	return true
}

// A visit is one request of one person.
type visit struct {
	booking.Policy
	board   *board.Board
	query   url.Values
	pages   *page.BookPages // in the language that is asked for
	page    page.Book
	instead bool // somebody else was faster, and something else is offered
	plain   bool // a program asks, which a refusal tells in text
}

// visit reads what a request is about. It is nil if the board does not have such a place.
func (d *bookingForm) visit(login string, q url.Values) (*visit, error) {
	aliases := d.Aliases()
	me := aliases.Canonical(login)
	v := &visit{query: q, pages: d.Pages.In(q.Get("lang"))}
	v.Policy = booking.Policy{
		Login: me, Person: me, Now: d.Now(), FileZone: d.FileZone, Aliases: aliases, Limits: d.Limits,
	}
	v.page = page.Book{User: me, ForOthers: d.ForOthers, Now: v.Now, Mine: v.Mine}
	if err := v.look(d.server); err != nil {
		return nil, err
	}
	for _, text := range q["at"] {
		host, targets, err := booking.ParsePlace(text)
		if err != nil || len(v.page.At)+len(targets) > maxPlaces {
			return nil, nil
		}
		for _, target := range targets {
			v.page.At = append(v.page.At, booking.Booking{Host: host, Target: target})
		}
	}
	if q.Has("released") { // it names what was released, which need not exist any more
		v.page.Freed, v.page.At = v.page.At, nil
	}
	if len(booking.Check(&booking.Calendar{Bookings: v.page.At}, v.Fleet, v.Now)) > 0 {
		return nil, nil
	}
	d.fill(v, q)
	return v, nil
}

// look reads the board as it is now.
func (v *visit) look(s *server) error {
	b, err := s.readBoard()
	if err != nil {
		return err
	}
	v.board, v.page.Board, v.Fleet = b, b, b.Fleet()
	v.Running = func(of booking.Booking) []booking.Job { return b.Jobs(of, v.Aliases.Mine(v.Person)) }
	return nil
}

// fill fills in the fields.
func (d *bookingForm) fill(v *visit, q url.Values) {
	f := &v.page.Fields
	v.Zone = d.zone(q.Get("zone"))
	v.page.Zone = v.Zone
	f.Name = v.Login
	if d.ForOthers && q.Has("name") {
		f.Name = strings.TrimSpace(q.Get("name"))
	}
	f.From, f.Until, f.Comment = q.Get("from"), q.Get("until"), q.Get("comment")
	f.GPUs, f.Model, f.Memory, f.OneHost = q.Get("gpus"), q.Get("model"), q.Get("memory"), q.Get("one-host") != ""
	f.Sure, f.Over, f.IDs, f.End = q.Get("sure"), q.Get("over"), q["id"], q.Get("end")
}

// show shows the form as it was filled in, with the bookings as they are now.
func (d *bookingForm) show(w http.ResponseWriter, v *visit, status int) {
	p := &v.page
	v.Person = v.Aliases.Canonical(p.Fields.Name) // whose own jobs are nothing to ask about
	p.Jobs = v.Jobs(v.begun())
	v.Person = v.Login

	cal := d.File().Load(v.Options()).On(v.Fleet)
	for _, at := range p.At {
		at.From = v.Now
		for _, b := range booking.Conflicts(cal, at, v.Fleet) {
			if !slices.ContainsFunc(p.Standing, func(other booking.Booking) bool { return other.ID == b.ID }) {
				p.Standing = append(p.Standing, b)
			}
		}
	}
	for _, b := range cal.Bookings {
		if b.OverAt(v.Now) || !v.Mine(b) {
			continue
		}
		if slices.Contains(v.query["saved"], b.ID) {
			p.Saved = append(p.Saved, b)
		}
		if len(p.At) == 0 {
			p.Standing = append(p.Standing, b)
		}
	}
	p.Released = v.query.Has("released")
	v.readFreed()
	if v.instead {
		v.offerInstead(cal)
	}
	p.Active = slices.DeleteFunc(slices.Clone(cal.Bookings), func(b booking.Booking) bool { return !b.ActiveAt(v.Now) })
	if len(p.At) == 0 && p.Fields.GPUs != "" && p.Say == "" {
		if err := d.offer(v, cal); err != nil {
			why := refused(err, "until")
			v.refuse(why)
			status = why.status
		}
	}
	if p.Say == "" {
		v.propose()
	}
	if cal.Broken && (p.Say == "" || p.Say == "broken") {
		p.Say, p.Detail = "broken", cal.Mistake()
	}
	if v.plain {
		http.Error(w, v.pages.Refusal(v.page), status)
		return
	}
	body, err := v.pages.Book(v.page)
	if err != nil {
		d.fail(w, "rendering the booking page", err)
		return
	}
	w.Header().Set("Content-Type", render.ContentType("index.html"))
	w.WriteHeader(status)
	_, _ = w.Write(body) // who is gone misses nothing
}

// refuse says why nothing was saved.
func (v *visit) refuse(why *refusal) {
	p := &v.page
	p.Say, p.Detail, p.Field, p.Clashes = why.say, why.detail, why.field, why.clashes
}

// post answers a form that was sent.
func (d *bookingForm) post(w http.ResponseWriter, r *http.Request, v *visit) {
	if !d.sameOrigin(r) {
		d.server.Log.Warn("a form that another site sent", "user", v.Login, "origin", r.Header.Get("Origin"))
		http.Error(w, "this form was sent by another site, or by none: nothing was saved", http.StatusForbidden)
		return
	}
	q, no := d.body(w, r)
	if no != nil {
		no.send(w)
		return
	}
	d.fill(v, q)
	if wait := d.saves.take("as "+v.Login, "at "+addressKey(d.server.Auth.client(r))); wait > 0 {
		later(w, wait)
		v.page.Say = "often"
		d.show(w, v, http.StatusTooManyRequests)
		return
	}
	action := q.Get("action")
	var done booking.Change
	edit, err := d.edit(v, action)
	if err == nil {
		// A client that disconnects meanwhile still wants it saved.
		err = d.File().Update(context.WithoutCancel(r.Context()), booking.By{Name: v.Login, At: d.Now()},
			func(data []byte) ([]byte, error) {
				v.Now = d.Now()
				done, err = edit(data)
				return done.After, err
			})
	}
	if _, made := errors.AsType[*booking.MadeError](err); made {
		d.server.Log.Error("saving a booking", "error", err)
		err = nil
	}
	if err != nil {
		endField := "until"
		if action == "extend" {
			endField = "end"
		}
		why := refused(err, endField)
		if why == nil && !d.File().Load(v.Options()).Broken {
			d.fail(w, "saving a booking", err)
			return
		}
		if why == nil { // the file is away, or is no file
			d.server.Log.Error("saving a booking", "error", err)
			why = &refusal{status: http.StatusConflict, say: "broken"}
		}
		v.refuse(why)
		v.instead = action == "book" && why.say == "conflict"
		if why.status == http.StatusServiceUnavailable {
			later(w, time.Second)
		}
		d.show(w, v, why.status)
		return
	}
	said := map[string]string{"book": "a booking made", "extend": "a booking extended",
		"release": "a booking released"}[action]
	d.server.Log.Info(said, "user", v.Login, "bookings", booking.Places(done.Done))
	if d.Changed != nil {
		d.Changed(v.board.Every())
	}
	then := url.Values{}
	for _, b := range done.Done {
		then.Add("saved", b.ID)
	}
	switch action {
	case "release":
		then = v.freed(done.Freed)
	case "extend":
		then.Set("end", v.endBefore(done))
	}
	// Relative, so that it holds behind any proxy and under any path.
	w.Header().Set("Location", v.pages.Address(then))
	w.WriteHeader(http.StatusSeeOther)
}

// endBefore is the end that a booking had before it was extended, as the form takes it.
func (v *visit) endBefore(c booking.Change) string {
	found, err := v.Find(v.Read(c.Before), v.page.Fields.IDs[0], false)
	if err != nil {
		return "never"
	}
	return booking.EndText(found[0].Until)
}

// sameOrigin reports whether a page of this site sent the form. Every browser sends at least
// one of the two headers. Behind a trusted proxy the host is the one that it forwards.
func (d *bookingForm) sameOrigin(r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" {
		return false
	}
	asked := *r
	if _, proxied := d.server.Auth.peer(r); proxied {
		asked.Host = cmp.Or(r.Header.Get("X-Forwarded-Host"), r.Host)
	}
	return http.NewCrossOriginProtection().Check(&asked) == nil
}

// edit returns the change to the bookings that a form asks for.
func (d *bookingForm) edit(v *visit, action string) (func([]byte) (booking.Change, error), error) {
	f := &v.page.Fields
	switch {
	case action == "extend" && len(f.IDs) == 1:
		return func(data []byte) (booking.Change, error) {
			c, _, err := v.Extend(data, f.IDs[0], f.End)
			return c, err
		}, nil
	case action == "release" && len(f.IDs) > 0:
		return func(data []byte) (booking.Change, error) { return v.Release(data, f.IDs...) }, nil
	case action == "book" && len(v.page.At) > 0:
		wanted, err := d.wanted(v)
		return func(data []byte) (booking.Change, error) {
			// What runs there may have changed while the lock was waited for.
			if err := v.look(d.server); err != nil {
				return booking.Change{}, err
			}
			return v.Book(data, wanted...)
		}, err
	}
	return nil, &refusal{status: http.StatusBadRequest, say: "invalid", detail: "the form does not say what to do"}
}

// fail answers when something is wrong here, and tells the log alone what.
func (d *bookingForm) fail(w http.ResponseWriter, doing string, err error) {
	d.server.Log.Error(doing, "error", err)
	http.Error(w,
		"something went wrong here, and nothing is known to be saved: look at the bookings, and tell whoever runs this",
		http.StatusInternalServerError)
}
