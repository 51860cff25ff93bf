package remotefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpuboard/booking"
	"gpuboard/internal/sshtest"
)

// watched calls back before each request about the file, and makes of the two
// that go out together two of their own, so that there is something between them.
type watched struct {
	booking.Dir
	before func(what string)
}

func watch(before func(what string)) func(booking.Dir) booking.Dir {
	return func(d booking.Dir) booking.Dir { return &watched{d, before} }
}

func (w *watched) Names(ctx context.Context) ([]string, error) {
	w.before("names")
	return w.Dir.Names(ctx)
}

func (w *watched) Read(ctx context.Context, name string) ([]byte, fs.FileInfo, error) {
	w.before("read")
	return w.Dir.Read(ctx, name)
}

func (w *watched) Stage(ctx context.Context, name string, data []byte, like fs.FileInfo) error {
	w.before("stage")
	return w.Dir.Stage(ctx, name, data, like)
}

func (w *watched) Exchange(ctx context.Context, name, taken, staged string) (took, put error) {
	w.before("take")
	took = w.Dir.Rename(ctx, name, taken)
	w.before("put")
	return took, w.Dir.Put(ctx, staged, name)
}

func (w *watched) Link(ctx context.Context, from, to string) error {
	w.before("link")
	return w.Dir.Link(ctx, from, to)
}

func (w *watched) Put(ctx context.Context, from, to string) error {
	w.before("put alone")
	return w.Dir.Put(ctx, from, to)
}

func (w *watched) Rename(ctx context.Context, from, to string) error {
	w.before("rename")
	return w.Dir.Rename(ctx, from, to)
}

func (w *watched) Remove(ctx context.Context, name string) error {
	w.before("remove")
	return w.Dir.Remove(ctx, name)
}

// servers are the ways in which servers let a name be given only if it is free.
func servers(t *testing.T, run func(t *testing.T, s *sshtest.Server)) {
	t.Run("links", func(t *testing.T) { run(t, sshtest.Start(t, sshtest.Options{})) })
	t.Run("plain rename", func(t *testing.T) {
		run(t, sshtest.Start(t, sshtest.Options{Command: "internal-sftp -P hardlink"}))
	})
}

// Somebody with an editor saves before any request of a program that books, and
// between the two that go out together: both are in the file afterwards.
func TestHandEditBeforeAnyRequest(t *testing.T) {
	const before = `{"b": [{"name": "old", "comment": "old"}]}`
	const theirs = `{"b": [{"name": "hand", "comment": "hand"}, {"name": "old", "comment": "old"}]}`
	servers(t, func(t *testing.T, s *sshtest.Server) {
		line := open(t, s, filepath.Join(s.Dir, "none")).line
		for _, tc := range []struct {
			how    string
			before string // "" for none
			save   func(t testing.TB, file, text string)
		}{
			{"by rename", before, saveByRename},
			{"in place", before, write},
			{"anew", before, func(t testing.TB, file, text string) {
				if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				write(t, file, text)
			}},
			{"the first", "", write},
		} {
			reached, steps := true, 0
			for at := 1; reached; at++ {
				reached = false
				dir := t.TempDir()
				file := filepath.Join(dir, "comments.json")
				if tc.before != "" {
					write(t, file, tc.before)
				}
				f := newFile(line, file, "tester", time.Now)
				n, step := 0, ""
				f.wrap = watch(func(what string) {
					if n++; n == at {
						reached, step = true, what
						tc.save(t, file, theirs)
					}
				})
				err := book(context.Background(), f, "x", 0)
				if !reached {
					break
				}
				steps++
				want := []string{"hand", "old", "x-0"}
				if err != nil {
					t.Fatalf("%s before request %d (%s): %v", tc.how, at, step, err)
				}
				if got := comments(t, file); !slices.Equal(got, want) {
					t.Errorf("%s before request %d (%s): bookings %v", tc.how, at, step, got)
				}
				if got := names(t, dir); !slices.Equal(got, []string{"comments.json"}) {
					t.Errorf("%s before request %d (%s): left behind: %v", tc.how, at, step, got)
				}
			}
			if steps < 5 {
				t.Errorf("%s: only %d requests were seen", tc.how, steps)
			}
		}
	})
}

