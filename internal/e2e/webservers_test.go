package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpuboard/internal/serve"
	"gpuboard/internal/testenv/webtest"
)

// TestWebServers holds the configuration that is shipped for each web server to
// one table: as a host of its own and under a path, open and with a password.
func TestWebServers(t *testing.T) {
	t.Parallel()
	s := newWebSite(t)
	if err := s.generate(webStart); err != nil {
		t.Fatal(err)
	}
	s.write(filepath.Join(s.dir, ".tmp-index.html-1"), []byte("half a pa"))
	s.write(filepath.Join(s.dir, "hosts", ".hidden", "x.txt"), []byte("hidden"))
	s.write(filepath.Join(filepath.Dir(s.dir), "secret.txt"), []byte("secret"))
	if err := os.Symlink(filepath.Join("..", "secret.txt"), filepath.Join(s.dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	t.Run("serve", func(t *testing.T) {
		h, err := serve.Handler(serve.Options{Site: s.dir})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewServer(h)
		defer w.Close()
		checkViews(t, s, "serve", w.URL)
		checkHeaders(t, s, "serve", w.URL)
		checkRefused(t, "serve", &webtest.Server{URL: w.URL, Host: w.URL})
	})
	for _, name := range webtest.Servers() {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"", "/gpu"} {
				t.Run("at"+strings.ReplaceAll(path, "/", "-"), func(t *testing.T) {
					w := webtest.Start(t, name, webtest.Options{Deploy: "deploy", Site: s.dir, Path: path})
					w.URL = strings.TrimSuffix(w.URL, "/")
					checkViews(t, s, name, w.URL)
					checkHeaders(t, s, name, w.URL)
					checkRefused(t, name, w)
				})
			}
			t.Run("password", func(t *testing.T) {
				w := webtest.Start(t, name,
					webtest.Options{Deploy: "deploy", Site: s.dir, Path: "/gpu", Password: true})
				checkPassword(t, w.URL)
			})
		})
	}
}

const (
	curl    = "curl/8.5.0"
	firefox = "Mozilla/5.0 (X11; Linux x86_64) curl/8"
)

// checkViews asks for directories with every query that picks a view, packed
// and plain, and wants the bytes of the file that it stands for; packed, if it
// has a twin, or where the server compresses by itself.
func checkViews(t *testing.T, s *webSite, server, url string) {
	packed, plain := 0, 0
	for _, tt := range []struct{ target, agent, file string }{
		{"/", firefox, "index.html"},
		{"/", curl, "status.txt"},
		{"/?term=true", firefox, "status.txt"},
		{"/?term=1&ansi=1", firefox, "status.ansi"},
		{"/?term=true&detail=true", firefox, "detail.txt"},
		{"/?detail=true&ansi=yes&term=yes", firefox, "detail.txt"},
		{"/?ansi=true", curl, "status.ansi"},
		{"/?detail=true", curl, "detail.txt"},
		{"/?detail=true", firefox, "index.html"},
		{"/?term=true&detail=false&ansi=0", firefox, "status.txt"},
		{"/?term=false", firefox, "index.html"},
		{"/?term=false", curl, "index.html"},
		{"/?term=0", curl, "index.html"},
		{"/?term=No", curl, "index.html"},
		{"/?term=off&detail=true", curl, "index.html"},
		{"/?term=", curl, "index.html"},
		{"/?xterm=true", firefox, "index.html"},
		{"/index.html", curl, "index.html"},
		{"/status.txt?term=false", curl, "status.txt"},
		{"/bookings/", curl, "bookings/index.html"},
		{"/bookings/?term=true", firefox, "bookings/index.html"},
		{"/book/", firefox, "book/index.html"},
		{"/hosts/atlas/", firefox, "hosts/atlas/index.html"},
		{"/hosts/atlas/", curl, "hosts/atlas/status.txt"},
		{"/hosts/atlas/?ansi=true", curl, "hosts/atlas/status.txt"},
		{"/hosts/atlas/?term=true&detail=true", firefox, "hosts/atlas/status.txt"},
		{"/hosts/atlas/?term=false", curl, "hosts/atlas/index.html"},
		{"/states/", firefox, "states/index.json"},
		{"/states/", curl, "states/index.json"},
		{"/states/?term=true", firefox, "states/index.json"},
		{"/states/atlas/", firefox, "states/atlas/index.json"},
		{"/states/atlas/", curl, "states/atlas/index.json"},
		{"/states/atlas/?term=true", curl, "hosts/atlas/status.txt"},
		{"/states/atlas/?term=true&detail=true", firefox, "hosts/atlas/status.txt"},
		{"/states/atlas/?term=true&ansi=true", firefox, "hosts/atlas/status.txt"},
		{"/states/atlas/?term=false", curl, "states/atlas/index.json"},
		{"/api/v1/board.json", firefox, "api/v1/board.json"},
		{"/metrics.txt", "Prometheus/3", "metrics.txt"},
	} {
		want, twin := s.file(tt.file), server == "lighttpd"
		if _, err := os.Stat(filepath.Join(s.dir, tt.file+".gz")); err == nil {
			packed, twin = packed+1, true
		} else {
			plain++
		}
		for _, encoding := range []string{"gzip", "identity"} {
			a, err := ask(url+tt.target, "User-Agent", tt.agent, "Accept-Encoding", encoding)
			switch {
			case err != nil:
				t.Errorf("%s (%s, %s): %v", tt.target, tt.agent, encoding, err)
			case a.code != http.StatusOK || a.body != want:
				t.Errorf("%s (%s, %s): %d and %.60q, want %s", tt.target, tt.agent, encoding, a.code, a.body, tt.file)
			case a.packed != (encoding == "gzip" && twin):
				t.Errorf("%s: asked for %s, and packed is %v", tt.target, encoding, a.packed)
			}
		}
	}
	if packed < 5 || plain < 5 {
		t.Errorf("%d views have a twin and %d have none: both are to be tried", packed, plain)
	}
}

