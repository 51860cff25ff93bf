package booking_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/testenv/need"
)

func TestMoments(t *testing.T) {
	zone := paris(t)
	now := at(t, friday)
	for _, tc := range []struct{ in, moment, until string }{ // "!part" is an error
		{"2026-12-01", "2026-12-01 00:00", "2026-12-02 00:00"},
		{"2026-12-01 18:00", "2026-12-01 18:00", "2026-12-01 18:00"},
		{" 2026-12-01 18:00\t", "2026-12-01 18:00", "2026-12-01 18:00"},
		{"2026-12-01T18:00:30", "2026-12-01 18:00:30", "2026-12-01 18:00:30"},
		{"2026-12-01T18:00Z", "2026-12-01 19:00", "2026-12-01 19:00"},
		{"2026-12-01 18:00 UTC", "2026-12-01 19:00", "2026-12-01 19:00"},
		{"2026-12-01 18:00+05:30", "2026-12-01 13:30", "2026-12-01 13:30"},
		{"2026-12-01 18:00 -0800", "2026-12-02 03:00", "2026-12-02 03:00"},
		{"2026-12-01T18:00:00.123Z", "2026-12-01 19:00", "2026-12-01 19:00"},
		{"2026-12-01 18:00 CET", "2026-12-01 18:00", "2026-12-01 18:00"},
		{"2026-12-01 18:00 PST", "!the zone is CET", "!the zone is CET"},
		{"1.12.2026", "2026-12-01 00:00", "2026-12-02 00:00"},
		{"01.12.2026 8:05", "2026-12-01 08:05", "2026-12-01 08:05"},
		{"30 November 2026", "2026-11-30 00:00", "2026-12-01 00:00"},
		{"30 nov 2026 18:00", "2026-11-30 18:00", "2026-11-30 18:00"},
		{"Nov 30, 2026 18h", "2026-11-30 18:00", "2026-11-30 18:00"},
		{"November 30 2026", "2026-11-30 00:00", "2026-12-01 00:00"},
		{"30 Novembre 2026", "!is not a date", "!is not a date"},
		{"31 November 2026", "!November has 30", "!November has 30"},
		{"2026-12-01 18h", "2026-12-01 18:00", "2026-12-01 18:00"},
		{"2026-12-01 18h30", "2026-12-01 18:30", "2026-12-01 18:30"},
		{"1.12.2026 18h", "2026-12-01 18:00", "2026-12-01 18:00"},
		{"2026-12-01 24:00", "2026-12-02 00:00", "2026-12-02 00:00"},
		{"1. December 2026 18:00", "2026-12-01 18:00", "2026-12-01 18:00"},
		{"2026-12-31T24:00:00Z", "2027-01-01 01:00", "2027-01-01 01:00"},
		{"24:00", "2026-11-21 00:00", "2026-11-21 00:00"},
		{"fri 24:00", "2026-11-21 00:00", "2026-11-21 00:00"},
		{"fri 18h", "2026-11-20 18:00", "2026-11-20 18:00"},
		{"18h", "2026-11-21 04:30", "2026-11-21 04:30"}, // a length of time
		{"today", friday, "2026-11-21 00:00"},
		{"yesterday", "2026-11-19 00:00", "!is over"},
		{"tomorrow", "2026-11-21 00:00", "2026-11-22 00:00"},
		{"Tomorrow 18:00", "2026-11-21 18:00", "2026-11-21 18:00"},
		{"tomorrow noon", "2026-11-21 12:00", "2026-11-21 12:00"},
		{"today 18:00", "2026-11-20 18:00", "2026-11-20 18:00"},
		{"today 09:00", "!is over", "!is over"},
		{"fri 18:00", "2026-11-20 18:00", "2026-11-20 18:00"},
		{"fri 10:00", "2026-11-27 10:00", "2026-11-27 10:00"},
		{"fri", "2026-11-27 00:00", "2026-11-21 00:00"},
		{"Monday", "2026-11-23 00:00", "2026-11-24 00:00"},
		{"thu 10:30", "2026-11-26 10:30", "2026-11-26 10:30"},
		{"18:00", "2026-11-20 18:00", "2026-11-20 18:00"},
		{"10:30", "2026-11-21 10:30", "2026-11-21 10:30"},
		{"noon", "2026-11-20 12:00", "2026-11-20 12:00"},
		{"midnight", "2026-11-21 00:00", "2026-11-21 00:00"},
		{"now", friday, "!is over"},
		{"2d 6h", "2026-11-22 16:30", "2026-11-22 16:30"},
		{"+1w", "2026-11-27 10:30", "2026-11-27 10:30"},
		{"2w3d6h30m", "2026-12-07 17:00", "2026-12-07 17:00"},
		{"2018-07-01 00:00", "2018-07-01 00:00", "!is over"},
		{"2026-03-29 02:30", "!write 01:59 or 03:00", "!write 01:59 or 03:00"},

		{"", "!empty", "!empty"},
		{"garbage", "!is not a date", "!is not a date"},
		{"tomorrow garbage", "!is not a date", "!is not a date"},
		{"fri midnight", "!write the date", "!write the date"},
		{"11/12/2026", "!slashes", "!slashes"},
		{"2026-02-30 10:00", "!February has 28", "!February has 28"},
		{"2026-13-01", "!no month 13", "!no month 13"},
		{"2026-12-01 25:00", "!time of day", "!time of day"},
		{"2026-12-01 24:01", "!time of day", "!time of day"},
		{"25:61", "!time of day", "!time of day"},
		{"9999-12-31", "!year", "!year"},
		{"2026-12-01 18:00 +25:00", "!no offset", "!no offset"},
		{"6h 2d", "!is not a date", "!is not a date"},
		{"99999d", "!is not a date", "!is not a date"},
		{"2026-12-01 18:00 x", "!is not a date", "!is not a date"},
	} {
		check := func(what, want string, got time.Time, err error) {
			t.Helper()
			if part, fails := strings.CutPrefix(want, "!"); fails {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%s %q: %v, %v, want an error with %q", what, tc.in, got, err, part)
				}
				return
			}
			if err != nil || !got.Equal(at(t, want)) {
				t.Errorf("%s %q: %v, %v, want %s", what, tc.in, got, err, want)
			}
		}
		m, _, err := booking.ParseMoment(tc.in, now, zone)
		check("from", tc.moment, m, err)
		u, _, err := booking.ParseUntil(tc.in, time.Time{}, now, zone)
		check("until", tc.until, u, err)
	}
}

