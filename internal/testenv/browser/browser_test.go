package browser

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestTestsShareAChromium and nothing else: not what a page has stored, nor the size of the window.
func TestTestsShareAChromium(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1"})
	}))
	defer site.Close()
	process := 0
	for width, height := range map[int]int{1280: 1000, 900: 700} {
		b := Start(t, width, height)
		if process == 0 {
			process = b.Process()
		}
		if b.Process() != process {
			t.Errorf("there are processes %d and %d", process, b.Process())
		}
		b.Open(site.URL)
		got := b.Value(`[localStorage.length, document.visibilityState, document.hasFocus()].join(" ")`)
		if got != "0 visible true" {
			t.Errorf("a new window has %s", got)
		}
		if w, h := Eval[int](b, "outerWidth"), Eval[int](b, "outerHeight"); w != width || h != height {
			t.Errorf("a window of %d by %d is %d by %d", width, height, w, h)
		}
		b.Value(`localStorage.setItem("here", "1")`)
	}
	tab := Start(t, 1280, 1000)
	tab.Open(site.URL)
	tab.Open(site.URL)
	if got := tab.Tab(); got.Process() != process {
		t.Error("a tab has a Chromium of its own")
	} else if got.Open(site.URL); got.Value("document.cookie") != "seen=1" {
		t.Error("two tabs do not share what they have stored")
	}
}
