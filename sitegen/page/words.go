package page

import (
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"gpuboard/templates"
)

// words is words.json: everything that the pages say and that Go must put
// together itself, such as dates and lengths of time.
type words struct {
	list     map[string]string
	weekdays []string // from Sunday
	months   []string // from January
	dates    map[string]pattern
	zone     *time.Location
}

// dateNames are the patterns of times, and what each may consist of.
var dateNames = [...]string{"date.day", "date.near", "date.week", "date.far", "date.full"}

// readWords reads the built-in list with the site's own laid over it, word by
// word: a site names what it wants different, and goes on working when the next
// version of the program brings new words.
func readWords(tmpl fs.FS, zone *time.Location) (*words, error) {
	w := &words{zone: zone}
	for _, from := range []fs.FS{templates.Files(), tmpl} {
		b, err := fs.ReadFile(from, "words.json")
		if err != nil {
			return nil, fmt.Errorf("reading templates: %w", err)
		}
		if err := json.Unmarshal(b, &w.list); err != nil {
			return nil, fmt.Errorf("reading words.json: %w", err)
		}
	}
	for key, s := range w.list {
		w.list[key] = visible(s)
	}
	w.weekdays, w.months = strings.Fields(w.list["weekdays"]), strings.Fields(w.list["months"])
	if len(w.weekdays) != 7 || len(w.months) != 12 {
		return nil, fmt.Errorf("reading words.json: there are %d weekdays and %d months", len(w.weekdays), len(w.months))
	}
	w.dates = make(map[string]pattern, len(dateNames))
	for _, name := range dateNames {
		p, err := parsePattern(w.list[name])
		if err != nil {
			return nil, fmt.Errorf("reading words.json: %q: %w", name, err)
		}
		w.dates[name] = p
	}
	return w, nil
}

// knownCodes are the codes of problems that the built-in list has a sentence for.
var knownCodes = sync.OnceValue(func() map[string]bool {
	codes := map[string]bool{}
	var list map[string]string
	if b, err := fs.ReadFile(templates.Files(), "words.json"); err == nil && json.Unmarshal(b, &list) == nil {
		for key := range list {
			if code, ok := strings.CutPrefix(key, "code."); ok {
				codes[code] = true
			}
		}
	}
	return codes
})

// KnownCode reports whether pages have a sentence for the code of a problem.
func KnownCode(code string) bool { return knownCodes()[code] }

// say returns the words for a key, with args in the places of its verbs. A key
// that is missing is an error: a page with a hole in it is worse than none.
func (w *words) say(key string, args ...any) (string, error) {
	s, ok := w.list[key]
	if !ok {
		return "", fmt.Errorf("words.json has no %q", key)
	}
	if len(args) == 0 {
		return s, nil
	}
	return fmt.Sprintf(s, args...), nil
}

var fixedWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{t "([^"]*)"\}\}`) })

// fill puts the words in the place of every {{t "…"}} of a template, once for
// all pages: most words of a page are of this kind.
func (w *words) fill(name, text string) (string, error) {
	var missing error
	text = fixedWord().ReplaceAllStringFunc(text, func(call string) string {
		s, err := w.say(call[len(`{{t "`) : len(call)-len(`"}}`)])
		if err != nil && missing == nil {
			line := 1 + strings.Count(text[:strings.Index(text, call)], "\n")
			missing = fmt.Errorf("parsing templates: %s:%d: %w", name, line, err)
		}
		return strings.ReplaceAll(html.EscapeString(s), "{", "&#123;")
	})
	return text, missing
}

var scriptWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`'\{\{t "([^"]*)"\}\}'`) })

// fillScript puts the words in the place of every '{{t "…"}}' of the script.
func (w *words) fillScript(js []byte) ([]byte, error) {
	var missing error
	js = scriptWord().ReplaceAllFunc(js, func(call []byte) []byte {
		s, err := w.say(string(call[len(`'{{t "`) : len(call)-len(`"}}'`)]))
		if err != nil && missing == nil {
			missing = fmt.Errorf("making the script: %w", err)
		}
		return []byte(quoted(s))
	})
	return js, missing
}

// or is say for codes that other packages may add to: an unknown one is shown as it is.
func (w *words) or(key, fallback string) string {
	if s, ok := w.list[key]; ok {
		return s
	}
	return fallback
}

