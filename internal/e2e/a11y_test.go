package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"gpuboard/internal/demo"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/browser"
	"gpuboard/internal/testenv/need"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
)

// TestPagesHaveNoBarriers lets axe-core look at every kind of page, light and
// dark, narrow and wide, in a real Chromium, and then looks itself at what axe
// does not: the system's colours alone, and 400 % zoom.
func TestPagesHaveNoBarriers(t *testing.T) {
	t.Parallel()
	axe := axeCore(t)
	site := demoSite(t)
	pages := []string{
		"index.html", "hosts/atlas/index.html", "hosts/europa/index.html", "hosts/atlas/history/index.html",
		"users/mira/index.html",
		"bookings/index.html", "users/index.html", "book/index.html", "history/index.html", "about/index.html",
		"kiosk/index.html", "help/index.html", "help/troubleshooting/index.html",
	}
	b := browser.Start(t, 1280, 1000)
	for _, page := range pages {
		if _, err := os.Stat(filepath.Join(site, page)); err != nil {
			t.Errorf("there is no page %s", page)
			continue
		}
		b.Media()
		b.Size(1280, 900)
		b.Open("file://" + filepath.Join(site, page))
		b.Do(chromedp.Evaluate[chromedp.Void](axe)) // once: it is longer than all pages
		for _, look := range []struct {
			scheme string
			width  int64
		}{{"light", 1280}, {"dark", 1280}, {"dark", 360}, {"light", 320}} {
			t.Run(fmt.Sprintf("%s %s %d", page, look.scheme, look.width), func(t *testing.T) {
				emulate(t, b, look.scheme, look.width)
				for _, v := range violations(t, b, "html", look.scheme) {
					t.Errorf("%s (%s): %s\n    %s", v.ID, v.Impact, v.Help, strings.Join(v.where(), "\n    "))
				}
			})
		}
		t.Run(page+" 400 %", func(t *testing.T) { zoomed(t, b) })
		t.Run(page+" forced colours", func(t *testing.T) { forced(t, b) })
	}
	if lines := b.Console(); len(lines) > 0 {
		t.Errorf("the console says %q", lines)
	}
}

// zoomed looks at the page as a window of 1280 by 1024 shows it at 400 %: it is
// read by scrolling down alone, nothing stands in the way, and what has the focus
// is in sight.
func zoomed(t *testing.T, b *browser.Browser) {
	t.Helper()
	b.Media()
	browser.Call(b, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: 320, Height: 256, DeviceScaleFactor: 4})
	for what, script := range map[string]string{
		"is wider than the window":   `document.documentElement.scrollWidth > 320 ? document.documentElement.scrollWidth : ""`,
		"stays in front of the rest": `[...document.body.querySelectorAll("*")].filter(e => /fixed|sticky/.test(getComputedStyle(e).position) && e.offsetHeight > 0).map(e => e.outerHTML.slice(0, 80)).join("\n")`,
		"is out of sight with the focus": `[...document.querySelectorAll("a[href],button,input,select,summary,[tabindex='0']")].filter(e => e.offsetParent && e.checkVisibility()).slice(0, 25).filter(e => {
			e.focus();
			const r = e.getBoundingClientRect(), s = getComputedStyle(e);
			return s.clipPath === "none" && s.opacity !== "0" && (r.bottom < 0 || r.top > innerHeight || r.right < 0 || r.left > innerWidth);
		}).map(e => e.outerHTML.slice(0, 80)).join("\n")`,
	} {
		if found := b.Value(script); found != "" {
			t.Errorf("at 400 %% %s: %s", what, found)
		}
	}
}

// forced looks at the page in the system's few colours: states, bars and charts
// are there, words can be read, what is chosen and what has the focus is marked.
func forced(t *testing.T, b *browser.Browser) {
	t.Helper()
	b.Media("forced-colors", "active")
	b.Size(1280, 900)
	if b.Value(`matchMedia("(forced-colors: active)").matches`) != "true" {
		t.Fatal("the browser does not force its colours")
	}
	const all = `[...document.body.querySelectorAll("*")].filter(e => e.checkVisibility())`
	for what, script := range map[string]string{
		"cannot be read": all + `.filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).filter(e => {
			const s = getComputedStyle(e);
			return s.color === s.backgroundColor || s.fill === s.backgroundColor && e.namespaceURI.endsWith("svg");
		})`,
		"has no outline": all +
			`.filter(e => e.matches(".chip,.memory-bar,.meter,.share,button,.badge.bad")).filter(e => getComputedStyle(e).borderTopStyle === "none" && !e.closest(".tools") && !e.matches(".fold,th button"))`,
		"is not drawn": all + `.filter(e => e.matches(".memory-bar rect,.meter rect,.sp path,.area,.hours-bar rect")).filter(e => {
			const paper = document.createElement("i");
			paper.style.color = "Canvas";
			e.ownerDocument.body.append(paper);
			const canvas = getComputedStyle(paper).color;
			paper.remove();
			const s = getComputedStyle(e);
			return s.fill === canvas || s.fillOpacity === "0";
		})`,
	} {
		if found := b.Value(script + `.slice(0, 3).map(e => e.outerHTML.slice(0, 120)).join("\n")`); found != "" {
			t.Errorf("in forced colours %s: %s", what, found)
		}
	}
	if style := b.Value(
		`(() => { const e = document.querySelector("a[href]:not(.skip)"); e.focus({focusVisible: true}); return getComputedStyle(e).outlineStyle; })()`); style != "solid" {
		t.Errorf("in forced colours the focus is %s", style)
	}
}

