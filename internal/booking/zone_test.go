package booking

import (
	"strings"
	"testing"
	"time"
)

// What is written in a zone that others may not know reads back as the same
// moments in any other.
func TestTimesWithOffsets(t *testing.T) {
	now := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	for _, name := range []string{"Europe/Paris", "America/New_York", "Asia/Kathmandu", "Africa/Monrovia", "UTC"} {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, until := range []time.Time{
			time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC), // Paris shows it twice
			time.Date(2026, 10, 25, 1, 30, 0, 0, time.UTC),
			time.Date(2026, 11, 20, 10, 0, 7, 0, time.UTC),
			time.Date(1971, 6, 1, 10, 0, 0, 0, time.UTC), // Monrovia was 44 min 30 s behind
		} {
			zone := Zone{Location: loc, Offsets: true}
			b := Booking{Host: "a", Name: "x", From: until.Add(-time.Hour), Until: until}
			data, added, err := Add(nil, zone, b)
			if err != nil {
				t.Fatal(err)
			}
			if until.After(now) {
				if data, added[0], err = Extend(data, zone, added[0].ID, until.Add(time.Hour), now); err != nil {
					t.Fatal(err)
				}
				until = until.Add(time.Hour)
			}
			for _, other := range []*time.Location{time.UTC, paris(t)} {
				c := Parse("c", data, other, Options{})
				if len(c.Problems) > 0 || len(c.Bookings) != 1 || !c.Bookings[0].From.Equal(b.From) || !c.Bookings[0].Until.Equal(until) {
					t.Errorf("%s, %v, read in %s: %+v, %v\n%s", name, until, other, c.Bookings, c.Problems, data)
				}
			}
		}
	}
	data, _, err := Add(nil, In(paris(t)), Booking{Host: "a", Name: "x", Until: now})
	if err != nil || !strings.Contains(string(data), `"date": "2026-10-01 14:00"`) {
		t.Errorf("in a zone that everybody knows: %v\n%s", err, data)
	}
}

// TestArchivedIsAppendOnly: whatever is in the archive stays at its beginning,
// and nothing is written twice.
func TestArchivedIsAppendOnly(t *testing.T) {
	old := []Booking{{ID: "a", Host: "gpu01", Name: "ada"}, {ID: "b", Host: "gpu01", Name: "bob", Target: Target{Index: 1}}}
	first, n, err := archived(nil, old[:1])
	if err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	both, n, err := archived(first, old)
	if err != nil || n != 1 || !strings.HasPrefix(string(both), string(first)) || strings.Count(string(both), "\n") != 2 {
		t.Errorf("%d new, %v:\n%s", n, err, both)
	}
	if again, n, err := archived(both, old); err != nil || n != 0 || string(again) != string(both) {
		t.Errorf("again: %d new, %v:\n%s", n, err, again)
	}
	// A last line that somebody left without its end is not run into.
	torn, _, err := archived([]byte(`{"id":"x"}`), old[:1])
	if err != nil || !strings.HasPrefix(string(torn), "{\"id\":\"x\"}\n{") {
		t.Errorf("%v:\n%s", err, torn)
	}
}

// At a change of clocks the same time of day comes twice, and a length is the true one.
func TestLengthOverAChangeOfClocks(t *testing.T) {
	zone := paris(t)
	first := time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC).In(zone) // 02:30 +02:00, and an hour later 02:30 +01:00
	for hours, want := range map[int]string{0: "1 h", 1: "1 h"} {
		from := first.Add(time.Duration(hours) * time.Hour)
		if got := span(from, from.Add(time.Hour)); got != want {
			t.Errorf("from %v: %s, want %s", from, got, want)
		}
	}
}
