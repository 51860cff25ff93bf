package booking

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/snapshot"
)

// clockForm is a time of day: "18:00", "18h30" or "18h".
const clockForm = `(\d{1,2})(?:[:h](\d{2})|h)`

const forms = `write "2026-11-20 18:00", "20.11.2026 18:00", "fri 18:00", "18:00" or "2d 6h"`

var (
	// A date in one of four forms, with or without a time of day, which may have a zone.
	absoluteTime = snapshot.Pattern(
		`^(?:(\d{4})-(\d{1,2})-(\d{1,2})|(\d{1,2})\.(\d{1,2})\.(\d{4})|(\d{1,2})\.? +([A-Za-z]{3,9}) +(\d{4})|([A-Za-z]{3,9}) +(\d{1,2}),? +(\d{4}))` +
			`(?:(?: +|T)` + clockForm +
			`(?::(\d{2})(?:\.\d{1,9})?)?(?: ?(Z|[+-]\d{2}:?\d{2}|[A-Z][A-Z0-9+-]{1,5}))?)?$`)
	clock    = snapshot.Pattern(`^` + clockForm + `$`)
	spanTime = snapshot.Pattern(
		`^(?:\+|in )? *(?:(\d{1,5}) *(?:w|weeks?) *)?(?:(\d{1,5}) *(?:d|days?) *)?(?:(\d{1,5}) *(?:h|hours?) *)?(?:(\d{1,5}) *(?:m|min|minutes?))?$`)
	// A length of time with a decimal: "1.5h".
	decimal = snapshot.Pattern(`^(?:\+|in )? *(\d{1,4})[.,](\d{1,2}) *(?:(d|days?)|h|hours?)$`)
	slashes = snapshot.Pattern(`^\d+/\d+(/\d+)?\b`)
)

// dateParts are the groups of [absoluteTime] in a text. The usual form, in which commands write, is
// found without a search: a file may have tens of thousands.
func dateParts(s string) (m [17]string, found bool) {
	const usual = "0000-00-00 00:00"
	if len(s) != len(usual) && len(s) != len("0000-00-00") {
		return m, copy(m[:], absoluteTime().FindStringSubmatch(s)) > 0
	}
	for i := range len(s) {
		if digit := s[i] >= '0' && s[i] <= '9'; digit != (usual[i] == '0') || !digit && s[i] != usual[i] {
			return m, copy(m[:], absoluteTime().FindStringSubmatch(s)) > 0
		}
	}
	m[1], m[2], m[3] = s[:4], s[5:7], s[8:10]
	if len(s) == len(usual) {
		m[13], m[14] = s[11:13], s[14:]
	}
	return m, true
}

// parseAbsolute reads a date: YYYY-MM-DD, D.M.YYYY, "30 November 2026" or "November 30 2026", with
// or without a time, which may have a zone. A day alone is its end if end is true, else its
// beginning. An end may be "never", which is the zero time. The note is not "" if the time was
// ambiguous.
func parseAbsolute(s string, zone *time.Location, end bool) (t time.Time, note string, err error) {
	s = strings.TrimSpace(s)
	if end && strings.EqualFold(s, "never") {
		return time.Time{}, "", nil
	}
	m, found := dateParts(s)
	if !found {
		return time.Time{}, "", notATime(s, "write \"2026-11-20 18:00\" or \"20.11.2026 18:00\"")
	}
	d := date{atoi(m[1] + m[6] + m[9] + m[12]), time.Month(atoi(m[2] + m[5])), atoi(m[3] + m[4] + m[7] + m[11])}
	if word := m[8] + m[10]; word != "" {
		if d.month = month(word); d.month == 0 {
			return time.Time{}, "", notUnderstood(s)
		}
	}
	rest := m[13:]
	switch {
	case d.year < MinYear || d.year > MaxYear:
		return time.Time{}, "", fmt.Errorf(
			"%s: the year has to be from %d to %d; leave the end out for a booking that does not end", quote(s),
			MinYear, MaxYear)
	case d.month < 1 || d.month > 12:
		return time.Time{}, "", fmt.Errorf("%s: there is no month %d; a date is year-month-day or day.month.year",
			quote(s), int(d.month))
	case d.plus(0) != d:
		return time.Time{}, "", fmt.Errorf("%s: %s has %d days", quote(s), d.month,
			date{d.year, d.month + 1, 0}.plus(0).day)
	}
	if rest[0] == "" {
		return onDay(d, wall{}, false, zone, end)
	}
	w := wall{atoi(rest[0]), atoi(rest[1]), atoi(rest[2])}
	if err := w.valid(s); err != nil {
		return time.Time{}, "", err
	}
	switch offset := rest[3]; {
	case offset == "":
		return resolve(d, w, zone, "", end)
	case offset == "Z" || offset == "UTC" || offset == "GMT" && zone.String() != "Europe/London":
		return resolve(d, w, time.UTC, "", end)
	case offset[0] == '+' || offset[0] == '-':
		digits := strings.Replace(offset[1:], ":", "", 1)
		hours, minutes := atoi(digits[:2]), atoi(digits[2:])
		if hours > 14 || minutes > 59 {
			return time.Time{}, "", fmt.Errorf("%s: there is no offset %s", quote(s), offset)
		}
		seconds := hours*3600 + minutes*60
		if offset[0] == '-' {
			seconds = -seconds
		}
		return resolve(d, w, time.FixedZone(offset, seconds), "", end)
	default:
		return resolve(d, w, zone, offset, end)
	}
}

