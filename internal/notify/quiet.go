package notify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/events"
)

// checkNot checks the time of day in which nothing is sent, and writes it as quiet reads it.
func (h *Hook) checkNot() error {
	if h.Not == "" {
		return nil
	}
	from, to, _ := strings.Cut(h.Not, "-")
	begin, err1 := time.Parse("15:04", strings.TrimSpace(from))
	end, err2 := time.Parse("15:04", strings.TrimSpace(to))
	if err1 != nil || err2 != nil || begin.Equal(end) {
		return fmt.Errorf("not: %q is no time of day; write it as 20:00-08:00", h.Not)
	}
	h.Not = begin.Format("15:04") + "-" + end.Format("15:04")
	return nil
}

// quiet reports whether nothing is sent to the hook at this time of day.
func (c *Notifier) quiet(h *Hook, now time.Time) bool {
	from, to, some := strings.Cut(h.Not, "-")
	at := now.In(c.opt.Zone).Format("15:04")
	if from < to {
		return some && from <= at && at < to
	}
	return some && (from <= at || at < to)
}

// An ending is what an event ends: what begins so, and what may be said in between.
type ending struct {
	begins  events.Kind
	between []events.Kind
}

func endings() map[events.Kind]ending {
	return map[events.Kind]ending{
		events.HostUp:          {events.HostStale, []events.Kind{events.HostDown}},
		events.GPUBack:         {events.GPULost, nil},
		events.GPUContestedEnd: {events.GPUContested, nil},
		events.GPUHotEnd:       {events.GPUHot, nil},
		events.BookingEnd:      {events.BookingStart, []events.Kind{events.BookingEnding, events.BookingUnused}},
	}
}

// withoutEnded leaves out what has ended while it waited, and that it ended where whoever hears of that did not hear
// that it began.
func withoutEnded(list []item) []item {
	out := make([]bool, len(list))
	for i, end := range list {
		if end.Event == nil {
			continue
		}
		of, ends := endings()[end.Event.Kind]
		if !ends {
			continue
		}
		began := false
		var heard []string
		for j, it := range list[:i] {
			e := it.Event
			if e == nil || e.Host != end.Event.Host || e.UUID != end.Event.UUID || e.Booking != end.Event.Booking {
				continue
			}
			switch {
			case e.Kind == of.begins:
				out[j], began, heard = true, true, append(heard, e.Users...)
			case slices.Contains(of.between, e.Kind):
				out[j] = true
			}
		}
		out[i] = began &&
			!slices.ContainsFunc(end.Event.Users, func(who string) bool { return !slices.Contains(heard, who) })
	}
	var kept []item
	for i, it := range list {
		if !out[i] {
			kept = append(kept, it)
		}
	}
	return kept
}
