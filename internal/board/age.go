package board

import (
	"cmp"
	"time"

	"gpuboard/internal/snapshot"
)

// How old a board may be, in intervals of its generator. The page turns grey by the same rule.
const (
	lateIntervals = 2.5
	deadIntervals = 10
)

// maxInterval is the longest interval of a published board that is believed.
const maxInterval = 7 * 24 * time.Hour

// Age returns how old the board is.
func (b *Board) Age(now time.Time) time.Duration { return now.Sub(b.GeneratedAt) }

// Every returns the interval at which the board is generated, a minute if that is not known.
func (b *Board) Every() time.Duration {
	if b.Interval <= 0 {
		return time.Minute
	}
	return b.Interval
}

// MadeEvery returns the board as one of which a new one is made at another interval.
func (b *Board) MadeEvery(interval time.Duration) *Board {
	other := *b
	other.Interval, other.Next = interval, interval
	return &other
}

// UntilNext is how long after this generation the next one is expected to be complete.
func (b *Board) UntilNext() time.Duration { return cmp.Or(b.Next, b.Every()) }

// Due is when the next generation is expected to be complete.
func (b *Board) Due() time.Time { return b.GeneratedAt.Add(b.UntilNext()) }

// LateAt is from when on the board is too old to be acted upon.
func (b *Board) LateAt() time.Time {
	return b.GeneratedAt.Add(time.Duration(lateIntervals * float64(b.Every())))
}

// SetTimes sets when the next generation is due and from when on the board is late, as a published
// board says it. That of an earlier version says only the former, which was an interval later.
func (b *Board) SetTimes(due, lateAt time.Time) {
	b.Next, b.Interval = due.Sub(b.GeneratedAt), due.Sub(b.GeneratedAt)
	if !lateAt.IsZero() {
		b.Interval = time.Duration(float64(lateAt.Sub(b.GeneratedAt)) / lateIntervals)
	}
	if b.Interval <= 0 || b.Interval > maxInterval || b.Next <= 0 || b.Next > maxInterval {
		b.Interval, b.Next = 0, 0
	}
}

// Late reports whether the board is too old to be acted upon.
func (b *Board) Late(now time.Time) bool { return now.After(b.LateAt()) }

// Dead reports whether the board is so old that it says nothing about now.
func (b *Board) Dead(now time.Time) bool { return b.Age(now) > deadIntervals*b.Every() }

// Expire makes everything on a board unknown.
func (b *Board) Expire() {
	for i := range b.Hosts {
		h := &b.Hosts[i]
		if h.State != Never {
			h.State = Stale
		}
		h.Node = snapshot.Node{}
		for g := range h.Rows() {
			if g.Last == nil {
				g.Last = g.lastSeen(h.SnapshotAt)
			}
			reason := ReasonStale
			if g.Reason == ReasonElsewhere {
				reason = g.Reason // it goes on to count at the other host alone
			}
			g.forget()
			*g = GPU{
				GPU: g.GPU, ShortName: g.ShortName, Slices: g.Slices, Slice: g.Slice,
				CountedAt: g.CountedAt, State: Unknown, Reason: reason,
				Booking: g.Booking, Next: g.Next, Others: g.Others, MoreOthers: g.MoreOthers, Last: g.Last,
			}
		}
	}
	for i := range b.Sites {
		b.Sites[i].State = Stale
	}
	b.Count()
}
