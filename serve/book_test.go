package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"gpuboard/booking"
	"gpuboard/serve"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

const boardJSON = `{"hosts": [
	{"name": "atlas", "title": "Atlas", "gpus": [
		{"index": 0, "uuid": "GPU-00000000-aaaa", "name": "H100", "state": "free"},
		{"index": 1, "uuid": "GPU-11111111-bbbb", "name": null, "state": "contested"}]},
	{"name": "dione", "title": "", "gpus": []}]}`

// A counter is a booking form with its file, a clock that stands, and visitors.
type counter struct {
	t        *testing.T
	h        http.Handler
	comments string
	mu       sync.Mutex
	clock    time.Time
	token    map[string]string // by user
	cookie   map[string]string
}

func (c *counter) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock
}

func (c *counter) later(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock = c.clock.Add(d)
}

// hashed is a password of low cost, so that tests do not wait for bcrypt.
func hashed(t testing.TB, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

type setting func(*serve.Options, *serve.AuthOptions)

func newCounter(t *testing.T, settings ...setting) *counter {
	t.Helper()
	c := &counter{t: t, clock: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), token: map[string]string{}, cookie: map[string]string{}}
	dir := t.TempDir()
	for _, d := range []string{"site/api/v1", "data"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c.comments = filepath.Join(dir, "data", "comments.json")
	users := filepath.Join(dir, "users")
	c.write(users, "eva:"+hashed(t, "eva's")+"\nmira:"+hashed(t, "mira's")+"\nlogin7:"+hashed(t, "x")+"\n")
	c.write(filepath.Join(dir, "site", "api", "v1", "board.json"), boardJSON)
	c.write(filepath.Join(dir, "site", "index.html"), "the page")

	pages, err := render.NewBookPages(render.Site{Title: "Lab", Zone: time.UTC}, templates.Files())
	if err != nil {
		t.Fatal(err)
	}
	aliases := booking.Aliases{"login7": "tomas", "tomas": "tomas"}
	o := serve.Options{Site: filepath.Join(dir, "site"), Booking: &serve.BookingOptions{
		Store: booking.LocalStore(c.comments, "a test", time.Now), Zone: time.UTC, Pages: pages, Now: c.now, Interval: 20 * time.Second,
		Aliases: func() booking.Aliases { return aliases },
	}}
	auth := serve.AuthOptions{Passwords: users, Now: c.now}
	for _, s := range settings {
		s(&o, &auth)
	}
	if o.Auth, err = serve.NewAuth(auth); err != nil {
		t.Fatal(err)
	}
	if c.h, err = serve.Handler(o); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *counter) write(path, content string) {
	c.t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// file is comments.json as it is, "" when there is none.
func (c *counter) file() string {
	data, err := os.ReadFile(c.comments)
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	return string(data)
}

func (c *counter) bookings() []booking.Booking {
	cal := booking.Parse("comments.json", []byte(c.file()), time.UTC, booking.Options{Now: c.now()})
	return cal.Bookings
}

func (c *counter) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	c.h.ServeHTTP(w, r)
	return w
}

var tokenField = regexp.MustCompile(`name="token" value="([^"]+)"`)

// open shows a page to somebody, and remembers its token and cookie.
func (c *counter) open(user, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.SetBasicAuth(user, user+"'s")
	if user == "login7" {
		r.SetBasicAuth(user, "x")
	}
	if c.cookie[user] != "" {
		r.Header.Set("Cookie", c.cookie[user])
	}
	w := c.do(r)
	if m := tokenField.FindStringSubmatch(w.Body.String()); m != nil {
		c.token[user] = m[1]
	}
	for _, k := range w.Result().Cookies() {
		c.cookie[user] = k.Name + "=" + k.Value
	}
	return w
}

// form is a form as the browser of somebody who has opened the page sends it.
func (c *counter) form(user, path string, fields ...string) *http.Request {
	if c.token[user] == "" {
		c.open(user, path)
	}
	q := url.Values{"token": {c.token[user]}}
	for i := 0; i+1 < len(fields); i += 2 {
		q.Set(fields[i], fields[i+1])
	}
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(q.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Origin", "http://example.com") // httptest's host
	r.Header.Set("Cookie", c.cookie[user])
	r.SetBasicAuth(user, user+"'s")
	if user == "login7" {
		r.SetBasicAuth(user, "x")
	}
	return r
}

func (c *counter) post(user, path string, fields ...string) *httptest.ResponseRecorder {
	return c.do(c.form(user, path, fields...))
}

func TestBook(t *testing.T) {
	c := newCounter(t)
	if w := c.do(httptest.NewRequest(http.MethodGet, "/book/atlas/0", nil)); w.Code != 401 || !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") {
		t.Fatalf("without a login: %d %v", w.Code, w.Header())
	}
	w := c.open("eva", "/book/atlas/0")
	if w.Code != 200 || !strings.Contains(w.Body.String(), "atlas 0") || !strings.Contains(w.Body.String(), "Nobody has booked it.") {
		t.Fatalf("the form: %d\n%s", w.Code, w.Body)
	}
	if p := w.Header().Get("Content-Security-Policy"); !strings.Contains(p, "form-action 'self'") || strings.Contains(p, "script") || strings.Contains(p, "unsafe") {
		t.Errorf("its policy is %q", p)
	}
	if got := w.Header().Get("Referrer-Policy"); got != "same-origin" {
		t.Errorf("with Referrer-Policy %q browsers send Origin: null", got)
	}
	w = c.post("eva", "/book/atlas/0", "action", "book", "until", "2d 6h", "comment", "camera ready")
	if w.Code != 303 || w.Header().Get("Location") != "../../?saved=1#atlas" {
		t.Fatalf("saving: %d %q\n%s", w.Code, w.Header().Get("Location"), w.Body)
	}
	all := c.bookings()
	if len(all) != 1 {
		t.Fatalf("bookings %+v\n%s", all, c.file())
	}
	b := all[0]
	if b.Host != "atlas" || b.Target != (booking.Target{Index: 0}) || b.Name != "eva" || b.By != "" || b.Comment != "camera ready" ||
		!b.From.Equal(c.now()) || !b.Until.Equal(c.now().Add(54*time.Hour)) {
		t.Errorf("saved %+v", b)
	}
	// Twice the same is once.
	if w := c.post("eva", "/book/atlas/0", "action", "book", "until", "2d 6h"); w.Code != 409 || len(c.bookings()) != 1 {
		t.Errorf("the same form a second time: %d, %d bookings", w.Code, len(c.bookings()))
	}
	// Mine has buttons; hers have none.
	if body := c.open("eva", "/book/atlas/0").Body.String(); !strings.Contains(body, "camera ready") || !strings.Contains(body, b.ID) || !strings.Contains(body, "Release now") {
		t.Errorf("her own booking:\n%s", body)
	}
	if body := c.open("mira", "/book/atlas/0").Body.String(); !strings.Contains(body, "camera ready") || strings.Contains(body, "Release now") {
		t.Errorf("somebody else's booking:\n%s", body)
	}
}

func TestConflictKeepsWhatWasTyped(t *testing.T) {
	c := newCounter(t)
	c.write(c.comments, `{"atlas": {"GPU-00000000-AAAA": {"name": "mira", "date": "2026-11-22 18:00", "comment": "<b>mine</b>"}}} // by hand`)
	before := c.file()
	w := c.post("eva", "/book/atlas/0", "action", "book", "until", "3d", "comment", `typed "this"`)
	body := w.Body.String()
	if w.Code != http.StatusConflict || c.file() != before {
		t.Fatalf("%d, and the file is\n%s", w.Code, c.file())
	}
	for _, want := range []string{"it is booked already", "mira", "Sun 18:00", `value="3d"`, `value="typed &#34;this&#34;"`, "&lt;b&gt;mine"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q:\n%s", want, body)
		}
	}
	if strings.Contains(body, "<b>mine") {
		t.Error("a comment is markup")
	}
	// Beside it, and after it, there is room.
	if w := c.post("eva", "/book/atlas/1", "action", "book", "until", "3d"); w.Code != 303 {
		t.Errorf("the GPU beside it: %d\n%s", w.Code, w.Body)
	}
	if w := c.post("eva", "/book/atlas/0", "action", "book", "from", "2026-11-22 18:00", "until", "1d"); w.Code != 303 {
		t.Errorf("right after it: %d\n%s", w.Code, w.Body)
	}
	if w := c.post("eva", "/book/atlas/all", "action", "book", "until", "1d"); w.Code != 409 {
		t.Errorf("the whole host: %d", w.Code)
	}
	if !strings.HasSuffix(c.file(), "// by hand") {
		t.Errorf("the comment in the file is gone:\n%s", c.file())
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
	for _, tt := range []struct {
		action, id, end string
		code            int
		until           string // of that booking afterwards; "" for gone
	}{
		{"extend", "a", "1d", 303, "2026-11-21T18:00:00Z"}, // counts from its end
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
		w := c.post("eva", "/book/atlas/0", "action", tt.action, "id", tt.id, "end", tt.end)
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
}

func TestForgedForms(t *testing.T) {
	c := newCounter(t)
	c.open("eva", "/book/atlas/0")
	c.open("mira", "/book/atlas/0")
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Del(name)
			if value != "" {
				r.Header.Set(name, value)
			}
		}
	}
	for name, tt := range map[string]struct {
		forge func(*http.Request)
		token string
		code  int
	}{
		"no token":                    {code: 403, token: "-"},
		"a made up token":             {code: 403, token: strings.Repeat("A", 43)},
		"somebody else's token":       {code: 403, token: c.token["mira"]},
		"no cookie":                   {code: 403, forge: set("Cookie", "")},
		"another cookie":              {code: 403, forge: set("Cookie", c.cookie["mira"])},
		"a foreign origin":            {code: 403, forge: func(r *http.Request) { set("Origin", "http://evil.example")(r); set("Sec-Fetch-Site", "")(r) }},
		"a foreign origin, half told": {code: 403, forge: set("Origin", "http://evil.example")},
		"an origin that is hidden":    {code: 403, forge: func(r *http.Request) { set("Origin", "null")(r); set("Sec-Fetch-Site", "")(r) }},
		"cross-site":                  {code: 403, forge: set("Sec-Fetch-Site", "cross-site")},
		"same-site is another site":   {code: 403, forge: set("Sec-Fetch-Site", "same-site")},
		"neither header":              {code: 403, forge: func(r *http.Request) { set("Origin", "")(r); set("Sec-Fetch-Site", "")(r) }},
		"a host that nobody vouches for": {code: 403, forge: func(r *http.Request) {
			set("Origin", "http://evil.example")(r)
			set("X-Forwarded-Host", "evil.example")(r)
			r.RemoteAddr = "192.0.2.9:1"
		}},
		"JSON":     {code: 415, forge: set("Content-Type", "text/plain")},
		"no login": {code: 401, forge: set("Authorization", "")},
	} {
		t.Run(name, func(t *testing.T) {
			fields := []string{"action", "book", "until", "1d"}
			if tt.token != "" {
				fields = append(fields, "token", tt.token)
			}
			r := c.form("eva", "/book/atlas/0", fields...)
			if tt.forge != nil {
				tt.forge(r)
			}
			if w := c.do(r); w.Code != tt.code {
				t.Errorf("%d, want %d", w.Code, tt.code)
			}
			if c.file() != "" {
				t.Fatalf("it was saved:\n%s", c.file())
			}
		})
	}
	// Asking for a page never saves.
	r := c.form("eva", "/book/atlas/0?action=book&until=1d&token="+url.QueryEscape(c.token["eva"]))
	r.Method = http.MethodGet
	if w := c.do(r); w.Code != 200 || c.file() != "" {
		t.Errorf("GET: %d, and the file is %q", w.Code, c.file())
	}
	for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "ET"} {
		r := c.form("eva", "/book/atlas/0", "action", "book", "until", "1d")
		r.Method = method
		if w := c.do(r); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD, POST" {
			t.Errorf("%s: %d, allowed are %q", method, w.Code, w.Header().Get("Allow"))
		}
	}
	// The cookie itself.
	k := c.open("login7", "/book/atlas/0").Result().Cookies()
	if len(k) != 1 || k[0].SameSite != http.SameSiteStrictMode || !k[0].HttpOnly || k[0].Secure {
		t.Errorf("the cookie is %+v", k)
	}
	// And for all that, the right form is right.
	if w := c.post("eva", "/book/atlas/0", "action", "book", "until", "1d"); w.Code != 303 {
		t.Errorf("the real form: %d\n%s", w.Code, w.Body)
	}
}

