package booking

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/spelling"
)

// fields are the names that an entry may have, in the order in which the
// program writes them.
func fields() []string {
	return []string{"name", "from", "date", "comment", "kind", "by", "id", "forced"}
}

// entryField is the field that a key stands for without regard to case; "" for none.
func entryField(key string) string {
	key = strings.ToLower(strings.TrimSpace(key))
	if slices.Contains(fields(), key) {
		return key
	}
	return ""
}

// nearestField guesses what somebody meant by a key; "" when nothing is near.
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
func (r *reading) entry(s slot, n *node) {
	value := r.entryFields(s, n)
	text := func(field string, limit int) (string, bool) {
		v := value[field]
		switch {
		case v == nil || v.kind == 'n':
			return "", true
		case v.kind != '"':
			r.hostProblem("booking:type", v, s, fmt.Sprintf("%s has to be a text in double quotes", quote(field)))
			return "", false
		}
		str := strings.TrimSpace(v.str)
		if len(str) > limit {
			r.hostProblem("booking:toolong", v, s, fmt.Sprintf("%s is %d bytes long, and only %d are kept: shorten it", quote(field), len(str), limit))
		}
		return snapshot.Text(str, limit), true
	}
	b := Booking{Host: s.host, Target: s.target, Kind: Reserved}
	name, nameOK := text("name", MaxNameBytes)
	date, dateOK := text("date", MaxNameBytes)
	from, fromOK := text("from", MaxNameBytes)
	if !nameOK || !dateOK || !fromOK {
		return
	}
	b.Comment, _ = text("comment", MaxCommentBytes)
	b.By, _ = text("by", MaxNameBytes)
	b.ID, _ = text("id", MaxIDBytes)
	kind, _ := text("kind", MaxNameBytes)
	switch strings.ToLower(kind) {
	case "", string(Reserved):
	case string(Maintenance):
		b.Kind = Maintenance
	default:
		r.hostProblem("booking:kind", value["kind"], s, fmt.Sprintf("the kind %s is not known, and counts as a booking: write \"booking\" or \"maintenance\"", quote(kind)))
	}
	if v := value["forced"]; v != nil && v.kind != 'n' {
		if b.Forced = v.kind == 't'; v.kind != 't' && v.kind != 'f' {
			r.hostProblem("booking:type", v, s, `"forced" is true or false`)
		}
	}
	if name == "" && date == "" && from == "" && b.Kind == Reserved {
		return // an empty entry keeps the place of a GPU that nobody booked
	}
	if name == "" && b.Kind == Reserved {
		r.hostProblem("booking:name", n, s, `the entry says when, but not who: add "name", or write {} for no booking`)
		return
	}
	var ok bool
	if b.From, ok = r.moment(s, value["from"], from, false); !ok {
		return
	}
	if b.Until, ok = r.moment(s, value["date"], date, true); !ok {
		return
	}
	if !b.Until.IsZero() && !b.From.Before(b.Until) {
		r.hostProblem("booking:order", value["date"], s, fmt.Sprintf("the booking ends (%s) before it begins (%s): mend one of the two", date, from))
		return
	}
	if len(r.found) >= MaxBookings {
		r.unreported++
		if len(r.found) == MaxBookings && r.unreported == 1 {
			r.hostProblem("booking:toomany", n, s, fmt.Sprintf("the file holds more than %d bookings, and those from here on do not count: move old ones into another file", MaxBookings))
		}
		return
	}
	b.Written, b.Name = name, r.opts.Aliases.Canonical(name)
	b.Line, b.Col = r.src.position(int(n.start))
	r.found = append(r.found, found{Booking: b, entry: n})
}

// entryFields maps the known fields to their values, and reports the others.
func (r *reading) entryFields(s slot, n *node) map[string]*node {
	keys := make([]string, len(n.items))
	for i, it := range n.items {
		keys[i] = entryField(it.key.str)
		switch {
		case keys[i] == "":
			hint := fmt.Sprintf("the field %s is not known, and does not count", quote(it.key.str))
			if near := nearestField(it.key.str); near != "" {
				hint += fmt.Sprintf(": did you mean %q?", near)
			}
			r.hostProblem("booking:field", it.key, s, hint)
		case keys[i] != it.key.str:
			r.hostProblem("booking:field", it.key, s, fmt.Sprintf("%s is read as %q: write it so, in small letters", quote(it.key.str), keys[i]))
		}
	}
	value := make(map[string]*node, len(n.items))
	for key, i := range r.lastOf(n, keys, "field", "only the last one counts") {
		value[key] = n.items[i].val
	}
	return value
}

// moment reads a time of an entry. An empty one is the zero time: always, or
// open-ended.
func (r *reading) moment(s slot, n *node, text string, end bool) (time.Time, bool) {
	if text == "" {
		return time.Time{}, true
	}
	t, note, err := parseAbsolute(text, r.zone, end)
	switch {
	case err != nil && relative(text):
		r.hostProblem("booking:date", n, s, fmt.Sprintf("%s is relative to the moment it was written, which the file does not know: write a date, as in \"2026-11-20 18:00\"", quote(text)))
	case err != nil:
		r.hostProblem("booking:date", n, s, err.Error())
	case note != "":
		r.hostProblem("booking:ambiguous", n, s, note)
	}
	return t, err == nil
}
