package page

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

type disk = snapshot.Disk

func fill(d disk) float64 {
	if d.Total <= 0 {
		return 0
	}
	return float64(d.Used) / float64(d.Total)
}

// Above these numbers of hosts the front page leaves things to the hosts' own
// pages, so that it stays light: charts and processes, then meters.
const (
	panelHosts = 16 // the front page has the panels for booking, and fine charts
	usualHosts = 60
	denseHosts = 200
)

// A view is what all pages of one generation share.
type view struct {
	in     render.Input
	words  *words
	hosts  map[string]bool
	people map[string]string          // name → directory below users/
	due    map[string][]board.Booking // of each host, those that are not over
	booked map[string][]*board.Booking
	assets assets
	help   *help // nil where the site has no documentation
	// generation is Generation of the board.
	generation string
}

// A page is what every page's frame needs.
type page struct {
	Kind       string // index, host, user, bookings, about, kiosk
	Root       string // leads to the site's root: "" or "../" or "../../"
	Lang       string
	Title, Lab string
	Version    string
	CSS, JS    string
	Icon       string
	Zone       string
	Built      *moment // the moment that the page shows
	Generation string  // the id that page and JSON of one generation share; "" on pages of one host
	Interval   int     // seconds until the next is due
	Demo       bool
	Help       bool // the site has the documentation
}

func (v *view) page(kind, root string, built time.Time, interval time.Duration) page {
	s := v.in.Site
	p := page{
		Kind: kind, Root: root, Lang: s.Lang, Title: render.Clean(s.Title), Lab: render.Clean(s.Lab), Version: render.Clean(s.Version),
		CSS: root + v.assets.css, JS: root + v.assets.js, Icon: root + "favicon.svg",
		Demo: v.in.Board.Demo, Help: v.in.Help, Zone: v.words.zoneName(v.in.Board.GeneratedAt),
		Interval: int(interval / time.Second),
	}
	switch kind {
	case "index", "bookings", "kiosk":
		p.Generation = v.generation
	}
	if !built.IsZero() {
		p.Built = v.words.full(built)
		p.Zone, _ = built.In(v.words.zone).Zone()
	}
	return p
}

// A hostView is one card.
type hostView struct {
	ID, Name, Title, Href string
	State                 board.HostState
	Old                   bool // its values are not live
	SSH                   string
	Owner, Note, Check    string
	Group                 string
	Models                string
	Filter                string // the one model of the card, for the filter
	Driver, CUDA          string
	Seen                  *moment
	Interval              int
	Ahead                 bool   // the node's clock is ahead
	Clock                 string // by so much; "" when it is right
	Meters                []meterView
	Tags                  []string
	TagList               string // for the filter, each between bars
	Problems              []problemView
	Rows                  []rowView
	Glyphs                []glyph
	GlyphWidth            int
	Free                  int
	Total                 int
	Blind                 bool // the state of none of its GPUs is known
	Usual                 bool // with charts and processes
	Mixed                 bool // more than one model
	GiB                   int  // of the one model
	Huge                  bool // the page has room for hardly anything
	NoteHTML              safeHTML
	Gone                  *moment
}

// ref is the moment beside which a host's times are named: its own, so that its
// card stays the same while there is no news of it.
func (v *view) ref(h *board.Host) time.Time {
	if h.SnapshotAt.IsZero() {
		return v.in.Board.GeneratedAt
	}
	return h.SnapshotAt
}

// detail is how much of a host the front page shows.
func (v *view) detail() detail {
	if len(v.in.Board.Hosts) > usualHosts {
		return brief
	}
	return usual
}

// A glyph is one GPU in the strip of all.
type glyph struct {
	State board.State
	X     int
}

const glyphStep = 15

// A problemView is one line of the error banner: a sentence of the site's, and
// behind it what the program said.
type problemView struct {
	Code, Message, Where, Href string
	Help                       string // where the code is explained, "" for nowhere
	Detail                     string // "" where the sentence says all of it
	Open                       bool   // there is room for the detail
	Severity                   string // error, warning
}

