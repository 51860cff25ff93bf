package page

import (
	"fmt"
	"io/fs"
	"strings"
	"time"

	"gpuboard/docs"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// help is the documentation as pages of the site, the same for every fleet.
type help struct {
	files []render.File
	codes map[string]string // area:what, and area alone, by where it is explained
}

// makeHelp renders the documentation as pages of the site.
func (v *view) makeHelp(files fs.FS, pages []docs.Page) (*help, error) {
	made := &help{codes: map[string]string{}}
	index := &templates.HelpIndexPage{Frame: v.frame("help", "help/index.html", time.Time{}, v.in.Board.Every())}
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
		frame := v.frame("help", path, time.Time{}, v.in.Board.Every())
		file, err := v.newFile(frame,
			templates.Help(
				&templates.HelpPage{Frame: frame, Heading: doc.Heading, Contents: doc.Contents, Body: doc.Body}))
		if err != nil {
			return nil, err
		}
		made.files = append(made.files, file)
		for id := range doc.ids {
			if code, ok := strings.CutPrefix(id, "code-"); ok && p.Name == "troubleshooting" {
				made.codes[code] = path + "#" + id
			}
		}
		if last := len(index.Groups) - 1; last < 0 || index.Groups[last].For != p.For {
			index.Groups = append(index.Groups, templates.HelpGroup{For: p.For})
		}
		g := &index.Groups[len(index.Groups)-1]
		g.Pages = append(g.Pages, templates.HelpLink{Href: p.Name + "/index.html", Title: doc.Heading, About: p.About})
	}
	file, err := v.newFile(index.Frame, templates.HelpIndex(index))
	made.files = append(made.files, file)
	return made, err
}

// explained is where the site explains a code, "" if it does not.
func (v *view) explained(code, root string) string {
	if v.help == nil {
		return ""
	}
	area, what, _ := strings.Cut(code, ":")
	for _, key := range []string{area + "-" + what, area} {
		if path, ok := v.help.codes[key]; ok {
			return v.files(root) + path
		}
	}
	return ""
}
