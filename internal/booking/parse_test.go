package booking_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/costtest"
)

// The example of the page that describes the format, with its Latin-1 letters.
const reservations = "{\n" +
	"  \"GPUBOX\": [  // you may as well write a dictionary { \"0\": {\"name\": ...} }\n" +
	"    {  // the element with index 0 is GPU 0\n" +
	"      \"name\": \"ada\",\n" +
	"      \"date\": \"2030-05-01 12:30\",  // booked until then\n" +
	"      \"comment\": \"free text\"\n" +
	"    },\n" +
	"    { // index 1\n" +
	"      \"name\": \"bob\",\n" +
	"      \"date\": \"2018-01-01\",  // long over\n" +
	"      \"comment\": \"booked by P\xe8re No\xebl\"\n" +
	"    }\n" +
	"  ],\n" +
	"  \"gputest002-pa4\": []  // no reservation info for this machine\n" +
	"}\n"

func TestExampleInLatin1(t *testing.T) {
	zone := paris(t)
	c := booking.Parse("data/comments.json", []byte(reservations), inParis(t), booking.Options{})
	if c.Broken || len(c.Problems) != 0 {
		t.Fatalf("broken %v, problems:\n%s", c.Broken, problems(c.Problems))
	}
	if c.File != "comments.json" {
		t.Errorf("file %q", c.File)
	}
	want := "gpubox/0 ada -..2030-05-01T12:30 (free text)\ngpubox/1 bob -..2018-01-02T00:00 (booked by Père Noël)"
	if got := briefs(c, zone); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if b := c.Bookings[1]; b.Line != 8 || b.Col != 5 {
		t.Errorf("second entry at %d:%d, want 8:5", b.Line, b.Col)
	}
}

func TestProjectExample(t *testing.T) {
	data, err := os.ReadFile("../../data/comments.json.example")
	if err != nil {
		t.Fatal(err)
	}
	c := booking.Parse("comments.json.example", data, inParis(t), booking.Options{})
	if c.Broken || len(c.Problems) != 0 || len(c.Bookings) < 8 {
		t.Fatalf("%d bookings, problems:\n%s", len(c.Bookings), problems(c.Problems))
	}
	kinds := map[string]bool{}
	for _, b := range c.Bookings {
		kinds[string(b.Kind)] = true
		kinds["whole host"] = kinds["whole host"] || b.Target.All
		kinds["uuid"] = kinds["uuid"] || b.Target.UUID != ""
		kinds["from"] = kinds["from"] || !b.From.IsZero()
		kinds["open"] = kinds["open"] || b.Until.IsZero()
	}
	for _, k := range []string{"booking", "maintenance", "whole host", "uuid", "from", "open"} {
		if !kinds[k] {
			t.Errorf("the example shows no %s", k)
		}
	}
}

