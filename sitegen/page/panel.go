package page

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// endsSoon is how long before its end a booking is said to end soon.
const endsSoon = time.Hour

// maxAlso is how many further bookings in force a row names.
const maxAlso = 3

// bookings fills in the reservation: the one in force, its trouble, and the next.
func (v *view) bookings(r *templates.Row, g *board.GPU, ref time.Time, root string) {
	if g.Booking != nil {
		r.Booking = v.booking(g.Booking, ref, root)
		r.Booking.Maintenance = r.Booking.Maintenance && g.State != board.Drained // which says it already
	}
	if g.Next != nil {
		r.Next = v.booking(g.Next, ref, root)
	}
	if g.Booking != nil && !g.FreeFrom.Equal(g.Booking.Until) {
		r.Free = v.words.near(g.FreeFrom, ref)
	}
	r.AlsoMore = max(0, len(g.Others)-maxAlso) + g.MoreOthers
	for i := range g.Others[:min(len(g.Others), maxAlso)] {
		r.Also = append(r.Also, v.booking(&g.Others[i], ref, root))
	}
	if g.State == board.Contested {
		bookers := g.Bookers()
		others := slices.DeleteFunc(g.Users(), func(person string) bool {
			return slices.ContainsFunc(bookers, func(booker string) bool { return strings.EqualFold(booker, person) })
		})
		r.Not = render.Clean(strings.Join(others, ", "))
	}
}

// panel is how to book a GPU, with its bookings that are due; nil for one that cannot be booked.
func (v *view) panel(
	h *board.Host, g *board.GPU, due []*board.Booking, ref time.Time, root string,
) *templates.Panel {
	target, ok := g.Target()
	if !ok {
		return nil
	}
	start := cmp.Or(g.FreeFrom, ref)
	var next time.Time
	for _, b := range slices.Backward(due) {
		if b.From.After(ref) && !b.From.Before(start) {
			next = b.From
		}
	}
	p := v.howToBook(h.Name, target.String(), g.FreeFrom, start, next, root)
	for _, b := range due {
		p.Due = append(p.Due, templates.Due{Name: render.Clean(b.Name), From: iso(b.From), Until: iso(b.Until)})
	}
	return p
}

// howToBook is what to type and to paste, with an example of a time: from the end of what is booked now, two days or
// until the next booking. A zero from is now, which is ref, and a zero next is none.
func (v *view) howToBook(host, gpu string, from, ref, next time.Time, root string) *templates.Panel {
	const exact = "2006-01-02T15:04Z07:00"
	gpu, name := render.Clean(gpu), v.words.T("book.noname")
	// A day in full, so that the page stays the same until tomorrow.
	end := ref.In(v.words.zone).AddDate(0, 0, 2)
	length, date := "--for 2d", end.Format(time.DateOnly)
	if !next.IsZero() && next.Before(end) {
		date = next.In(v.words.zone).Format(exact)
		length = "--until " + date
	}
	entry := `{ "name": ` + quoted(name)
	if !from.IsZero() {
		begin := booking.WholeMinute(from).In(v.words.zone).Format(exact)
		length = "--from " + begin + " " + length
		entry += `, "from": ` + quoted(begin)
	}
	entry += `, "date": ` + quoted(date) + `, "comment": "" }`
	return &templates.Panel{
		Href:    v.book(root),
		Command: render.Clean(v.in.Site.BookCommand) + " book " + host + ":" + gpu + " " + length + " --name " + name,
		JSON:    quoted(host) + ": { " + quoted(gpu) + ": " + entry + " }",
	}
}

func (v *view) bookPlainPage() *templates.BookPlainPage {
	host, gpu := "gpu01", "0"
	if hosts := v.in.Board.Hosts; len(hosts) > 0 {
		host = hosts[0].Name
		if len(hosts[0].GPUs) > 0 {
			gpu = strconv.Itoa(hosts[0].GPUs[0].Index)
		}
	}
	f := v.frame("about", "book/index.html", time.Time{}, v.in.Board.Every())
	f.JS = append(f.JS, f.Files+v.js["book"], f.Files+v.js["several"])
	return &templates.BookPlainPage{
		Frame: f, Comments: render.Clean(v.in.Site.CommentsPath),
		Panel:  v.howToBook(host, gpu, time.Time{}, v.in.Board.GeneratedAt, time.Time{}, "../"),
		Models: modelNames(v.in.Board),
	}
}

// due are the bookings of a GPU that are not over, by start. If there are more than a page
// has room for, the last one stands for all others, from the first of them until all are over.
func (v *view) due(h *board.Host, g *board.GPU) []*board.Booking {
	most := min(max(4, hostDue/max(1, h.Totals.GPUs.All+h.Totals.Slices.All)), maxDue)
	var due []*board.Booking
	var rest *board.Booking
	for _, b := range v.booked[h.Name] {
		switch {
		case b.Expired || !b.Covers(g):
		case len(due) < most:
			due = append(due, b)
		case rest == nil:
			rest = &board.Booking{Name: "…", From: b.From, Until: b.Until}
		case b.Until.IsZero() || rest.Until.IsZero():
			rest.Until = time.Time{}
		case b.Until.After(rest.Until):
			rest.Until = b.Until
		}
	}
	if rest != nil {
		due = append(due, rest)
	}
	return due
}

// bookAt is the address of the form for a place.
func bookAt(form, place string) string {
	join := "?"
	if strings.Contains(form, "?") {
		join = "&"
	}
	return form + join + url.Values{"at": {place}}.Encode()
}

// capabilities is book/capabilities.json where no server answers for it.
const capabilities = "{\"booking\": false}\n"

func quoted(s string) string {
	b, _ := json.Marshal(s) // a string always can be
	return string(b)
}

// maxDue is how many bookings a page knows of one GPU, and hostDue of one host. Who books is
// told of all.
const (
	maxDue  = 64
	hostDue = 2048
)
