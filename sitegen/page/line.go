package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

const maxLineUsers = 8 // people who are named on a host's line

// lineOf is a host's line on the front page, with its rows if there are few hosts.
func (v *view) lineOf(h *board.Host) *templates.Card {
	d := line
	why := v.whyOff(h)
	if v.rowed && why == "" {
		d = usual
	}
	c := v.card(h, d, v.ref(h), "")
	c.Open = d == usual
	c.Late = !v.rowed && !c.Old && v.in.Board.GeneratedAt.Sub(h.SnapshotAt) > 2*cmp.Or(h.Interval, time.Minute)
	if v.rowed {
		c.Why = why
		c.Models = strings.Trim(c.Group+" · "+wholeModels(v.words, h), " ·")
	}
	c.Name, c.Model = v.names[h.Name], v.lineModel(h)
	c.Load = c.Meters
	c.Meters = slices.DeleteFunc(slices.Clone(c.Meters), func(m templates.Meter) bool {
		return m.Key != "cpu" && m.Key != "ram" || !m.Over
	})
	for i := range c.Meters {
		m := &c.Meters[i]
		m.Label = fmt.Sprintf("%s %s\u00a0%s (%s)", v.words.T("meter."+m.Key), m.Text, v.words.T("sign.percent"),
			m.More)
	}
	v.signs(c, h)
	if c.Units.Free == "" && h.State == board.Up {
		c.NextFree = v.words.near(nextFree(h), v.ref(h))
	}
	if c.Open || !c.Old { // a line of a silent host says so instead
		c.Users = v.usersOf(h)
	}
	c.MoreUsers = max(0, len(c.Users)-maxLineUsers)
	c.Users = c.Users[:len(c.Users)-c.MoreUsers]
	return c
}

// whyOff says since when a host is silent, or until when all of it is out of service; "" for any other.
func (v *view) whyOff(h *board.Host) string {
	now := v.in.Board.GeneratedAt
	switch h.State {
	case board.Never:
		return v.words.T("host.never")
	case board.Stale, board.Down:
		if m := v.words.near(h.SnapshotAt, now); m != nil {
			return v.words.T("host.silent", m.Text)
		}
		return v.words.T("host." + string(h.State))
	}
	all := h.Totals.GPUs.All + h.Totals.Slices.All
	if all == 0 || h.Totals.GPUs.ByState[board.Drained]+h.Totals.Slices.ByState[board.Drained] < all {
		return ""
	}
	why := v.words.T("host.maintenance")
	b := h.GPUs[0].Booking
	if b == nil {
		return why
	}
	if m := v.words.near(b.Until, now); m != nil {
		why += " → " + m.Text
	}
	return strings.TrimRight(why+", "+render.Clean(b.Name)+" · "+plainComment(b), " ·")
}

// wholeModels are the models of a host's GPUs, without those of slices where there are others.
func wholeModels(w *words, h *board.Host) string {
	whole := slices.DeleteFunc(slices.Clone(h.Models), func(m board.Model) bool { return m.MIG })
	switch len(whole) {
	case 0, len(h.Models):
		return w.models(h.Models)
	}
	return w.models(whole) + " · MIG"
}

// usersOf is who is on a host, those with the most GPUs first.
func (v *view) usersOf(h *board.Host) []templates.LineUser {
	var users []templates.LineUser
	place := map[string]int{}
	for g := range h.Units() {
		var on []string
		for _, name := range append(g.Users(), g.Bookers()...) {
			on = append(on, render.Clean(name))
		}
		for _, o := range g.Owners() {
			on = append(on, v.words.owner(o))
		}
		for _, o := range g.Left() {
			on = append(on, v.words.T("row.left", v.words.owner(o)))
		}
		for i, who := range on {
			if slices.Contains(on[:i], who) {
				continue
			}
			at, known := place[who]
			if !known {
				at = len(users)
				place[who], users = at, append(users, templates.LineUser{Name: who})
			}
			users[at].GPUs++
		}
	}
	slices.SortStableFunc(users, func(x, y templates.LineUser) int { return cmp.Compare(y.GPUs, x.GPUs) })
	return users
}

// group puts hosts into the inventory's groups; without any, many hosts are grouped by model.
func (v *view) group(p *templates.IndexPage, cards []*templates.Card) {
	byModel := !slices.ContainsFunc(cards, func(c *templates.Card) bool { return c.Group != "" })
	place := map[string]int{}
	for _, c := range cards {
		name := c.Group
		if byModel {
			name = c.Model
		}
		at, known := place[name]
		if !known {
			at = len(p.Groups)
			place[name], p.Groups = at, append(p.Groups, templates.Group{Name: name, Model: c.Model})
		}
		g := &p.Groups[at]
		g.Hosts = append(g.Hosts, c)
		g.GlyphWidth = max(g.GlyphWidth, c.GlyphWidth)
		if c.Model != g.Model {
			g.Model = ""
		}
	}

	for i := range p.Groups {
		g := &p.Groups[i]
		gpus, slices, longest := 0, 0, 0
		for _, c := range g.Hosts {
			gpus, slices = gpus+c.Units.FreeGPUs, slices+c.Units.FreeSlices
			longest = max(longest, len([]rune(c.Name)))
		}
		if free := render.WithSlices(gpus, slices, strconv.Itoa); free != "" {
			g.Free = v.words.Count(gpus+slices, "card.free", free)
		}
		g.NameWidth = nameWidth(longest)
	}
}

