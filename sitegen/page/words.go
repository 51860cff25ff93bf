package page

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/number"

	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// words are the site's words, and what is put together of them, such as dates.
type words struct {
	templates.Words
	list     map[string]string
	decimal  string   // mark before decimals
	weekdays []string // from Sunday
	months   []string // from January
	zone     *time.Location
}

// dateNames are the patterns of times, and what each may consist of.
var dateNames = [...]string{"date.day", "date.near", "date.week", "date.far", "date.full", "date.tick"}

// wordsFile is the list of words of a language, built in and in a site's own directory.
func wordsFile(lang string) string { return "words/" + lang + ".json" }

// readWords reads the words of a language: the English ones, the program's in that
// language over them, and the site's own over both. A site names what it wants
// different, and what is not translated is in English.
func readWords(own fs.FS, lang string, zone *time.Location) (*words, error) {
	name := wordsFile(lang)
	tag, err := language.Parse(lang)
	if err != nil {
		return nil, fmt.Errorf("reading words: %q is not the code of a language", lang)
	}
	w := &words{zone: zone, list: maps.Clone(render.EnglishWords()), decimal: decimalMark(tag)}
	program := builtIn(name)
	sites, err := readOwn(own, name)
	if err != nil {
		return nil, err
	}
	if program == nil && sites == nil {
		return nil, fmt.Errorf(
			"reading words: there are none for the language %q, only for %s: choose one of them, or put %s into the directory "+
				"of the site's own look",
			lang, strings.Join(builtInLanguages(), ", "), name,
		)
	}
	for _, list := range [][]byte{program, sites} {
		if list == nil {
			continue
		}
		if err := json.Unmarshal(list, &w.list); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	for key, s := range w.list {
		w.list[key] = visible(s)
	}
	w.weekdays, w.months = strings.Fields(w.list["weekdays"]), strings.Fields(w.list["months"])
	if len(w.weekdays) != 7 || len(w.months) != 12 {
		return nil, fmt.Errorf("reading %s: there are %d weekdays and %d months", name, len(w.weekdays), len(w.months))
	}
	for _, date := range dateNames {
		if _, err := w.fill(w.list[date], time.Time{}); err != nil {
			return nil, fmt.Errorf("reading %s: %q: %w", name, date, err)
		}
	}
	w.Words = templates.NewWords(w.list, func(n int) string { return pluralForm(tag, n) }, prose)
	return w, nil
}

// builtInLanguages are the codes of the languages for which the program has words.
func builtInLanguages() []string {
	files, _ := fs.Glob(templates.Files(), wordsFile("*")) // the pattern is a valid one
	for i, file := range files {
		files[i] = strings.TrimSuffix(path.Base(file), ".json")
	}
	return files
}

// pluralForm is the plural form of a number in a language, as Unicode calls it.
func pluralForm(tag language.Tag, n int) string {
	names := [...]string{
		plural.Other: "other", plural.Zero: "zero", plural.One: "one", plural.Two: "two", plural.Few: "few",
		plural.Many: "many",
	}
	return names[plural.Cardinal.MatchPlural(tag, n, 0, 0, 0, 0)]
}

// decimalMark is what a language writes between a whole number and its decimals.
func decimalMark(tag language.Tag) string {
	return strings.Trim(message.NewPrinter(tag).Sprint(number.Decimal(1.5)), "15")
}

// float writes a number with so many decimals; -1 is as many as it has.
func (w *words) float(v float64, decimals int) string {
	return strings.Replace(strconv.FormatFloat(v, 'f', decimals, 64), ".", w.decimal, 1)
}

var scriptWord = snapshot.Pattern(`'\{\{t "([^"]*)"\}\}'`)

// fillScript puts the words in the place of every '{{t "…"}}' of the script.
func (w *words) fillScript(js []byte) ([]byte, error) {
	var missing error
	js = scriptWord().ReplaceAllFunc(js, func(call []byte) []byte {
		key := string(call[len(`'{{t "`) : len(call)-len(`"}}'`)])
		text, ok := w.list[key]
		if !ok {
			missing = fmt.Errorf("making the script: there is no word %q", key)
		}
		return []byte(quoted(text))
	})
	return js, missing
}

// or returns the text for a key, or fallback: other packages may add to the codes.
func (w *words) or(key, fallback string) string {
	if s, ok := w.list[key]; ok {
		return s
	}
	return fallback
}

// length says a duration in its largest whole unit, rounded down.
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

func (w *words) moment(t time.Time, text string) *templates.Moment {
	if t.IsZero() {
		return nil
	}
	return &templates.Moment{ISO: iso(t), Text: text}
}

// iso is a time as scripts read it; "" for the zero time.
func iso(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// toMinute is the moment without its seconds, which nobody is shown.
func toMinute(m *templates.Moment) *templates.Moment {
	if m != nil {
		m.ISO = m.ISO[:len("2006-01-02T15:04")] + "Z"
	}
	return m
}

// full is a moment to the second, with day and zone: "Fri 20 Nov, 10:42:10 CET".
func (w *words) full(t time.Time) *templates.Moment {
	return w.moment(t, w.time("date.full", t.In(w.zone)))
}

// near is a moment relative to ref: with the weekday within a week, else with the date,
// beyond half a year with the year. It never says "today": the page may be read tomorrow.
func (w *words) near(t, ref time.Time) *templates.Moment {
	const week, halfYear = 6 * 24 * time.Hour, 180 * 24 * time.Hour
	date := "date.far"
	if far := t.Sub(ref).Abs(); far < week {
		date = "date.week"
	} else if far < halfYear {
		date = "date.near"
	}
	return w.moment(t, w.time(date, t.In(w.zone)))
}

// ZoneName is the name of a zone; the machine's zone has none but its letters at a time.
func ZoneName(zone *time.Location, at time.Time) string {
	if zone == time.Local {
		name, _ := at.In(zone).Zone()
		return name
	}
	return zone.String()
}

// date is "Fri 20 Nov" of a time already in the zone.
func (w *words) date(l time.Time) string { return w.time("date.day", l) }

// time writes a time, already in the zone, as one of dateNames says.
func (w *words) time(name string, l time.Time) string {
	text, _ := w.fill(w.list[name], l) // checked when it was read
	return string(text)
}

// layouts are the places of a pattern which are the same in every language, as Go writes them.
var layouts = map[string]string{"day": "2", "year": "2006", "time": "15:04", "seconds": "05", "zone": "MST"}

// fill puts a time into the places of a pattern such as "{weekday} {time}".
func (w *words) fill(pattern string, l time.Time) (b []byte, err error) {
	for {
		text, rest, found := strings.Cut(pattern, "{")
		b = append(b, text...)
		if !found {
			return b, nil
		}
		place, after, _ := strings.Cut(rest, "}")
		switch place {
		case "weekday":
			b = append(b, w.weekdays[l.Weekday()]...)
		case "month":
			b = append(b, w.months[l.Month()-1]...)
		default:
			layout, known := layouts[place]
			if !known {
				return nil, fmt.Errorf("{%s is none of {weekday} {day} {month} {year} {time} {seconds} {zone}", rest)
			}
			b = l.AppendFormat(b, layout)
		}
		pattern = after
	}
}
