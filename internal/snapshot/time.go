package snapshot

import (
	"fmt"
	"strings"
	"time"
)

const timeLayout = "2006-01-02T15:04:05.000Z"

// A time outside these years comes from a broken clock or an attack, and would overflow
// arithmetic in nanoseconds. The zero Time is accepted.
const (
	minYear = 1970
	maxYear = 2261
)

// TimeOf returns t in UTC, cut to the millisecond.
func TimeOf(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// String returns the form that is written to files: RFC 3339 in UTC with milliseconds.
func (t Time) String() string { return t.UTC().Format(timeLayout) }

// MarshalJSON writes RFC 3339 in UTC with milliseconds.
func (t Time) MarshalJSON() ([]byte, error) {
	if err := inYears(t.UTC()); err != nil {
		return nil, err
	}
	return t.UTC().AppendFormat(nil, `"`+timeLayout+`"`), nil
}

// UnmarshalJSON reads RFC 3339 of any zone and precision; null leaves t as it is.
func (t *Time) UnmarshalJSON(data []byte) error {
	s := string(data)
	if s == "null" {
		return nil
	}
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return fmt.Errorf("time is no string: %s", Clip(Text(s, MaxTextBytes), 40))
	}
	parsed, err := time.Parse(time.RFC3339, strings.ToUpper(s[1:len(s)-1]))
	if err != nil {
		return fmt.Errorf("time is not RFC 3339: %q", Clip(Text(s[1:len(s)-1], MaxTextBytes), 40))
	}
	if err := inYears(parsed.UTC()); err != nil {
		return err
	}
	*t = TimeOf(parsed)
	return nil
}

func inYears(t time.Time) error {
	if y := t.Year(); !t.IsZero() && (y < minYear || y > maxYear) {
		return fmt.Errorf("year %d of a time is not within %d to %d", y, minYear, maxYear)
	}
	return nil
}
