package booking

import (
	"fmt"
	"time"

	"gpuboard/internal/snapshot"
)

// Describe writes the period of a booking for people:
// "Sat 21 Nov 18:00 → Mon 23 Nov 18:00 CET (2 d)". A zero from is now, or not known if that
// is after the end; a zero until is an open end. The year is written if it is not that of now.
func Describe(from, until, now time.Time, zone *time.Location) string {
	if from.IsZero() {
		from = now
	}
	from, until, now = from.In(zone), until.In(zone), now.In(zone)
	if from.Equal(now) && !until.IsZero() && !until.After(now) { // it began nobody knows when
		return "until " + Near(until, now) + until.Format(" MST")
	}
	first, _ := from.Zone()
	begin := Near(from, now)
	if until.IsZero() {
		return begin + " " + first + " → open end"
	}
	last, _ := until.Zone()
	if first != last {
		begin += " " + first
	}
	return fmt.Sprintf("%s → %s %s (%s)", begin, Near(until, now), last, span(from, until))
}

// Near writes a moment with its year, if that is not the year of now. Both are in the same zone.
func Near(t, now time.Time) string {
	if t.Year() != now.Year() {
		return t.Format("Mon 2 Jan 2006 15:04")
	}
	return t.Format("Mon 2 Jan 15:04")
}

// EndText is the end of a booking, as commands and the form take it.
func EndText(until time.Time) string {
	if until.IsZero() {
		return "never"
	}
	return until.Format(time.RFC3339)
}

// WholeMinute is the first whole minute that is not before a moment: people write no seconds.
func WholeMinute(t time.Time) time.Time { return t.Add(time.Minute - 1).Truncate(time.Minute) }

// span is the length of a period in days of the calendar. Both times are in the same zone.
func span(from, until time.Time) string {
	days := int(until.Sub(from) / (24 * time.Hour))
	for days > 0 && from.AddDate(0, 0, days).After(until) {
		days--
	}
	for !from.AddDate(0, 0, days+1).After(until) {
		days++
	}
	if days > 0 { // adding no day could choose the other one of two equal times of a change of clocks
		from = from.AddDate(0, 0, days)
	}
	return toTheMinute(days, until.Sub(from))
}

// Length writes a duration in its two largest units, without its sign: "2 d 6 h", "less than 1 min".
func Length(d time.Duration) string {
	const day = 24 * time.Hour
	d = d.Abs()
	return toTheMinute(int(d/day), d%day)
}

func toTheMinute(days int, rest time.Duration) string {
	if days <= 0 && rest < time.Minute {
		return "less than 1 min"
	}
	return snapshot.DaysLength(days, rest.Truncate(time.Minute))
}
