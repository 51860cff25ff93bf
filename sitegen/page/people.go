package page

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// maxHolds is how many GPUs one person's page lists.
const maxHolds = 100

// holdings gathers what everybody holds, looking at each GPU once.
type holdings struct {
	held   []templates.Hold // the first of them
	more   int              // how many others there are
	newest time.Time        // snapshot among them
}

// holdings gathers what everybody holds. Each GPU is looked at once, however many
// people are on it.
func (v *view) holdings() map[string]*holdings {
	const root = "../../"
	all := make(map[string]*holdings, len(v.people))
	for name := range v.people {
		all[name] = &holdings{}
	}
	now := v.in.Board.GeneratedAt
	for h, g := range v.in.Board.Units() {
		people := peopleOn(g)
		if len(people) == 0 {
			continue
		}
		row := v.row(h, g, true, brief, now, root)
		for _, name := range people {
			u := all[name]
			if u == nil {
				continue
			}
			if len(u.held) == maxHolds {
				u.more++
				continue
			}
			href := hostHref(root, h.Name) + "#" + row.ID
			held := templates.Hold{Where: h.Name + " " + row.Index, Href: href, Row: &row}
			for _, p := range g.Holding() {
				if p.Person == name {
					held.Mine = append(held.Mine, v.process(p, now, rowSays{}))
				}
			}
			u.held = append(u.held, held)
			if h.SnapshotAt.After(u.newest) {
				u.newest = h.SnapshotAt
			}
		}
	}
	return all
}

// peopleOn lists who uses a GPU, left its memory, or has booked it.
func peopleOn(g *board.GPU) []string {
	people := append(g.Users(), board.PeopleOf(g.Left())...)
	for _, name := range g.Bookers() {
		if !slices.Contains(people, name) {
			people = append(people, name)
		}
	}
	return people
}

// maxOwnBookings is how many bookings a person's page lists. The calendar beside it has all.
const maxOwnBookings = 200

// userPages renders the page of everybody who is named anywhere, by path.
func (v *view) userPages() error {
	b := v.in.Board
	users := make(map[string]*board.User, len(b.Users))
	for i := range b.Users {
		users[b.Users[i].Name] = &b.Users[i]
	}
	bookings := b.BookingsByName()
	var uses map[string][]templates.Window
	if v.in.History != nil {
		uses = v.pastUse(v.in.History.Fleet)
	}
	held := v.holdings()
	names := slices.SortedFunc(maps.Keys(v.people),
		func(x, y string) int { return strings.Compare(v.people[x], v.people[y]) })
	for _, name := range names {
		p := v.userPage(name, users[name], held[name])
		p.Use = uses[name]
		list := bookings[name]
		if p.BookingsMore = len(list) - maxOwnBookings; p.BookingsMore > 0 {
			v.sortByWeek(list)
			list = list[:maxOwnBookings]
		}
		for _, bk := range list {
			p.Bookings = append(p.Bookings, v.booking(bk, b.GeneratedAt, "../../"))
		}
		if err := v.put(p.Frame, templates.User(p)); err != nil {
			return err
		}
	}
	return nil
}

// userPage is the page of one person; user is nil for somebody who holds nothing.
func (v *view) userPage(name string, user *board.User, held *holdings) *templates.UserPage {
	p := &templates.UserPage{
		Frame: v.frame("user", "users/"+v.people[name]+"/index.html", time.Time{}, v.in.Board.Every()),
		Name:  render.Clean(name), Calendar: v.files("../../") + "users/" + v.people[name] + ".ics",
		Holds: held.held, HoldsMore: held.more,
	}
	if user != nil {
		p.Ask = &templates.Ask{Means: v.words.meansOf(user), Idle: v.countOf(user.Idle, user.Slices.Idle)}
		none := board.Holding{}
		var uses []string
		if user.Holding != none || user.Slices == none {
			uses = append(uses, v.words.T("user.uses", v.words.fraction(user.Used), strconv.Itoa(user.Reserved)))
		}
		if mig := user.Slices; mig != none {
			uses = append(uses, v.words.T("user.slices", v.words.fraction(mig.Used), strconv.Itoa(mig.Reserved)))
		}
		p.Ask.Used = strings.Join(uses, "; ")
		p.Means = user.Mean2h != nil || user.Mean24h != nil || user.Mean1w != nil
	}
	if v.in.History != nil && v.in.History.Fleet != nil {
		p.Costs = v.costs()
	}
	if !held.newest.IsZero() {
		p.Built = v.words.full(held.newest)
	}
	return p
}
