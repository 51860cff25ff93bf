package board

import "gpuboard/internal/booking"

// Fleet is what bookings are checked against: the hosts of a board with their
// GPUs, and the number that the GPU of each of its bookings has now.
func (b *Board) Fleet() booking.Fleet {
	f := booking.Fleet{Hosts: map[string]booking.KnownHost{}, Cards: map[string]int{}}
	for i := range b.Hosts {
		h := &b.Hosts[i]
		known := booking.KnownHost{UUIDs: map[string]int{}}
		for g := range h.Rows() {
			known.GPUs = max(known.GPUs, g.Index+1)
			if g.UUID != "" {
				known.UUIDs[booking.CanonicalUUID(g.UUID)] = g.Index
			} else if g.Slice != nil {
				known.Incomplete = true
			}
		}
		f.Hosts[h.Name] = known
	}
	for i := range b.Bookings {
		if bk := &b.Bookings[i]; bk.ID != "" && len(bk.GPUs) == 1 {
			f.Cards[bk.Host+"/"+bk.ID] = bk.GPUs[0]
		}
	}
	return f
}
