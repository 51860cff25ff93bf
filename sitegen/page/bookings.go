package page

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// booking is a booking on a page. Times are named relative to ref; root leads to the site's root.
func (v *view) booking(b *board.Booking, ref time.Time, root string) *templates.Booking {
	line := &templates.Booking{
		Host: render.Clean(b.Host), GPUs: cmp.Or(strings.Join(b.Labels(), ", "), render.Clean(b.UUID)),
		Person: templates.Person{Name: render.Clean(b.Name), Href: v.userHref(root, b.Name)},
		From:   v.words.near(b.From, ref), Until: v.words.near(b.Until, ref),
		Comment: remark(b.Comment), Maintenance: b.Kind == "maintenance",
		Active: b.Active, Expired: b.Expired, Forced: b.Forced, Line: b.Line,
		Soon: b.Active && !b.Until.IsZero() && b.Until.Sub(v.in.Board.GeneratedAt) < endsSoon,
	}
	if !strings.EqualFold(b.By, b.Name) {
		line.By = render.Clean(b.By)
	}
	if v.hosts[b.Host] != nil {
		line.HostHref = hostHref(root, b.Host)
	}
	return line
}

// bookingsPages are the pages of all bookings. The first has the picture of the next days.
func (v *view) bookingsPages() []*templates.BookingsPage {
	b := v.in.Board
	listed, more := listedBookings(b)
	v.sortByWeek(listed)
	totals := map[string]int{}
	for _, bk := range listed {
		totals[v.week(bk)]++
	}
	n := max(1, (len(listed)+maxBookings-1)/maxBookings)
	pages := make([]*templates.BookingsPage, n)
	for i := range pages {
		p := &templates.BookingsPage{
			Frame:    v.frame("bookings", bookingsPath(i), b.GeneratedAt, v.in.Board.Every()),
			Since:    v.words.near(b.BookingsStaleSince, b.GeneratedAt),
			Comments: render.Clean(v.in.Site.CommentsPath),
			More:     more,
		}
		for _, bk := range listed[i*maxBookings : min(len(listed), (i+1)*maxBookings)] {
			title := v.week(bk)
			if last := len(p.Weeks) - 1; last < 0 || p.Weeks[last].Title != title {
				p.Weeks = append(p.Weeks, templates.BookingWeek{Title: title, Total: totals[title]})
			}
			w := &p.Weeks[len(p.Weeks)-1]
			w.List = append(w.List, v.booking(bk, b.GeneratedAt, p.Root))
		}
		for j := 0; j < n && n > 1; j++ {
			page := templates.Where{Text: strconv.Itoa(j + 1)}
			if j != i {
				page.Href = p.Root + bookingsPath(j)
			}
			p.Pages = append(p.Pages, page)
		}
		pages[i] = p
	}
	pages[0].Week = v.weekOf(b.GeneratedAt)
	for _, problem := range b.Problems {
		if strings.HasPrefix(problem.Code, "booking:") || problem.Line > 0 {
			pages[0].Problems = append(pages[0].Problems, v.problem(problem, v.hosts[problem.Host], "../", true, true))
		}
	}
	return pages
}

// bookingsPath is the path of a page of the bookings, the first of which is 0.
func bookingsPath(page int) string {
	if page == 0 {
		return "bookings/index.html"
	}
	return fmt.Sprintf("bookings/%d/index.html", page+1)
}

// monday is the first day of the week in which a booking begins.
func (v *view) monday(b *board.Booking) time.Time {
	l := b.From.In(v.words.zone)
	return time.Date(l.Year(), l.Month(), l.Day()-(int(l.Weekday())+6)%7, 0, 0, 0, 0, v.words.zone)
}

// week is the heading below which a booking stands.
func (v *view) week(b *board.Booking) string {
	switch {
	case b.Expired:
		return v.words.T("bookings.past")
	case b.Active:
		return v.words.T("bookings.running")
	}
	return v.words.T("bookings.week", v.words.date(v.monday(b)))
}

// sortByWeek sorts bookings: running ones, those to come by week, past ones; each by host.
func (v *view) sortByWeek(list []*board.Booking) {
	weeks := make(map[*board.Booking]int64, len(list))
	for _, b := range list {
		switch {
		case b.Expired:
			weeks[b] = math.MaxInt64
		case b.Active:
			weeks[b] = math.MinInt64
		default:
			weeks[b] = v.monday(b).Unix()
		}
	}
	slices.SortStableFunc(list, func(x, y *board.Booking) int {
		return cmp.Or(
			cmp.Compare(weeks[x], weeks[y]),
			board.NaturalCompare(x.Host, y.Host),
			x.From.Compare(y.From),
			slices.Compare(x.GPUs, y.GPUs),
		)
	})
}

