package serve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/serve"
)

func TestBook(t *testing.T) {
	c := newCounter(t)
	if w := c.do(httptest.NewRequest(http.MethodGet, "/book/?at=atlas:0", nil)); w.Code != 401 ||
		!strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") || w.Header().Get("Retry-After") != "" {
		t.Fatalf("without a login: %d %v", w.Code, w.Header())
	}
	w := c.open("eva", "/book/?at=atlas:0")
	if w.Code != 200 || !strings.Contains(w.Body.String(), "atlas 0") ||
		!strings.Contains(w.Body.String(), "There is no booking.") {
		t.Fatalf("the form: %d\n%s", w.Code, w.Body)
	}
	if p := w.Header().Get("Content-Security-Policy"); !strings.Contains(p, "form-action 'self'") ||
		!strings.Contains(p, "script-src 'self';") || strings.Contains(p, "unsafe") {
		t.Errorf("its policy is %q", p)
	}
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("a page with a login has Cache-Control %q", got)
	}
	if got := w.Header().Get("Referrer-Policy"); got != "same-origin" {
		t.Errorf("with Referrer-Policy %q browsers send Origin: null", got)
	}
	w = c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "2d 6h", "comment", "camera ready")
	all := c.bookings()
	if len(all) != 1 {
		t.Fatalf("bookings %+v\n%s", all, c.file())
	}
	if w.Code != 303 || w.Header().Get("Location") != "?saved="+all[0].ID {
		t.Fatalf("saving: %d %q\n%s", w.Code, w.Header().Get("Location"), w.Body)
	}
	b := all[0]
	if b.Host != "atlas" || b.Target != (booking.Target{Index: 0}) || b.Name != "eva" || b.By != "" ||
		b.Comment != "camera ready" ||
		!b.From.Equal(c.now()) || !b.Until.Equal(c.now().Add(54*time.Hour)) {
		t.Errorf("saved %+v", b)
	}
	// Twice the same is once.
	if w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "2d 6h"); w.Code != 409 ||
		len(c.bookings()) != 1 {
		t.Errorf("the same form a second time: %d, %d bookings", w.Code, len(c.bookings()))
	}
	// Mine has buttons; hers have none.
	if body := c.open("eva", "/book/?at=atlas:0").Body.String(); !strings.Contains(body, "camera ready") ||
		!strings.Contains(body, b.ID) || !strings.Contains(body, "Release now") {
		t.Errorf("her own booking:\n%s", body)
	}
	if body := c.open("mira", "/book/?at=atlas:0").Body.String(); !strings.Contains(body, "camera ready") ||
		strings.Contains(body, "Release now") {
		t.Errorf("somebody else's booking:\n%s", body)
	}
}

func TestTheFormIsRecorded(t *testing.T) {
	c := newCounter(t, func(o *serve.Options, _ *serve.AuthOptions) { o.Booking.ForOthers = true })
	if w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "1d", "name", "mira"); w.Code != 303 {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	record := booking.Open(c.comments, booking.Zone{}).Record()
	if len(record) != 1 || record[0].By != "eva" || record[0].Name != "mira" || record[0].Action != booking.Booked ||
		!record[0].At.Equal(c.now()) {
		t.Errorf("%+v", record)
	}
}

