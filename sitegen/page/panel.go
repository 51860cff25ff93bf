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

func (v *view) panel(h *board.Host, g *board.GPU, ref time.Time, root string) *templates.Panel {
	target, ok := g.Target()
	if !ok {
		return nil
	}
	p := v.howToBook(h.Name, target.String(), ref, root)
	for _, b := range v.due(h, g) {
		p.Due = append(p.Due, templates.Due{Name: render.Clean(b.Name), From: iso(b.From), Until: iso(b.Until)})
	}
	return p
}

// howToBook is what to type and to paste, with an example of a time.
func (v *view) howToBook(host, gpu string, ref time.Time, root string) *templates.Panel {
	gpu, name := render.Clean(gpu), v.words.T("book.noname")
	// A day in full, so that the page stays the same until tomorrow.
	date := ref.In(v.words.zone).AddDate(0, 0, 2).Format(time.DateOnly)
	return &templates.Panel{
		Href:    v.book(root),
		Command: render.Clean(v.in.Site.BookCommand) + " book " + host + ":" + gpu + " --for 2d --name " + name,
		JSON:    quoted(host) + ": { " + quoted(gpu) + `: { "name": ` + quoted(name) + `, "date": ` + quoted(date) + `, "comment": "" } }`,
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
		Frame:    f,
		Comments: render.Clean(v.in.Site.CommentsPath), Panel: v.howToBook(host, gpu, v.in.Board.GeneratedAt, "../"),
		Models: modelNames(v.in.Board), GPUs: v.bookable(),
	}
}

// How a GPU is, for whoever wants to book it.
const (
	isFree  = iota
	isTaken // until its booking ends
	isUsed  // nobody knows until when, or whether it is
	isLost
)

// bookable is what the script chooses from.
func (v *view) bookable() templates.Bookable {
	type kind struct {
		name   string
		memory int64
	}
	data := templates.Bookable{Models: [][2]any{}, Hosts: [][2]any{}}
	models := map[kind]int{}
	for i := range v.in.Board.Hosts {
		h := &v.in.Board.Hosts[i]
		gpus := [][]any{}
		for g := range h.Units() {
			target, ok := g.Target()
			if !ok {
				continue
			}
			k := kind{name: render.Clean(cmp.Or(g.ShortName, g.Name))}
			if g.MemoryTotal != nil {
				k.memory = *g.MemoryTotal
			}
			if _, known := models[k]; !known {
				models[k] = len(data.Models)
				data.Models = append(data.Models, [2]any{k.name, k.memory})
			}
			how := isUsed
			switch {
			case g.State == board.Lost || g.Missing:
				how = isLost
			case g.State == board.Free:
				how = isFree
			case g.State == board.Booked, g.State == board.InUse, g.State == board.Drained && g.Reason == board.ReasonBooking:
				how = isTaken
			}
			gpu := []any{render.Clean(target.String()), models[k], how}
			if due := v.dueOn(h, g); len(due) > 0 {
				gpu = append(gpu, due)
			}
			gpus = append(gpus, gpu)
		}
		data.Hosts = append(data.Hosts, [2]any{h.Name, gpus})
	}
	return data
}

// dueOn are the bookings of a GPU that are not over: from when, until when, whose.
func (v *view) dueOn(h *board.Host, g *board.GPU) (due [][3]any) {
	for _, b := range v.due(h, g) {
		due = append(due, [3]any{max(0, b.From.Unix()), max(0, b.Until.Unix()), render.Clean(b.Name)})
	}
	return due
}

// due are the bookings of a GPU that are not over, by start. If there are more than a page
// has room for, the last one stands for all others, from the first of them until all are over.
func (v *view) due(h *board.Host, g *board.GPU) []*board.Booking {
	most := min(max(4, hostDue/max(1, h.CountUnits())), maxDue)
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