// listedBookings are the first bookings of each host, and how many others there are.
func listedBookings(b *board.Board) (list []*board.Booking, more int) {
	listed := map[string]int{} // by host
	for i := range b.Bookings {
		bk := &b.Bookings[i]
		if listed[bk.Host]++; listed[bk.Host] > render.MaxListed {
			more++
			continue
		}
		list = append(list, bk)
	}
	return list, more
}

// maxBookings is how many bookings one page lists.
const maxBookings = 700

const (
	weekDays  = 7
	weekLine  = 18            // pixels of a GPU's line
	weekText  = 13            // of them above the foot of its letters
	weekLines = 64            // of one host
	weekBars  = 32            // in one line
	allBars   = 1200          // in all lines
	allParts  = 6000          // of the bands of all hosts, unless each has one a day
	hostParts = 32            // of the band of one host
	useLasts  = 4 * time.Hour // shown of unbooked use, whose end nobody knows
	formTime  = "2006-01-02 15:04-07:00"
)

// A week is the picture of the bookings of all hosts while it is made.
type week struct {
	*view
	span
	booked schedule
	drawn  map[*board.Booking]bool
	parts  int  // of the band of one host
	brief  bool // a band says once of how many GPUs it is
	most   int  // bars of one line
	left   int  // bars that there is room for
	more   int  // lines that there is no room for
}

// A target is what is booked: a host, a GPU or a slice.
type target struct {
	host string
	gpu  int // -1 for the whole host
	mig  int // which of its slices; -1 for all of it
}

// A schedule is the bookings of a span by what they are for.
type schedule map[target][]*board.Booking

// scheduled sorts the bookings of a span by what they are for, and counts them.
func (v *view) scheduled(s span) (booked schedule, n int) {
	booked = schedule{}
	for i := range v.in.Board.Bookings {
		b := &v.in.Board.Bookings[i]
		if !s.shows(b) {
			continue
		}
		n++
		for _, gpu := range b.GPUs {
			k := target{b.Host, gpu, *cmp.Or(b.Slice, new(-1))}
			booked[k] = append(booked[k], b)
		}
		if len(b.GPUs) == 0 && b.UUID == "" {
			k := target{b.Host, -1, -1}
			booked[k] = append(booked[k], b)
		}
	}
	return booked, n
}

// whole are the bookings of a host with all of its GPUs.
func (s schedule) whole(h *board.Host) []*board.Booking { return s[target{h.Name, -1, -1}] }

// of are the bookings of a unit and of the GPU that it is a part of, by start, without those of its host.
func (s schedule) of(h *board.Host, g *board.GPU) []*board.Booking {
	list := s[target{h.Name, g.Index, -1}]
	if g.Slice != nil {
		list = slices.Concat(list, s[target{h.Name, g.Index, g.Slice.Index}])
		sortByStart(list)
	}
	return list
}

// weekOf is the picture of the bookings from the midnight before now on; nil without hosts.
func (v *view) weekOf(now time.Time) *templates.Week {
	hosts := v.in.Board.Hosts
	if len(hosts) == 0 {
		return nil
	}
	l := now.In(v.words.zone)
	midnight := time.Date(l.Year(), l.Month(), l.Day(), 0, 0, 0, 0, v.words.zone)
	w := &week{
		view: v, drawn: map[*board.Booking]bool{}, left: allBars,
		span: span{
			from: midnight, now: now, until: midnight.AddDate(0, 0, weekDays), phone: 240, narrow: 490, wide: 990,
		},
		parts: min(hostParts, max(weekDays, allParts/len(hosts))), brief: len(hosts) > denseHosts,
	}
	if w.brief {
		w.left = allBars / 2
	}
	booked, shown := v.scheduled(w.span)
	w.booked = booked
	lines := 0
	for i := range hosts {
		if len(v.booked[hosts[i].Name]) > 0 {
			lines += hosts[i].Totals.GPUs.All + hosts[i].Totals.Slices.All
		}
	}
	w.most = min(weekBars, max(4, allBars/max(1, lines)))

	t := &templates.Week{
		From: iso(w.from), Until: iso(w.until), Now: percent(w.at(now)), Clock: l.Format("15:04"), Booked: shown > 0,
	}
	for i := range weekDays {
		day := midnight.AddDate(0, 0, i)
		t.Days = append(t.Days, templates.WeekDay{
			X: percent(w.at(day)), W: percent(w.at(day.AddDate(0, 0, 1)) - w.at(day)), Free: day.Weekday()%6 == 0,
			Text: v.words.date(day), Short: v.words.weekdays[day.Weekday()],
		})
	}
	w.groups(t, hosts)
	t.More, t.MoreBars = w.more, shown-len(w.drawn)
	return t
}

