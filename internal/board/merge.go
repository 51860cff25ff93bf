package board

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// Merge makes the Board of one moment. It is a pure function: equal inputs make
// equal boards, and the inputs are not changed. One bad host, GPU or booking
// degrades itself and nothing else.
//
// The second result is what to hand to the next call as Input.Marks.
func Merge(in Input) (*Board, Marks) { return NewDraft(in).Board(in.Recent) }

// A Draft is a board without its rows: the hosts, and where each card counts. History is told of that
// before it answers what the rows show.
type Draft struct {
	m      *merger
	hosts  []Host
	newest map[string]*place
}

// NewDraft begins a merge.
func NewDraft(in Input) *Draft {
	m := newMerger(in)
	hosts := make([]Host, len(in.Hosts))
	for i, inv := range in.Hosts {
		m.host(&hosts[i], inv)
	}
	return &Draft{m, hosts, m.newest(hosts)}
}

// Board ends the merge, once, with the recent past; nil for none.
func (d *Draft) Board(recent *history.Recent) (*Board, Marks) {
	m, hosts := d.m, d.hosts
	m.Recent = cmp.Or(recent, &history.Recent{})
	m.shareBookings(d.newest)
	for i, inv := range m.Hosts {
		m.rows(&hosts[i], inv)
	}
	for i := range hosts {
		d.countOnce(&hosts[i])
		m.remember(&hosts[i])
	}
	m.keepCards()
	slices.SortStableFunc(hosts, func(x, y Host) int {
		return cmp.Or(NaturalCompare(x.Group, y.Group), NaturalCompare(x.Name, y.Name))
	})
	b := &Board{
		GeneratedAt:   m.Now,
		Interval:      m.Interval,
		Next:          m.Next,
		InventoryAsOf: m.InventoryAsOf,
		Demo:          m.Demo,
		IdleNotice:    m.set.IdleNotice,
		Problems:      slices.Clone(m.Problems),
		Hosts:         hosts,
		Users:         m.users(hosts),
		Bookings:      m.bookings(),
		ID:            m.ID,
	}
	b.Count()
	sites, late := m.sites()
	b.Sites, b.Problems = sites, append(b.Problems, late...)
	for i := range hosts {
		for _, p := range hosts[i].Problems {
			p.Host = hosts[i].Name
			b.Problems = append(b.Problems, p)
		}
	}
	b.Problems = append(b.Problems, m.Calendar.Problems...)
	b.Problems = append(b.Problems, m.strayBookings(b)...)
	b.Problems = append(b.Problems, m.moved...)
	if m.Calendar.Broken {
		b.BookingsStaleSince = m.Calendar.LastGood
	}
	return b, m.next
}

// A merger is one merge.
type merger struct {
	Input
	set    Settings
	booked []booking.Booking // all, for the cards that they mean
	hosts  map[string]*hostFacts
	moved  []snapshot.Problem
	next   Marks

	// Of the host that is being made:
	at         time.Time                     // of its readings: now, or earlier for a silent host
	people     map[string]bool               // who has processes there
	more       bool                          // they are more than maxPeople
	here       map[string][]*booking.Booking // its bookings, by what they are for
	schedules  map[string]*schedule          // what schedule answered
	mostOthers int                           // how many further bookings a row of it lists
}

// A hostFacts is what the rows of one host are made from.
type hostFacts struct {
	known  []Mark             // what is remembered of its GPUs, in order of index
	booked []*booking.Booking // those that hold something of it
	snap   *snapshot.Snapshot // nil for a host of which nothing is known
	places []place
	cards  map[string]*place // by UUID, of slices too
}

// facts returns those of one host.
func (m *merger) facts(host string) *hostFacts {
	if m.hosts[host] == nil {
		m.hosts[host] = &hostFacts{}
	}
	return m.hosts[host]
}

func newMerger(in Input) *merger {
	m := &merger{Input: in, set: in.Settings.WithDefaults(), hosts: map[string]*hostFacts{},
		next: Marks{GPUs: map[string]Mark{}, Bookings: make(map[string]string, len(in.Marks.Bookings))}}
	m.Now = in.Now.Round(0) // the time of day, without the process's own monotonic reading
	if m.Calendar == nil {
		m.Calendar = &booking.Calendar{}
	}
	fleet := booking.Fleet{Hosts: map[string]booking.KnownHost{}}
	for _, inv := range in.Hosts {
		fleet.Hosts[inv.Name] = booking.KnownHost{}
	}
	m.Calendar = m.Calendar.On(fleet)
	m.booked = slices.Clone(m.Calendar.Bookings)
	logins := m.logins()
	for i := range m.booked {
		b := &m.booked[i]
		if known := logins[strings.ToLower(b.Name)]; len(known) > 0 && !slices.Contains(known, b.Name) {
			b.Name = slices.Min(known)
		}
		of := m.facts(b.Host)
		of.booked = append(of.booked, b)
	}
	for _, key := range slices.Sorted(maps.Keys(in.Marks.GPUs)) {
		if mark := in.Marks.GPUs[key]; mark.Card != nil {
			host, _, _ := strings.Cut(key, "/") // no host name holds a slash
			of := m.facts(host)
			of.known = append(of.known, mark)
		}
	}
	for _, of := range m.hosts {
		sortByStart(of.booked)
		slices.SortStableFunc(of.known, func(x, y Mark) int { return cmp.Compare(x.Card.Index, y.Card.Index) })
	}
	return m
}

