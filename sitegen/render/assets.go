package render

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
)

// assets are the files that pages refer to; those with a hash in their name
// never change, so a browser may keep them for ever.
type assets struct {
	css, js string
	files   []File
}

func readAssets(tmpl fs.FS) (assets, error) {
	var a assets
	add := func(source, path string) error {
		b, err := fs.ReadFile(tmpl, source)
		if err != nil {
			return fmt.Errorf("reading templates: %w", err)
		}
		if path == "" {
			sum := sha256.Sum256(b)
			name, ext, _ := cutLast(source, '.')
			path = "assets/" + name + "." + hex.EncodeToString(sum[:6]) + "." + ext
		}
		a.files = append(a.files, File{Path: path, Content: b})
		return nil
	}
	for _, x := range []struct{ source, path string }{
		{"board.css", ""}, {"board.js", ""},
		{"favicon.svg", "favicon.svg"}, {"favicon-none.svg", "favicon-none.svg"}, {"favicon-old.svg", "favicon-old.svg"},
		{"robots.txt", "robots.txt"},
	} {
		if err := add(x.source, x.path); err != nil {
			return assets{}, err
		}
	}
	a.css, a.js = a.files[0].Path, a.files[1].Path
	return a, nil
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == sep {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}