func saveByRename(t testing.TB, file, text string) {
	t.Helper()
	write(t, file+".swp", text)
	if err := os.Rename(file+".swp", file); err != nil {
		t.Fatal(err)
	}
}

// A program that is killed before any of its requests leaves a whole file, under
// its name or beside it, and a lock that others respect for 30 seconds and then
// break; they put in order what it left. Somebody who saves meanwhile is heard.
func TestKilledBeforeAnyRequest(t *testing.T) {
	const before = `{"b": [{"name": "old", "comment": "old"}]}`
	const theirs = `{"b": [{"name": "old", "comment": "old"}, {"name": "hand", "comment": "hand"}]}`
	s := sshtest.Start(t, sshtest.Options{})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	line := open(t, s, filepath.Join(s.Dir, "none")).line
	kill := func(t *testing.T, file, at string) (alive bool, step string) {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), "REMOTEFILE_TEST_DIE_AT="+at, "REMOTEFILE_TEST_FILE="+file, "REMOTEFILE_TEST_USER="+s.User,
			"REMOTEFILE_TEST_PORT="+strconv.Itoa(s.Port), "REMOTEFILE_TEST_KEY="+s.Key, "REMOTEFILE_TEST_KNOWN="+s.KnownHosts)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		switch {
		case err == nil && strings.HasPrefix(string(out), "done"):
			return true, ""
		case !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL:
			t.Fatalf("it was not killed: %v\n%s", err, out)
		}
		return false, strings.TrimSpace(string(out))
	}
	steps := []string{"locked", "unlock"}
	for n := 1; n < 40; n++ {
		steps = append(steps, strconv.Itoa(n))
	}
	missing, seen := 0, 0
	for _, at := range steps {
		dir := t.TempDir()
		file := filepath.Join(dir, "comments.json")
		write(t, file, before)
		alive, step := kill(t, file, at)
		if alive {
			break
		}
		seen++
		want := []string{"old"}
		// Who reads it finds it, even when nothing has its name.
		data, _, err := newFile(line, file, "reader", time.Now).Read(context.Background())
		if err != nil || !strings.Contains(string(data), `"old"`) {
			t.Errorf("killed before %s (%s): readers find %q, %v", at, step, data, err)
		}
		here, err := booking.Load(file, "", time.UTC, booking.Options{})
		if err != nil || len(here.Bookings) == 0 {
			t.Errorf("killed before %s (%s): the board has %d bookings, %v, %v", at, step, len(here.Bookings), here.Problems, err)
		}
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			missing++
			if len(here.Problems) == 0 || here.Problems[0].Code != "booking:taken" {
				t.Errorf("killed before %s (%s): the board says nothing: %v", at, step, here.Problems)
			}
		} else if n, _ := strconv.Atoi(at); n%2 == 1 {
			saveByRename(t, file, theirs)
			want = []string{"hand", "old"}
		}
		f := newFile(line, file, "next", time.Now)
		if seen == 1 {
			// Its time ends with the first look at the age of the lock.
			ctx, cancel := context.WithCancel(context.Background())
			early := newFile(line, file, "early", func() time.Time { cancel(); return time.Now() })
			if err := book(ctx, early, "early", 0); !errors.Is(err, booking.ErrLocked) || !strings.Contains(err.Error(), "victim") {
				t.Fatalf("within 30 s: %v, want that the victim holds the lock", err)
			}
			cancel()
		}
		age(t, filepath.Join(dir, ".comments.json.lock"))
		if err := book(context.Background(), f, "next", 0); err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(comments(t, file), func(c string) bool { return c == "victim-0" })
		if !slices.Equal(got, slices.Sorted(slices.Values(append(want, "next-0")))) {
			t.Errorf("killed before %s (%s), afterwards: %v", at, step, got)
		}
		if got := names(t, dir); !slices.Equal(got, []string{"comments.json"}) {
			t.Errorf("killed before %s (%s), left behind: %v", at, step, got)
		}
	}
	if missing == 0 || seen < 10 {
		t.Errorf("it was killed %d times, and %d times while nothing had the name", seen, missing)
	}
}

