package snapshot

import (
	"fmt"
	"time"
)

const day = 24 * time.Hour

// Length writes a length of time, without its sign, in its two largest units: "2 h 30 min",
// "3 d 4 h", "45 s".
func Length(d time.Duration) string {
	d = d.Abs().Round(time.Second)
	return DaysLength(int(d/day), d%day)
}

// DaysLength is [Length] for days of the calendar, of which some have 23 or 25 hours, and the rest.
func DaysLength(days int, rest time.Duration) string {
	parts := []struct {
		n    int
		unit string
	}{
		{days, "d"}, {int(rest / time.Hour), "h"},
		{int(rest % time.Hour / time.Minute), "min"}, {int(rest % time.Minute / time.Second), "s"},
	}
	for len(parts) > 1 && parts[0].n <= 0 {
		parts = parts[1:]
	}

	text := fmt.Sprintf("%d %s", max(parts[0].n, 0), parts[0].unit)
	if len(parts) > 1 && parts[1].n > 0 {
		text += fmt.Sprintf(" %d %s", parts[1].n, parts[1].unit)
	}
	return text
}
