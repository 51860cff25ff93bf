package page

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// booking is a booking on a page. Times are named relative to ref; root leads to the site's root.
func (v *view) booking(b *board.Booking, ref time.Time, root string) *templates.Booking {
	line := &templates.Booking{
		Host: render.Clean(b.Host), GPUs: strings.Join(b.Labels(), ", "),
		Person: templates.Person{Name: render.Clean(b.Name), Href: v.userHref(root, b.Name)},
		From:   v.words.near(b.From, ref), Until: v.words.near(b.Until, ref),
		Comment: remark(b.Comment), Maintenance: b.Kind == "maintenance",
		Active: b.Active, Expired: b.Expired, Forced: b.Forced, Line: b.Line,
		Soon: b.Active && !b.Until.IsZero() && b.Until.Sub(v.in.Board.GeneratedAt) < endsSoon,
	}
	if b.UUID != "" && line.GPUs == "" {
		line.GPUs = render.Clean(b.UUID)
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
		root := "../"
		if i > 0 {
			root = "../../"
		}
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
			w.List = append(w.List, v.booking(bk, b.GeneratedAt, root))
		}
		for j := 0; j < n && n > 1; j++ {
			page := templates.Where{Text: strconv.Itoa(j + 1)}
			if j != i {
				page.Href = root + bookingsPath(j)
			}
			p.Pages = append(p.Pages, page)
		}
		pages[i] = p
	}
	pages[0].Timeline = v.timeline()
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
	timelineDays = 7
	timelineRow  = 26 // pixels
	timelineRows = 200
	timelineBars = 32   // in one row
	allBars      = 1200 // in all rows, unless each has four
	barComment   = 80   // bytes of a comment
)

// A target is what a row of the timeline shows: a host, a GPU or a slice.
type target struct {
	host string
	gpu  int // -1 for the whole host
	mig  int // which of its slices; -1 for all of it
}

// timeline is the bookings of the next seven days; nil where there are none.
func (v *view) timeline() *templates.Timeline {
	b := v.in.Board
	from := b.GeneratedAt
	to := from.Add(timelineDays * 24 * time.Hour)
	booked := map[target][]*board.Booking{}
	for i := range b.Bookings {
		bk := &b.Bookings[i]
		if !bk.From.Before(to) || !bk.Until.IsZero() && !bk.Until.After(from) {
			continue
		}
		gpus := bk.GPUs
		if len(gpus) == 0 {
			gpus = []int{-1}
		}
		for _, gpu := range gpus {
			k := target{bk.Host, gpu, *cmp.Or(bk.Slice, new(-1))}
			booked[k] = append(booked[k], bk)
		}
	}
	if len(booked) == 0 {
		return nil
	}
	targets := slices.SortedFunc(maps.Keys(booked), func(x, y target) int {
		return cmp.Or(cmp.Compare(x.host, y.host), cmp.Compare(x.gpu, y.gpu), cmp.Compare(x.mig, y.mig))
	})
	t := &templates.Timeline{}
	for m := firstMidnight(from, v.words.zone); m.Before(to); m = m.AddDate(0, 0, 1) {
		t.Days = append(t.Days, templates.Tick{
			X: percent(part(m, from, to)), Text: v.words.date(m), Short: v.words.weekdays[m.Weekday()],
		})
	}
	most := min(timelineBars, max(4, allBars/min(len(targets), timelineRows)))
	for i, k := range targets {
		if i == timelineRows {
			t.More = len(targets) - timelineRows
			break
		}
		list := booked[k]
		slices.SortStableFunc(list, func(x, y *board.Booking) int { return x.From.Compare(y.From) })
		if len(list) > most {
			t.MoreBars += len(list) - most
			list = list[:most]
		}
		t.Rows = append(t.Rows, v.lane(k, list, from, to))
	}
	return t
}

// part is where a moment lies between two others, from 0 to 1.
func part(t, from, to time.Time) float64 { return float64(t.Sub(from)) / float64(to.Sub(from)) }

// lane is one row of the timeline. Bookings that overlap stand below each other.
func (v *view) lane(k target, list []*board.Booking, from, to time.Time) templates.Lane {
	l := templates.Lane{Label: k.host}
	if k.gpu >= 0 {
		one := board.Booking{GPUs: []int{k.gpu}, Slice: list[0].Slice}
		l.Label += " " + one.Labels()[0]
	}
	if v.hosts[k.host] != nil {
		l.Href = hostHref("../", k.host)
		place := k.host
		switch {
		case k.mig >= 0:
			place += ":" + list[0].UUID
		case k.gpu >= 0:
			place += ":" + strconv.Itoa(k.gpu)
		}
		l.Book = bookAt(v.book("../"), place)
	}
	var ends []time.Time // of each level
	var titles []string
	for _, bk := range list {
		begin, end := bk.From, bk.Until
		if begin.Before(from) {
			begin = from
		}
		if end.IsZero() || end.After(to) {
			end = to
		}
		level := slices.IndexFunc(ends, func(e time.Time) bool { return !e.After(begin) })
		if level < 0 {
			level, ends = len(ends), append(ends, end)
		}
		ends[level] = end
		bar := templates.Bar{
			X: percent(part(begin, from, to)), W: percent(max(0.004, part(end, from, to)-part(begin, from, to))),
			Y: 3 + level*(timelineRow-4), H: timelineRow - 6, TextY: 3 + level*(timelineRow-4) + 14,
			Name: render.Clean(bk.Name), Title: v.barTitle(bk), Class: "bk",
		}
		if bk.Kind == "maintenance" {
			bar.Class += " mnt"
		}
		if bk.Until.IsZero() {
			bar.Class += " open"
		}
		l.Bars, titles = append(l.Bars, bar), append(titles, bar.Title)
	}
	l.Text = strings.Join(titles, "; ")
	l.Height = timelineRow + (len(ends)-1)*(timelineRow-4)
	return l
}

// barTitle is a booking in words: who, from when until when, and why.
func (v *view) barTitle(b *board.Booking) string {
	title := render.Clean(b.Name)
	if m := v.words.near(b.From, v.in.Board.GeneratedAt); m != nil {
		title += " " + m.Text
	}
	title += " –"
	if m := v.words.near(b.Until, v.in.Board.GeneratedAt); m != nil {
		title += " " + m.Text
	}
	if b.Comment != "" {
		title += ": " + snapshot.Text(b.Comment, barComment)
	}
	return title
}

// firstMidnight is the first midnight in the zone that is not before t.
func firstMidnight(t time.Time, zone *time.Location) time.Time {
	l := t.In(zone)
	m := time.Date(l.Year(), l.Month(), l.Day(), 0, 0, 0, 0, zone)
	if m.Before(t) {
		m = time.Date(l.Year(), l.Month(), l.Day()+1, 0, 0, 0, 0, zone)
	}
	return m
}
