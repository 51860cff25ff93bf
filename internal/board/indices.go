package board

import (
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
func (m *merger) follow(h *Host, places []place) {
	rows := map[string]*place{}
	numbers := map[int]string{}
	for i := range places {
		p := &places[i]
		for j := range p.gpu.MIGDevices {
			if uuid := p.gpu.MIGDevices[j].UUID; uuid != "" {
				rows[uuid] = p
			}
		}
		if p.gpu.UUID == "" {
			continue
		}
		rows[p.gpu.UUID] = p
		if p.sure() {
			numbers[p.gpu.Index] = p.gpu.UUID
		}
	}
	m.cards[h.Name] = rows
	m.followUnclear(h.Name, places)
	for _, b := range m.byHost[h.Name] {
		if !byNumber(b) {
			continue
		}
		key := bookingKey(b)
		uuid := m.Marks.Bookings[key]
		if rows[uuid] == nil {
			uuid = numbers[b.Target.Index]
		}
		if uuid == "" || m.outdated(b) {
			continue
		}
		b.Target.UUID = uuid
		m.next.Bookings[key] = uuid
		if p := rows[uuid]; p.gpu.Index != b.Target.Index && !b.OverAt(m.Now) {
			m.moved = append(m.moved, movedProblem(m.Calendar.File, b, p))
		}
	}
}

// followUnclear lets a booking of a UUID that several GPUs have hold each of them, and one of a UUID
// with a wrong letter the GPU that it may mean, for nobody.
func (m *merger) followUnclear(host string, places []place) {
	rows := m.cards[host]
	for _, b := range m.byHost[host] {
		if b.Target.UUID == "" || rows[b.Target.UUID] != nil {
			continue
		}
		repeated := false
		for i := range places {
			if slices.Contains(places[i].repeated, b.Target.UUID) {
				held := *b
				held.Target = booking.Target{Index: places[i].gpu.Index}
				m.byHost[host] = append(m.byHost[host], &held)
				repeated = true
			}
		}
		if near := booking.NearUUID(b.Target.UUID, maps.Keys(rows)); near != "" && !repeated {
			held := *b
			held.Target.UUID = near
			held.Disown()
			m.byHost[host] = append(m.byHost[host], &held)
		}
	}
	sortByStart(m.byHost[host])
}

func movedProblem(file string, b *booking.Booking, p *place) snapshot.Problem {
	is := "which is number " + itoa(p.gpu.Index) + " now; write its UUID or the new number"
	if p.missing() {
		is = "which the driver lists no more; book another"
	}
	return snapshot.Problem{Code: "booking:moved", Host: b.Host, File: file, Line: b.Line, Col: b.Col,
		Message: fmt.Sprintf("the booking of GPU %d of %s means the card %s, %s", b.Target.Index, b.Host, p.gpu.UUID, is)}
}

// outdated reports whether a booking is over for so long that it is not shown.
func (m *merger) outdated(b *booking.Booking) bool {
	return b.OverAt(m.Now) && b.Until.Add(m.set.ShowExpired).Before(m.Now)
}

// keepCards keeps the cards of bookings whose host is not on the board, or that cannot be read now.
func (m *merger) keepCards() {
	standing := map[string]bool{}
	for i := range m.booked {
		if b := &m.booked[i]; byNumber(b) && !m.outdated(b) {
			standing[bookingKey(b)] = true
		}
	}
	for key, uuid := range m.Marks.Bookings {
		if m.next.Bookings[key] == "" && (standing[key] || m.Calendar.Broken) && len(m.next.Bookings) < booking.MaxBookings {
			m.next.Bookings[key] = uuid
		}
	}
}

// indices are the numbers of the GPUs that a booking is for; none for all.
func (m *merger) indices(b *booking.Booking) []int {
	if p := m.cards[b.Host][b.Target.UUID]; p != nil {
		return []int{p.gpu.Index}
	}
	if byNumber(b) {
		return []int{b.Target.Index}
	}
	return nil
}

// slice is which slice of its GPU a booking is for; nil for all of it.
func (m *merger) slice(b *booking.Booking) *int {
	if p := m.cards[b.Host][b.Target.UUID]; p != nil {
		for i := range p.gpu.MIGDevices {
			if d := &p.gpu.MIGDevices[i]; d.UUID == b.Target.UUID {
				return new(d.Index)
			}
		}
	}
	return nil
}
