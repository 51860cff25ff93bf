package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// This file has the programs of others that do a part of the same work, for
// whoever has them installed. One that is missing leaves a note.

// peer finds a program, or notes what is not compared.
func (s *suite) peer(name, what string) (string, bool) {
	path, err := exec.LookPath(name)
	if err != nil {
		s.note("%s is not installed: %s is not compared with it.", name, what)
		return "", false
	}
	return path, true
}

// rrd is rrdtool with what a host has: 8 GPUs with 6 values each, every 20
// seconds, a day as they came and means beyond. It returns the processor time of
// one update, of fetching 24 hours for charts, and of drawing one, in ms.
func (s *suite) rrd() (update, fetch, graph float64, err error) {
	rrdtool, err := exec.LookPath("rrdtool")
	if err != nil {
		return 0, 0, 0, err
	}
	const series, step, day = 48, 20, 86400
	file, start := filepath.Join(s.dir, "host.rrd"), noon.Unix()
	create := []string{"create", file, "--step", fmt.Sprint(step), "--start", fmt.Sprint(start)}
	for n := range series {
		create = append(create, fmt.Sprintf("DS:v%d:GAUGE:60:0:U", n))
	}
	create = append(create, fmt.Sprintf("RRA:AVERAGE:0.5:1:%d", 7*day/step),
		fmt.Sprintf("RRA:AVERAGE:0.5:15:%d", 35*day/300), fmt.Sprintf("RRA:AVERAGE:0.5:180:%d", 400*24))
	if _, _, err := program(nil, rrdtool, create...); err != nil {
		return 0, 0, 0, err
	}
	at := start
	line := func() string {
		at += step
		return strconv.FormatInt(at, 10) + strings.Repeat(":"+strconv.FormatInt(at/step%100, 10), series)
	}
	for range day / step / 240 {
		args := []string{"update", file}
		for range 240 {
			args = append(args, line())
		}
		if _, _, err := program(nil, rrdtool, args...); err != nil {
			return 0, 0, 0, err
		}
	}
	for n := range 9 {
		u, _, err := program(nil, rrdtool, "update", file, line())
		if err != nil {
			return 0, 0, 0, err
		}
		if n == 0 || u.ms() < update {
			update = u.ms()
		}
	}
	fetch, err = leastProgram(9, rrdtool, "fetch", file, "AVERAGE", "--start", fmt.Sprint(at-day), "--end",
		fmt.Sprint(at), "--resolution", "300")
	if err != nil {
		return 0, 0, 0, err
	}
	graph, err = leastProgram(5, rrdtool, "graph", filepath.Join(s.dir, "host.png"), "--start", fmt.Sprint(at-day),
		"--end", fmt.Sprint(at), "DEF:v="+file+":v0:AVERAGE", "LINE1:v#000000:v")
	return update, fetch, graph, err
}

// hugoCosts are processor times in ms, and memory in MiB; 0 where there is no Hugo.
type hugoCosts struct {
	hosts     int
	cold, mib float64
}

// hugoRow makes a page of 8 GPUs as large as those were that the targets were
// told against, 7.8 KB.
const hugoRow = `<tr class="gpu state-busy" id="gpu-{{.index}}"><th scope="row"><a href="#gpu-{{.index}}">GPU {{.index}}</a>
<td class="name">{{.name}}<td class="memory"><meter min="0" max="81920" value="{{.used}}" title="{{.used}} MiB of 81920 MiB">{{.used}} MiB</meter> <span class="number">{{.used}} MiB of 81920 MiB</span>
<td class="utilization"><meter min="0" max="100" value="{{.utilization}}" title="{{.utilization}} %">{{.utilization}} %</meter> <span class="number">{{.utilization}} %</span>
<td class="temperature"><span class="number">61 °C</span>
<td class="power"><meter min="0" max="400" value="250" title="250 W of 400 W">250 W</meter> <span class="number">250 W of 400 W</span>
<td class="user"><a class="person" href="/people/{{.user}}/" title="All that {{.user}} has on these machines">{{.user}}</a>
<td class="process"><code>python train.py --user {{.user}} --device {{.index}}</code> <span class="since">for 3 hours</span>
<td class="process"><code>python evaluate.py --user {{.user}} --device {{.index}}</code> <span class="since">for 2 hours</span>
`

// hugos builds a page with a table for each host, and a list of them: the HTML
// alone, without data to read, cards, JSON, text, calendars or .gz files.
func (s *suite) hugos(f *fleet) (hugoCosts, error) {
	if s.hugo.hosts == len(f.names) {
		return s.hugo, nil
	}
	costs := hugoCosts{hosts: len(f.names)}
	hugo, found := s.peer("hugo", "making pages")
	if !found {
		s.hugo = costs
		return costs, nil
	}
	dir := filepath.Join(s.dir, "hugo")
	files := map[string]string{
		"config.toml":                  "baseURL = \"http://gpus.example/\"\ndisableKinds = [\"taxonomy\", \"term\", \"RSS\", \"sitemap\"]\n",
		"layouts/_default/single.html": `<!doctype html><title>{{.Title}}</title><h1>{{.Title}}</h1><table>{{range .Params.gpus}}` + hugoRow + `{{end}}</table>`,
		"layouts/index.html":           `<!doctype html><title>GPUs</title><table>{{range .Site.RegularPages}}<tr><th><a href="{{.RelPermalink}}">{{.Title}}</a>{{range .Params.gpus}}<td>{{.user}}{{end}}{{end}}</table>`,
	}
	for _, name := range f.names {
		var page strings.Builder
		fmt.Fprintf(&page, "{\"title\": %q, \"gpus\": [", name)
		for i, g := range f.Snapshot(name, f.at).GPUs {
			if i > 0 {
				page.WriteByte(',')
			}
			used := int64(0)
			if g.MemoryUsed != nil {
				used = *g.MemoryUsed
			}
			fmt.Fprintf(&page, `{"index": %d, "name": %q, "used": %d, "utilization": %d, "user": "user%02d"}`, g.Index,
				g.Name, used, i, i)
		}
		page.WriteString("]}\n")
		files["content/hosts/"+name+".md"] = page.String()
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return costs, err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return costs, err
		}
	}
	public := filepath.Join(dir, "public")
	for range 3 {
		if err := os.RemoveAll(public); err != nil {
			return costs, err
		}
		u, _, err := program(nil, hugo, "--source", dir, "--destination", public, "--quiet")
		if err != nil {
			return costs, err
		}
		if costs.cold == 0 || u.ms() < costs.cold {
			costs.cold, costs.mib = u.ms(), float64(u.peak)/(1<<20)
		}
	}
	s.hugo = costs
	return costs, nil
}
