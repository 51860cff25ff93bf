package render

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"gpuboard/board"
	"gpuboard/templates"
)

// A Cache remembers what each host looked like at the last generation and what
// was made of it. In a fleet where little happens, nearly all of a generation
// is found there, as long as nobody changes a board that was rendered. The zero
// value is ready to use.
type Cache struct {
	style [32]byte
	alike alike
	set   *press
	hosts map[string]*rendered
	json  map[string]hostJSON
	data  map[string]*hostData
	pages map[string]renderedPage // that belong to no host
	kept  *kept                   // what those of people and of bookings are made of
	due   keptDue
	words *words
	files assets
	help  *help

	calendars sharedCalendars
	past      fleetFiles
	metrics   hostMetrics
}

// renderedPage is a page and what it was made from.
type renderedPage struct {
	data    any
	content []byte
}

// rendered is all that depends on one host alone.
type rendered struct {
	host   *board.Host     // see Cache.unchanged
	idle   []time.Duration // how long its GPUs were idle, as far as it is told
	day    time.Time       // of the generation, where the host has no news
	due    []board.Booking // of its GPUs
	soon   []bool          // which of those end soon
	note   string
	shared []int     // rows of which another host took the id
	view   *hostView // for the front page
	card   []byte
	page   []File // its own
	past   pastInput
	charts []byte
	beside []File // the page of all charts, where there is one
}

// styleOf is a digest of what all hosts' cards share: the templates, the site's
// settings, and how much room there is.
func styleOf(tmpl fs.FS, in Input) [32]byte {
	sum := sha256.New()
	for _, name := range slices.Concat(pageTemplates[:], []string{"words.json", "board.css"}, otherAssets[:], templates.Script()) {
		b, err := fs.ReadFile(tmpl, name)
		fmt.Fprintf(sum, "%s %d %v\n%s", name, len(b), err, b)
	}
	zone := in.Site.Zone.String()
	site := in.Site
	site.Zone = nil
	n := len(in.Board.Hosts)
	fmt.Fprintf(sum, "%+v %t %s %s %t %t %t %t %t", site, in.Help, zone, in.Board.Interval, in.Board.Demo, n > panelHosts, n > usualHosts, n > denseHosts, in.History == nil)
	return [32]byte(sum.Sum(nil))
}

// templates parses the templates, unless the cache has them already. A cache
// that was filled under other circumstances is emptied.
func (v *view) templates(tmpl fs.FS) (*press, error) {
	if v.in.Cache == nil {
		v.in.Cache = &Cache{}
	}
	c := v.in.Cache
	if c.set != nil && c.style == v.style {
		return c.set, nil
	}
	set, err := parsePages(tmpl, v.words)
	if err != nil {
		return nil, err
	}
	*c = Cache{style: v.style, set: set, words: v.words, files: v.assets, alike: c.alike, json: c.json, data: c.data, calendars: c.calendars, past: c.past, metrics: c.metrics}
	return set, nil
}

// renderHosts makes the page and the card of every host, in the board's order,
// with as many hands as there are processors.
// Their files go into out.
func (v *view) renderHosts(set *press, out *sink) ([]*rendered, error) {
	hosts, cache := v.in.Board.Hosts, v.in.Cache
	v.booked = bookedByHost(v.in.Board)
	alike := cache.unchanged(v.in.Board)
	done := make([]*rendered, len(hosts))
	buffers := sync.Pool{New: func() any { return &bytes.Buffer{} }}
	err := inTurn(len(hosts), func(i int) (err error) {
		buf := buffers.Get().(*bytes.Buffer)
		done[i], err = v.renderHost(set, &hosts[i], alike[i], cache.hosts[hosts[i].Name], buf)
		buffers.Put(buf)
		return err
	}, func(i int) error {
		before := cache.hosts[hosts[i].Name]
		if err := out.putOwn(done[i].page, done[i] != before); err != nil {
			return err
		}
		return out.putOwn(done[i].beside, before == nil || !done[i].past.same(&before.past))
	})
	if err != nil {
		return nil, err
	}
	cache.hosts = make(map[string]*rendered, len(hosts))
	for _, r := range done {
		cache.hosts[r.host.Name] = r
	}
	return done, nil
}