func (v *view) host(h *board.Host, d detail, ref time.Time, root string) (*hostView, error) {
	hv := &hostView{
		ID: h.Name, Name: h.Name, Title: h.Name, Href: root + "hosts/" + h.Name + "/index.html",
		State: h.State, Old: h.State != board.Up && h.State != board.Maintenance,
		SSH: address(h), Owner: render.Clean(h.Owner), Note: render.Clean(h.Note), Group: render.Clean(h.Group),
		Driver: render.Clean(h.Driver), CUDA: render.Clean(h.CUDA), Interval: int(h.Interval / time.Second),
		Free: h.Free, Total: h.CountUnits(), Usual: d != brief, Seen: v.words.near(h.SnapshotAt, ref),
	}
	if t := render.Clean(h.Title); t != "" {
		hv.Title = t
	}
	hv.Blind = hv.Total > 0
	for g := range h.Units() {
		hv.Blind = hv.Blind && g.State == board.Unknown
	}
	if h.Check != "" && h.Check != "passing" && h.Check != string(h.State) {
		hv.Check = v.words.or("check."+h.Check, render.Clean(h.Check))
	}
	if h.ClockOffset != 0 {
		hv.Ahead, hv.Clock = h.ClockOffset > 0, v.words.length(h.ClockOffset.Abs())
	}
	if !h.GoneSince.IsZero() {
		hv.Gone = v.words.near(h.GoneSince, ref)
	}
	var models []string
	for _, m := range h.Models {
		models = append(models, fmt.Sprintf("%d × %s", m.Total, v.words.model(m.Name, m.MemoryTotal)))
	}
	hv.Models, hv.Mixed = strings.Join(models, " · "), len(h.Models) > 1
	if len(h.Models) == 1 {
		hv.Filter = v.words.model(h.Models[0].Name, h.Models[0].MemoryTotal)
		hv.GiB = wholeGiB(h.Models[0].MemoryTotal)
	}
	if d != brief && !hv.Old { // a load of hours ago says nothing
		hv.Meters = v.words.meters(h, d == whole)
	}
	for _, tag := range h.Tags {
		hv.Tags = append(hv.Tags, render.Clean(tag))
	}
	if len(hv.Tags) > 0 {
		hv.TagList = "|" + strings.ToLower(strings.Join(hv.Tags, "|")) + "|"
	}
	for _, p := range h.Problems {
		hv.Problems = append(hv.Problems, v.problem(p, h, root, false, d == whole))
	}
	hv.Rows = make([]rowView, 0, len(h.GPUs))
	hv.Glyphs = make([]glyph, 0, len(h.GPUs))
	for g := range h.Rows() {
		hv.Rows = append(hv.Rows, v.row(h, g, hv.Mixed, d, ref, root))
	}
	for g := range h.Units() {
		hv.Glyphs = append(hv.Glyphs, glyph{g.State, len(hv.Glyphs) * glyphStep})
	}
	hv.GlyphWidth = max(0, len(hv.Glyphs)*glyphStep-3)
	if d == whole {
		var err error
		if hv.NoteHTML, err = markdown(v.in.HostNotes[h.Name]); err != nil {
			return nil, fmt.Errorf("reading the note on %s: %w", h.Name, err)
		}
	}
	return hv, nil
}

// shellWord reports whether a foreign string may stand behind ssh in a line
// that people copy into a shell.
func shellWord(s string) bool {
	if s == "" || s[0] == '-' {
		return false
	}
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_:@", r)) {
			return false
		}
	}
	return len(s) <= 253
}

// problem makes one line of the error banner. Serious is what makes the whole
// page less than it seems: no hosts, no bookings, a host's data refused. h is
// the host that it is about, or nil.
func (v *view) problem(p snapshot.Problem, h *board.Host, root string, link, open bool) problemView {
	pv := problemView{
		Code: render.Clean(p.Code), Message: render.Clean(v.sentence(&p, h)), Where: render.Clean(p.Where()),
		Help: v.explained(p.Code, root), Severity: "warning", Open: open,
	}
	if detail := render.Clean(p.Message); detail != pv.Message {
		pv.Detail = detail
	}
	area, what, _ := strings.Cut(p.Code, ":")
	if area == "discovery" || area == "bad" || area == "identity" || what == "broken" || what == "unreadable" || what == "emptied" || p.Code == "gpu:hung" {
		pv.Severity = "error"
	}
	if link && v.hosts[p.Host] {
		pv.Href = root + "hosts/" + p.Host + "/index.html"
	}
	return pv
}

// sentence is what the site says of a problem, in its own words. They may name
// {host}, {gpu}, {file}, {line} and {column}; of the host {time} of its last news,
// {clock} by which its clock is off, {interval} and {gpus} that it has; and
// {message}, the program's own words. What is not known of these is a dash.
func (v *view) sentence(p *snapshot.Problem, h *board.Host) string {
	s, ok := v.words.list["code."+p.Code]
	if !ok { // of a newer collector
		s = v.words.list["code"]
	}
	if !strings.Contains(s, "{") {
		return s
	}
	const unknown = "–"
	places := []string{"{host}", cmp.Or(p.Host, unknown), "{file}", cmp.Or(p.File, unknown), "{message}", p.Message}
	number := func(place string, n int, known bool) {
		text := unknown
		if known {
			text = strconv.Itoa(n)
		}
		places = append(places, place, text)
	}
	gpu := 0
	if p.GPU != nil {
		gpu = *p.GPU
	}
	number("{gpu}", gpu, p.GPU != nil)
	number("{line}", p.Line, p.Line > 0)
	number("{column}", p.Col, p.Col > 0)
	time, clock, interval := unknown, unknown, unknown
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
		number("{gpus}", len(h.GPUs), true)
	}
	places = append(places, "{time}", time, "{clock}", clock, "{interval}", interval, "{gpus}", unknown)
	return strings.NewReplacer(places...).Replace(s)
}

// rowID names the row of a GPU, or of a slice of it. A host may be called like
// another host's row; an underscore, which no host name has, keeps the two apart.
func (v *view) rowID(host string, index int, slice *int) string {
	id := v.plainRowID(host, index)
	if v.hosts[id] {
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

func (v *view) plainRowID(host string, index int) string { return host + "-" + strconv.Itoa(index) }

func (v *view) userHref(root, name string) string {
	if dir, ok := v.people[name]; ok {
		return root + "users/" + dir + "/index.html"
	}
	return ""
}

func hostsByName(b *board.Board) map[string]*board.Host {
	hosts := make(map[string]*board.Host, len(b.Hosts))
	for i := range b.Hosts {
		hosts[b.Hosts[i].Name] = &b.Hosts[i]
	}
	return hosts
}
