// Package browser is a real Chromium for tests: it opens pages of this machine
// and answers what a visitor would see.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"gpuboard/internal/testenv/need"
)

// A Browser is one tab of a Chromium.
type Browser struct {
	Ctx context.Context // for actions of chromedp

	t        testing.TB
	mu       sync.Mutex
	console  []string
	requests []string
}

// within bounds one action.
const within = need.Patience

// shared is the Chromium of this process, once a test has asked for one.
var shared struct {
	sync.Mutex
	ctx     context.Context
	watcher *exec.Cmd
}

// Start opens a window of this size in a headless Chromium. It ends with the test, and
// knows nothing of what other tests have stored. The Chromium is the same for all tests
// of a process, and ends with it: to start one takes three seconds of a processor. It
// needs a Chromium.
func Start(t testing.TB, width, height int) *Browser {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.ctx == nil || shared.ctx.Err() != nil {
		shared.ctx, _ = chromium(t, width, height, func(dir string) { shared.watcher = removeLater(t, dir) })
	}
	b := open(t, shared.ctx, chromedp.WithNewBrowserContext())
	b.window(cdpbrowser.Bounds{Width: int64(width), Height: int64(height)})
	return b
}

// Alone is [Start] with a Chromium of its own, for measurements of it.
func Alone(t testing.TB, width, height int) *Browser {
	t.Helper()
	ctx, end := chromium(t, width, height, func(dir string) { t.Cleanup(func() { os.RemoveAll(dir) }) })
	t.Cleanup(end)
	return open(t, ctx)
}

// chromium starts a Chromium, whose directory remove is called with first.
func chromium(t testing.TB, width, height int, remove func(dir string)) (ctx context.Context, end func()) {
	t.Helper()
	need.Time(t, "it starts a browser")
	path := need.Program(t, "chromium")
	dir, err := os.MkdirTemp("", "chromium-")
	if err != nil {
		t.Fatal(err)
	}
	remove(dir)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.NoFirstRun, chromedp.WindowSize(width, height),
		// Chromium makes a socket in TMPDIR, whose path must be short, and leaves it there.
		chromedp.Env("TMPDIR="+dir), chromedp.UserDataDir(filepath.Join(dir, "profile")))
	for _, flag := range []string{"disable-gpu", "disable-quic", "disable-background-networking",
		"disable-component-update", "disable-sync", "hide-scrollbars"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	// What nobody sees of its own window, the list below its address and a process in
	// reserve for the next page, costs as much as the pages do.
	options = append(options, chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,"+
		"WebUIOmniboxPopup,WebUIOmniboxAimPopup,PreloadTopChromeWebUI,SpareRendererForSitePerProcess"))
	ctx, end = chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ = chromedp.NewContext(ctx)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting Chromium: %v", err)
	}
	return ctx, end
}

// removeLater removes a directory once this process has ended, in whatever way, and with
// it the Chromium that it has started. While the command is kept, its input stays open.
func removeLater(t testing.TB, dir string) *exec.Cmd {
	t.Helper()
	c := exec.Command("sh", "-c", `read -r _; sleep 1; rm -rf "$0" || { sleep 10; rm -rf "$0"; }`, dir)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what ends all that a terminal runs does not end it
	_, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Tab opens another tab of the browser, in a window of its own, which ends with the test.
func (b *Browser) Tab() *Browser {
	b.t.Helper()
	return open(b.t, b.Ctx)
}

// Process is the browser's first process, of which all others are children.
func (b *Browser) Process() int { return chromedp.FromContext(b.Ctx).Browser.Process().Pid }

func open(t testing.TB, ctx context.Context, options ...chromedp.ContextOption) *Browser {
	t.Helper()
	ctx, cancel := chromedp.NewContext(ctx, options...)
	t.Cleanup(cancel)
	b := &Browser{Ctx: ctx, t: t}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	// Else nothing has the focus of a window that nobody sees.
	if _, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled,
		emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
		t.Fatal(err)
	}
	return b
}

// Hide puts the window out of sight, or shows it again.
func (b *Browser) Hide(yes bool) {
	b.t.Helper()
	b.window(cdpbrowser.Bounds{WindowState: map[bool]cdpbrowser.WindowState{true: cdpbrowser.WindowStateMinimized,
		false: cdpbrowser.WindowStateNormal}[yes]})
	Call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: !yes})
}

