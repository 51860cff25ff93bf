package source

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/testenv/sitetest"
)

// settingsOf are the settings in force with these variables, and defaults besides.
func settingsOf(t *testing.T, values map[string]string) *config.Config {
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
		cal, _, problems := bookingsHere(t.Context(), Options{Config: cfg, Now: func() time.Time { return sitetest.Now.Add(c.age) }}, c.host, "", booking.Options{})
		var got []string
		if cal != nil {
			for _, b := range cal.Bookings {
				got = append(got, fmt.Sprintf("%s %s %s", b.Target, b.Name, b.Kind))
			}
		}
		if strings.Join(got, ", ") != c.want || (len(problems) > 0) != (c.problem != "") || len(problems) > 0 && problems[0].Code != c.problem {
			t.Errorf("%s of %s: %v, %v", c.host, c.site, got, problems)
		}
	}
}
