package cli

import (
	"strings"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

func TestParseWhere(t *testing.T) {
	for arg, want := range map[string]string{
		"gpu01":         "gpu01 *",
		"GPU01":         "gpu01 *",
		"gpu01:0":       "gpu01 0",
		"gpu01:0,3,3":   "gpu01 0 3",
		"gpu01:1-3,0":   "gpu01 1 2 3 0",
		"gpu01:*":       "gpu01 *",
		"a.example:2":   "a.example 2",
		"gpu01: 0 , 1 ": "gpu01 0 1",
		"gpu01:GPU-3F1C7A52-90ab-4cde-8123-456789abcdef": "gpu01 GPU-3f1c7a52-90ab-4cde-8123-456789abcdef",
		"gpu01:":              "",
		"gpu01:0,":            "",
		"gpu01:3-1":           "",
		"gpu01:0-99999999999": "",
		"gpu01:-1":            "",
		"gpu01:x":             "",
		":0":                  "",
		"":                    "",
		"a/b:0":               "",
		"gpu01:0:1":           "",
	} {
		host, targets, err := parseWhere(arg)
		got := host
		for _, target := range targets {
			got += " " + target.String()
		}
		if err != nil {
			got = ""
		}
		if got != want {
			t.Errorf("%q: got %q (%v), want %q", arg, got, err, want)
		}
	}
}

func FuzzParseWhere(f *testing.F) {
	for _, s := range []string{"gpu01", "gpu01:0,1", "gpu01:0-3", "gpu01:GPU-1", "a:b:c", "x:0-0-0", "gpu01:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		host, targets, err := parseWhere(arg)
		if err != nil {
			return
		}
		if again, err := snapshot.ParseHost(host); err != nil || again != host {
			t.Errorf("%q: the host %q is none: %v", arg, host, err)
		}
		if len(targets) == 0 || len(targets) > len(arg)*snapshot.MaxGPUs+1 {
			t.Errorf("%q: %d targets", arg, len(targets))
		}
		seen := map[booking.Target]bool{}
		for _, target := range targets {
			back, hint := booking.ParseTarget(target.String())
			if hint != "" || back != target || seen[target] {
				t.Errorf("%q: the target %q does not read back, or is there twice: %s", arg, target, hint)
			}
			seen[target] = true
		}
	})
}

func TestPlaces(t *testing.T) {
	b := func(host string, index int) booking.Booking {
		return booking.Booking{Host: host, Target: booking.Target{Index: index}}
	}
	whole := booking.Booking{Host: "c", Target: booking.Target{All: true, Index: -1}}
	for want, list := range map[string][]booking.Booking{
		"":                 nil,
		"a:0":              {b("a", 0)},
		"a:0,1":            {b("a", 0), b("a", 1)},
		"a:0 and b:0":      {b("a", 0), b("b", 0)},
		"a:0,2, b:1 and c": {b("a", 0), b("a", 2), b("b", 1), whole},
		"c and c:1":        {whole, b("c", 1)},
	} {
		if got := places(list); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDiffLines(t *testing.T) {
	for _, tc := range []struct{ name, before, after, want string }{
		{"nothing", "a\nb\n", "a\nb\n", ""},
		{"new file", "", "{\n}\n", "+ {\n+ }\n"},
		{"in the middle", "1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\nx\n5\n6\n7\n", "  2\n  3\n- 4\n+ x\n  5\n  6\n"},
		{"two places", "a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n", "- a\n+ A\n  1\n  2\n  ...\n  6\n  7\n- b\n+ B\n"},
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
		if got := cells(s); got != want {
			t.Errorf("%q: %d cells, want %d", s, got, want)
		}
	}
	for _, tc := range []struct {
		s    string
		most int
		want string
	}{{"ada", 3, "ada"}, {"adam", 3, "ad…"}, {"山田太郎", 5, "山田…"}, {"山田太郎", 4, "山…"}} {
		if got := cutCells(tc.s, tc.most); got != tc.want || cells(got) > tc.most {
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
