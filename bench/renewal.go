package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gpuboard/internal/testenv/browser"
)

// A recordedSite is a site of a fleet that moves, with the front pages of several generations. Nothing writes it while a
// browser is measured.
type recordedSite struct {
	dir   string
	pages [][]byte
	built []time.Time
	now   atomic.Int32 // which of the pages is served
}

// renewals is what a generation takes of an open page of a large fleet, alone on the machine, beside what it takes to
// put the whole new page in the place of the old one.
func (s *suite) renewals() error {
	site, err := s.record(s.big(), 1+s.times(12))
	if err != nil {
		return err
	}
	return s.with(func(h *harness) error {
		server := httptest.NewServer(site)
		h.Cleanup(server.Close)
		r := &reader{name: "watcher", url: server.URL + "/", begin: func(*reader) {}}
		r.open(browser.Alone(h, 1440, 900))
		return s.measureRenewals(site, r)
	})
}

// record keeps the front pages of so many generations.
func (s *suite) record(hosts, generations int) (*recordedSite, error) {
	recorded := &recordedSite{}
	return recorded, s.with(func(h *harness) error {
		site, err := s.newMovingSite(h, hosts)
		if err != nil {
			return err
		}
		for end := time.Now().Add(20 * time.Minute); len(recorded.pages) < generations; time.Sleep(time.Second) {
			if time.Now().After(end) {
				return fmt.Errorf("there were only %d generations", len(recorded.pages))
			}
			if len(recorded.built) > 0 && !site.built().After(recorded.built[len(recorded.built)-1]) {
				continue
			}
			page, err := os.ReadFile(site.f.site("index.html"))
			if err != nil {
				return err
			}
			recorded.pages = append(recorded.pages, page)
			recorded.built = append(recorded.built, builtIn(string(builtAttribute.Find(page))))
		}
		site.kill()
		recorded.dir = filepath.Join(s.dir, "recorded")
		return os.CopyFS(recorded.dir, os.DirFS(site.f.site()))
	})
}

// ServeHTTP answers as if the page that is served had just been made.
func (f *recordedSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Date", f.built[f.now.Load()].Add(2*time.Second).UTC().Format(http.TimeFormat))
	if r.URL.Path == "/" {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(f.pages[f.now.Load()])
		return
	}
	http.ServeFileFS(w, r, os.DirFS(f.dir), r.URL.Path)
}

var (
	hostLine = regexp.MustCompile(`(?s)<li id="?[^>]*class="?host.*?</li>`)
	lineAge  = regexp.MustCompile(`(?s)<time class="?age.*?</time>`)
)

// differ is the share of hosts whose line is not that of the generation before, ages left out, in percent.
func (f *recordedSite) differ(n int) float64 {
	lines := func(page []byte) [][]byte { return hostLine.FindAll(lineAge.ReplaceAll(page, nil), -1) }
	before := map[string]bool{}
	for _, line := range lines(f.pages[n-1]) {
		before[string(line)] = true
	}
	others, all := 0, lines(f.pages[n])
	for _, line := range all {
		if !before[string(line)] {
			others++
		}
	}
	return 100 * float64(others) / float64(len(all))
}

// asksAgain is what happens to a page that somebody comes back to.
const asksAgain = `document.dispatchEvent(new Event("visibilitychange"))`

// replacesAll lets the next renewal put the main part of the new page in the place of the old one, in one piece, as it
// finds no part of the old page in the new one.
const replacesAll = `(() => {
	const parse = DOMParser.prototype.parseFromString;
	DOMParser.prototype.parseFromString = function (...text) {
		const page = parse.apply(this, text);
		const main = page.getElementById("_main");
		const all = page.createElement("div");
		all.className = "all-" + performance.now();
		all.append(...main.childNodes);
		main.append(all);
		return page;
	};
})(), ` + asksAgain

// measureRenewals shows one generation after the other to a page.
func (s *suite) measureRenewals(site *recordedSite, r *reader) error {
	var renewal, whole, longest, shifts, differ []float64
	measure := func(n int, begin string) (worked, task float64, err error) {
		r.Value(`hour.begun = performance.now()`)
		before, err := r.worked()
		if err != nil {
			return 0, 0, err
		}
		site.now.Store(int32(n))
		r.Value(begin)
		r.Until("the new page", fmt.Sprintf(`new Date(hour.built()) - new Date(%q) === 0`,
			site.built[n].Format(time.RFC3339Nano)))
		time.Sleep(time.Second) // what comes after it
		after, err := r.worked()
		if err != nil {
			return 0, 0, err
		}
		tasks := browser.Eval[[]float64](r.Browser, `hour.durations("renewal")`)
		return after - before, slices.Max(append(tasks, 0)), nil
	}
	r.Value(asksAgain) // it learns the time that the server has
	time.Sleep(time.Second)
	for n := 1; n < len(site.pages); n++ {
		worked, task, err := measure(n, asksAgain)
		if err != nil {
			return err
		}
		renewal, longest = append(renewal, worked), append(longest, task)
		shifts = append(shifts, browser.Eval[float64](r.Browser, `hour.largestShift(hour.begun, Infinity)`))
		differ = append(differ, site.differ(n))
	}
	cleared, err := s.clearedSearch(r)
	if err != nil {
		return err
	}
	for n := 1; n < len(site.pages); n++ {
		site.now.Store(int32(n - 1))
		r.Open(r.url)
		time.Sleep(time.Second)
		worked, _, err := measure(n, replacesAll)
		if err != nil {
			return err
		}
		whole = append(whole, worked)
	}
	hosts := s.big()
	slices.Sort(whole)
	for _, made := range []row{
		{what: fmt.Sprintf("hosts of %d that differ between two generations", hosts), unit: "%", values: differ, target: 20},
		{what: "a renewal of the page, on its main thread", unit: "ms", values: renewal,
			rivals: []rival{{"the whole page replaced", whole[len(whole)/2], 0.25}}},
		{what: "its longest task, of 50 ms and more", unit: "ms", values: longest},
		{what: "the longest of them", unit: "ms", values: []float64{slices.Max(longest)}, target: 120},
		{what: "its layout shift (CLS), the largest", values: []float64{slices.Max(shifts)}, target: 0.01},
		{what: "the longest task after clearing the search", unit: "ms", values: cleared, target: 100},
	} {
		made.id = "F2"
		s.add(made)
	}
	return nil
}

// clearedSearch is the longest task after what was searched for was cleared, several times.
func (s *suite) clearedSearch(r *reader) ([]float64, error) {
	var longest []float64
	r.focus(`document.getElementById("_query")`)
	for range s.times(12) {
		r.Do(chromedp.KeyEvent("gpu000"))
		time.Sleep(time.Second)
		r.Value(`(hour.begun = performance.now(), hour.cleared = [hour.begun], document.activeElement.select())`)
		r.Do(chromedp.KeyEvent(kb.Backspace))
		time.Sleep(2 * time.Second)
		tasks := browser.Eval[[]float64](r.Browser, `hour.durations("cleared")`)
		longest = append(longest, slices.Max(append(tasks, 0)))
	}
	return longest, nil
}