// groups are the hosts below the names of their groups; without groups, many are below their models.
func (w *week) groups(t *templates.Week, hosts []board.Host) {
	byModel := len(hosts) > rowHosts && !slices.ContainsFunc(hosts, func(h board.Host) bool { return h.Group != "" })
	place, all, open := map[string]int{}, map[int]count{}, map[int]count{} // of the groups, of hosts without bookings
	for i := range hosts {
		h := &hosts[i]
		name := render.Clean(h.Group)
		if byModel && len(h.Models) > 0 {
			name = w.words.model(h.Models[0].Name, h.Models[0].MemoryTotal)
		}
		at, known := place[name]
		if !known {
			at = len(t.Groups)
			place[name], t.Groups = at, append(t.Groups, templates.WeekGroup{Name: name})
		}
		g := &t.Groups[at]
		silent := h.State != board.Up && h.State != board.Maintenance
		if silent || h.State == board.Maintenance || w.hasBookings(h) {
			g.Hosts = append(g.Hosts, w.host(h, silent))
			continue
		}
		free := templates.Where{Text: title(h), Href: hostHref("../", h.Name)}
		if link, _ := w.bookFrom(h); link != "" {
			free.Href = link
		}
		g.Without = append(g.Without, free)
		all[at] = all[at].plus(count{h.Totals.GPUs.All, h.Totals.Slices.All})
		open[at] = open[at].plus(count{h.Totals.GPUs.Free(), h.Totals.Slices.Free()})
		g.Free = w.words.T("bookings.without", open[at], all[at])
	}
}

func (w *week) hasBookings(h *board.Host) bool {
	return slices.ContainsFunc(w.view.booked[h.Name], w.shows)
}

// host is the band of a host, with the lines of its GPUs below it where it has bookings.
func (w *week) host(h *board.Host, silent bool) templates.WeekHost {
	out := templates.WeekHost{
		ID: "_week-" + h.Name, Title: title(h), Href: hostHref("../", h.Name), Open: w.rowed, Silent: silent,
	}
	switch {
	case silent:
		out.Why = w.words.T("bookings.never")
		if m := w.words.near(h.SnapshotAt, w.now); m != nil {
			out.Why = w.words.T("bookings.silent", m.Text)
		}
	case h.State == board.Maintenance:
		out.Why = strings.TrimSuffix(w.words.T("maintenance")+" · "+render.Clean(h.Note), " · ")
	default:
		out.Band = w.band(h)
		if out.Book, out.Label = w.bookFrom(h); out.Book != "" {
			out.Label = w.words.T("bookings.book", out.Label)
		}
	}
	if w.hasBookings(h) {
		w.lines(&out, h)
	}
	return out
}

func sortByStart(list []*board.Booking) {
	slices.SortStableFunc(list, func(x, y *board.Booking) int { return x.From.Compare(y.From) })
}

// usable reports whether a GPU is known to be there for whoever books it.
func usable(g *board.GPU) bool {
	return g.State != board.Lost && g.State != board.Unknown && !g.Missing &&
		(g.State != board.Drained || g.Reason == board.ReasonBooking)
}

// bookFrom is the address of the form for that GPU of a host which is free first, and the name of the GPU; "" for none.
func (w *week) bookFrom(h *board.Host) (href, label string) {
	var first *board.GPU
	from, whole, runs := w.until, w.taken(w.booked.whole(h)), false
	for g := range h.Units() {
		if _, ok := g.Target(); !ok || !usable(g) {
			continue
		}
		own := w.taken(w.booked.of(h, g))
		begin := openFrom(w.now, whole, own)
		used := begin.Equal(w.now) && g.State != board.Free
		if used {
			begin = openFrom(w.now.Add(useLasts), whole, own)
		}
		if begin.Before(from) {
			first, from, runs = g, begin, used
		}
	}
	if first == nil {
		return "", ""
	}
	href = bookAt(w.book("../"), board.Unit{Host: h, GPU: first}.String())
	if from.After(w.now) && !runs {
		href += "&from=" + url.QueryEscape(from.In(w.words.zone).Format(formTime))
	}
	return href, title(h) + " " + first.Label()
}

