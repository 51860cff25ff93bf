// Package templates is what the site looks like: its pages as templ components,
// and CSS, JavaScript, SVG and words as data.
package templates

import (
	"embed"
	"io/fs"
)

//go:generate go tool -modfile=../tools/go.mod templ fmt -log-level error .
//go:generate go tool -modfile=../tools/go.mod templ generate -log-level error -include-version=false

//go:embed *.svg *.png *.txt words/*.json style/*.css script/*.js
var embedded embed.FS

// Files returns style, script, pictures and words.
func Files() fs.FS { return embedded }

// Styles returns the parts of the style sheet. A rule of a later part wins over a rule of
// the same weight in an earlier one.
func Styles() []string {
	return []string{
		"style/base.css", "style/front.css", "style/map.css", "style/host.css", "style/rows.css",
		"style/lists.css", "style/week.css", "style/history.css", "style/kiosk.css", "style/media.css",
		"style/booking.css",
	}
}

// A Script is one script of the site, put together from parts: each sees what those
// before it have named.
type Script struct {
	Name  string
	Parts []string
	Words bool // it has words, so that each language has its own
}

// Scripts returns the scripts of the site. Every page loads the first. The others are
// loaded after it by the pages that need them, and use what start.js gives them. "several" is
// loaded after "book", and uses what command.js gives it. "form" is the only one that the
// booking form loads.
func Scripts() []Script {
	return []Script{
		{"board", []string{
			"script/words.js", "script/page.js", "script/fetch.js", "script/language.js",
			"script/time.js", "script/copy.js", "script/tip.js", "script/search.js",
			"script/rows.js", "script/groups.js", "script/finder.js", "script/sort.js",
			"script/tools.js", "script/renew.js", "script/keys.js", "script/start.js",
		}, true},
		{"book", []string{
			"script/bookwords.js", "script/times.js", "script/command.js", "script/panel.js", "script/actions.js",
			"script/mine.js", "script/you.js", "script/book.js",
		}, true},
		{"several", []string{"script/several.js"}, false},
		{"form", []string{"script/page.js", "script/fetch.js", "script/times.js", "script/form.js"}, false},
		{"bookings", []string{"script/stamp.js", "script/bookings.js"}, false},
		{"chart", []string{"script/chart.js"}, false},
		{"kiosk", []string{"script/kiosk.js"}, false},
	}
}
