package remotefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gpuboard/booking"
	"gpuboard/internal/need"
	"gpuboard/internal/sshtest"
	"gpuboard/publisher"
)

// TestMain lets the test binary be a program that books and is killed at a
// step of its choice.
func TestMain(m *testing.M) {
	if at := os.Getenv("REMOTEFILE_TEST_DIE_AT"); at != "" {
		port, _ := strconv.Atoi(os.Getenv("REMOTEFILE_TEST_PORT"))
		f, err := New(Options{Owner: "victim", Now: time.Now, Server: publisher.Options{
			Target:   publisher.Target{Scheme: "sftp", User: os.Getenv("REMOTEFILE_TEST_USER"), Host: "127.0.0.1", Port: port, Dir: os.Getenv("REMOTEFILE_TEST_FILE")},
			Identity: []string{os.Getenv("REMOTEFILE_TEST_KEY")}, KnownHosts: []string{os.Getenv("REMOTEFILE_TEST_KNOWN")}, ConfigFiles: []string{},
		}})
		if err == nil {
			n := 0
			die := func(what string) {
				if n++; what == at || strconv.Itoa(n) == at {
					fmt.Println(what)
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				}
			}
			f.wrap = func(d booking.Dir) booking.Dir { return &watched{d, die} }
			f.step = func(what string) {
				if what == at {
					die(what)
				}
			}
			err = book(context.Background(), f, "victim", 0)
		}
		fmt.Println("done", err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func options(s *sshtest.Server, file string) Options {
	return Options{Owner: "tester", Now: time.Now, Server: publisher.Options{
		Target:   publisher.Target{Scheme: "sftp", User: s.User, Host: s.Host, Port: s.Port, Dir: file},
		Identity: []string{s.Key}, KnownHosts: []string{s.KnownHosts}, ConfigFiles: []string{},
	}}
}

func open(t testing.TB, s *sshtest.Server, file string) *File {
	t.Helper()
	f, err := New(options(s, file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func book(ctx context.Context, store booking.Place, name string, n int) error {
	return booking.Update(ctx, store, func(data []byte) ([]byte, error) {
		next, _, err := booking.Add(data, time.UTC, booking.Booking{Host: "a", Target: booking.Target{Index: n % 8}, Name: name, Comment: fmt.Sprintf("%s-%d", name, n)})
		return next, err
	})
}

// comments are those of all bookings in the file, in order; the file must be whole.
func comments(t testing.TB, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	c := booking.Parse(file, data, time.UTC, booking.Options{})
	if c.Broken {
		t.Fatalf("the file is broken: %v\n%s", c.Problems, data)
	}
	var all []string
	for _, b := range c.Bookings {
		all = append(all, b.Comment)
	}
	slices.Sort(all)
	return all
}

// names are the files in a directory, less those that keep the last content.
func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		if !strings.Contains(e.Name(), ".previous-") {
			all = append(all, e.Name())
		}
	}
	return all
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

func TestFileTooLargeIsRefused(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	file := filepath.Join(s.Dir, "comments.json")
	write(t, file, "{}"+strings.Repeat(" ", booking.MaxFileBytes))
	if err := book(context.Background(), open(t, s, file), "x", 0); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Fatalf("got %v, want that it is too large", err)
	}
}

func TestKeepsModeLinkCommentsAndPrevious(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	before := "// ours\r\n{\r\n  \"a\": [ { \"name\": \"ada\", \"comment\": \"first\" } ], // stays\r\n}\r\n"
	real, link := filepath.Join(s.Dir, "real.json"), filepath.Join(s.Dir, "comments.json")
	write(t, real, before)
	if err := os.Chmod(real, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real.json", link); err != nil {
		t.Fatal(err)
	}
	f := open(t, s, link)
	for n := range 2 {
		if err := book(context.Background(), f, "x", n+1); err != nil {
			t.Fatal(err)
		}
	}
	if to, err := os.Readlink(link); err != nil || to != "real.json" {
		t.Errorf("the link became %q, %v", to, err)
	}
	if info, err := os.Stat(real); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if got := comments(t, real); !slices.Equal(got, []string{"first", "x-1", "x-2"}) {
		t.Errorf("bookings %v", got)
	}
	data, err := os.ReadFile(real)
	if err != nil || !strings.HasPrefix(string(data), "// ours\r\n{\r\n") || !strings.Contains(string(data), "// stays\r\n") {
		t.Errorf("what people wrote is gone: %q", data)
	}
	previous, err := filepath.Glob(filepath.Join(s.Dir, ".real.json.previous-*"))
	if err != nil || len(previous) != 1 {
		t.Fatalf("previous contents: %v, %v", previous, err)
	}
	if data, err := os.ReadFile(previous[0]); err != nil || strings.Contains(string(data), "x-2") || !strings.Contains(string(data), "x-1") {
		t.Errorf("previous content %q, %v", data, err)
	}
	if got := names(t, s.Dir); !slices.Equal(got, []string{"comments.json", "real.json"}) {
		t.Errorf("left behind: %v", got)
	}
	// A path without a slash starts where the session does.
	if err := book(context.Background(), open(t, s, "other.json"), "y", 0); err != nil {
		t.Fatal(err)
	}
	if got := comments(t, filepath.Join(s.Dir, "other.json")); !slices.Equal(got, []string{"y-0"}) {
		t.Errorf("bookings %v", got)
	}
}

func TestKeepsOwner(t *testing.T) {
	need.Root(t)
	s := sshtest.Start(t, sshtest.Options{})
	file := filepath.Join(s.Dir, "comments.json")
	write(t, file, "{}")
	if err := os.Chown(file, 1234, 4321); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o664); err != nil {
		t.Fatal(err)
	}
	if err := book(context.Background(), open(t, s, file), "x", 0); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 1234 || st.Gid != 4321 || info.Mode().Perm() != 0o664 {
		t.Errorf("owner %d:%d, mode %v", st.Uid, st.Gid, info.Mode())
	}
}

func age(t *testing.T, file string) {
	t.Helper()
	old := time.Now().Add(-booking.LockTimeout - 3*time.Second)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
}

// Many wait for a lock whose holder is dead: one of them at a time has it.
func TestOldLockIsBrokenByOne(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	file := filepath.Join(s.Dir, "comments.json")
	write(t, file, "{}")
	write(t, filepath.Join(s.Dir, ".comments.json.lock"), "token\nthe dead\n")
	age(t, filepath.Join(s.Dir, ".comments.json.lock"))
	var inside, most atomic.Int32
	var wg sync.WaitGroup
	for i := range 6 {
		f := open(t, s, file)
		wg.Go(func() {
			unlock, err := f.Lock(context.Background())
			if err != nil {
				t.Errorf("waiter %d: %v", i, err)
				return
			}
			if n := inside.Add(1); n > most.Load() {
				most.Store(n)
			}
			// Long enough for others to look at the lock a few times.
			_, _, err = f.Read(context.Background())
			inside.Add(-1)
			if err := errors.Join(err, unlock()); err != nil {
				t.Errorf("waiter %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if most.Load() != 1 {
		t.Errorf("%d held the lock at the same time", most.Load())
	}
	if got := names(t, s.Dir); !slices.Equal(got, []string{"comments.json"}) {
		t.Errorf("left behind: %v", got)
	}
}

// Whoever slept until the lock was broken does not write any more.
func TestSleeperLosesTheLock(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	file := filepath.Join(s.Dir, "comments.json")
	write(t, file, "{}")
	sleeper, other := open(t, s, file), open(t, s, file)
	slept := false
	sleeper.wrap = watch(func(what string) {
		if what == "stage" && !slept {
			slept = true
			age(t, filepath.Join(s.Dir, ".comments.json.lock"))
			if err := book(context.Background(), other, "awake", 0); err != nil {
				t.Error(err)
			}
		}
	})
	if err := book(context.Background(), sleeper, "asleep", 0); !errors.Is(err, booking.ErrLocked) {
		t.Errorf("got %v, want that the lock was broken", err)
	}
	if got := comments(t, file); !slices.Equal(got, []string{"awake-0"}) {
		t.Errorf("bookings %v", got)
	}
}
