package serve_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/serve"
	"gpuboard/internal/testenv/need"
)

// timesAnswer is what the server says of two texts.
type timesAnswer struct{ Zone, From, Until, Says, Note, Error string }

func (c *counter) times(from, until, zone, lang string) timesAnswer {
	c.t.Helper()
	q := url.Values{"from": {from}, "until": {until}, "zone": {zone}, "lang": {lang}}
	w := c.do(httptest.NewRequest(http.MethodGet, "/book/times.json?"+q.Encode(), nil))
	var answer timesAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
		c.t.Fatalf("of %v it says %d %s", q, w.Code, w.Body)
	}
	return answer
}

// spellings are times as people write them, and what is none.
var spellings = []string{
	"2d6h", "2d 6h", "+1d", "1w", "45m", "45min", "2 weeks 3 days", "90m", "1h30m", "6h2d", "0h", "2x", "d", "99999d",
	"sun 20:00", "sunday 20:00", "Sun", "sat 09:00", "sat", "friday", "fri 9:05", "fri 24:00", "fri noon",
	"fri midnight",
	"mon 02:30",
	"today", "today 23:00", "today 01:00", "tomorrow", "tomorrow 9:00", "tomorrow noon", "18:00", "9:00", "10:41",
	"10:42",
	"noon", "midnight", "now", "24:00", "24:01", "18h30", "fri 18h", "7:5", "18:00 GMT", "18:00 +25:00", "never",
	"never mind",
	"30 November 2026 18h30", "27. November 2026", "Nov 30, 2026", "31 november 2026", "2026-12-01 18h",
	"2026-12-01 24:00",
	"2026-11-29", "2026-11-29 18:00", "2026-11-29T18:00", "2026-11-29 18:00:30Z", "2026-11-29 18:00 +01:00",
	"2026-11-29 18:00 +25:00", "2026-11-29 18:00 GMT", "2026-11-29 18:00-0330", "2026-11-31", "2026-13-01",
	"2026-1-2 3:04",
	"29.11.2026", "29.11.2026 18:00", "31.11.2026", "29/11/2026", "2026/11/29", "2020-01-01", "yesterday",
	"someday 9:00",
	"2027-03-28 02:30", "2027-10-31 02:30", "2027-03-28",
}

// TestTheFormReadsTimesAsTheCommandDoes: the same text in the same zone is the same moment for both, with the same
// words about what was assumed and what is wrong.
func TestTheFormReadsTimesAsTheCommandDoes(t *testing.T) {
	c := newCounter(t)
	read := 0
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kolkata"} {
		loc := need.Zone(t, zone)
		for _, begin := range []string{"", "sat 09:00", "2027-03-27 09:00"} {
			for _, text := range spellings {
				command := booking.Policy{Now: c.now(), Zone: loc}
				from, until, notes, err := command.Times(begin, text)
				want := timesAnswer{Zone: zone}
				if err == nil {
					want.From, want.Until = exact(from, loc), exact(until, loc)
					want.Note = strings.Join(notes, "; ")
					read++
				} else {
					want.Error = err.Error()
				}
				got := c.times(begin, text, zone, "")
				if (got.Says == "") != (err != nil) {
					t.Errorf("%s, %q to %q: it says %q, and the command %v", zone, begin, text, got.Says, err)
				}
				if got.Says = ""; got != want {
					t.Errorf("%s, %q to %q: the form reads %+v, and the command %+v", zone, begin, text, got, want)
				}
			}
		}
	}
	if read < 200 {
		t.Errorf("only %d were read", read)
	}
}

// exact is a moment as the answer has it.
func exact(at time.Time, zone *time.Location) string {
	if at.IsZero() {
		return "never"
	}
	return at.In(zone).Format(time.RFC3339)
}

