package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gpuboard/internal/testenv/browser"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
)

// TestBookingHasNoBarriers lets axe-core look at the booking form, as it is and
// after a refusal, and at a panel that is open.
func TestBookingHasNoBarriers(t *testing.T) {
	t.Parallel()
	axe := axeCore(t)
	site := demoSite(t)
	now := time.Now()
	pages, err := page.NewBookPages(render.Site{Title: "Lab", Zone: time.UTC}, nil)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, content []byte, err error) {
		path := filepath.Join(site, "book", filepath.FromSlash(name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o755)
		}
		if err == nil {
			err = os.WriteFile(path, content, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range pages.Assets() {
		write("assets/"+filepath.Base(f.Path), f.Bytes(), nil)
	}
	lines := []page.BookLine{
		{ID: "a", Host: "atlas", Target: "0", GPU: "0", Name: "eva", From: now.Add(-time.Hour), Until: now.Add(time.Hour), Comment: "mine", Active: true, Mine: true},
		{ID: "b", Host: "atlas", Target: "0", GPU: "0", Name: "mira", By: "kai", From: now.Add(time.Hour), Maintenance: true},
	}
	form := page.BookForm{Host: "atlas", GPU: "0", Model: "H100", State: "free", User: "eva", Now: now, Interval: time.Minute, Standing: lines}
	plain, err := pages.Form(form)
	write("atlas/plain.html", plain, err)
	form.ForOthers, form.Name, form.Until, form.Say, form.Detail, form.Field, form.Clashes, form.ID, form.End = true, "eva", "2d", "conflict", "more of it", "until", lines[1:], "a", "1d"
	refused, err := pages.Form(form)
	write("atlas/refused.html", refused, err)
	home, err := pages.Home(page.BookHome{User: "eva", Now: now, Mine: lines, Hosts: []page.BookHost{{Name: "atlas", GPUs: []page.BookGPU{{Path: "0", Label: "0", State: "free"}, {Path: "1", Label: "1", State: "contested"}}}}})
	write("home.html", home, err)

	b := browser.Start(t, 1280, 1000)
	for _, page := range []string{"book/home.html", "book/atlas/plain.html", "book/atlas/refused.html", "index.html"} {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{320, 1280} {
				t.Run(fmt.Sprintf("%s %s %d", page, scheme, width), func(t *testing.T) {
					emulate(t, b, scheme, width)
					b.Open("file://" + filepath.Join(site, filepath.FromSlash(page)))
					b.Do(chromedp.Evaluate[chromedp.Void](axe))
					if page == "index.html" {
						open, err := chromedp.Run(b.Ctx, chromedp.Evaluate[bool](`new Promise(done => {
							const p = document.querySelector(".bkp");
							p.addEventListener("toggle", () => setTimeout(() => done(!!p.querySelector(".wish"))));
							p.open = true;
						})`, chromedp.EvalAwaitPromise))
						if err != nil || !open {
							t.Fatalf("the panel has no fields: %v", err)
						}
					}
					for _, v := range violations(t, b) {
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
