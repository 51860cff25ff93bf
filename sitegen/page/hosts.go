package page

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/a-h/templ"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// newFile renders a page, which lies where its frame says.
func (v *view) newFile(f templates.Frame, page templ.Component) (render.File, error) {
	path := v.dir + f.Path
	var out bytes.Buffer
	out.Grow(32 << 10)
	if err := page.Render(context.Background(), &out); err != nil {
		return render.File{}, fmt.Errorf("rendering %s: %w", path, err)
	}
	return render.NewFile(path, out.Bytes()), nil
}

// renderHosts renders the pages of every host in parallel, and returns their cards in order.
func (v *view) renderHosts() ([]*templates.Card, error) {
	hosts := v.in.Board.Hosts
	cards := make([]*templates.Card, len(hosts))
	err := render.InParallel(len(hosts), func(i int) error {
		cards[i] = v.lineOf(&hosts[i])
		files, err := v.hostFiles(&hosts[i])
		if err != nil {
			return err
		}
		return v.in.Put(files...)
	})
	return cards, err
}

// hostFiles are the pages of one host.
func (v *view) hostFiles(h *board.Host) ([]render.File, error) {
	p := v.hostPage(h)
	var beside *templates.HostHistoryPage
	kept := p.Past && v.in.History.Kept[h.Name]
	if p.Past {
		p.Charts, beside = v.hostCharts(h, kept)
	}
	page, err := v.newFile(p.Frame, templates.Host(p))
	if kept {
		return []render.File{page, {Path: render.ChartsPath(v.dir, h.Name), Kept: true}}, err
	}
	if err != nil || beside == nil {
		return []render.File{page}, err
	}
	history, err := v.newFile(beside.Frame, templates.HostHistory(beside))
	return []render.File{page, history}, err
}

// hostPage is the page of one host, without its charts.
func (v *view) hostPage(h *board.Host) *templates.HostPage {
	const root = "../../"
	p := &templates.HostPage{
		Frame:    v.frame("host", "hosts/"+h.Name+"/index.html", h.SnapshotAt, max(h.Interval, v.in.Board.Every())),
		Card:     v.card(h, whole, v.ref(h), root),
		Calendar: v.files(root) + "hosts/" + h.Name + ".ics",
		JSON:     v.files(root) + "api/v1/hosts/" + h.Name + ".json",
		Past:     v.in.History != nil,
	}
	p.Note = v.markdown(v.in.HostNotes[h.Name])
	add := func(name, value string) {
		if value != "" {
			p.Facts = append(p.Facts, templates.Fact{Name: name, Value: value})
		}
	}
	add(v.words.T("fact.driver"), render.Clean(h.Driver))
	add(v.words.T("fact.cuda"), render.Clean(h.CUDA))
	add(v.words.T("fact.os"), render.Clean(h.Node.OS))
	add(v.words.T("fact.kernel"), render.Clean(h.Node.Kernel))
	if h.Node.UptimeSeconds != nil {
		add(v.words.T("fact.uptime"), v.words.length(time.Duration(*h.Node.UptimeSeconds)*time.Second))
	}
	for _, m := range p.Card.Meters {
		add(strings.TrimSpace(v.words.T("meter."+m.Key)+" "+m.Name), m.More)
	}
	add(v.words.T("fact.datacenter"), render.Clean(h.Datacenter))
	for _, i := range h.Node.Interfaces {
		add(render.Clean(i.Name), render.Clean(strings.Join(i.Addrs, ", ")))
	}
	for _, u := range h.Node.DiskUsers {
		add(render.Clean(u.User)+" · "+render.Clean(u.Path), v.words.quantity(v.words.gib(u.Used), "gib"))
	}
	return p
}
