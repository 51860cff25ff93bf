// Package events is the difference of two boards: what happened between one
// generation and the next. It reads no clock and no disk: its caller keeps the
// [Memory] and delivers the events.
package events

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
)

// Kind is what happened. Hooks and filters name these words, so they do not change.
type Kind string

// The values of Kind.
const (
	HostNew       Kind = "host-new"       // a host is on the board for the first time
	HostUp        Kind = "host-up"        // it sends again, after stale or down
	HostStale     Kind = "host-stale"     // no snapshot for a while
	HostDown      Kind = "host-down"      // no snapshot for a long time
	HostGone      Kind = "host-gone"      // no longer on the board
	GPULost       Kind = "gpu-lost"       // the driver reports an error, or does not list it any more
	GPUBack       Kind = "gpu-back"       // it was lost, and works again
	GPUStuck      Kind = "gpu-stuck"      // memory is allocated that no living process owns
	GPUFreed      Kind = "gpu-freed"      // free after a long use
	BookingStart  Kind = "booking-start"  // a booking has begun
	BookingEnding Kind = "booking-ending" // it ends within [EndingWithin]
	BookingEnd    Kind = "booking-end"    // it has ended
	BookingUnused Kind = "booking-unused" // booked, and nothing of it used for a long time

	// Those of [Occasion]. The first two go to one person each.
	GPUContested    Kind = "gpu-contested"     // booked by one, used by another
	GPUIdle         Kind = "gpu-idle"          // held, and idle for [board.Board.IdleNotice]
	GPUContestedEnd Kind = "gpu-contested-end" // it was contested
	GPUXID          Kind = "gpu-xid"           // the driver reports an error that counts as a problem
	GPUHot          Kind = "gpu-hot"           // the driver slows it down because of its temperature
	GPUHotEnd       Kind = "gpu-hot-end"       // it was hot
)

// personal reports whether each person has an event of this kind of their own, with their name in its ID.
func personal(kind Kind) bool { return kind == GPUContested || kind == GPUIdle }

const (
	// EndingWithin is how long before the end of a booking it is announced.
	EndingWithin = time.Hour
	// LongUse is how long a GPU must have been used for [GPUFreed].
	LongUse = 6 * time.Hour
	// FreeAfter is how long it must then have been free: between two runs of a
	// parameter sweep there is a moment without a process.
	FreeAfter = 5 * time.Minute
	// MaxLog is how many events [Keep] keeps.
	MaxLog = 200
)

// An Event is one thing that happened.
type Event struct {
	// ID is made of the cause, so an event that is found again after a crash has the
	// same one. Receivers act once per ID.
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	// At is when it happened, as exactly as the boards show.
	At      time.Time `json:"at"`
	Host    string    `json:"host,omitempty"`
	GPU     *int      `json:"gpu,omitempty"` // index; nil for the host or a booking of several
	UUID    string    `json:"uuid,omitempty"`
	Users   []string  `json:"users,omitempty"`   // whom it concerns, sorted
	Booking string    `json:"booking,omitempty"` // the ID of the booking
	// Summary is one line for people, safe to print.
	Summary string `json:"summary"`
}

// Diff compares a board with the memory of earlier ones. It returns what happened,
// oldest first, and the memory for the next call. With the zero Memory it returns no
// events: the first board is the state to compare with.
func Diff(prev Memory, now *board.Board) ([]Event, Memory) {
	d := &diff{now: now, prev: prev, next: Memory{
		Schema: MemorySchema, At: now.GeneratedAt,
		Hosts: make(map[string]HostMemory, len(now.Hosts)), GPUs: make(map[string]GPUMemory, len(prev.GPUs)),
		Bookings: make(map[string]BookingMemory, len(prev.Bookings)),
	}}
	d.first = prev.At.IsZero() || prev.Schema != MemorySchema
	if d.first {
		d.prev = Memory{}
	}
	for i := range now.Hosts {
		d.host(&now.Hosts[i])
	}
	d.gone()
	d.bookings()
	slices.SortFunc(d.events, func(a, b Event) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID))
	})
	return d.events, d.next
}