// webPolicy is the header that serve sends: every server sends the same.
var webPolicy = regexp.MustCompile(`const policy = "([^"]+)"`)

func checkHeaders(t *testing.T, s *webSite, server, url string) {
	source, err := os.ReadFile("internal/serve/serve.go")
	if err != nil {
		t.Fatal(err)
	}
	policy := webPolicy.FindSubmatch(source)
	if policy == nil {
		t.Fatal("serve.go has no policy")
	}
	asset, err := filepath.Glob(filepath.Join(s.dir, "assets", "*.css"))
	if err != nil || len(asset) == 0 {
		t.Fatalf("no assets (%v)", err)
	}
	for target, mediaType := range map[string]string{
		"/":                                  "text/html; charset=utf-8",
		"/hosts/atlas/":                      "text/html; charset=utf-8",
		"/status.txt":                        "text/plain; charset=utf-8",
		"/status.ansi":                       "text/plain; charset=utf-8",
		"/?term=true":                        "text/plain; charset=utf-8",
		"/api/v1/board.json":                 "application/json",
		"/states/atlas/":                     "application/json",
		"/metrics.txt":                       "text/plain; version=0.0.4; charset=utf-8",
		"/book/":                             "text/html; charset=utf-8",
		"/bookings.ics":                      "text/calendar; charset=utf-8",
		"/hosts/atlas.ics":                   "text/calendar; charset=utf-8",
		"/feed.atom":                         "application/atom+xml; charset=utf-8",
		"/badges/free.svg":                   "image/svg+xml",
		"/assets/" + filepath.Base(asset[0]): "text/css; charset=utf-8",
	} {
		if strings.HasSuffix(target, ".atom") {
			if _, err := os.Stat(filepath.Join(s.dir, "feed.atom")); err != nil {
				s.write(filepath.Join(s.dir, "feed.atom"), []byte("<feed/>"))
			}
		}
		cache := "no-cache"
		if strings.HasPrefix(target, "/assets/") {
			cache = "max-age=31536000, immutable"
			if server == "lighttpd" { // whose mod_expire has no word for it
				cache = "max-age=31536000"
			}
		}
		tags, want := map[string]bool{}, 1
		for _, encoding := range []string{"gzip", "identity"} {
			a := mustAsk(t, url+target, "Accept-Encoding", encoding)
			for name, want := range map[string]string{
				"Content-Type": mediaType, "Cache-Control": cache, "Content-Security-Policy": string(policy[1]),
				"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			} {
				if got := a.header.Values(name); len(got) != 1 || got[0] != want {
					t.Errorf("%s (%s): %s is %q, want %q", target, encoding, name, got, want)
				}
			}
			vary := strings.ToLower(strings.Join(a.header.Values("Vary"), ","))
			if !strings.Contains(vary, "accept-encoding") || !strings.Contains(vary, "user-agent") {
				t.Errorf("%s: Vary is %q", target, vary)
			}
			tag := a.header.Get("ETag")
			if tag == "" {
				t.Errorf("%s (%s) has no ETag", target, encoding)
				continue
			}
			tags[tag] = true
			if a.packed {
				want = 2
			}
			again := mustAsk(t, url+target, "Accept-Encoding", encoding, "If-None-Match", tag)
			if again.code != http.StatusNotModified || again.body != "" {
				t.Errorf("%s (%s) with %s again: %d and %d bytes, want 304 and none", target, encoding, tag, again.code,
					len(again.body))
			}
			if old := mustAsk(t, url+target, "Accept-Encoding", encoding, "If-None-Match",
				`"another"`); old.code != http.StatusOK {
				t.Errorf("%s with another tag: %d, want 200", target, old.code)
			}
		}
		if len(tags) != want {
			t.Errorf("%s: packed and plain have the tags %v, want %d", target, tags, want)
		}
	}
	if a := mustAsk(t, url+"/assets/gone.00.css"); a.code != http.StatusNotFound ||
		strings.Contains(a.header.Get("Cache-Control"), "immutable") {
		t.Errorf("an asset that is not there: %d, Cache-Control %q, and that for ever", a.code,
			a.header.Get("Cache-Control"))
	}
	if a := mustAsk(t, url+"/nothing", "Accept-Encoding", "gzip"); a.code != http.StatusNotFound ||
		a.header.Get("Content-Security-Policy") == "" {
		t.Errorf("a page that is not there: %d, policy %q", a.code, a.header.Get("Content-Security-Policy"))
	}
	if a := mustAsk(t, url+"/api/v1/board.json", "Range", "bytes=0-9"); a.code != http.StatusPartialContent ||
		a.body != s.file("api/v1/board.json")[:10] {
		t.Errorf("the first ten bytes: %d %.20q", a.code, a.body)
	}
	if a := mustAsk(t, url+"/", ":method", http.MethodHead); a.code != http.StatusOK || a.body != "" {
		t.Errorf("HEAD: %d and %d bytes", a.code, len(a.body))
	}
}

