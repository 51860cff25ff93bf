package main

import (
	_ "embed"
	"fmt"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gpuboard/internal/testenv/browser"
)

//go:embed readers.js
var readersScript string

// A reader has a page open, and does something there that must not be lost.
type reader struct {
	name, url string
	*browser.Browser
	begin func(r *reader) // does it
	holds string          // what must stay as it is
	lost  int
	first pageMemory
}

// A pageMemory is what a page has when garbage has been collected.
type pageMemory struct {
	heap  float64 // MiB of its scripts
	nodes int64
}

// readers are the pages that are open. The middle is a host that one has to scroll to.
func readers(url string, hosts int) []*reader {
	middle := fmt.Sprintf("#gpu%04d", hosts*2/3)
	return []*reader{
		{name: "search", url: url, begin: func(r *reader) {
			r.focus(`document.getElementById("_query")`)
			r.Value(`document.activeElement.select()`)
			r.Do(chromedp.KeyEvent(kb.Backspace))
			r.Do(chromedp.KeyEvent("gpu000" + kb.ArrowLeft + kb.ArrowLeft))
		}},
		{name: "panel", url: url, begin: func(r *reader) {
			r.openRows("#gpu0003")
			r.Value(`document.querySelector("#gpu0003-2 .panel").open = true`)
			r.Until("the panel's fields", `!!document.querySelector("#gpu0003-2 .wish [name=comment]")`)
			r.focus(`document.querySelector("#gpu0003-2 .wish [name=comment]")`)
			r.Value(`document.activeElement.select?.()`) // a panel that was lost may not come back
			r.Do(chromedp.KeyEvent("half a sentence" + kb.ArrowLeft + kb.ArrowLeft + kb.ArrowLeft))
		}},
		{name: "selection", url: url, begin: func(r *reader) {
			r.Value(`getSelection().selectAllChildren(document.querySelector("#gpu0005 h3 a"))`)
		}},
		{name: "row", url: url, begin: func(r *reader) {
			r.openRows(middle)
			r.focus(fmt.Sprintf(`document.querySelector("%s .panel summary")`, middle))
			r.Value(fmt.Sprintf(`hour.line = %q`, middle))
		}},
		{name: "hidden", url: url, begin: func(r *reader) {
			r.openRows("#gpu0004")
			r.Value(`document.querySelector("#gpu0004-1 .panel").open = true`)
		}},
		{name: "watcher", url: url, begin: func(r *reader) { r.Value(`hour.alternates = true`) }},
		{name: "wall", url: url + "kiosk/", begin: func(*reader) {}},
	}
}

// open opens the page of a reader in a tab.
func (r *reader) open(b *browser.Browser) {
	r.Browser = b
	b.Before(readersScript)
	browser.Call(b, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	b.Open(r.url)
	r.Until("the page", `typeof gpuboard === "object"`)
	time.Sleep(time.Second)
	r.Value(`hour.loaded = performance.now()`)
	r.start()
}

// start begins what the reader does, and keeps what must stay.
func (r *reader) start() {
	r.begin(r)
	time.Sleep(2 * time.Second) // what was fetched is there, and nothing is counted as typed
	r.Value(`hour.top = document.activeElement.getBoundingClientRect().top`)
	r.Value(`hour.begun ??= performance.now()`)
	r.holds = r.held()
}

func (r *reader) held() string { return r.Value("hour.held." + r.name + "()") }

func (r *reader) openRows(line string) {
	r.Value(
		fmt.Sprintf(`document.querySelector("%s .rows:not([hidden])") || document.querySelector("%s .users").click()`,
			line, line))
	r.Until("the rows of "+line, fmt.Sprintf(`!!document.querySelector("%s .rows .row")`, line))
}

func (r *reader) focus(element string) {
	r.Value(
		fmt.Sprintf(`(e => { e.scrollIntoView({ block: "center" }); e.focus({ preventScroll: true }); })(%s)`, element))
}

// typeAnew adds a letter in the search and takes it away; and now and then clears the search and types it again.
func (r *reader) typeAnew(clears bool) {
	if !clears {
		r.Value(`hour.typed.push(performance.now())`)
		r.Do(chromedp.KeyEvent("x"), chromedp.KeyEvent(kb.Backspace))
		return
	}
	r.Value(`(hour.cleared.push(performance.now()), document.activeElement.select())`)
	r.Do(chromedp.KeyEvent(kb.Backspace))
	time.Sleep(2 * time.Second)
	r.Value(`hour.typed.push(performance.now())`)
	r.Do(chromedp.KeyEvent("gpu000" + kb.ArrowLeft + kb.ArrowLeft))
}

// memory is what the page has now.
func (r *reader) memory() (pageMemory, error) {
	if _, err := chromedp.Call(r.Ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
		return pageMemory{}, err
	}
	heap, err := chromedp.Call(r.Ctx, runtime.GetHeapUsage, cdp.Empty{})
	if err != nil {
		return pageMemory{}, err
	}
	counted, err := chromedp.Call(r.Ctx, memory.GetDOMCounters, cdp.Empty{})
	return pageMemory{heap: heap.UsedSize / (1 << 20), nodes: counted.Nodes}, err
}

// worked is the processor time of the page's main thread so far, in ms.
func (r *reader) worked() (float64, error) {
	told, err := chromedp.Call(r.Ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		return 0, err
	}
	for _, m := range told.Metrics {
		if m.Name == "TaskDuration" {
			return m.Value * 1000, nil
		}
	}
	return 0, fmt.Errorf("the browser does not tell how long tasks took")
}

// freeze hides the page and stops its timers, as browsers do with pages that nobody has seen for long.
func (r *reader) freeze() {
	r.Hide(true)
	browser.Call(r.Browser, cdppage.SetWebLifecycleState, cdppage.SetWebLifecycleStateParams{State: "frozen"})
}

func (r *reader) thaw() {
	browser.Call(r.Browser, cdppage.SetWebLifecycleState, cdppage.SetWebLifecycleStateParams{State: "active"})
	r.Hide(false)
}