func TestParseForms(t *testing.T) {
	zone := paris(t)
	for _, tc := range []struct{ name, in, want string }{
		{"empty object", `{}`, ""},
		{"empty list, as PHP writes an empty object", `[]`, ""},
		{"no bookings of a host", `{"a": [], "b": {}, "c": null}`, ""},
		{"empty entries", `{"a": [{}, null, {"name": "", "date": "", "comment": ""}, {"name": "x"}]}`, "a/3 x -..-"},
		{"dictionary", `{"a": {"1": {"name": "x", "date": "2026-12-01 10:00"}}}`, "a/1 x -..2026-12-01T10:00"},
		{"AMD's UUID", `{"a": {"GPU-08E5AF7A8e5a7f31": {"name": "x"}}}`, "a/GPU-08e5af7a8e5a7f31 x -..-"},
		{"uuid",
			`{"a": {"gpu-000000AB-0000-4000-8000-000000000000": {"name": "x"}, ` +
				`"MIG-GPU-000000ab-0000-4000-8000-000000000000/1/0": {"name": "y"}}}`,
			"a/GPU-000000ab-0000-4000-8000-000000000000 x -..-\na/MIG-GPU-000000ab-0000-4000-8000-000000000000/1/0 y -..-"},
		{"whole host", `{"a": {"*": {"name": "x"}}}`, "a/* x -..-"},
		{"whole host and one of its GPUs", `{"a": {"0,*": {"name": "x"}}}`, "a/* x -..-"},
		{"calendar in a dictionary",
			`{"a": {"0": [{"name": "x", "date": "2026-12-01"}, {}, {"name": "y", "from": "2026-12-02"}]}}`,
			"a/0 x -..2026-12-02T00:00\na/0 y 2026-12-02T00:00..-"},
		{"calendar in a list",
			`{"a": [[{"name": "y", "from": "2026-12-02"}, {"name": "x", "date": "2026-12-01"}], {"name": "z"}]}`,
			"a/0 x -..2026-12-02T00:00\na/0 y 2026-12-02T00:00..-\na/1 z -..-"},
		{"maintenance without a name", `{"a": {"*": {"kind": "maintenance", "comment": "new fans"}}}`,
			"a/*  -..- maintenance (new fans)"},
		{"trailing commas and comments", "{ // one\n /* two */ \"a\": [ {\"name\": \"x\",}, ], }", "a/0 x -..-"},
		{"mark of UTF-8 and CRLF", "\xef\xbb\xbf{\r\n\"a\": [{\"name\": \"Zoë\"}]\r\n}\r\n", "a/0 Zoë -..-"},
		{"capital host", `{"GPU-Box.Example.ORG": [{"name": "x"}]}`, "gpu-box.example.org/0 x -..-"},
		{"escapes", `{"a": [{"name": "\u00e9\ud83d\ude00\n\"\\\/"}]}`, "a/0 é😀\\x0a\"\\/ -..-"},
		{"zone", `{"a": [{"name": "x", "date": "2026-12-01T10:00:00Z"}]}`, "a/0 x -..2026-12-01T11:00"},
		{"null fields", `{"a": [{"name": "x", "date": null, "comment": null, "forced": null}]}`, "a/0 x -..-"},
		{"times as the commands read them",
			`{"a": [{"name": "x", "date": "2026-12-01 24:00"}, {"name": "x", "date": "never"}, {"name": "x", "date": ` +
				`"2026-12-01 18h"}, {"name": "x", "date": "30 November 2026"}]}`,
			"a/0 x -..2026-12-02T00:00\na/1 x -..-\na/2 x -..2026-12-01T18:00\na/3 x -..2026-12-01T00:00"},
		{"an entry in place of the host", `{"a": {"name": "x", "date": "2026-12-01 10:00"}}`,
			"a/* x -..2026-12-01T10:00"},
		{"several GPUs",
			`{"a": {"0,2": {"name": "x"}, "4-5": [{"name": "y", "date": "2026-12-01 10:00"}, {"name": "z", "from": ` +
				`"2026-12-01 10:00"}]}}`,
			"a/0 x -..-\na/2 x -..-\na/4 y -..2026-12-01T10:00\na/4 z 2026-12-01T10:00..-\na/5 y -..2026-12-01T10:00\n" +
				"a/5 z 2026-12-01T10:00..-"},
		{"same person twice", `{"a": {"*": {"name": "x"}, "0": {"name": "X"}}}`, "a/* x -..-\na/0 X -..-"},
		{"one after the other",
			`{"a": [[{"name": "x", "date": "2026-12-01 10:00"}, {"name": "y", "from": "2026-12-01 10:00"}]]}`,
			"a/0 x -..2026-12-01T10:00\na/0 y 2026-12-01T10:00..-"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := parsed(t, tc.in)
			if c.Broken || len(c.Problems) > 0 {
				t.Errorf("problems:\n%s", problems(c.Problems))
			}
			if got := briefs(c, zone); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

// Each mistake is named where it is. One of syntax stops the reading, any other costs one entry.
func TestParseMistakes(t *testing.T) {
	zone := paris(t)
	for _, tc := range []struct {
		name, in, want string
		problems       []string // "line:col code: part of the message"
		broken         bool
	}{
		{"comma missing", "{\n \"a\": [{\"name\": \"x\"}\n {\"name\": \"y\"}]}", "",
			[]string{"2:21 booking:syntax: a comma is missing here"}, true},
		{"hosts before the mistake count", `{"a": [{"name": "x"}], "b": [{"name": "y"} {}], "c": [{"name": "z"}]}`,
			"a/0 x -..-", []string{"1:43 booking:syntax: a comma is missing here"}, true},
		{"column in characters", "{\"a\": [{\"name\": \"éé\" \"date\": \"2026-12-01\"}]}", "",
			[]string{"1:21 booking:syntax: a comma"}, true},
		{"comma too many", `{"a": [{"name": "x"},, {"name": "y"}]}`, "",
			[]string{"1:22 booking:syntax: a comma too many"}, true},
		{"single quotes", `{'a': [{'name': 'x'}]}`, "", []string{"1:2 booking:syntax: double quotes"}, true},
		{"a sign where a value belongs", `{"a": =x}`, "", []string{`1:7 booking:syntax: "=" cannot stand here`}, true},
		{"typographic quotes", `{"a": [{"name": “x”}]}`, "", []string{"1:17 booking:syntax: straight double quotes"},
			true},
		{"no quotes around a key", `{"a": [{name: x}]}`, "",
			[]string{"1:9 booking:syntax: \"name\" needs double quotes"}, true},
		{"no quotes around a date", `{"a": [{"date": 2026-12-01 10:00}]}`, "",
			[]string{"1:17 booking:syntax: needs double quotes"}, true},
		{"hash comment", "# hello\n{\"a\": [{\"name\": \"x\"}]}", "",
			[]string{"1:1 booking:syntax: a comment begins with //"}, true},
		{"colon missing", `{"a" [{"name": "x"}]}`, "", []string{"1:5 booking:syntax: colon"}, true},
		{"value missing", `{"a": [{"name": }]}`, "", []string{"1:16 booking:syntax: a value is missing"}, true},
		{"list not closed", "{\"a\": [{\"name\": \"x\"}\n, \"b\": [{\"name\": \"y\"}]}", "",
			[]string{"2:6 booking:syntax: the [ opened at line 1, column 7, is not closed"}, true},
		{"entry not closed", `{"a": [{"name": "x", {"name": "y"}], "b": [{"name": "z"}]}`, "",
			[]string{"1:22 booking:syntax: is not closed"}, true},
		{"wrong bracket", `{"a": [{"name": "x"], "b": [{"name": "z"}]}`, "",
			[]string{"1:20 booking:syntax: closed with }"}, true},
		{"last quote missing", `{"a": [{"name": "x", "date": "2026-12-01}]}`, "",
			[]string{"1:30 booking:syntax: the closing quote"}, true},
		{"quote missing before a name", `{"a": [{"name": "x, "date": "2026-12-01"}]}`, "",
			[]string{"1:22 booking:syntax: a comma is missing here, or a quote"}, true},
		{"quote missing", "{\"a\": [{\"name\": \"x,\n\"date\": \"2026-12-01 10:00\"}, {\"name\": \"y\"}]}", "",
			[]string{"1:17 booking:syntax: the closing quote"}, true},
		{"half saved", `{"a": [{"name": "x", "date": "2026-12-01 10:00"}, {"name": "y", "da`, "",
			[]string{"1:51 booking:syntax: saved by half"}, true},
		{"tab in a text", "{\"a\": [{\"name\": \"x\ty\"}]}", "", []string{"1:17 booking:syntax: a tab"}, true},
		{"comment not closed", "{\"a\": [{\"name\": \"x\"}],\n /* \"b\": []}", "a/0 x -..-",
			[]string{"2:2 booking:syntax: never closed"}, true},
		{"text behind", `{"a": [{"name": "x"}]} }`, "a/0 x -..-", []string{"1:24 booking:syntax: more text"}, true},
		{"invisible character", "{\u00a0\"a\": [{\"name\": \"x\"}]}", "", []string{"1:2 booking:syntax: invisible"},
			true},
		{"python", `{"a": [None, {"name": "x"}]}`, "", []string{"1:8 booking:syntax: null"}, true},
		{"not an object", `"x"`, "", []string{"1:1 booking:type: an object"}, true},
		{"UTF-16", "\xff\xfe{\x00}\x00", "", []string{"1:1 booking:encoding: UTF-16"}, true},
		{"NUL", "{\x00}", "", []string{"1:1 booking:encoding: NUL"}, true},
		{"mark of UTF-8 before Latin-1", "\xef\xbb\xbf{\"a\": [{\"name\": \"Zo\xeb\"}]}", "",
			[]string{"1:1 booking:encoding: not valid UTF-8"}, true},
		{"too deep", strings.Repeat("[", 1<<20), "", []string{"1:33 booking:syntax: nested more than 32"}, true},

		{"host twice", "{\"a\": [{\"name\": \"x\"}],\n\"A\": [{\"name\": \"y\"}]}", "a/0 x -..-\na/0 y -..-",
			[]string{"1:2 booking:duplicate: line 2: other programs see only the last one", "2:7 booking:overlap"},
			false},
		{"GPU twice", `{"a": {"0": {"name": "x"}, "0": {"name": "y"}}}`, "a/0 x -..-\na/0 y -..-",
			[]string{"1:8 booking:duplicate: one list", "1:33 booking:overlap"}, false},
		{"field twice", `{"a": [{"name": "x", "name": "y"}]}`, "a/0 y -..-", []string{"1:9 booking:duplicate"}, false},
		{"unknown field", `{"a": [{"name": "x", "coment": "c"}]}`, "a/0 x -..-",
			[]string{"1:22 booking:field: did you mean \"comment\"?"}, false},
		{"unknown field in capitals", `{"a": [{"name": "x", " COMENT ": "c"}]}`, "a/0 x -..-",
			[]string{"1:22 booking:field: did you mean \"comment\"?"}, false},
		{"field of another tool", `{"a": [{"name": "x", "until": "2026-12-01"}]}`, "a/0 x -..-",
			[]string{"1:22 booking:field: did you mean \"date\"?"}, false},
		{"capital field", `{"a": [{"Name": "x"}]}`, "a/0 x -..-", []string{"1:9 booking:field: small letters"}, false},
		{"host name", `{"?*": [{"name": "x"}], "b": [{"name": "y"}]}`, "b/0 y -..-",
			[]string{"1:2 booking:host: letters, digits"}, false},
		{"what may be a host name", `{"a_b": [{"name": "x"}], "b": [{"name": "y"}]}`,
			"a-b/0 ? -..-\nab/0 ? -..-\nb/0 y -..-",
			[]string{"1:2 booking:host: may mean ab, a-b"}, false},
		{"host with a path", `{"../../etc": [{"name": "x"}]}`, "etc/0 ? -..-",
			[]string{"1:2 booking:host: may mean etc"}, false},
		{"GPU key", `{"a": {"gpu0": {"name": "x"}, "01": {"name": "x"}, "64": {"name": "x"}, "3": {"name": "y"}}}`,
			"a/* ? -..-\na/0 ? -..-\na/1 ? -..-\na/3 y -..-",
			[]string{`1:8 booking:gpu: names no GPU: write its index ("0"), its UUID ("GPU-…" or "MIG-…") or "*" for the ` +
				`whole host; until it is corrected, GPU 0 of a counts as booked by "?"`,
				"1:31 booking:gpu: leading zeros",
				`1:52 booking:gpu: more than 64; until it is corrected, the host a counts as booked by "?"`}, false},
		{"other GPU keys", `{"a": {"GPU 1": {"name": "x"}, " 2 ": {"name": "x"}, "GPU-short": {"name": "y"}, "": {}}}`,
			"a/* ? -..-\na/1 ? -..-\na/2 ? -..-",
			[]string{"1:8 booking:gpu",
				`1:32 booking:gpu: write "2", without spaces and in plain characters; until it is corrected, GPU 2 of a counts ` +
					`as booked`, "1:54 booking:gpu", "1:82 booking:gpu"}, false},
		{"GPU key with an entry that is over, and with none",
			`{"a": {"gpu0": {"name": "x", "date": "2018-01-01 10:00"}, "gpu1": {}, "gpu2": null}}`,
			"a/0 ? -..2018-01-01T10:00",
			[]string{"1:8 booking:gpu", "1:59 booking:gpu", "1:71 booking:gpu"}, false},
		{"GPU key with something else", `{"a": {"gpu0": "x", "gpu1": [[{"name": "x"}]]}}`, "a/0 ? -..-\na/1 ? -..-",
			[]string{"1:8 booking:gpu", "1:21 booking:gpu", "1:30 booking:type"}, false},
		{"GPUs below a key that names none", `{"a": {"gpus": {"0": {"name": "x"}}, "gpu1": {"0": {}}}}`,
			"a/* ? -..-\na/1 ? -..-",
			[]string{`1:8 booking:gpu: the host a counts as booked`, "1:38 booking:gpu: GPU 1 of a counts as booked"},
			false},
		{"an entry's fields among GPUs", `{"a": {"name": "x", "date": "2026-12-01", "0": {"name": "y"}}}`,
			"a/* ? -..-\na/0 y -..-", []string{`1:8 booking:gpu: { "0": { "name"`}, false},
		{"a GPU that is there twice", `{"a": {"0": {"name": "x"}, "0": {"name": "x"}, "1,2": {}, "1-2": {}}}`,
			"a/0 x -..-\na/0 x -..-",
			[]string{`1:8 booking:duplicate: the GPU "0" is here and again in line 1`,
				`1:48 booking:duplicate: the GPU "1,2" is here`}, false},
		{"ranges that are none", `{"a": {"3-0": {"name": "x"}}, "b": {"0-99": {"name": "x"}}}`,
			"a/* ? -..-\nb/* ? -..-",
			[]string{`1:8 booking:gpu: "3-0" is no range of GPUs: write the lowest and the highest index, as in "0-3", below ` +
				`64; until`, "1:37 booking:gpu: below 64"}, false},
		{"the name of nobody", `{"a": [{"name": " ? ", "date": "2026-12-01 10:00"}]}`, "a/0 ? -..2026-12-01T10:00",
			[]string{`1:8 booking:name: does not say who`}, false},
		{"entry among GPUs", `{"a": {"name": "x", "0": {"name": "y"}}}`, "a/* ? -..-\na/0 y -..-",
			[]string{`1:8 booking:gpu: { "0": { "name"`}, false},
		{"field of an entry in place of the host", `{"a": {"nme": "x", "date": "2026-12-01 10:00"}}`,
			"a/* ? -..2026-12-01T10:00",
			[]string{`1:8 booking:field: did you mean "name"?; until it is corrected, the host a counts as booked by "?"`},
			false},
		{"type of host", `{"a": "x", "b": 3}`, "a/* ? -..-\nb/* ? -..-",
			[]string{"1:7 booking:type", "1:17 booking:type"}, false},
		{"type of entry", `{"a": ["x", 3, [4], {"name": "y"}]}`, "a/0 ? -..-\na/1 ? -..-\na/2 ? -..-\na/3 y -..-",
			[]string{`1:8 booking:type: GPU 0 of a counts as booked by "?"`, "1:13 booking:type",
				"1:17 booking:type: calendar"},
			false},
		{"type of field",
			`{"a": [{"name": 42}, {"name": "x", "date": 1764583200}, {"name": "y", "comment": [], "forced": 1}]}`,
			"a/0 ? -..-\na/1 x -..-\na/2 y -..-",
			[]string{`1:17 booking:type: text in double quotes; until it is corrected, GPU 0 of a counts as booked by "?"`,
				"1:44 booking:type", "1:82 booking:type", "1:96 booking:type"}, false},
		{"bad date", `{"a": [{"name": "x", "date": "2026-02-30"}, {"name": "y", "date": "soon"}, {"name": "z"}]}`,
			"a/0 x -..-\na/1 y -..-\na/2 z -..-",
			[]string{"1:30 booking:date: February has 28 days",
				"1:67 booking:date: is not a date: write \"2026-11-20 18:00\" or \"20.11.2026 18:00\"; until it is corrected, " +
					"the booking has no end"}, false},
		{"bad beginning", `{"a": [{"name": "x", "from": "soon", "date": "2026-12-02 10:00"}]}`,
			"a/0 x -..2026-12-02T10:00",
			[]string{"1:30 booking:date: until it is corrected, the booking counts as begun"}, false},
		{"slashes", `{"a": [{"name": "x", "date": "11/12/2026"}]}`, "a/0 x -..-",
			[]string{"1:30 booking:date: slashes"}, false},
		{"relative", `{"a": [{"name": "x", "date": "2d 6h"}, {"name": "x", "date": "fri 18:00"}]}`,
			"a/0 x -..-\na/1 x -..-",
			[]string{"1:30 booking:date: relative", "1:62 booking:date: relative"}, false},
		{"year", `{"a": [{"name": "x", "date": "9999-12-31"}]}`, "a/0 x -..-",
			[]string{"1:30 booking:date: leave the end out"}, false},
		{"end before start", `{"a": [{"name": "x", "from": "2026-12-02 10:00", "date": "2026-12-02 10:00"}]}`,
			"a/0 ? -..-",
			[]string{"1:58 booking:order: correct one of the two; until it is corrected, GPU 0 of a counts as booked by \"?\""},
			false},
		{"no name", `{"a": [{"date": "2026-12-02"}]}`, "a/0 ? -..2026-12-03T00:00",
			[]string{`1:8 booking:name: add "name"`}, false},
		{"no name, which is over", `{"a": [{"date": "2018-12-02 10:00"}]}`, "a/0 ? -..2018-12-02T10:00",
			[]string{`1:8 booking:name`}, false},
		{"names that are none",
			`{"a": [{"name": "", "date": "2026-12-02 10:00"}, {"name": null, "comment": "c"}, {"name": ["x"]}]}`,
			"a/0 ? -..2026-12-02T10:00\na/1 ? -..- (c)\na/2 ? -..-",
			[]string{"1:8 booking:name", "1:50 booking:name", "1:91 booking:type"}, false},
		{"a misspelt name", `{"a": [{"nmae": "x"}]}`, "a/0 ? -..-",
			[]string{`1:9 booking:field: did you mean "name"?; until it is corrected, GPU 0 of a`}, false},
		{"no name, and an unknown kind", `{"a": [{"kind": "maintainance"}]}`, "a/0 ? -..-",
			[]string{`1:17 booking:kind: until it is corrected, GPU 0 of a`}, false},
		{"two ends", `{"a": [{"name": "x", "date": "2026-12-01", "date": "2018-12-01"}]}`, "a/0 x -..-",
			[]string{"1:22 booking:duplicate: until then, of two times none counts"}, false},
		{"several GPUs, one mistake", `{"a": {"0,1": {"date": "2026-12-02 10:00"}}}`,
			"a/0 ? -..2026-12-02T10:00\na/1 ? -..2026-12-02T10:00", []string{"1:15 booking:name"}, false},
		{"a digit that may be lost",
			`{"a": [{"name": "x", "date": "2026-1-21 18:00"}, {"name": "x", "date": "2026-12-1 18:00"}, {"name": "x", "date": ` +
				`"2026-12-01 8:00"}, {"name": "x", "date": "1.2.2026 8:00"}]}`,
			"a/0 x -..2027-01-21T18:00\na/1 x -..2027-01-01T18:00\na/2 x -..2026-12-02T08:00\na/3 x -..2026-02-01T08:00",
			[]string{"1:30 booking:date: may have lost a digit, so the booking counts until 2027-01-21 18:00",
				"1:72 booking:date", "1:114 booking:date"}, false},
		{"kind", `{"a": [{"name": "x", "kind": "maintainance"}]}`, "a/0 x -..-", []string{"1:30 booking:kind"}, false},
		{"id twice", `{"a": [{"name": "x", "id": "i"}, {"name": "y", "id": "i"}]}`, "a/0 x -..-\na/1 y -..-",
			[]string{"1:34 booking:id: line 1"}, false},
		{"hour that is not", `{"a": [{"name": "x", "date": "2026-03-29 02:30"}]}`, "a/0 x -..-",
			[]string{"1:30 booking:date: write 01:59 or 03:00"}, false},
		{"hour that comes twice", `{"a": [{"name": "x", "date": "2026-10-25 02:30"}]}`, "a/0 x -..2026-10-25T02:30",
			[]string{"1:30 booking:ambiguous: the second counts"}, false},
		{"overlap",
			"{\"a\": [[{\"name\": \"x\", \"date\": \"2026-12-02\"},\n{\"name\": \"y\", \"from\": \"2026-12-01\"}]]}",
			"a/0 x -..2026-12-03T00:00\na/0 y 2026-12-01T00:00..-",
			[]string{"2:1 booking:overlap: GPU 0 of a is booked here by \"y\" and in line 1 by \"x\" for the same time from " +
				"2026-12-01 00:00 until 2026-12-03 00:00"}, false},
		{"overlap with one that ends first",
			`{"a": [[{"name": "x", "date": "2026-12-05"}, {"name": "y", "from": "2026-12-01", "date": "2026-12-02"}]]}`,
			"a/0 x -..2026-12-06T00:00\na/0 y 2026-12-01T00:00..2026-12-03T00:00",
			[]string{"1:46 booking:overlap: for the same time from 2026-12-01 00:00 until 2026-12-03 00:00"}, false},
		{"overlap with the longer of two of one person",
			`{"a": [[{"name": "x", "date": "2026-12-10"}, {"name": "x", "from": "2026-12-01", "date": "2026-12-02"}, {"name": ` +
				`"y", "from": "2026-12-05", "date": "2026-12-06"}]]}`,
			"a/0 x -..2026-12-11T00:00\na/0 x 2026-12-01T00:00..2026-12-03T00:00\na/0 y 2026-12-05T00:00..2026-12-07T00:00",
			[]string{"1:105 booking:overlap: by \"y\" and in line 1 by \"x\""}, false},
		{"overlap with the whole host", `{"a": {"3": {"name": "x"}, "*": {"name": "y"}}}`, "a/* y -..-\na/3 x -..-",
			[]string{"1:33 booking:overlap: GPU 3 of a"}, false},
		{"overlap that was forced", `{"a": {"3": {"name": "x"}, "*": {"name": "y", "forced": true}}}`,
			"a/* y -..-\na/3 x -..-", nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := parsed(t, tc.in)
			if c.Broken != tc.broken {
				t.Errorf("broken is %v", c.Broken)
			}
			if got := briefs(c, zone); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
			all := problems(c.Problems)
			if len(c.Problems) != len(tc.problems) {
				t.Errorf("%d problems, want %d:\n%s", len(c.Problems), len(tc.problems), all)
			}
			for _, want := range tc.problems {
				place, part, _ := strings.Cut(want, ": ")
				if !hasProblem(c.Problems, place, part) {
					t.Errorf("no problem %q among\n%s", want, all)
				}
			}
		})
	}
}

func hasProblem(list []snapshot.Problem, place, part string) bool {
	for _, p := range list {
		if fmt.Sprintf("%d:%d %s", p.Line, p.Col, p.Code) == place && strings.Contains(p.Message, part) &&
			p.File == "comments.json" {
			return true
		}
	}
	return false
}

func TestProblemNamesHostAndGPU(t *testing.T) {
	c := parsed(t, `{"a": [{}, {"name": "x", "date": "soon"}], "b": {"*": {"name": "x", "date": "soon"}}}`)
	if len(c.Problems) != 2 {
		t.Fatalf("problems:\n%s", problems(c.Problems))
	}
	if p := c.Problems[0]; p.Host != "a" || p.GPU == nil || *p.GPU != 1 {
		t.Errorf("host %q, GPU %v", p.Host, p.GPU)
	}
	if p := c.Problems[1]; p.Host != "b" || p.GPU != nil {
		t.Errorf("host %q, GPU %v", p.Host, p.GPU)
	}
}

// With DayStarts, dates alone mean what the older page made of them.
func TestDatesOfTheOlderPage(t *testing.T) {
	in := []byte(`{"a": [{"name": "x", "date": "2026-11-30"}, {"name": "x", "date": "30 November 2026"},
		{"name": "x", "date": "2026-11-30 18:00"},
		{"name": "x", "date": "never"}, {"name": "x", "from": "2026-11-30"}]}`)
	c := booking.Parse("c", in, booking.Zone{Location: paris(t), DayStarts: true}, booking.Options{})
	want := "a/0 x -..2026-11-30T00:00\na/1 x -..2026-11-30T00:00\na/2 x -..2026-11-30T18:00\na/3 x -..-\n" +
		"a/4 x 2026-11-30T00:00..-"
	if got := briefs(c, paris(t)); got != want || c.Problems != nil {
		t.Errorf("got\n%s\nwant\n%s\n%s", got, want, problems(c.Problems))
	}
}

func TestOverlapsThatAreOverAreNoProblem(t *testing.T) {
	in := []byte(`{"a": [[{"name": "x", "date": "2026-12-02"}, {"name": "y", "date": "2026-12-03"}]]}`)
	now := time.Date(2026, 12, 3, 0, 0, 0, 0, paris(t))
	if c := booking.Parse("c", in, inParis(t), booking.Options{Now: now.Add(-time.Second)}); len(c.Problems) != 1 {
		t.Errorf("while both run: %s", problems(c.Problems))
	}
	if c := booking.Parse("c", in, inParis(t), booking.Options{Now: now}); len(c.Problems) != 0 {
		t.Errorf("when one is over: %s", problems(c.Problems))
	}
}

func TestIDs(t *testing.T) {
	ids := func(in string) (out []string) {
		for _, b := range parsed(t, in).Bookings {
			out = append(out, b.ID)
		}
		return out
	}
	a := ids(`{"a": [{"name": "x"}, {"name": "x"}]}`)
	b := ids("{\"b\": [{\"name\": \"y\"}],\n\n\"a\": [[{\"comment\": \"\", \"name\": \"x\"}, {\"name\": \"x\"}]]}")
	if a[0] == "" || a[0] == a[1] || a[0] != b[0] {
		t.Errorf("%v and %v: an id has to be the entry's own, wherever it stands", a, b)
	}
	if b[0] == b[1] {
		t.Errorf("two equal entries share the id %s", b[0])
	}
	if c := ids(`{"a": [[{"name": "x"}, {"name": "x"}, {"name": "x"}]]}`); c[1] != c[0]+"-2" || c[2] != c[0]+"-3" {
		t.Errorf("ids of three equal entries: %v", c)
	}
	if got := ids(`{"a": [{"name": "x", "id": "mine"}]}`); got[0] != "mine" {
		t.Errorf("id %q", got[0])
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(reservations))
	f.Add([]byte(`{"a":{"0":[{"name":"x","date":"2026-10-25 02:30","from":"2026-01-01"}],"*":{"kind":"maintenance"}}}`))
	f.Add([]byte("\xef\xbb\xbf{'a': [{name: x, // c\n}, /* d */ ]"))
	f.Add([]byte(`{"a": [{"name": "x", {"name": “y”}], "b": [}`))
	for _, list := range slices.Concat(costtest.Lists(`{"a":`, "}"), costtest.Lists(`{"a":{"*":`, "}}"),
		costtest.Lists(`{"a":[`, "]}")) {
		f.Add(list)
	}
	for _, member := range []string{`"a":{}`, `"":1`, `"a":[]`, `"?":1`, `"a,b":[]`, `"a[1-9]":[]`} {
		many := strings.Repeat(member+",", 4000) + member
		f.Add([]byte("{" + many + "}"))
		f.Add([]byte(`{"a":{` + many + "}}"))
		f.Add([]byte(`{"a":{"0":{` + many + "}}}"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var c *booking.Calendar
		costtest.Check(t, len(data), 320, func() { c = parsed(t, string(data)) })
		lines := strings.Count(string(data), "\n") + 1
		for _, p := range c.Problems {
			if p.Line > lines || p.Line < 0 || p.Col < 0 || p.Code == "" || p.Message == "" {
				t.Errorf("problem %+v in a file of %d lines", p, lines)
			}
		}
		seen := map[string]bool{}
		for _, b := range c.Bookings {
			host, err := snapshot.ParseHost(b.Host)
			if err != nil || host != b.Host || b.ID == "" || seen[b.ID] || b.Line < 1 || b.Line > lines {
				t.Errorf("booking %+v", b)
			}
			seen[b.ID] = true
			if !b.Until.IsZero() && !b.Until.After(b.From) {
				t.Errorf("ends before it begins: %+v", b)
			}
		}
	})
}
