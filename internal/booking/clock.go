package booking

import (
	"fmt"
	"slices"
	"time"
)

// A date is a day of the calendar, and a wall a time of day on a clock. They are a point
// in time only together with a zone.
type date struct {
	year  int
	month time.Month
	day   int
}

type wall struct{ hour, min, sec int }

func dateOf(t time.Time) date {
	y, m, d := t.Date()
	return date{y, m, d}
}

func (d date) plus(days int) date {
	return dateOf(time.Date(d.year, d.month, d.day+days, 12, 0, 0, 0, time.UTC))
}

func (d date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.year, int(d.month), d.day) }

func (w wall) String() string {
	if w.sec != 0 {
		return fmt.Sprintf("%02d:%02d:%02d", w.hour, w.min, w.sec)
	}
	return fmt.Sprintf("%02d:%02d", w.hour, w.min)
}

// moments returns when clocks in the zone show this: once, never, or twice, earlier first.
func moments(d date, w wall, zone *time.Location) []time.Time {
	asUTC := time.Date(d.year, d.month, d.day, w.hour, w.min, w.sec, 0, time.UTC)
	var found []time.Time
	last := -1 << 20 // no offset
	for _, probe := range []time.Duration{-36 * time.Hour, 0, 36 * time.Hour} {
		_, offset := asUTC.Add(probe).In(zone).Zone()
		if offset == last {
			continue // the same moment
		}
		last = offset
		t := asUTC.Add(-time.Duration(offset) * time.Second).In(zone)
		if dateOf(t) == d && t.Hour() == w.hour && t.Minute() == w.min && t.Second() == w.sec {
			found = append(found, t)
		}
	}
	slices.SortFunc(found, time.Time.Compare)
	return slices.CompactFunc(found, time.Time.Equal)
}

// resolve finds the time at which clocks in the zone show this. The error for a time
// that does not exist names the times before and after. Of two times, an end is the
// later one and a beginning the earlier one, so that no booking is shortened, and the
// note says so. abbreviation, if not "", chooses between them.
func resolve(d date, w wall, zone *time.Location, abbreviation string, end bool) (t time.Time, note string, err error) {
	if w.hour == 24 {
		d, w = d.plus(1), wall{}
	}
	found := moments(d, w, zone)
	if abbreviation != "" {
		for _, t := range found {
			if name, _ := t.Zone(); name == abbreviation {
				return t, "", nil
			}
		}
		if len(found) > 0 {
			name, _ := found[0].Zone()
			return time.Time{}, "", fmt.Errorf(
				"the zone is %s at that time, not %s: leave it out, or write an offset like +01:00", name, abbreviation)
		}
	}
	switch len(found) {
	case 0:
		after := gapEnd(d, w, zone)
		before := after.Add(-time.Minute)
		return time.Time{}, "", fmt.Errorf("%s %s does not exist in %s, because clocks go forward then: write %s or %s",
			d, w, zone, before.Format("15:04"), after.Format("15:04"))
	case 1:
		return found[0], "", nil
	}
	chosen, which := found[0], "first"
	if end {
		chosen, which = found[1], "second"
	}
	first, _ := found[0].Zone()
	second, _ := found[1].Zone()
	return chosen, fmt.Sprintf(
		"%s %s occurs twice in %s, because clocks go back then (%s, then %s): the %s counts; write the zone after it to choose",
		d, w, zone, first, second, which), nil
}

// gapEnd is when clocks jump over a time that does not exist.
func gapEnd(d date, w wall, zone *time.Location) time.Time {
	asUTC := time.Date(d.year, d.month, d.day, w.hour, w.min, w.sec, 0, time.UTC)
	_, offset := asUTC.Add(-36 * time.Hour).In(zone).Zone()
	// Read with the old offset, the time is after the jump.
	start, _ := asUTC.Add(-time.Duration(offset) * time.Second).In(zone).ZoneBounds()
	return start
}

// startOfDay is the first moment of a day: the end of the jump if clocks jump over midnight.
func startOfDay(d date, zone *time.Location) time.Time {
	if found := moments(d, wall{}, zone); len(found) > 0 {
		return found[0]
	}
	return gapEnd(d, wall{}, zone)
}
