package render

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gpuboard/board"
)

// kept is what the pages of people and bookings were made of, so that what did not
// change costs nothing: neither a look at each value of a page, nor making them.
type kept struct {
	// The ground on which all of it stands: what every page of a person begins
	// with, who has one, and which hosts there are.
	base   page
	people map[string]string
	hosts  []string

	stakes   map[string]*stakes // by host
	bookings *keptBookings
	uses     keptUses
	past     keptPast
	users    map[string]*keptUser
}

// A clock is the moment of a generation, and notes when the first of what was said
// of it may begin to say something else.
type clock struct{ now, until time.Time }

// ends notes that something may be said otherwise from a moment on.
func (c *clock) ends(at time.Time) {
	if at.After(c.now) && (c.until.IsZero() || at.Before(c.until)) {
		c.until = at
	}
}

// stands reports whether what was said at a moment is still to be said now.
func stands(at, until, now time.Time) bool {
	return !now.Before(at) && (until.IsZero() || now.Before(until))
}

// timed is a view of which the clock notes until when it says the same.
func (v *view) timed() (*view, *clock) {
	c := &clock{now: v.in.Board.GeneratedAt}
	w := *v.words
	w.clock = c
	u := *v
	u.words = &w
	return &u, c
}

// ground returns what the cache keeps, or nothing where it stands on another ground.
func (v *view) ground() *kept {
	hosts := v.in.Board.Hosts
	base := v.page("user", "../../", time.Time{}, v.interval())
	k := v.in.Cache.kept
	if k != nil && k.base == base && maps.Equal(k.people, v.people) &&
		slices.EqualFunc(hosts, k.hosts, func(h board.Host, name string) bool { return h.Name == name }) {
		return k
	}
	k = &kept{base: base, people: v.people, stakes: map[string]*stakes{}, users: map[string]*keptUser{}}
	for i := range hosts {
		k.hosts = append(k.hosts, hosts[i].Name)
	}
	v.in.Cache.kept = k
	return k
}

// stakes are the people of one host's GPUs.
type stakes struct {
	host *board.Host // see Cache.unchanged
	of   []stake
}

// A stake is what one GPU is to one person. What a page shows of it is made when a
// page has room for it.
type stake struct {
	person    string
	gpu       int // which of the host's
	held      *heldView
	at, until time.Time
}

func stakesOf(h *board.Host) *stakes {
	s := &stakes{host: h}
	for i := range h.GPUs {
		g, first := &h.GPUs[i], len(s.of)
		add := func(name string) {
			if name != "" && !slices.ContainsFunc(s.of[first:], func(k stake) bool { return k.person == name }) {
				s.of = append(s.of, stake{person: name, gpu: i})
			}
		}
		for j := range g.Processes {
			add(g.Processes[j].Person)
		}
		if g.Booking != nil {
			add(g.Booking.Name)
		}
	}
	return s
}

// hold is what a page shows of a stake: the same as before, as long as it is the same.
func (v *view) hold(h *board.Host, k *stake) *heldView {
	const root = "../../"
	now := v.in.Board.GeneratedAt
	if k.held != nil && stands(k.at, k.until, now) {
		return k.held
	}
	u, c := v.timed()
	g := &h.GPUs[k.gpu]
	held := &heldView{Host: h.Name, HostHref: root + "hosts/" + h.Name + "/index.html", Row: u.row(h, g, true, brief, now, root)}
	for i := range g.Processes {
		if g.Processes[i].Person == k.person {
			held.Mine = append(held.Mine, u.process(&g.Processes[i], now, root))
		}
	}
	k.held, k.at, k.until = held, now, c.until
	return held
}

// keptBookings are the bookings as pages show them.
type keptBookings struct {
	of        []board.Booking
	at, until time.Time
	byPerson  map[string][]bookingView // for people's own pages
	hosts     []bookedHost             // for the list of all
	people    []bookedPerson
	lists     []byte // of those two, as the page has them; nil until it is asked for
}

// bookings returns what pages show of the bookings.
func (k *kept) bookingsOf(v *view) *keptBookings {
	b := v.in.Board
	old := k.bookings
	if old != nil && stands(old.at, old.until, b.GeneratedAt) && slices.EqualFunc(old.of, b.Bookings, sameBooking) {
		return old
	}
	u, c := v.timed()
	n := &keptBookings{of: b.Bookings, at: b.GeneratedAt, byPerson: map[string][]bookingView{}}
	for i := range b.Bookings {
		name := b.Bookings[i].Name
		n.byPerson[name] = append(n.byPerson[name], u.booking(&b.Bookings[i], "../../"))
	}
	n.hosts, n.people = u.listBookings()
	n.until = c.until
	if old != nil {
		for name, list := range n.byPerson {
			if before := old.byPerson[name]; equal(before, list) {
				n.byPerson[name] = before // by which a page knows them
			}
		}
	}
	k.bookings = n
	return n
}

// keptDue are the bookings of each host that are not over, and all that they are of.
type keptDue struct {
	of     []board.Booking
	byHost map[string][]board.Booking
}

func (c *Cache) dueBookings(b *board.Board) map[string][]board.Booking {
	if c.due.byHost == nil || !slices.EqualFunc(c.due.of, b.Bookings, sameBooking) {
		c.due = keptDue{b.Bookings, dueBookings(b)}
	}
	return c.due.byHost
}

