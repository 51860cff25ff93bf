package page

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"gpuboard/internal/testenv/boardtest"
	"gpuboard/internal/testenv/browser"
	"gpuboard/sitegen/render"
)

// pages are all files by path, the front page last.
func pages(t testing.TB, in render.Input) []render.File {
	t.Helper()
	files, err := siteFiles(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(files, func(x, y render.File) int { return strings.Compare(lastly(x.Path), lastly(y.Path)) })
	return files
}

// siteFiles are the files of a site with a look of its own.
func siteFiles(in render.Input, own fs.FS) ([]render.File, error) {
	return boardtest.Files(in, func(in render.Input) error { return Files(in, own) })
}

// lastly is a path by which the front page comes after all others.
func lastly(path string) string {
	if path == "index.html" {
		return "~"
	}
	return path
}

// siteDir writes the pages where a browser finds them.
func siteDir(t testing.TB, in render.Input) string {
	t.Helper()
	dir := t.TempDir()
	writeFiles(t, dir, pages(t, in))
	return dir
}

func writeFiles(t testing.TB, dir string, files []render.File) {
	t.Helper()
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// openBrowser starts a browser whose clock stands at now; a zero now is the real clock.
func openBrowser(t *testing.T, now time.Time) *browser.Browser {
	t.Helper()
	b := browser.Start(t, 1280, 1000)
	if !now.IsZero() {
		b.Clock(now)
	}
	return b
}

// serve serves a directory under a path, by this clock: pages go by the server's
// when it differs from the device's. A zero clock is the real one.
func serve(t testing.TB, dir string, clock time.Time) string {
	t.Helper()
	files := http.StripPrefix("/any/where", http.FileServer(http.Dir(dir)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !clock.IsZero() {
			w.Header().Set("Date", clock.UTC().Format(http.TimeFormat))
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/any/where/"
}

// TestShots takes pictures for people to look at: GPUBOARD_SHOTS=DIR go test -run TestShots
func TestShots(t *testing.T) {
	to := os.Getenv("GPUBOARD_SHOTS")
	if to == "" {
		t.Skip("GPUBOARD_SHOTS names no directory for pictures")
	}
	only := os.Getenv("GPUBOARD_SHOTS_ONLY")
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	rich, mid, big, stale := siteDir(t, boardtest.Lab()), siteDir(t, boardtest.Big(40)), siteDir(t, boardtest.Big(200)),
		siteDir(t, boardtest.Stale())
	two := boardtest.Lab()
	two.Board.Hosts, two.Board.Problems, two.Notice = two.Board.Hosts[4:6], nil, ""
	two.Board.Bookings, two.Board.NextFree = nil, nil
	boardtest.Finish(two.Board)
	small := siteDir(t, two)
	for _, shot := range []struct {
		name, url     string
		width, height int64
		dark          bool
		before        string
	}{
		{"light", rich + "/index.html", 1280, 0, false, ""},
		{"dark", rich + "/index.html", 1280, 1700, true, ""},
		{"open", rich + "/index.html", 1280, 1500, false,
			"document.querySelectorAll('.w details').forEach(d => d.open = true)"},
		{"phone", rich + "/index.html", 390, 2600, false, ""},
		{"two", small + "/index.html", 1280, 0, false, ""},
		{"mid", mid + "/index.html#gpu003", 1280, 1000, false, ""},
		{"big", big + "/index.html", 1280, 2200, false, ""},
		{"stale", stale + "/index.html", 1280, 1500, false, ""},
		{"host", rich + "/hosts/atlas/index.html", 1280, 0, false, "document.querySelector('.each').open = true"},
		{"stuckhost", rich + "/hosts/europa/index.html", 1280, 0, true,
			"document.querySelectorAll('.w details').forEach(d => d.open = true)"},
		{"user", rich + "/users/mira/index.html", 1280, 0, false, ""},
		{"bookings", rich + "/bookings/index.html", 1280, 0, false, ""},
		{"bookings-dark-phone", rich + "/bookings/index.html", 390, 0, true, ""},
		{"print", rich + "/index.html", 900, 1400, false, ""},
		{"about", rich + "/about/index.html", 1280, 0, false, ""},
		{"kiosk", rich + "/kiosk/index.html", 1920, 1080, true, ""},
	} {
		if only != "" && !strings.Contains(","+only+",", ","+shot.name+",") {
			continue
		}
		height := shot.height
		if height == 0 {
			height = 1000
		}
		b.Media("prefers-color-scheme", map[bool]string{true: "dark", false: "light"}[shot.dark])
		if shot.name == "print" {
			browser.Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
		}
		b.Do(chromedp.EmulateViewport(shot.width, height), chromedp.Navigate("file://"+shot.url))
		if shot.before != "" {
			b.Value(shot.before)
		}
		if file := filepath.Join(to, shot.name+".png"); shot.height == 0 {
			b.Screenshot(file)
		} else {
			b.Clip(file, shot.width, shot.height)
		}
	}
	b.Quiet("file://")
}
