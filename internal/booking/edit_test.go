package booking_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"gpuboard/internal/booking"
)

func TestAdd(t *testing.T) {
	until := at(t, "2026-12-01 10:00")
	x := gpu("a", 0, "x", until)
	for _, tc := range []struct {
		name, in string
		b        booking.Booking
		want     string
	}{
		{"empty file", "", x,
			"{\n  \"a\": {\n    \"0\": {\n      \"name\": \"x\",\n      \"date\": \"2026-12-01 10:00\"\n    }\n  }\n}\n"},
		{"comments alone", "// ours", x,
			"// ours\n{\n  \"a\": {\n    \"0\": {\n      \"name\": \"x\",\n      \"date\": \"2026-12-01 10:00\"\n    }\n  }\n" +
				"}\n"},
		{"comments alone, CRLF", "// ours\r\n", gpu("a", 0, "x", time.Time{}),
			"// ours\r\n{\r\n  \"a\": {\r\n    \"0\": {\r\n      \"name\": \"x\"\r\n    }\r\n  }\r\n}\r\n"},
		{"PHP's empty object", "[]", x,
			"{\n  \"a\": {\n    \"0\": {\n      \"name\": \"x\",\n      \"date\": \"2026-12-01 10:00\"\n    }\n  }\n}"},
		{"new host, tabs, comment at the end of the line",
			"{\n\t\"b\": [] // none\n}\n", x,
			"{\n\t\"b\": [], // none\n\t\"a\": {\n\t\t\"0\": {\n\t\t\t\"name\": \"x\",\n\t\t\t\"date\": \"2026-12-01 10:00\"\n" +
				"\t\t}\n\t}\n}\n"},
		{"new host, trailing comma, CRLF",
			"{\r\n  \"b\": [], /* none */\r\n}\r\n", x,
			"{\r\n  \"b\": [], /* none */\r\n  \"a\": {\r\n    \"0\": {\r\n      \"name\": \"x\",\r\n" +
				"      \"date\": \"2026-12-01 10:00\"\r\n    }\r\n  },\r\n}\r\n"},
		{"like its neighbour on one line",
			"{\n  \"a\": {\n    \"1\": { \"name\": \"y\" } // y\n    // add below\n  }\n}\n", x,
			"{\n  \"a\": {\n    \"1\": { \"name\": \"y\" }, // y\n" +
				"    \"0\": { \"name\": \"x\", \"date\": \"2026-12-01 10:00\" }\n    // add below\n  }\n}\n"},
		{"a comment behind the only one, which begins on the host's line",
			"{\n  \"a\": [{ \"name\": \"y\" } // y\n  ]\n}\n", gpu("a", 1, "x", time.Time{}),
			"{\n  \"a\": [{ \"name\": \"y\" }, // y\n    { \"name\": \"x\" }\n  ]\n}\n"},
		{"list grows, with empty places",
			"{\n  \"a\": [\n    { \"name\": \"y\" }\n  ]\n}", gpu("a", 3, "x", time.Time{}),
			"{\n  \"a\": [\n    { \"name\": \"y\" },\n    {}, {}, { \"name\": \"x\" }\n  ]\n}"},
		{"empty place in a list", `{"a": [{"name": "y"}, {}]}`, gpu("a", 1, "x", until),
			`{"a": [{"name": "y"}, { "name": "x", "date": "2026-12-01 10:00" }]}`},
		{"place that is null", `{"a": {"0": null, "1": {"name": "y"}}}`, x,
			`{"a": {"0": { "name": "x", "date": "2026-12-01 10:00" }, "1": {"name": "y"}}}`},
		{"host that is null", `{"a": null, "b": [{"name": "y"}]}`, x,
			"{\"a\": {\n  \"0\": { \"name\": \"x\", \"date\": \"2026-12-01 10:00\" }\n}, \"b\": [{\"name\": \"y\"}]}"},
		{"taken place becomes a calendar", `{"a": [{"name": "y", "date": "2018-01-01"}]}`, x,
			`{"a": [[{"name": "y", "date": "2018-01-01"}, { "name": "x", "date": "2026-12-01 10:00" }]]}`},
		{"place that holds a comment", "{\"a\": [{ /* broken fan */ }]}", gpu("a", 0, "x", time.Time{}),
			"{\"a\": [[{ /* broken fan */ }, {\n  \"name\": \"x\"\n}]]}"},
		{"calendar grows", `{"a": {"0": [{"name": "y"},]}}`, x,
			`{"a": {"0": [{"name": "y"}, { "name": "x", "date": "2026-12-01 10:00" },]}}`},
		{"list that needs keys", "{\"a\": [{\"name\": \"y\"}, // y\n {}]}",
			booking.Booking{Host: "a", Target: booking.Target{All: true, Index: -1}, Name: "x"},
			"{\"a\": {\"0\": {\"name\": \"y\"}, // y\n \"1\": {}, \"*\": { \"name\": \"x\" }}}"},
		{"empty list that needs keys", "{\"a\": []}",
			booking.Booking{Host: "a",
				Target: booking.Target{UUID: "GPU-000000ab-0000-4000-8000-000000000000", Index: -1},
				Name:   "x"},
			"{\"a\": {\n  \"GPU-000000ab-0000-4000-8000-000000000000\": {\n    \"name\": \"x\"\n  }\n}}"},
		{"all fields", `{"a": [{"name": "y"}]}`,
			booking.Booking{Host: "a", Target: booking.Target{Index: 1}, Name: `x "q"`,
				From:  at(t, "2026-11-30 08:00:07"),
				Until: until, Comment: `<a\b>`, Kind: booking.Maintenance, By: "z", ID: "i", Forced: true},
			`{"a": [{"name": "y"}, { "name": "x \"q\"", "from": "2026-11-30 08:00:07", "date": "2026-12-01 10:00", "comment": ` +
				`"<a\\b>", "kind": "maintenance", "by": "z", "id": "i", "forced": true }]}`},
		{"the hour that comes twice", `{"a": [{"name": "y"}]}`,
			gpu("a", 1, "x", time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC)),
			`{"a": [{"name": "y"}, { "name": "x", "date": "2026-10-25T00:30:00Z" }]}`},
		{"Latin-1", "{\"a\": [{\"name\": \"Zo\xeb\"}]} // \xe9t\xe9\n", gpu("a", 1, "Noël", time.Time{}),
			"{\"a\": [{\"name\": \"Zo\xeb\"}, { \"name\": \"No\xebl\" }]} // \xe9t\xe9\n"},
		{"comment at the very end", "{\"a\": [{\"name\": \"y\"}]} // bye", gpu("a", 1, "x", time.Time{}),
			"{\"a\": [{\"name\": \"y\"}, { \"name\": \"x\" }]} // bye"},
		{"mark of UTF-8", "\xef\xbb\xbf{\"a\": [{\"name\": \"y\"}]}", gpu("a", 1, "Noël", time.Time{}),
			"\xef\xbb\xbf{\"a\": [{\"name\": \"y\"}, { \"name\": \"Noël\" }]}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, added, err := booking.Add([]byte(tc.in), inParis(t), tc.b)
			if err != nil {
				t.Fatal(err)
			}
			plain := newIDs().ReplaceAllString(string(got), "")
			if tc.in == "" { // a new file begins with lines that say what it is
				about, rest, _ := strings.Cut(plain, "{\n")
				if !strings.HasPrefix(about, "// Who has reserved which GPU. ") || len(about) < 300 {
					t.Errorf("a new file begins with\n%s", about)
				}
				plain = "{\n" + rest
			}
			if plain != tc.want {
				t.Errorf("got\n%s\nwant\n%s", plain, tc.want)
			}
			if !strings.Contains(string(got), `"id": "`+added[0].ID+`"`) {
				t.Errorf("the ID %s is not in\n%s", added[0].ID, got)
			}
			if len(added) != 1 || added[0].Name != tc.b.Name || added[0].Target != tc.b.Target ||
				!added[0].Until.Equal(tc.b.Until) || added[0].ID == "" {
				t.Errorf("reads back as %+v", added)
			}
		})
	}
}