// "never" is an end, for the commands and in the file.
// TestTimesAsPeopleSayThem: it is Friday 20 November 2026, 10:30.
func TestTimesAsPeopleSayThem(t *testing.T) {
	now := at(t, friday)
	for said, want := range map[string]string{ // "!part" is an error
		"tomorrow 6pm": "2026-11-21 18:00", "6pm": "2026-11-20 18:00", "friday 6 pm": "2026-11-20 18:00",
		"Fri 6:30 p.m.": "2026-11-20 18:30", "12pm": "2026-11-20 12:00", "12 am": "2026-11-21 00:00",
		"12:30am": "2026-11-21 00:30", "at 6pm": "2026-11-20 18:00", "6pm tomorrow": "2026-11-21 18:00",
		"18:00 tomorrow": "2026-11-21 18:00", "on Monday at 9am": "2026-11-23 09:00", "tonight": "2026-11-21 00:00",
		"tonight 8pm": "2026-11-20 20:00", "2026-12-01 6pm": "2026-12-01 18:00", "Nov 30": "2026-12-01 00:00",
		"30 nov 18:00": "2026-11-30 18:00", "November 30th, 6pm": "2026-11-30 18:00", "30.11.": "2026-12-01 00:00",
		"30.11. 18 Uhr": "2026-11-30 18:00", "30.11": "2026-12-01 00:00", "18.30": "2026-11-20 18:30",
		"3.1. 12:00": "2027-01-03 12:00", "20.11. 18:00": "2026-11-20 18:00", "in 3 hours": "2026-11-20 13:30",
		"1.5h": "2026-11-20 12:00", "in 1,5 h": "2026-11-20 12:00", "0.25h": "2026-11-20 10:45",
		"1.5 days": "2026-11-21 22:30", "this friday 18:00": "2026-11-20 18:00",
		"Fr 18:00": "2026-11-20 18:00", "Montag um 9 Uhr": "2026-11-23 09:00", "heute 18:00": "2026-11-20 18:00",
		"demain 18h": "2026-11-21 18:00", "lundi à 9h": "2026-11-23 09:00", "mañana 9:00": "2026-11-21 09:00",
		"mar 18:00": "2026-11-24 18:00", "mar 24": "2027-03-25 00:00", "周五 18:00": "2026-11-20 18:00",
		"明日 9:00": "2026-11-21 09:00",

		"next friday":       `!can mean two days: write "2026-11-27" or "2026-12-04"`,
		"next monday 18:00": `!write "2026-11-23 18:00" or "2026-11-30 18:00"`,
		"18.10":             `!can mean a time and a day: write "18:10" or "18.10."`,
		"tomorrow 12am":     "!write the date with 00:00", "tomorow 18:00": `!did you mean "tomorrow 18:00"?`,
		"firday 6pm": `!did you mean "friday 6pm"?`, "13pm": "!is not a date", "next week": "!is not a date",
		"0pm": "!is not a date", "30 foo": "!is not a date", "30.11. garbage": "!is not a date",
	} {
		got, _, err := booking.ParseUntil(said, time.Time{}, now, paris(t))
		part, fails := strings.CutPrefix(want, "!")
		if fails && (err == nil || !strings.Contains(err.Error(), part)) {
			t.Errorf("%q: %v, %v; want an error with %q", said, got, err, part)
		}
		if !fails && (err != nil || !got.Equal(at(t, want))) {
			t.Errorf("%q: %v, %v; want %s", said, got, err, want)
		}
	}
	if _, _, err := booking.ParseMoment("tonight", now, paris(t)); err == nil ||
		!strings.Contains(err.Error(), `write "today 18:00"`) {
		t.Errorf("a booking that begins tonight: %v", err)
	}
}

