package serve_test

import (
	"html"
	"net/http"
	"strings"
	"testing"

	"gpuboard/internal/booking"
)

// TestTheFormIsFilledIn: with one GPU for two days, or from the end of what is booked now until the next booking.
func TestTheFormIsFilledIn(t *testing.T) {
	c := newFleet(t)
	for _, tt := range []struct{ bookings, address, from, until string }{
		{`{}`, "", "", "2d"},
		{`{}`, "?at=atlas:0", "", "2d"},
		{`{}`, "?at=atlas:0&until=5h", "", "5h"},
		{`{"atlas": {"0": {"name": "mira", "from": "2026-11-21 18:00", "date": "2026-11-23 18:00"}}}`, "?at=atlas:0",
			"", "2026-11-21 18:00 +00:00"},
		{`{"atlas": {"0": {"name": "mira", "from": "2026-11-25 18:00", "date": "2026-11-26 18:00"}}}`, "?at=atlas:0",
			"", "2d"},
		{`{"atlas": {"0": [{"name": "mira", "date": "2026-11-20 18:00"}, {"name": "eva", "from": "2026-11-20 18:00", "date": "2026-11-20 20:00:30"},
			{"name": "kai", "from": "2026-11-21 18:00", "date": "2026-11-23 18:00"}]}}`, "?at=atlas:0",
			"2026-11-20 20:01 +00:00", "2026-11-21 18:00 +00:00"},
		{`{"atlas": {"0": {"name": "mira"}}}`, "?at=atlas:0", "", "2d"},
		{`{}`, "?at=atlas:0&from=2026-11-21+09:00", "2026-11-21 09:00", "2d"},
		{`{"atlas": {"0": {"name": "mira", "from": "2026-11-21 18:00", "date": "2026-11-23 18:00"}}}`,
			"?at=atlas:0&from=2026-11-21+09:00", "2026-11-21 09:00", "2026-11-21 18:00 +00:00"},
		{`{}`, "?at=atlas:0&from=some+day", "some day", ""},
	} {
		c.write(c.comments, tt.bookings)
		body := html.UnescapeString(c.open("eva", "/book/"+tt.address).Body.String())
		for id, want := range map[string]string{"_from": tt.from, "_until": tt.until} {
			_, field, _ := strings.Cut(body, `<input id="`+id+`"`)
			if field, _, _ = strings.Cut(field, ">"); !strings.Contains(field, `value="`+want+`"`) {
				t.Errorf("%s with %s: %s is %s, want %q", tt.address, tt.bookings, id, field, want)
			}
		}
		if tt.address == "" && !strings.Contains(body, `name="gpus" value="1"`) {
			t.Errorf("it asks for no GPU:\n%s", body)
		}
	}
}

// TestWhoWasSecondIsOfferedSomethingElse: one of the same model for the same time, or from when there is one.
func TestWhoWasSecondIsOfferedSomethingElse(t *testing.T) {
	c := newFleet(t)
	book := func(address string, fields ...string) (int, string) {
		w := c.post("eva", "/book/"+address, append([]string{"action", "book"}, fields...)...)
		return w.Code, html.UnescapeString(w.Body.String())
	}
	mira := `"0": {"name": "mira", "date": "2026-11-20 18:00"}`
	c.write(c.comments, `{"atlas": {`+mira+`}}`)
	code, body := book("?at=atlas:0", "until", "5h", "comment", "mine")
	if code != http.StatusConflict || !strings.Contains(body, `<h2 id="_offer">atlas 1</h2>`) ||
		field(t, body, "until") != "2026-11-20 15:00 +00:00" || field(t, body, "comment") != "mine" {
		t.Fatalf("while another one is free: %d\n%s", code, body)
	}

	c.write(c.comments, `{"atlas": {`+mira+`, "1": {"name": "kai", "date": "2026-11-21 18:00"}}}`)
	code, body = book("?at=atlas:1", "until", "5h")
	if code != http.StatusConflict || !strings.Contains(body, `<h2 id="_offer">atlas 0</h2>`) {
		t.Fatalf("while none is free: %d\n%s", code, body)
	}
	code, body = book("?at=atlas:0", "from", field(t, body, "from"), "until", field(t, body, "until"))
	all := c.bookings()
	if code != http.StatusSeeOther || len(all) != 3 {
		t.Fatalf("the offer: %d\n%s", code, body)
	}
	for _, b := range all {
		if b.Name == "eva" && (b.From.Format("2 15:04") != "20 18:00" || b.Until.Format("2 15:04") != "20 23:00") {
			t.Errorf("saved %+v", b)
		}
	}
}

// TestWhatRunsNowIsInTheWayNow: of a booking that begins later, it is not asked about.
func TestWhatRunsNowIsInTheWayNow(t *testing.T) {
	c := newFleet(t)
	for address, asked := range map[string]bool{"?at=atlas:2": true, "?at=atlas:2&from=2026-11-21+09:00": false} {
		if body := c.open("eva", "/book/"+address).Body.String(); strings.Contains(body,
			"In use by others now") != asked {
			t.Errorf("%s: asked %t", address, !asked)
		}
	}
	if w := c.post("eva", "/book/?at=atlas:2", "action", "book", "from", "2026-11-21 09:00", "until",
		"5h"); w.Code != http.StatusSeeOther {
		t.Errorf("it is refused: %d", w.Code)
	}
	if b := c.bookings(); len(b) != 1 || b[0].Target != (booking.Target{Index: 2}) {
		t.Errorf("booked %+v", b)
	}
}
