package render

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"gpuboard/board"
)

// A userPage is users/<u>/index.html.
type userPage struct {
	page
	Name, Dir string
	Ask       *askView
	GiB       string
	Holds     []heldView
	HoldsMore int
	Bookings  []bookingView
	Means     bool
	Use       []windowView // of this person alone: the first of Users
	Money     bool
	CO2       bool
	Coin      string
	newest    time.Time // of the readings that the page shows
}

// maxHolds is how many GPUs one person's page lists.
const maxHolds = 100

// A heldView is a GPU in which a person has a stake.
type heldView struct {
	Host, HostHref string
	Row            rowView
	Mine           []processView
}

// userPages makes one page for everybody who is named anywhere.
func (v *view) userPages() []*userPage {
	b := v.in.Board
	pages := make(map[string]*userPage, len(v.people))
	list := make([]*userPage, 0, len(v.people))
	for name, dir := range v.people {
		u := &userPage{page: v.page("user", "../../", time.Time{}, v.interval()), Name: clean(name), Dir: dir}
		pages[name] = u
		list = append(list, u)
	}
	slices.SortFunc(list, func(x, y *userPage) int { return cmp.Compare(x.Dir, y.Dir) })
	for i := range b.Users {
		u := &b.Users[i]
		if p := pages[u.Name]; p != nil {
			a := &askView{Used: fraction(u.Used), Idle: u.IdleGPUs, Reserved: joinInts([]int{u.Reserved}, "")}
			a.means(u.Used, u.Mean2h, u.Mean24h, u.Mean1w)
			p.Ask, p.GiB = a, gib(u.Memory)
			p.Means = u.Mean2h != nil || u.Mean24h != nil || u.Mean1w != nil
		}
	}
	for i := range b.Hosts {
		for j := range b.Hosts[i].GPUs {
			v.hold(pages, &b.Hosts[i], &b.Hosts[i].GPUs[j])
		}
	}
	for i := range b.Bookings {
		if p := pages[b.Bookings[i].Name]; p != nil {
			p.Bookings = append(p.Bookings, v.booking(&b.Bookings[i], "../../"))
		}
	}
	v.pastUse(pages)
	for _, p := range list {
		if !p.newest.IsZero() {
			p.Built = v.words.full(p.newest)
		}
	}
	return list
}

func (v *view) hold(pages map[string]*userPage, h *board.Host, g *board.GPU) {
	var stakes []string
	add := func(name string) {
		if name != "" && !slices.Contains(stakes, name) {
			stakes = append(stakes, name)
		}
	}
	for i := range g.Processes {
		add(g.Processes[i].Person)
	}
	if g.Booking != nil {
		add(g.Booking.Name)
	}
	if len(stakes) == 0 {
		return
	}
	const root = "../../"
	ref := v.in.Board.GeneratedAt
	var row *rowView
	for _, name := range stakes {
		p := pages[name]
		if p == nil {
			continue
		}
		if len(p.Holds) == maxHolds {
			p.HoldsMore++
			continue
		}
		if row == nil {
			made := v.row(h, g, true, brief, ref, root)
			row = &made
		}
		held := heldView{Host: h.Name, HostHref: root + "hosts/" + h.Name + "/index.html", Row: *row}
		for i := range g.Processes {
			if g.Processes[i].Person == name {
				held.Mine = append(held.Mine, v.process(&g.Processes[i], ref, root))
			}
		}
		p.Holds = append(p.Holds, held)
		if h.SnapshotAt.After(p.newest) {
			p.newest = h.SnapshotAt
		}
	}
}

// A bookingView is one line of the bookings.
type bookingView struct {
	Host, HostHref string
	GPUs           string // "" for the whole host
	Name, Href     string
	By             string
	From, Until    *moment
	Open           bool
	Comment        safeHTML
	Maintenance    bool
	Active         bool
	Expired        bool
	Soon           bool // it ends within endsSoon
	Forced         bool
	Line           int
}

func (v *view) booking(b *board.Booking, root string) bookingView {
	bv := bookingView{
		Host: clean(b.Host), GPUs: joinInts(b.GPUs, ", "), Name: clean(b.Name), Href: v.userHref(root, b.Name),
		From: v.words.near(b.From, v.in.Board.GeneratedAt), Until: v.words.near(b.Until, v.in.Board.GeneratedAt), Open: b.Until.IsZero(),
		Comment: remark(b.Comment), Maintenance: b.Kind == "maintenance",
		Active: b.Active, Expired: b.Expired, Soon: v.soon(b), Forced: b.Forced, Line: b.Line,
	}
	if b.UUID != "" && bv.GPUs == "" {
		bv.GPUs = clean(b.UUID)
	}
	if !strings.EqualFold(b.By, b.Name) {
		bv.By = clean(b.By)
	}
	if v.hosts[b.Host] {
		bv.HostHref = root + "hosts/" + b.Host + "/index.html"
	}
	return bv
}

// A bookingsPage is bookings/index.html.
type bookingsPage struct {
	page
	Problems []problemView
	Hosts    []bookedHost
	People   []bookedPerson
	Timeline *timeline
	Since    *moment // of the bookings, while comments.json cannot be read
	Comments string
	Command  string
	Count    int
}

type bookedHost struct {
	Name, Href string
	Bookings   []bookingView
}

type bookedPerson struct {
	Name, Href string
	Bookings   []bookingView
}

func (v *view) bookingsPage() *bookingsPage {
	b := v.in.Board
	const root = "../"
	p := &bookingsPage{
		page:     v.page("bookings", root, b.GeneratedAt, v.interval()),
		Since:    v.words.near(b.BookingsStaleSince, b.GeneratedAt),
		Comments: clean(v.in.Site.CommentsPath), Command: clean(v.in.Site.BookCommand),
		Timeline: v.timeline(), Count: len(b.Bookings),
	}
	hosts := hostsByName(b)
	for _, problem := range b.Problems {
		if strings.HasPrefix(problem.Code, "booking:") || problem.Line > 0 {
			p.Problems = append(p.Problems, v.problem(problem, hosts[problem.Host], root, true, true))
		}
	}
	order := make([]*board.Booking, len(b.Bookings))
	for i := range b.Bookings {
		order[i] = &b.Bookings[i]
	}
	start := func(x, y *board.Booking) int {
		return cmp.Or(x.From.Compare(y.From), cmp.Compare(joinInts(x.GPUs, ","), joinInts(y.GPUs, ",")))
	}
	slices.SortStableFunc(order, func(x, y *board.Booking) int { return cmp.Or(cmp.Compare(x.Host, y.Host), start(x, y)) })
	for _, bk := range order {
		bv := v.booking(bk, root)
		if n := len(p.Hosts); n == 0 || p.Hosts[n-1].Name != bv.Host {
			p.Hosts = append(p.Hosts, bookedHost{Name: bv.Host, Href: bv.HostHref})
		}
		h := &p.Hosts[len(p.Hosts)-1]
		h.Bookings = append(h.Bookings, bv)
	}
	slices.SortStableFunc(order, func(x, y *board.Booking) int { return cmp.Or(cmp.Compare(x.Name, y.Name), start(x, y)) })
	for _, bk := range order {
		bv := v.booking(bk, root)
		if n := len(p.People); n == 0 || p.People[n-1].Name != bv.Name {
			p.People = append(p.People, bookedPerson{Name: bv.Name, Href: bv.Href})
		}
		who := &p.People[len(p.People)-1]
		who.Bookings = append(who.Bookings, bv)
	}
	return p
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