// TestTimesInWords: the answer is in the words of the page and in the zone that is asked for, or in the site's.
func TestTimesInWords(t *testing.T) {
	c := newCounter(t)
	for _, tt := range []struct{ from, until, zone, lang, named, says string }{
		{"", "2d", "Europe/Berlin", "", "Europe/Berlin", "Fri 20 Nov 11:00 – Sun 22 Nov 11:00 CET"},
		{"18:00", "2d", "Asia/Tokyo", "en", "Asia/Tokyo", "Sat 21 Nov 18:00 – Mon 23 Nov 18:00 JST"}, // there, 18:00 is over
		{"", "fri 18:00", "", "", "UTC", "Fri 20 Nov 10:00 – Fri 20 Nov 18:00 UTC"},
		{"", "2d", "Europe/Berlin", "de", "Europe/Berlin", "Fr 20. Nov 11:00 – So 22. Nov 11:00 CET"},
		{"", "never", "", "", "UTC", "Fri 20 Nov 10:00 UTC – open-ended"},
		{"", "2027-01-02 18:00", "", "", "UTC", "Fri 20 Nov 10:00 – 2 Jan 2027 18:00 UTC"},
		{"tomorrow", "", "", "", "UTC", ""}, // not yet typed
		{"", "", "Asia/Tokyo", "", "Asia/Tokyo", ""},
		{"", "2d", "Local", "", "UTC", "Fri 20 Nov 10:00 – Sun 22 Nov 10:00 UTC"},
		{"", "2d", "Mars/Olympus", "", "UTC", "Fri 20 Nov 10:00 – Sun 22 Nov 10:00 UTC"},
		{"", "2d", "../../../etc/passwd", "", "UTC", "Fri 20 Nov 10:00 – Sun 22 Nov 10:00 UTC"},
		{"", "2d", strings.Repeat("x", 8000), "", "UTC", "Fri 20 Nov 10:00 – Sun 22 Nov 10:00 UTC"},
	} {
		got := c.times(tt.from, tt.until, tt.zone, tt.lang)
		if got.Zone != tt.named || got.Says != tt.says || got.Error != "" {
			t.Errorf("%+v: %+v", tt, got)
		}
	}
}

// TestWhoMayAskForTimes: everybody, as it knows no bookings; other sites and long texts are refused.
func TestWhoMayAskForTimes(t *testing.T) {
	c := newCounter(t)
	const path = "/book/times.json?until=2d"
	for name, tt := range map[string]struct {
		method, path, site string
		code               int
	}{
		"a page of this site":       {"GET", path, "same-origin", 200},
		"over plain HTTP":           {"GET", path, "", 200},
		"another site":              {"GET", path, "cross-site", 403},
		"a site of the same domain": {"GET", path, "same-site", 403},
		"a form":                    {"POST", path, "same-origin", 405},
		"the longest text":          {"GET", "/book/times.json?until=" + strings.Repeat("1", 100), "", 200},
		"a longer one":              {"GET", "/book/times.json?until=" + strings.Repeat("1", 101), "", 413},
		"a longer beginning":        {"GET", "/book/times.json?from=" + strings.Repeat("+", 101), "", 413},
	} {
		r := httptest.NewRequest(tt.method, tt.path, nil)
		r.Header.Set("Sec-Fetch-Site", tt.site)
		w := c.do(r)
		if w.Code != tt.code || w.Header().Get("Cache-Control") != "no-store" ||
			w.Header().Get("WWW-Authenticate") != "" {
			t.Errorf("%s: %d, %v", name, w.Code, w.Header())
		}
		if c.file() != "" {
			t.Fatalf("%s: it was saved", name)
		}
	}

	private := newCounter(t, func(o *serve.Options, _ *serve.AuthOptions) { o.Private = true })
	if w := private.do(httptest.NewRequest(http.MethodGet, path, nil)); w.Code != http.StatusUnauthorized {
		t.Errorf("a site that needs a login answers strangers: %d %s", w.Code, w.Body)
	}
}

// TestTheViewersZoneCounts: what is booked, extended and offered is read in the zone that the browser says, and in the
// site's without JavaScript.
func TestTheViewersZoneCounts(t *testing.T) {
	c := newFleet(t)
	at := func(hour int) time.Time { return time.Date(2026, 11, 21, hour, 0, 0, 0, time.UTC) }
	for i, tt := range []struct {
		zone string
		hour int
	}{{"", 18}, {"Europe/Berlin", 17}, {"Asia/Tokyo", 9}} {
		place := []string{"atlas:0", "atlas:1", "ceres:0"}[i]
		w := c.post("eva", "/book/?at="+place, "action", "book", "until", "2026-11-21 18:00", "zone", tt.zone)
		all := c.bookings()
		if w.Code != 303 || len(all) != i+1 || !all[i].Until.Equal(at(tt.hour)) {
			t.Fatalf("%q: %d, %+v", tt.zone, w.Code, all)
		}
	}
	w := c.post("eva", "/book/", "action", "extend", "id", c.bookings()[0].ID, "end", "2026-11-21 23:00", "zone",
		"Europe/Berlin")
	if w.Code != 303 || !c.bookings()[0].Until.Equal(at(22)) {
		t.Errorf("extended: %d, %+v", w.Code, c.bookings()[0])
	}
	page := c.open("eva", "/book/?gpus=1&from=2026-11-22+18:00&until=2d&zone=Asia/Tokyo").Body.String()
	if from := field(t, page, "from"); from != "2026-11-22 18:00 +09:00" ||
		!strings.Contains(page, `<span class="zone">Asia/Tokyo</span>`) {
		t.Errorf("offered from %q in\n%s", from, page)
	}
	if page := c.open("eva", "/book/").Body.String(); strings.Count(page, `<span class="zone">UTC</span>`) != 2 {
		t.Errorf("the labels do not name the site's zone:\n%s", page)
	}
}