// count says how many there are of something: key.one or key.other.
func (w *words) count(n int, key string) (string, error) {
	if n == 1 {
		return w.say(key+".one", n)
	}
	return w.say(key+".other", n)
}

// length says a duration in its largest whole unit, rounded down, so that "3 h"
// is never less than three hours.
func (w *words) length(d time.Duration) string {
	one, unit := time.Second, "s"
	switch {
	case d >= 48*time.Hour:
		one, unit = 24*time.Hour, "d"
	case d >= time.Hour:
		one, unit = time.Hour, "h"
	case d >= time.Minute:
		one, unit = time.Minute, "min"
	}
	return fmt.Sprintf(w.list["unit."+unit], int(d/one))
}

// quantity is a number with the sign of its unit behind it: "21.5 GiB".
func (w *words) quantity(number, unit string) string { return number + " " + w.list["sign."+unit] }

// A moment is a time as a page shows it and as a program reads it.
type moment struct{ ISO, Text string }

func (w *words) moment(t time.Time, text string) *moment {
	if t.IsZero() {
		return nil
	}
	return &moment{ISO: t.UTC().Format("2006-01-02T15:04:05Z"), Text: text}
}

// toMinute is the moment without its seconds, which nobody is shown.
func (m *moment) toMinute() *moment {
	if m != nil {
		m.ISO = m.ISO[:len("2006-01-02T15:04")] + "Z"
	}
	return m
}

// full is a moment to the second, with day and zone: "Fri 20 Nov, 10:42:10 CET".
func (w *words) full(t time.Time) *moment { return w.moment(t, w.time("date.full", t.In(w.zone))) }

// near is a moment as briefly as it is still plain beside ref: with the weekday
// within a week, with the date beyond, with the year beyond half a year. It
// never says "today": the page may be read tomorrow.
func (w *words) near(t, ref time.Time) *moment {
	const week, halfYear = 6 * 24 * time.Hour, 180 * 24 * time.Hour
	l := t.In(w.zone)
	far := t.Sub(ref).Abs()
	switch {
	case t.IsZero():
		return nil
	case far < week:
		return w.moment(t, w.time("date.week", l))
	case far < halfYear:
		return w.moment(t, w.time("date.near", l))
	default:
		return w.moment(t, w.time("date.far", l))
	}
}

// zoneName is what people call the zone. That of the machine has no name of its
// own, so it goes by the letters that it has at a time.
func (w *words) zoneName(at time.Time) string {
	if w.zone == time.Local {
		name, _ := at.In(w.zone).Zone()
		return name
	}
	return w.zone.String()
}

// date is "Fri 20 Nov" of a time already in the zone.
func (w *words) date(l time.Time) string { return w.time("date.day", l) }

// time writes a time, already in the zone, as one of dateNames says.
func (w *words) time(name string, l time.Time) string {
	b := make([]byte, 0, 32)
	for _, p := range w.dates[name] {
		switch p.place {
		case "":
			b = append(b, p.text...)
		case "weekday":
			b = append(b, w.weekdays[l.Weekday()]...)
		case "day":
			b = strconv.AppendInt(b, int64(l.Day()), 10)
		case "month":
			b = append(b, w.months[l.Month()-1]...)
		case "year":
			b = strconv.AppendInt(b, int64(l.Year()), 10)
		case "time":
			b = l.AppendFormat(b, "15:04")
		case "seconds":
			b = l.AppendFormat(b, "05")
		case "zone":
			b = l.AppendFormat(b, "MST")
		}
	}
	return string(b)
}

// A pattern is a text with named places, such as "{weekday} {time}".
type pattern []piece

// A piece is a text, or the name of a place.
type piece struct{ text, place string }

func parsePattern(s string) (pattern, error) {
	var p pattern
	for s != "" {
		text, rest, found := strings.Cut(s, "{")
		if text != "" {
			p = append(p, piece{text: text})
		}
		if !found {
			break
		}
		place, after, closed := strings.Cut(rest, "}")
		switch place {
		case "weekday", "day", "month", "year", "time", "seconds", "zone":
		default:
			closed = false
		}
		if !closed {
			return nil, fmt.Errorf("{%s is none of {weekday} {day} {month} {year} {time} {seconds} {zone}", rest)
		}
		p, s = append(p, piece{place: place}), after
	}
	return p, nil
}
