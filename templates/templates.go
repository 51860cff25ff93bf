// Package templates is what the site looks like: its pages as templ components,
// and CSS, JavaScript, SVG and words as data.
package templates

import (
	"embed"
	"io/fs"
)

//go:generate go tool -modfile=../tools/go.mod templ fmt -log-level error .
//go:generate go tool -modfile=../tools/go.mod templ generate -log-level error -include-version=false

//go:embed *.css *.svg *.txt words/*.json script/*.js
var embedded embed.FS

// Files returns style, script, pictures and words.
func Files() fs.FS { return embedded }

// Script returns the names of the parts of the one script, in their order: each
// sees what those before it have named, and only start runs when all are there.
func Script() []string {
	return []string{
		"script/words.js", "script/page.js", "script/language.js", "script/time.js", "script/copy.js", "script/tip.js", "script/search.js", "script/rows.js",
		"script/bookings.js", "script/finder.js", "script/sort.js", "script/tools.js",
		"script/renew.js", "script/book.js", "script/chart.js", "script/keys.js", "script/start.js",
	}
}
