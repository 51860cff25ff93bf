package page

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"gpuboard/docs"
	"gpuboard/sitegen/render"
)

// help is the documentation as pages of the site. It depends on the program and
// on how the site looks, never on the fleet.
type help struct {
	files []render.File
	codes map[string]string // area:what, and area alone, by where it is explained
}

// A helpPage is help/NAME/index.html.
type helpPage struct {
	page
	Heading  string
	Contents []helpHeading
	Body     safeHTML
}

// A helpIndex is help/index.html.
type helpIndex struct {
	page
	Groups []helpGroup
}

type helpGroup struct {
	For   string
	Pages []helpLine
}

type helpLine struct{ Href, Title, About string }

// makeHelp renders the documentation as pages of the site.
func (v *view) makeHelp(set *press, files fs.FS, pages []docs.Page) (*help, error) {
	made := &help{codes: map[string]string{}}
	index := helpIndex{page: v.page("help", "../", time.Time{}, v.interval())}
	var out bytes.Buffer
	render := func(path, name string, data any) error {
		out.Reset()
		if err := set.execute(&out, name, data); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		made.files = append(made.files, render.NewFile(path, bytes.Clone(out.Bytes())))
		return nil
	}
	titles := map[string]string{}
	sources := make([][]byte, len(pages))
	for i, p := range pages {
		var err error
		if sources[i], err = fs.ReadFile(files, p.Name+".md"); err != nil {
			return nil, err
		}
		first, _, _ := strings.Cut(string(sources[i]), "\n")
		titles[p.Name+".md"] = strings.TrimPrefix(first, "# ")
	}
	for i, p := range pages {
		doc, err := helpMarkdown(sources[i], titles)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		path := "help/" + p.Name + "/index.html"
		if err := render(path, "help.html", helpPage{v.page("help", "../../", time.Time{}, v.interval()), doc.Heading, doc.Contents, doc.Body}); err != nil {
			return nil, err
		}
		for id := range doc.ids {
			if code, ok := strings.CutPrefix(id, "code-"); ok && p.Name == "troubleshooting" {
				made.codes[code] = path + "#" + id
			}
		}
		if last := len(index.Groups) - 1; last < 0 || index.Groups[last].For != p.For {
			index.Groups = append(index.Groups, helpGroup{For: p.For})
		}
		g := &index.Groups[len(index.Groups)-1]
		g.Pages = append(g.Pages, helpLine{p.Name + "/index.html", doc.Heading, p.About})
	}
	return made, render("help/index.html", "help-index", index)
}

// explained is where the site explains a code, "" if it does not.
func (v *view) explained(code, root string) string {
	if v.help == nil {
		return ""
	}
	area, what, _ := strings.Cut(code, ":")
	for _, key := range []string{area + "-" + what, area} {
		if path, ok := v.help.codes[key]; ok {
			return root + path
		}
	}
	return ""
}
