package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/a-h/templ"
	"github.com/tdewolff/minify/v2"
	"github.com/tdewolff/minify/v2/js"

	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// maxOwn is the size of the largest file of a site's own look.
const maxOwn = 1 << 20

// A look is what all pages of a site have in common: words, style, script and the site's own HTML.
type look struct {
	lang    string
	dir     string // of the pages in this language: "" for the site's first, else as "de/"
	words   *words
	slots   templates.Slots
	css     string            // the path of the style
	js      map[string]string // the paths of the scripts, by name
	scripts []render.File     // those with the words of the language
	files   []render.File     // what pages in every language refer to
}

// readLook reads the built-in look in one language, with the site's own files laid
// over it; own is nil for none. Style and script have a hash in their names: they never change,
// so a browser may keep them for ever.
func readLook(own fs.FS, site render.Site, lang string) (*look, error) {
	if own == nil {
		own = embed.FS{} // an empty one
	}
	if err := checkOwn(own); err != nil {
		return nil, err
	}
	l := &look{lang: lang, js: map[string]string{}}
	if lang != site.Languages[0] {
		l.dir = lang + "/"
	}
	var err error
	if l.words, err = readWords(own, lang, site.Zone); err != nil {
		return nil, err
	}
	for name, slot := range map[string]*templ.Component{
		"head.html": &l.slots.Head, "banner.html": &l.slots.Banner, "footer.html": &l.slots.Footer,
	} {
		html, err := readOwn(own, name)
		if err != nil {
			return nil, err
		}
		*slot = trusted(html)
	}
	ownCSS, err := readOwn(own, "site.css")
	if err != nil {
		return nil, err
	}
	style := hashed("board", "css", append(builtInStyle(), ownCSS...))
	l.css, l.files = style.Path, []render.File{style}
	for _, s := range templates.Scripts() {
		source, err := l.words.fillScript(script(s, len(site.Languages) > 1))
		if err == nil {
			source, err = minifyScript(source)
		}
		if err != nil {
			return nil, err
		}
		file := hashed(s.Name, "js", source)
		l.js[s.Name] = file.Path
		if s.Words {
			l.scripts = append(l.scripts, file)
		} else {
			l.files = append(l.files, file)
		}
	}
	for _, name := range []string{"favicon.svg", "favicon-none.svg", "favicon-old.svg", "favicon-touch.png", "robots.txt"} {
		content, err := readOwn(own, name)
		if err != nil {
			return nil, err
		}
		if content == nil {
			content = builtIn(name)
		}
		l.files = append(l.files, render.NewFile(name, content))
	}
	return l, nil
}

// builtIn is one of the program's own files; nil is none.
func builtIn(name string) []byte {
	content, _ := fs.ReadFile(templates.Files(), name) // embedded: it is there, or is not one of them
	return content
}

func hashed(name, ext string, content []byte) render.File {
	sum := sha256.Sum256(content)
	return render.NewFile("assets/"+name+"."+hex.EncodeToString(sum[:6])+"."+ext, content)
}

// readOwn reads one of the site's own files; nil is none.
func readOwn(own fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(own, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the site's own %s: %w", name, err)
	case !info.Mode().IsRegular() || info.Size() > maxOwn:
		return nil, fmt.Errorf("reading the site's own %s: it is no file of at most %d bytes", name, maxOwn)
	}
	content, err := fs.ReadFile(own, name)
	if err != nil {
		return nil, fmt.Errorf("reading the site's own %s: %w", name, err)
	}
	return content, nil
}

// checkOwn refuses files that would have no effect, and names what to use instead.
func checkOwn(own fs.FS) error {
	entries, err := fs.ReadDir(own, ".")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the site's own look: %w", err)
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case name == "head.html", name == "banner.html", name == "footer.html":
		case strings.HasSuffix(name, ".html"), strings.HasSuffix(name, ".templ"),
			name == "style", name == "words.json", name == "script":
			return fmt.Errorf(
				"reading the site's own look: %s has no effect: pages, style and script cannot be replaced; "+
					"put HTML into head.html, banner.html or footer.html, style into site.css, and words into %s", name,
				wordsFile("en"))
		}
	}
	return nil
}

var cssComment = regexp.MustCompile(`(?s)/\*.*?\*/`)

// builtInStyle puts the style sheet together from its parts, without comments and
// indentation. The minifier changes values of it, and leaves nested rules as they are.
func builtInStyle() []byte {
	var style []byte
	for _, name := range templates.Styles() {
		for line := range bytes.Lines(cssComment.ReplaceAll(builtIn(name), nil)) {
			style = append(style, bytes.TrimSpace(line)...)
		}
	}
	return []byte(cssSpace.Replace(string(style)))
}

// cssSpace takes out what the built-in style has for its readers alone.
var cssSpace = strings.NewReplacer(
	" {", "{", "{ ", "{", " }", "}", "; }", "}", ";}", "}", "; ", ";", ", ", ",", ": ", ":")

// script joins the parts of a script in one function, so that its names are its own.
func script(s templates.Script, languages bool) []byte {
	b := []byte("\"use strict\";\n(function () {\n")
	for _, name := range s.Parts {
		if name != "script/language.js" || languages {
			b = append(append(b, builtIn(name)...), '\n')
		}
	}
	return append(b, "})();\n"...)
}

// minifyScript makes a script small: as it is formatted for readers, it is a third larger
// when compressed.
func minifyScript(source []byte) ([]byte, error) {
	var small bytes.Buffer
	if err := js.Minify(minify.New(), &small, bytes.NewReader(source), nil); err != nil {
		return nil, fmt.Errorf("minifying the built-in script: %w", err)
	}
	return small.Bytes(), nil
}
