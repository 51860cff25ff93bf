package booking

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/spelling"
)

var (
	// A time of day as "6pm", "6:30 p.m." or "18 Uhr".
	hourWord   = snapshot.Pattern(`(^| )(\d{1,2})(?:[:.](\d{2}))? ?(a\.?m\.?|p\.?m\.?|uhr)( |$)`)
	clockFirst = snapshot.Pattern(`^(\d{1,2}:\d{2}|noon) (.+)$`)
	// A date without its year: "30.11.", "30 nov" or "nov 30", and what follows.
	dayMonth = snapshot.Pattern(
		`^(?:(\d{1,2})\.(\d{1,2})(\.?)|(\d{1,2})(?:\.|st|nd|rd|th)? ?([a-z]{3,9})|([a-z]{3,9}) (\d{1,2})(?:st|nd|rd|th)?)(?:,? (.+))?$`)
)

// dayWords are days in the languages of the site, in English. No word means two days in two of them.
var dayWords = sync.OnceValue(func() map[string]string {
	words := map[string]string{}
	for day, spelled := range map[string]string{
		"today":    "heute hoy aujourd'hui aujourd’hui 今日 今天",
		"tomorrow": "tmrw morgen mañana manana demain 明日 明天",
		"mon":      "mo montag lun lundi lunes 月曜 月曜日 周一 星期一",
		"tue":      "tues di dienstag mar mardi martes 火曜 火曜日 周二 星期二",
		"wed":      "mi mittwoch mer mercredi mié mie miércoles miercoles 水曜 水曜日 周三 星期三",
		"thu":      "thur thurs do donnerstag jeu jeudi jue jueves 木曜 木曜日 周四 星期四",
		"fri":      "fr freitag ven vendredi vie viernes 金曜 金曜日 周五 星期五",
		"sat":      "sa samstag sonnabend sam samedi sáb sab sábado sabado 土曜 土曜日 周六 星期六",
		"sun":      "so sonntag dim dimanche dom domingo 日曜 日曜日 周日 星期日 星期天",
	} {
		for word := range strings.FieldsSeq(spelled) {
			words[word] = day
		}
	}
	return words
})

// written turns a time as people say it into one of the forms that [parseMoment] reads. now is in the zone of the
// site; end is whether the end of something is asked for. What can mean two things is an error that names both.
func written(said string, now time.Time, end bool) (string, error) {
	s := strings.Join(strings.Fields(strings.ToLower(said)), " ")
	for _, word := range []string{"at", "on", "this", "um", "à"} {
		s = strings.ReplaceAll(strings.TrimPrefix(s, word+" "), " "+word+" ", " ")
	}
	s = hourWord().ReplaceAllStringFunc(s, hours)
	if m := clockFirst().FindStringSubmatch(s); m != nil {
		s = m[2] + " " + m[1]
	}
	word, rest, _ := strings.Cut(s, " ")
	switch {
	case word == "tonight" && rest != "":
		return "today " + rest, nil
	case word == "tonight" && end:
		return "today 24:00", nil
	case word == "tonight":
		return "", fmt.Errorf(`%s can mean any time of the evening: write "today 18:00" or "today 20:00"`, quote(said))
	case word == "next":
		return nextWeek(said, rest, now)
	}
	dated, err := withYear(said, s, now) // before days: "mar 24" is a date, and "mar 18:00" a Tuesday
	if day := dayWords()[word]; day != "" && dated == s {
		return strings.TrimSpace(day + " " + rest), nil
	}
	return dated, err
}

// HourOrLength reports whether a text such as "18h" can mean a time of day, as it does behind a date, and a length of
// time; clock is that time of day.
func HourOrLength(s string) (clock string, ambiguous bool) {
	hour, isHours := strings.CutSuffix(strings.ToLower(strings.TrimSpace(s)), "h")
	n, err := strconv.Atoi(hour)
	if !isHours || err != nil || len(hour) > 2 || hour[0] == '+' || n < 0 || n > 24 {
		return "", false
	}
	return fmt.Sprintf("%02d:00", n), true
}

// hours turns "6pm" and "18 uhr" into 18:00. What is no hour of such a clock stays as it is.
func hours(said string) string {
	m := hourWord().FindStringSubmatch(said)
	hour, minute, unit := atoi(m[2]), atoi(m[3]), m[4][0]
	switch {
	case unit != 'u' && (hour < 1 || hour > 12):
		return said
	case unit == 'a' && hour == 12 && minute == 0:
		return m[1] + "midnight" + m[5]
	case unit == 'a':
		hour %= 12
	case unit == 'p':
		hour = hour%12 + 12
	}
	return fmt.Sprintf("%s%d:%02d%s", m[1], hour, minute, m[5])
}

// nextWeek refuses "next friday", which for some is the coming one and for others the one after it.
func nextWeek(said, rest string, now time.Time) (string, error) {
	word, clock, _ := strings.Cut(rest, " ")
	if english := dayWords()[word]; english != "" {
		word = english
	}
	day, ok := weekday(word)
	if !ok {
		return said, nil
	}
	today := dateOf(now)
	first := today.plus((int(day)-int(now.Weekday())+6)%7 + 1)
	form := func(d date) string { return quote(strings.TrimSpace(d.String() + " " + clock)) }
	return "", fmt.Errorf("%s can mean two days: write %s or %s", quote(said), form(first), form(first.plus(7)))
}

// withYear adds the year to a date that has none: the date that is next. What is no such date stays as it is.
func withYear(said, s string, now time.Time) (string, error) {
	m := dayMonth().FindStringSubmatch(s)
	if m == nil {
		return s, nil
	}
	d := date{now.Year(), time.Month(atoi(m[2])), atoi(m[1] + m[4] + m[7])}
	if word := m[5] + m[6]; word != "" {
		d.month = month(word)
	} else if hour := d.day; hour < 24 && m[3] == "" && m[8] == "" {
		clock := fmt.Sprintf("%02d:%s", hour, m[2])
		if d.month < 1 || d.month > 12 {
			return clock, nil
		}
		return "", fmt.Errorf(`%s can mean a time and a day: write "%s" or "%s."`, quote(said), clock, s)
	}
	if d.month < 1 || d.month > 12 {
		return s, nil
	}
	if today := dateOf(now); d.month < today.month || d.month == today.month && d.day < today.day {
		d.year++
	}
	return strings.TrimSpace(d.String() + " " + m[8]), nil
}

// meant is the text with its first word corrected, where that is one letter or two away from a day; "" for none.
func meant(said string) string {
	word, rest, _ := strings.Cut(strings.ToLower(said), " ")
	days := []string{"today", "tomorrow", "tonight", "noon", "midnight"}
	for day := time.Sunday; day <= time.Saturday; day++ {
		days = append(days, strings.ToLower(day.String()))
	}
	days = append(days, slices.Sorted(maps.Keys(dayWords()))...)
	if near := spelling.Nearest(word, days, 2); near != "" && len(word) > 3 {
		return strings.TrimSpace(near + " " + rest)
	}
	return ""
}