// newIDs finds the IDs that commands write.
func newIDs() *regexp.Regexp { return regexp.MustCompile(`,\s*"id": "[a-z2-7]{8}(-\d+)?"`) }

func TestAddRefuses(t *testing.T) {
	until := at(t, "2026-12-01 10:00")
	for _, tc := range []struct {
		name, in string
		b        booking.Booking
		want     error
		part     string
	}{
		{"a file with a mistake", `{"a": [{"name": "y"} {}]}`, gpu("a", 0, "x", until), booking.ErrBroken,
			"comments.json:1:21: a comma is missing"},
		{"a host of the wrong type", `{"a": 3}`, gpu("a", 0, "x", until), booking.ErrBroken, "neither a list"},
		{"a place of the wrong type", `{"a": [3]}`, gpu("a", 0, "x", until), booking.ErrBroken, "no entry"},
		{"no name", `{}`, gpu("a", 0, " ", until), booking.ErrInvalid, "no name"},
		{"no host", `{}`, gpu("../a", 0, "x", until), booking.ErrInvalid, "host name"},
		{"no GPU", `{}`, gpu("a", 64, "x", until), booking.ErrInvalid, "no GPU"},
		{"end before start", `{}`, booking.Booking{Host: "a", Name: "x", From: until, Until: until}, booking.ErrInvalid,
			"before it begins"},
		{"a year that is too early", `{}`, booking.Booking{Host: "a", Name: "x",
			From: time.Date(booking.MinYear, 6, 1, 0, 0, 0, 0, time.UTC)}, booking.ErrInvalid, "out of range"},
		{"a year that is too late", `{}`, gpu("a", 0, "x", time.Date(booking.MaxYear, 6, 1, 0, 0, 0, 0, time.UTC)),
			booking.ErrInvalid, "out of range"},
		{"a long comment", `{}`, booking.Booking{Host: "a", Name: "x", Comment: strings.Repeat("c", 2001)},
			booking.ErrInvalid, "2001 bytes"},
		{"an id that is taken", `{"a": [{"name": "y", "id": "i"}]}`,
			booking.Booking{Host: "a", Target: booking.Target{Index: 1}, Name: "x", ID: "i"}, booking.ErrInvalid,
			"taken"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := booking.Add([]byte(tc.in), inParis(t), tc.b)
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.part) {
				t.Errorf("error %v", err)
			}
		})
	}
	_, _, err := booking.Add([]byte("{\"a\": [{\"name\": \"Zo\xeb\"}]}"), inParis(t), gpu("a", 1, "李", until))
	if !errors.Is(err, booking.ErrEncoding) || !strings.Contains(err.Error(), "which has no '李'") {
		t.Errorf("error %v", err)
	}
}

