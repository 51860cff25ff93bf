package cli

import (
	"strings"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/testenv/need"
	"gpuboard/sitegen/render"
	"gpuboard/sitegen/text"
)

func TestDiffLines(t *testing.T) {
	for _, tc := range []struct{ name, before, after, want string }{
		{"nothing", "a\nb\n", "a\nb\n", ""},
		{"new file", "", "{\n}\n", "+ {\n+ }\n"},
		{"in the middle", "1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\nx\n5\n6\n7\n", "  1\n  2\n  3\n- 4\n+ x\n  5\n  6\n  7\n"},
		{"two places", "a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n", "- a\n+ A\n  1\n  2\n  3\n  ...\n  5\n  6\n  7\n- b\n+ B\n"},
		{"ends of lines", "a\r\nb\r\n", "a\r\nc\r\n", "  a\n- b\n+ c\n"},
		{"Latin-1", "P\xe8re\n", "P\xe8re\nMerc\xe9\n", "  Père\n+ Mercé\n"},
		{"hostile", "", "\x1b[31m\u202e\n", "+ \\x1b[31m\\u202e\n"},
	} {
		if got := diffLines([]byte(tc.before), []byte(tc.after)); got != tc.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tc.name, got, tc.want)
		}
	}
	// Beyond the bound every line is shown, and it does not take long.
	long := strings.Repeat("x\n", 3000)
	if got := diffLines([]byte("a\n"+long), []byte(strings.ReplaceAll(long, "x", "y"))); strings.Count(got, "\n- ") != 3000 || strings.Count(got, "+ y") != 3000 {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
}

func TestCells(t *testing.T) {
	for s, want := range map[string]int{"": 0, "ada": 3, "山田": 4, "e\u0301": 1, "é": 1, "👩": 2} {
		if got := render.TextWidth(s); got != want {
			t.Errorf("%q: %d cells, want %d", s, got, want)
		}
	}
	for _, tc := range []struct {
		s    string
		most int
		want string
	}{{"ada", 3, "ada"}, {"adam", 3, "ad…"}, {"山田太郎", 5, "山田…"}, {"山田太郎", 4, "山…"}} {
		if got := text.Cut(tc.s, tc.most); got != tc.want || render.TextWidth(got) > tc.most {
			t.Errorf("%q in %d: got %q, want %q", tc.s, tc.most, got, tc.want)
		}
	}
}

func TestClocksChange(t *testing.T) {
	zone := need.Zone(t, "Europe/Paris")
	at := func(s string) time.Time {
		moment, err := time.ParseInLocation("2006-01-02 15:04", s, zone)
		if err != nil {
			t.Fatal(err)
		}
		return moment
	}
	for _, tc := range []struct{ from, until, want string }{
		{"2026-10-24 18:00", "2026-10-26 18:00", "clocks go back in between: it lasts 49 h"},
		{"2026-03-28 18:00", "2026-03-29 18:30", "clocks go forward in between: it lasts 23 h 30 min"},
		{"2026-11-20 18:00", "2026-11-22 18:00", ""},
	} {
		if got := clocksChange(booking.Booking{From: at(tc.from), Until: at(tc.until)}, at("2026-01-01 00:00"), zone); got != tc.want {
			t.Errorf("%s to %s: %q, want %q", tc.from, tc.until, got, tc.want)
		}
	}
	if got := clocksChange(booking.Booking{From: at("2026-03-01 00:00")}, at("2026-01-01 00:00"), zone); got != "" {
		t.Errorf("an open end: %q", got)
	}
}

// TestArchivedIsAppendOnly: whatever is in the archive stays at its beginning,
// and nothing is written twice.
func TestArchivedIsAppendOnly(t *testing.T) {
	old := []booking.Booking{{ID: "a", Host: "gpu01", Name: "ada"}, {ID: "b", Host: "gpu01", Name: "bob", Target: booking.Target{Index: 1}}}
	first, n, err := archived(nil, old[:1])
	if err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	both, n, err := archived(first, old)
	if err != nil || n != 1 || !strings.HasPrefix(string(both), string(first)) || strings.Count(string(both), "\n") != 2 {
		t.Errorf("%d new, %v:\n%s", n, err, both)
	}
	if again, n, err := archived(both, old); err != nil || n != 0 || string(again) != string(both) {
		t.Errorf("again: %d new, %v:\n%s", n, err, again)
	}
	// A last line that somebody left without its end is not run into.
	torn, _, err := archived([]byte(`{"id":"x"}`), old[:1])
	if err != nil || !strings.HasPrefix(string(torn), "{\"id\":\"x\"}\n{") {
		t.Errorf("%v:\n%s", err, torn)
	}
}