// Keep adds new events to a log, newest last, each ID once, and drops the oldest
// beyond [MaxLog].
func Keep(log, fresh []Event) []Event {
	seen := make(map[string]bool, len(log)+len(fresh))
	kept := make([]Event, 0, len(log)+len(fresh))
	for _, e := range slices.Concat(log, fresh) {
		if !seen[e.ID] {
			seen[e.ID] = true
			kept = append(kept, e)
		}
	}
	slices.SortStableFunc(kept, func(a, b Event) int { return a.At.Compare(b.At) })
	return kept[max(0, len(kept)-MaxLog):]
}

type diff struct {
	now    *board.Board
	prev   Memory
	next   Memory
	first  bool
	events []Event
}

// emit completes an event with its ID: kind, place and time of the cause.
func (d *diff) emit(e Event, cause time.Time) {
	if d.first {
		return
	}
	place := e.Host
	switch {
	case e.Booking != "":
		place = e.Booking
	case e.UUID != "":
		place += "/" + e.UUID
	case e.GPU != nil:
		place += "/" + strconv.Itoa(*e.GPU)
	}
	e.ID = string(e.Kind) + "/" + place + "/" + stamp(cause)
	e.At = cmp.Or(e.At, d.now.GeneratedAt).UTC()
	e.Summary = snapshot.Text(e.Summary, maxText)
	users := make([]string, len(e.Users))
	for i, who := range e.Users {
		users[i] = snapshot.Text(who, maxName)
	}
	e.Users = users
	if personal(e.Kind) {
		e.ID += "/" + users[0]
	}
	e.ID = snapshot.Text(e.ID, maxText)
	d.events = append(d.events, e)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("20060102T150405Z")
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func (d *diff) host(h *board.Host) {
	was, known := d.prev.Hosts[h.Name]
	is := HostMemory{State: h.State, LastNews: h.SnapshotAt}
	say := func(kind Kind, at, cause time.Time, summary string) {
		d.emit(Event{Kind: kind, Host: h.Name, At: at, Summary: h.Name + " " + summary}, cause)
	}
	switch {
	case h.State == board.Maintenance || h.State == board.Never:
		// Neither is an event, and neither changes the state of the last one.
		if known {
			is.State = was.State
		}
		if !known && !d.first {
			say(HostNew, time.Time{}, d.prev.At, "is on the board")
		}
	case !known:
		say(HostNew, h.SnapshotAt, d.prev.At, "is on the board")
	case h.State == board.Up && (was.State == board.Stale || was.State == board.Down):
		say(HostUp, h.SnapshotAt, was.LastNews, "is back")
	case h.State == board.Stale && was.State == board.Up:
		say(HostStale, time.Time{}, h.SnapshotAt, "is stale: no news since "+moment(h.SnapshotAt))
	case h.State == board.Down && was.State != board.Down && was.State != board.Never && was.State != board.Maintenance:
		say(HostDown, time.Time{}, h.SnapshotAt, "is down: no news since "+moment(h.SnapshotAt))
	case h.State == board.Stale && was.State == board.Down:
		is.State = board.Down // its snapshot is old already: it is not back yet
	}
	d.next.Hosts[h.Name] = is
	d.gpus(h)
}

// gone finds the hosts that are no longer on the board.
func (d *diff) gone() {
	for name, was := range d.prev.Hosts {
		if _, still := d.next.Hosts[name]; !still {
			d.emit(Event{Kind: HostGone, Host: name, Summary: name + " is no longer on the board"}, was.LastNews)
		}
	}
}

// bookings emits the events of each booking that are due.
func (d *diff) bookings() {
	at, before := d.now.GeneratedAt, d.prev.At
	for i := range d.now.Bookings {
		b := &d.now.Bookings[i]
		if b.ID == "" || !b.ByPerson() || len(d.next.Bookings) == MaxBookings || b.From.Sub(at) > ahead {
			continue
		}
		if _, twice := d.next.Bookings[b.ID]; twice {
			continue
		}
		was, known := d.prev.Bookings[b.ID]
		sameEnd := known && was.Until.Equal(b.Until)
		d.next.Bookings[b.ID] = BookingMemory{Until: b.Until, Unused: was.Unused}
		begun := func(t time.Time) bool { return !b.From.After(t) }
		ending := func(t time.Time) bool { return begun(t) && !b.Until.IsZero() && b.Until.Sub(t) <= EndingWithin }
		ended := func(t time.Time) bool { return !b.Until.IsZero() && !t.Before(b.Until) }
		say := func(kind Kind, when, cause time.Time, summary string) {
			e := Event{Kind: kind, Host: b.Host, At: when, Booking: b.ID, Users: []string{b.Name},
				Summary: place(b) + ": " + summary}
			if len(b.GPUs) == 1 {
				e.GPU = &b.GPUs[0]
			}
			d.emit(e, cause)
		}
		if begun(at) && !ended(at) && !(known && begun(before)) {
			say(BookingStart, b.From, b.From, b.Name+" has it "+until(b))
		}
		if ending(at) && !ended(at) && !(sameEnd && ending(before)) {
			say(BookingEnding, b.Until.Add(-EndingWithin), b.Until,
				"the booking of "+b.Name+" ends at "+moment(b.Until))
		}
		if ended(at) && known && !(sameEnd && ended(before)) {
			say(BookingEnd, b.Until, b.Until, "the booking of "+b.Name+" is over")
		}
	}
	d.unused()
}

// unused emits one event for each booking that has begun, and of which nothing is used.
func (d *diff) unused() {
	used := map[string]bool{}
	for _, g := range d.now.Units() {
		if g.Booking != nil && !g.NoShow {
			used[g.Booking.ID] = true // or it is not known
		}
	}
	for h, g := range d.now.Units() {
		if !g.NoShow || g.Booking == nil || used[g.Booking.ID] {
			continue
		}
		is, known := d.next.Bookings[g.Booking.ID]
		if !known || is.Unused {
			continue
		}
		is.Unused = true
		d.next.Bookings[g.Booking.ID] = is
		d.emit(
			Event{Kind: BookingUnused, Host: h.Name, GPU: new(g.Index), Booking: g.Booking.ID,
				Users: []string{g.Booking.Name},
				Summary: place(g.Booking) + " is booked by " + g.Booking.Name +
					" and not in use; to end the booking: " + release(g.Booking)},
			g.Booking.From)
	}
}

func until(b *board.Booking) string {
	if b.Until.IsZero() {
		return "without an end"
	}
	return "until " + moment(b.Until)
}

func place(b *board.Booking) string {
	if len(b.GPUs) == 0 {
		return b.Host
	}
	return b.Host + " GPU " + strings.Join(b.Labels(), ",")
}

func name(h *board.Host, g *board.GPU) string { return h.Name + " GPU " + g.Label() }

// Mask returns the event for a site that does not name people: kind, time and place,
// with masked names. The summary is made anew of these, because that of the event
// quotes people and the driver.
func (e Event) Mask(name, booking func(string) string) Event {
	out := Event{ID: e.ID, Kind: e.Kind, At: e.At, Host: e.Host, GPU: e.GPU, UUID: e.UUID, Booking: booking(e.Booking)}
	if e.Booking != "" {
		out.ID = strings.ReplaceAll(e.ID, e.Booking, out.Booking)
	}
	if personal(e.Kind) && len(e.Users) == 1 {
		out.ID = strings.TrimSuffix(e.ID, e.Users[0]) + name(e.Users[0])
	}
	for _, who := range e.Users {
		out.Users = append(out.Users, name(who))
	}
	slices.Sort(out.Users)
	out.Users = slices.Compact(out.Users)
	place := e.Host
	if e.GPU != nil {
		place += " GPU " + strconv.Itoa(*e.GPU)
	}
	out.Summary = snapshot.Text(place+" "+masked(e.Kind), maxText)
	return out
}

// masked describes a kind in words that name nobody.
func masked(kind Kind) string {
	words := map[Kind]string{
		HostNew: "is on the board", HostUp: "is back", HostStale: "is stale", HostDown: "is down",
		HostGone: "is no longer on the board",
		GPULost:  "is lost", GPUBack: "is back", GPUStuck: "holds memory that no living process owns",
		GPUFreed:     "is free after a long use",
		BookingStart: "is booked from now on", BookingEnding: "has a booking that ends soon",
		BookingEnd: "has a booking that is over", BookingUnused: "is booked and not in use",
		GPUContested: "is booked by one and used by another", GPUContestedEnd: "is not contested any more",
		GPUIdle: "is held and idle", GPUXID: "has an error of its driver",
		GPUHot: "is slowed down because it is too hot", GPUHotEnd: "is not too hot any more",
	}
	return cmp.Or(words[kind], string(kind))
}