// "18h" is a time of day behind a date, and a length of time where one is asked for.
func TestHoursThatMeanTwoThings(t *testing.T) {
	for said, want := range map[string]string{"18h": "18:00", " 6H ": "06:00", "24h": "24:00", "48h": "", "1.5h": "",
		"18h30": "", "2d": "", "in 18h": "", "+6h": "", "18:00": "", "": "", "h": ""} {
		if clock, both := booking.HourOrLength(said); clock != want || both != (want != "") {
			t.Errorf("%q: %q, %v; want %q", said, clock, both, want)
		}
	}
}

func TestNever(t *testing.T) {
	for _, s := range []string{"never", " Never "} {
		end, note, err := booking.ParseUntil(s, time.Time{}, at(t, friday), paris(t))
		if !end.IsZero() || note != "" || err != nil {
			t.Errorf("%q: %v, %q, %v", s, end, note, err)
		}
	}
	if _, _, err := booking.ParseMoment("never", at(t, friday), paris(t)); err == nil ||
		!strings.Contains(err.Error(), "is not a date") {
		t.Errorf("as a beginning: %v", err)
	}
}

func TestYears(t *testing.T) {
	for year, ok := range map[int]bool{booking.MinYear - 1: false, booking.MinYear: true, booking.MaxYear: true,
		booking.MaxYear + 1: false} {
		if _, _, err := booking.ParseMoment(fmt.Sprintf("%d-06-01", year), time.Time{}, time.UTC); (err == nil) != ok {
			t.Errorf("%d: %v", year, err)
		}
	}
}

// A time of day that is over today means tomorrow, which is said.
func TestMomentNotes(t *testing.T) {
	zone, now := paris(t), at(t, friday)
	for in, want := range map[string]string{"10:30": "tomorrow is meant", "09:00": "tomorrow is meant", "10:31": "",
		"midnight": "", "fri 10:00": "", "tomorrow 09:00": ""} {
		if _, note, err := booking.ParseMoment(in, now, zone); err != nil || (note == "") != (want == "") ||
			!strings.Contains(note, want) {
			t.Errorf("%s: %q, %v", in, note, err)
		}
	}
	if _, note, err := booking.ParseUntil("09:00", at(t, "2026-11-21 10:30"), now, zone); err != nil || note != "" {
		t.Errorf("after a later beginning: %q, %v", note, err)
	}
}

