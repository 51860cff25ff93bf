package booking

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestReleaseAtTheBeginning(t *testing.T) {
	zone := Zone{Location: paris(t)}
	got, b, err := Release([]byte(`{"a": [{"name": "x", "from": "2026-12-01 10:00"}]}`), zone, idOf(t, `{"a": [{"name": "x", "from": "2026-12-01 10:00"}]}`), at(t, "2026-12-01 10:00"))
	if err != nil || string(got) != `{"a": [{}]}` || b.Name != "x" {
		t.Errorf("%s, %+v, %v", got, b, err)
	}
}

func idOf(t *testing.T, file string) string {
	t.Helper()
	return Parse("c", []byte(file), Zone{Location: paris(t)}, Options{}).Bookings[0].ID
}

func TestExtendToAFractionOfASecond(t *testing.T) {
	file := `{"a": [{"name": "x", "date": "2026-12-01"}]}`
	_, b, err := Extend([]byte(file), Zone{Location: paris(t)}, idOf(t, file), at(t, "2026-12-03 10:00").Add(time.Second/2), at(t, friday))
	if err != nil || !b.Until.Equal(at(t, "2026-12-03 10:00")) {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestAFullFileDoesNotGrow(t *testing.T) {
	file := "{}//" + strings.Repeat("x", MaxFileBytes-10)
	if _, _, err := Add([]byte(file), Zone{Location: paris(t)}, gpu("a", 0, "x", time.Time{})); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "beyond 4096 KiB: prune old bookings") {
		t.Errorf("error %v", err)
	}
}

func TestNoBookingIsAddedBeyondTheMost(t *testing.T) {
	file := `{"a": [[` + strings.Repeat(`{"name":"x"},`, MaxBookings) + `]]}`
	if _, _, err := Add([]byte(file), Zone{Location: paris(t)}, gpu("b", 0, "x", time.Time{})); !errors.Is(err, errReadBack) {
		t.Errorf("error %v", err)
	}
}

func TestPruneKeepsWhatEndsThen(t *testing.T) {
	file := []byte(`{"a": [{"name": "x", "date": "2026-12-01 10:00"}]}`)
	for _, tc := range []struct {
		before string
		pruned int
	}{{"2026-12-01 10:00", 0}, {"2026-12-01 10:01", 1}} {
		if _, old, err := prune(file, Zone{Location: paris(t)}, at(t, tc.before)); err != nil || len(old) != tc.pruned {
			t.Errorf("before %s: %v, %v", tc.before, old, err)
		}
	}
}

// An ID that somebody wrote may be the one that would be derived for another entry.
func TestDerivedIDsAvoidWrittenOnes(t *testing.T) {
	derived := idOf(t, `{"a": [{"name": "x"}]}`)
	c := Parse("c", []byte(`{"a": {"0": {"name": "x"}, "1": {"name": "y", "id": "`+derived+`"}}}`), Zone{Location: paris(t)}, Options{})
	if len(c.Bookings) != 2 || c.Bookings[1].ID != derived || c.Bookings[0].ID == derived {
		t.Errorf("%+v", c.Bookings)
	}
}

func TestReleaseKeepsCommentsAndBytes(t *testing.T) {
	zone := Zone{Location: paris(t)}
	now := at(t, friday)
	for _, tc := range []struct{ name, in, want string }{
		{"a comment before the comma", `{"a": [[{"name": "x"} /* c */, {"name": "y", "from": "2027-01-01", "id": "y"}]]}`, `{"a": [[{"name": "x"} /* c */]]}`},
		{"a trailing comma", `{"a": [[{"name": "x"}, {"name": "y", "from": "2027-01-01", "id": "y"},]]}`, `{"a": [[{"name": "x"},]]}`},
		{"bytes without a character in Windows-1252", "{\"a\": [[{\"name\": \"Zo\xeb\"}, {\"name\": \"y\", \"from\": \"2027-01-01\", \"id\": \"y\"}]]} // \x81\x8d\x80\n", "{\"a\": [[{\"name\": \"Zo\xeb\"}]]} // \x81\x8d\x80\n"},
	} {
		got, _, err := Release([]byte(tc.in), zone, "y", now)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: %v\ngot  %q\nwant %q", tc.name, err, got, tc.want)
		}
	}
}

