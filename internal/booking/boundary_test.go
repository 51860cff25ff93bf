package booking_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/costtest"
)

func TestReleaseAtTheBeginning(t *testing.T) {
	zone := inParis(t)
	got, b, err := booking.Release([]byte(`{"a": [{"name": "x", "from": "2026-12-01 10:00"}]}`), zone,
		idOf(t, `{"a": [{"name": "x", "from": "2026-12-01 10:00"}]}`), at(t, "2026-12-01 10:00"))
	if err != nil || string(got) != `{"a": [{}]}` || b.Name != "x" {
		t.Errorf("%s, %+v, %v", got, b, err)
	}
}

func TestExtendToAFractionOfASecond(t *testing.T) {
	file := `{"a": [{"name": "x", "date": "2026-12-01"}]}`
	_, b, err := booking.Extend([]byte(file), inParis(t), idOf(t, file), at(t, "2026-12-03 10:00").Add(time.Second/2),
		at(t, friday))
	if err != nil || !b.Until.Equal(at(t, "2026-12-03 10:00")) {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestAFullFileDoesNotGrow(t *testing.T) {
	file := "{}//" + strings.Repeat("x", booking.MaxFileBytes-10)
	if _, _, err := booking.Add([]byte(file), inParis(t), gpu("a", 0, "x", time.Time{})); !errors.Is(err,
		booking.ErrInvalid) || !strings.Contains(err.Error(), "beyond 4096 KiB: prune old bookings") {
		t.Errorf("error %v", err)
	}
}

func TestNoBookingIsAddedBeyondTheMost(t *testing.T) {
	file := `{"a": [[` + strings.Repeat(`{"name":"x"},`, booking.MaxBookings) + `]]}`
	if _, _, err := booking.Add([]byte(file), inParis(t),
		gpu("b", 0, "x", time.Time{})); !errors.Is(err, booking.ErrInvalid) ||
		!strings.Contains(err.Error(), "does not read back") {
		t.Errorf("error %v", err)
	}
}

func TestPruneKeepsWhatEndsThen(t *testing.T) {
	const text = `{"a": [{"name": "x", "date": "2026-12-01 10:00"}]}`
	for _, tc := range []struct {
		before string
		pruned int
	}{{"2026-12-01 10:00", 0}, {"2026-12-01 10:01", 1}} {
		if _, old := pruned(t, text, at(t, tc.before)); len(old) != tc.pruned {
			t.Errorf("before %s: %v", tc.before, old)
		}
	}
}

// An ID that somebody wrote may be the one that would be derived for another entry.
func TestDerivedIDsAvoidWrittenOnes(t *testing.T) {
	derived := idOf(t, `{"a": [{"name": "x"}]}`)
	c := parsed(t, `{"a": {"0": {"name": "x"}, "1": {"name": "y", "id": "`+derived+`"}}}`)
	if len(c.Bookings) != 2 || c.Bookings[1].ID != derived || c.Bookings[0].ID == derived {
		t.Errorf("%+v", c.Bookings)
	}
}

func TestReleaseKeepsCommentsAndBytes(t *testing.T) {
	zone := inParis(t)
	now := at(t, friday)
	for _, tc := range []struct{ name, in, want string }{
		{"a comment before the comma",
			`{"a": [[{"name": "x"} /* c */, {"name": "y", "from": "2027-01-01", "id": "y"}]]}`,
			`{"a": [[{"name": "x"} /* c */]]}`},
		{"a trailing comma", `{"a": [[{"name": "x"}, {"name": "y", "from": "2027-01-01", "id": "y"},]]}`,
			`{"a": [[{"name": "x"},]]}`},
		{"bytes without a character in Windows-1252",
			"{\"a\": [[{\"name\": \"Zo\xeb\"}, {\"name\": \"y\", \"from\": \"2027-01-01\", \"id\": \"y\"}]]} // \x81\x8d\x80\n",
			"{\"a\": [[{\"name\": \"Zo\xeb\"}]]} // \x81\x8d\x80\n"},
	} {
		got, _, err := booking.Release([]byte(tc.in), zone, "y", now)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: %v\ngot  %q\nwant %q", tc.name, err, got, tc.want)
		}
	}
}

// Of several bookings of one person, the last end is compared with those of others.
func TestOverlapsOfSeveralBookings(t *testing.T) {
	c := parsed(t, `{"a": [[
		{"name": "x", "from": "2026-12-01", "date": "2026-12-09"},
		{"name": "y", "from": "2026-12-02", "date": "2026-12-05"},
		{"name": "x", "from": "2026-12-03", "date": "2026-12-12"},
		{"name": "x", "from": "2026-12-04", "date": "2026-12-13"},
		{"name": "z", "from": "2026-12-10", "date": "2026-12-11"}]]}`)
	if len(c.Problems) != 4 {
		t.Errorf("problems:\n%s", problems(c.Problems))
	}
}

// The booking of another person that ends last is compared, too.
func TestOverlapsOfThreePeople(t *testing.T) {
	c := parsed(t, `{"a": [[
		{"name": "x", "from": "2026-12-01", "date": "2026-12-20"},
		{"name": "y", "from": "2026-12-02", "date": "2026-12-05"},
		{"name": "z", "from": "2026-12-03", "date": "2026-12-10"},
		{"name": "x", "from": "2026-12-08", "date": "2026-12-21"}]]}`)
	if len(c.Problems) != 3 {
		t.Errorf("problems:\n%s", problems(c.Problems))
	}
}

func TestBracketsInCommentsAndTextsAreNotOpen(t *testing.T) {
	for text, want := range map[string]string{
		`{[`: "1:2 this [ is never closed", "{//[\n[": "2:1 this [ is never closed",
		`{//[`: "1:1 this { is never closed", `{/*[*/`: "1:1 this { is never closed",
		`{"[":1`: "1:1 this { is never closed", `{"\"[":1`: "1:1 this { is never closed",
		`{/*[`: "1:2 this comment is never closed", `{}[`: "1:3 there is more text",
	} {
		got := strings.Replace(problems(parsed(t, text).Problems), "booking:syntax ", "", 1)
		if !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%q: %s; want %s", text, got, want)
		}
	}
}