func TestUntilCountsFromTheBeginning(t *testing.T) {
	zone, now := paris(t), at(t, friday)
	from := at(t, "2027-03-27 18:00") // clocks go forward in the night
	got, _, err := booking.ParseUntil("2d", from, now, zone)
	if err != nil || !got.Equal(at(t, "2027-03-29 18:00")) {
		t.Errorf("two days over a change of clocks: %v, %v", got, err)
	}
	if got, _, err = booking.ParseUntil("48h", from, now, zone); err != nil || !got.Equal(at(t, "2027-03-29 19:00")) {
		t.Errorf("48 hours over a change of clocks: %v, %v", got, err)
	}
	if _, _, err = booking.ParseUntil("2026-12-01", from, now, zone); err == nil ||
		!strings.Contains(err.Error(), "before the beginning") {
		t.Errorf("an end before the beginning: %v", err)
	}
}

// TestAnEndFollowsItsBeginning: on a Sunday, "sat 09:00" until "sun 20:00" is the
// next weekend, and a time alone is the next one after the beginning.
func TestAnEndFollowsItsBeginning(t *testing.T) {
	zone, now := paris(t), at(t, "2026-11-22 10:00") // a Sunday
	for _, tc := range []struct{ from, until, begins, ends string }{
		{"sat 09:00", "sun 20:00", "2026-11-28 09:00", "2026-11-29 20:00"},
		{"sat 09:00", "sun", "2026-11-28 09:00", "2026-11-30 00:00"},
		{"sat 09:00", "18:00", "2026-11-28 09:00", "2026-11-28 18:00"},
		{"sat 09:00", "08:00", "2026-11-28 09:00", "2026-11-29 08:00"},
		{"tomorrow 09:00", "tomorrow 18:00", "2026-11-23 09:00", "2026-11-23 18:00"},
		{"now", "sun 20:00", "2026-11-22 10:00", "2026-11-22 20:00"},
		{"now", "sun 09:00", "2026-11-22 10:00", "2026-11-29 09:00"},
	} {
		from, note, err := booking.ParseMoment(tc.from, now, zone)
		if err != nil || note != "" || !from.Equal(at(t, tc.begins)) {
			t.Errorf("%s: %v %q %v", tc.from, from, note, err)
		}
		until, note, err := booking.ParseUntil(tc.until, from, now, zone)
		if err != nil || note != "" || !until.Equal(at(t, tc.ends)) {
			t.Errorf("%s until %s: %v %q %v, want %s", tc.from, tc.until, until, note, err, tc.ends)
		}
	}
}

func TestClockChanges(t *testing.T) {
	now := at(t, "2026-01-01")
	for _, tc := range []struct {
		zone, in string
		end      bool
		want     string // RFC 3339, or "!part"
		note     string
	}{
		{"Europe/Paris", "2026-10-25 02:30", false, "2026-10-25T00:30:00Z", "the first counts"},
		{"Europe/Paris", "2026-10-25 02:30", true, "2026-10-25T01:30:00Z", "the second counts"},
		{"Europe/Paris", "2026-10-25 02:30 CEST", true, "2026-10-25T00:30:00Z", ""},
		{"Europe/Paris", "2026-10-25 02:30 CET", false, "2026-10-25T01:30:00Z", ""},
		{"Europe/Paris", "2026-10-25 03:00", true, "2026-10-25T02:00:00Z", ""},
		{"Europe/Paris", "2026-03-29 03:00", true, "2026-03-29T01:00:00Z", ""},
		{"Europe/Paris", "2026-03-29 01:59", true, "2026-03-29T00:59:00Z", ""},
		{"Europe/Paris", "2026-03-29", true, "2026-03-29T22:00:00Z", ""},
		{"America/New_York", "2026-11-01", true, "2026-11-02T05:00:00Z", ""},
		{"Europe/Paris", "2026-03-29 02:30:15", true, "!2026-03-29 02:30:15 does not exist", ""},
		{"Australia/Lord_Howe", "2026-10-04 02:15", true, "!write 01:59 or 02:30", ""},
		{"Asia/Kathmandu", "2026-10-04 02:15", true, "2026-10-03T20:30:00Z", ""},
		{"Africa/Cairo", "2026-04-23", true, "2026-04-23T22:00:00Z", ""}, // midnight does not exist there
		{"Africa/Cairo", "2026-04-24 00:30", true, "!write 23:59 or 01:00", ""},
		{"Pacific/Kiritimati", "2026-12-31", true, "2026-12-31T10:00:00Z", ""},
	} {
		zone := need.Zone(t, tc.zone)
		got, note, err := booking.ParseMoment(tc.in, now, zone)
		if tc.end {
			got, note, err = booking.ParseUntil(tc.in, time.Time{}, now, zone)
		}
		if part, fails := strings.CutPrefix(tc.want, "!"); fails {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s %s: %v, %v", tc.zone, tc.in, got, err)
			}
			continue
		}
		if err != nil || got.UTC().Format(time.RFC3339) != tc.want || (note == "") != (tc.note == "") ||
			!strings.Contains(note, tc.note) {
			t.Errorf("%s %s: %v %q %v, want %s", tc.zone, tc.in, got.UTC(), note, err, tc.want)
		}
	}
}