func (v *view) renderHost(set *press, h, alike *board.Host, before *rendered, out *bytes.Buffer) (*rendered, error) {
	now := v.comparable(h, alike)
	if before != nil && now.same(before) {
		return before, nil
	}
	execute := func(name string, data any) ([]byte, error) {
		out.Reset()
		if err := set.execute(out, name, data); err != nil {
			return nil, fmt.Errorf("rendering host %s: %w", h.Name, err)
		}
		return bytes.Clone(out.Bytes()), nil
	}
	var err error
	if now.view, err = v.host(h, v.detail(), v.ref(h), ""); err != nil {
		return nil, err
	}
	if now.view.Huge = len(v.in.Board.Hosts) > denseHosts; now.view.Huge {
		for i := range now.view.Rows {
			now.view.Rows[i].Huge = true
		}
	}
	if now.card, err = execute("host-card", now.view); err != nil {
		return nil, err
	}
	now.view.Rows = nil // they are in the card
	page, err := v.hostPage(h)
	if err != nil {
		return nil, err
	}
	frame, err := execute("host.html", page)
	if err != nil {
		return nil, err
	}
	if before != nil && now.past.same(&before.past) {
		now.charts, now.beside = before.charts, before.beside
	} else if err := v.renderPast(now, page, execute); err != nil {
		return nil, err
	}
	parts := [][]byte{frame}
	if page.Charts {
		parts = splice(frame, now.charts)
	}
	now.page = []File{newFile("hosts/"+h.Name+"/index.html", parts...)}
	return now, nil
}

// comparable is a host as it is now, and what else its card and its page show.
func (v *view) comparable(h, alike *board.Host) *rendered {
	r := &rendered{host: alike, note: v.in.HostNotes[h.Name], due: v.due[h.Name], past: v.pastOf(h), idle: make([]time.Duration, len(h.GPUs))}
	for i := range r.due {
		r.soon = append(r.soon, v.soon(&r.due[i]))
	}
	for i := range h.GPUs {
		if v.hosts[v.plainRowID(h.Name, h.GPUs[i].Index)] {
			r.shared = append(r.shared, i)
		}
		r.idle[i] = wholeUnits(h.GPUs[i].IdleFor(v.in.Board.GeneratedAt))
	}
	if h.SnapshotAt.IsZero() {
		// Its times are named beside the generation's; a day makes the difference.
		r.day = v.in.Board.GeneratedAt.Truncate(24 * time.Hour)
	}
	return r
}

// same reports whether two hosts look alike. Idle times are shown in whole units.
func (r *rendered) same(s *rendered) bool {
	return r.host == s.host && r.note == s.note && slices.Equal(r.shared, s.shared) && r.day.Equal(s.day) && slices.Equal(r.idle, s.idle) &&
		slices.Equal(r.soon, s.soon) && r.past.same(&s.past) && equal(r.due, s.due)
}

// wholeUnits cuts a duration to what words.length says of it.
func wholeUnits(d time.Duration) time.Duration {
	switch {
	case d >= 48*time.Hour:
		return d.Truncate(24 * time.Hour)
	case d >= time.Hour:
		return d.Truncate(time.Hour)
	case d >= time.Minute:
		return d.Truncate(time.Minute)
	}
	return d.Truncate(time.Second)
}

// splice returns the parts of a page: each card comes where the page left a slot
// for it. A slot cannot come from anywhere else: text never becomes a tag.
func splice(frame []byte, cards ...[]byte) [][]byte {
	slot := []byte("<slot></slot>")
	parts := make([][]byte, 0, 2*len(cards)+1)
	for _, c := range cards {
		before, after, found := bytes.Cut(frame, slot)
		if !found {
			break
		}
		parts = append(parts, before, c)
		frame = after
	}
	return append(parts, frame)
}
