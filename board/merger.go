package board

import (
	"reflect"
	"slices"

	"gpuboard/booking"
	"gpuboard/history"
	"gpuboard/inventory"
	"gpuboard/snapshot"
)

// A Merger makes boards one after the other, each the one that [Merge] makes of
// the same input, and takes from the last one what is made of the same: the cards
// of hosts, and with none of them new the sums over all. So its boards share what
// did not change, and nobody may change one. The same goes for what an input
// refers to: a snapshot, the bookings of a calendar, a series of history or marks
// that are handed in again have to be what they were. The zero value is ready; it
// is for one goroutine at a time.
type Merger struct {
	set    Settings
	file   string            // of the calendar
	people map[string]string // what Input.Person answered
	booked []booking.Booking // of the calendar
	byHost map[string][]booking.Booking

	cards  []*card // in the order of Input.Hosts
	order  []int   // of them, in the board's
	marks  Marks
	nth    int // of these marks
	recent map[history.Key]history.GPU
	heard  int // the number of this map
	sums   *sums
	listed *listed
	users  []User
	past   []history.User // that users are made with
}

// maxPeople bounds the names that a Merger remembers an answer for.
const maxPeople = 20_000

// A card is a host of a board, and what it was made of.
type card struct {
	entry  inventory.Host
	report Report
	booked []booking.Booking
	rows   []row // of its GPUs
	clock  clock

	host   Host
	claims []claim
	marks  []Mark // of its GPUs
	agrees int    // the number of the marks in which those of the rows stand
	heard  int    // the same of history
}

// A row is what is known of one GPU besides what its host and the calendar say.
type row struct {
	key   history.Key
	past  history.GPU
	name  string // see MarkKey
	mark  Mark
	known bool // the mark
}

// sums are over all hosts.
type sums struct {
	hosts   []Host
	totals  Totals
	models  []Model
	freeNow []FreeGPU
	next    *FreeGPU
}

// listed is what the calendar comes to on the whole board.
type listed struct {
	clock    clock
	bookings []Booking
	strays   []snapshot.Problem
}

// Merge is the function of this name.
func (k *Merger) Merge(in Input) (*Board, Marks) {
	m := k.begin(in)
	same := len(k.cards) == len(in.Hosts)
	cards := make([]*card, len(in.Hosts))
	var byName map[string]*card
	marked, placed := same, same // all cards have the marks and the places that they had
	for i := range in.Hosts {
		inv := &in.Hosts[i]
		var old *card
		if i < len(k.cards) && k.cards[i].entry.Name == inv.Name {
			old = k.cards[i]
		} else {
			if byName == nil {
				byName = make(map[string]*card, len(k.cards))
				for _, c := range k.cards {
					byName[c.entry.Name] = c
				}
			}
			old = byName[inv.Name]
		}
		if old != nil && m.holds(old, inv) {
			cards[i] = old
		} else {
			cards[i] = m.card(inv)
		}
		if i < len(k.cards) && cards[i] != k.cards[i] {
			same = false
			placed = placed && cards[i].host.Name == k.cards[i].host.Name && cards[i].host.Group == k.cards[i].host.Group
			marked = marked && cards[i].sameMarks(k.cards[i])
		}
	}
	k.cards = cards
	if !placed || k.order == nil {
		k.sort()
	}
	if !marked || k.marks == nil {
		k.mark()
	}
	if !same || k.sums == nil {
		k.sums, k.listed, k.users = k.sumUp(), nil, nil
	}
	if k.listed == nil || !k.listed.clock.holds(m.clock.now) {
		k.listed = m.list(k.sums.hosts)
	}
	if k.users == nil || !sameUsers(k.past, m.recent.Users) {
		k.past, k.users = m.recent.Users, m.users(k.cards, k.order)
	}
	return k.board(m), k.marks
}