func TestDurations(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"3d": 72 * time.Hour, "2d 6h": 54 * time.Hour, "5h": 5 * time.Hour, " 1d 1h ": 25 * time.Hour,
		"2w":  336 * time.Hour,
		"45m": 45 * time.Minute, "45 min": 45 * time.Minute, "+1H": time.Hour, "2 days": 48 * time.Hour,
		"1w1d1h1m": 193*time.Hour + time.Minute,
	} {
		if got, err := booking.ParseDuration(in); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "d", "0d", "3", "3y", "-1d", "1h1d", "1d1d", "1.5m", "1.555h", "1.5w", "1d x",
		"999999h", "9999d", "++1d"} {
		if got, err := booking.ParseDuration(in); err == nil {
			t.Errorf("%q: %v, want an error", in, got)
		}
	}
}

func TestDescribe(t *testing.T) {
	zone, now := paris(t), at(t, friday)
	for _, tc := range []struct{ from, until, want string }{
		{"2026-11-21 18:00", "2026-11-23 18:00", "Sat 21 Nov 18:00 → Mon 23 Nov 18:00 CET (2 d)"},
		{"", "2026-11-20 11:15", "Fri 20 Nov 10:30 → Fri 20 Nov 11:15 CET (45 min)"},
		{"2026-12-31 18:00", "2027-01-02 19:30", "Thu 31 Dec 18:00 → Sat 2 Jan 2027 19:30 CET (2 d 1 h)"},
		{"2026-10-24 18:00", "2026-10-26 18:00", "Sat 24 Oct 18:00 CEST → Mon 26 Oct 18:00 CET (2 d)"},
		{"2026-10-25", "2026-10-25 23:00",
			"Sun 25 Oct 00:00 CEST → Sun 25 Oct 23:00 CET (24 h)"}, // the day has 25 hours
		{"2026-03-28 18:00", "2026-03-30 18:00", "Sat 28 Mar 18:00 CET → Mon 30 Mar 18:00 CEST (2 d)"}, // 47 hours
		{"2026-11-21 18:00", "", "Sat 21 Nov 18:00 CET → open end"},
		{"", "2026-11-19 18:00", "until Thu 19 Nov 18:00 CET"},
		{"", friday, "until Fri 20 Nov 10:30 CET"},
	} {
		var from, until time.Time
		if tc.from != "" {
			from = at(t, tc.from)
		}
		if tc.until != "" {
			until = at(t, tc.until)
		}
		if got := booking.Describe(from, until, now, zone); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
	for d, want := range map[time.Duration]string{
		time.Minute: "1 min", time.Hour: "1 h", 61 * time.Minute: "1 h 1 min", 24 * time.Hour: "1 d",
		25 * time.Hour: "1 d 1 h",
		0:              "less than 1 min", 59 * time.Second: "less than 1 min", -90 * time.Minute: "1 h 30 min",
		49 * time.Hour:             "2 d 1 h",
		48*time.Hour + time.Minute: "2 d",
	} {
		if got := booking.Length(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func FuzzMoment(f *testing.F) {
	for _, s := range []string{"2026-12-01 18:00", "fri 18:00", "2d 6h", "1.12.2026", "noon", "2026-10-25 02:30 CET",
		"2026-03-29T02:30"} {
		f.Add(s, int64(1795170600))
	}
	zone := paris(f)
	f.Fuzz(func(t *testing.T, s string, unix int64) {
		now := time.Unix(unix&(1<<32-1), 0)
		if m, _, err := booking.ParseMoment(s, now, zone); err == nil {
			later, _, err := booking.ParseMoment(s, now.Add(1000*time.Hour), zone)
			if absolute := err == nil && later.Equal(m); !absolute && m.Before(now) {
				t.Errorf("%q said at %v means %v", s, now, m)
			}
			// What is written into the file reads back as the same moment.
			whole := m.Truncate(time.Second)
			b := booking.Booking{Host: "a", Name: "x", From: whole, Until: whole.Add(time.Hour)}
			_, added, err := booking.Add(nil, booking.Zone{Location: zone}, b)
			y := m.UTC().Year()
			inRange := y > booking.MinYear && y < booking.MaxYear-1
			if inRange && (err != nil || !added[0].From.Equal(whole) || !added[0].Until.Equal(b.Until)) {
				t.Errorf("%q is %v, read %+v, %v", s, m, added, err)
			}
		}
		u, _, err := booking.ParseUntil(s, time.Time{}, now, zone)
		if err == nil && !u.After(now) {
			t.Errorf("%q said at %v ends %v", s, now, u)
		}
	})
}

func TestTimesForProgramsAreUTC(t *testing.T) {
	b := booking.Booking{From: at(t, friday)}.JSON()
	if b.From.Location() != time.UTC || b.Until != nil {
		t.Errorf("from %v until %v", b.From, b.Until)
	}
}

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
			zone := booking.Zone{Location: loc, Offsets: true}
			b := booking.Booking{Host: "a", Name: "x", From: until.Add(-time.Hour), Until: until}
			data, added, err := booking.Add(nil, zone, b)
			if err != nil {
				t.Fatal(err)
			}
			if until.After(now) {
				if data, added[0], err = booking.Extend(data, zone, added[0].ID, until.Add(time.Hour),
					now); err != nil {
					t.Fatal(err)
				}
				until = until.Add(time.Hour)
			}
			for _, other := range []*time.Location{time.UTC, paris(t)} {
				c := booking.Parse("c", data, booking.Zone{Location: other}, booking.Options{})
				if len(c.Problems) > 0 || len(c.Bookings) != 1 || !c.Bookings[0].From.Equal(b.From) ||
					!c.Bookings[0].Until.Equal(until) {
					t.Errorf("%s, %v, read in %s: %+v, %v\n%s", name, until, other, c.Bookings, c.Problems, data)
				}
			}
		}
	}
	data, _, err := booking.Add(nil, inParis(t), booking.Booking{Host: "a", Name: "x", Until: now})
	if err != nil || !strings.Contains(string(data), `"date": "2026-10-01 14:00"`) {
		t.Errorf("in a zone that everybody knows: %v\n%s", err, data)
	}
}

// At a change of clocks the same time of day comes twice, and a length is the true one.
func TestLengthOverAChangeOfClocks(t *testing.T) {
	zone := paris(t)
	first := time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC).In(zone) // 02:30 +02:00, and an hour later 02:30 +01:00
	for hours, want := range map[int]string{0: "1 h", 1: "1 h"} {
		from := first.Add(time.Duration(hours) * time.Hour)
		got := booking.Describe(from, from.Add(time.Hour), from.Add(-time.Hour), zone)
		if !strings.HasSuffix(got, " ("+want+")") {
			t.Errorf("from %v: %s, want %s", from, got, want)
		}
	}
}

func TestTimesAmongPlaces(t *testing.T) {
	now := at(t, friday)
	for word, want := range map[string][2]string{
		"2h": {"for", "2h"}, "for 2d 6h": {"for", "2d 6h"}, "18h": {"for", "18h"}, "1.5h": {"for", "1.5h"},
		"until fri": {"until", "fri"}, "18:30": {"until", "18:30"}, "20.11.2020": {"until", "20.11.2020"},
		"next friday": {"until", "next friday"}, "sun": {"until", "sun"}, "20/11/2026": {"until", "20/11/2026"},
		"tomorow": {"", "tomorrow"}, "gpu01": {"", ""}, "gpu01:18": {"", ""}, "a100": {"", ""}, "9": {"", ""},
		"": {"", ""},
	} {
		if flag, near := booking.FlagFor(word, now, paris(t)); flag != want[0] || near != want[1] {
			t.Errorf("%q: %q, %q, want %q", word, flag, near, want)
		}
	}
}
