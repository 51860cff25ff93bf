package data

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	ics "github.com/arran4/golang-ical"

	"gpuboard/internal/board"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
)

func icsParse(t testing.TB, content []byte) map[string]*ics.VEvent {
	t.Helper()
	for _, line := range strings.SplitAfter(string(content), "\n") {
		if line != "" && !strings.HasSuffix(line, "\r\n") {
			t.Fatalf("a line does not end in CR LF: %q", line)
		}
		if len(line) > 77 {
			t.Fatalf("a line has %d bytes: %q", len(line)-2, line)
		}
	}
	cal, err := ics.ParseCalendar(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	events := map[string]*ics.VEvent{}
	for _, e := range cal.Events() {
		if events[e.Id()] != nil {
			t.Errorf("two events are %s", e.Id())
		}
		events[e.Id()] = e
		for _, p := range []ics.ComponentProperty{ics.ComponentPropertyDtstamp, ics.ComponentPropertyDtStart,
			ics.ComponentPropertySummary} {
			if e.GetProperty(p) == nil {
				t.Errorf("%s has no %s", e.Id(), p)
			}
		}
	}
	return events
}

func icsValue(e *ics.VEvent, p ics.ComponentProperty) string {
	if v := e.GetProperty(p); v != nil {
		return v.Value
	}
	return ""
}

func TestCalendars(t *testing.T) {
	in := boardtest.Lab()
	in.Board.Bookings[0].Comment = "a; b, c \\ d\nBEGIN:VEVENT " + strings.Repeat("long ", 40) + "日本語"
	files := apiData(t, in)
	all := icsParse(t, files["bookings.ics"])
	if len(all) != len(in.Board.Bookings) {
		t.Errorf("%d events for %d bookings", len(all), len(in.Board.Bookings))
	}
	for i := range in.Board.Bookings {
		b := &in.Board.Bookings[i]
		e := all[icsID(b.ID)+"@gpuboard"]
		if e == nil {
			t.Fatalf("%s has no event", b.ID)
		}
		if b.Until.IsZero() {
			if icsValue(e, ics.ComponentPropertyRrule) != "FREQ=DAILY" ||
				e.GetProperty(ics.ComponentPropertyDtEnd) != nil {
				t.Errorf("%s has no end, and its event is not one", b.ID)
			}
			continue
		}
		from, err1 := e.GetStartAt()
		until, err2 := e.GetEndAt()
		if err1 != nil || err2 != nil || !from.Equal(b.From) || !until.Equal(b.Until) {
			t.Errorf("%s is from %v until %v (%v, %v), want %v, %v", b.ID, from, until, err1, err2, b.From, b.Until)
		}
		if i == 0 && icsValue(e, ics.ComponentPropertyDescription) != strings.Replace(b.Comment, "\n", `\x0a`, 1) {
			t.Errorf("the comment came back as %q", icsValue(e, ics.ComponentPropertyDescription))
		}
	}
	for p, want := range map[string]int{
		"hosts/dione.ics": 1, "hosts/icarus.ics": 0, "users/ada.ics": 3, "users/lea.ics": 0,
	} {
		content, ok := files[p]
		if !ok {
			t.Errorf("%s is not there", p)
			continue
		}
		if got := len(icsParse(t, content)); got != want {
			t.Errorf("%s has %d events, want %d", p, got, want)
		}
	}
}

func TestCalendarWithoutStartOrEnd(t *testing.T) {
	until := boardtest.Now.Add(30 * time.Hour)
	for _, c := range []struct {
		name    string
		booking board.Booking
		start   time.Time
		stamp   string
	}{
		{"no start", board.Booking{ID: "a", Until: until}, boardtest.Now.Truncate(24 * time.Hour), "20261121T154210Z"},
		{"no start, over", board.Booking{ID: "a", Until: boardtest.Now.Add(-48 * time.Hour)},
			boardtest.Now.Add(-48 * time.Hour).Truncate(24 * time.Hour), "20261118T094210Z"},
		{"no start, over at midnight", board.Booking{ID: "a", Until: time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC)},
			time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC), "20261119T000000Z"},
		{"no end", board.Booking{ID: "a", From: boardtest.Now}, boardtest.Now.Truncate(24 * time.Hour),
			"20261120T094210Z"},
		{"neither", board.Booking{ID: "a"}, boardtest.Now.Truncate(24 * time.Hour), "20000101T000000Z"},
	} {
		e := icsParse(t, calendarOf(boardtest.Now, c.booking))["a@gpuboard"]
		start, err := e.GetStartAt()
		if err != nil || !start.Equal(c.start) {
			t.Errorf("%s: starts %v (%v), want %v", c.name, start, err, c.start)
		}
		if got := icsValue(e, ics.ComponentPropertyDtstamp); got != c.stamp {
			t.Errorf("%s: stamped %s, want %s", c.name, got, c.stamp)
		}
	}
}

