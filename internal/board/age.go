package board

import "time"

// How old a board may be, in intervals of its generator. The page turns grey by the same rule.
const (
	lateIntervals = 2.5
	deadIntervals = 10
)

// Age returns how old the board is.
func (b *Board) Age(now time.Time) time.Duration { return now.Sub(b.GeneratedAt) }

// Every returns the interval at which the board is generated, a minute if that is not known.
func (b *Board) Every() time.Duration {
	if b.Interval <= 0 {
		return time.Minute
	}
	return b.Interval
}

// Late reports whether the board is too old to be acted upon.
func (b *Board) Late(now time.Time) bool {
	return float64(b.Age(now)) > lateIntervals*float64(b.Every())
}

// Dead reports whether the board is so old that it says nothing about now.
func (b *Board) Dead(now time.Time) bool { return b.Age(now) > deadIntervals*b.Every() }
