// Package events is the pure difference of two boards: what happened between
// one generation and the next. It reads no clock and no disk; whoever calls it
// keeps the [Memory], and carries the events out.
package events

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
)

// Kind is what happened. The words are stable: hooks and filters go by them.
type Kind string

// The values of Kind.
const (
	HostNew       Kind = "host-new"       // a host is on the board for the first time
	HostUp        Kind = "host-up"        // news again, after stale or down
	HostStale     Kind = "host-stale"     // no news for a while
	HostDown      Kind = "host-down"      // none for long
	HostGone      Kind = "host-gone"      // no longer on the board
	GPULost       Kind = "gpu-lost"       // the driver lost it, or lists it no more
	GPUBack       Kind = "gpu-back"       // it was lost, and is well
	GPUStuck      Kind = "gpu-stuck"      // memory is held that no living process owns
	GPUFreed      Kind = "gpu-freed"      // free after a long use
	BookingStart  Kind = "booking-start"  // a booking came into force
	BookingEnding Kind = "booking-ending" // it ends within [EndingWithin]
	BookingEnd    Kind = "booking-end"    // its time is over
	BookingNoShow Kind = "booking-noshow" // booked, and not used for long
)

// What counts as soon, as long, and as settled.
const (
	// EndingWithin is how long before its end a booking is announced as ending.
	EndingWithin = time.Hour
	// LongUse is how long a GPU must have been used for its release to be news.
	LongUse = 6 * time.Hour
	// SettledAfter is how long it must then have been free: between two runs of
	// a sweep there is a moment without a process.
	SettledAfter = 5 * time.Minute
	// MaxLog is how many events [Keep] keeps.
	MaxLog = 200
)

// An Event is one thing that happened.
type Event struct {
	// ID is the same whenever the same cause is found again, as after a crash
	// between noticing and remembering. Whoever acts on events acts once per ID.
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	// At is when it happened, as exactly as the boards tell.
	At      time.Time `json:"at"`
	Host    string    `json:"host,omitempty"`
	GPU     *int      `json:"gpu,omitempty"` // index; nil for the host or a booking of several
	UUID    string    `json:"uuid,omitempty"`
	Users   []string  `json:"users,omitempty"`   // whom it concerns, in order
	Booking string    `json:"booking,omitempty"` // its id
	// Summary is one line for people, safe to print.
	Summary string `json:"summary"`
}

// Diff compares a board with what is remembered of the ones before it, and
// returns what happened, oldest first, with what to remember from now on. From
// the zero Memory it returns no events: nothing is news to somebody who sees a
// board for the first time.
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

// Keep appends fresh events to a log, newest last, without those that it has
// already and without the oldest beyond [MaxLog].
func Keep(log, fresh []Event) []Event {
	seen := make(map[string]bool, len(log)+len(fresh))
	kept := make([]Event, 0, len(log)+len(fresh))
	for _, list := range [][]Event{log, fresh} {
		for _, e := range list {
			if !seen[e.ID] {
				seen[e.ID] = true
				kept = append(kept, e)
			}
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

// emit completes an event with its id: kind, place, and the moment of the cause.
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
	e.ID = safe(string(e.Kind)+"/"+place+"/"+stamp(cause), maxText)
	if e.At.IsZero() {
		e.At = d.now.GeneratedAt
	}
	e.At = e.At.UTC()
	e.Summary = safe(e.Summary, maxText)
	users := make([]string, len(e.Users))
	for i, who := range e.Users {
		users[i] = safe(who, maxName)
	}
	e.Users = users
	d.events = append(d.events, e)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("20060102T150405Z")
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// host compares one host, and its GPUs while there is news of them.
func (d *diff) host(h *board.Host) {
	was, known := d.prev.Hosts[h.Name]
	is := HostMemory{State: h.State, LastNews: h.SnapshotAt}
	say := func(kind Kind, at, cause time.Time, summary string) {
		d.emit(Event{Kind: kind, Host: h.Name, At: at, Summary: h.Name + " " + summary}, cause)
	}
	switch {
	case h.State == board.Maintenance || h.State == board.Never:
		// Neither is news, and neither changes what was announced last.
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
		is.State = board.Down // news that is old already; it is not back yet
	}
	d.next.Hosts[h.Name] = is
	d.gpus(h)
}

// gone notices hosts that left the board.
func (d *diff) gone() {
	for name, was := range d.prev.Hosts {
		if _, still := d.next.Hosts[name]; !still {
			d.emit(Event{Kind: HostGone, Host: name, Summary: name + " is no longer on the board"}, was.LastNews)
		}
	}
}

// bookings compares what was announced of each booking with what is due.
func (d *diff) bookings() {
	at := d.now.GeneratedAt
	for i := range d.now.Bookings {
		b := &d.now.Bookings[i]
		if b.ID == "" || len(d.next.Bookings) == MaxBookings {
			continue
		}
		was, known := d.prev.Bookings[b.ID]
		if _, twice := d.next.Bookings[b.ID]; twice {
			continue
		}
		is := was
		if !was.Until.Equal(b.Until) {
			is.Ending, is.Ended = false, false // it was extended, or cut short
		}
		is.Until = b.Until
		started := !b.From.After(at)
		ended := !b.Until.IsZero() && !at.Before(b.Until)
		say := func(kind Kind, when, cause time.Time, summary string) {
			e := Event{Kind: kind, Host: b.Host, At: when, Booking: b.ID, Users: []string{b.Name}, Summary: place(b) + ": " + summary}
			if len(b.GPUs) == 1 {
				e.GPU = &b.GPUs[0]
			}
			d.emit(e, cause)
		}
		if started && !is.Started {
			is.Started = true
			if !ended {
				say(BookingStart, b.From, b.From, b.Name+" has it "+until(b))
			}
		}
		if ended && !is.Ended {
			is.Ended, is.Ending = true, true
			if known {
				say(BookingEnd, b.Until, b.Until, "the booking of "+b.Name+" is over")
			}
		}
		if started && !ended && !b.Until.IsZero() && b.Until.Sub(at) <= EndingWithin && !is.Ending {
			is.Ending = true
			say(BookingEnding, b.Until.Add(-EndingWithin), b.Until, "the booking of "+b.Name+" ends at "+moment(b.Until))
		}
		d.next.Bookings[b.ID] = is
	}
	d.noShows()
}

// noShows announces each booking that nobody came for, once.
func (d *diff) noShows() {
	for i := range d.now.Hosts {
		h := &d.now.Hosts[i]
		for g := range h.Units() {
			if !g.NoShow || g.Booking == nil {
				continue
			}
			is, known := d.next.Bookings[g.Booking.ID]
			if !known || is.NoShow {
				continue
			}
			is.NoShow = true
			d.next.Bookings[g.Booking.ID] = is
			index := g.Index
			d.emit(Event{Kind: BookingNoShow, Host: h.Name, GPU: &index, Booking: g.Booking.ID, Users: []string{g.Booking.Name},
				Summary: name(h, g) + " is booked by " + g.Booking.Name + " and not in use"}, g.Booking.From)
		}
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
