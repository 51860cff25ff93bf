package booking_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuboard/internal/booking"
)

// While another program holds the kernel's lock nothing is changed, and the
// moment it dies the next one goes on: nothing is left to be broken.
func TestLockEndsWithItsProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	write("{}")(t, file)
	cmd := as(t, "sleeper", file, "")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("%q, %v", line, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := booking.Open(file, booking.Zone{}).Update(ctx, testBy, addProgram); !errors.Is(err, booking.ErrLocked) {
		t.Errorf("while another program holds the lock: %v", err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "{}" {
		t.Errorf("the file is %q, %v", data, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := booking.Open(file, booking.Zone{}).Update(context.Background(), testBy, addProgram); err != nil {
		t.Errorf("when its holder is dead: %v", err)
	}
}

// A lock file that somebody removed holds nobody off, so it does not count.
func TestLockThatWasRemoved(t *testing.T) {
	file := newFile(t)
	tried := 0
	if err := booking.Open(file, booking.Zone{}).Update(t.Context(), testBy, func(data []byte) ([]byte, error) {
		if tried++; tried == 1 {
			remove(t, beside(file, ".lock"))
			if err := makeBookings(file, "other", 1); err != nil {
				t.Error(err)
			}
			return addProgram(data)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := booking.Open(file, booking.Zone{}).Update(ctx, testBy, addProgram); !errors.Is(err,
			booking.ErrLocked) {
			t.Errorf("the new lock is not held: %v", err)
		}
		return addProgram(data)
	}); err != nil {
		t.Fatal(err)
	}
	if tried != 2 {
		t.Errorf("it was tried %d times", tried)
	}
	wantBookings(t, file, 2)
}

// replaceLock puts a new file in the place of the lock, as a program that restores a directory does.
func replaceLock(t *testing.T, file string) {
	t.Helper()
	fresh := file + ".fresh" + rand.Text()
	write("")(t, fresh)
	if err := os.Rename(fresh, beside(file, ".lock")); err != nil {
		t.Error(err)
	}
}

// At each step of a change the lock is replaced, and somebody else changes the file under the new one.
func TestLockReplacedAtAnyStep(t *testing.T) {
	for _, before := range []string{"", `{"a": [{"name": "x"}]}`} {
		for at, done := 0, false; !done; at++ {
			file := filepath.Join(t.TempDir(), "comments.json")
			if before != "" {
				write(before)(t, file)
			}
			f, other := booking.Open(file, booking.Zone{}), booking.Open(file, booking.Zone{})
			n, where := 0, ""
			f.OnStep(func(what string) {
				if n++; n != at+1 {
					return
				}
				where = what
				replaceLock(t, file)
				if err := other.Update(t.Context(), testBy, addProgram); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			})
			err := f.Update(t.Context(), testBy, func(data []byte) ([]byte, error) {
				next, _, err := booking.Add(data, booking.Zone{Location: time.UTC},
					booking.Booking{Host: "a", Name: "first"})
				return next, err
			})
			if done = where == ""; done {
				if n < 8 {
					t.Errorf("only %d steps", n)
				}
				continue
			}
			data, readErr := os.ReadFile(file)
			if err != nil || readErr != nil || strings.Count(string(data), `"first"`) != 1 ||
				strings.Count(string(data), `"program"`) != 1 {
				t.Errorf("replaced at step %d (%s): %v, %v\n%s", at, where, err, readErr, data)
			}
		}
	}
}

// Several writers, each of which replaces the lock now and then while it or another holds it.
func TestLockReplacedUnderWriters(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	var wg sync.WaitGroup
	var steps atomic.Int64
	acknowledged := make([][]string, 4)
	for i := range acknowledged {
		f := booking.Open(file, booking.Zone{})
		f.OnStep(func(string) {
			if steps.Add(1)%11 == 0 {
				replaceLock(t, file)
				time.Sleep(40 * time.Millisecond) // so that another takes the new one
			}
		})
		wg.Go(func() {
			for k := range 12 {
				comment := fmt.Sprintf("%d-%d", i, k)
				err := keepTrying(f, func(data []byte) ([]byte, error) {
					next, _, err := booking.Add(data, booking.Zone{Location: time.UTC},
						booking.Booking{Host: "a", Name: "x", Comment: comment})
					return next, err
				})
				if err == nil {
					acknowledged[i] = append(acknowledged[i], comment)
				}
			}
		})
	}
	wg.Wait()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, comments := range acknowledged {
		for _, comment := range comments {
			n++
			if strings.Count(string(data), `"`+comment+`"`) != 1 {
				t.Errorf("the booking %s was acknowledged, and is there %d times", comment,
					strings.Count(string(data), `"`+comment+`"`))
			}
		}
	}
	if n < 12 {
		t.Errorf("only %d bookings were acknowledged", n)
	}
}

// TestTimesAreKept: another zone of the file moves times without an offset, in any form, and Keep
// writes behind them what they meant. Nothing else in the file changes.
func TestTimesAreKept(t *testing.T) {
	utc, paris := time.UTC, paris(t)
	opts := booking.Options{Now: time.Date(2026, 11, 20, 12, 0, 0, 0, utc)}
	for entry, want := range map[string]string{
		`{"name":"eve",  "date": "2026-11-25 15:18"}`: `{"name":"eve",  "date": "2026-11-25 ` +
			`15:18 +00:00"}`,
		`{"name":"eve",  "date": "2026-11-25"}`: `{"name":"eve",  "date": "2026-11-26 ` +
			`00:00 +00:00"}`,
		`{"name":"eve",  "date": "25.11.2026 15h18" /* rest */ }`: `{"name":"eve",  "date": "2026-11-25 ` +
			`15:18 +00:00" /* rest */ }`,
		`{"name":"eve", "Date": "2026-11-25 15:18", "from": "2026-11-21 08:00"}`: `{"name":"eve", "Date": "2026-11-25 ` +
			`15:18 +00:00", "from": "2026-11-21 08:00 +00:00"}`,
		`{"name":"eve", "date": "2026-11-25 15:18Z", "from": "2026-11-21 08:00"}`: `{"name":"eve", "date": "2026-11-25 ` +
			`15:18Z", "from": "2026-11-21 08:00 +00:00"}`,
		`{"name":"eve", "date": "2026-11-20 12:30"}`: `{"name":"eve", "date": "2026-11-20 ` +
			`12:30 +00:00"}`, // over in Paris alone
		`{"name":"eve", "date": "2026-11-25 15:18 +02:00"}`: "",
		`{"name":"eve", "date": "2026-11-19 15:18"}`:        "",
		`{"name":"eve", "date": "never"}`:                   "",
		`{"name":"eve"}`:                                    "",
		`{"name":"eve", "date": "as long as it takes"}`:     "",
		`{"name":"eve", "date": "as long as it takes", "from": "2026-11-21 8:00"}`: `{"name":"eve", "date": "as long as it ` +
			`takes", "from": "2026-11-21 08:00 +00:00"}`,
	} {
		text := "// ours\n{ \"gpu01\": { \"0,1\": " + entry + ", }, }"
		path := filepath.Join(t.TempDir(), "comments.json")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		f := booking.Open(path, booking.Zone{Location: paris})
		before := booking.Open(path, booking.Zone{Location: utc}).Load(opts).Bookings
		moves, err := f.Moved(utc, opts)
		if err != nil || len(moves) > 0 != (want != "") {
			t.Errorf("%s: moved are %+v, %v", entry, moves, err)
		}
		kept, err := f.Keep(t.Context(), booking.By{Name: "root", At: opts.Now}, utc, false, opts)
		if err != nil || len(kept) != len(moves) {
			t.Errorf("%s: kept are %+v, %v", entry, kept, err)
		}
		if want == "" {
			want = entry
		}
		data, err := os.ReadFile(path)
		if want = strings.Replace(text, entry, want, 1); err != nil || string(data) != want {
			t.Errorf("the file is\n%s\nand not\n%s", data, want)
		}
		same := func(a, b booking.Booking) bool {
			return a.Target == b.Target && a.From.Equal(b.From) && a.Until.Equal(b.Until)
		}
		if after := f.Load(opts).Bookings; len(kept) > 0 && !slices.EqualFunc(before, after, same) {
			t.Errorf("%s: the bookings were %+v, and are %+v", entry, before, after)
		}
		if moves, err := f.Moved(utc, opts); err != nil || len(moves) > 0 || len(f.Record()) > 0 {
			t.Errorf("%s: moved again are %+v, recorded %+v, %v", entry, moves, f.Record(), err)
		}
	}
}

// TestWordsAreKept: the record then says what is written, so no booking is reported as vanished.
func TestWordsAreKept(t *testing.T) {
	utc := time.UTC
	york, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, utc)
	opts, by := booking.Options{Now: now}, booking.By{Name: "ada", At: now}
	path := filepath.Join(t.TempDir(), "comments.json")
	book := func(f *booking.File, zone *time.Location, gpu int, from time.Time) {
		t.Helper()
		b := booking.Booking{Host: "gpu01", Target: booking.Target{Index: gpu}, Name: "eve", From: from,
			Until: from.Add(30 * time.Minute)}
		err := f.Update(t.Context(), by, func(data []byte) ([]byte, error) {
			next, _, err := booking.Add(data, booking.Zone{Location: zone}, b)
			return next, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	book(booking.Open(path, booking.Zone{Location: utc}), utc, 0, now.Add(24*time.Hour))
	f := booking.Open(path, booking.Zone{Location: york})
	book(f, york, 1, now.Add(24*time.Hour)) // which is right already
	problems := func() string {
		codes := ""
		for _, p := range f.Load(opts).Problems {
			codes += p.Code
		}
		return codes
	}
	if problems() != "booking:vanished" {
		t.Fatalf("before: %s", problems())
	}
	text, _ := os.ReadFile(path)
	want := strings.Replace(string(text), `"from": "2026-11-21 12:00"`, `"from": "2026-11-21 12:00 -05:00"`, 1)
	want = strings.Replace(want, `"date": "2026-11-21 12:30"`, `"date": "2026-11-21 12:30 -05:00"`, 1)
	kept, err := f.Keep(t.Context(), by, utc, true, opts)
	if err != nil || len(kept) != 1 || kept[0].Target.Index != 0 || !kept[0].From.Equal(now.Add(29*time.Hour)) {
		t.Errorf("kept are %+v, %v", kept, err)
	}
	if after, _ := os.ReadFile(path); string(after) != want || problems() != "" {
		t.Errorf("problems: %s; the file is\n%s", problems(), after)
	}
}

// TestUsualDatesAreReadAsOthers: dates as they are usually written are read by a short way, and mean what they mean
// with seconds, which takes the long way.
func TestUsualDatesAreReadAsOthers(t *testing.T) {
	const usual = "2026-11-20 18:05"
	texts := []string{usual, "20.11.2026 18:00", "2026-11-2018:05", "2026-1-20 18:055", "2026-11-20T18:05",
		"1 May 2026 18:05"}
	for i := range usual {
		for _, other := range "0-:. Tx" {
			texts = append(texts, usual[:i]+string(other)+usual[i+1:])
		}
	}
	moment := func(s string) time.Time {
		m, _, err := booking.ParseMoment(s, time.Time{}, time.UTC)
		if err != nil {
			return time.Time{}
		}
		return m
	}
	for _, s := range texts {
		if short, long := moment(s), moment(s+":00"); !short.Equal(long) {
			t.Errorf("%q is read as %v, with seconds as %v", s, short, long)
		}
		if short, long := moment(s[:10]), moment(s[:10]+" 00:00:00"); !short.Equal(long) {
			t.Errorf("%q is read as %v, with a time as %v", s[:10], short, long)
		}
	}
}
