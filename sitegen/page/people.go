package page

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
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
}

// maxHolds is how many GPUs one person's page lists.
const maxHolds = 100

// A heldView is a GPU in which a person has a stake.
type heldView struct {
	Host, HostHref string
	Row            rowView
	Mine           []processView
}

// holdings are the GPUs of one person: those that the person computes on or has
// booked now.
type holdings struct {
	held   []heldView // the first of them
	more   int        // how many others there are
	newest time.Time  // snapshot among them
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
	for i := range v.in.Board.Hosts {
		h := &v.in.Board.Hosts[i]
		for g := range h.Units() {
			people, mine := peopleOn(g)
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
				held := heldView{Host: h.Name, HostHref: root + "hosts/" + h.Name + "/index.html", Row: row}
				for _, p := range mine[name] {
					held.Mine = append(held.Mine, v.process(p, now, root))
				}
				u.held = append(u.held, held)
				if h.SnapshotAt.After(u.newest) {
					u.newest = h.SnapshotAt
				}
			}
		}
	}
	return all
}

// peopleOn lists who computes on a GPU or has booked it, and the processes of each.
func peopleOn(g *board.GPU) (people []string, mine map[string][]*board.Process) {
	mine = map[string][]*board.Process{}
	for i := range g.Processes {
		p := &g.Processes[i]
		if p.Person == "" {
			continue
		}
		if mine[p.Person] == nil {
			people = append(people, p.Person)
		}
		mine[p.Person] = append(mine[p.Person], p)
	}
	if g.Booking != nil && mine[g.Booking.Name] == nil {
		people = append(people, g.Booking.Name)
	}
	return people, mine
}

// userPages renders one page for everybody who is named anywhere, in the order of
// their paths.
func (v *view) userPages(set *press, out *render.Sink) error {
	b := v.in.Board
	users := make(map[string]*board.User, len(b.Users))
	for i := range b.Users {
		users[b.Users[i].Name] = &b.Users[i]
	}
	bookings := map[string][]bookingView{}
	for i := range b.Bookings {
		name := b.Bookings[i].Name
		bookings[name] = append(bookings[name], v.booking(&b.Bookings[i], "../../"))
	}
	var uses map[string][]windowView
	if v.in.History != nil {
		uses = v.pastUse(v.in.History.Fleet)
	}
	held := v.holdings()
	names := slices.SortedFunc(maps.Keys(v.people), func(x, y string) int { return strings.Compare(v.people[x], v.people[y]) })
	var buf bytes.Buffer
	for _, name := range names {
		path := "users/" + v.people[name] + "/index.html"
		page := v.userPage(name, users[name], held[name])
		page.Bookings, page.Use = bookings[name], uses[name]
		buf.Reset()
		if err := set.execute(&buf, "user.html", page); err != nil {
			return fmt.Errorf("rendering %s: %w", path, err)
		}
		if err := out.Put(render.NewFile(path, bytes.Clone(buf.Bytes()))); err != nil {
			return err
		}
	}
	return nil
}

// userPage is the page of one person; user is nil for somebody who holds nothing.
func (v *view) userPage(name string, user *board.User, held *holdings) *userPage {
	p := &userPage{
		page: v.page("user", "../../", time.Time{}, v.interval()), Name: render.Clean(name), Dir: v.people[name],
		Holds: held.held, HoldsMore: held.more,
	}
	if user != nil {
		a := &askView{Used: fraction(user.Used), Idle: user.IdleGPUs, Reserved: strconv.Itoa(user.Reserved)}
		a.means(user.Used, user.Mean2h, user.Mean24h, user.Mean1w)
		p.Ask, p.GiB = a, gib(user.Memory)
		p.Means = user.Mean2h != nil || user.Mean24h != nil || user.Mean1w != nil
	}
	if v.in.History != nil && v.in.History.Fleet != nil {
		energy := v.in.Site.Energy
		p.Money, p.CO2, p.Coin = energy.Price > 0, energy.CO2Grams > 0, render.Clean(energy.Currency)
	}
	if !held.newest.IsZero() {
		p.Built = v.words.full(held.newest)
	}
	return p
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
		Host: render.Clean(b.Host), GPUs: strings.Join(b.Labels(), ", "), Name: render.Clean(b.Name), Href: v.userHref(root, b.Name),
		From: v.words.near(b.From, v.in.Board.GeneratedAt), Until: v.words.near(b.Until, v.in.Board.GeneratedAt), Open: b.Until.IsZero(),
		Comment: remark(b.Comment), Maintenance: b.Kind == "maintenance",
		Active: b.Active, Expired: b.Expired, Soon: v.soon(b), Forced: b.Forced, Line: b.Line,
	}
	if b.UUID != "" && bv.GPUs == "" {
		bv.GPUs = render.Clean(b.UUID)
	}
	if !strings.EqualFold(b.By, b.Name) {
		bv.By = render.Clean(b.By)
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
	More     int // bookings that are not listed
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
		Comments: render.Clean(v.in.Site.CommentsPath), Command: render.Clean(v.in.Site.BookCommand),
		Timeline: v.timeline(), Count: len(b.Bookings),
	}
	hosts := hostsByName(b)
	for _, problem := range b.Problems {
		if strings.HasPrefix(problem.Code, "booking:") || problem.Line > 0 {
			p.Problems = append(p.Problems, v.problem(problem, hosts[problem.Host], root, true, true))
		}
	}
	p.Hosts, p.People, p.More = v.listBookings()
	return p
}

// listBookings lists the first bookings of each host, by host and by person, and
// says how many others there are.
func (v *view) listBookings() (hosts []bookedHost, people []bookedPerson, more int) {
	const root = "../"
	b := v.in.Board
	var order []*board.Booking
	listed := map[string]int{} // by host
	for i := range b.Bookings {
		bk := &b.Bookings[i]
		if listed[bk.Host]++; listed[bk.Host] > render.MaxListed {
			more++
			continue
		}
		order = append(order, bk)
	}
	start := func(x, y *board.Booking) int {
		return cmp.Or(x.From.Compare(y.From), cmp.Compare(joinInts(x.GPUs, ","), joinInts(y.GPUs, ",")))
	}
	slices.SortStableFunc(order, func(x, y *board.Booking) int { return cmp.Or(cmp.Compare(x.Host, y.Host), start(x, y)) })
	for _, bk := range order {
		bv := v.booking(bk, root)
		if n := len(hosts); n == 0 || hosts[n-1].Name != bv.Host {
			hosts = append(hosts, bookedHost{Name: bv.Host, Href: bv.HostHref})
		}
		h := &hosts[len(hosts)-1]
		h.Bookings = append(h.Bookings, bv)
	}
	slices.SortStableFunc(order, func(x, y *board.Booking) int { return cmp.Or(cmp.Compare(x.Name, y.Name), start(x, y)) })
	for _, bk := range order {
		bv := v.booking(bk, root)
		if n := len(people); n == 0 || people[n-1].Name != bv.Name {
			people = append(people, bookedPerson{Name: bv.Name, Href: bv.Href})
		}
		who := &people[len(people)-1]
		who.Bookings = append(who.Bookings, bv)
	}
	return hosts, people, more
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
