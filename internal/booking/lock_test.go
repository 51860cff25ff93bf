package booking

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

	"gpuboard/internal/atomicfile"
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
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "locked <nil>\n" {
		t.Fatalf("%q, %v", line, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*lockPause)
	defer cancel()
	if err := Open(file, Zone{}).Update(ctx, testBy, addProgram); !errors.Is(err, ErrLocked) {
		t.Errorf("while another program holds the lock: %v", err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "{}" {
		t.Errorf("the file is %q, %v", data, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := Open(file, Zone{}).Update(context.Background(), testBy, addProgram); err != nil {
		t.Errorf("when its holder is dead: %v", err)
	}
}

// A lock file that somebody removed holds nobody off, so it does not count.
func TestLockThatWasRemoved(t *testing.T) {
	f := Open(filepath.Join(t.TempDir(), "comments.json"), Zone{})
	lock, err := f.lock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	old, err := f.openLock()
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	remove(t, f.beside(lockSuffix))
	if err := atomicfile.Unlock(lock); err != nil {
		t.Fatal(err)
	}
	if held, err := atomicfile.TryLock(old); held || err != nil {
		t.Errorf("a lock that was removed counts: %v, %v", held, err)
	}
}

// replaceLock puts a new file in the place of the lock, as a program that restores a directory does.
func replaceLock(t *testing.T, f *File) {
	t.Helper()
	fresh := f.path + ".fresh" + rand.Text()
	write("")(t, fresh)
	if err := os.Rename(fresh, f.beside(lockSuffix)); err != nil {
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
			f, other := Open(file, Zone{}), Open(file, Zone{})
			n, where := 0, ""
			f.step = func(what string) {
				if n++; n != at+1 {
					return
				}
				where = what
				replaceLock(t, f)
				if err := other.Update(t.Context(), testBy, addProgram); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			err := f.Update(t.Context(), testBy, func(data []byte) ([]byte, error) {
				next, _, err := Add(data, Zone{Location: time.UTC}, Booking{Host: "a", Name: "first"})
				return next, err
			})
			if done = where == ""; done {
				if n < 8 {
					t.Errorf("only %d steps", n)
				}
				continue
			}
			data, readErr := os.ReadFile(file)
			if err != nil || readErr != nil || strings.Count(string(data), `"first"`) != 1 || strings.Count(string(data), `"program"`) != 1 {
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
		f := Open(file, Zone{})
		f.step = func(string) {
			if steps.Add(1)%11 == 0 {
				replaceLock(t, f)
				time.Sleep(2 * lockPause) // so that another takes the new one
			}
		}
		wg.Go(func() {
			for k := range 12 {
				comment := fmt.Sprintf("%d-%d", i, k)
				err := keepTrying(f, func(data []byte) ([]byte, error) {
					next, _, err := Add(data, Zone{Location: time.UTC}, Booking{Host: "a", Name: "x", Comment: comment})
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
				t.Errorf("the booking %s was acknowledged, and is there %d times", comment, strings.Count(string(data), `"`+comment+`"`))
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
	opts := Options{Now: time.Date(2026, 11, 20, 12, 0, 0, 0, utc)}
	for entry, want := range map[string]string{
		`{"name":"eve",  "date": "2026-11-25 15:18"}`:                              `{"name":"eve",  "date": "2026-11-25 15:18 +00:00"}`,
		`{"name":"eve",  "date": "2026-11-25"}`:                                    `{"name":"eve",  "date": "2026-11-26 00:00 +00:00"}`,
		`{"name":"eve",  "date": "25.11.2026 15h18" /* rest */ }`:                  `{"name":"eve",  "date": "2026-11-25 15:18 +00:00" /* rest */ }`,
		`{"name":"eve", "Date": "2026-11-25 15:18", "from": "2026-11-21 08:00"}`:   `{"name":"eve", "Date": "2026-11-25 15:18 +00:00", "from": "2026-11-21 08:00 +00:00"}`,
		`{"name":"eve", "date": "2026-11-25 15:18Z", "from": "2026-11-21 08:00"}`:  `{"name":"eve", "date": "2026-11-25 15:18Z", "from": "2026-11-21 08:00 +00:00"}`,
		`{"name":"eve", "date": "2026-11-20 12:30"}`:                               `{"name":"eve", "date": "2026-11-20 12:30 +00:00"}`, // over in Paris alone
		`{"name":"eve", "date": "2026-11-25 15:18 +02:00"}`:                        "",
		`{"name":"eve", "date": "2026-11-19 15:18"}`:                               "",
		`{"name":"eve", "date": "never"}`:                                          "",
		`{"name":"eve"}`:                                                           "",
		`{"name":"eve", "date": "as long as it takes"}`:                            "",
		`{"name":"eve", "date": "as long as it takes", "from": "2026-11-21 8:00"}`: `{"name":"eve", "date": "as long as it takes", "from": "2026-11-21 08:00 +00:00"}`,
	} {
		text := "// ours\n{ \"gpu01\": { \"0,1\": " + entry + ", }, }"
		path := filepath.Join(t.TempDir(), "comments.json")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		f := Open(path, Zone{Location: paris})
		before := Open(path, Zone{Location: utc}).Load(opts).Bookings
		moves, err := f.Moved(utc, opts)
		if err != nil || len(moves) > 0 != (want != "") {
			t.Errorf("%s: moved are %+v, %v", entry, moves, err)
		}
		kept, err := f.Keep(t.Context(), By{Name: "root", At: opts.Now}, utc, false, opts)
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
		same := func(a, b Booking) bool {
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
	opts, by := Options{Now: now}, By{Name: "ada", At: now}
	path := filepath.Join(t.TempDir(), "comments.json")
	book := func(f *File, zone *time.Location, gpu int, from time.Time) {
		t.Helper()
		b := Booking{Host: "gpu01", Target: Target{Index: gpu}, Name: "eve", From: from, Until: from.Add(30 * time.Minute)}
		err := f.Update(t.Context(), by, func(data []byte) ([]byte, error) {
			next, _, err := Add(data, Zone{Location: zone}, b)
			return next, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	book(Open(path, Zone{Location: utc}), utc, 0, now.Add(24*time.Hour))
	f := Open(path, Zone{Location: york})
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

// TestUsualDatesAreFoundAlike: what is found without a search is what the search finds.
func TestUsualDatesAreFoundAlike(t *testing.T) {
	usual := "2026-11-20 18:05"
	texts := []string{usual, usual[:10], "never", "", "20.11.2026", "20.11.2026 18:00", "2026-11-2018:05", "2026-1-20 18:055", "2026-11-20T18:05", "1 May 2026", "1 May 2026 18:05"}
	for i := range usual {
		for _, other := range "0-:. Tx" {
			changed := usual[:i] + string(other) + usual[i+1:]
			texts = append(texts, changed, changed[:10])
		}
	}
	for _, s := range texts {
		want := absoluteTime().FindStringSubmatch(s)
		got, found := dateParts(s)
		if found != (want != nil) {
			t.Errorf("%q is found: %v", s, found)
		}
		for i := 1; i < len(want); i++ {
			if got[i] != want[i] {
				t.Errorf("group %d of %q is %q; want %q", i, s, got[i], want[i])
			}
		}
	}
}
