package page

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

const (
	// rowHosts is up to how many hosts the front page has the rows of their GPUs. Of
	// more it has a line each, below which the script puts the rows of the host's own page.
	rowHosts = 12
	// frontRows is up to how many rows of GPUs and slices that has.
	frontRows = 512
	// denseHosts is up to how many hosts a host's page has charts of all metrics, and each band of the week says of
	// how many GPUs it is.
	denseHosts = 200
)

// A view is what all pages of one generation share.
type view struct {
	*look
	in        render.Input
	languages []templates.Language
	hosts     map[string]*board.Host
	people    map[string]string           // name → directory below users/
	booked    map[string][]*board.Booking // of each host, by start
	codes     map[string]string           // area:what, and area alone, by where the documentation explains it
	rowed     bool                        // the front page has the rows of GPUs
	names     map[string]string           // of hosts on their lines, by name
	sizes     map[string]int              // of memory, by family of GPUs
}

// frame is what a page of a kind has around its content. path is where it lies among
// the pages in its language; built is the moment that it shows, zero for none.
func (v *view) frame(kind, path string, built time.Time, interval time.Duration) templates.Frame {
	s := v.in.Site
	root := strings.Repeat("../", strings.Count(path, "/"))
	if path == missingPath {
		root = home(s.BaseURL)
	}
	files := v.files(root)
	zone := ZoneName(v.words.zone, v.in.Board.GeneratedAt)
	f := templates.Frame{
		Words: v.words.Words, Slots: v.slots,
		Kind: kind, Path: path, Root: root, Files: files, Lang: v.lang, Languages: v.languages, Book: v.book(root),
		Title: render.Clean(s.Title), Lab: render.Clean(s.Lab), Version: render.Clean(s.Version),
		CSS: files + v.css, JS: v.scriptPaths(kind, files), Icon: files + "favicon.svg",
		Touch: files + "favicon-touch.png", Demo: v.in.Board.Demo, Help: v.in.Help, Zone: zone, ZoneName: zone,
		Interval: int(interval / time.Second), Clusters: len(v.in.Board.Sites) > 0,
	}
	switch kind {
	case "index", "people", "sites", "bookings", "kiosk":
		f.Generation = v.in.Generation
		f.Next = int(v.in.Board.UntilNext() / time.Second)
	}
	if kind == "help" || path == missingPath { // in one language
		f.Languages = nil
	}
	if !built.IsZero() {
		f.Built = v.words.full(built)
		f.Zone, _ = built.In(v.words.zone).Zone()
	}
	return f
}

// files leads from a page to the site's root; root leads to the pages in its language.
func (v *view) files(root string) string {
	if v.dir == "" {
		return root
	}
	return root + "../"
}

// book leads to the booking form, which is told in which language it is read.
func (v *view) book(root string) string {
	if v.dir == "" {
		return root + "book/index.html"
	}
	return v.files(root) + "book/index.html?lang=" + v.lang
}

// scriptPaths are the scripts that a page of a kind loads. files leads to the site's root.
func (v *view) scriptPaths(kind, files string) []string {
	paths := []string{files + v.js["board"]}
	for _, name := range map[string][]string{
		"index": {"book"}, "host": {"book", "chart"}, "bookings": {"bookings"}, "host-history": {"chart"},
		"history": {"chart"}, "kiosk": {"kiosk"},
	}[kind] {
		paths = append(paths, files+v.js[name])
	}
	return paths
}

// ref is a host's own time, so that its card stays the same while there is no news of it.
func (v *view) ref(h *board.Host) time.Time {
	return cmp.Or(h.SnapshotAt, v.in.Board.GeneratedAt)
}

// hostHref leads to the page of a host. root leads to the site's root.
func hostHref(root, host string) string { return root + "hosts/" + host + "/index.html" }

// title is how a host is called on pages.
func title(h *board.Host) string { return cmp.Or(render.Clean(h.Title), h.Name) }