// logins returns the people who have processes, by name in small letters. Whoever types a booking may write
// the name in other letters, and each person has one name on a board.
func (m *merger) logins() map[string][]string {
	logins := map[string][]string{}
	for _, report := range m.Reports {
		if report.Snapshot == nil {
			continue
		}
		for i := range report.Snapshot.Processes {
			owner, _ := m.whose(&report.Snapshot.Processes[i])
			person := m.owner(owner).Person
			key := strings.ToLower(person)
			if person != "" && !slices.Contains(logins[key], person) {
				logins[key] = append(logins[key], person)
			}
		}
	}
	return logins
}

// host makes one card without its rows, and finds the places of these.
func (m *merger) host(h *Host, inv inventory.Host) {
	*h = Host{
		Name: inv.Name, Title: inv.Title, Group: inv.Group, Owner: inv.Owner, Note: inv.Note,
		Address: cmp.Or(inv.Address, inv.Name), Datacenter: inv.Datacenter, Tags: inv.Tags,
		Check: string(inv.Check), GoneSince: inv.GoneSince,
	}
	if inv.MaintenanceReason != "" {
		h.Note = strings.TrimSuffix(inv.MaintenanceReason+" · "+h.Note, " · ")
	}
	report, of := m.Reports[inv.Name], m.facts(inv.Name)
	h.Problems = slices.Clone(report.Problems)
	snap := report.Snapshot
	h.State = m.newsState(h, inv, report)
	h.fresh = h.State == Up
	if inv.Maintenance || inv.Check == inventory.Maintenance {
		h.State = Maintenance
	}
	if inv.CheckOutput != "" && inv.Check != inventory.Passing {
		h.problem("consul:"+string(inv.Check), snapshot.Says("Consul", inv.CheckOutput))
	}
	if snap == nil {
		snap = &snapshot.Snapshot{} // it says nothing
		for _, k := range of.known {
			snap.CollectedAt.Time = latest(snap.CollectedAt.Time, k.lastAt())
		}
	}
	h.SnapshotAt = snap.CollectedAt.Time
	h.Interval = time.Duration(snap.IntervalSeconds) * time.Second
	h.Pulled = snap.Pulled
	h.Driver, h.CUDA, h.Tools = snap.DriverVersion, snap.CUDAVersion, snap.Tools
	h.Problems = append(h.Problems, snap.Errors...)

	if h.fresh {
		h.Node = snap.Node
	}
	if h.State != Never {
		of.snap, of.places = snap, m.places(h, inv, snap)
		m.follow(of)
	}
}

// rows makes the rows of a host, and says what is missing.
func (m *merger) rows(h *Host, inv inventory.Host) {
	of := m.facts(h.Name)
	snap, places := of.snap, of.places
	if snap == nil {
		return
	}
	m.at = m.Now
	if !h.fresh {
		m.at = h.SnapshotAt
	}
	m.people, m.more = map[string]bool{}, false
	m.here, m.schedules = map[string][]*booking.Booking{}, map[string]*schedule{}
	for _, b := range of.booked {
		place := b.Target.String()
		m.here[place] = append(m.here[place], b)
	}
	n := 0
	for i := range places {
		n += len(places[i].uuids())
	}
	m.mostOthers = min(maxOthers, max(1, hostOthers/max(1, n)))

	procs := map[int][]snapshot.Process{}
	for _, p := range snap.Processes {
		procs[p.GPU] = append(procs[p.GPU], p)
	}
	for i := range places {
		p := &places[i]
		var g GPU
		if p.listed {
			g = m.gpu(h, snap, p.gpu, procs[p.gpu.Index])
		} else {
			g = m.absent(h, p)
		}
		m.next.GPUs[MarkKey(h.Name, &g)] = m.recall(h, &g, p)
		h.GPUs = append(h.GPUs, g)
	}
	if snap.GPUsComplete {
		h.missing(inv, places)
	}
	h.repeated(places)
	if m.more {
		h.problem("host:limit",
			"more than "+itoa(maxPeople)+" users have processes here; the others count as unknown users")
	}
}

