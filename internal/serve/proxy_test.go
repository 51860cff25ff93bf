package serve_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"gpuboard/internal/serve"
	"gpuboard/internal/testenv/webtest"
)

// A caller is a browser without a screen, at one web server.
type caller struct {
	t      *testing.T
	client http.Client
	site   *webtest.Server
}

func (c *caller) do(method, path, form string, header ...string) (code int, body string, h http.Header) {
	c.t.Helper()
	r, err := http.NewRequest(method, c.site.URL+path, strings.NewReader(form))
	if err != nil {
		c.t.Fatal(err)
	}
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		switch header[i] {
		case "login":
			name, password, _ := strings.Cut(header[i+1], " ")
			r.SetBasicAuth(name, password)
		default:
			r.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := c.client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(data), resp.Header
}

// TestBehindWebServers puts the shipped configuration of each server in front
// of the form: files below /gpu are the server's, /gpu/book/ is ours.
func TestBehindWebServers(t *testing.T) {
	for _, name := range webtest.Servers() {
		t.Run(name, func(t *testing.T) {
			c := newCounter(t, func(_ *serve.Options, a *serve.AuthOptions) { a.Proxies = proxies(t, "127.0.0.1") })
			backend := httptest.NewServer(c.h)
			defer backend.Close()
			files := webtest.Dir(t)
			c.write(files+"/index.html", "the page")
			site := webtest.Start(t, name,
				webtest.Options{Deploy: "../../deploy", Site: files, Path: "/gpu",
					Upstream: strings.TrimPrefix(backend.URL, "http://"), Book: true})
			v := &caller{t: t, site: site,
				client: http.Client{CheckRedirect: func(*http.Request,
					[]*http.Request) error {
					return http.ErrUseLastResponse
				}}}

			if code, body, _ := v.do("GET", "", ""); code != 200 || body != "the page" {
				t.Fatalf("the page: %d %q", code, body)
			}
			if code, body, _ := v.do("GET", "book/capabilities.json", ""); code != 200 ||
				!strings.Contains(body, "true") {
				t.Errorf("capabilities: %d %q", code, body)
			}
			if code, _, h := v.do("GET", "book/?at=atlas:0", ""); code != 401 || h.Get("WWW-Authenticate") == "" {
				t.Errorf("without a login: %d", code)
			}
			for _, header := range [][]string{{"X-Remote-User", "mira"}, {"X-Forwarded-User", "mira"},
				{"login", "mira wrong"}} {
				if code, _, _ := v.do("GET", "book/?at=atlas:0", "", header...); code != 401 {
					t.Errorf("with %q: %d", header, code)
				}
			}
			code, body, h := v.do("GET", "book/?at=atlas:0", "", "login", "eva eva's")
			if code != 200 {
				t.Fatalf("the form: %d\n%s", code, body)
			}
			if p := h.Values("Content-Security-Policy"); len(p) != 1 || !strings.Contains(p[0], "form-action 'self'") {
				t.Errorf("the policy of the form is %q", p)
			}
			if p := h.Values("Referrer-Policy"); len(p) != 1 || p[0] != "same-origin" {
				t.Errorf("its Referrer-Policy is %q", p)
			}
			form := url.Values{"action": {"book"}, "until": {"1d"}}.Encode()
			if code, _, _ := v.do("POST", "book/?at=atlas:0", form, "login", "eva eva's", "Origin",
				"http://evil.example", "X-Forwarded-Host", "evil.example"); code != 403 || c.file() != "" {
				t.Errorf("from another site: %d", code)
			}
			code, body, h = v.do("POST", "book/?at=atlas:0", form, "login", "eva eva's", "Origin", site.Host)
			if code != 303 || len(c.bookings()) != 1 {
				t.Fatalf("saving: %d\n%s", code, body)
			}
			to, err := url.Parse(site.URL + "book/?at=atlas:0")
			if err != nil {
				t.Fatal(err)
			}
			if to, err = to.Parse(h.Get("Location")); err != nil ||
				to.String() != site.URL+"book/?saved="+c.bookings()[0].ID {
				t.Errorf("after saving it leads to %v", to)
			}
			if code, _, _ := v.do("POST", "index.html", form, "login", "eva eva's", "Origin", site.Host); code == 200 {
				t.Error("a form to a file is taken")
			}
			// Whoever guesses is told apart from others by what the server in front saw.
			for range 10 {
				v.do("GET", "book/", "", "login", "eva wrong", "X-Forwarded-For", "203.0.113.7")
			}
			if code, _, _ := v.do("GET", "book/", "", "login", "login7 x", "X-Forwarded-For",
				"203.0.113.8"); code != 429 {
				t.Errorf("the eleventh guess, with another lie about the address: %d", code)
			}
		})
	}
}

// TestProxyPassesOnlyCheckedNames: with --auth-header, no server in front hands on a name
// that nobody has checked, whether it asks for passwords itself or not.
func TestProxyPassesOnlyCheckedNames(t *testing.T) {
	for _, name := range webtest.Servers() {
		for _, kind := range []string{"", "form", "asks", "form asks"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				form, asks := strings.Contains(kind, "form"), strings.Contains(kind, "asks")
				c := newCounter(t, func(_ *serve.Options, a *serve.AuthOptions) {
					a.Passwords, a.Header, a.Proxies = "", "X-Remote-User", proxies(t, "127.0.0.1")
				})
				backend := httptest.NewServer(c.h)
				defer backend.Close()
				site := webtest.Start(t, name,
					webtest.Options{Deploy: "../../deploy", Site: webtest.Dir(t), Path: "/gpu",
						Upstream: strings.TrimPrefix(backend.URL, "http://"), Book: form, Password: asks})
				v := &caller{t: t, site: site}
				for _, header := range [][]string{nil, {"X-Remote-User", "mira"}, {"x_remote_user", "mira"},
					{"login", "mira made-up"}, {"login", webtest.User + " made-up"}} {
					if code, body, _ := v.do("GET", "book/", "", header...); code == 200 {
						t.Errorf("with %q somebody whom nobody has checked is let in:\n%s", header, body)
					}
				}
				code, body, _ := v.do("GET", "book/", "", "login", webtest.User+" "+webtest.Password, "X-Remote-User",
					"mira")
				if code == 200 &&
					(!asks || !strings.Contains(body, ">"+webtest.User+"<") || strings.Contains(body, ">mira<")) ||
					asks && name == "nginx" && code != 200 {
					t.Errorf("with a name and a password: %d\n%s", code, body)
				}
			})
		}
	}
}