// TestAxeFindsABarrier is the check of the check: a page with a fault has one.
func TestAxeFindsABarrier(t *testing.T) {
	axe := axeCore(t)
	path := filepath.Join(t.TempDir(), "bad.html")
	const bad = `<!doctype html><html lang="en"><title>x</title><main><h1>x</h1><img src="data:,"><p style="color:#ccc;background:#fff">hard to read</p></main>`
	if err := os.WriteFile(path, []byte(bad), 0o644); err != nil {
		t.Fatal(err)
	}
	b := browser.Start(t, 1280, 1000)
	b.Open("file://" + path)
	b.Do(chromedp.Evaluate[chromedp.Void](axe))
	found := map[string]bool{}
	for _, v := range violations(t, b, "html", "light") {
		found[v.ID] = true
	}
	if !found["image-alt"] || !found["color-contrast"] {
		t.Errorf("axe found %v, want image-alt and color-contrast", found)
	}
}

type violation struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string
		FailureSummary string
	}
}

func (v violation) where() []string {
	var list []string
	for i, n := range v.Nodes {
		if i == 3 {
			return append(list, fmt.Sprintf("and %d more", len(v.Nodes)-3))
		}
		list = append(list, n.HTML+"  "+strings.ReplaceAll(n.FailureSummary, "\n", " "))
	}
	return list
}

// violations are what axe-core, which is in the page already, finds fault with within the elements
// of a selector. The dark scheme differs from the light one in its colours alone.
func violations(t *testing.T, b *browser.Browser, within, scheme string) []violation {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, need.Patience)
	defer cancel()
	only := `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`
	if scheme == "dark" {
		only = `{type: "rule", values: ["color-contrast"]}`
	}
	out, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf(
		`axe.run(%q, {runOnly: %s, preload: false}).then(r => JSON.stringify(r.violations))`, within, only),
		chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	var list []violation
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func emulate(t *testing.T, b *browser.Browser, scheme string, width int64) {
	t.Helper()
	b.Media("prefers-color-scheme", scheme)
	b.Size(width, 900)
}

// axeCore is the script of axe-core, as tools/axe pins it.
func axeCore(t *testing.T) string {
	t.Helper()
	cache := os.Getenv("GPUBOARD_CACHE")
	if cache == "" {
		cache = ".cache"
	}
	dir := filepath.Join(cache, "axe")
	script := filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")
	if _, err := os.Stat(script); err != nil {
		npm := need.Program(t, "npm")
		want, err := os.ReadFile("tools/axe/package.json")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "package.json"), want, 0o644); err != nil {
			t.Fatal(err)
		}
		c := exec.Command(npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			need.Skip(t, fmt.Sprintf("axe-core cannot be installed: %v\n%s", err, out))
		}
	}
	data, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// demoSite is the demonstration's site, at a moment when much is going on.
func demoSite(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	now := time.Now().UTC().Truncate(time.Minute)
	fleet := demo.New(1, now)
	var hosts []inventory.Host
	write := func(name string, data []byte) {
		path := filepath.Join(dir, "data", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range fleet.Hosts() {
		hosts = append(hosts,
			inventory.Host{Name: h.Name, Group: h.Group, Owner: h.Owner, Note: h.Note, ExpectedGPUs: h.GPUs})
		s := fleet.Snapshot(h.Name, now)
		raw, err := snapshot.EncodeBundle(
			&snapshot.Bundle{Host: h.Name, BootID: s.BootID, Snapshot: s, Samples: []snapshot.Sample{s.Sample()}})
		if err != nil {
			t.Fatal(err)
		}
		write("drop/"+h.Name+"/latest.json.gz", raw)
	}
	store := demoPast(t, filepath.Join(dir, "state"), fleet, now)
	write("comments.json", fleet.Files(now)["comments.json"])
	write("notice.md", fleet.Files(now)["notice.md"])
	g, err := sitegen.New(sitegen.Options{
		Data: filepath.Join(dir, "data"), Site: filepath.Join(dir, "site"), State: filepath.Join(dir, "state"),
		Demo: true, History: store,
		Inventory: func(_ context.Context, now time.Time, _ inventory.Known) inventory.Inventory {
			return inventory.Inventory{Hosts: hosts, AsOf: now}
		},
		About: render.Site{Title: "GPU board", Lab: "a demonstration", Zone: time.UTC, Interval: 20 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Generate(context.Background(), now); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "site")
}

// demoPast is a store with the last eight hours of a fleet.
func demoPast(t *testing.T, state string, fleet *demo.Fleet, now time.Time) *history.Store {
	t.Helper()
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	store, err := history.Open(t.Context(), filepath.Join(state, "history.db"), now, history.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	var batches []history.Batch
	for _, h := range fleet.Hosts() {
		batch := history.Batch{Host: h.Name, Boot: "before"}
		for at := now.Add(-8 * time.Hour); at.Before(now.Add(-time.Minute)); at = at.Add(2 * time.Minute) {
			if !fleet.Silent(h.Name, at) {
				batch.Samples = append(batch.Samples, fleet.Snapshot(h.Name, at).Sample())
			}
		}
		batches = append(batches, batch)
	}
	if err := store.IngestAll(t.Context(), now, batches); err != nil {
		t.Fatal(err)
	}
	return store
}
