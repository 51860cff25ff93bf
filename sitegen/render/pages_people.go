package render

import (
	"cmp"
	"slices"
	"strconv"
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
	Holds     []*heldView
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

// userPage is the page of one person.
func (v *view) userPage(k *kept, name string, u *keptUser, user *board.User) *userPage {
	p := &userPage{page: k.base, Name: clean(name), Dir: v.people[name], Holds: u.holds, HoldsMore: u.more, Bookings: u.bookings, Use: u.use}
	if user != nil {
		a := &askView{Used: fraction(user.Used), Idle: user.IdleGPUs, Reserved: strconv.Itoa(user.Reserved)}
		a.means(user.Used, user.Mean2h, user.Mean24h, user.Mean1w)
		p.Ask, p.GiB = a, gib(user.Memory)
		p.Means = user.Mean2h != nil || user.Mean24h != nil || user.Mean1w != nil
	}
	if v.in.History != nil && v.in.History.Fleet != nil {
		energy := v.in.Site.Energy
		p.Money, p.CO2, p.Coin = energy.Price > 0, energy.CO2Grams > 0, clean(energy.Currency)
	}
	if !u.newest.IsZero() {
		p.Built = v.words.full(u.newest)
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
	kept := v.ground().bookingsOf(v)
	p.Hosts, p.People = kept.hosts, kept.people
	return p
}

// listBookings lists all bookings by host, and by person.
func (v *view) listBookings() (hosts []bookedHost, people []bookedPerson) {
	const root = "../"
	b := v.in.Board
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
	return hosts, people
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