func (w wall) valid(s string) error {
	if w == (wall{hour: 24}) {
		return nil // the end of the day
	}
	if w.hour > 23 || w.min > 59 || w.sec > 59 {
		return fmt.Errorf("%s: there is no time of day %s", quote(s), w)
	}
	return nil
}

func notUnderstood(s string) error { return notATime(s, forms) }

// notATime is the error of a text that is no time; forms says which are read.
func notATime(s, forms string) error {
	switch {
	case s == "":
		return errNoTime{fmt.Errorf("the time is empty: %s", forms)}
	case slashes().MatchString(s):
		return fmt.Errorf(
			"%s: with slashes, some read day/month and some month/day: write year-month-day, as in 2026-11-20",
			quote(s))
	}
	return errNoTime{fmt.Errorf("%s is not a date: %s", quote(s), forms)}
}

// errNoTime is the error of a text that has none of the forms of a time.
type errNoTime struct{ error }

// FlagFor returns the flag of a command behind which a text belongs: "for" a length of time, "until" a moment, also one
// that is over or can mean two days, and "" for neither. near is the text with its first word corrected, if that is
// one or two letters away from a day.
func FlagFor(s string, now time.Time, zone *time.Location) (flag, near string) {
	s = strings.ToLower(strings.TrimSpace(s))
	for _, flag := range []string{"for", "until"} {
		s = strings.TrimPrefix(s, flag+" ")
	}
	if _, err := ParseDuration(s); err == nil {
		return "for", s
	}
	_, _, err := ParseMoment(s, now, zone)
	if _, none := errors.AsType[errNoTime](err); !none {
		return "until", s
	}
	return "", meant(s)
}

// atoi reads a few digits that a pattern has found; "" is 0.
func atoi(s string) int {
	if s == "" {
		return 0 // most dates have no seconds, and an error costs more than a number
	}
	n, _ := strconv.Atoi(s)
	return n
}

// absolute reports whether a text has the form of a date, or is "never".
func absolute(s string) bool { return absoluteTime().MatchString(s) || strings.EqualFold(s, "never") }

// latestMeant is the latest end that a date in the file may mean: in the form YYYY-MM-DD HH:MM, a
// number of one digit may have lost the other one.
func latestMeant(s string, end time.Time) time.Time {
	m, _ := dateParts(s)
	switch {
	case m[1] == "": // in other forms, one digit is usual
	case len(m[2]) == 1:
		return end.AddDate(1, 0, 0)
	case len(m[3]) == 1:
		return end.AddDate(0, 0, 31)
	case len(m[13]) == 1:
		return end.AddDate(0, 0, 1)
	}
	return end
}