func TestExtendAndRelease(t *testing.T) {
	in := []byte("{\n  \"a\": [\n    { \"name\": \"x\", \"date\": \"2026-12-01 10:00\", \"id\": \"i\" }, // x\n" +
		"    [{\"name\":\"y\",\"id\":\"j\"}, /* k */ {\"name\":\"z\",\"from\":\"2026-12-05\",\"id\":\"k\"}]\n  ]\n}\n")
	now := at(t, "2026-11-20 10:30")
	replace := func(old, with string) string { return strings.Replace(string(in), old, with, 1) }

	got, b, err := booking.Extend(in, inParis(t), "i", at(t, "2026-12-03 10:00"), now)
	if err != nil || string(got) != replace("2026-12-01 10:00", "2026-12-03 10:00") ||
		!b.Until.Equal(at(t, "2026-12-03 10:00")) {
		t.Errorf("extending: %v %+v\n%s", err, b, got)
	}
	got, _, err = booking.Extend(in, inParis(t), "i", time.Time{}, now)
	if err != nil || string(got) != replace(`"2026-12-01 10:00"`, `""`) {
		t.Errorf("leaving open: %v\n%s", err, got)
	}
	if _, _, err = booking.Extend(in, inParis(t), "i", at(t, "2026-12-03"),
		at(t, "2026-12-01 10:00")); !errors.Is(err, booking.ErrOver) {
		t.Errorf("extending what is over: %v", err)
	}
	if _, _, err = booking.Extend(in, inParis(t), "nobody", at(t, "2026-12-03"),
		now); !errors.Is(err, booking.ErrNotFound) {
		t.Errorf("extending what is not there: %v", err)
	}
	if _, _, err = booking.Extend(in, inParis(t), "k", at(t, "2026-12-04"), now); !errors.Is(err, booking.ErrInvalid) {
		t.Errorf("ending before the beginning: %v", err)
	}

	got, b, err = booking.Release(in, inParis(t), "j", now)
	if err != nil || string(got) != replace(`"id":"j"`, `"id":"j", "date": "2026-11-20 10:30"`) || !b.Until.Equal(now) {
		t.Errorf("releasing: %v %+v\n%s", err, b, got)
	}
	if _, _, err = booking.Release(got, inParis(t), "j", now); !errors.Is(err, booking.ErrOver) {
		t.Errorf("releasing twice: %v", err)
	}
	if _, _, err = booking.Extend(got, inParis(t), "j", at(t, "2026-12-03"), now); !errors.Is(err, booking.ErrOver) {
		t.Errorf("extending what was released: %v", err)
	}
	got, b, err = booking.Release(in, inParis(t), "k", now)
	if err != nil || string(got) != replace(`, /* k */ {"name":"z","from":"2026-12-05","id":"k"}`, ` /* k */ `) ||
		b.Name != "z" {
		t.Errorf("releasing what has not begun: %v %+v\n%s", err, b, got)
	}
}

