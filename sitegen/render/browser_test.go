package render

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"gpuboard/templates"
)

// need skips a test whose outside program is not there, or fails it where the
// whole suite is demanded.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	if os.Getenv("GPUBOARD_REQUIRE_ALL") == "1" {
		t.Fatalf("GPUBOARD_REQUIRE_ALL is set, and %s is not installed", program)
	}
	t.Skipf("%s is not installed", program)
	return ""
}

func pages(t testing.TB, in Input) []File {
	t.Helper()
	files, err := Pages(in, templates.Files())
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// siteDir writes the pages where a browser finds them.
func siteDir(t testing.TB, in Input) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range pages(t, in) {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A browser is one real Chromium, with what it complained about and asked for.
type browser struct {
	ctx      context.Context
	mu       sync.Mutex
	console  []string
	requests []string
}

// openBrowser starts a browser whose clock stands at now; a zero now is the real clock.
func openBrowser(t *testing.T, now time.Time) *browser {
	t.Helper()
	path := need(t, "chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.NoFirstRun, chromedp.UserDataDir(t.TempDir()))
	for _, flag := range []string{"disable-gpu", "disable-quic", "disable-background-networking", "disable-component-update", "disable-sync", "hide-scrollbars"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{ctx: ctx}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	call(t, b, network.Enable, network.EnableParams{})
	call(t, b, log.Enable, cdp.Empty{})
	if !now.IsZero() {
		b.clock(t, now)
	}
	return b
}

func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		b.console = append(b.console, string(e.Type))
	case *runtime.EventExceptionThrown:
		b.console = append(b.console, e.ExceptionDetails.Text+" "+fmt.Sprint(e.ExceptionDetails.Exception))
	case *log.EventEntryAdded:
		b.console = append(b.console, e.Entry.Text)
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	}
}

func call[P, R any](t testing.TB, b *browser, command cdp.Command[P, R], params P) {
	t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		t.Fatal(err)
	}
}

// clock makes every page loaded from now on believe that it is then.
func (b *browser) clock(t testing.TB, then time.Time) {
	t.Helper()
	call(t, b, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: fmt.Sprintf("Date.now = () => %d", then.UnixMilli()),
	})
}

func (b *browser) dark(t testing.TB, dark bool) {
	t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	call(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

func (b *browser) do(t testing.TB, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// eval returns what a script makes, as a string.
func (b *browser) eval(t testing.TB, script string) string {
	t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("String("+script+")"))
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return v
}

// serve serves a directory under a path, by a clock that agrees with the fleets':
// pages go by the server's when it differs from the device's.
func serve(t testing.TB, dir string) string {
	t.Helper()
	files := http.StripPrefix("/any/where", http.FileServer(http.Dir(dir)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", fleetNow.Add(14*time.Second).Format(http.TimeFormat))
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
	b := openBrowser(t, fleetNow.Add(14*time.Second))
	rich, mid, big, stale := siteDir(t, testFleet()), siteDir(t, bigFleet(40)), siteDir(t, bigFleet(200)), siteDir(t, staleFleet())
	two := testFleet()
	two.Board.Hosts, two.Board.Problems, two.Notice = two.Board.Hosts[4:6], nil, ""
	two.Board.Bookings, two.Board.NextFree = nil, nil
	finish(two.Board)
	small := siteDir(t, two)
	for _, shot := range []struct {
		name, url     string
		width, height int64
		dark          bool
		before        string
	}{
		{"light", rich + "/index.html", 1280, 0, false, ""},
		{"dark", rich + "/index.html", 1280, 1700, true, ""},
		{"open", rich + "/index.html", 1280, 1500, false, "document.querySelectorAll('.w details').forEach(d => d.open = true)"},
		{"phone", rich + "/index.html", 390, 2600, false, ""},
		{"two", small + "/index.html", 1280, 0, false, ""},
		{"mid", mid + "/index.html#gpu003", 1280, 1000, false, ""},
		{"big", big + "/index.html", 1280, 2200, false, ""},
		{"stale", stale + "/index.html", 1280, 1500, false, ""},
		{"host", rich + "/hosts/atlas/index.html", 1280, 0, false, "document.querySelector('.each').open = true"},
		{"stuckhost", rich + "/hosts/europa/index.html", 1280, 0, true, "document.querySelectorAll('.w details').forEach(d => d.open = true)"},
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
		b.dark(t, shot.dark)
		if shot.name == "print" {
			call(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
		}
		b.do(t, chromedp.EmulateViewport(shot.width, height), chromedp.Navigate("file://"+shot.url))
		if shot.before != "" {
			b.eval(t, shot.before)
		}
		take := chromedp.CaptureScreenshot()
		if shot.height == 0 {
			take = chromedp.FullScreenshot(100)
		}
		png, err := chromedp.Run(b.ctx, take)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, shot.name+".png"), png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.console) > 0 {
		t.Errorf("the console says %q", b.console)
	}
}