func (k *Merger) board(m *merger) *Board {
	b := &Board{
		GeneratedAt:   m.Now,
		Interval:      m.Interval,
		InventoryAsOf: m.InventoryAsOf,
		Demo:          m.Demo,
		Problems:      slices.Clone(m.Problems),
		Hosts:         k.sums.hosts,
		Totals:        k.sums.totals,
		Models:        k.sums.models,
		FreeNow:       k.sums.freeNow,
		NextFree:      k.sums.next,
		Users:         k.users,
		Bookings:      k.listed.bookings,
	}
	for i := range b.Hosts {
		for _, p := range b.Hosts[i].Problems {
			p.Host = b.Hosts[i].Name
			b.Problems = append(b.Problems, p)
		}
	}
	b.Problems = append(b.Problems, m.Calendar.Problems...)
	b.Problems = append(b.Problems, k.listed.strays...)
	if m.Calendar.Broken {
		b.BookingsStaleSince = m.Calendar.LastGood
	}
	return b
}

// begin forgets what all cards are made of, if that is something else now.
func (k *Merger) begin(in Input) *merger {
	m := &merger{Input: in, set: in.Settings.withDefaults(), recent: in.Recent, kept: k}
	m.clock = &clock{now: in.Now.Round(0)} // time as it is on cards, without what the process itself counts
	if m.Person == nil {
		m.Person = func(name string) string { return name }
	}
	if m.Calendar == nil {
		m.Calendar = &booking.Calendar{}
	}
	if m.recent == nil {
		m.recent = &history.Recent{}
	}
	others := len(k.people) > maxPeople
	for name, was := range k.people {
		if others || m.Person(name) != was {
			others = true
			break
		}
	}
	if others || k.people == nil || m.Calendar.File != k.file || !reflect.DeepEqual(m.set, k.set) {
		*k = Merger{set: m.set.clone(), file: m.Calendar.File, people: map[string]string{}, nth: k.nth, heard: k.heard}
	}
	if k.heard == 0 || !sameMap(m.recent.GPUs, k.recent) {
		k.recent = m.recent.GPUs
		k.heard++
	}
	if k.byHost == nil || !sameSlice(k.booked, m.Calendar.Bookings) {
		k.booked, k.listed = m.Calendar.Bookings, nil
		k.byHost = map[string][]booking.Booking{}
		for _, b := range k.booked {
			k.byHost[b.Host] = append(k.byHost[b.Host], b)
		}
	}
	m.byHost = k.byHost
	if sameMap(in.Marks, k.marks) {
		m.nth = k.nth
	}
	return m
}

// person is who a user is, who is asked for again before the next board.
func (m *merger) person(user string) string {
	who, known := m.kept.people[user]
	if !known {
		who = m.Person(user)
		m.kept.people[user] = who
	}
	return who
}

// card makes the card of a host.
func (m *merger) card(inv *inventory.Host) *card {
	m.clock = &clock{now: m.clock.now}
	c := &card{heard: m.kept.heard, entry: *inv, report: m.Reports[inv.Name], booked: m.byHost[inv.Name]}
	c.entry.Tags, c.entry.Sources, c.report.Problems = slices.Clone(inv.Tags), nil, slices.Clone(c.report.Problems)
	c.host = m.host(c.entry)
	c.host.GPUs, c.host.Problems = slices.Clip(c.host.GPUs), slices.Clip(c.host.Problems)
	c.rows = make([]row, len(c.host.GPUs))
	for i := range c.rows {
		g, r := &c.host.GPUs[i], &c.rows[i]
		r.key = history.Key{Host: inv.Name, GPU: gpuKey(g.UUID, g.Index)}
		r.name = MarkKey(inv.Name, g)
		r.past = m.recent.GPUs[r.key]
		r.mark, r.known = m.Marks[r.name]
	}
	m.remember(c)
	c.claims = m.claims(&c.host)
	c.clock = *m.clock
	return c
}

// holds reports whether a card would be made the same now.
func (m *merger) holds(c *card, inv *inventory.Host) bool {
	if !c.clock.holds(m.clock.now) || !sameEntry(&c.entry, inv) {
		return false
	}
	report := m.Reports[inv.Name]
	if c.report.Snapshot != report.Snapshot || c.report.SeenAt != report.SeenAt || !slices.Equal(c.report.Problems, report.Problems) ||
		(c.report.Problems == nil) != (report.Problems == nil) {
		return false
	}
	if booked := m.byHost[inv.Name]; !sameSlice(c.booked, booked) {
		if !slices.Equal(c.booked, booked) {
			return false
		}
		c.booked = booked
	}
	for i := 0; c.heard != m.kept.heard && i < len(c.rows); i++ {
		r := &c.rows[i]
		if past := m.recent.GPUs[r.key]; past.IdleSince != r.past.IdleSince || !sameSlice(past.Utilization, r.past.Utilization) {
			return false
		}
	}
	c.heard = m.kept.heard
	if m.nth > 0 && c.agrees == m.nth {
		return true
	}
	for i := range c.rows {
		r := &c.rows[i]
		if mark, known := m.Marks[r.name]; known != r.known || mark != r.mark {
			return false
		}
	}
	c.agrees = m.nth
	return true
}

