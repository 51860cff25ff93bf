package board

import (
	"time"

	"gpuboard/booking"
)

// A clock answers how moments lie to now, and notes the first moment at which one
// of its answers will be another. What was made of nothing but its answers is
// made the same until then. Everything that a card has from the time of the
// generation comes through here.
type clock struct {
	now   time.Time
	ends  bool
	until time.Time // if it ends: from when on an answer would be another
}

// reached reports whether a moment is now, or was before.
func (c *clock) reached(t time.Time) bool {
	if !t.After(c.now) {
		return true
	}
	if !c.ends || t.Before(c.until) {
		c.ends, c.until = true, t
	}
	return false
}

// passed reports whether a moment was before now.
func (c *clock) passed(t time.Time) bool { return c.reached(t.Add(1)) }

// active reports whether a booking is in force.
func (c *clock) active(b *booking.Booking) bool { return c.reached(b.From) && !c.over(b) }

// over reports whether a booking has ended.
func (c *clock) over(b *booking.Booking) bool { return !b.Until.IsZero() && c.reached(b.Until) }

// tell is now itself: what says it is said by no other generation.
func (c *clock) tell() time.Time {
	c.ends, c.until = true, c.now
	return c.now
}

// holds reports whether at another moment the same is answered to everything that
// was asked. What it is before now was not asked about.
func (c *clock) holds(t time.Time) bool {
	return !t.Before(c.now) && (!c.ends || t.Before(c.until))
}