func checkRefused(t *testing.T, server string, w *webtest.Server) {
	targets := []string{
		"/.tmp-index.html-1", "/hosts/.hidden/x.txt", "/%2etmp-index.html-1", "/nothing", "/nothing/?term=true",
		"/hosts/nobody/", "/hosts/", "/assets/",
		"/index.html.gz", "/api/v1/board.json.gz", "/../secret.txt", "/%2e%2e/secret.txt",
		"/hosts/..%2f..%2fsecret.txt",
	}
	if server != "caddy" { // which cannot be told to
		targets = append(targets, "/link.txt")
	}
	for _, target := range targets {
		for _, agent := range []string{firefox, curl} {
			a := mustAsk(t, w.URL+target, "User-Agent", agent)
			if a.code != http.StatusNotFound && a.code != http.StatusForbidden && a.code != http.StatusBadRequest {
				t.Errorf("%s: %d, want it refused", target, a.code)
			}
			if sends := server != "caddy" && server != "lighttpd"; target == "/hosts/nobody/" &&
				strings.Contains(a.body, "There is no such page") != sends {
				t.Errorf("%s shows %.200q", target, a.body)
			}
			body := strings.ReplaceAll(a.body, "aria-hidden", "")
			for _, secret := range []string{"half a pa", "hidden", "secret", "root:"} {
				if strings.Contains(body, secret) && !strings.Contains(target, secret) {
					t.Errorf("%s shows %q", target, secret)
				}
			}
		}
	}
	if a := mustAsk(t, w.URL+"/", ":method", http.MethodPost); a.code < 400 {
		t.Errorf("POST: %d", a.code)
	}
	if base := strings.TrimPrefix(w.URL, w.Host); base != "" {
		a := mustAsk(t, w.URL+"?term=true")
		if to := a.header.Get("Location"); a.code/100 != 3 || !strings.HasSuffix(to, base+"/?term=true") {
			t.Errorf("%s without its slash: %d to %q", base, a.code, to)
		}
	}
	a := mustAsk(t, w.URL+"/hosts/atlas")
	if to := a.header.Get("Location"); a.code/100 != 3 || !strings.HasSuffix(to, "atlas/") {
		t.Errorf("a directory without its slash: %d to %q", a.code, to)
	} else if strings.Contains(to, "://") && server != "apache" { // which has no other way
		t.Errorf("a directory without its slash: to %q, which is wrong behind a proxy that speaks TLS", to)
	}
}