// TestBookASlice: a MIG slice has a form of its own, by its UUID. Its GPU is all of
// its slices, and other slices are not.
func TestBookASlice(t *testing.T) {
	c := newCounter(t)
	home := c.open("eva", "/book/").Body.String()
	if !strings.Contains(home, `href="?at=ceres%3AMIG-0000000a-0000-4000-8000-000000000000"`) ||
		!strings.Contains(home, "2:0 free") || strings.Contains(home, "2:2") ||
		strings.Contains(home, `href="?at=ceres%3A2"`) {
		t.Errorf("the list of what can be booked:\n%s", home)
	}
	if w := c.open("eva", "/book/?at=ceres:MIG-0000000a-0000-4000-8000-000000000000"); w.Code != 200 ||
		!strings.Contains(w.Body.String(), "A100 MIG 1g.5gb") ||
		!strings.Contains(w.Body.String(), "There is no booking.") {
		t.Fatalf("the form: %d\n%s", w.Code, w.Body)
	}
	for gpu, code := range map[string]int{
		"MIG-GPU-00000002-0000-4000-8000-000000000000/7/0": 200, // old drivers' UUIDs contain slashes
		"MIG-0000000b-0000-4000-8000-000000000000":         200, // as the command: one of the slices has no known UUID
		"2:0": 404,
	} {
		if w := c.open("eva", "/book/?at=ceres:"+gpu); w.Code != code {
			t.Errorf("%s: %d", gpu, w.Code)
		}
	}
	if w := c.post("eva", "/book/?at=ceres:MIG-0000000a-0000-4000-8000-000000000000", "action", "book", "until",
		"2d"); w.Code != 303 {
		t.Fatalf("saving: %d\n%s", w.Code, w.Body)
	}
	all := c.bookings()
	if len(all) != 1 || all[0].Target != (booking.Target{UUID: "MIG-0000000a-0000-4000-8000-000000000000", Index: -1}) {
		t.Fatalf("saved %+v", all)
	}
	if w := c.post("mira", "/book/?at=ceres:2", "action", "book", "until", "2d"); w.Code != 409 {
		t.Errorf("the whole GPU over a slice of it: %d", w.Code)
	}
	if body := c.open("eva", "/book/").Body.String(); !strings.Contains(body,
		`<a href="?at=ceres%3AMIG-0000000a-0000-4000-8000-000000000000">`) {
		t.Errorf("her own bookings:\n%s", body)
	}
}

func TestConflictKeepsWhatWasTyped(t *testing.T) {
	c := newCounter(t)
	c.write(c.comments,
		`{"atlas": {"GPU-00000000-AAAA-4000-8000-000000000000": {"name": "mira", "date": "2026-11-22 18:00", "comment": "<b>mine</b>"}}} // by hand`)
	before := c.file()
	w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "3d", "comment", `typed "this"`)
	body := w.Body.String()
	if w.Code != http.StatusConflict || c.file() != before {
		t.Fatalf("%d, and the file is\n%s", w.Code, c.file())
	}
	for _, want := range []string{"it is already booked", "mira", "Sun 18:00", `value="3d"`,
		`value="typed &#34;this&#34;"`, "&lt;b&gt;mine"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q:\n%s", want, body)
		}
	}
	if strings.Contains(body, "<b>mine") {
		t.Error("a comment is markup")
	}
	if w := c.post("eva", "/book/?at=atlas:1", "action", "book", "from", "2026-11-19 10:00", "until",
		"3d"); w.Code != 422 || !strings.Contains(w.Body.String(), "is over") {
		t.Errorf("from yesterday on: %d", w.Code)
	}
	// Beside it, and after it, there is room.
	if w := c.post("eva", "/book/?at=atlas:1", "action", "book", "until", "3d"); w.Code != 303 {
		t.Errorf("the GPU beside it: %d\n%s", w.Code, w.Body)
	}
	if w := c.post("eva", "/book/?at=atlas:0", "action", "book", "from", "2026-11-22 18:00", "until",
		"1d"); w.Code != 303 {
		t.Errorf("right after it: %d\n%s", w.Code, w.Body)
	}
	if w := c.post("eva", "/book/?at=atlas", "action", "book", "until", "1d"); w.Code != 409 {
		t.Errorf("the whole host: %d", w.Code)
	}
	if !strings.HasSuffix(c.file(), "// by hand") {
		t.Errorf("the comment in the file is gone:\n%s", c.file())
	}
}

// TestAProgramIsToldInText: why nothing was saved, and what is in the way.
func TestAProgramIsToldInText(t *testing.T) {
	c := newFleet(t)
	c.write(c.comments, `{"atlas": {"0": {"name": "mira", "date": "2026-11-22 18:00", "comment": "mine"}}}`)
	for _, tt := range []struct {
		place, until string
		code         int
		says         string
	}{
		{"atlas:1", "1d", 303, ""},
		{"atlas:0", "1d", 409,
			"Not saved: it is already booked.\natlas:0 mira: Fri 20 Nov 10:00 → Sun 22 Nov 18:00 UTC (2 d 8 h)\n"},
		{"atlas:2", "1d", 409,
			"Not saved: others are using it, or may be. Ask them, or tick the box below.\natlas:2 kai train.py\n"},
		{"ceres:0", "soon", 422, "Not saved: this time cannot be read or booked. "},
		{"pluto:0", "1d", 404, "404 page not found\n"},
	} {
		r := c.form("eva", "/book/?at="+tt.place, "action", "book", "until", tt.until)
		r.Header.Set("Accept", "text/plain")
		w := c.do(r)
		if w.Code != tt.code || !strings.HasPrefix(w.Body.String(), tt.says) || strings.Contains(w.Body.String(), "<") {
			t.Errorf("%s: %d\n%s", tt.place, w.Code, w.Body)
		}
	}
}

