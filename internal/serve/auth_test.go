package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/serve"
	"gpuboard/internal/testenv/need"
)

func proxies(t *testing.T, list ...string) []netip.Prefix {
	t.Helper()
	p, err := serve.ParseProxies(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProxiesThatAreNone(t *testing.T) {
	for _, text := range []string{"", "proxy", "10.0.0.0/33", "10.0.0", "::1/129"} {
		if p, err := serve.ParseProxies([]string{"127.0.0.1", text}); err == nil {
			t.Errorf("%q is %v", text, p)
		}
	}
}

func TestPasswordFiles(t *testing.T) {
	good := "eva:" + hashed(t, "x") + "\n"
	for name, tt := range map[string]struct{ content, want string }{
		"fine":          {"# people\n\n" + good, ""},
		"with CRLF":     {strings.ReplaceAll(good, "\n", "\r\n"), ""},
		"with a remark": {strings.TrimSpace(good) + ":Eva\n", ""},
		"empty":         {"# nobody\n", "it names nobody"},
		"MD5": {good + "mira:$apr1$n7XHBCBE$Vn1CmZbX4lHSbEfVUvBtk1\n",
			"users:2: the password of mira is not kept as bcrypt, the only kind that is safe: make it again with htpasswd -B"},
		"SHA-1": {"mira:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n",
			"users:1: the password of mira is not kept as bcrypt"},
		"DES":               {"mira:rqXexS6ZhobKA\n", "users:1: the password of mira is not kept as bcrypt"},
		"plain":             {"mira:hunter2\n", "users:1: the password of mira is not kept as bcrypt"},
		"cut short":         {"mira:$2y$05$abc\n", "users:1: the password of mira is not kept as bcrypt"},
		"too long":          {strings.TrimSpace(good) + "x\n", "users:1: the password of eva is not kept as bcrypt"},
		"twice":             {good + good, "users:2: eva stands here a second time"},
		"twice, and a line": {good + good + "mira\n", "users:3: this is no NAME:HASH"},
		"no colon":          {"mira\n", "users:1: this is no NAME:HASH"},
		"two bad lines":     {"mira\nkai\n", "users:2: this is no NAME:HASH"},
		"a blank name":      {" mira:" + hashed(t, "x") + "\n", "no NAME:HASH"},
		"dear":              {strings.Replace(good, "$04$", "$15$", 1), ""},
		"too dear":          {strings.Replace(good, "$04$", "$16$", 1), "has the cost 16"},
		"huge":              {strings.Repeat("#", 2<<20), "are the most"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "users")
			if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := serve.NewAuth(serve.AuthOptions{Passwords: path, Now: time.Now})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := serve.NewAuth(
		serve.AuthOptions{Passwords: filepath.Join(t.TempDir(), "none"), Now: time.Now}); err == nil {
		t.Error("a file that is not there is fine")
	}
	if _, err := serve.NewAuth(serve.AuthOptions{Passwords: t.TempDir(), Now: time.Now}); err == nil {
		t.Error("a directory is fine")
	}
	if _, err := serve.NewAuth(serve.AuthOptions{Now: time.Now}); err == nil {
		t.Error("nobody can log in, and that is fine")
	}
}

// TestTheRealHtpasswd holds what the documentation tells people to type against
// the program itself.
func TestTheRealHtpasswd(t *testing.T) {
	program := need.Program(t, "htpasswd")
	path := filepath.Join(t.TempDir(), "users")
	for _, args := range [][]string{{"-cBbC", "5", path, "eva", "good: pass"},
		{"-BbC", "5", path, "mira", "pässwörd"}} {
		if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
			t.Fatalf("htpasswd: %v\n%s", err, out)
		}
	}
	_, h := privateSite(t, serve.AuthOptions{Passwords: path, Now: time.Now})
	for _, tt := range []struct {
		name, password string
		code           int
	}{{"eva", "good: pass", 200}, {"mira", "pässwörd", 200}, {"eva", "pässwörd", 401}, {"eva", "", 401}, {"kai",
		"good: pass", 401}} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.SetBasicAuth(tt.name, tt.password)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.code {
			t.Errorf("%s with %q: %d, want %d", tt.name, tt.password, w.Code, tt.code)
		}
	}
}

// privateSite is a site that nobody sees without a login.
func privateSite(t *testing.T, o serve.AuthOptions) (dir string, h http.Handler) {
	t.Helper()
	dir, _ = site(t, plain)
	auth, err := serve.NewAuth(o)
	if err != nil {
		t.Fatal(err)
	}
	if h, err = serve.Handler(serve.Options{Site: dir, Auth: auth, Private: true}); err != nil {
		t.Fatal(err)
	}
	return dir, h
}

func TestAPrivateSiteShowsNothing(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("eva:"+hashed(t, "x")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	_, h := privateSite(t, serve.AuthOptions{Passwords: users, Now: func() time.Time { return now }})
	for _, path := range []string{"/", "/index.html", "/health.json", "/status.txt", "/?term=1", "/assets/board.12.css",
		"/nothing", "/hosts/atlas", "/hosts/atlas/", "/book/"} {
		for _, r := range []*http.Request{httptest.NewRequest(http.MethodGet, path, nil),
			httptest.NewRequest(http.MethodHead, path, nil), httptest.NewRequest(http.MethodPost, path, nil)} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != 401 || strings.Contains(w.Body.String(), "the page") {
				t.Errorf("%s %s: %d %q", r.Method, path, w.Code, w.Body)
			}
		}
	}
	// A new password counts at once, and so does one that is taken away.
	login := func(password string) int {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.SetBasicAuth("eva", password)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	if got := login("x"); got != 200 {
		t.Fatalf("the right password: %d", got)
	}
	if err := os.WriteFile(users, []byte("# new\neva:"+hashed(t, "y")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if old, fresh := login("x"), login("y"); old != 401 || fresh != 200 {
		t.Errorf("after a change of the file: the old password %d, the new one %d", old, fresh)
	}
	if err := os.WriteFile(users, []byte("# she has left\nmira:"+hashed(t, "z")+"\nkai:{SHA}x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := login("y"); got != 401 {
		t.Errorf("somebody who is not in the file any more: %d", got)
	}
}

func TestGuessingIsSlow(t *testing.T) {
	c := newCounter(t, func(_ *serve.Options, a *serve.AuthOptions) { a.Proxies = proxies(t, "198.51.100.1") })
	try := func(user, password, from, forwarded string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/book/", nil)
		r.SetBasicAuth(user, password)
		r.RemoteAddr = from + ":1234"
		if forwarded != "" {
			r.Header.Set("X-Forwarded-For", forwarded)
		}
		return c.do(r)
	}
	if w := try("mira", "mira's", "192.0.2.50", ""); w.Code != 200 {
		t.Fatalf("mira: %d", w.Code)
	}
	for i := range 10 {
		if w := try("eva", fmt.Sprint("guess", i), "192.0.2.1", "10.1.1."+fmt.Sprint(i)); w.Code != 401 {
			t.Fatalf("guess %d: %d", i, w.Code)
		}
	}
	w := try("eva", "eva's", "192.0.2.1", "10.1.1.99")
	if w.Code != 429 || w.Header().Get("Retry-After") != "10" {
		t.Errorf("the eleventh: %d, Retry-After %q; what it says about its address must not count", w.Code,
			w.Header().Get("Retry-After"))
	}
	if w := try("kai", "x", "192.0.2.1", ""); w.Code != 429 {
		t.Errorf("another name from there: %d", w.Code)
	}
	// Nobody is kept out by what others guess at another address.
	if w := try("eva", "eva's", "192.0.2.2", ""); w.Code != 200 {
		t.Errorf("the same name from elsewhere: %d", w.Code)
	}
	// Whoever is in stays in, and others are not touched.
	if w := try("mira", "mira's", "192.0.2.1", ""); w.Code != 200 {
		t.Errorf("mira, who logged in before, from that address: %d", w.Code)
	}
	if w := try("login7", "x", "198.51.100.1", "192.0.2.1, 203.0.113.5"); w.Code != 200 {
		t.Errorf("through a proxy from a clean address: %d", w.Code)
	}
	if w := try("kai", "x", "198.51.100.1", "203.0.113.5, 192.0.2.1"); w.Code != 429 {
		t.Errorf("through a proxy from that address: %d", w.Code)
	}
	c.later(10 * time.Second)
	if w := try("login7", "x", "192.0.2.1", ""); w.Code != 200 {
		t.Errorf("after the pause: %d", w.Code)
	}
}

// TestGuessingANameFromManyAddressesIsSlow: a name has a limit of its own.
func TestGuessingANameFromManyAddressesIsSlow(t *testing.T) {
	c := newCounter(t)
	try := func(password string, address int) int {
		r := httptest.NewRequest(http.MethodGet, "/book/", nil)
		r.SetBasicAuth("eva", password)
		r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1234", address)
		return c.do(r).Code
	}
	for n := range 30 {
		if code := try("a guess", n); code != 401 {
			t.Fatalf("guess %d: %d", n, code)
		}
	}
	if code := try("eva's", 99); code != 429 {
		t.Errorf("after 30 guesses from as many addresses: %d", code)
	}
	c.later(10 * time.Second / 3)
	if code := try("eva's", 99); code != 200 {
		t.Errorf("after the pause: %d", code)
	}
}

func TestRightPasswordsAreNotCounted(t *testing.T) {
	c := newCounter(t)
	// The clock stands, so nothing that was counted is forgiven.
	users := filepath.Join(filepath.Dir(filepath.Dir(c.comments)), "users")
	for i := range 12 {
		c.write(users, strings.Repeat("#\n", i)+"eva:"+hashed(t, fmt.Sprint(i))+"\n")
		r := httptest.NewRequest(http.MethodGet, "/book/", nil)
		r.SetBasicAuth("eva", fmt.Sprint(i))
		if w := c.do(r); w.Code != 200 {
			t.Fatalf("the right password for the %dth time: %d", i, w.Code)
		}
	}
}

func TestUserNameFromProxyHeader(t *testing.T) {
	header := func(_ *serve.Options, a *serve.AuthOptions) {
		a.Passwords, a.Header, a.Proxies = "", "X-Remote-User", proxies(t, "127.0.0.0/8", "::1", "198.51.100.1")
	}
	c := newCounter(t, header)
	for _, tt := range []struct {
		from string
		name []string
		code int
	}{
		{"127.0.0.1:999", []string{"eva"}, 200},
		{"[::1]:999", []string{"eva"}, 200},
		{"[::ffff:198.51.100.1]:999", []string{"eva"}, 200},
		{"127.0.0.1:999", nil, 403},
		{"127.0.0.1:999", []string{""}, 403},
		{"127.0.0.1:999", []string{" eva"}, 403},
		{"127.0.0.1:999", []string{"eva", "mira"}, 403},
		{"127.0.0.1:999", []string{"e\x00va"}, 403},
		{"192.0.2.1:999", []string{"eva"}, 403},
		{"198.51.100.2:999", []string{"eva"}, 403},
		{"[2001:db8::1]:999", []string{"eva"}, 403},
		{"@", []string{"eva"}, 403},
	} {
		r := httptest.NewRequest(http.MethodGet, "/book/", nil)
		r.RemoteAddr = tt.from
		r.Header.Set("X-Forwarded-For", "127.0.0.1")
		for _, name := range tt.name {
			r.Header.Add("X-Remote-User", name)
		}
		if w := c.do(r); w.Code != tt.code {
			t.Errorf("%q from %s: %d, want %d", tt.name, tt.from, w.Code, tt.code)
		}
	}
	// A form from an address that is not trusted books in nobody's name.
	r := c.form("eva", "/book/?at=atlas:0", "action", "book", "until", "1d")
	r.Header.Del("Authorization")
	r.Header.Set("X-Remote-User", "eva")
	if w := c.do(r); w.Code != 403 || c.file() != "" {
		t.Errorf("%d, and the file is %q", w.Code, c.file())
	}
	// With passwords beside it, the header from elsewhere is worth nothing, and a password is.
	c = newCounter(t, func(_ *serve.Options, a *serve.AuthOptions) {
		a.Header, a.Proxies = "X-Remote-User", proxies(t, "127.0.0.1")
	})
	r = httptest.NewRequest(http.MethodGet, "/book/", nil)
	r.Header.Set("X-Remote-User", "mira")
	if w := c.do(r); w.Code != 401 {
		t.Errorf("the header alone: %d", w.Code)
	}
	r.SetBasicAuth("eva", "eva's")
	if w := c.do(r); w.Code != 200 || !strings.Contains(w.Body.String(), ">eva<") ||
		strings.Contains(w.Body.String(), ">mira<") {
		t.Errorf("mira by header, eva by password: %d\n%s", w.Code, w.Body)
	}
}

// TestARightPasswordCountsForNoName: wrong ones are limited by name, from wherever they come.
func TestARightPasswordCountsForNoName(t *testing.T) {
	c := newCounter(t)
	for i, want := range append(slices.Repeat([]int{401}, 29), 200, 401, 429) {
		password := fmt.Sprint("guess", i)
		if want == 200 {
			password = "eva's"
		}
		r := httptest.NewRequest(http.MethodGet, "/book/", nil)
		r.SetBasicAuth("eva", password)
		r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", i)
		if w := c.do(r); w.Code != want {
			t.Errorf("login %d: %d, want %d", i, w.Code, want)
		}
	}
}

func TestBehindTLS(t *testing.T) {
	c := newCounter(t, func(_ *serve.Options, a *serve.AuthOptions) {
		a.Header, a.Proxies = "X-Remote-User", proxies(t, "127.0.0.1")
	})
	// The browser is at https://gpu.example.org, and the proxy asks here by another name.
	for from, want := range map[string]int{"192.0.2.1:1": 403, "127.0.0.1:1": 303} {
		r := c.form("eva", "/book/?at=atlas:0", "action", "book", "until", "1d")
		r.RemoteAddr = from
		r.Header.Del("Sec-Fetch-Site")
		r.Header.Set("Origin", "https://gpu.example.org")
		r.Header.Set("X-Forwarded-Host", "gpu.example.org")
		r.Header.Set("X-Forwarded-Proto", "https")
		if w := c.do(r); w.Code != want {
			t.Errorf("from %s: %d, want %d", from, w.Code, want)
		}
	}
}

func TestSavingIsLimited(t *testing.T) {
	c := newCounter(t)
	for i := range 20 {
		if w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "nonsense"); w.Code != 422 {
			t.Fatalf("attempt %d: %d", i, w.Code)
		}
	}
	w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "1d", "comment", "kept")
	if w.Code != 429 || w.Header().Get("Retry-After") != "6" || c.file() != "" ||
		!strings.Contains(w.Body.String(), `value="kept"`) || !strings.Contains(w.Body.String(), "too many attempts") {
		t.Errorf("one too many: %d, Retry-After %q\n%s", w.Code, w.Header().Get("Retry-After"), c.file())
	}
	if w := c.post("mira", "/book/?at=atlas:0", "action", "book", "until", "1d"); w.Code != 429 {
		t.Errorf("somebody else from the same address: %d", w.Code)
	}
	r := c.form("mira", "/book/?at=atlas:0", "action", "book", "until", "1d")
	r.RemoteAddr = "192.0.2.77:1"
	if w := c.do(r); w.Code != 303 {
		t.Errorf("somebody else from elsewhere: %d", w.Code)
	}
	c.later(6 * time.Second)
	if w := c.post("eva", "/book/?at=atlas:1", "action", "book", "until", "1d"); w.Code != 303 {
		t.Errorf("after the pause: %d", w.Code)
	}
}

func TestLargeAndSlowForms(t *testing.T) {
	c := newCounter(t, func(o *serve.Options, _ *serve.AuthOptions) { o.Booking.BodyTimeout = 100 * time.Millisecond })
	w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "1d", "comment", strings.Repeat("x", 17<<10))
	if w.Code != 413 || c.file() != "" {
		t.Errorf("17 KiB: %d", w.Code)
	}
	for size, code := range map[int]int{16 << 10: 422, 16<<10 + 1: 413} {
		r := c.form("eva", "/book/?at=atlas:0")
		r.Body = io.NopCloser(
			strings.NewReader("action=book&until=" + strings.Repeat("x", size-len("action=book&until="))))
		if w := c.do(r); w.Code != code {
			t.Errorf("a form of %d bytes: %d", size, w.Code)
		}
	}
	r := c.form("eva", "/book/?at=atlas:0")
	r.Body = io.NopCloser(strings.NewReader("%zz=1"))
	if w := c.do(r); w.Code != 400 {
		t.Errorf("a form that is none: %d", w.Code)
	}

	server := httptest.NewServer(c.h)
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r = c.form("eva", "/book/?at=atlas:0")
	fmt.Fprintf(conn,
		"POST /book/?at=atlas:0 HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\nAuthorization: %s\r\nCookie: %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\ntoken=",
		u.Host, server.URL, r.Header.Get("Authorization"), r.Header.Get("Cookie"))
	if err := conn.SetReadDeadline(time.Now().Add(need.Patience)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("a form that never ends is waited for: %v", err)
	}
	resp.Body.Close()
	if resp.StatusCode != 408 || c.file() != "" {
		t.Errorf("a form that never ends: %d", resp.StatusCode)
	}
}

// TestANameThatIsGuessedCountsForNoAddress: who asks from where others guess somebody's password is let in.
func TestANameThatIsGuessedCountsForNoAddress(t *testing.T) {
	c := newCounter(t)
	for n := range 30 {
		r := httptest.NewRequest(http.MethodGet, "/book/", nil)
		r.SetBasicAuth("eva", "a guess")
		r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1234", 100+n)
		c.do(r)
	}
	for n := range 12 { // more than one address may try
		if w := c.open("eva", "/book/"); w.Code != 429 {
			t.Fatalf("try %d of the name that was guessed: %d", n, w.Code)
		}
	}
	if w := c.open("mira", "/book/"); w.Code != 200 {
		t.Errorf("mira, from the same address: %d", w.Code)
	}
}