// A subscriber sees an extended booking as the same event, and two entries that
// were given one id as two.
func TestCalendarIdentity(t *testing.T) {
	b := board.Booking{ID: "x y;z", Host: "atlas", From: boardtest.Now, Until: boardtest.Now.Add(time.Hour)}
	longer := b
	longer.Until = b.Until.Add(time.Hour)
	one := calendarOf(boardtest.Now, b)
	two := calendarOf(boardtest.Now.Add(time.Minute), longer, b)
	if icsParse(t, one)["x-y-z@gpuboard"] == nil || icsParse(t, two)["x-y-z@gpuboard"] == nil ||
		len(icsParse(t, two)) != 2 {
		t.Errorf("events:\n%s\n%s", one, two)
	}
}

// A calendar of too many bookings has those that are not over and begin first, and says how many it has not. JSON has
// all of them.
func TestCalendarsAreBounded(t *testing.T) {
	b := &board.Board{GeneratedAt: boardtest.Now, Hosts: []board.Host{{Name: "atlas"}}}
	const over, all = 10, maxEvents + 30
	for i := range all {
		from := boardtest.Now.Add(time.Duration(i-over) * time.Hour)
		b.Bookings = append(b.Bookings, board.Booking{
			ID: fmt.Sprintf("id%d", i), Host: "atlas", Name: "ada", From: from, Until: from.Add(time.Hour),
			Expired: i < over,
		})
	}
	files := apiData(t, render.Input{Board: b})
	for _, path := range []string{"bookings.ics", "hosts/atlas.ics", "users/ada.ics"} {
		events := icsParse(t, files[path])
		first, last := fmt.Sprintf("id%d@gpuboard", over), fmt.Sprintf("id%d@gpuboard", over+maxEvents-1)
		if len(events) != maxEvents || events[first] == nil || events[last] == nil {
			t.Errorf("%s has %d events, want %d from %s to %s", path, len(events), maxEvents, first, last)
		}
		said := fmt.Sprintf("X-WR-CALDESC:%d bookings are left out", all-maxEvents)
		if !strings.Contains(string(files[path]), said) {
			t.Errorf("%s does not say %q", path, said)
		}
	}
	for _, path := range []string{BookingsPath, HostsDir + "atlas.json"} {
		if n := strings.Count(string(files[path]), `"id":"id`); n != all {
			t.Errorf("%s has %d bookings, want %d", path, n, all)
		}
	}

	b.Bookings = b.Bookings[:maxEvents]
	content := string(apiData(t, render.Input{Board: b})["bookings.ics"])
	if strings.Contains(content, "CALDESC") || !strings.Contains(content, "UID:id0@") {
		t.Errorf("a calendar of %d bookings lacks some", maxEvents)
	}
}

// calendarOf is the calendar of all bookings of a board.
func calendarOf(now time.Time, bookings ...board.Booking) []byte {
	b := &board.Board{GeneratedAt: now, Bookings: bookings}
	return newBookingTexts(render.Input{Board: b}).shared(b)[0].Content
}