// A booking by number stays with its card: who has it now is asked, and who has
// the number is not.
func TestConflictFollowsTheCard(t *testing.T) {
	c := newCounter(t)
	c.write(c.comments, `{"atlas": {"0": {"id": "m1", "name": "mira", "date": "2026-11-22 18:00"}}}`)
	c.write(filepath.Join(filepath.Dir(filepath.Dir(c.comments)), "site", "api", "v1", "bookings.json"),
		`{"schema_version": 1, "bookings": [{"id": "m1", "host": "atlas", "gpus": [1], "name": "mira"}]}`)
	if w := c.post("eva", "/book/?at=atlas:1", "action", "book", "until", "3d"); w.Code != http.StatusConflict ||
		!strings.Contains(w.Body.String(), "mira") {
		t.Errorf("the number that her card has now: %d", w.Code)
	}
	if w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "3d"); w.Code != 303 {
		t.Errorf("the number that her card had: %d\n%s", w.Code, w.Body)
	}
}

func TestExtendAndRelease(t *testing.T) {
	c := newCounter(t)
	c.write(c.comments, `{"atlas": [
		[{"id": "a", "name": "eva", "from": "2026-11-20 08:00", "date": "2026-11-20 18:00"}, {"id": "b", "name": "mira", "from": "2026-11-21 18:00", "date": "2026-11-22 18:00"}],
		[{"id": "f", "name": "eva", "from": "2026-11-25 08:00", "date": "2026-11-26 08:00"}, {"id": "g", "name": "kai", "by": "eva", "from": "2026-11-27 08:00", "date": "2026-11-28 08:00"}]]}`)
	find := func(id string) *booking.Booking {
		for _, b := range c.bookings() {
			if b.ID == id {
				return &b
			}
		}
		return nil
	}
	address := "" // to which the form led
	for _, tt := range []struct {
		action, id, end string
		code            int
		until           string // of that booking afterwards; "" for gone
	}{
		{"extend", "a", "1d", 303, "2026-11-21T18:00:00Z"}, // counts from its end
		{"undo", "a", "", 303, "2026-11-20T18:00:00Z"},
		{"undo", "a", "", 303, "2026-11-21T18:00:00Z"},
		{"extend", "a", "1h", 409, "2026-11-21T18:00:00Z"}, // mira's
		{"extend", "a", "sat 12:00", 303, "2026-11-21T12:00:00Z"},
		{"extend", "a", "yesterday", 422, "2026-11-21T12:00:00Z"},
		{"extend", "a", "2026-11-20 09:00", 422, "2026-11-21T12:00:00Z"},
		{"extend", "b", "1d", 403, "2026-11-22T18:00:00Z"},
		{"release", "b", "", 403, "2026-11-22T18:00:00Z"},
		{"release", "no-such", "", 409, ""},
		{"release", "a", "", 303, "2026-11-20T10:00:00Z"},
		{"release", "a", "", 409, "2026-11-20T10:00:00Z"}, // it is over
		{"release", "f", "", 303, ""},                     // not begun: gone
		{"release", "g", "", 303, ""},                     // she made it for him
		{"destroy", "b", "", 400, "2026-11-22T18:00:00Z"},
	} {
		if tt.action == "undo" {
			tt.action, tt.end = "extend", field(t, c.open("eva", "/book/"+address).Body.String(), "end")
		}
		w := c.post("eva", "/book/?at=atlas:0", "action", tt.action, "id", tt.id, "end", tt.end)
		address = w.Header().Get("Location")
		if w.Code != tt.code {
			t.Errorf("%s %s %q: %d, want %d\n%s", tt.action, tt.id, tt.end, w.Code, tt.code, w.Body)
		}
		got := ""
		if b := find(tt.id); b != nil {
			got = b.Until.UTC().Format(time.RFC3339)
		}
		if got != tt.until {
			t.Errorf("%s %s %q: it ends %q, want %q", tt.action, tt.id, tt.end, got, tt.until)
		}
		if tt.code == 422 && !strings.Contains(w.Body.String(), `value="`+tt.end+`"`) {
			t.Errorf("%s %s %q: what was typed is lost", tt.action, tt.id, tt.end)
		}
	}
	if page := c.open("eva", "/book/?saved=a").Body.String(); strings.Contains(page, `value="a"`) ||
		strings.Contains(page, "Saved.") {
		t.Errorf("a booking that is over is listed:\n%s", page)
	}
	for path, want := range map[string]bool{"/book/": false, "/book/?released=1": true} {
		if page := c.open("eva", path).Body.String(); strings.Contains(page, "Released.") != want {
			t.Errorf("%s says that a booking is released: %v\n%s", path, !want, page)
		}
	}
	for action, path := range map[string]string{"extend": "/book/?at=atlas:0", "release": "/book/?at=atlas:0",
		"book": "/book/"} {
		if w := c.post("eva", path, "action", action, "end", "1d", "until", "1d"); w.Code != 400 {
			t.Errorf("%s nothing: %d\n%s", action, w.Code, w.Body)
		}
	}
}