// silent names the hosts that do not report.
func (v *view) silent(p *templates.IndexPage, cards []*templates.Card) {
	for _, c := range cards {
		if c.Old {
			p.Silent = append(p.Silent, c.ID)
		}
	}
	p.StaleHosts = len(p.Silent)
	p.SilentMore = max(0, p.StaleHosts-maxSilent)
	p.Silent = p.Silent[:p.StaleHosts-p.SilentMore]
}

// nameWidth is the class of the style sheet for names of up to so many characters.
func nameWidth(characters int) string {
	for _, n := range []int{6, 8, 10, 12, 16} {
		if characters <= n {
			return fmt.Sprint(n)
		}
	}
	return "24"
}

// search is what the script of the front page searches.
func (v *view) search(cards []*templates.Card) templates.Search {
	s := templates.Search{Models: []templates.SearchModel{},
		Hosts: make([]templates.SearchHost, 0, len(v.in.Board.Hosts))}
	models := map[templates.SearchModel]int{}
	for _, state := range board.States() {
		s.States = append(s.States, string(state))
	}
	for i := range v.in.Board.Hosts {
		h := &v.in.Board.Hosts[i]
		words := append([]string{h.Group, string(h.State), h.Owner, h.Note}, h.Tags...)
		if title := title(h); title != h.Name {
			words = append(words, title)
		}
		found := templates.SearchHost{
			ID: h.Name, Words: render.Clean(strings.Join(words, " ")), GPUs: []templates.SearchGPU{},
		}
		if !h.SnapshotAt.IsZero() {
			found.Seen = h.SnapshotAt.Unix()
		}
		for _, m := range cards[i].Load {
			switch m.Key {
			case "cpu":
				found.CPU = m.Text
			case "ram":
				found.Memory = m.Text
			}
		}
		for g := range h.Units() {
			model := templates.SearchModel{v.words.model(g.ShortName, g.MemoryTotal), board.WholeGiB(g.MemoryTotal)}
			place, known := models[model]
			if !known {
				place = len(s.Models)
				models[model], s.Models = place, append(s.Models, model)
			}
			found.GPUs = append(found.GPUs, v.searchGPU(g, slices.Index(s.States, string(g.State)), place))
		}
		s.Hosts = append(s.Hosts, found)
	}
	return s
}

func (v *view) searchGPU(g *board.GPU, state, model int) templates.SearchGPU {
	values := templates.SearchGPU{g.Label(), state, model, v.users(g), "", int64(0), ""}
	if g.Booking != nil {
		values[4], values[6] = render.Clean(g.Booking.Name), snapshot.Text(g.Booking.Comment, barComment)
	}
	if !g.FreeUntil.IsZero() {
		values[5] = g.FreeUntil.Unix()
	}
	for len(values) > 3 && (values[len(values)-1] == "" || values[len(values)-1] == int64(0)) {
		values = values[:len(values)-1]
	}
	return values
}

// users are the people on a GPU, or who left its memory, and their programs, as words to search for.
func (v *view) users(g *board.GPU) string {
	var words []string
	add := func(word string) {
		if word != "" && len(words) < 2*maxNames && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	for _, owner := range append(g.Owners(), g.Left()...) {
		add(v.words.owner(owner))
	}
	for _, program := range g.Programs() {
		add(render.Clean(program))
	}
	for _, p := range g.Holding() {
		if place := p.Place().Name; p.Owner().Name() != "" && place != p.Container { // whom it is not shown of
			add(render.Clean(place))
		}
	}
	if g.IdleFor(v.in.Board.GeneratedAt) > 0 {
		words = append(words, v.words.T("search.idle"), v.words.T("search.allocated"))
	}
	return strings.Join(words, " ")
}

// placeHref leads to the row of a GPU, or of a slice of it: on the front page if that has rows, else on the host's.
func (v *view) placeHref(host string, gpu int, slice *int) string {
	anchor := "#" + v.rowID(host, gpu, slice)
	if v.rowed {
		return anchor
	}
	return hostHref("", host) + anchor
}

// freeDevices is the environment that shows a program the free GPUs, of one vendor; "" for none, or if one is a slice.
func freeDevices(h *board.Host) string {
	var units []board.Unit
	for g := range h.Units() {
		switch {
		case g.State != board.Free:
			continue
		case g.Slice != nil: // which CUDA knows by its UUID alone
			return ""
		}
		units = append(units, board.Unit{Host: h, GPU: g})
	}
	return board.Environment(board.OneVendor(units, 0))
}
