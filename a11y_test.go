package main

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

	"gpuboard/demo"
	"gpuboard/history"
	"gpuboard/internal/browser"
	"gpuboard/internal/sshtest"
	"gpuboard/inventory"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
	"gpuboard/snapshot"
)

// TestPagesHaveNoBarriers lets axe-core look at every kind of page, light and
// dark, narrow and wide, in a real Chromium.
func TestPagesHaveNoBarriers(t *testing.T) {
	axe := axeCore(t)
	site := demoSite(t)
	pages := []string{"index.html", "hosts/atlas/index.html", "hosts/europa/index.html", "users/mira/index.html", "bookings/index.html", "book/index.html", "history/index.html", "about/index.html", "kiosk/index.html", "help/index.html", "help/troubleshooting/index.html"}
	b := browser.Start(t, 1280, 1000)
	for _, page := range pages {
		if _, err := os.Stat(filepath.Join(site, page)); err != nil {
			t.Errorf("there is no page %s", page)
			continue
		}
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{360, 1280} {
				t.Run(fmt.Sprintf("%s %s %d", page, scheme, width), func(t *testing.T) {
					emulate(t, b, scheme, width)
					b.Open("file://" + filepath.Join(site, page))
					for _, v := range violations(t, b, axe) {
						if v.ID == "meta-refresh" && strings.HasPrefix(page, "kiosk/") {
							continue // a wall screen has nobody who could be interrupted
						}
						t.Errorf("%s (%s): %s\n    %s", v.ID, v.Impact, v.Help, strings.Join(v.where(), "\n    "))
					}
				})
			}
		}
	}
	if lines := b.Console(); len(lines) > 0 {
		t.Errorf("the console says %q", lines)
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
	found := map[string]bool{}
	for _, v := range violations(t, b, axe) {
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

func violations(t *testing.T, b *browser.Browser, axe string) []violation {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](axe)); err != nil {
		t.Fatal(err)
	}
	out, err := chromedp.Run(ctx, chromedp.Evaluate[string](
		`axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], preload: false}).then(r => JSON.stringify(r.violations))`, chromedp.EvalAwaitPromise))
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
	_, err := chromedp.Call(b.Ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err == nil {
		_, err = chromedp.Call(b.Ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1})
	}
	if err != nil {
		t.Fatal(err)
	}
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
		npm := sshtest.Require(t, "npm")
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
			sshtest.Skip(t, fmt.Sprintf("axe-core cannot be installed: %v\n%s", err, out))
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
		hosts = append(hosts, inventory.Host{Name: h.Name, Group: h.Group, Owner: h.Owner, Note: h.Note, ExpectedGPUs: h.GPUs})
		s := fleet.Snapshot(h.Name, now)
		raw, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: h.Name, BootID: s.BootID, Snapshot: s, Samples: []snapshot.Sample{s.Sample()}})
		if err != nil {
			t.Fatal(err)
		}
		write("drop/"+h.Name+"/latest.json.gz", raw)
	}
	store := demoPast(t, filepath.Join(dir, "state"), fleet, now)
	write("comments.json", fleet.Comments(now))
	write("notice.md", fleet.Notice())
	g, err := sitegen.New(sitegen.Options{
		Data: filepath.Join(dir, "data"), Site: filepath.Join(dir, "site"), State: filepath.Join(dir, "state"), Demo: true, History: store,
		Inventory: func(_ context.Context, now time.Time) inventory.Inventory {
			return inventory.Inventory{Hosts: hosts, AsOf: now}
		},
		About: render.Site{Title: "GPU board", Lab: "a demonstration", Lang: "en", Zone: time.UTC, Interval: 20 * time.Second},
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
	if _, err := store.IngestAll(t.Context(), now, batches); err != nil {
		t.Fatal(err)
	}
	return store
}
