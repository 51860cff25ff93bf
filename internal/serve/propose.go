package serve

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
)

// usualDays is for how long a booking is proposed.
const usualDays = 2

// begun returns the places that are to be booked, with the beginning that is asked for: what runs there now is in the
// way of a booking that begins now, and of no later one.
func (v *visit) begun() []booking.Booking {
	places := slices.Clone(v.page.At)
	if from, _, _, err := v.Times(strings.TrimSpace(v.page.Fields.From), "never"); err == nil {
		for i := range places {
			places[i].From = from
		}
	}
	return places
}

// propose fills in what nobody has typed: one GPU, from the end of what is booked now, and for two days or until the
// next booking of these places.
func (v *visit) propose() {
	const layout = "2006-01-02 15:04 -07:00"
	p, f := &v.page, &v.page.Fields
	f.GPUs = cmp.Or(f.GPUs, "1")
	if f.Until != "" {
		return
	}
	begin := v.Now
	if f.From != "" {
		var err error
		if begin, _, _, err = v.Times(strings.TrimSpace(f.From), "never"); err != nil {
			return
		}
	}
	f.Until = strconv.Itoa(usualDays) + "d"
	if len(p.At) == 0 {
		return
	}

	chain := make([]*booking.Booking, len(p.Standing))
	for i := range p.Standing {
		chain[i] = &p.Standing[i]
	}
	slices.SortStableFunc(chain, func(x, y *booking.Booking) int { return x.From.Compare(y.From) })
	if f.From == "" && len(chain) > 0 && chain[0].ActiveAt(v.Now) {
		if begin = board.FreeFrom(chain); begin.IsZero() {
			return // it is booked without an end
		}
		begin = booking.WholeMinute(begin)
		f.From = begin.In(v.Zone).Format(layout)
	}
	next := slices.IndexFunc(chain, func(b *booking.Booking) bool { return b.From.After(begin) })
	if next >= 0 && chain[next].From.Before(begin.In(v.Zone).AddDate(0, 0, usualDays)) {
		f.Until = chain[next].From.In(v.Zone).Format(layout)
	}
}

// offerInstead finds what there is in the place of what somebody else has booked meanwhile: as many GPUs of that model
// for the same time, or for as long from when there are so many.
func (v *visit) offerInstead(cal *booking.Calendar) {
	p := &v.page
	from, until, _, err := v.Times(strings.TrimSpace(p.Fields.From), strings.TrimSpace(p.Fields.Until))
	var units []board.Unit
	for h, g := range v.board.Units() {
		if slices.ContainsFunc(p.At,
			func(at booking.Booking) bool { return at.Host == h.Name && g.CoveredBy(at.Target) }) {
			units = append(units, board.Unit{Host: h, GPU: g})
		}
	}
	if err != nil || len(units) == 0 {
		return
	}

	first := units[0]
	wish := board.Wish{GPUs: len(units), OneHost: true, From: from, Until: until}
	wish.MIG, wish.Model = first.GPU.Slice != nil, first.GPU.Name
	for _, u := range units {
		wish.OneHost = wish.OneHost && u.Host == first.Host
		if u.GPU.Name != first.GPU.Name {
			wish.Model = ""
		}
	}
	offer := wish.Offer(v.board, cal, v.Now)
	if offer.Units == nil && !offer.Next.IsZero() {
		wish = wish.Moved(offer.Next)
		offer = wish.Offer(v.board, cal, v.Now)
	}
	if offer.Units != nil {
		p.Wish, p.Offer = &wish, &offer
	}
}
