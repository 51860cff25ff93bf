// Package templates is the look and the words of the site as data: HTML, CSS,
// JavaScript, SVG and the word list, embedded, and open to a site's own.
package templates

import (
	"embed"
	"io/fs"

	"github.com/spf13/afero"
)

//go:embed *.html *.css *.json *.svg *.txt script/*.js
var embedded embed.FS

// Script returns the names of the parts of the one script, in their order: each
// sees what those before it have named, and only start runs when all are there.
func Script() []string {
	return []string{
		"script/words.js", "script/page.js", "script/time.js", "script/copy.js", "script/filter.js", "script/sort.js", "script/tools.js",
		"script/renew.js", "script/book.js", "script/chart.js", "script/keys.js", "script/start.js",
	}
}

// Files returns the templates as they were built in.
func Files() fs.FS { return embedded }

// Under returns the built-in templates with a site's own laid over them: a file
// that own has is taken from there, every other from the program. Nil stands
// for a site without its own.
func Under(own afero.Fs) fs.FS {
	if own == nil {
		return embedded
	}
	return afero.NewIOFS(afero.NewCopyOnWriteFs(afero.FromIOFS{FS: embedded}, afero.NewReadOnlyFs(own)))
}
