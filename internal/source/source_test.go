package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/testenv/sitetest"
)

// settingsOf are the settings in force with these variables, and defaults besides.
func settingsOf(t testing.TB, values map[string]string) *config.Config {
	t.Helper()
	env := map[string]string{}
	for name, value := range values {
		env[config.Among(config.Keys(), name).Env()] = value
	}
	cfg, err := config.Load(config.Sources{Getenv: func(name string) string { return env[name] }})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Encryption is not given up on the way.
func TestNoRedirectWithoutEncryption(t *testing.T) {
	c := siteClient(time.Second)
	from, _ := http.NewRequest("GET", "https://a/", nil)
	to, _ := http.NewRequest("GET", "http://a/", nil)
	if c.CheckRedirect(to, []*http.Request{from}) == nil {
		t.Error("https led to http")
	}
	if err := c.CheckRedirect(from, []*http.Request{to}); err != nil {
		t.Errorf("http may lead to https: %v", err)
	}
}

// The bookings of a node come from its site, and what is wrong with that is said.
func TestANodeAsksItsSiteForBookings(t *testing.T) {
	files := sitetest.Site{Comments: `{"gpu01": {"*": {"name": "eva", "date": "2026-11-21 10:00"}, "1": {"name": "ops", "date": "2026-11-22 10:00", "kind": "maintenance"}}, "gpu02": {"GPU-00000002-0000-4000-8000-000000000000": {"name": "bob", "date": "2026-11-21 10:00"}}}`}.Files(t)
	site := sitetest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		content, ok := files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(w, r)
		}
		_, _ = w.Write(content)
	})
	broken := sitetest.Serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })
	for _, c := range []struct {
		site, host string
		age        time.Duration
		want       string
		problem    string
	}{
		{site, "gpu01", 0, "* eva booking, 1 ops maintenance", ""},
		{site, "gpu02", 15 * time.Minute, "GPU-00000002-0000-4000-8000-000000000000 bob booking", ""},
		{site, "gpu02", 16 * time.Minute, "GPU-00000002-0000-4000-8000-000000000000 bob booking", "site:stale"},
		{site, "gpu03", 0, "", "site:unknown-host"},
		{broken, "gpu01", 0, "", "site:unreachable"},
		{"gpu.example.org", "gpu01", 0, "", "site:unreachable"},
		{"", "gpu01", 0, "", ""},
	} {
		cfg := settingsOf(t, map[string]string{"site_timeout": "2s", "site_url": c.site, "site": t.TempDir()})
		cal, _, problems := bookingsHere(t.Context(),
			Options{Config: cfg, Now: func() time.Time { return sitetest.Now.Add(c.age) }}, c.host, "",
			booking.Options{})
		var got []string
		if cal != nil {
			for _, b := range cal.Bookings {
				got = append(got, fmt.Sprintf("%s %s %s", b.Target, b.Name, b.Kind))
			}
		}
		if strings.Join(got, ", ") != c.want || (len(problems) > 0) != (c.problem != "") || len(problems) > 0 &&
			problems[0].Code != c.problem {
			t.Errorf("%s of %s: %v, %v", c.host, c.site, got, problems)
		}
	}
}

// What concerns a person is read of few files, and of none that a site's names lead astray.
func TestConcerningReadsFewFiles(t *testing.T) {
	files := sitetest.Site{
		Busy:     []string{"gpu01:0"},
		Comments: `{"gpu02": {"0": {"name": "bob", "date": "2026-11-21 10:00"}}, "gpu01": {"1": {"name": "bob", "from": "2026-11-22", "date": "2026-11-23"}}}`,
	}.Files(t)
	files["api/v1/users.json"] = bytes.Replace(files["api/v1/users.json"], []byte(`"where":[`),
		[]byte(`"where":[{"host":"../../secret","gpus":[],"slices":[]},{"host":"gone","gpus":[],"slices":[]},`), 1)
	var mu sync.Mutex
	var asked []string
	site := sitetest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, strings.TrimPrefix(r.URL.Path, "/api/v1/"))
		mu.Unlock()
		content, ok := files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(w, r)
		}
		_, _ = w.Write(content)
	})
	dir := t.TempDir()
	for path, content := range files {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"ann": "bookings.json hosts/gone.json hosts/gpu01.json users.json",
		"bob": "bookings.json hosts/gpu02.json users.json",
		"eva": "bookings.json users.json",
	} {
		for _, from := range []string{site, dir} {
			asked = nil
			s, err := Open(Options{Config: settingsOf(t, nil), Now: func() time.Time { return sitetest.Now }}, from)
			if err != nil {
				t.Fatal(err)
			}
			b, err := s.Concerning(t.Context(), func(other string) bool { return other == name })
			if err != nil {
				t.Fatal(err)
			}
			hosts := 0
			for _, h := range b.Hosts {
				hosts++
				if !strings.Contains(want, h.Name) {
					t.Errorf("%s of %s has %s", name, from, h.Name)
				}
			}
			if slices.Sort(asked); from == site && strings.Join(asked, " ") != want {
				t.Errorf("for %s it asks for %q, want %q", name, asked, want)
			}
			if hosts != strings.Count(want, "gpu0") || len(b.Bookings) != 2 || !b.GeneratedAt.Equal(sitetest.Now) ||
				b.Late(sitetest.Now) || !b.Late(sitetest.Now.Add(time.Hour)) {
				t.Errorf("%s of %s: %d hosts, %d bookings, of %s", name, from, hosts, len(b.Bookings), b.GeneratedAt)
			}
		}
	}
}
