package booking

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
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpuboard/internal/testenv/need"
)

// testBy makes the changes of tests that do not look at the record.
var testBy = By{Name: "test", At: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)}

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
		_, err := Open(os.Getenv("BOOKING_TEST_FILE"), Zone{}).lock(context.Background())
		fmt.Println("locked", err)
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0)
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
func keepTrying(f *File, edit func([]byte) ([]byte, error)) error {
	for end := time.Now().Add(need.Patience); ; {
		err := f.Update(context.Background(), testBy, edit)
		if !errors.Is(err, ErrLocked) || time.Now().After(end) {
			return err
		}
	}
}

func makeBookings(file, name string, n int) error {
	f := Open(file, Zone{})
	for i := range n {
		err := keepTrying(f, func(data []byte) ([]byte, error) {
			next, _, err := Add(data, Zone{Location: time.UTC}, Booking{Host: "a", Target: Target{Index: i % 8}, Name: name, Comment: fmt.Sprintf("%s-%d", name, i)})
			return next, err
		})
		if err != nil {
			return fmt.Errorf("%s, booking %d: %w", name, i, err)
		}
	}
	return nil
}

func TestEightEditorsLoseNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	var running []*exec.Cmd
	for i := range 8 {
		cmd := as(t, "editor", file, fmt.Sprintf("u%d", i))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
	}
	for _, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	wantBookings(t, file, 200)
}

// Somebody else makes the first booking while a program looks whether there were bookings.
func TestFirstBookingsAtOnce(t *testing.T) {
	for moment := 1; moment <= 2; moment++ {
		file := filepath.Join(t.TempDir(), "comments.json")
		f, looks, made := Open(file, Zone{}), 0, false
		f.step = func(what string) {
			if what != "last good" {
				return
			}
			if looks++; looks == moment {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // f may hold the lock
				defer cancel()
				made = Open(file, Zone{}).Update(ctx, testBy, func([]byte) ([]byte, error) { return []byte(byHand), nil }) == nil
			}
		}
		if err := f.Update(t.Context(), testBy, addProgram); err != nil {
			t.Errorf("at look %d: %v", moment, err)
		}
		switch {
		case made:
			wantBoth(t, fmt.Sprintf("at look %d", moment), file)
		case moment == 1:
			t.Error("the first look is taken with the lock held")
		}
	}
}

func wantBookings(t *testing.T, file string, n int) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := Parse(file, data, Zone{Location: time.UTC}, Options{})
	seen := map[string]bool{}
	for _, b := range c.Bookings {
		seen[b.Comment] = true
	}
	if c.Broken || len(c.Bookings) != n || len(seen) != n {
		t.Errorf("broken %v, %d bookings, %d different, want %d", c.Broken, len(c.Bookings), len(seen), n)
	}
}

func TestGoroutinesShareAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	f := Open(file, Zone{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 5 {
				if err := keepTrying(f, func(data []byte) ([]byte, error) {
					next, _, err := Add(data, Zone{Location: time.UTC}, Booking{Host: "a", Name: "x", Comment: fmt.Sprintf("%d-%d", i, k)})
					return next, err
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wantBookings(t, file, 40)
}

func addProgram(data []byte) ([]byte, error) {
	next, _, err := Add(data, Zone{Location: time.UTC}, Booking{Host: "a", Name: "program"})
	return next, err
}

// wantBoth checks that the file holds the program's booking and the person's.
func wantBoth(t *testing.T, when, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := briefs(Parse("c", data, Zone{Location: time.UTC}, Options{}), time.UTC), "a/0 program -..-\nb/0 hand -..-"; got != want {
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

// Whoever saves in an editor while a program changes the file, at whichever
// step: their save is there afterwards, and the program's booking too.
func TestHandEditAtAnyStep(t *testing.T) {
	for _, exchanges := range []bool{true, false} {
		for _, before := range []string{"{}", ""} {
			for name, save := range saves() {
				reached := 0
				for at := 1; ; at++ {
					file := filepath.Join(t.TempDir(), "comments.json")
					if before != "" {
						write(before)(t, file)
					}
					f := Open(file, Zone{})
					if !exchanges {
						f.exchange = func(string, string) error { return errors.ErrUnsupported }
					}
					steps, saved, last, done := 0, false, "", false
					f.step = func(what string) {
						done = done || what == "previous" || what == "keep"
						if steps++; steps == at && !done {
							if !exchanges && what == "rename" && name != "in place" {
								return // the limit that File.replaceUnexchanged names
							}
							saved, last = true, what
							save(t, file)
						}
					}
					if err := f.Update(context.Background(), testBy, addProgram); err != nil {
						t.Fatalf("saved %s: %v", last, err)
					}
					if steps < at {
						break
					}
					if saved {
						reached++
						wantBoth(t, fmt.Sprintf("exchange %v, from %q, saved %s before %s", exchanges, before, name, last), file)
					}
				}
				if reached < 4 {
					t.Errorf("only %d steps were reached", reached)
				}
			}
		}
	}
}

// Where a file system has neither exchange nor links, as FAT, a save before the replacement is still seen.
func TestHandEditWithoutExchangeOrLinks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	write("{}")(t, file)
	f := Open(file, Zone{})
	f.exchange = func(string, string) error { return errors.ErrUnsupported }
	if err := os.MkdirAll(filepath.Join(f.beside(previousSuffix), "in the way of a link"), 0o755); err != nil {
		t.Fatal(err)
	}
	saved := false
	f.step = func(what string) {
		if what == "exchange" && !saved {
			saved = true
			write(byHand)(t, file)
		}
	}
	if err := f.Update(context.Background(), testBy, addProgram); err != nil {
		t.Fatal(err)
	}
	wantBoth(t, "without links", file)
}

// Two people who save one after the other while a program changes the file: the
// later one's save stands, as with two editors, and the other is at hand.
func TestTwoHandEdits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	write("{}")(t, file)
	f := Open(file, Zone{})
	exchanged := 0
	f.step = func(what string) {
		if what == "exchange" {
			if exchanged++; exchanged == 1 {
				write(`{"c": [{"name": "first"}]}`)(t, file)
			} else if exchanged == 2 {
				saves()["by rename"](t, file)
			}
		}
	}
	tried := 0
	if err := f.Update(context.Background(), testBy, func(data []byte) ([]byte, error) {
		if tried++; tried == 2 {
			if previous, err := os.ReadFile(f.beside(previousSuffix)); err != nil || !strings.Contains(string(previous), "first") {
				t.Errorf("the first one's save: %q, %v", previous, err)
			}
		}
		return addProgram(data)
	}); err != nil {
		t.Fatal(err)
	}
	wantBoth(t, "two saves", file)
}

// A program that was killed while it changed the file: whatever it left, the next
// one finds the old content or the new one, and a save of the last moment.
func TestRecover(t *testing.T) {
	const old, new = `{"a": [{"name": "x"}]}`, `{"a": [{"name": "x"}, {"name": "y"}]}`
	left := exchangeSuffix + fingerprint([]byte(old)) + "." + fingerprint([]byte(new))
	for _, tc := range []struct {
		name, stands string
		left         map[string]string
		want         string
		previous     string
	}{
		{"half written", old, map[string]string{newSuffix + "ABC": `{"a": [{"na`}, old, ""},
		{"not exchanged", old, map[string]string{left: new}, old, ""},
		{"exchanged", new, map[string]string{left: old}, new, old},
		{"exchanged for a person's save", new, map[string]string{left: byHand}, byHand, ""},
		{"and put back", byHand, map[string]string{left: new}, byHand, ""},
		{"saved since", byHand, map[string]string{left: old}, byHand, old},
		{"not yet replaced where nothing can be exchanged", old, map[string]string{left: new, previousSuffix: old}, old, old},
	} {
		f := Open(filepath.Join(t.TempDir(), "comments.json"), Zone{})
		write(tc.stands)(t, f.path)
		for suffix, content := range tc.left {
			write(content)(t, f.beside(suffix))
		}
		if err := f.recover(); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		now, err := os.ReadFile(f.path)
		previous, _ := os.ReadFile(f.beside(previousSuffix))
		if err != nil || string(now) != tc.want || string(previous) != tc.previous {
			t.Errorf("%s: %v\ngot  %s, before %s\nwant %s, before %s", tc.name, err, now, previous, tc.want, tc.previous)
		}
		entries, err := os.ReadDir(filepath.Dir(f.path))
		for _, e := range entries {
			if name := e.Name(); name != "comments.json" && name != ".comments.json.previous" {
				t.Errorf("%s: left behind: %s", tc.name, name)
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// Somebody who copies a file into place over a network empties it first.
// Whoever had a lock that was replaced may complete the change while the next one looks at it.
func TestRecoverWhatIsGoneMeanwhile(t *testing.T) {
	f := Open(filepath.Join(t.TempDir(), "comments.json"), Zone{})
	write("{}")(t, f.path)
	left := exchangeSuffix + fingerprint([]byte("{}")) + "." + fingerprint(nil)
	if err := os.Symlink("gone", f.beside(left)); err != nil { // listed, and not there when it is read
		t.Fatal(err)
	}
	if err := f.Update(t.Context(), testBy, addProgram); err != nil {
		t.Error(err)
	}
}

func TestUpdateWaitsForASave(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	write("")(t, file)
	f := Open(file, Zone{})
	reads := 0
	f.step = func(what string) {
		if what == "read" {
			if reads++; reads == 2 {
				write(byHand)(t, file)
			}
		}
	}
	if err := f.Update(context.Background(), testBy, addProgram); err != nil {
		t.Fatal(err)
	}
	wantBoth(t, "filled later", file)
}

func TestEmptyFileIsReadSeveralTimes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	write("")(t, file)
	f, reads := Open(file, Zone{}), 0
	f.step = func(what string) {
		if what == "read" {
			reads++
		}
	}
	if data, err := f.ReadSaved(t.Context()); err != nil || len(data) != 0 || reads != 1+savingTries {
		t.Errorf("%q, %v after %d reads", data, err, reads)
	}
}

func TestUpdateKeepsLinkModeAndWhatWasThere(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "comments.json")
	if err := os.WriteFile(filepath.Join(dir, "real.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real.json", file); err != nil {
		t.Fatal(err)
	}
	if err := Open(file, Zone{}).Update(context.Background(), testBy, func([]byte) ([]byte, error) { return []byte(`{"a": []}`), nil }); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if link, err := os.Readlink(file); err != nil || link != "real.json" {
		t.Errorf("the link became %q, %v", link, err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, ".real.json.previous")); err != nil || string(data) != "{}" {
		t.Errorf("previous content %q, %v", data, err)
	}
}

// What is no regular file is refused, in the place of the bookings and of the lock.
func TestUpdateRefusesWhatIsNoFile(t *testing.T) {
	for _, name := range []string{"comments.json", ".comments.json.lock"} {
		for kind, plant := range map[string]func(path string) error{
			"FIFO":      func(path string) error { return unix.Mkfifo(path, 0o644) },
			"directory": func(path string) error { return os.Mkdir(path, 0o755) },
		} {
			dir := t.TempDir()
			if err := plant(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if err := Open(filepath.Join(dir, "comments.json"), Zone{}).Update(context.Background(), testBy, addProgram); err == nil {
				t.Errorf("%s is a %s, and a booking was made", name, kind)
			}
		}
	}
	dir := t.TempDir()
	if err := os.Symlink("elsewhere", filepath.Join(dir, ".comments.json.lock")); err != nil {
		t.Fatal(err)
	}
	if err := Open(filepath.Join(dir, "comments.json"), Zone{}).Update(context.Background(), testBy, addProgram); err == nil {
		t.Error("a lock that is a symbolic link was followed")
	}
}

func TestDeleteVersusExtend(t *testing.T) {
	zone := paris(t)
	now := at(t, "2026-11-20 10:30")
	data := []byte(`{"a": [{"name": "x", "date": "2026-12-01 10:00"}]}`)
	id := Parse("c", data, Zone{Location: zone}, Options{}).Bookings[0].ID
	released, _, err := Release(data, Zone{Location: zone}, id, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Extend(released, Zone{Location: zone}, id, at(t, "2026-12-03"), now); !errors.Is(err, ErrOver) {
		t.Errorf("a released booking came back: %v", err)
	}
}

func TestUpdateReturnsTheErrorOfTheEdit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	want := errors.New("no")
	if err := Open(file, Zone{}).Update(context.Background(), testBy, func([]byte) ([]byte, error) { return nil, want }); !errors.Is(err, want) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file was made: %v", err)
	}
}
