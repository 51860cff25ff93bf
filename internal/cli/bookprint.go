package cli

import (
	"fmt"
	"strings"
	"time"

	"gpuboard/internal/booking"
)

// print prints what was done: a line for each stretch of time, or JSON, and with
// dry the lines of the file that would change. After a release these are the
// stretches that were given back, and not what is left.
func (e *editor) print(verb string, c booking.Change, asJSON, dry bool) error {
	if asJSON {
		doc := struct {
			Schema   int           `json:"schema_version"`
			Action   string        `json:"action"`
			DryRun   bool          `json:"dry_run"`
			Bookings []bookingJSON `json:"bookings"`
			Over     []bookingJSON `json:"over"`
			Diff     string        `json:"diff,omitempty"`
		}{1, verb, dry, toJSON(c.Done), toJSON(c.Over), ""}
		if dry {
			doc.Diff = diffLines(c.Before, c.After)
		}
		return writeJSON(e.app.stdout, doc)
	}
	if dry {
		verb = "would be " + verb
		if _, err := fmt.Fprint(e.app.stdout, diffLines(c.Before, c.After)); err != nil {
			return err
		}
	}
	list, given := c.Done, ""
	if len(c.Freed) > 0 {
		list, given = c.Freed, " given back"
	}
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].From.Equal(list[0].From) && list[n].Until.Equal(list[0].Until) && list[n].Name == list[0].Name {
			n++
		}
		var ids []string
		for _, b := range list[:n] {
			ids = append(ids, b.ID)
		}
		what := verb
		if list[0].Kind == booking.Maintenance {
			what += " for maintenance"
		}
		if _, err := fmt.Fprintf(e.app.stdout, "%s %s for %s: %s [%s]\n", printable(booking.Places(list[:n])), what, printable(e.Aliases.Canonical(list[0].Name)),
			e.when(list[0])+given, printable(strings.Join(ids, " "))); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// clocksChange says that a day of the booking is not 24 hours long; "" when all are.
func clocksChange(b booking.Booking, now time.Time, zone *time.Location) string {
	from := b.From
	if from.IsZero() {
		from = now
	}
	if b.Until.IsZero() {
		return ""
	}
	_, before := from.In(zone).Zone()
	_, after := b.Until.In(zone).Zone()
	way := "forward"
	switch {
	case before == after:
		return ""
	case after < before:
		way = "back"
	}
	length := b.Until.Sub(from).Round(time.Minute)
	words := fmt.Sprintf("%d h", int(length.Hours()))
	if minutes := int(length.Minutes()) % 60; minutes != 0 {
		words += fmt.Sprintf(" %d min", minutes)
	}
	return fmt.Sprintf("clocks go %s in between: it lasts %s", way, words)
}

// A bookingJSON is a booking as commands print it.
type bookingJSON struct {
	ID      string     `json:"id"`
	Host    string     `json:"host"`
	GPU     string     `json:"gpu"` // as in comments.json: "0", a UUID or "*"
	Name    string     `json:"name"`
	From    *time.Time `json:"from"`
	Until   *time.Time `json:"until"`
	Comment string     `json:"comment"`
	Kind    string     `json:"kind"`
	By      string     `json:"by,omitempty"`
	Forced  bool       `json:"forced"`
}

func toJSON(bookings []booking.Booking) []bookingJSON {
	list := make([]bookingJSON, 0, len(bookings))
	for _, b := range bookings {
		list = append(list, oneJSON(b))
	}
	return list
}

func oneJSON(b booking.Booking) bookingJSON {
	moment := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		t = t.UTC()
		return &t
	}
	return bookingJSON{b.ID, b.Host, b.Target.String(), b.Name, moment(b.From), moment(b.Until), b.Comment, string(b.Kind), b.By, b.Forced}
}
