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

// entry reads one entry into r.found. One that says when, but not who, is that of [Unreadable].
func (r *reading) entry(s slot, entry *hujson.Value) {
	if blankEntry(entry) {
		return // a GPU that nobody has booked
	}
	object := entry.Value.(*hujson.Object)
	keys := r.entryKeys(object)
	value := func(field string) *hujson.Value { return valueOf(object, keys, field) }
	b := Booking{Host: s.host, Target: s.target, Kind: Reserved}
	b.From, b.Until = r.moment(s, value("from"), false), r.moment(s, value("date"), true)
	name := trimmed(value("name"))
	nameless := (name == "" || name == Unreadable) && !strings.EqualFold(trimmed(value("kind")), string(Maintenance))
	said := !nameless // whether a message says what the entry holds without a name
	report := func(code string, v *hujson.Value, format string, args ...any) {
		if !said && !b.OverAt(r.opts.Now) {
			format, args = format+"%s", append(args, held(s))
		}
		said = true
		r.hostProblem(code, v, s, format, args...)
	}
	field := func(name string, limit int) string {
		v := value(name)
		switch str := trimmed(v); {
		case v == nil || v.Value.Kind() == 'n':
			return ""
		case v.Value.Kind() != '"':
			report("booking:type", v, "%s has to be a text in double quotes", quote(name))
			return ""
		case len(str) > limit:
			report("booking:toolong", v, "%s is %d bytes long, and only %d are kept: shorten it", quote(name), len(str),
				limit)
			fallthrough
		default:
			return snapshot.Text(str, limit)
		}
	}
	for i := range object.Members {
		key := &object.Members[i].Name
		written := text(key)
		switch field := keys[i]; field {
		case written:
		case "":
			hint := fmt.Sprintf("the field %s is unknown, and does not count", quote(written))
			if near := nearestField(written); near != "" {
				hint += fmt.Sprintf(": did you mean %q?", near)
			}
			report("booking:field", key, "%s", hint)
		default:
			r.hostProblem("booking:field", key, s, "%s is read as %q: write it so, in small letters", quote(written),
				field)
		}
	}
	if b.Written = field("name", MaxNameBytes); nameless {
		b.Written = Unreadable
	}
	switch kind := field("kind", MaxNameBytes); strings.ToLower(kind) {
	case "", string(Reserved):
	case string(Maintenance):
		b.Kind = Maintenance
	default:
		report("booking:kind", value("kind"),
			`the kind %s is unknown, and counts as a booking: write "booking" or "maintenance"`, quote(kind))
	}
	if !said {
		report("booking:name", entry, `the entry does not say who: add "name", or write {} for no booking`)
	}
	b.Comment, b.By, b.ID = field("comment", MaxCommentBytes), field("by", MaxNameBytes), field("id", MaxIDBytes)
	if v := value("forced"); v != nil {
		kind := v.Value.Kind()
		if b.Forced = kind == 't'; !strings.ContainsRune("tfn", rune(kind)) {
			r.hostProblem("booking:type", v, s, `"forced" is true or false`)
		}
	}
	if !b.Until.IsZero() && !b.From.Before(b.Until) {
		r.hostProblem("booking:order", value("date"), s,
			"the booking ends (%s) before it begins (%s): correct one of the two%s",
			trimmed(value("date")), trimmed(value("from")), held(s))
		b.From, b.Until = time.Time{}, time.Time{}
		b.Disown()
	}
	b.Name = r.opts.Aliases.Canonical(b.Written)
	r.append(b, entry)
}

// blankEntry reports whether a value books nothing: null, or an entry that has no field with something in it.
func blankEntry(v *hujson.Value) bool {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		return v.Value.Kind() == 'n'
	}
	return !slices.ContainsFunc(object.Members, func(m hujson.ObjectMember) bool {
		return entryField(text(&m.Name)) == "" || trimmed(&m.Value) != "" ||
			!strings.ContainsRune(`"nf`, rune(m.Value.Value.Kind()))
	})
}

// trimmed is what a string of the file stands for, without white space around it.
func trimmed(v *hujson.Value) string { return strings.TrimSpace(text(v)) }

// entryKeys are the fields that the members of an entry are, "" for an unknown one.
func (r *reading) entryKeys(entry *hujson.Object) []string {
	keys := make([]string, len(entry.Members))
	for i := range entry.Members {
		keys[i] = entryField(text(&entry.Members[i].Name))
	}
	r.twice(entry, keys, "field", "delete one of the two; until then, of two times none counts")
	return keys
}

// valueOf is the value of a field of an entry, the last one where there are several; nil for none. Of two ends
// nobody knows which is meant.
func valueOf(entry *hujson.Object, keys []string, field string) (v *hujson.Value) {
	n := 0
	for i, key := range keys {
		if key == field {
			v, n = &entry.Members[i].Value, n+1
		}
	}
	if n > 1 && (field == "date" || field == "from") {
		return nil
	}
	return v
}

// moment reads a time of an entry. An empty one is the zero time: no beginning or no end.
// So is one that cannot be read: somebody wants the GPU, and nobody knows from or until when.
func (r *reading) moment(s slot, v *hujson.Value, end bool) time.Time {
	text := trimmed(v)
	if v == nil || v.Value.Kind() == 'n' || v.Value.Kind() == '"' && text == "" {
		return time.Time{}
	}
	effect := "; until it is corrected, the booking counts as begun"
	if end {
		effect = "; until it is corrected, the booking has no end"
	}
	if v.Value.Kind() != '"' {
		r.hostProblem("booking:type", v, s, "a time has to be a text in double quotes%s", effect)
		return time.Time{}
	}
	t, latest, note, err := r.date(text, end)
	switch {
	case err != nil && relative(text):
		r.hostProblem("booking:date", v, s, "%s is relative to the moment it was written, which the file does not "+
			`know: write a date, as in "2026-11-20 18:00"%s`, quote(text), effect)
	case err != nil:
		r.hostProblem("booking:date", v, s, "%v%s", err, effect)
	case note != "":
		r.hostProblem("booking:ambiguous", v, s, "%s", note)
	case latest.After(t) && latest.After(r.opts.Now):
		r.hostProblem("booking:date", v, s, "%s may have lost a digit, so the booking counts until %s: "+
			`write every month, day and hour with two digits, as in "2026-12-01 08:00"`,
			quote(text), latest.In(r.zone.Location).Format("2006-01-02 15:04"))
		return latest
	}
	return t
}

// date parses a date of an entry. The latest is, for an end, what [latestMeant] says.
func (r *reading) date(text string, end bool) (t, latest time.Time, note string, err error) {
	t, note, err = parseAbsolute(text, r.zone.Location, end)
	if end && r.zone.DayStarts {
		if _, _, timed := parseAbsolute(text+" 00:00", r.zone.Location, true); timed == nil {
			t, note, err = parseAbsolute(text, r.zone.Location, false)
		}
	}
	if end && err == nil {
		latest = latestMeant(text, t)
	}
	return t, latest, note, err
}