// Of several bookings of one person, the last end is compared with those of others.
func TestOverlapsOfSeveralBookings(t *testing.T) {
	c := Parse("c", []byte(`{"a": [[
		{"name": "x", "from": "2026-12-01", "date": "2026-12-09"},
		{"name": "y", "from": "2026-12-02", "date": "2026-12-05"},
		{"name": "x", "from": "2026-12-03", "date": "2026-12-12"},
		{"name": "x", "from": "2026-12-04", "date": "2026-12-13"},
		{"name": "z", "from": "2026-12-10", "date": "2026-12-11"}]]}`), Zone{Location: paris(t)}, Options{})
	if len(c.Problems) != 4 {
		t.Errorf("problems:\n%s", problems(c.Problems))
	}
}

// The booking of another person that ends last is compared, too.
func TestOverlapsOfThreePeople(t *testing.T) {
	c := Parse("c", []byte(`{"a": [[
		{"name": "x", "from": "2026-12-01", "date": "2026-12-20"},
		{"name": "y", "from": "2026-12-02", "date": "2026-12-05"},
		{"name": "z", "from": "2026-12-03", "date": "2026-12-10"},
		{"name": "x", "from": "2026-12-08", "date": "2026-12-21"}]]}`), Zone{Location: paris(t)}, Options{})
	if len(c.Problems) != 3 {
		t.Errorf("problems:\n%s", problems(c.Problems))
	}
}

func TestBracketsInCommentsAndTextsAreNotOpen(t *testing.T) {
	for text, want := range map[string][]int{
		`{[`: {0, 1}, "{//[\n[": {0, 5}, `{/*[*/[`: {0, 6}, `{"["[`: {0, 4}, `{"\"["[`: {0, 6}, `{}[`: {2}, `{/*[`: {0}, `{//[`: {0},
	} {
		if open, quoted := openAt(text, len(text), nil); !slices.Equal(open, want) || quoted != -1 {
			t.Errorf("%q: open at %v, quoted at %d; want %v", text, open, quoted, want)
		}
	}
}

func TestAnEmptyFirstLineCounts(t *testing.T) {
	if b := Parse("c", []byte("\n"+`{"a": [{"name": "x"}]}`), Zone{Location: paris(t)}, Options{}).Bookings[0]; b.Line != 2 {
		t.Errorf("line %d", b.Line)
	}
}

func TestAnEmptyFileThatCannotBeMadeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	write("{}")(t, file)
	if err := Open(file, Zone{}).createEmpty(filepath.Join(file, "below")); !errors.Is(err, syscall.ENOTDIR) {
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
		{"the last host", "{\n  \"gpu01\": [\n    {}\n  ],\n  \"gpu02\": {\n    \"0\": {}\n}\n", "5:12 not closed before line 7,"},
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
		{"tabs", "{\r\n\t\"gpu01\": {\r\n\t\t\"0\": { \"name\": \"eve\",\r\n\t\t\"1\": {}\r\n\t}\r\n}\r\n", "3:8 not closed before line 4,"},
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
		{"no indentation", "{\n\"gpu01\": {\n\"0\": {\n\"name\": \"eve\",\n\"1\": {}\n},\n\"gpu02\": []\n}", "1:1 never closed"},
		{"saved by half", "{\n  \"gpu01\": {\n    \"0\": { \"name\": \"eve\" },\n", "2:12 never closed"},
		{"on one line", `{ "gpu01": { "0": { "name": "eve" }, "gpu02": [] }`, "1:1 never closed"},
	} {
		cal := Parse("comments.json", []byte(tt.file), Zone{Location: time.UTC}, Options{})
		at, what, _ := strings.Cut(tt.want, " ")
		if len(cal.Problems) != 1 || cal.Problems[0].Where() != "comments.json:"+at || !strings.Contains(cal.Problems[0].Message, what) {
			t.Errorf("%s: %+v, want %s", tt.name, cal.Problems, tt.want)
		}
	}
}