func TestNames(t *testing.T) {
	c := newCounter(t)
	// A login stands for the person behind it.
	if w := c.post("login7", "/book/?at=atlas:0", "action", "book", "until", "1d", "name", "mira"); w.Code != 303 {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	if b := c.bookings()[0]; b.Name != "tomas" || b.By != "" {
		t.Errorf("booked for %q by %q; only tomas himself may be, and the field is not offered", b.Name, b.By)
	}
	c = newCounter(t, func(o *serve.Options, _ *serve.AuthOptions) { o.Booking.ForOthers = true })
	for gpu, tt := range []struct{ name, want, by string }{{"mira", "mira", "tomas"}, {"LOGIN7", "tomas", ""}} {
		if w := c.post("login7", "/book/?at=atlas:"+fmt.Sprint(gpu), "action", "book", "until", "1d", "name",
			tt.name); w.Code != 303 {
			t.Fatalf("for %s: %d\n%s", tt.name, w.Code, w.Body)
		}
		if b := c.bookings()[gpu]; b.Name != tt.want || b.By != tt.by {
			t.Errorf("for %s: booked for %q by %q", tt.name, b.Name, b.By)
		}
	}
	c.write(c.comments, `{"atlas": [{"name": "Login7", "id": "by-hand", "date": "2026-12-01"}]}`)
	if w := c.post("login7", "/book/?at=atlas:0", "action", "release", "id", "by-hand"); w.Code != 303 {
		t.Errorf("letting go of what stands under another name of the same person: %d\n%s", w.Code, w.Body)
	}
	if w := c.post("login7", "/book/?at=dione", "action", "book", "until", "1d", "name", "  "); w.Code != 422 {
		t.Errorf("for nobody: %d", w.Code)
	}
}

func TestWhatIsGuessedIsAskedAbout(t *testing.T) {
	c := newCounter(t)
	w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "09:00") // it is 10:00
	m := regexp.MustCompile(`name="sure" value="([^"]+)"`).FindStringSubmatch(w.Body.String())
	if w.Code != 422 || m == nil || c.file() != "" || !strings.Contains(w.Body.String(), "tomorrow is meant") {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	if w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "09:00", "sure", m[1]); w.Code != 303 {
		t.Errorf("confirmed: %d\n%s", w.Code, w.Body)
	}
	// What was confirmed is that, and nothing else.
	if w := c.post("eva", "/book/?at=atlas:1", "action", "book", "until", "08:00", "sure", m[1]); w.Code != 422 {
		t.Errorf("another time than was confirmed: %d", w.Code)
	}
}

func TestLimits(t *testing.T) {
	c := newCounter(t, func(o *serve.Options, _ *serve.AuthOptions) {
		o.Booking.Limits = booking.Limits{MaxGPUs: 1, MaxDuration: 48 * time.Hour}
	})
	if w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "3d"); w.Code != 422 ||
		!strings.Contains(w.Body.String(), "the limit is") {
		t.Errorf("three days of two: %d", w.Code)
	}
	if w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "2d"); w.Code != 303 {
		t.Errorf("two days: %d\n%s", w.Code, w.Body)
	}
	id := c.bookings()[0].ID
	if w := c.post("eva", "/book/?at=atlas:0", "action", "extend", "id", id, "end", "1h"); w.Code != 422 {
		t.Errorf("a longer one in two steps: %d", w.Code)
	}
	if w := c.post("eva", "/book/?at=atlas:1", "action", "book", "until", "1d"); w.Code != 422 {
		t.Errorf("a second GPU of one: %d", w.Code)
	}
}

