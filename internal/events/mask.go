package events

import (
	"cmp"
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
	words := map[Kind]string{
		HostNew: "is on the board", HostUp: "is back", HostStale: "is stale", HostDown: "is down", HostGone: "is no longer on the board",
		GPULost: "is lost", GPUBack: "is back", GPUStuck: "holds memory that no living process owns", GPUFreed: "is free after a long use",
		BookingStart: "is booked from now on", BookingEnding: "has a booking that ends soon",
		BookingEnd: "has a booking that is over", BookingNoShow: "is booked and not in use",
	}
	return cmp.Or(words[kind], string(kind))
}
