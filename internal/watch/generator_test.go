package watch

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/config"
	"gpuboard/internal/notify"
	"gpuboard/internal/testenv/sitetest"
)

func TestTroublesOfTheOutboxHaveACode(t *testing.T) {
	problems := problemsOf(
		[]notify.State{{Err: errors.New("it cannot be read")}, {Hook: "chat", Refused: true, Err: errors.New("404")}})
	if len(problems) != 2 || problems[0].Code != "notify:outbox" || problems[1].Code != "notify:failing" {
		t.Errorf("%+v", problems)
	}
}

// TestSitesOfOtherClusters: a board away keeps its last numbers over a restart, and has nothing free once it is late.
// One that lies costs its own line.
func TestSitesOfOtherClusters(t *testing.T) {
	away := false
	files := sitetest.Site{}.Files(t)
	place := sitetest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		content, ok := files[strings.TrimPrefix(r.URL.Path, "/")]
		if away || !ok {
			http.NotFound(w, r)
		}
		_, _ = w.Write(content)
	})
	lies := sitetest.Serve(t,
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"schema_version":1,"gpus":-1}`)) })
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data", "drop"), 0o755); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"GPUBOARD_SITES": "near=" + place + ",liar=" + lies, "GPUBOARD_NO_HELP": "true",
		"GPUBOARD_NO_HISTORY": "true"}
	for _, name := range []string{"data", "site", "state"} {
		env["GPUBOARD_"+strings.ToUpper(name)] = filepath.Join(dir, name)
	}
	generate := func(after time.Duration) (sites, summary string) {
		cfg, err := config.Load(config.Sources{Getenv: func(name string) string { return env[name] }})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Once = true
		now := func() time.Time { return sitetest.Now.Add(after) }
		g, err := NewGenerator(cfg, "1.0.0", now, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		if _, err := Generate(t.Context(), g, now()); err != nil {
			t.Fatal(err)
		}
		read := func(name string) string {
			content, err := os.ReadFile(filepath.Join(dir, "site", "api", "v1", name))
			if err != nil {
				t.Fatal(err)
			}
			return string(content)
		}
		return read("sites.json"), read("summary.json")
	}
	has := func(when, text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s: no %s in %s", when, part, text)
			}
		}
	}
	sites, summary := generate(0)
	about, err := os.ReadFile(filepath.Join(dir, "site", "about", "index.html"))
	if err != nil || strings.Contains(string(about), dir) || !strings.Contains(string(about), "comments.json") {
		t.Errorf("the page on how to book names no file of bookings, or where the server has it: %v", err)
	}
	has("at first", sites, `"name":"near","title":"test","url":"`+place, `"state":"up"`,
		`"last_free":3,"last_free_slices":0,"totals":{"gpus":3,"free":3`,
		`"name":"liar","title":null`, `"state":"never"`)
	has("at first", summary, `"totals":{"gpus":0`, `"sites":{"ids":[`, `"depth":1,"totals":{"gpus":3,"free":3`)
	away = true
	sites, _ = generate(45 * time.Second)
	has("away for 45 s", sites, `"state":"up"`, `"totals":{"gpus":3,"free":3`)
	sites, summary = generate(2 * time.Minute)
	has("late", sites, `"state":"stale","generated_at":"2026-11-20T09:42:00Z"`,
		`"last_free":3,"last_free_slices":0,"totals":{"gpus":3,"free":0`)
	has("late", summary, `"depth":1,"totals":{"gpus":3,"free":0`)
	health, _ := os.ReadFile(filepath.Join(dir, "site", "health.json"))
	has("late", string(health), `"cluster:late":2`)
	away = false
	sites, _ = generate(2*time.Minute + time.Second)
	has("back, and still late", sites, `"state":"stale"`)
}