func TestWholeMinutes(t *testing.T) {
	c := newCounter(t)
	c.later(22 * time.Second)
	if w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "2h"); w.Code != 303 {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	b := c.bookings()[0]
	if got := b.From.Format("15:04:05") + " " + b.Until.Format("15:04:05"); got != "10:00:00 12:00:00" {
		t.Errorf("booked at 10:00:22 it is %s", got)
	}
	// Let go of and taken within a minute, the one follows right upon the other.
	if w := c.post("eva", "/book/?at=atlas:0", "action", "release", "id", b.ID); w.Code != 303 {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	c.later(10 * time.Second)
	for _, user := range []string{"mira", "eva"} {
		if w := c.post(user, "/book/?at=atlas:0", "action", "book", "until", "2h"); user == "mira" && w.Code != 303 ||
			user == "eva" && w.Code != 409 {
			t.Errorf("%s: %d\n%s", user, w.Code, w.Body)
		}
	}
	cal := booking.Parse("comments.json", []byte(c.file()), booking.Zone{Location: time.UTC}, booking.Options{})
	if len(cal.Bookings) != 2 || len(cal.Problems) > 0 || !cal.Bookings[1].From.Equal(c.now()) {
		t.Errorf("%v\n%s", cal.Problems, c.file())
	}
}

// TestTheFormSpeaksALanguage: the form is in the language that a page of the site
// asks for, and stays in it from page to page.
func TestTheFormSpeaksALanguage(t *testing.T) {
	c := newCounter(t)
	body := c.open("eva", "/book/?lang=de&at=atlas:0").Body.String()
	for _, want := range []string{`<html lang="de"`, "Es gibt keine Buchung.", `href="../de/bookings/index.html"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the form lacks %q:\n%s", want, body)
		}
	}
	w := c.post("eva", "/book/?lang=de&at=atlas:0", "action", "book", "until", "2d")
	if to := w.Header().Get("Location"); w.Code != 303 || !strings.Contains(to, "lang=de") {
		t.Errorf("after saving: %d %q", w.Code, to)
	}
	if body := c.open("eva", "/book/?lang=tlh").Body.String(); !strings.Contains(body, `<html lang="en"`) {
		t.Errorf("in a language that the site has not:\n%s", body)
	}
}

// TestTheFieldOfAMistakeIsMarked: an end that cannot be read is that of the field it was typed into.
func TestTheFieldOfAMistakeIsMarked(t *testing.T) {
	c := newCounter(t)
	marked := func(page string) string {
		m := regexp.MustCompile(`<input[^>]*name="([a-z]+)"[^>]*aria-invalid="true"`).FindStringSubmatch(page)
		if m == nil {
			return ""
		}
		return m[1]
	}
	if w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "2026/11/22"); w.Code != 422 ||
		marked(w.Body.String()) != "until" {
		t.Errorf("%d, marked is %q", w.Code, marked(w.Body.String()))
	}
	c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "1d")
	w := c.post("eva", "/book/?at=atlas:0", "action", "extend", "id", c.bookings()[0].ID, "end", "2026/11/22")
	if got := marked(w.Body.String()); w.Code != 422 || got == "until" {
		t.Errorf("%d, marked is %q, and the end of the other form was not sent", w.Code, got)
	}
}

// TestABookingWithoutAnEndIsExtended: the way back is the word for no end.
func TestABookingWithoutAnEndIsExtended(t *testing.T) {
	c := newCounter(t)
	c.write(c.comments, `{"atlas": {"0": {"name": "eva", "date": "never", "id": "open"}}}`)
	w := c.post("eva", "/book/?at=atlas:0", "action", "extend", "id", "open", "end", "2026-12-01")
	if to := w.Header().Get("Location"); w.Code != 303 || !strings.Contains(to, "end=never") {
		t.Errorf("%d %q\n%s", w.Code, to, w.Body)
	}
}

// An unwritable file is one of which changes end with an error.
type unwritable struct {
	serve.File
	err error
}

func (u *unwritable) Update(context.Context, booking.By, func([]byte) ([]byte, error)) error {
	return u.err
}

// TestWhyNothingWasSaved: what may pass is to be tried again, what was typed is marked, and
// what is wrong with the server is said in the log alone.
func TestWhyNothingWasSaved(t *testing.T) {
	for name, tt := range map[string]struct {
		err         error
		code        int
		retry, says string
	}{
		"another change": {err: booking.ErrLocked, code: 503, retry: "1", says: "Try again."},
		"no such sign":   {err: fmt.Errorf("%w, …", booking.ErrEncoding), code: 422, says: "Windows-1252"},
		"no booking": {err: fmt.Errorf("%w: it names no GPU", booking.ErrInvalid), code: 422,
			says: "it names no GPU"},
		"a broken server": {err: errors.New("reading /srv/secret"), code: 500, says: "nothing is known to be saved"},
	} {
		var log bytes.Buffer
		c := newCounter(t, func(o *serve.Options, _ *serve.AuthOptions) {
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			file := &unwritable{o.Booking.File(), tt.err}
			o.Booking.File = func() serve.File { return file }
		})
		w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "1d", "comment", "猫")
		if body := w.Body.String(); w.Code != tt.code || w.Header().Get("Retry-After") != tt.retry ||
			!strings.Contains(body, tt.says) || strings.Contains(body, "secret") {
			t.Errorf("%s: %d, Retry-After %q\n%s", name, w.Code, w.Header().Get("Retry-After"), body)
		}
		if logged := strings.Contains(log.String(), tt.err.Error()); logged != (tt.code == 500) {
			t.Errorf("%s: the log is\n%s", name, &log)
		}
	}
}

// TestTheFormHasItsStyle: also where the site has none, and without a login.
func TestTheFormHasItsStyle(t *testing.T) {
	c := newCounter(t)
	asset := regexp.MustCompile(`assets/[\w.-]+\.css`).FindString(c.open("eva", "/book/").Body.String())
	w := c.do(httptest.NewRequest(http.MethodGet, "/book/"+asset, nil))
	if head := w.Header(); asset == "" || w.Code != 200 || !strings.HasPrefix(head.Get("Content-Type"), "text/css") ||
		!strings.Contains(head.Get("Cache-Control"), "immutable") || !strings.Contains(w.Body.String(), "{") {
		t.Errorf("%q: %d %v\n%s", asset, w.Code, head, w.Body)
	}
}

// TestOnesOwnBookingsAreListed: whosever are before and between them, and only where no place is asked for.
func TestOnesOwnBookingsAreListed(t *testing.T) {
	c := newCounter(t)
	c.write(
		c.comments, `{"atlas": [{"id": "m", "name": "mira", "date": "2026-11-22 18:00"}, {"id": "a", "name": "eva", "date": "2026-11-22 18:00"}],
		"ceres": {"2": [{"id": "k", "name": "kai", "date": "2026-11-22 18:00"}, {"id": "b", "name": "eva", "from": "2026-11-23", "date": "2026-11-24 18:00"}]}}`)
	for path, want := range map[string]int{"/book/": 2, "/book/?name=mira": 2, "/book/?at=atlas:0": 0} {
		if body := c.open("eva", path).Body.String(); strings.Count(body, `value="release"`) != want {
			t.Errorf("%s lists other than %d bookings to release:\n%s", path, want, body)
		}
	}
	if body := c.open("eva", "/book/?saved=b").Body.String(); !strings.Contains(body, "Saved.") {
		t.Errorf("a booking after somebody else's is not said to be saved:\n%s", body)
	}
}

// TestABookingOfTwoPlacesStandsOnce: a booking of a host is one, however many of its GPUs are
// asked for, and each other one is listed, too.
func TestABookingOfTwoPlacesStandsOnce(t *testing.T) {
	c := newCounter(t)
	c.write(
		c.comments, `{"atlas": {"*": {"id": "whole", "name": "mira", "date": "2026-11-22 18:00", "comment": "of the host"},
		"1": [{"id": "old", "name": "kai", "from": "2026-11-18", "date": "2026-11-19 18:00", "comment": "long ago"},
			{"id": "one", "name": "kai", "from": "2026-11-23", "date": "2026-11-24 18:00", "comment": "of the GPU"}]}}`)
	body := c.open("eva", "/book/?at=atlas:0,1").Body.String()
	for comment, want := range map[string]int{"of the host": 1, "of the GPU": 1, "long ago": 0} {
		if n := strings.Count(body, comment); n != want {
			t.Errorf("the booking %s is listed %d times, want %d:\n%s", comment, n, want, body)
		}
	}
}
