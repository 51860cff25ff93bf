package booking

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/spelling"
)

// fields are the names of the fields of an entry, in the order in which they are written.
func fields() []string {
	return []string{"name", "from", "date", "comment", "kind", "by", "id", "forced"}
}

// entryField is the field with this name, whatever the case; "" for none.
func entryField(key string) string {
	key = strings.ToLower(strings.TrimSpace(key))
	if slices.Contains(fields(), key) {
		return key
	}
	return ""
}

// nearestField guesses the field that a key was meant to be; "" for none.
func nearestField(key string) string {
	key = strings.ToLower(strings.TrimSpace(key))
	switch key {
	case "until", "end", "to", "till", "expires", "end_date", "enddate":
		return "date"
	case "start", "begin", "since", "start_date", "startdate":
		return "from"
	case "user", "who", "owner", "login":
		return "name"
	case "note", "notes", "reason", "text", "why":
		return "comment"
	case "type":
		return "kind"
	}
	return spelling.Nearest(key, fields(), 2)
}

// entry reads one entry into r.found.
func (r *reading) entry(s slot, entry *hujson.Value) {
	value := r.entryFields(s, entry.Value.(*hujson.Object))
	field := func(name string, limit int) (string, bool) {
		v := value[name]
		switch {
		case v == nil || v.Value.Kind() == 'n':
			return "", true
		case v.Value.Kind() != '"':
			r.hostProblem("booking:type", v, s, fmt.Sprintf("%s has to be a text in double quotes", quote(name)))
			return "", false
		}
		str := strings.TrimSpace(text(v))
		if len(str) > limit {
			r.hostProblem("booking:toolong", v, s, fmt.Sprintf("%s is %d bytes long, and only %d are kept: shorten it", quote(name), len(str), limit))
		}
		return snapshot.Text(str, limit), true
	}
	b := Booking{Host: s.host, Target: s.target, Kind: Reserved}
	name, nameOK := field("name", MaxNameBytes)
	if !nameOK {
		return
	}
	date, _ := field("date", MaxNameBytes)
	from, _ := field("from", MaxNameBytes)
	b.Comment, _ = field("comment", MaxCommentBytes)
	b.By, _ = field("by", MaxNameBytes)
	b.ID, _ = field("id", MaxIDBytes)
	kind, _ := field("kind", MaxNameBytes)
	switch strings.ToLower(kind) {
	case "", string(Reserved):
	case string(Maintenance):
		b.Kind = Maintenance
	default:
		r.hostProblem("booking:kind", value["kind"], s, fmt.Sprintf("the kind %s is unknown, and counts as a booking: write \"booking\" or \"maintenance\"", quote(kind)))
	}
	if v := value["forced"]; v != nil {
		kind := v.Value.Kind()
		if b.Forced = kind == 't'; !strings.ContainsRune("tfn", rune(kind)) {
			r.hostProblem("booking:type", v, s, `"forced" is true or false`)
		}
	}
	if name == "" && date == "" && from == "" && b.Kind == Reserved {
		return // an empty entry: a GPU that nobody has booked
	}
	if name == "" && b.Kind == Reserved {
		r.hostProblem("booking:name", entry, s, `the entry says when, but not who: add "name", or write {} for no booking`)
		return
	}
	b.From = r.moment(s, value["from"], from, false)
	b.Until = r.moment(s, value["date"], date, true)
	if !b.Until.IsZero() && !b.From.Before(b.Until) {
		r.hostProblem("booking:order", value["date"], s, fmt.Sprintf("the booking ends (%s) before it begins (%s): correct one of the two", date, from))
		return
	}
	if len(r.found) >= MaxBookings {
		if !r.full {
			r.full = true
			r.hostProblem("booking:toomany", entry, s, fmt.Sprintf("the file holds more than %d bookings, and those from here on do not count: move old ones into another file", MaxBookings))
		}
		return
	}
	b.Written, b.Name = name, r.opts.Aliases.Canonical(name)
	b.Line, b.Col = r.doc.position(entry.StartOffset)
	r.found = append(r.found, found{b, entry})
}

// entryFields maps the known fields to their values, and reports the others.
func (r *reading) entryFields(s slot, entry *hujson.Object) map[string]*hujson.Value {
	keys := make([]string, len(entry.Members))
	for i := range entry.Members {
		name := &entry.Members[i].Name
		written := text(name)
		keys[i] = entryField(written)
		switch {
		case keys[i] == "":
			hint := fmt.Sprintf("the field %s is unknown, and does not count", quote(written))
			if near := nearestField(written); near != "" {
				hint += fmt.Sprintf(": did you mean %q?", near)
			}
			r.hostProblem("booking:field", name, s, hint)
		case keys[i] != written:
			r.hostProblem("booking:field", name, s, fmt.Sprintf("%s is read as %q: write it so, in small letters", quote(written), keys[i]))
		}
	}
	value := map[string]*hujson.Value{}
	for key, i := range r.lastOf(entry, keys, "field", "only the last one counts") {
		value[key] = &entry.Members[i].Value
	}
	return value
}

// moment reads a time of an entry. An empty one is the zero time: no beginning or no end.
// So is one that cannot be read: somebody wants the GPU, and nobody knows from or until when.
func (r *reading) moment(s slot, v *hujson.Value, text string, end bool) time.Time {
	if text == "" {
		return time.Time{}
	}
	effect := "; until it is corrected, the booking counts as begun"
	if end {
		effect = "; until it is corrected, the booking has no end"
	}
	t, note, err := parseAbsolute(text, r.zone, end)
	switch {
	case err != nil && relative(text):
		r.hostProblem("booking:date", v, s, fmt.Sprintf("%s is relative to the moment it was written, which the file does not know: write a date, as in \"2026-11-20 18:00\"%s", quote(text), effect))
	case err != nil:
		r.hostProblem("booking:date", v, s, err.Error()+effect)
	case note != "":
		r.hostProblem("booking:ambiguous", v, s, note)
	}
	return t
}
