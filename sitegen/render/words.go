package render

import (
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"math"
	"regexp"
	"strings"
	"time"

	"gpuboard/templates"
)

// words is words.json: everything that the pages say and that Go must put
// together itself, such as dates and lengths of time.
type words struct {
	list     map[string]string
	weekdays []string // from Sunday
	months   []string // from January
	zone     *time.Location
}

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
	w.weekdays, w.months = strings.Fields(w.list["weekdays"]), strings.Fields(w.list["months"])
	if len(w.weekdays) != 7 || len(w.months) != 12 {
		return nil, fmt.Errorf("reading words.json: there are %d weekdays and %d months", len(w.weekdays), len(w.months))
	}
	return w, nil
}

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

var fixedWord = regexp.MustCompile(`\{\{t "([^"]*)"\}\}`)

// fill puts the words in the place of every {{t "key"}} of a template, once for
// all pages: most words of a page are of this kind.
func (w *words) fill(name, text string) (string, error) {
	var missing error
	text = fixedWord.ReplaceAllStringFunc(text, func(call string) string {
		s, err := w.say(call[len(`{{t "`) : len(call)-len(`"}}`)])
		if err != nil && missing == nil {
			line := 1 + strings.Count(text[:strings.Index(text, call)], "\n")
			missing = fmt.Errorf("parsing templates: %s:%d: %w", name, line, err)
		}
		return strings.ReplaceAll(html.EscapeString(s), "{", "&#123;")
	})
	return text, missing
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
	n, unit := int(d/time.Second), "s"
	switch {
	case d >= 48*time.Hour:
		n, unit = int(d/(24*time.Hour)), "d"
	case d >= time.Hour:
		n, unit = int(d/time.Hour), "h"
	case d >= time.Minute:
		n, unit = int(d/time.Minute), "min"
	}
	return fmt.Sprintf(w.or("unit."+unit, "%d "+unit), n)
}

// A moment is a time as a page shows it and as a program reads it.
type moment struct{ ISO, Text string }

func (w *words) moment(t time.Time, text string) *moment {
	if t.IsZero() {
		return nil
	}
	return &moment{ISO: t.UTC().Format("2006-01-02T15:04:05Z"), Text: text}
}

// full is a moment to the second, with day and zone: "Fri 20 Nov, 10:42:10 CET".
func (w *words) full(t time.Time) *moment {
	l := t.In(w.zone)
	return w.moment(t, w.date(l)+", "+l.Format("15:04:05 MST"))
}

// near is a moment as briefly as it is still plain beside ref: with the weekday
// within a week, with the date beyond, with the year beyond half a year. It
// never says "today": the page may be read tomorrow.
func (w *words) near(t, ref time.Time) *moment {
	l := t.In(w.zone)
	far := time.Duration(math.Abs(float64(t.Sub(ref))))
	clock := l.Format("15:04")
	switch {
	case t.IsZero():
		return nil
	case far < 6*24*time.Hour:
		return w.moment(t, w.weekdays[l.Weekday()]+" "+clock)
	case far < 180*24*time.Hour:
		return w.moment(t, w.date(l)+" "+clock)
	default:
		return w.moment(t, fmt.Sprintf("%d %s %d", l.Day(), w.months[l.Month()-1], l.Year()))
	}
}

// date is "Fri 20 Nov" of a time already in the zone.
func (w *words) date(l time.Time) string {
	return fmt.Sprintf("%s %d %s", w.weekdays[l.Weekday()], l.Day(), w.months[l.Month()-1])
}
