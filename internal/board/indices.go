package board

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

// bookingKey names a booking by index over time. An edited one has another key, so its card is found anew.
func bookingKey(b *booking.Booking) string {
	return b.Host + "/" + itoa(b.Target.Index) + "/" + b.ID + "/" + b.From.UTC().Format(time.RFC3339)
}

// byNumber reports whether a booking names a GPU by index. Its target may have a UUID besides.
func byNumber(b *booking.Booking) bool { return !b.Target.All && b.Target.Index >= 0 }

// follow finds the card that each booking by number means: the one that had the
// number when the booking was first seen. Numbers change when a GPU is gone and
// those behind it move up. Where the card has left the board, the number counts.
func (m *merger) follow(of *hostFacts) {
	of.cards = map[string]*place{}
	named, numbers := map[string]*place{}, map[int]string{} // by identity, on this host alone; and these by number
	for i := range of.places {
		p := &of.places[i]
		for _, uuid := range p.uuids() {
			if *uuid != "" {
				of.cards[*uuid] = p
			}
		}
		if id := p.gpu.Identity(); id != "" {
			named[id] = p
			if p.sure() {
				numbers[p.gpu.Index] = id
			}
		}
	}
	of.followUnclear()
	for _, b := range of.booked {
		if !byNumber(b) {
			continue
		}
		key := bookingKey(b)
		id := m.Marks.Bookings[key]
		if named[id] == nil {
			id = numbers[b.Target.Index]
		}
		if id == "" || m.outdated(b) {
			continue
		}
		m.next.Bookings[key] = id
		p := named[id]
		if p.gpu.Index != b.Target.Index && !b.OverAt(m.Now) {
			m.moved = append(m.moved, movedProblem(m.Calendar.File, b, p))
		}
		if b.Target.UUID = p.gpu.UUID; p.gpu.UUID == "" { // no other host knows the card by its bus address
			b.Target.Index = p.gpu.Index
		}
	}
}

// followUnclear lets a booking of a UUID that several GPUs have hold each of them, and one of a UUID
// with a wrong letter the GPU that it may mean, for nobody.
func (of *hostFacts) followUnclear() {
	for _, b := range of.booked {
		if b.Target.UUID == "" || of.cards[b.Target.UUID] != nil {
			continue
		}
		repeated := false
		for i := range of.places {
			if p := &of.places[i]; slices.Contains(p.repeated, b.Target.UUID) {
				of.hold(b, booking.Target{Index: p.gpu.Index})
				repeated = true
			}
		}
		if near := booking.NearUUID(b.Target.UUID, maps.Keys(of.cards)); near != "" && !repeated {
			of.hold(b, booking.Target{UUID: near, Index: b.Target.Index}).Disown()
		}
	}
}

// hold lets a booking hold one more card, and returns it as it does.
func (of *hostFacts) hold(b *booking.Booking, card booking.Target) *booking.Booking {
	held := *b
	held.Target = card
	of.booked = append(of.booked, &held)
	return &held
}

func movedProblem(file string, b *booking.Booking, p *place) snapshot.Problem {
	is := "which is number " + itoa(p.gpu.Index) + " now; write its UUID or the new number"
	if p.missing() {
		is = "which the driver lists no more; book another"
	}
	return snapshot.Problem{Code: "booking:moved", Host: b.Host, File: file, Line: b.Line, Col: b.Col,
		Message: fmt.Sprintf("the booking of GPU %d of %s means the card %s, %s", b.Target.Index, b.Host,
			cmp.Or(p.gpu.UUID, p.gpu.PCIBusID), is)}
}

// outdated reports whether a booking is over for so long that it is not shown.
func (m *merger) outdated(b *booking.Booking) bool {
	return b.OverAt(m.Now) && b.Until.Add(m.set.ShowExpired).Before(m.Now)
}

// keepCards keeps the cards of bookings whose host is not on the board, or that cannot be read now.
func (m *merger) keepCards() {
	var unseen []string // of the keys that were known
	for key := range m.Marks.Bookings {
		if m.next.Bookings[key] == "" {
			unseen = append(unseen, key)
		}
	}
	if len(unseen) == 0 {
		return
	}

	standing := map[string]bool{}
	for i := range m.booked {
		if b := &m.booked[i]; byNumber(b) && !m.outdated(b) {
			standing[bookingKey(b)] = true
		}
	}
	for _, key := range unseen {
		if (standing[key] || m.Calendar.Broken) && len(m.next.Bookings) < booking.MaxBookings {
			m.next.Bookings[key] = m.Marks.Bookings[key]
		}
	}
}