func checkPassword(t *testing.T, url string) {
	for _, target := range []string{"", "?term=true", "index.html", "hosts/atlas/", "api/v1/board.json",
		"states/atlas/", "states/atlas/?term=true", "metrics.txt", "status.txt", "badges/free.svg"} {
		for _, encoding := range []string{"gzip", "identity"} {
			if a := mustAsk(t, url+target, "Accept-Encoding", encoding); a.code != http.StatusUnauthorized ||
				!strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("/%s without a password: %d (%q)", target, a.code, a.header.Get("WWW-Authenticate"))
			} else if strings.Contains(a.body, "atlas") {
				t.Errorf("/%s without a password shows %.80q", target, a.body)
			}
			if target != "" || encoding != "gzip" {
				// one wrong password is enough: lighttpd answers those a second late
			} else if a := mustAsk(
				t, url+target, "Accept-Encoding", encoding, ":user", "wrong"); a.code != http.StatusUnauthorized {
				t.Errorf("/%s with a wrong password: %d", target, a.code)
			}
			if a := mustAsk(t, url+target, "Accept-Encoding", encoding, ":user",
				webtest.Password); a.code != http.StatusOK {
				t.Errorf("/%s with the password: %d", target, a.code)
			}
		}
	}
}

// docEdit is how docs/webservers.md tells people to fill in the capitals.
var docEdit = regexp.MustCompile(`sed -i '(.*)' /etc/(?:nginx|apache2|caddy|lighttpd)/gpuboard/\*\.(\w+)`)

// TestWebServerRecipes edits the shipped files as the documentation says, and
// looks for words in capitals that it forgets.
func TestWebServerRecipes(t *testing.T) {
	doc, err := os.ReadFile("docs/webservers.md")
	if err != nil {
		t.Fatal(err)
	}
	edits := docEdit.FindAllStringSubmatch(string(doc), -1)
	if len(edits) != len(webtest.Servers()) {
		t.Fatalf("docs/webservers.md edits %d times, want once for each of %q", len(edits), webtest.Servers())
	}
	for i, server := range []string{"nginx", "apache", "caddy", "lighttpd"} {
		files, err := filepath.Glob(filepath.Join("deploy", server, "*."+edits[i][2]))
		if err != nil || len(files) < 5 {
			t.Fatalf("%s has the files %q (%v)", server, files, err)
		}
		for _, file := range files {
			out, err := exec.Command("sed", edits[i][1], file).Output()
			if err != nil {
				t.Fatalf("editing %s: %v", file, err)
			}
			for line := range strings.Lines(string(out)) {
				// A line of the password's begins with # and no blank: people remove that.
				line, optional := strings.CutPrefix(strings.TrimSpace(line), "#")
				if optional && (line == "" || line[0] == ' ') {
					continue
				}
				if server != "caddy" && strings.Contains(line, "PASSWORD_FILE") ||
					regexp.MustCompile(`SITE_DIR|URL_PATH`).MatchString(line) {
					t.Errorf("%s, edited as the documentation says: %s", file, line)
				}
			}
		}
	}
}