// maxPeople is how many people one host can put on the board. Each has a page and a calendar.
const maxPeople = 256

// personOn returns the person, "" for one too many on the host.
func (m *merger) personOn(person string) string {
	if person != "" && !m.people[person] {
		if len(m.people) == maxPeople {
			m.more = true
			return ""
		}
		m.people[person] = true
	}
	return person
}

// newsState decides how a host's news arrives, and says what is wrong with its clock.
func (m *merger) newsState(h *Host, inv inventory.Host, r Report) HostState {
	if r.Snapshot == nil {
		if inv.Check == inventory.Critical || len(m.facts(inv.Name).known) > 0 {
			return Down
		}
		return Never
	}
	collected := r.Snapshot.CollectedAt.Time
	limit := m.set.staleAfter(time.Duration(r.Snapshot.IntervalSeconds) * time.Second)
	switch {
	case collected.Add(-m.set.ClockTolerance).After(m.Now):
		// A moment that has not come yet proves nothing: never fresh.
		h.ClockOffset = collected.Sub(m.Now)
		h.problem("clock:ahead", "the node's clock is "+snapshot.Length(h.ClockOffset)+
			" ahead of the web host's; on the node: timedatectl set-ntp true")
		return Stale
	case !r.SeenAt.IsZero() && r.SeenAt.Sub(collected) > limit && r.SeenAt.Add(limit).After(m.Now):
		// It came in just now, and says that it is old: either a backlog after
		// an outage or a clock that is behind. Old it is in both cases.
		h.ClockOffset = -r.SeenAt.Sub(collected)
		h.problem("clock:behind", "its data has just arrived and is "+snapshot.Length(-h.ClockOffset)+
			" old: the node's clock is behind (on the node: timedatectl set-ntp true), or it was offline until now")
		return Stale
	case !collected.Add(limit).Before(m.Now):
		return Up
	case collected.Add(m.set.DownAfter).Before(m.Now) || inv.Check == inventory.Critical:
		return Down
	default:
		return Stale
	}
}

func (h *Host) problem(code, message string) {
	h.Problems = append(h.Problems, snapshot.Problem{Code: code, Message: message, Host: h.Name})
}

// remember sets Since on every GPU of a host, and adds the marks for the next generation.
func (m *merger) remember(h *Host) {
	for g := range h.Rows() {
		key := MarkKey(h.Name, g)
		mark := m.next.GPUs[key]
		mark.State, mark.Since, mark.Seen = g.State, g.Since, m.Now
		switch old, known := m.Marks.GPUs[key]; {
		case known && old.State == g.State && !old.Since.After(m.Now) && !old.Seen.After(m.Now) &&
			!(g.State == Booked && unseen(old, h.SnapshotAt)):
			mark.Since, mark.Seen = earliest(old.Since, g.Since), old.Seen
		case known && g.Since.IsZero():
			mark.Since = m.Now // it changed just now
		}
		g.Since = mark.Since
		m.next.GPUs[key] = mark
		if g.State == Booked && g.Booking != nil && g.Booking.ByPerson() && len(g.Slices) == 0 {
			// Idle for as long as it was seen so, or as history knows; not for as
			// long as nobody looked.
			idle := latest(earliest(mark.Seen, mark.Since), g.Booking.From)
			g.NoShow = !idle.Add(m.set.NoShow).After(m.Now)
		}
	}
}

// samplesLast is how much of the past a snapshot brings along.
const samplesLast = 15 * time.Minute

// unseen reports whether nobody can know what a GPU did since it was last seen.
func unseen(old Mark, at time.Time) bool {
	return old.Last != nil && at.Sub(old.Last.At) > samplesLast
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func itoa(n int) string { return strconv.Itoa(n) }

// Number writes a number of things: "1 host", "2 hosts".
func Number(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return itoa(n) + " " + what
}

// NaturalCompare orders names as people do: gpu2 before gpu10, without regard to case.
func NaturalCompare(a, b string) int {
	x, y := strings.ToLower(a), strings.ToLower(b)
	for x != "" && y != "" {
		dx, dy := digits(x), digits(y)
		if dx > 0 && dy > 0 {
			nx, ny := strings.TrimLeft(x[:dx], "0"), strings.TrimLeft(y[:dy], "0")
			if c := cmp.Or(len(nx)-len(ny), strings.Compare(nx, ny)); c != 0 {
				return c
			}
			x, y = x[dx:], y[dy:]
			continue
		}
		if x[0] != y[0] {
			return int(x[0]) - int(y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(len(x)-len(y), strings.Compare(a, b))
}

func digits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}
