package events

import (
	"slices"
	"strconv"
	"strings"

	"gpuboard/internal/snapshot"
)

// Mask returns the event for a site that does not name people: kind, time and place,
// with masked names. The summary is made anew of these, because that of the event
// quotes people and the driver.
func (e Event) Mask(name, booking func(string) string) Event {
	out := Event{ID: e.ID, Kind: e.Kind, At: e.At, Host: e.Host, GPU: e.GPU, UUID: e.UUID, Booking: booking(e.Booking)}
	if e.Booking != "" {
		out.ID = strings.ReplaceAll(e.ID, e.Booking, out.Booking)
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
	switch kind {
	case HostNew:
		return "is on the board"
	case HostUp, GPUBack:
		return "is back"
	case HostStale:
		return "is stale"
	case HostDown:
		return "is down"
	case HostGone:
		return "is no longer on the board"
	case GPULost:
		return "is lost"
	case GPUStuck:
		return "holds memory that no living process owns"
	case GPUFreed:
		return "is free after a long use"
	case BookingStart:
		return "is booked from now on"
	case BookingEnding:
		return "has a booking that ends soon"
	case BookingEnd:
		return "has a booking that is over"
	case BookingNoShow:
		return "is booked and not in use"
	default:
		return string(kind)
	}
}
