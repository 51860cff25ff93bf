package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"

	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// assets are the files that pages refer to; those with a hash in their name
// never change, so a browser may keep them for ever.
type assets struct {
	css, js string
	files   []render.File
}

// otherAssets are those that have their own names.
var otherAssets = [...]string{"favicon.svg", "favicon-none.svg", "favicon-old.svg", "robots.txt"}

func readAssets(tmpl fs.FS, w *words) (assets, error) {
	var a assets
	hashed := func(ext string, content []byte) {
		sum := sha256.Sum256(content)
		a.files = append(a.files, render.NewFile("assets/board."+hex.EncodeToString(sum[:6])+"."+ext, content))
	}
	css, err := fs.ReadFile(tmpl, "board.css")
	if err != nil {
		return a, fmt.Errorf("reading templates: %w", err)
	}
	js, err := script(tmpl)
	if err != nil {
		return a, err
	}
	if js, err = w.fillScript(js); err != nil {
		return a, err
	}
	hashed("css", css)
	hashed("js", slim(js))
	for _, name := range otherAssets {
		b, err := fs.ReadFile(tmpl, name)
		if err != nil {
			return a, fmt.Errorf("reading templates: %w", err)
		}
		a.files = append(a.files, render.NewFile(name, b))
	}
	a.css, a.js = a.files[0].Path, a.files[1].Path
	return a, nil
}

// slim leaves out what only readers of the source need: the space before a line,
// and lines that are a comment. A script in which a line may begin within a text or
// a comment is left as it is.
func slim(js []byte) []byte {
	if bytes.IndexByte(js, '`') >= 0 || bytes.Contains(js, []byte("\\\n")) {
		return js
	}
	out := make([]byte, 0, len(js))
	for line := range bytes.Lines(js) {
		if open := bytes.LastIndex(line, []byte("/*")); open >= 0 && !bytes.Contains(line[open:], []byte("*/")) {
			return js
		}
		line = bytes.TrimLeft(line, " \t")
		if !bytes.HasPrefix(line, []byte("//")) && len(bytes.TrimSpace(line)) > 0 {
			out = append(out, line...)
		}
	}
	return out
}

// script puts the one script together from its parts, inside of one function, so
// that its names are nobody else's.
func script(tmpl fs.FS) ([]byte, error) {
	b := []byte("\"use strict\";\n(function () {\n")
	for _, name := range templates.Script() {
		part, err := fs.ReadFile(tmpl, name)
		if err != nil {
			return nil, fmt.Errorf("reading templates: %w", err)
		}
		b = append(append(b, part...), '\n')
	}
	return append(b, "})();\n"...), nil
}
