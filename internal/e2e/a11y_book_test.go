package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	boards "gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
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
		write("assets/"+filepath.Base(f.Path), f.Content, nil)
	}
	lines := []booking.Booking{
		{ID: "a", Host: "atlas", Name: "eva", From: now.Add(-time.Hour), Until: now.Add(time.Hour), Comment: "mine"},
		{ID: "b", Host: "atlas", Name: "mira", By: "kai", From: now.Add(time.Hour), Kind: booking.Maintenance},
	}
	fleet := &boards.Board{GeneratedAt: now, Models: []boards.Model{{Name: "H100"}},
		Hosts: []boards.Host{{Name: "atlas", GPUs: []boards.GPU{{State: boards.Free}, {State: boards.Contested}}}}}
	form := page.Book{User: "eva", Now: now, Board: fleet, Standing: lines,
		Mine: func(b booking.Booking) bool { return b.Name == "eva" }}
	home := form
	home.Saved, home.Wish = lines[:1], &boards.Wish{GPUs: 1, From: now, Until: now.Add(time.Hour)}
	home.Offer = &boards.Offer{Units: []boards.Unit{{Host: &fleet.Hosts[0], GPU: &fleet.Hosts[0].GPUs[0]}}}
	content, err := pages.Book(home)
	write("home.html", content, err)
	home.Offer, home.Say, home.Field, home.Saved, home.Released = &boards.Offer{Next: now.Add(
		time.Hour)}, "count", "gpus", nil, true
	content, err = pages.Book(home)
	write("few.html", content, err)
	form.At = lines[:1]
	content, err = pages.Book(form)
	write("plain.html", content, err)
	form.ForOthers, form.Say, form.Detail, form.Field, form.Clashes = true, "conflict", "more of it", "until", lines[1:]
	form.Fields = page.BookFields{Name: "eva", Until: "2d", IDs: []string{"a"}, End: "1d"}
	form.Jobs = []booking.Job{{Place: "atlas:0", Who: snapshot.Owner{Person: "kai"}, Program: "train.py",
		Since: now.Add(-time.Hour), Memory: 40960}, {Place: "atlas:1", Unknown: true}}
	content, err = pages.Book(form)
	write("refused.html", content, err)

	b := browser.Start(t, 1280, 1000)
	for _, page := range []string{"book/home.html", "book/few.html", "book/plain.html", "book/refused.html",
		"index.html"} {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{320, 1280} {
				t.Run(fmt.Sprintf("%s %s %d", page, scheme, width), func(t *testing.T) {
					emulate(t, b, scheme, width)
					b.Open("file://" + filepath.Join(site, filepath.FromSlash(page)))
					b.Do(chromedp.Evaluate[chromedp.Void](axe))
					within := "html"
					if page == "index.html" {
						within = ".panel[open]" // an open panel covers parts of the rows below
						open, err := chromedp.Run(b.Ctx, chromedp.Evaluate[bool](`new Promise(done => {
							const p = document.querySelector(".panel");
							p.addEventListener("toggle", () => setTimeout(() => done(!!p.querySelector(".wish"))));
							p.open = true;
						})`, chromedp.EvalAwaitPromise))
						if err != nil || !open {
							t.Fatalf("the panel has no fields: %v", err)
						}
					}
					for _, v := range violations(t, b, within, scheme) {
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