// relative reports whether a text would be a time if one knew when it was written.
func relative(s string) bool {
	any := time.Unix(0, 0)
	_, _, err := parseMoment(s, any, any, time.UTC, false)
	return err == nil && !absolute(strings.TrimSpace(s))
}

// month is the month with this name, which may be cut; 0 for none.
func month(s string) time.Month {
	for m := time.January; m <= time.December; m++ {
		if strings.HasPrefix(strings.ToLower(m.String()), strings.ToLower(s)) {
			return m
		}
	}
	return 0
}

func weekday(s string) (time.Weekday, bool) {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if full := strings.ToLower(day.String()); s == full || s == full[:3] {
			return day, true
		}
	}
	return 0, false
}

// ParseMoment reads a beginning: a date and time, "today", "fri 18:00", "18:00", "noon",
// "midnight", "now", or a length of time from now ("2d 6h"). A day alone means its
// beginning, and "today" means now. A weekday or a time alone is the next one; "today
// 09:00" is refused after 09:00. The note, if not "", says what was assumed.
func ParseMoment(s string, now time.Time, zone *time.Location) (t time.Time, note string, err error) {
	return parseMoment(s, now, now, zone, false)
}

// ParseUntil reads the end of a period that begins at from. It reads what [ParseMoment]
// reads, but a day alone means its end, and a length of time counts from the beginning,
// in days of the calendar. A weekday or a time alone is the next one after the
// beginning. The end "never" is the zero time. Any other that is not after from, or not after now,
// is refused.
func ParseUntil(s string, from, now time.Time, zone *time.Location) (t time.Time, note string, err error) {
	if from.IsZero() {
		from = now
	}
	if days, rest, spanErr := parseSpan(s); spanErr == nil {
		t = after(from, days, rest, zone)
	} else if t, note, err = parseMoment(s, later(from, now), now, zone, true); err != nil || t.IsZero() {
		return time.Time{}, "", err
	}
	switch {
	case t.Year() > MaxYear:
		return time.Time{}, "", fmt.Errorf("%s ends after the year %d", quote(s), MaxYear)
	case !t.After(now):
		return time.Time{}, "", fmt.Errorf("%s is over: it was %s", quote(s),
			t.In(zone).Format("Mon 2 Jan 2006 15:04 MST"))
	case !t.After(from):
		return time.Time{}, "", fmt.Errorf("%s is before the beginning, %s", quote(s),
			from.In(zone).Format("Mon 2 Jan 2006 15:04 MST"))
	}
	return t, note, nil
}

// after adds days of the calendar, then hours and minutes, also across a change of clocks.
func after(from time.Time, days int, rest time.Duration, zone *time.Location) time.Time {
	if days == 0 {
		return from.Add(rest)
	}
	from = from.In(zone)
	return from.AddDate(0, 0, days).Add(rest)
}

