package page

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gpuboard/internal/testenv/boardtest"
	"gpuboard/internal/testenv/browser"
	"gpuboard/sitegen/render"
)

// TestBrowserWallFitsItsScreen: the screen on a wall shows all of up to 100 hosts at once, and of more than that some in
// turn; each host is shown whole.
func TestBrowserWallFitsItsScreen(t *testing.T) {
	b := openBrowser(t, boardtest.Now.Add(14*time.Second))
	for _, tt := range []struct {
		hosts, pages int
		in           render.Input
	}{
		{9, 1, boardtest.Lab()}, {40, 1, boardtest.Big(40)}, {100, 1, boardtest.Big(100)}, {150, 2, boardtest.Big(150)},
	} {
		dir := siteDir(t, tt.in)
		for _, screen := range [][2]int64{{1920, 1080}, {3840, 2160}} {
			name := fmt.Sprintf("%d hosts at %d x %d", tt.hosts, screen[0], screen[1])
			b.Do(chromedp.EmulateViewport(screen[0], screen[1]), chromedp.Navigate("file://"+dir+"/kiosk/index.html"))
			b.Until("the hosts", `document.getElementById("_wall").dataset.columns > 0`)
			if to := os.Getenv("GPUBOARD_SHOTS"); to != "" {
				b.Clip(filepath.Join(to, fmt.Sprintf("kiosk-%d-%d.png", tt.hosts, screen[0])), screen[0], screen[1])
			}
			high := browser.Eval[int64](b, `Math.max(document.documentElement.scrollHeight, document.body.scrollHeight)`)
			if high > screen[1] {
				t.Errorf("%s: %d pixels high", name, high)
			}
			// A host counts that is wholly on the screen, and not squeezed over another.
			shown := browser.Eval[int](b, `[...document.querySelectorAll(".st:not([hidden])")].filter((host, i, all) => {
				const { bottom, top, left } = host.getBoundingClientRect();
				const clear = all.every((h) => h === host || h.getBoundingClientRect().left !== left
					|| h.getBoundingClientRect().bottom <= top + 1 || h.getBoundingClientRect().top >= bottom - 1);
				return bottom <= innerHeight && clear;
			}).length`)
			all := browser.Eval[int](b, `document.querySelectorAll(".st").length`)
			if pages := (all + shown - 1) / max(1, shown); pages != tt.pages {
				t.Errorf("%s: %d of %d hosts are shown, so there are %d pages, want %d", name, shown, all, pages, tt.pages)
			}
		}
	}
	b.Quiet("file://")
}