// card is a host with its GPUs. Times are named relative to ref; root leads to the site's root.
func (v *view) card(h *board.Host, d detail, ref time.Time, root string) *templates.Card {
	c := &templates.Card{
		ID: h.Name, Title: title(h), Href: hostHref(root, h.Name),
		State: string(h.State), Old: h.State != board.Up && h.State != board.Maintenance,
		SSH: address(h), Owner: render.Clean(h.Owner), Note: render.Clean(h.Note), Group: render.Clean(h.Group),
		Units: unitsOf(&h.Totals), Seen: v.words.near(h.SnapshotAt, ref), Gone: v.words.near(h.GoneSince, ref),
	}
	c.Whole, c.Blind = d == whole, len(h.GPUs) > 0
	for g := range h.Units() {
		c.Blind = c.Blind && g.State == board.Unknown
	}
	if h.Check != "" && h.Check != "passing" && h.Check != string(h.State) {
		c.Check = v.words.or("check."+h.Check, render.Clean(h.Check))
	}
	if off := v.words.length(h.ClockOffset.Abs()); h.ClockOffset > 0 {
		c.Clock = v.words.T("card.clock.ahead", off)
	} else if h.ClockOffset < 0 {
		c.Clock = v.words.T("card.clock.behind", off)
	}
	c.Models = v.words.models(h.Models)
	if !c.Old { // a load of hours ago says nothing
		c.Meters = v.words.meters(h, d == whole)
	}
	for _, tag := range h.Tags {
		c.Tags = append(c.Tags, render.Clean(tag))
	}
	if h.Pulled {
		c.Tags = append(c.Tags, v.words.T("card.pulled"))
	}
	for _, p := range h.Problems {
		c.Problems = append(c.Problems, v.problem(p, h, root, false, d == whole))
	}
	if p := h.Unread(); p != nil {
		c.Unread = render.Clean(v.sentence(p, h))
	}
	if d != line {
		c.Devices = freeDevices(h)
		named := mixed(h)
		for g := range h.Rows() {
			c.Rows = append(c.Rows, v.row(h, g, named, d, ref, root))
		}
		if d == usual {
			foldFree(c.Rows)
		}
	}
	return c
}

// foldFree makes one row of the slices of a GPU that are free and of one profile, if nothing else is to be said of
// them. The other rows are hidden until a link or the search shows them.
func foldFree(rows []templates.Row) {
	var first *templates.Row
	for i := range rows {
		r := &rows[i]
		free := r.Part != "" && r.State == string(board.Free) && r.Next == nil && r.Reason == ""
		switch {
		case !free:
			first = nil
		case first == nil || first.Of != r.Of || first.Part != r.Part:
			first = r
			first.Alike = 1
		default:
			first.Alike++
			r.Class += " alike"
		}
	}
}

// mixed reports whether the GPUs of a host are of different models. Slices do not count, and
// the size of the memory is in a column of its own.
func mixed(h *board.Host) bool {
	first := ""
	for g := range h.Rows() {
		if g.Slice != nil {
			continue
		}
		model := family(g.ShortName)
		if first != "" && model != first {
			return true
		}
		first = model
	}
	return false
}

// unitsOf is what a board or a host has, and how many of them are free.
func unitsOf(t *board.Totals) templates.Units {
	return templates.Units{
		GPUs: t.GPUs.All, FreeGPUs: t.GPUs.Free(), Slices: t.Slices.All, FreeSlices: t.Slices.Free(),
		Free: render.WithSlices(t.GPUs.Free(), t.Slices.Free(), strconv.Itoa),
	}
}

// shellWord reports whether a foreign string may stand in a line that people copy into a shell.
func shellWord(s string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:@"
	return s != "" && s[0] != '-' && len(s) <= 253 && strings.Trim(s, plain) == ""
}