func sameBooking(x, y board.Booking) bool {
	return x.ID == y.ID && x.Host == y.Host && slices.Equal(x.GPUs, y.GPUs) && x.UUID == y.UUID && x.Name == y.Name &&
		x.From.Equal(y.From) && x.Until.Equal(y.Until) && x.Comment == y.Comment && x.Kind == y.Kind && x.By == y.By &&
		x.Active == y.Active && x.Expired == y.Expired && x.Forced == y.Forced && x.File == y.File && x.Line == y.Line && x.Col == y.Col
}

// bookingLists renders the lists of all bookings, which stand in a slot of their
// page; nil where a site's own page has none.
func (v *view) bookingLists(set *press, p *bookingsPage) ([]byte, error) {
	const name = "booking-lists"
	k := v.ground().bookingsOf(v)
	if k.lists == nil && set.set.Lookup(name) != nil {
		var buf bytes.Buffer
		if err := set.execute(&buf, name, p); err != nil {
			return nil, fmt.Errorf("rendering the bookings: %w", err)
		}
		k.lists = bytes.Clone(buf.Bytes())
	}
	return k.lists, nil
}

// keptUses is what each person used, as pages show it.
type keptUses struct {
	of       *FleetPast
	byPerson map[string][]windowView
}

func (k *kept) usesOf(v *view) map[string][]windowView {
	var past *FleetPast
	if v.in.History != nil {
		past = v.in.History.Fleet
	}
	if k.uses.of != past {
		k.uses = keptUses{past, v.pastUse(past)}
	}
	return k.uses.byPerson
}

// keptPast is the past of the fleet as its page shows it.
type keptPast struct {
	of      *FleetPast
	models  []board.Model
	tabs    []fleetTab
	windows []windowView
	heat    *heatView
}

func (k *kept) pastOf(v *view, f *FleetPast) *keptPast {
	models := v.in.Board.Models
	if k.past.of == f && equal(k.past.models, models) {
		return &k.past
	}
	k.past = keptPast{of: f, models: models, heat: v.heatView(f)}
	for i := range f.Spans {
		k.past.tabs = append(k.past.tabs, v.fleetTab(i, &f.Spans[i]))
	}
	for i := range f.Windows {
		k.past.windows = append(k.past.windows, v.window(i, &f.Windows[i]))
	}
	return &k.past
}

// userFacts is what the page of a person says of the person alone.
type userFacts struct {
	known          bool
	used           float64
	reserved, idle int
	memory         int64
	mean           [3]float64
	has            [3]bool
}

func factsOf(u *board.User) userFacts {
	f := userFacts{known: true, used: u.Used, reserved: u.Reserved, idle: u.IdleGPUs, memory: u.Memory}
	for i, mean := range []*float64{u.Mean2h, u.Mean24h, u.Mean1w} {
		if mean != nil {
			f.mean[i], f.has[i] = *mean, true
		}
	}
	return f
}

// keptUser is a person's page and what it was made of.
type keptUser struct {
	facts    userFacts
	holds    []*heldView
	more     int
	newest   time.Time
	bookings []bookingView
	use      []windowView
	past     *FleetPast // that it is of
	content  []byte
}

func (k *keptUser) same(old *keptUser) bool {
	return old != nil && k.facts == old.facts && k.more == old.more && k.newest.Equal(old.newest) && slices.Equal(k.holds, old.holds) &&
		sameList(k.bookings, old.bookings) && k.past == old.past && sameList(k.use, old.use)
}

// sameList reports whether two lists are one and the same.
func sameList[T any](x, y []T) bool {
	return len(x) == len(y) && (len(x) == 0 || &x[0] == &y[0])
}

// userPages makes one page for everybody who is named anywhere, in the order of
// their paths.
func (v *view) userPages(set *press, done []*rendered, out *sink) error {
	k := v.ground()
	users := make(map[string]*keptUser, len(v.people))
	for name := range v.people {
		users[name] = &keptUser{}
	}
	b := v.in.Board
	facts := make(map[string]*board.User, len(b.Users))
	for i := range b.Users {
		if u := users[b.Users[i].Name]; u != nil {
			u.facts = factsOf(&b.Users[i])
			facts[b.Users[i].Name] = &b.Users[i]
		}
	}
	for _, r := range done {
		s := k.stakes[r.host.Name]
		if s == nil || s.host != r.host {
			s = stakesOf(r.host)
			k.stakes[r.host.Name] = s
		}
		for i := range s.of {
			u := users[s.of[i].person]
			switch {
			case u == nil:
			case len(u.holds) == maxHolds:
				u.more++
			default:
				u.holds = append(u.holds, v.hold(s.host, &s.of[i]))
				if s.host.SnapshotAt.After(u.newest) {
					u.newest = s.host.SnapshotAt
				}
			}
		}
	}
	bookings, uses := k.bookingsOf(v), k.usesOf(v)
	names := slices.SortedFunc(maps.Keys(v.people), func(x, y string) int { return strings.Compare(v.people[x], v.people[y]) })
	var buf bytes.Buffer
	for _, name := range names {
		u, path := users[name], "users/"+v.people[name]+"/index.html"
		u.bookings, u.past, u.use = bookings.byPerson[name], k.uses.of, uses[name]
		if old := k.users[name]; u.same(old) {
			users[name], u = old, old
		} else {
			buf.Reset()
			if err := set.execute(&buf, "user.html", v.userPage(k, name, u, facts[name])); err != nil {
				return fmt.Errorf("rendering %s: %w", path, err)
			}
			u.content = bytes.Clone(buf.Bytes())
		}
		if err := out.put(newFile(path, u.content)); err != nil {
			return err
		}
	}
	k.users = users
	return nil
}
