package booking_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

func paris(t testing.TB) *time.Location {
	t.Helper()
	return need.Zone(t, "Europe/Paris")
}

// inParis is the zone of most files here.
func inParis(t testing.TB) booking.Zone { return booking.Zone{Location: paris(t)} }

// parsed is what is read of a file in that zone.
func parsed(t testing.TB, text string) *booking.Calendar {
	t.Helper()
	return booking.Parse("comments.json", []byte(text), inParis(t), booking.Options{})
}

// beside is the path of a dot file that lies beside the bookings.
func beside(file, suffix string) string {
	return filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+suffix)
}

// newFile is where bookings may begin.
func newFile(t testing.TB) string { return filepath.Join(t.TempDir(), "comments.json") }

// brief is a booking in one line.
func brief(b booking.Booking, zone *time.Location) string {
	stamp := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.In(zone).Format("2006-01-02T15:04")
	}
	s := fmt.Sprintf("%s/%s %s %s..%s", b.Host, b.Target, b.Name, stamp(b.From), stamp(b.Until))
	if b.Kind == booking.Maintenance {
		s += " maintenance"
	}
	if b.Comment != "" {
		s += " (" + b.Comment + ")"
	}
	return s
}

func briefs(c *booking.Calendar, zone *time.Location) string {
	var out []string
	for _, b := range c.Bookings {
		out = append(out, brief(b, zone))
	}
	return strings.Join(out, "\n")
}

func problems(list []snapshot.Problem) string {
	var out []string
	for _, p := range list {
		out = append(out, fmt.Sprintf("%d:%d %s %s", p.Line, p.Col, p.Code, p.Message))
	}
	return strings.Join(out, "\n")
}

// Friday, half past ten.
const friday = "2026-11-20 10:30"

func at(t testing.TB, s string) time.Time {
	t.Helper()
	m, _, err := booking.ParseMoment(s, time.Time{}, paris(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func gpu(host string, index int, name string, until time.Time) booking.Booking {
	return booking.Booking{Host: host, Target: booking.Target{Index: index}, Name: name, Until: until}
}

// testBy makes the changes of tests that do not look at the record.
var testBy = booking.By{Name: "test", At: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)}

// TestMain lets the test binary be a second program that edits or dies.
func TestMain(m *testing.M) {
	switch os.Getenv("BOOKING_TEST_AS") {
	case "editor":
		if err := makeBookings(os.Getenv("BOOKING_TEST_FILE"), os.Getenv("BOOKING_TEST_NAME"), 25); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "colleague":
		unix.Umask(0o077)
		if err := makeBookings(os.Getenv("BOOKING_TEST_FILE"), os.Getenv("BOOKING_TEST_NAME"), 2); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "sleeper":
		err := booking.Open(os.Getenv("BOOKING_TEST_FILE"), booking.Zone{}).Update(context.Background(), testBy,
			func([]byte) ([]byte, error) { // the lock is held here
				fmt.Println("locked")
				_, err := bufio.NewReader(os.Stdin).ReadByte()
				return nil, err
			})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func as(t *testing.T, role, file, name string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "BOOKING_TEST_AS="+role, "BOOKING_TEST_FILE="+file, "BOOKING_TEST_NAME="+name)
	return cmd
}

// keepTrying calls File.Update until it gets the lock. On a slow machine others can hold it, one
// after the other, for longer than one Update waits.
func keepTrying(f *booking.File, edit func([]byte) ([]byte, error)) error {
	for end := time.Now().Add(need.Patience); ; {
		err := f.Update(context.Background(), testBy, edit)
		if !errors.Is(err, booking.ErrLocked) || time.Now().After(end) {
			return err
		}
	}
}

func makeBookings(file, name string, n int) error {
	f := booking.Open(file, booking.Zone{})
	for i := range n {
		err := keepTrying(f, func(data []byte) ([]byte, error) {
			next, _, err := booking.Add(data, booking.Zone{Location: time.UTC},
				booking.Booking{Host: "a", Target: booking.Target{Index: i % 8}, Name: name,
					Comment: fmt.Sprintf("%s-%d", name, i)})
			return next, err
		})
		if err != nil {
			return fmt.Errorf("%s, booking %d: %w", name, i, err)
		}
	}
	return nil
}

func wantBookings(t *testing.T, file string, n int) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := booking.Parse(file, data, booking.Zone{Location: time.UTC}, booking.Options{})
	seen := map[string]bool{}
	for _, b := range c.Bookings {
		seen[b.Comment] = true
	}
	if c.Broken || len(c.Bookings) != n || len(seen) != n {
		t.Errorf("broken %v, %d bookings, %d different, want %d", c.Broken, len(c.Bookings), len(seen), n)
	}
}

func addProgram(data []byte) ([]byte, error) {
	next, _, err := booking.Add(data, booking.Zone{Location: time.UTC}, booking.Booking{Host: "a", Name: "program"})
	return next, err
}

// wantBoth checks that the file holds the program's booking and the person's.
func wantBoth(t *testing.T, when, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := booking.Parse("c", data, booking.Zone{}, booking.Options{})
	if got, want := briefs(c, time.UTC), "a/0 program -..-\nb/0 hand -..-"; got != want {
		t.Errorf("%s: got\n%s\nwant\n%s", when, got, want)
	}
}

const byHand = `{"b": [{"name": "hand"}]}`

// saves are the ways in which people save a file.
func saves() map[string]func(t *testing.T, file string) {
	return map[string]func(t *testing.T, file string){
		"in place": write(byHand),
		"by rename": func(t *testing.T, file string) {
			write(byHand)(t, file+".swp")
			if err := os.Rename(file+".swp", file); err != nil {
				t.Fatal(err)
			}
		},
		"by way of no file": func(t *testing.T, file string) {
			if err := os.Rename(file, file+"~"); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			write(byHand)(t, file)
		},
	}
}

func write(content string) func(t *testing.T, file string) {
	return func(t *testing.T, file string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

func idOf(t *testing.T, file string) string {
	t.Helper()
	return parsed(t, file).Bookings[0].ID
}
