package page

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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
	people := slices.Concat(g.Users(), board.PeopleOf(g.Left()), g.Bookers())
	slices.Sort(people)
	return slices.Compact(people)
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
	bookings := b.BookingsByName(v.people)
	uses, held := v.pastUse(), v.holdings()
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
		Holds: held.held, HoldsMore: held.more, Costs: v.costs(),
	}
	if user != nil {
		p.Ask = templates.Ask{Means: v.words.meansOf(user), Idle: v.countOf("index.held", user.Idle, user.Slices.Idle)}
		none := board.Holding{}
		var uses []string
		if user.Holding != none || user.Slices == none {
			uses = append(uses, v.words.T("user.uses", v.words.fraction(user.Used), strconv.Itoa(user.Reserved)))
		}
		if mig := user.Slices; mig != none {
			uses = append(uses, v.words.T("user.slices", v.words.fraction(mig.Used), strconv.Itoa(mig.Reserved)))
		}
		p.Ask.Used = strings.Join(uses, "; ")
	}
	if !held.newest.IsZero() {
		p.Built = v.words.full(held.newest)
	}
	return p
}

const (
	maxPeople = 1000 // on their page
	maxWhere  = 4
)

// peoplePage lists the free GPUs, then the first people in the board's order.
func (v *view) peoplePage() *templates.PeoplePage {
	b, in := v.in.Board, &v.in
	p := &templates.PeoplePage{Frame: v.frame("people", "users/index.html", b.GeneratedAt, b.Every())}
	gpus := b.Totals.GPUs.Free()
	p.Free.Used = cmp.Or(render.WithSlices(gpus, b.Totals.Slices.Free(), strconv.Itoa), "0")
	p.Free.Means = v.words.means(float64(gpus), b.Totals.Slices.All > 0, in.FreeMean2h, in.FreeMean24h, in.FreeMean1w)
	p.More = max(0, len(b.Users)-maxPeople)
	for i := range b.Users[:len(b.Users)-p.More] {
		p.List = append(p.List, v.askOf(&b.Users[i]))
	}
	return p
}

const (
	maxHolders = 16   // people who have a part of their own in the bar of people
	leastUsed  = 0.05 // GPUs; less is what rounding leaves of parts of GPUs
	// How wide the bar is in a window of 1,440 px, and a character and the edges of a part in it, px.
	barWidth, charWidth, edgesWidth = 1280, 7.5, 9
)

// holders are the people who use most GPUs now as parts of a bar, then all others and those who are not known, then what
// is free. A name that does not fit in its part stands below the bar, and a line says that GPUs are idle where words do
// not fit. Slices are not among them.
func (v *view) holders(p *templates.IndexPage) {
	b := v.in.Board
	count := b.Totals.GPUs.ByState
	used := float64(count[board.Busy] + count[board.InUse] + count[board.Contested])
	whole := used + float64(b.Totals.GPUs.Free())
	if used == 0 || len(b.Users) == 0 {
		return
	}
	x := 0.0
	add := func(h templates.Holder, gpus float64) {
		h.X, h.W, h.Count = percent(x/whole), percent(gpus/whole), v.words.float(math.Round(gpus*10)/10, -1)
		h.Title = strings.TrimSpace(h.Name + " " + h.Count)
		fits := func(characters int) bool {
			return gpus/whole*barWidth >= charWidth*float64(characters)+edgesWidth
		}
		brief := utf8.RuneCountInString(h.Title) // a line instead of words
		if h.Idle != "" {
			h.Title += ", " + h.Idle
		}
		x += gpus
		switch {
		case fits(utf8.RuneCountInString(h.Title)):
			h.Class += " fits"
		case fits(brief):
			h.Class += " fits brief"
		}
		p.Holders = append(p.Holders, h)
	}
	users := slices.DeleteFunc(slices.Clone(b.Users), func(u board.User) bool { return u.Used <= 0 })
	slices.SortStableFunc(users, func(a, b board.User) int { return cmp.Compare(b.Used, a.Used) })
	p.HoldersMore = max(0, len(users)-maxHolders)
	others := used
	for _, u := range users[:len(users)-p.HoldersMore] {
		gpus := min(u.Used, others)
		if gpus <= 0 {
			break // what they use is of no state that counts as used
		}
		others -= gpus
		h := templates.Holder{
			Person: templates.Person{Name: render.Clean(u.Name), Href: v.userHref("", u.Name)},
			Class:  v.colorOf(u.Name),
		}
		if u.Idle > 0 {
			h.Idle = v.words.Count(u.Idle, "ask.idle.gpus", strconv.Itoa(u.Idle))
		}
		add(h, gpus)
	}
	p.HolderNames = p.Holders
	if others > leastUsed {
		add(templates.Holder{Person: templates.Person{Name: v.words.T("index.others")}, Class: "person0"}, others)
	}
	if free := b.Totals.GPUs.Free(); free > 0 {
		add(templates.Holder{Person: templates.Person{Name: v.words.T("free")}, Class: "none"}, float64(free))
	}
}

func (v *view) askOf(u *board.User) templates.Ask {
	const root = "../"
	a := templates.Ask{
		Name: render.Clean(u.Name), Href: v.userHref(root, u.Name), Means: v.words.meansOf(u),
		Reserved: render.WithSlices(u.Reserved, u.Slices.Reserved, strconv.Itoa),
		Used:     render.WithSlices(u.Used, u.Slices.Used, v.words.fraction),
	}
	if idle := render.WithSlices(u.Idle, u.Slices.Idle, strconv.Itoa); idle != "" {
		a.Idle = v.words.Count(u.Idle+u.Slices.Idle, "ask.idle.gpus", idle)
	}
	a.WhereMore = max(0, len(u.Where)-maxWhere)
	for _, w := range u.Where[:len(u.Where)-a.WhereMore] {
		a.Where = append(a.Where, templates.Where{Text: w.Host + " " + placesOf(w), Href: hostHref(root, w.Host)})
	}
	return a
}

// placesOf are the labels of what somebody uses on a host.
func placesOf(w board.UserHost) string {
	labels := slices.Clone(w.Slices)
	for _, gpu := range w.GPUs {
		labels = append(labels, strconv.Itoa(gpu))
	}
	slices.SortFunc(labels, board.NaturalCompare)
	return strings.Join(labels, ", ")
}

func (w *words) meansOf(u *board.User) [3]templates.Mean {
	return w.means(u.Used, u.Slices.Used > 0, u.Mean2h, u.Mean24h, u.Mean1w)
}

// means are numbers of the past, each with a trend where the present is well away from it. With slices there is
// none: the past shares their GPU.
func (w *words) means(now float64, slices bool, past ...*float64) (out [3]templates.Mean) {
	for i, mean := range past {
		if mean == nil {
			continue
		}
		out[i] = templates.Mean{Text: w.fraction(*mean), Trend: "same"}
		switch {
		case slices:
			out[i].Trend = ""
		case *mean > now+0.1:
			out[i].Trend = "down"
		case *mean < now-0.1:
			out[i].Trend = "up"
		}
	}
	return out
}

func (w *words) fraction(f float64) string {
	return w.float(math.Round(f*10)/10, 1)
}