// parseMoment reads a time. A weekday or a time of day alone is the next one after begin.
func parseMoment(s string, begin, now time.Time, zone *time.Location, end bool) (time.Time, string, error) {
	s = strings.TrimSpace(s)
	if len(s) > 100 {
		return time.Time{}, "", notUnderstood(s)
	}
	if absolute(s) {
		return parseAbsolute(s, zone, end)
	}
	begin, now = begin.In(zone), now.In(zone)
	said := s
	s, err := written(said, now, end)
	if err != nil {
		return time.Time{}, "", err
	}
	if absolute(s) {
		return parseAbsolute(s, zone, end)
	}
	if days, rest, err := parseSpan(s); err == nil {
		return after(now, days, rest, zone), "", nil
	}
	if s == "now" {
		return now, "", nil
	}
	word, clock := "", s
	w, ok := timeOfDay(clock)
	if !ok {
		word, clock, _ = strings.Cut(s, " ")
		if w, ok = timeOfDay(clock); !ok && (clock != "" || word == "") {
			return time.Time{}, "", notUnderstood(said)
		}
		if clock == "midnight" {
			return time.Time{}, "", fmt.Errorf(
				"%s: some mean the beginning of the day and some its end: write the date with 00:00", quote(said))
		}
	}
	if err := w.valid(said); err != nil {
		return time.Time{}, "", err
	}

	today, first := dateOf(now), dateOf(begin)
	var days []date // the first one on which the time is after earliest counts
	earliest := begin
	day, isWeekday := weekday(word)
	switch {
	case word == "":
		days = []date{first, first.plus(1)}
	case word == "today":
		days, earliest = []date{today}, now
	case word == "tomorrow":
		days, earliest = []date{today.plus(1)}, now
	case word == "yesterday":
		days, earliest = []date{today.plus(-1)}, time.Time{}
	case isWeekday:
		next := first.plus((int(day) - int(begin.Weekday()) + 7) % 7)
		days = []date{next, next.plus(7)}
	default:
		if near := meant(said); near != "" {
			err := fmt.Errorf("%s is not a date: did you mean %s?", quote(said), quote(near))
			return time.Time{}, "", errNoTime{err}
		}
		return time.Time{}, "", notUnderstood(said)
	}
	for i, d := range days {
		t, note, err := onDay(d, w, clock != "", zone, end)
		last := i == len(days)-1
		switch {
		case err != nil && (last || gapEnd(d, w, zone).After(earliest)):
			return t, "", err
		case err != nil || !t.After(earliest):
			continue
		case word == "" && i > 0 && note == "" && clock != "midnight" && first == today:
			note = fmt.Sprintf("%s is over for today: tomorrow is meant", w)
		}
		return t, note, nil
	}
	if clock == "" {
		return now, "", nil // from today on
	}
	return time.Time{}, "", fmt.Errorf("%s is over: it is %s", quote(s), now.Format("15:04"))
}

// onDay is a time of day on a day. A day alone is its end when end is true, else its beginning.
func onDay(d date, w wall, timed bool, zone *time.Location, end bool) (time.Time, string, error) {
	switch {
	case timed:
		return resolve(d, w, zone, "", end)
	case end:
		return startOfDay(d.plus(1), zone), "", nil
	}
	return startOfDay(d, zone), "", nil
}

func timeOfDay(s string) (wall, bool) {
	switch m := clock().FindStringSubmatch(s); {
	case m != nil:
		return wall{hour: atoi(m[1]), min: atoi(m[2])}, true
	case s == "noon":
		return wall{hour: 12}, true
	}
	return wall{}, s == "midnight"
}

// maxSpanDays prevents an overflow of time.Duration.
const maxSpanDays = 3660

// parseSpan reads weeks, days, hours and minutes, such as "2w3d6h30m". Not every day has 24 hours.
func parseSpan(s string) (days int, rest time.Duration, err error) {
	s = strings.ToLower(strings.TrimSpace(s))
	if m := decimal().FindStringSubmatch(s); m != nil {
		return parseSpan(wholeUnits(m))
	}
	m := spanTime().FindStringSubmatch(s)
	if m == nil || strings.Join(m[1:], "") == "" {
		return 0, 0, errors.New(`not a length of time: write "2d 6h", "45m" or "1w"`)
	}
	days = 7*atoi(m[1]) + atoi(m[2])
	rest = time.Duration(atoi(m[3]))*time.Hour + time.Duration(atoi(m[4]))*time.Minute
	if days == 0 && rest == 0 || days > maxSpanDays {
		return 0, 0, fmt.Errorf("a length of time is from 1m to %dd", maxSpanDays)
	}
	return days, rest, nil
}

// wholeUnits is what [decimal] has found without its decimals: "1h 30m".
func wholeUnits(m []string) string {
	hundredths := atoi((m[2] + "0")[:2])
	if m[3] != "" {
		return fmt.Sprintf("%sd %dh %dm", m[1], hundredths*24/100, hundredths*24%100*60/100)
	}
	return fmt.Sprintf("%sh %dm", m[1], hundredths*60/100)
}

// ParseDuration reads a length of time such as "2w3d6h30m", in days of 24 hours.
func ParseDuration(s string) (time.Duration, error) {
	days, rest, err := parseSpan(s)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", quote(s), err)
	}
	return time.Duration(days)*24*time.Hour + rest, nil
}