func TestPrune(t *testing.T) {
	in := "{\n  \"a\": {\n    \"0\": [\n      {\"name\": \"x\", \"date\": \"2018-01-01\"}, // x\n" +
		"      {\"name\": \"y\", \"date\": \"2027-01-01\"},\n" +
		"      {\"name\": \"z\", \"date\": \"2018-02-01\"},\n      {\"name\": \"z\", \"date\": \"2018-03-01\"}\n    ],\n" +
		"    \"1\": {\"name\": \"x\", \"date\": \"2018-01-01\"}, // kept\n    \"2\": {\"name\": \"open\"}\n  }\n}\n"
	want := "{\n  \"a\": {\n    \"0\": [\n      // x\n      {\"name\": \"y\", \"date\": \"2027-01-01\"}\n    ],\n" +
		"    \"1\": {}, // kept\n    \"2\": {\"name\": \"open\"}\n  }\n}\n"
	got, old := pruned(t, in, at(t, "2026-01-01"))
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(old) != 4 {
		t.Errorf("archived %+v", old)
	}
	if again, old := pruned(t, got, at(t, "2026-01-01")); again != got || len(old) != 0 {
		t.Errorf("pruning again: %d archived\n%s", len(old), again)
	}
}

// pruned is what a file becomes when bookings that ended before a time leave it, and these.
func pruned(t testing.TB, text string, before time.Time) (left string, old []booking.Booking) {
	t.Helper()
	dir, err := os.MkdirTemp("", "booking")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "comments.json")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	old, _, err = booking.Open(file, inParis(t)).Prune(t.Context(), testBy, before)
	if err != nil {
		t.Fatalf("pruning %q: %v", text, err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), old
}

// content is a booking without what changes when other entries do.
func content(b booking.Booking) booking.Booking {
	return booking.Booking{Host: b.Host, Target: b.Target, Name: b.Name, Written: b.Written, From: b.From.UTC(),
		Until: b.Until.UTC(), Comment: b.Comment, Kind: b.Kind, By: b.By, Forced: b.Forced}
}

// editKeeps holds one edit against its promise: the bookings are those from
// before but for one, and every byte of the file is still there in its order.
func editKeeps(t testing.TB, before []byte, b booking.Booking) []byte {
	t.Helper()
	after, added, err := booking.Add(before, inParis(t), b)
	if err != nil {
		if errors.Is(err, booking.ErrBroken) || errors.Is(err, booking.ErrInvalid) ||
			errors.Is(err, booking.ErrEncoding) {
			return nil
		}
		t.Fatalf("adding to %q: %v", before, err)
	}
	had, has := parsed(t, string(before)), parsed(t, string(after))
	if has.Broken || !utf8.Valid(before) && utf8.Valid(after) { // then it would be in another encoding
		t.Fatalf("%q became %q", before, after)
	}
	count := map[booking.Booking]int{}
	for _, x := range has.Bookings {
		count[content(x)]++
	}
	for _, x := range had.Bookings {
		count[content(x)]--
	}
	count[content(added[0])]--
	for x, n := range count {
		if n != 0 {
			t.Fatalf("%q became %q: %d of %+v", before, after, n, x)
		}
	}
	// Brackets of a list may become those of a dictionary, and null gives way.
	rest := after
	plain := func(p []byte) []byte {
		p = bytes.ReplaceAll(bytes.ReplaceAll(p, []byte("["), []byte("{")), []byte("]"), []byte("}"))
		return bytes.ReplaceAll(p, []byte("null"), nil)
	}
	rest = plain(rest)
	for _, c := range plain(before) {
		i := bytes.IndexByte(rest, c)
		if i < 0 && !strings.ContainsRune(" \t\r\n", rune(c)) {
			t.Fatalf("%q became %q: a %q is lost", before, after, c)
		}
		if i >= 0 && (!strings.ContainsRune(" \t\r\n", rune(c)) || i == 0) {
			rest = rest[i+1:]
		}
	}
	return after
}

