package booking

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A mistake never makes a GPU free: each byte of an entry is removed, replaced and doubled, and what
// it held, a GPU or a whole host, stays booked until the booking is over. Digits are not replaced by
// digits, because another time is no mistake; nor are there dates such as "11.12.2026", where one
// digit is as usual as two.
func TestDamageFreesNothing(t *testing.T) {
	const (
		host  = "gpu01"
		uuid  = "GPU-3f1c7a52-90ab-4cde-8123-456789abcdef"
		entry = `{ "name": "ada", "date": "2026-12-11 18:00", "comment": "run 7" }`
	)
	end := at(t, "2026-12-11 18:00")
	const with = "x \"'{}[],:/\\-+.#\x00\xff\n"
	for layout, file := range map[string]string{
		"a list":               `{"gpu01": [{}, @], "gpu02": []}`,
		"a dictionary":         `{"gpu01": {"1": @, "2": {}}}`,
		"a UUID":               `{"gpu01": {"` + uuid + `": @}}`,
		"a whole host":         `{"gpu01": {"*": @}}`,
		"an entry alone":       `{"gpu01": @}`,
		"several GPUs":         `{"gpu01": {"0,1": @}}`,
		"a calendar":           `{"gpu01": {"1": [{"name": "bob", "date": "2018-07-01"}, @]}}`,
		"an unclear key":       `{"gpu01": {"gpu1": @}}`,
		"a host that is twice": `{"gpu01": {"1": @}, "gpu01": {"1": {"name": "bob", "date": "2018-07-01"}}}`,
	} {
		for name, text := range map[string]string{
			"as people write it": entry,
			"as commands write it": "{\n  \"name\": \"ada\",\n  \"from\": \"2026-11-20 08:00\",\n  \"date\": \"2026-12-11 18:00\",\n  \"comment\": \"Noël\",\n" +
				"  \"by\": \"bob\",\n  \"id\": \"mjqxg3di\",\n  \"forced\": true\n}",
			"with an offset": `{"name":"ada","date":"2026-12-11T18:00:00 +01:00"}`,
			"without an end": `{"name": "ada", "from": "2026-11-19"}`,
			"maintenance":    `{"kind": "maintenance", "date": "2026-12-11 18:00"}`,
			"with hours":     `{"name": "ada", "date": "2026-12-11 18h", "kind": "booking"}`,
		} {
			t.Run(layout+", "+name, func(t *testing.T) {
				before, behind, _ := strings.Cut(file, "@")
				zone, now := paris(t), at(t, friday)
				load := func(content string) *Calendar {
					return Parse("comments.json", []byte(content), Zone{Location: zone}, Options{Now: now})
				}
				good := load(before + text + behind)
				if good.Broken || len(good.Bookings) == 0 {
					t.Fatalf("%+v", good)
				}
				freed := func(cal *Calendar) string {
					if cal.Broken { // then all of the last good bookings stand
						return ""
					}
					for _, now := range []time.Time{at(t, friday), end.Add(-time.Minute)} {
						for gpu := range 3 {
							id := ""
							if gpu == 1 {
								id = uuid
							}
							if holds(good, host, gpu, id, now) && !holds(cal, host, gpu, id, now) {
								return fmt.Sprintf("GPU %d is free at %v", gpu, now)
							}
						}
					}
					return ""
				}
				for i := range len(text) {
					damages := []string{"", text[i:i+1] + text[i:i+1]}
					for j := range len(with) {
						damages = append(damages, with[j:j+1])
					}
					for _, with := range damages {
						damaged := before + text[:i] + with + text[i+1:] + behind
						cal := load(damaged)
						if what := freed(cal); what != "" {
							t.Errorf("%s with %q at %d: %s\n%s\n%s", what, with, i, briefs(cal, zone), problems(cal.Problems), damaged)
						}
						if one := len(cal.Problems); one > 1+len(good.Problems) {
							t.Errorf("%d messages with %q at %d: %s\n%s", one, with, i, problems(cal.Problems), damaged)
						}
					}
				}
			})
		}
	}
}

// holds reports whether a booking in force is for a GPU.
func holds(cal *Calendar, host string, index int, uuid string, now time.Time) bool {
	for _, b := range cal.Bookings {
		if b.Host == host && b.ActiveAt(now) && b.Target.Covers(index, uuid) {
			return true
		}
	}
	return false
}