func TestAnOldFormIsShownAnew(t *testing.T) {
	c := newCounter(t)
	c.open("eva", "/book/atlas/0")
	c.token["eva"] = "of-the-process-before"
	w := c.post("eva", "/book/atlas/0", "action", "book", "until", "1d", "comment", "kept")
	m := tokenField.FindStringSubmatch(w.Body.String())
	if w.Code != 403 || m == nil || !strings.Contains(w.Body.String(), `value="kept"`) {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	c.token["eva"] = m[1]
	if w := c.post("eva", "/book/atlas/0", "action", "book", "until", "1d", "comment", "kept"); w.Code != 303 {
		t.Errorf("sent once more: %d", w.Code)
	}
}

func TestNames(t *testing.T) {
	c := newCounter(t)
	// A login stands for the person behind it.
	if w := c.post("login7", "/book/atlas/0", "action", "book", "until", "1d", "name", "mira"); w.Code != 303 {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	if b := c.bookings()[0]; b.Name != "tomas" || b.By != "" {
		t.Errorf("booked for %q by %q; only tomas himself may be, and the field is not offered", b.Name, b.By)
	}
	c = newCounter(t, func(o *serve.Options, _ *serve.AuthOptions) { o.Booking.ForOthers = true })
	for gpu, tt := range []struct{ name, want, by string }{{"mira", "mira", "tomas"}, {"LOGIN7", "tomas", ""}} {
		if w := c.post("login7", "/book/atlas/"+fmt.Sprint(gpu), "action", "book", "until", "1d", "name", tt.name); w.Code != 303 {
			t.Fatalf("for %s: %d\n%s", tt.name, w.Code, w.Body)
		}
		if b := c.bookings()[gpu]; b.Name != tt.want || b.By != tt.by {
			t.Errorf("for %s: booked for %q by %q", tt.name, b.Name, b.By)
		}
	}
	if w := c.post("login7", "/book/dione/all", "action", "book", "until", "1d", "name", "  "); w.Code != 422 {
		t.Errorf("for nobody: %d", w.Code)
	}
}

func TestWhatIsGuessedIsAskedAbout(t *testing.T) {
	c := newCounter(t)
	w := c.post("eva", "/book/atlas/0", "action", "book", "until", "09:00") // it is 10:00
	m := regexp.MustCompile(`name="sure" value="([^"]+)"`).FindStringSubmatch(w.Body.String())
	if w.Code != 422 || m == nil || c.file() != "" || !strings.Contains(w.Body.String(), "tomorrow is meant") {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	if w := c.post("eva", "/book/atlas/0", "action", "book", "until", "09:00", "sure", m[1]); w.Code != 303 {
		t.Errorf("confirmed: %d\n%s", w.Code, w.Body)
	}
	// What was confirmed is that, and nothing else.
	if w := c.post("eva", "/book/atlas/1", "action", "book", "until", "08:00", "sure", m[1]); w.Code != 422 {
		t.Errorf("another time than was confirmed: %d", w.Code)
	}
}

func TestLimits(t *testing.T) {
	c := newCounter(t, func(o *serve.Options, _ *serve.AuthOptions) {
		o.Booking.Limits = booking.Limits{MaxGPUs: 1, MaxDuration: 48 * time.Hour}
	})
	if w := c.post("eva", "/book/atlas/0", "action", "book", "until", "3d"); w.Code != 422 || !strings.Contains(w.Body.String(), "is the most allowed") {
		t.Errorf("three days of two: %d", w.Code)
	}
	if w := c.post("eva", "/book/atlas/0", "action", "book", "until", "2d"); w.Code != 303 {
		t.Errorf("two days: %d\n%s", w.Code, w.Body)
	}
	id := c.bookings()[0].ID
	if w := c.post("eva", "/book/atlas/0", "action", "extend", "id", id, "end", "1h"); w.Code != 422 {
		t.Errorf("a longer one in two steps: %d", w.Code)
	}
	if w := c.post("eva", "/book/atlas/1", "action", "book", "until", "1d"); w.Code != 422 {
		t.Errorf("a second GPU of one: %d", w.Code)
	}
}

func TestTwoAtTheSameMoment(t *testing.T) {
	c := newCounter(t)
	c.write(c.comments, "{\n  // ours\n}\n")
	c.open("eva", "/book/atlas/0")
	c.open("mira", "/book/atlas/0")
	for round := range 10 {
		c.later(time.Hour)
		codes := make([]int, 2)
		var both sync.WaitGroup
		for i, user := range []string{"eva", "mira"} {
			r := c.form(user, "/book/atlas/0", "action", "book", "until", "30m")
			both.Go(func() { codes[i] = c.do(r).Code })
		}
		both.Wait()
		if codes[0]+codes[1] != 303+409 {
			t.Fatalf("round %d: %v, want one that is saved and one that is refused\n%s", round, codes, c.file())
		}
		if n := len(c.bookings()); n != round+1 {
			t.Fatalf("round %d: %d bookings\n%s", round, n, c.file())
		}
	}
}

// An edited store is one where somebody saves the file in an editor, which
// knows of no lock, right before a change of the program's is put in place.
type edited struct {
	booking.Store
	edit func()
}

func (e *edited) ReplaceIf(ctx context.Context, version string, data []byte) error {
	if e.edit != nil {
		e.edit()
		e.edit = nil
	}
	return e.Store.ReplaceIf(ctx, version, data)
}

func TestAnEditByHandAtTheSameMoment(t *testing.T) {
	e := &edited{}
	c := newCounter(t, func(o *serve.Options, _ *serve.AuthOptions) {
		e.Store = o.Booking.Store
		o.Booking.Store = e
	})
	c.write(c.comments, "{}")
	e.edit = func() { c.write(c.comments, `{"dione": [{"name": "kai", "date": "2026-12-01"}]} // by hand`) }
	if w := c.post("eva", "/book/atlas/0", "action", "book", "until", "1d"); w.Code != 303 {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	if all := c.bookings(); len(all) != 2 || all[0].Name != "eva" || all[1].Name != "kai" || !strings.HasSuffix(c.file(), "// by hand") {
		t.Errorf("one of the two is lost:\n%s", c.file())
	}
	// The one by hand may be what stands in the way.
	c.later(48 * time.Hour)
	e.edit = func() { c.write(c.comments, `{"atlas": [{"name": "kai", "date": "2026-12-01"}]} // by hand`) }
	if w := c.post("eva", "/book/atlas/0", "action", "book", "until", "1d"); w.Code != 409 || len(c.bookings()) != 1 {
		t.Errorf("%d\n%s", w.Code, c.file())
	}
}

func TestHostileTexts(t *testing.T) {
	c := newCounter(t, func(o *serve.Options, _ *serve.AuthOptions) { o.Booking.ForOthers = true })
	for i, text := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'; alert(1)//`, `{{.Form.Token}}`, `</title><svg/onload=alert(1)>`,
		`javascript:alert(1)`, "a\u202eb", `*/ "x": [`, `\u003cscript\u003e`, `","date":"2099-01-01`, strings.Repeat("é", 60),
	} {
		name := fmt.Sprintf("%d%s", i, text)
		from, until := fmt.Sprintf("2027-01-%02d 08:00", i+1), fmt.Sprintf("2027-01-%02d 18:00", i+1)
		w := c.post("eva", "/book/atlas/0", "action", "book", "from", from, "until", until, "name", name, "comment", text)
		if w.Code != 303 && w.Code != 422 {
			t.Errorf("%q: %d\n%s", text, w.Code, w.Body)
		}
		cal := booking.Parse("comments.json", []byte(c.file()), time.UTC, booking.Options{})
		if cal.Broken || len(cal.Problems) > 0 {
			t.Fatalf("%q: the file is broken: %v\n%s", text, cal.Problems, c.file())
		}
		for _, page := range []string{w.Body.String(), c.open("eva", "/book/atlas/0").Body.String(), c.open("eva", "/book/").Body.String()} {
			for _, bad := range []string{"<script", "<img", "<svg/", "onerror=alert(1)>", "\u202e"} {
				if strings.Contains(page, bad) {
					t.Errorf("%q: the page holds %q", text, bad)
				}
			}
		}
	}
	if n := len(c.bookings()); n < 9 {
		t.Errorf("only %d of the texts were taken", n)
	}
	for field, value := range map[string]string{"until": "<script>alert(1)</script>", "from": `"><script>`, "name": strings.Repeat("x", 500), "comment": strings.Repeat("x", 5000), "id": `"><script>`, "action": "<script>"} {
		w := c.post("eva", "/book/atlas/1", "action", "book", "until", "1d", "name", "eva", field, value)
		if w.Code == 303 && field != "id" || w.Code >= 500 || strings.Contains(w.Body.String(), "<script") {
			t.Errorf("%s: %d\n%s", field, w.Code, w.Body)
		}
	}
}

func TestPathsOfTheForm(t *testing.T) {
	c := newCounter(t)
	for path, want := range map[string]int{
		"/book/": 200, "/book/index.html": 200, "/book": 301, "/book/atlas/0": 200, "/book/atlas/all": 200, "/book/dione/all": 200,
		"/book/atlas/2": 404, "/book/atlas/00": 404, "/book/atlas/-1": 404, "/book/atlas/0/": 404, "/book/atlas": 404, "/book/atlas/0/1": 404,
		"/book/nothere/0": 404, "/book/dione/0": 404, "/book/ATLAS/0": 404, "/book/atlas%2f0": 404, "/book//atlas/0": 404,
		"/book/../book/atlas/0": 404, "/book/..%2f..%2fetc/passwd": 404, "/book/%2e%2e/%2e%2e/etc/passwd": 404, "/book/assets/../atlas/0": 404,
		"/book/assets/board.js": 404, "/book/assets/": 404, "/book/capabilities.json": 200, "/book/.git/config": 404, "//evil.example/book/atlas/0": 404,
	} {
		r := httptest.NewRequest(http.MethodGet, "http://example.com"+path, nil)
		r.SetBasicAuth("eva", "eva's")
		w := c.do(r)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
		if l := w.Header().Get("Location"); l != "" && l != "book/" {
			t.Errorf("%s leads to %q", path, l)
		}
	}
	var able struct{ Booking bool }
	if err := json.Unmarshal(c.do(httptest.NewRequest(http.MethodGet, "/book/capabilities.json", nil)).Body.Bytes(), &able); err != nil || !able.Booking {
		t.Errorf("capabilities: %v, %v", able, err)
	}
	css := regexp.MustCompile(`href="\.\./(assets/board\.[0-9a-f]+\.css)"`).FindStringSubmatch(c.open("eva", "/book/atlas/0").Body.String())
	if css == nil {
		t.Fatal("the form has no style")
	}
	if w := c.do(httptest.NewRequest(http.MethodGet, "/book/"+css[1], nil)); w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/css") {
		t.Errorf("its style: %d %s", w.Code, w.Header().Get("Content-Type"))
	}
	// Without a desk all that is a plain site.
	_, h := site(t, plain)
	if w := get(h, "/book/atlas/0"); w.Code != 404 {
		t.Errorf("without --booking: %d", w.Code)
	}
	r := httptest.NewRequest(http.MethodPost, "/book/atlas/0", strings.NewReader("action=book"))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 405 {
		t.Errorf("a form without --booking: %d", w.Code)
	}
}

func TestABrokenFileIsLeftAlone(t *testing.T) {
	c := newCounter(t)
	c.write(c.comments, `{"atlas": [ {"name": "eva", }`)
	before := c.file()
	w := c.post("eva", "/book/atlas/0", "action", "book", "until", "1d", "comment", "kept")
	if w.Code != 409 || c.file() != before || !strings.Contains(w.Body.String(), "comments.json:1") || !strings.Contains(w.Body.String(), `value="kept"`) {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
	if w := c.open("mira", "/book/atlas/0"); !strings.Contains(w.Body.String(), "mistake in the bookings file") {
		t.Errorf("the form does not say it beforehand:\n%s", w.Body)
	}
	if err := os.Remove(c.comments); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(c.comments, 0o755); err != nil {
		t.Fatal(err)
	}
	if w := c.open("mira", "/book/atlas/0"); w.Code != 500 || strings.Contains(w.Body.String(), filepath.Dir(c.comments)) {
		t.Errorf("%d %s, want 500 without a path of ours", w.Code, w.Body)
	}
}