func TestAnEmptyFirstLineCounts(t *testing.T) {
	if b := parsed(t, "\n"+`{"a": [{"name": "x"}]}`).Bookings[0]; b.Line != 2 {
		t.Errorf("line %d", b.Line)
	}
}

func TestAnEmptyFileThatCannotBeMadeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), strings.Repeat("x", 240)) // names beside it would be too long
	write("{}")(t, file)
	err := booking.Open(file, booking.Zone{}).Update(t.Context(), testBy, addProgram)
	if !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("error %v", err)
	}
}

// A bracket that is never closed is found where the indentation says that it ends.
func TestMissingBracketIsFoundByIndentation(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		want       string // its line and column, and what the message says
	}{
		{"an entry on one line", `{
  "gpu01": {
    "0": { "name": "eve", "date": "2026-12-01",
    "1": { "name": "bob", "date": "2026-12-02" }
  },
  "gpu02": []
}`, "3:10 not closed before line 4,"},
		{"the last entry", `{
  "gpu01": {
    "0": { "name": "eve", "date": "2026-12-01" },
    "1": { "name": "bob", "date": "2026-12-02"
  }
}`, "4:10 not closed before line 5,"},
		{"an entry on several lines", `{
  "gpu01": {
    "0": {
      "name": "eve", // who
      "date": "2026-12-01",
    "1": {}
  },
  "gpu02": {}
}`, "3:10 not closed before line 6,"},
		{"the line of the bracket and the comma is lost", `{
  "gpu01": {
    "0": {
      "name": "eve",
      "date": "2026-12-01"
    "1": {}
  },
  "gpu02": {}
}`, "3:10 not closed before line 6,"},
		{"only a comma is lost", `{
  "gpu01": {
    "0": {
      "name": "eve"
      "date": "2026-12-01"
    },
    "1": {}
  }
}`, "4:20 a comma is missing here"},
		{"a host", `{
  "gpu01": {
    "0": { "name": "eve" },
    "1": {},

  // the next one
  "gpu02": { "0": {} }
}
`, "2:12 not closed before line 7,"},
		{"the last host", "{\n  \"gpu01\": [\n    {}\n  ],\n  \"gpu02\": {\n    \"0\": {}\n}\n",
			"5:12 not closed before line 7,"},
		{"in a nested list", `{
  "gpu01": {
    "0": [
      { "name": "eve", "date": "2026-12-01" },
      { "name": "bob", "date": "2026-12-02" }
    ],
    "1": {
      "name": "eve",
  },
  "gpu02": []
}`, "7:10 not closed before line 9,"},
		{"tabs", "{\r\n\t\"gpu01\": {\r\n\t\t\"0\": { \"name\": \"eve\",\r\n\t\t\"1\": {}\r\n\t}\r\n}\r\n",
			"3:8 not closed before line 4,"},
		{"hosts at the margin", `{
"gpu01": {
  "0": { "name": "eve",
  "1": {}
},
"gpu02": []
}`, "3:8 not closed before line 4,"},
		{"fields below their bracket are part of it", `{
  "gpu01": {
    "0": { "name": "eve",
    "date": "2026-12-01" },
    "1": { "name": "bob",
  },
}`, "5:10 not closed before line 6,"},
		{"brackets below their names", `{
  "gpu01":
  {
    "0": { "name": "eve",
    "1": {}
  }
}`, "4:10 not closed before line 5,"},
		{"no indentation", "{\n\"gpu01\": {\n\"0\": {\n\"name\": \"eve\",\n\"1\": {}\n},\n\"gpu02\": []\n}",
			"1:1 never closed"},
		{"saved by half", "{\n  \"gpu01\": {\n    \"0\": { \"name\": \"eve\" },\n", "2:12 never closed"},
		{"on one line", `{ "gpu01": { "0": { "name": "eve" }, "gpu02": [] }`, "1:1 never closed"},
	} {
		cal := booking.Parse("comments.json", []byte(tt.file), booking.Zone{Location: time.UTC}, booking.Options{})
		at, what, _ := strings.Cut(tt.want, " ")
		if len(cal.Problems) != 1 || cal.Problems[0].Where() != "comments.json:"+at ||
			!strings.Contains(cal.Problems[0].Message, what) {
			t.Errorf("%s: %+v, want %s", tt.name, cal.Problems, tt.want)
		}
	}
}

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
			"as commands write it": "{\n  \"name\": \"ada\",\n  \"from\": \"2026-11-20 08:00\",\n" +
				"  \"date\": \"2026-12-11 18:00\",\n  \"comment\": \"Noël\",\n" +
				"  \"by\": \"bob\",\n  \"id\": \"mjqxg3di\",\n  \"forced\": true\n}",
			"with an offset": `{"name":"ada","date":"2026-12-11T18:00:00 +01:00"}`,
			"without an end": `{"name": "ada", "from": "2026-11-19"}`,
			"maintenance":    `{"kind": "maintenance", "date": "2026-12-11 18:00"}`,
			"with hours":     `{"name": "ada", "date": "2026-12-11 18h", "kind": "booking"}`,
		} {
			t.Run(layout+", "+name, func(t *testing.T) {
				before, behind, _ := strings.Cut(file, "@")
				zone, now := paris(t), at(t, friday)
				load := func(content string) *booking.Calendar {
					return booking.Parse("comments.json", []byte(content), inParis(t), booking.Options{Now: now})
				}
				good := load(before + text + behind)
				if good.Broken || len(good.Bookings) == 0 {
					t.Fatalf("%+v", good)
				}
				freed := func(cal *booking.Calendar) string {
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
							t.Errorf("%s with %q at %d: %s\n%s\n%s", what, with, i, briefs(cal, zone),
								problems(cal.Problems), damaged)
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
func holds(cal *booking.Calendar, host string, index int, uuid string, now time.Time) bool {
	for _, b := range cal.Bookings {
		if b.Host == host && b.ActiveAt(now) && b.Target.Covers(index, uuid) {
			return true
		}
	}
	return false
}

func TestProblemOfTheFirstGPU(t *testing.T) {
	c := parsed(t, `{"a": [{"name": "x", "date": "garbage"}]}`)
	if len(c.Problems) != 1 || c.Problems[0].Host != "a" || c.Problems[0].GPU == nil || *c.Problems[0].GPU != 0 {
		t.Errorf("problems %+v", c.Problems)
	}
}

func TestToUTF8(t *testing.T) {
	for in, want := range map[string]string{`{"a": "Zoë"}`: `{"a": "Zoë"}`, "{\"a\": \"Zo\xeb\"}": `{"a": "Zoë"}`,
		"":              "",
		"\xff\xfe{\x00": "\xff\xfe{\x00"} {
		if got := booking.ToUTF8([]byte(in)); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// Texts are decoded as JSON says, with and without escapes.
func TestTextsAreDecoded(t *testing.T) {
	for literal, want := range map[string]string{
		`"mira"`: "mira", `"Jürgen"`: "Jürgen", `"a\"b"`: `a"b`, `"\u00e4"`: "ä", "\"\xff\"": "ÿ", `"a\\"`: `a\`,
		`"\/"`: "/",
	} {
		c := parsed(t, `{"a": [{"name": `+literal+`}]}`)
		if len(c.Bookings) != 1 || c.Bookings[0].Written != want || len(c.Problems) > 0 {
			t.Errorf("%s is %+v, want %q\n%s", literal, c.Bookings, want, problems(c.Problems))
		}
	}
}

func TestHostileFiles(t *testing.T) {
	t.Run("too large", func(t *testing.T) {
		c := parsed(t, "{"+strings.Repeat(" ", booking.MaxFileBytes)+"}")
		if !c.Broken || len(c.Problems) != 1 || c.Problems[0].Code != "booking:toolarge" {
			t.Errorf("problems:\n%s", problems(c.Problems))
		}
	})
	t.Run("too many bookings", func(t *testing.T) {
		in := `{"a":[[` + strings.Repeat(`{"name":"x"},`, booking.MaxBookings+5) + `]]}`
		c := parsed(t, in)
		if len(c.Bookings) != booking.MaxBookings || len(c.Problems) != 1 || c.Problems[0].Code != "booking:toomany" {
			t.Errorf("%d bookings, problems:\n%s", len(c.Bookings), problems(c.Problems))
		}
	})
	t.Run("too many values", func(t *testing.T) {
		const most = 500_000
		c := parsed(t, `{"a":[`+strings.Repeat("0,", most+1)+`0]}`)
		if !c.Broken || len(c.Problems) != 1 || !strings.Contains(c.Problems[0].Message, "too many values") {
			t.Errorf("problems:\n%s", problems(c.Problems))
		}
		costtest.Check(t, 2*most, 16, func() {
			parsed(t, `{"a":[`+strings.Repeat("0,", most+1)+`0]}`)
		})
	})
	t.Run("a long comment", func(t *testing.T) {
		c := parsed(t, `{"a":[{"name":"x","comment":"`+strings.Repeat("é", 1<<20)+`"}]}`)
		if len(c.Bookings) != 1 || len(c.Bookings[0].Comment) > booking.MaxCommentBytes || len(c.Problems) != 1 ||
			c.Problems[0].Code != "booking:toolong" {
			t.Errorf("problems:\n%s", problems(c.Problems))
		}
		c = parsed(t, `{"a":[{"name":"x","comment":"`+strings.Repeat("x", booking.MaxCommentBytes)+`"}]}`)
		if len(c.Bookings[0].Comment) != booking.MaxCommentBytes || len(c.Problems) != 0 {
			t.Errorf("as long as it may be: problems:\n%s", problems(c.Problems))
		}
	})
	t.Run("many mistakes", func(t *testing.T) {
		c := parsed(t, `{"a":[`+strings.Repeat("@,", 1<<20)+`]}`)
		if !c.Broken || len(c.Problems) > booking.MaxProblems+1 {
			t.Errorf("%d problems", len(c.Problems))
		}
	})
	t.Run("many values", func(t *testing.T) {
		c := parsed(t, `{"a":[`+strings.Repeat("1,", 1<<20)+`]}`)
		if !c.Broken || len(c.Problems) != 1 || c.Problems[0].Code != "booking:syntax" {
			t.Errorf("problems:\n%s", problems(c.Problems))
		}
	})
	t.Run("many overlaps", func(t *testing.T) {
		var b strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&b, `{"name":"u%d"},`, i)
		}
		c := parsed(t, `{"a":{"*":[`+b.String()+`],"0":[`+b.String()+`]}}`)
		if len(c.Problems) != booking.MaxProblems+1 {
			t.Errorf("%d problems", len(c.Problems))
		}
	})
	t.Run("65 GPUs", func(t *testing.T) {
		c := parsed(t, `{"a":[`+strings.Repeat(`{"name":"x"},`, 70)+`]}`)
		if len(c.Bookings) != snapshot.MaxGPUs || len(c.Problems) != 1 {
			t.Errorf("%d bookings, problems:\n%s", len(c.Bookings), problems(c.Problems))
		}
	})
	t.Run("characters that a terminal obeys", func(t *testing.T) {
		c := parsed(t, `{"a":[{"name":"x\u001b[2J\u202e","comment":"\ud800"}]}`)
		if len(c.Bookings) != 1 || strings.ContainsAny(c.Bookings[0].Name+c.Bookings[0].Comment, "\x1b\u202e") {
			t.Errorf("%+v", c.Bookings)
		}
	})
}
