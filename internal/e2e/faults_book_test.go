package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/testenv/faulttest"
)

// people is a file that people wrote, in their own way.
const people = `{ // our bookings
  "atlas": {"1": {"name": "bob", "date": "2099-01-01 12:00", "comment": "the long run"},},
  /* keep */ "boreas": []
}
`

// bookings reads comments.json and returns who has booked what. It has to be
// well-formed, with what people wrote still in it.
func bookings(t testing.TB, when, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%s: %v", when, err)
		return nil
	}
	if len(data) < len(people) || !strings.Contains(string(data), "/* keep */") ||
		!strings.HasPrefix(string(data), "{ // our bookings") {
		t.Errorf("%s: comments.json is %q", when, data)
	}
	cal := booking.Parse(filepath.Base(file), data, booking.Zone{Location: time.UTC}, booking.Options{})
	if cal.Broken || len(cal.Problems) > 0 {
		t.Errorf("%s: comments.json: %v", when, cal.Problems)
	}
	var who []string
	for _, b := range cal.Bookings {
		who = append(who, fmt.Sprintf("%s:%d %s", b.Host, b.Target.Index, b.Name))
	}
	slices.Sort(who)
	return who
}

// makingABooking is the scene of somebody who books atlas:0. where are the flags
// that lead to the file.
func makingABooking(t *testing.T, program, dir string, choose func(faulttest.Call) bool, where ...string) faulttest.Scene {
	data := filepath.Join(dir, "data")
	file := filepath.Join(data, "comments.json")
	putFile(t, file, []byte(people), 0o664)
	if err := os.MkdirAll(filepath.Join(data, "drop", "atlas"), 0o755); err != nil {
		t.Fatal(err)
	}
	args := func(gpu, name string) []string {
		return append(
			[]string{"book", "atlas:" + gpu, "--until", "2099-02-02 12:00", "--name", name, "--timezone", "UTC"},
			where...)
	}
	before := bookings(t, "before", file)
	s := faulttest.Scene{Dir: dir, Program: program, Args: args("0", "eva"), Choose: choose}
	s.Check = func(t testing.TB, r faulttest.Run) {
		sane(t, r, 0, 3, 75)
		said := r.String()
		with := append([]string{"atlas:0 eva"}, before...)
		now := bookings(t, said, file)
		made := slices.Equal(now, with)
		if !made && (r.Exit == 0 || !slices.Equal(now, before)) {
			t.Errorf("%s: exit %d, and the bookings are %q: %s", said, r.Exit, now, r.Said)
		}
		if r.Exit == 75 && made || r.Exit == 3 && !made {
			t.Errorf("%s: exit %d, and the bookings are %q: %s", said, r.Exit, now, r.Said)
		}
		if (r.Exit == 0 || r.Exit == 3) && !strings.Contains(r.Said, "booked for eva") &&
			strings.HasPrefix(r.Hit.On, "/") {
			t.Errorf("%s: exit 0, and said %q", said, r.Said)
		}
		if code, out := ran(t, program, args("2", "kim")...); code != 0 {
			t.Errorf("%s: the next booking: exit %d: %s", said, code, out)
		}
		want := append(slices.Clone(now), "atlas:2 kim")
		slices.Sort(want)
		if now := bookings(t, said+", and the next", file); !slices.Equal(now, want) {
			t.Errorf("%s: after the next booking there are %q, want %q", said, now, want)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o664 {
			t.Errorf("%s: comments.json: %v, %v", said, info.Mode(), err)
		}
		entries, err := os.ReadDir(data)
		for _, e := range entries {
			switch name := e.Name(); {
			case name == "drop", name == "comments.json", name == ".comments.json.lock", name == ".comments.json.previous", name == ".comments.json.last-good", name == "bookings.log":
			default:
				t.Errorf("%s: left behind: %s", said, e.Name())
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
	return s
}

func TestBookAtEverySystemCall(t *testing.T) {
	t.Parallel() // beside those that mostly wait
	faulttest.Require(t)
	program := builtProgram(t)
	report := everyCall(t, func(dir string) faulttest.Scene {
		return makingABooking(t, program, dir, below(dir, true), "--data", filepath.Join(dir, "data"))
	}, faulttest.Killed, faulttest.Broken, faulttest.NoSpace, faulttest.Full)
	if report.Calls < 10 {
		t.Errorf("only %d calls: that is no booking", report.Calls)
	}
}

// TestOrderOfABookingsSystemCalls: the new content is on the disk before it gets
// the name, and the directory before anybody is told.
func TestOrderOfABookingsSystemCalls(t *testing.T) {
	t.Parallel()
	faulttest.Require(t)
	program, dir := builtProgram(t), faulttest.Dir(t)
	for _, before := range []string{people, ""} {
		s := makingABooking(t, program, dir, below(dir, true), "--data", filepath.Join(dir, "data"))
		file := filepath.Join(dir, "data", "comments.json")
		named := "renameat2 " // exchanged
		if before == "" {
			named = "linkat " // put where there is none
			if err := os.RemoveAll(filepath.Join(dir, "data")); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(dir, "data", "drop", "atlas"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		r := s.Run(t, faulttest.Fault{}, 0)
		if r.Exit != 0 {
			t.Fatalf("exit %d: %s", r.Exit, r.Said)
		}
		find := func(after int, wanted func(string) bool) int {
			for i := after + 1; i < len(r.Calls); i++ {
				if wanted(r.Calls[i].String()) {
					return i
				}
			}
			return -1
		}
		content := filepath.Join(filepath.Dir(file), ".comments.json.new-")
		placed := find(-1, func(c string) bool { return strings.HasPrefix(c, named) && strings.HasSuffix(c, file) })
		written := -1
		for i, c := range r.Calls[:max(0, placed)] { // the empty files of the lock and of the record come before it
			if strings.HasPrefix(c.String(), "write ") && strings.Contains(c.String(), content) {
				written = i
			}
		}
		synced := find(written,
			func(c string) bool { return strings.HasPrefix(c, "fsync ") && strings.Contains(c, content) })
		dirSynced := find(placed,
			func(c string) bool { return c == "fsync "+filepath.Dir(file) || c == "fsync "+filepath.Dir(file)+"/" })
		if written < 0 || synced < written || placed < synced || dirSynced < placed {
			t.Errorf("from %d bytes: written %d, synced %d, named %d, directory synced %d in\n%v", len(before), written,
				synced, placed, dirSynced, r.Calls)
		}
		// What is recorded was done, and is recorded for good.
		record := filepath.Join(filepath.Dir(file), "bookings.log")
		recorded := find(-1, func(c string) bool { return c == "write "+record })
		recordSynced := find(recorded, func(c string) bool { return c == "fsync "+record })
		if recorded < placed || recordSynced < recorded {
			t.Errorf("from %d bytes: named %d, recorded %d, synced %d in\n%v", len(before), placed, recorded,
				recordSynced, r.Calls)
		}
	}
}