// band is how many GPUs of a host are free at each time of the week: now as the board says, else by the bookings.
func (w *week) band(h *board.Host) (band []templates.WeekPart) {
	parts := w.free(h)
	for _, step := range []time.Duration{6 * time.Hour, 12 * time.Hour, 24 * time.Hour} {
		if len(parts) > w.parts {
			parts = w.coarse(parts, step)
		}
	}
	all := count{h.Totals.GPUs.All, h.Totals.Slices.All}
	named := false
	for _, p := range parts {
		begin, end := w.at(p.from), w.at(p.until)
		text := begin
		if now := w.at(w.now); text < now {
			text = min(now, end)
		}
		out := templates.WeekPart{
			X: percent(begin), TextX: percent(text), Free: p.free.String(),
			Class: fmt.Sprint(
				"free", (8*(p.free.gpus+p.free.slices)+all.gpus+all.slices-1)/max(1, all.gpus+all.slices),
			),
		}
		if !named {
			out.Of = w.words.Count(p.free.gpus+p.free.slices, "bookings.of", all)
		}
		if p.off {
			out.Free, out.Of = "", w.words.T("maintenance")
		}
		out.Fits = w.fits(textWidth(out.Free)+barGap, end-text)
		out.OfFits = w.fits(textWidth(out.Free+out.Of)+barGap, end-text)
		if w.brief && out.OfFits != noRoom {
			named = true
		}
		band = append(band, out)
	}
	return band
}

// listed are the bookings that the line of a GPU shows, by start, and what runs there unbooked.
func (w *week) listed(h *board.Host, g *board.GPU) []*board.Booking {
	whole, own := w.booked.whole(h), w.booked.of(h, g)
	list := slices.Concat(whole[:min(len(whole), w.most)], own[:min(len(own), w.most)])
	if owners := g.Owners(); g.State == board.Busy && len(owners) > 0 && !g.Since.IsZero() {
		from := g.Since
		for _, b := range list {
			if end := w.end(b); !end.After(w.now) && end.After(from) {
				from = end
			}
		}
		list = append(list, &board.Booking{Name: w.words.owner(owners[0]), From: from, Until: w.now, Kind: unbooked})
	}
	sortByStart(list)
	return list[:min(len(list), w.most)]
}

// lines are the GPUs of a host with their bars. Equal ones of GPUs that follow each other are one.
func (w *week) lines(out *templates.WeekHost, h *board.Host) {
	var bars []templates.Bar
	var above []bar // of the line above, while it has one level
	var places, names []string
	drawn := map[*board.Booking]bool{}
	count, y := 0, 0
	for g := range h.Units() {
		if count++; count > weekLines {
			continue
		}
		line, levels := w.bars(w.listed(h, g), w.span)
		if levels = max(1, levels); levels > 1 {
			above = nil
		}
		out.Labels = append(out.Labels, templates.WeekLabel{Y: y + weekText, Text: g.Label()})
		for i := range line {
			b := &line[i]
			drawn[b.of] = b.of.Kind != unbooked
			j := slices.IndexFunc(above, func(o bar) bool { return alike(o.of, b.of) && drawn[b.of] })
			if j >= 0 {
				b.place = above[j].place
				bars[b.place].H += weekLine
				continue
			}
			b.Y, b.H, b.place = y+b.level*weekLine+1, weekLine-3, len(bars)
			if b.of.Kind == unbooked {
				b.Y, b.H = b.Y+6, 4
			}
			bars = append(bars, b.Bar)
			if !slices.Contains(names, b.Name) {
				names = append(names, b.Name)
			}
		}
		if above = line; levels > 1 {
			above = nil
		}
		place := "-"
		if t, ok := g.Target(); ok && usable(g) {
			place = render.Clean(t.String())
		}
		places, y = append(places, slices.Repeat([]string{place}, levels)...), y+levels*weekLine
	}
	w.more += max(0, count-weekLines)
	if len(bars) > w.left {
		out.Labels = nil
		return
	}
	w.left -= len(bars)
	for b, booked := range drawn {
		if booked {
			w.drawn[b] = true
		}
	}
	out.Bars, out.Height, out.Places = bars, y, strings.Join(places, " ")
	out.Text = title(h) + ": " + strings.Join(names, ", ")
}
