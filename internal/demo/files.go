package demo

import (
	"bytes"
	"embed"
	"text/template"
	"time"
)

//go:embed files
var embedded embed.FS

// render executes a template of the demonstration's own, which cannot fail: tests execute each.
func render(name string, data any, funcs template.FuncMap) []byte {
	var text bytes.Buffer
	_ = template.Must(template.New(name).Funcs(funcs).ParseFS(embedded, "files/"+name)).Execute(&text, data)
	return text.Bytes()
}

// Settings returns the configuration of the web host, whose files are in a directory.
func (f *Fleet) Settings(dir, port, zone string) []byte {
	return render("settings.yml", map[string]any{"Dir": dir, "Port": port, "Zone": zone, "Hosts": f.Hosts()}, nil)
}

// Files returns what the people of the lab have written, by its name in the data directory. The times of bookings
// move by whole days after the start, so that a later visitor sees the same picture.
func (f *Fleet) Files(now time.Time) map[string][]byte {
	all := map[string][]byte{}
	for _, name := range []string{"aliases.csv", "notice.md", "hosts/atlas.md", "hosts/gaia.md"} {
		all[name], _ = embedded.ReadFile("files/" + name)
	}
	day := f.start
	if now.After(day) {
		day = day.Add(now.Sub(day) / (24 * time.Hour) * (24 * time.Hour))
	}
	slice := f.machine("ceres").gpus[2].mig[1].uuid
	all["comments.json"] = render("comments.json", slice, template.FuncMap{"hours": func(n int) string {
		return day.Truncate(time.Hour).Add(time.Duration(n) * time.Hour).Format("2006-01-02 15:04Z") // UTC, as people type it
	}})
	return all
}
