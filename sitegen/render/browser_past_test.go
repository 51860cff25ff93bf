package render

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

const shownPanes = `[...document.querySelectorAll(".pane")].map((p, i) => p.offsetParent ? i : "").join("")`

// hover moves the pointer to a part of a chart and returns what the tip says.
const hover = `(part => {
	const s = [...document.querySelectorAll("svg.ch.wide")].find(s => s.getBoundingClientRect().width > 0), b = s.getBoundingClientRect();
	s.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: b.left + b.width * part, clientY: b.top + 5 }));
	return document.querySelector(".tip").textContent;
})`

func TestBrowserPast(t *testing.T) {
	in := remembered(testFleet())
	atlas := in.History.Hosts["atlas"].Spans[0].GPUs[pastKey(&in.Board.Hosts[0].GPUs[0])]
	atlas[PastUtilization][0], atlas[PastUtilization][95] = 37, 84
	dir := siteDir(t, in)
	b := openBrowser(t, fleetNow.Add(14*time.Second))
	b.Do(chromedp.Navigate("file://" + dir + "/hosts/atlas/index.html"))
	expect(t, b, shownPanes, "0")
	expect(t, b, hover+`(0.999).split(" · ").pop()`, "84 %")
	b.Do(chromedp.Navigate("file://" + dir + "/hosts/atlas/history/index.html#_span0"))
	expect(t, b, shownPanes, "0")
	expect(t, b, hover+`(0.001).split(" · ").pop()`, "37 %")
	expect(t, b, hover+`(0.999).split(" · ").pop()`, "84 %")
	expect(t, b, hover+`(0.42).split(" · ").pop()`, "unknown")
	expect(t, b, `(document.dispatchEvent(new PointerEvent("pointermove")), document.querySelector(".tip").hidden)`, "true")
	b.Do(chromedp.Click("label[for=_span1]"))
	expect(t, b, shownPanes, "1")
	b.Do(chromedp.Navigate("file://" + dir + "/history/index.html"))
	expect(t, b, shownPanes, "15") // seven days of the fleet, and of its people
	for _, width := range []int64{1280, 320} {
		b.Do(chromedp.EmulateViewport(width, 900))
		for _, page := range []string{"history/index.html", "hosts/atlas/index.html", "hosts/atlas/history/index.html", "users/mira/index.html"} {
			b.Do(chromedp.Navigate("file://" + dir + "/" + page))
			expect(t, b, `document.documentElement.scrollWidth <= innerWidth`, "true")
		}
	}
	// Nothing of this needs the script.
	b.Scripts(false)
	b.Do(chromedp.Navigate("file://"+dir+"/hosts/atlas/history/index.html"), chromedp.Click("label[for=_span3]"))
	b.Scripts(true)
	expect(t, b, shownPanes, "3")
	b.Quiet("file://" + dir)
}