func TestEditsKeepEverythingElse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ws := rapid.SampledFrom(
			[]string{"", " ", "\n", "\n\t", "\r\n  ", " // c é\n", " /* d\n */ ", "\n    // e\n    "})
		space := func() string { return ws.Draw(rt, "space") }
		name := rapid.SampledFrom([]string{"x", "y", "Zoë", "a b", `q\"`})
		serial := 0
		entry := func() string {
			serial++
			switch rapid.IntRange(0, 4).Draw(rt, "entry") {
			case 0:
				return "{}"
			case 1:
				return fmt.Sprintf(`{%s"name":"%s"%s,"comment":"n%d"}`, space(), name.Draw(rt, "name"), space(), serial)
			case 2:
				return fmt.Sprintf(`{"name":%s"%s","date":"2018-0%d-01",}`, space(), name.Draw(rt, "name"), serial%9+1)
			}
			return fmt.Sprintf(`{"name":"%s", "from": "2026-11-01", "date": "2026-12-01 %02d:00"%s}`,
				name.Draw(rt, "name"),
				serial%24, space())
		}
		list := func(n int, element func(i int) string, open, closing string) string {
			var b strings.Builder
			b.WriteString(open + space())
			for i := range n {
				b.WriteString(element(i) + space())
				if i < n-1 || rapid.Bool().Draw(rt, "comma") {
					b.WriteString("," + space())
				}
			}
			return b.String() + closing
		}
		count := rapid.IntRange(0, 3)
		value := func() string {
			if rapid.IntRange(0, 3).Draw(rt, "calendar") == 0 {
				return list(count.Draw(rt, "entries"), func(int) string { return entry() }, "[", "]")
			}
			return entry()
		}
		host := func(i int) string {
			key := fmt.Sprintf(`"h%d"%s:%s`, i, space(), space())
			if rapid.Bool().Draw(rt, "list") {
				return key + list(count.Draw(rt, "gpus"), func(int) string { return value() }, "[", "]")
			}
			return key + list(count.Draw(rt, "gpus"),
				func(i int) string { return fmt.Sprintf(`"%d":%s%s`, i, space(), value()) }, "{", "}")
		}
		data := []byte(space() + list(count.Draw(rt, "hosts"), host, "{", "}") + space())
		for range 3 {
			b := gpu(fmt.Sprintf("h%d", rapid.IntRange(0, 3).Draw(rt, "host")), rapid.IntRange(0, 4).Draw(rt, "gpu"),
				"new",
				at(t, "2026-12-24"))
			if rapid.IntRange(0, 5).Draw(rt, "whole") == 0 {
				b.Target = booking.Target{All: true, Index: -1}
			}
			after := editKeeps(t, data, b)
			if after == nil {
				rt.Fatalf("nothing could be added to %q", data)
			}
			data = after
		}
		rest, old := pruned(t, string(data), at(t, "2020-01-01"))
		left := parsed(t, rest)
		if had := len(parsed(t, string(data)).Bookings); len(left.Bookings)+len(old) != had {
			rt.Fatalf("pruning %q left %q: %d of %d and %d archived", data, rest, len(left.Bookings), had, len(old))
		}
		now := at(t, "2026-11-20 10:30")
		for _, b := range left.Bookings {
			if b.Until.IsZero() || b.Until.After(now) {
				released, _, err := booking.Release([]byte(rest), inParis(t), b.ID, now)
				if err != nil {
					rt.Fatalf("releasing %+v in %q: %v", b, rest, err)
				}
				for _, x := range parsed(t, string(released)).Bookings {
					if x.ID == b.ID && x.Name == b.Name && (x.Until.IsZero() || x.Until.After(now)) &&
						x.Until.Equal(b.Until) &&
						x.From.Equal(b.From) && len(left.Bookings) == 1 {
						rt.Fatalf("%+v was not released in %q", x, released)
					}
				}
			}
		}
	})
}

func FuzzEdit(f *testing.F) {
	f.Add([]byte(reservations), uint8(1), "x", false)
	f.Add([]byte(`{"a": {"0": [{"name": "x"},], }, "b": [ /* none */ ]}`), uint8(0), "é", true)
	f.Fuzz(func(t *testing.T, data []byte, index uint8, name string, whole bool) {
		b := gpu("a", int(index), name, at(t, "2026-12-24"))
		if whole {
			b.Target = booking.Target{All: true, Index: -1}
		}
		editKeeps(t, data, b)
	})
}

