package booking_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

	"gpuboard/internal/booking"
)

func TestEightEditorsLoseNothing(t *testing.T) {
	file := newFile(t)
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
		file := newFile(t)
		f, looks, made := booking.Open(file, booking.Zone{}), 0, false
		f.OnStep(func(what string) {
			if what != "last good" {
				return
			}
			if looks++; looks == moment {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // f may hold the lock
				defer cancel()
				made = booking.Open(file, booking.Zone{}).Update(ctx, testBy,
					func([]byte) ([]byte, error) { return []byte(byHand), nil }) == nil
			}
		})
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

func TestGoroutinesShareAFile(t *testing.T) {
	file := newFile(t)
	f := booking.Open(file, booking.Zone{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 5 {
				if err := keepTrying(f, func(data []byte) ([]byte, error) {
					next, _, err := booking.Add(data, booking.Zone{Location: time.UTC},
						booking.Booking{Host: "a", Name: "x", Comment: fmt.Sprintf("%d-%d", i, k)})
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

// Whoever saves in an editor while a program changes the file, at whichever
// step: their save is there afterwards, and the program's booking too.
func TestHandEditAtAnyStep(t *testing.T) {
	for _, exchanges := range []bool{true, false} {
		for _, before := range []string{"{}", ""} {
			for name, save := range saves() {
				reached := 0
				for at := 1; ; at++ {
					file := newFile(t)
					if before != "" {
						write(before)(t, file)
					}
					f := booking.Open(file, booking.Zone{})
					if !exchanges {
						f.WithoutExchange()
					}
					steps, saved, last, done := 0, false, "", false
					f.OnStep(func(what string) {
						done = done || what == "previous" || what == "keep"
						if steps++; steps == at && !done {
							if !exchanges && what == "rename" && name != "in place" {
								return // the limit that File.replaceUnexchanged names
							}
							saved, last = true, what
							save(t, file)
						}
					})
					if err := f.Update(context.Background(), testBy, addProgram); err != nil {
						t.Fatalf("saved %s: %v", last, err)
					}
					if steps < at {
						break
					}
					if saved {
						reached++
						wantBoth(t,
							fmt.Sprintf("exchange %v, from %q, saved %s before %s", exchanges, before, name, last),
							file)
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
	file := newFile(t)
	write("{}")(t, file)
	f := booking.Open(file, booking.Zone{})
	f.WithoutExchange()
	if err := os.MkdirAll(filepath.Join(beside(file, ".previous"), "in the way of a link"), 0o755); err != nil {
		t.Fatal(err)
	}
	saved := false
	f.OnStep(func(what string) {
		if what == "exchange" && !saved {
			saved = true
			write(byHand)(t, file)
		}
	})
	if err := f.Update(context.Background(), testBy, addProgram); err != nil {
		t.Fatal(err)
	}
	wantBoth(t, "without links", file)
}

// Two people who save one after the other while a program changes the file: the
// later one's save stands, as with two editors, and the other is at hand.
func TestTwoHandEdits(t *testing.T) {
	file := newFile(t)
	write("{}")(t, file)
	f := booking.Open(file, booking.Zone{})
	exchanged := 0
	f.OnStep(func(what string) {
		if what == "exchange" {
			if exchanged++; exchanged == 1 {
				write(`{"c": [{"name": "first"}]}`)(t, file)
			} else if exchanged == 2 {
				saves()["by rename"](t, file)
			}
		}
	})
	tried := 0
	if err := f.Update(context.Background(), testBy, func(data []byte) ([]byte, error) {
		if tried++; tried == 2 {
			if previous, err := os.ReadFile(beside(file, ".previous")); err != nil ||
				!strings.Contains(string(previous), "first") {
				t.Errorf("the first one's save: %q, %v", previous, err)
			}
		}
		return addProgram(data)
	}); err != nil {
		t.Fatal(err)
	}
	wantBoth(t, "two saves", file)
}

// exchanging is the name, after that of the bookings, of the new content that is put in the place of the old one.
func exchanging(old, new string) string {
	short := func(content string) string {
		sum := sha256.Sum256([]byte(content))
		return hex.EncodeToString(sum[:8])
	}
	return ".exchange-" + short(old) + "." + short(new)
}

// unchanged is an edit that changes nothing.
func unchanged(data []byte) ([]byte, error) { return data, nil }

// A program that was killed while it changed the file: whatever it left, the next
// one finds the old content or the new one, and a save of the last moment.
func TestRecover(t *testing.T) {
	const old, new = `{"a": [{"name": "x"}]}`, `{"a": [{"name": "x"}, {"name": "y"}]}`
	left := exchanging(old, new)
	for _, tc := range []struct {
		name, stands string
		left         map[string]string
		want         string
		previous     string
	}{
		{"half written", old, map[string]string{".new-ABC": `{"a": [{"na`}, old, ""},
		{"not exchanged", old, map[string]string{left: new}, old, ""},
		{"exchanged", new, map[string]string{left: old}, new, old},
		{"exchanged for a person's save", new, map[string]string{left: byHand}, byHand, ""},
		{"and put back", byHand, map[string]string{left: new}, byHand, ""},
		{"saved since", byHand, map[string]string{left: old}, byHand, old},
		{"not yet replaced where nothing can be exchanged", old, map[string]string{left: new, ".previous": old}, old,
			old},
	} {
		file := newFile(t)
		write(tc.stands)(t, file)
		for suffix, content := range tc.left {
			write(content)(t, beside(file, suffix))
		}
		if err := booking.Open(file, booking.Zone{}).Update(t.Context(), testBy, unchanged); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		now, err := os.ReadFile(file)
		previous, _ := os.ReadFile(beside(file, ".previous"))
		if err != nil || string(now) != tc.want || string(previous) != tc.previous {
			t.Errorf("%s: %v\ngot  %s, before %s\nwant %s, before %s", tc.name, err, now, previous, tc.want,
				tc.previous)
		}
		for _, suffix := range []string{".new-", ".exchange-"} {
			if left, err := filepath.Glob(beside(file, suffix) + "*"); err != nil || len(left) > 0 {
				t.Errorf("%s: left behind: %v, %v", tc.name, left, err)
			}
		}
	}
}

// Whoever had a lock that was replaced may complete the change while the next one looks at it.
func TestRecoverWhatIsGoneMeanwhile(t *testing.T) {
	file := newFile(t)
	write("{}")(t, file)
	left := beside(file, exchanging("{}", ""))
	if err := os.Symlink("gone", left); err != nil { // listed, and not there when it is read
		t.Fatal(err)
	}
	if err := booking.Open(file, booking.Zone{}).Update(t.Context(), testBy, addProgram); err != nil {
		t.Error(err)
	}
}

// Somebody who copies a file into place over a network empties it first.
func TestUpdateWaitsForASave(t *testing.T) {
	file := newFile(t)
	write("")(t, file)
	f := booking.Open(file, booking.Zone{})
	reads := 0
	f.OnStep(func(what string) {
		if what == "read" {
			if reads++; reads == 2 {
				write(byHand)(t, file)
			}
		}
	})
	if err := f.Update(context.Background(), testBy, addProgram); err != nil {
		t.Fatal(err)
	}
	wantBoth(t, "filled later", file)
}

func TestEmptyFileIsReadSeveralTimes(t *testing.T) {
	file := newFile(t)
	write("")(t, file)
	f, reads := booking.Open(file, booking.Zone{}), 0
	f.OnStep(func(what string) {
		if what == "read" {
			reads++
		}
	})
	if data, err := f.ReadSaved(t.Context()); err != nil || len(data) != 0 || reads != 6 {
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
	if err := booking.Open(file, booking.Zone{}).Update(context.Background(), testBy,
		func([]byte) ([]byte, error) { return []byte(`{"a": []}`), nil }); err != nil {
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
			if err := booking.Open(filepath.Join(dir, "comments.json"), booking.Zone{}).Update(context.Background(),
				testBy,
				addProgram); err == nil {
				t.Errorf("%s is a %s, and a booking was made", name, kind)
			}
		}
	}
	dir := t.TempDir()
	if err := os.Symlink("elsewhere", filepath.Join(dir, ".comments.json.lock")); err != nil {
		t.Fatal(err)
	}
	if err := booking.Open(filepath.Join(dir, "comments.json"), booking.Zone{}).Update(context.Background(), testBy,
		addProgram); err == nil {
		t.Error("a lock that is a symbolic link was followed")
	}
}

func TestDeleteVersusExtend(t *testing.T) {
	now := at(t, "2026-11-20 10:30")
	data := []byte(`{"a": [{"name": "x", "date": "2026-12-01 10:00"}]}`)
	id := parsed(t, string(data)).Bookings[0].ID
	released, _, err := booking.Release(data, inParis(t), id, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := booking.Extend(released, inParis(t), id, at(t, "2026-12-03"), now); !errors.Is(err,
		booking.ErrOver) {
		t.Errorf("a released booking came back: %v", err)
	}
}

func TestUpdateReturnsTheErrorOfTheEdit(t *testing.T) {
	file := newFile(t)
	want := errors.New("no")
	if err := booking.Open(file, booking.Zone{}).Update(context.Background(), testBy,
		func([]byte) ([]byte, error) { return nil, want }); !errors.Is(err, want) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file was made: %v", err)
	}
}
