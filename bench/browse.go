package main

import (
	"fmt"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"gpuboard/internal/testenv/browser"
	"gpuboard/internal/testenv/webtest"
)

// browsed is what a browser makes of front pages: when something is to be seen,
// how long scripts take until all is loaded, and how many elements there are.
func (s *suite) browsed() error {
	for _, hosts := range []int{4, 40, 100, s.big()} {
		f, err := s.visitable(hosts)
		if err != nil {
			return err
		}
		if err := s.with(func(h *harness) error { return s.opened(h, f) }); err != nil {
			return err
		}
	}
	return nil
}

// painted waits until the browser says when it painted something first, in ms
// after the page was asked for; 0 for never.
func painted(b *browser.Browser) float64 {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if at := browser.Eval[float64](b,
			`performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0`); at > 0 {
			return at
		}
	}
	return 0
}

// opened opens the front page of one fleet, from a server on this machine, in a
// browser that has been open for a while and has nothing of it in its cache.
func (s *suite) opened(h *harness, f *fleet) error {
	server := webtest.Start(h, "nginx", webtest.Options{Deploy: "deploy", Site: f.site()})
	b := browser.Alone(h, 1280, 900)
	b.Clock(f.at)
	if _, err := chromedp.Call(b.Ctx, performance.Enable, performance.EnableParams{}); err != nil {
		return err
	}
	// Scripts of the page since it was opened, in seconds.
	scripts := func() (float64, error) {
		told, err := chromedp.Call(b.Ctx, performance.GetMetrics, cdp.Empty{})
		if err != nil {
			return 0, err
		}
		for _, m := range told.Metrics {
			if m.Name == "ScriptDuration" {
				return m.Value, nil
			}
		}
		return 0, fmt.Errorf("the browser does not tell how long scripts took")
	}
	var paint, script []float64
	elements := 0.0
	for n := range s.times(12) + 1 {
		b.Open("about:blank")
		before, err := scripts()
		if err != nil {
			return err
		}
		b.Open(fmt.Sprintf("%s?n=%d", server.URL, n)) // a new address each time: nothing is in the cache but assets
		first := painted(b)
		after, err := scripts()
		if err != nil {
			return err
		}
		if n == 0 || first == 0 {
			continue // the first fills caches of the browser itself
		}
		if after < before { // it counts from the opening of a page
			before = 0
		}
		paint, script = append(paint, first), append(script, (after-before)*1000)
		elements = browser.Eval[float64](b, `document.getElementsByTagName("*").length`)
	}
	if len(paint) == 0 {
		return fmt.Errorf("the browser has painted nothing")
	}
	mostElements := 0.0
	if hosts := len(f.names); hosts >= 1000 {
		mostElements = 27_000
	}
	s.add(
		row{id: "W1", what: fmt.Sprintf("first contentful paint of %d hosts, by the clock", len(f.names)), unit: "ms",
			values: paint, least: true})
	s.add(row{id: "W1", what: "its scripts until it has loaded, by the clock", unit: "ms", values: script, least: true})
	s.add(row{id: "W1", what: "its elements", values: []float64{elements}, target: mostElements})
	return nil
}