// window changes the window.
func (b *Browser) window(to cdpbrowser.Bounds) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, within)
	defer cancel()
	window, err := chromedp.CallBrowser(ctx, cdpbrowser.GetWindowForTarget,
		cdpbrowser.GetWindowForTargetParams{TargetID: chromedp.FromContext(b.Ctx).Target.TargetID})
	if err == nil {
		_, err = chromedp.CallBrowser(ctx, cdpbrowser.SetWindowBounds,
			cdpbrowser.SetWindowBoundsParams{WindowID: window.WindowID, Bounds: &to})
	}
	if err != nil {
		b.t.Fatalf("changing the window: %v", err)
	}
}

func (b *Browser) hear(event any) {
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

// Open opens a page and waits until it has loaded.
func (b *Browser) Open(url string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, within)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Navigate(url)); err != nil {
		b.t.Fatalf("opening %s: %v", url, err)
	}
}

// Eval runs an expression in the page and returns its value.
func Eval[T any](b *Browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, within)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("evaluating %s: %v", expression, err)
	}
	return v
}

// Text is what the page says in the element that a selector finds, as a visitor
// reads it; "" where there is none.
func (b *Browser) Text(selector string) string {
	b.t.Helper()
	return Eval[string](b, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// Value is what an expression of the page comes to, as a string.
func (b *Browser) Value(expression string) string {
	b.t.Helper()
	return Eval[string](b, "String("+expression+")")
}

// Until waits until an expression is true. While the page goes to another there is
// nothing to ask, so an error is asked again.
func (b *Browser) Until(what, expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, within)
	defer cancel()
	for ctx.Err() == nil {
		if ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression)); err == nil && ok {
			return
		}
		select {
		case <-time.After(30 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	b.t.Fatalf("%s does not happen; the page says\n%s", what, b.Text("body"))
}

// Do runs actions of chromedp.
func (b *Browser) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, within)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// Call gives the browser a command of its protocol.
func Call[P, R any](b *Browser, command cdp.Command[P, R], params P) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, within)
	defer cancel()
	if _, err := chromedp.Call(ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

// Clock makes every page that is opened from now on believe that it is then.
func (b *Browser) Clock(then time.Time) {
	b.t.Helper()
	b.Before(fmt.Sprintf("Date.now = () => %d", then.UnixMilli()))
}

// Before runs a script in every page that is opened from now on, before its own.
func (b *Browser) Before(script string) {
	b.t.Helper()
	Call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// Media tells pages what their visitor prefers, as pairs of a CSS media feature
// and its value: "prefers-color-scheme", "dark". What is not named is as usual.
func (b *Browser) Media(pairs ...string) {
	b.t.Helper()
	var features []*emulation.MediaFeature
	for i := 0; i+1 < len(pairs); i += 2 {
		features = append(features, &emulation.MediaFeature{Name: pairs[i], Value: pairs[i+1]})
	}
	Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
}

// Size makes the window so large, in CSS pixels.
func (b *Browser) Size(width, height int64) {
	b.t.Helper()
	Call(b, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
}

// Scripts says whether pages that are opened from now on may run scripts.
func (b *Browser) Scripts(yes bool) {
	b.t.Helper()
	Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !yes})
}

// Quiet fails the test if something was written on the console, or asked for
// beyond base, or if nothing was asked for at all, which would prove nothing.
func (b *Browser) Quiet(base string) {
	b.t.Helper()
	if lines := b.Console(); len(lines) > 0 {
		b.t.Errorf("the console says %q", lines)
	}
	if foreign := b.Foreign(base); len(foreign) > 0 {
		b.t.Errorf("not of the site, and asked for: %q", foreign)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.requests) == 0 {
		b.t.Error("nothing was asked for: the test sees no requests")
	}
}

// Screenshot writes the whole page as a PNG file.
func (b *Browser) Screenshot(path string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, within)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(path, png, 0o644)
	}
	if err != nil {
		b.t.Fatalf("taking a screenshot: %v", err)
	}
}

// Console returns what was written on the console so far: messages, errors,
// and what the browser refused for the sake of the page's policy.
func (b *Browser) Console() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.console...)
}

// Foreign returns the requests so far that did not go to base.
func (b *Browser) Foreign(base string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, url := range b.requests {
		if !strings.HasPrefix(url, base) && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "about:") {
			out = append(out, url)
		}
	}
	return out
}

// Clip writes the top of the page, of this size in CSS pixels, as a PNG file.
func (b *Browser) Clip(path string, width, height int64) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, within)
	defer cancel()
	beyond := true
	shot, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Format: "png", CaptureBeyondViewport: &beyond,
		Clip: &page.Viewport{Width: float64(width), Height: float64(height), Scale: 1},
	})
	if err == nil {
		err = os.WriteFile(path, []byte(shot.Data), 0o644)
	}
	if err != nil {
		b.t.Fatalf("taking a picture: %v", err)
	}
}