func BenchmarkParse1000(b *testing.B) {
	var s strings.Builder
	s.WriteString("{\n")
	for h := range 125 {
		fmt.Fprintf(&s, "  \"gpu%03d\": [\n", h)
		for i := range 8 {
			fmt.Fprintf(&s,
				"    { \"name\": \"user%d\", \"date\": \"2026-12-%02d 10:00\", \"comment\": \"run %d\" }, // GPU %d\n",
				(h+i)%40, i+1, h, i)
		}
		s.WriteString("  ],\n")
	}
	s.WriteString("}\n")
	data := []byte(s.String())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if c := parsed(b, string(data)); len(c.Bookings) != 1000 || len(c.Problems) > 0 {
			b.Fatalf("%d bookings, problems:\n%s", len(c.Bookings), problems(c.Problems))
		}
	}
}

func TestAddToTheExampleFile(t *testing.T) {
	data, err := os.ReadFile("../../data/comments.json.example")
	if err != nil {
		t.Fatal(err)
	}
	after := editKeeps(t, data, gpu("gpu05", 0, "ada", at(t, "2026-12-01")))
	if !bytes.Contains(after, []byte("// no bookings")) || len(after) <= len(data) {
		t.Errorf("got\n%s", after)
	}
}

// Where a host or a GPU is there twice, each entry counts, and each can be changed.
func TestEditsWhereAHostIsThereTwice(t *testing.T) {
	const before = `{
  "a": [ { "name": "first", "id": "one" }, {} ],
  "b": { "0": { "name": "third", "id": "three" }, "0": { "name": "fourth", "id": "four" } },
  "a": { "1": { "name": "second", "id": "two" }, "7": [] }
}
`
	now := at(t, "2026-11-20 10:30")
	data := []byte(before)
	for _, target := range []int{0, 1, 2, 7} {
		for _, host := range []string{"a", "b"} {
			next, added, err := booking.Add(data, inParis(t),
				booking.Booking{Host: host, Target: booking.Target{Index: target}, Name: "new"})
			if err != nil || added[0].Host != host || added[0].Target.Index != target {
				t.Fatalf("adding to %s %d: %v, %v\n%s", host, target, added, err, data)
			}
			data = next
		}
	}
	for _, id := range []string{"one", "two", "three", "four"} {
		next, released, err := booking.Release(data, inParis(t), id, now)
		if err != nil || released.ID != id || !released.Until.Equal(now) {
			t.Fatalf("releasing %s: %v, %v", id, released, err)
		}
		data = next
	}
	next, old := pruned(t, string(data), now.Add(time.Hour))
	if len(old) != 4 {
		t.Fatalf("pruned %v", old)
	}
	c := parsed(t, next)
	if len(c.Bookings) != 8 {
		t.Errorf("%d bookings are left, want the 8 that were added\n%s", len(c.Bookings), next)
	}
}

// What stands behind the last entry on its line stays there, and a new one begins behind the end of that line, which
// is none within a comment.
func TestEndOfALineIsNotWithinAComment(t *testing.T) {
	const before, added = `{"a": [{"name": "y"}`, `{ "name": "x" }`
	for extra, line := range map[string]string{
		"\n": "", " \r\n": " ", " /* a\nb */\n\n": " /* a\nb */", "/**/\n": "/**/", " // a /*\n ": " // a /*",
		"/* a // b */ \n": "/* a // b */ ",
	} {
		got, _, err := booking.Add([]byte(before+extra+"]}"), inParis(t), gpu("a", 1, "x", time.Time{}))
		newline := "\n  "
		if strings.Contains(extra, "\r") {
			newline = "\r\n  "
		}
		want := before + "," + line + newline + added + extra[len(line):] + "]}"
		if plain := newIDs().ReplaceAllString(string(got), ""); err != nil || plain != want {
			t.Errorf("%q: got %q, %v; want %q", extra, plain, err, want)
		}
	}
	within := before + " /* a\nb */ ]}" // here no line ends
	got, _, err := booking.Add([]byte(within), inParis(t), gpu("a", 1, "x", time.Time{}))
	if plain := newIDs().ReplaceAllString(string(got), ""); err != nil || plain != before+", "+added+" /* a\nb */ ]}" {
		t.Errorf("got %q, %v", plain, err)
	}
}