// problem makes one line of the error banner. h is the host that it is about, or nil.
func (v *view) problem(p snapshot.Problem, h *board.Host, root string, link, open bool) templates.Problem {
	pv := templates.Problem{
		Code: render.Clean(p.Code), Message: render.Clean(v.sentence(&p, h)), Where: render.Clean(p.Where()),
		Help: v.explained(p.Code, root), Severity: "warning", Open: open,
	}
	if detail := render.Clean(p.Message); detail != pv.Message {
		pv.Detail = detail
	}
	if p.Severe() {
		pv.Severity = "error"
	}
	if link && v.hosts[p.Host] != nil {
		pv.Href = hostHref(root, p.Host)
	}
	return pv
}

// sentence is what the site says of a problem, in its own words. {time} is that of the
// host's last news, {clock} by how much its clock is off, {message} the program's own
// words. What is not known is a dash.
func (v *view) sentence(p *snapshot.Problem, h *board.Host) string {
	s := v.words.or("code."+p.Code, v.words.list["code"]) // the latter for one of a newer collector
	if !strings.Contains(s, "{") {
		return s
	}
	number := func(n int, known bool) string {
		if !known {
			return "–"
		}
		return strconv.Itoa(n)
	}
	gpu, time, clock, interval, gpus := "–", "–", "–", "–", "–"
	if p.GPU != nil {
		gpu = strconv.Itoa(*p.GPU)
	}
	if h != nil {
		if m := v.words.near(h.SnapshotAt, v.ref(h)); m != nil {
			time = m.Text
		}
		if h.ClockOffset != 0 {
			clock = v.words.length(h.ClockOffset.Abs())
		}
		if h.Interval > 0 {
			interval = v.words.length(h.Interval)
		}
		gpus = strconv.Itoa(len(h.GPUs))
	}
	return strings.NewReplacer("{host}", cmp.Or(p.Host, "–"), "{file}", cmp.Or(p.File, "–"), "{message}", p.Message,
		"{gpu}", gpu, "{line}", number(p.Line, p.Line > 0), "{column}", number(p.Col, p.Col > 0),
		"{time}", time, "{clock}", clock, "{interval}", interval, "{gpus}", gpus).Replace(s)
}

// rowID names a row. The underscore, which no host name has, keeps it apart from a host of that name.
func (v *view) rowID(host string, index int, slice *int) string {
	id := host + "-" + strconv.Itoa(index)
	if v.hosts[id] != nil {
		id = host + "_" + strconv.Itoa(index)
	}
	if slice != nil {
		id += "_mig" + strconv.Itoa(*slice)
	}
	return id
}

func (v *view) gpuID(host string, g *board.GPU) string {
	return v.rowID(host, g.Index, g.SliceIndex())
}

func (v *view) userHref(root, name string) string {
	if dir, ok := v.people[name]; ok {
		return root + "users/" + dir + "/index.html"
	}
	return ""
}

// colorOf is the class of a person's colour.
func (v *view) colorOf(name string) string { return "person" + strconv.Itoa(v.in.Board.Colors[name]) }

// owner is a person with a link to their page, or an unknown user.
func (v *view) owner(o snapshot.Owner, root string) templates.Person {
	return templates.Person{Name: v.words.owner(o), Href: v.userHref(root, o.Person)}
}

// owner names a person or an unknown user, safe to show.
func (w *words) owner(o snapshot.Owner) string {
	known := o.Account
	switch o.Place.Kind {
	case snapshot.InContainer, snapshot.InPod, snapshot.InJob:
		known = w.T("who."+o.Place.Kind, cmp.Or(o.Account, "?"), o.Place.Name)
	case snapshot.InUnit:
		known = o.Place.Name
	}
	switch {
	case o.Name() != "":
		return render.Clean(o.Name())
	case known == "":
		return w.T("unknown")
	}
	return w.T("who.unknown", render.Clean(known))
}

// claim says by what somebody is known; who is safe to show.
func (w *words) claim(who string, by snapshot.Source) string {
	if key := "who.by." + string(by); w.list[key] != "" {
		return w.T(key, who)
	}
	return who
}