// Eight programs and three people with editors that save by rename. The people
// look at what they saved over, as an editor does that warns of a file which
// changed, and bring it over: so whatever is missing in the end, a program lost.
func TestEightEditorsOverSFTPLoseNothing(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	file := filepath.Join(s.Dir, "comments.json")
	write(t, file, "{}\n")
	const each = 25
	booked := make(chan bool, 8*each)
	var programs, people sync.WaitGroup
	for i := range 8 {
		f := open(t, s, file)
		programs.Go(func() {
			for n := range each {
				err := book(context.Background(), f, fmt.Sprintf("u%d", i), n)
				var kept *booking.KeptError
				for errors.As(err, &kept) {
					for _, name := range kept.Files {
						bringOver(t, file, filepath.Join(s.Dir, name))
					}
					err = book(context.Background(), f, fmt.Sprintf("u%d", i), n)
				}
				if err != nil {
					t.Errorf("editor %d, booking %d: %v", i, n, err)
				}
				if n%2 == 0 {
					booked <- true
				}
			}
		})
	}
	var saved [3]int
	for i := range saved {
		people.Go(func() {
			for range booked {
				time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond) // at any moment of the next booking
				saveByHand(t, file, fmt.Sprintf("hand%d-%d", i, saved[i]))
				saved[i]++
			}
		})
	}
	programs.Wait()
	close(booked)
	people.Wait()
	want := 8 * each
	for _, n := range saved {
		want += n
	}
	if unique := slices.Compact(comments(t, file)); len(unique) != want {
		t.Errorf("%d bookings, want %d of programs and %v of people", len(unique), 8*each, saved)
	}
	if got := names(t, s.Dir); !slices.Equal(got, []string{"comments.json"}) {
		t.Errorf("left behind: %v", got)
	}
}

func entries(data []byte) (all []string) {
	for _, b := range booking.Parse("c", data, time.UTC, booking.Options{}).Bookings {
		all = append(all, b.Comment)
	}
	return all
}

// bringOver is what people do with a save that could not stand beside another one.
func bringOver(t *testing.T, file, saved string) {
	data, err := os.ReadFile(saved)
	if err != nil {
		t.Error(err)
		return
	}
	saveByHand(t, file, entries(data)...)
	if err := os.Remove(saved); err != nil {
		t.Error(err)
	}
}

// saveByHand adds an entry as a person does with an editor that writes a new
// file and renames it. The exchange is a rename that tells what was saved over.
func saveByHand(t *testing.T, file string, owe ...string) {
	swap := fmt.Sprintf("%s.%x", file, rand.Uint64())
	add := func(data []byte, comment string) []byte {
		next, _, err := booking.Add(data, time.UTC, booking.Booking{Host: "h", Name: "hand", Comment: comment})
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		return next
	}
	for len(owe) > 0 {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // in the middle of an exchange
		}
		if err != nil {
			t.Error(err)
			return
		}
		next, here := data, entries(data)
		for _, comment := range owe {
			if !slices.Contains(here, comment) {
				next = add(next, comment)
			}
		}
		write(t, swap, string(next))
		if err := unix.Renameat2(unix.AT_FDCWD, swap, unix.AT_FDCWD, file, unix.RENAME_EXCHANGE); err != nil {
			continue // in the middle of an exchange, too
		}
		over, err := os.ReadFile(swap)
		if err != nil {
			t.Error(err)
			return
		}
		written := entries(next)
		owe = slices.DeleteFunc(entries(over), func(c string) bool { return slices.Contains(written, c) })
	}
	if err := os.Remove(swap); err != nil {
		t.Error(err)
	}
}
