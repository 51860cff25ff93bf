package page

import (
	"io/fs"
	"strings"
	"time"

	"gpuboard/docs"
	"gpuboard/templates"
)

// putHelp renders the documentation as pages of the site, the same for every fleet.
func (v *view) putHelp() error {
	v.codes = map[string]string{}
	index := &templates.HelpIndexPage{Frame: v.frame("help", "help/index.html", time.Time{}, v.in.Board.Every())}
	titles, pages := map[string]string{}, docs.Pages()
	sources := make([][]byte, len(pages))
	for i, p := range pages {
		sources[i], _ = fs.ReadFile(docs.Files(), p.Name+".md") // embedded: it is there
		first, _, _ := strings.Cut(string(sources[i]), "\n")
		titles[p.Name+".md"] = strings.TrimPrefix(first, "# ")
	}
	for i, p := range pages {
		doc := helpMarkdown(sources[i], titles)
		path := "help/" + p.Name + "/index.html"
		doc.Frame = v.frame("help", path, time.Time{}, v.in.Board.Every())
		if err := v.put(doc.Frame, templates.Help(&doc.HelpPage)); err != nil {
			return err
		}
		for id := range doc.ids {
			if code, ok := strings.CutPrefix(id, "code-"); ok && p.Name == "troubleshooting" {
				v.codes[code] = path + "#" + id
			}
		}
		if last := len(index.Groups) - 1; last < 0 || index.Groups[last].For != p.For {
			index.Groups = append(index.Groups, templates.HelpGroup{For: p.For})
		}
		g := &index.Groups[len(index.Groups)-1]
		g.Pages = append(g.Pages, templates.HelpLink{Href: p.Name + "/index.html", Title: doc.Heading, About: p.About})
	}
	return v.put(index.Frame, templates.HelpIndex(index))
}

// explained is where the site explains a code, "" if it does not.
func (v *view) explained(code, root string) string {
	area, what, _ := strings.Cut(code, ":")
	for _, key := range []string{area + "-" + what, area} {
		if path, ok := v.codes[key]; ok {
			return v.files(root) + path
		}
	}
	return ""
}