// sameEntry compares all that a card tells of an entry.
func sameEntry(x, y *inventory.Host) bool {
	return x.Name == y.Name && x.Title == y.Title && x.Group == y.Group && x.Owner == y.Owner && x.Note == y.Note &&
		x.Address == y.Address && x.Datacenter == y.Datacenter && x.ExpectedGPUs == y.ExpectedGPUs && x.Check == y.Check &&
		x.CheckOutput == y.CheckOutput && x.Maintenance == y.Maintenance && x.MaintenanceReason == y.MaintenanceReason &&
		x.GoneSince == y.GoneSince && slices.Equal(x.Tags, y.Tags) && (x.Tags == nil) == (y.Tags == nil)
}

// sameMap reports whether two maps are one, which nobody changes.
func sameMap[M ~map[K]V, K comparable, V any](x, y M) bool {
	return reflect.ValueOf(x).Pointer() == reflect.ValueOf(y).Pointer()
}

// sameSlice reports whether two slices are one, which nobody changes.
func sameSlice[T any](x, y []T) bool {
	return len(x) == len(y) && (x == nil) == (y == nil) && (len(x) == 0 || &x[0] == &y[0])
}

func sameUsers(x, y []history.User) bool {
	value := func(p, q *float64) bool { return p == q || p != nil && q != nil && *p == *q }
	return slices.EqualFunc(x, y, func(x, y history.User) bool {
		return x.Name == y.Name && value(x.Mean2h, y.Mean2h) && value(x.Mean24h, y.Mean24h) && value(x.Mean1w, y.Mean1w)
	})
}

// sameMarks reports whether two cards leave the same marks.
func (c *card) sameMarks(o *card) bool {
	return slices.Equal(c.marks, o.marks) && slices.EqualFunc(c.rows, o.rows, func(x, y row) bool { return x.name == y.name })
}

// sort puts the cards in the order of the board.
func (k *Merger) sort() {
	k.order = make([]int, len(k.cards))
	for i := range k.order {
		k.order[i] = i
	}
	slices.SortStableFunc(k.order, func(i, j int) int {
		x, y := &k.cards[i].host, &k.cards[j].host
		if c := NaturalCompare(x.Group, y.Group); c != 0 {
			return c
		}
		return NaturalCompare(x.Name, y.Name)
	})
}

// mark makes the marks of all cards.
func (k *Merger) mark() {
	n := 0
	for _, c := range k.cards {
		n += len(c.marks)
	}
	k.marks = make(Marks, n)
	k.nth++
	for _, at := range k.order {
		c := k.cards[at]
		for i, mark := range c.marks {
			k.marks[c.rows[i].name] = mark
		}
	}
}

func (k *Merger) sumUp() *sums {
	hosts := make([]Host, len(k.order))
	for i, at := range k.order {
		hosts[i] = k.cards[at].host
	}
	if len(hosts) == 0 {
		hosts = nil
	}
	return &sums{hosts, totals(hosts), models(hosts), freeNow(hosts), nextFree(hosts)}
}

func (m *merger) list(hosts []Host) *listed {
	m.clock = &clock{now: m.clock.now}
	l := &listed{bookings: m.bookings(hosts), strays: m.strayBookings(hosts)}
	l.clock = *m.clock
	return l
}

// clone is settings that share nothing with others.
func (s Settings) clone() Settings {
	short := make(map[string]string, len(s.ShortNames))
	for full, name := range s.ShortNames {
		short[full] = name
	}
	if s.ShortNames == nil {
		short = nil
	}
	s.ShortNames, s.ServicePrograms = short, slices.Clone(s.ServicePrograms)
	return s
}
