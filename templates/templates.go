// Package templates is the look and the words of the site as data: HTML, CSS,
// JavaScript, SVG and the word list, embedded, and open to a site's own.
package templates

import (
	"embed"
	"io/fs"

	"github.com/spf13/afero"
)

//go:embed *.html *.css *.js *.json *.svg *.txt
var embedded embed.FS

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
