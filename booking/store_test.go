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
)

// TestMain lets the test binary be a second program that edits or dies.
func TestMain(m *testing.M) {
	switch os.Getenv("BOOKING_TEST_AS") {
	case "editor":
		if err := makeBookings(os.Getenv("BOOKING_TEST_FILE"), os.Getenv("BOOKING_TEST_NAME"), 25); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "sleeper":
		_, err := LocalStore(os.Getenv("BOOKING_TEST_FILE"), "sleeper", time.Now).Lock(context.Background())
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

func makeBookings(file, name string, n int) error {
	store := LocalStore(file, name, time.Now)
	for i := range n {
		err := Update(context.Background(), store, func(data []byte) ([]byte, error) {
			next, _, err := Add(data, time.UTC, Booking{Host: "a", Target: Target{Index: i % 8}, Name: name, Comment: fmt.Sprintf("%s-%d", name, i)})
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

func wantBookings(t *testing.T, file string, n int) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := Parse(file, data, time.UTC, Options{})
	seen := map[string]bool{}
	for _, b := range c.Bookings {
		seen[b.Comment] = true
	}
	if c.Broken || len(c.Bookings) != n || len(seen) != n {
		t.Errorf("broken %v, %d bookings, %d different, want %d", c.Broken, len(c.Bookings), len(seen), n)
	}
}

func TestGoroutinesShareAStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	store := LocalStore(file, "me", time.Now)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 5 {
				if err := Update(context.Background(), store, func(data []byte) ([]byte, error) {
					next, _, err := Add(data, time.UTC, Booking{Host: "a", Name: "x", Comment: fmt.Sprintf("%d-%d", i, k)})
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

// An editor that saves after the file was read and checked, at the last moment
// before ours goes into place: theirs has to be there afterwards, and ours too.
func TestHandEditAtTheWorstMoment(t *testing.T) {
	add := func(data []byte) ([]byte, error) {
		next, _, err := Add(data, time.UTC, Booking{Host: "a", Name: "program"})
		return next, err
	}
	for _, tc := range []struct {
		name, before string
		save         func(t *testing.T, file string)
	}{
		{"rename", "{}", func(t *testing.T, file string) {
			if err := os.WriteFile(file+".swp", []byte(`{"b": [{"name": "hand"}]}`), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(file+".swp", file); err != nil {
				t.Fatal(err)
			}
		}},
		{"in place", "{}", func(t *testing.T, file string) {
			if err := os.WriteFile(file, []byte(`{"b": [{"name": "hand"}]}`), 0o644); err != nil {
				t.Fatal(err)
			}
		}},
		{"made anew", "", func(t *testing.T, file string) {
			if err := os.WriteFile(file, []byte(`{"b": [{"name": "hand"}]}`), 0o644); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "comments.json")
			if tc.before != "" {
				if err := os.WriteFile(file, []byte(tc.before), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			store := newLocal(file, "me", time.Now)
			saved := false
			store.file.dir = &worstMoment{store.file.dir, func() {
				if !saved {
					saved = true
					tc.save(t, file)
				}
			}}
			if err := Update(context.Background(), store, add); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := briefs(Parse("c", data, time.UTC, Options{}), time.UTC), "a/0 program -..-\nb/0 hand -..-"; !saved || got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// A worstMoment is a directory in which somebody saves right before the file is
// touched.
type worstMoment struct {
	Dir
	save func()
}

func (d *worstMoment) Exchange(ctx context.Context, name, taken, staged string) (took, put error) {
	d.save()
	return d.Dir.Exchange(ctx, name, taken, staged)
}

func (d *worstMoment) Put(ctx context.Context, from, to string) error {
	d.save()
	return d.Dir.Put(ctx, from, to)
}

func TestReplaceKeepsModeAndWhatWasThere(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "comments.json")
	if err := os.WriteFile(filepath.Join(dir, "real.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real.json", file); err != nil {
		t.Fatal(err)
	}
	if err := Update(context.Background(), LocalStore(file, "me", time.Now), func([]byte) ([]byte, error) { return []byte(`{"a": []}`), nil }); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if link, err := os.Readlink(file); err != nil || link != "real.json" {
		t.Errorf("the link became %q, %v", link, err)
	}
	previous, err := filepath.Glob(filepath.Join(dir, ".real.json.previous-*"))
	if err != nil || len(previous) != 1 {
		t.Fatalf("previous contents: %v, %v", previous, err)
	}
	if data, err := os.ReadFile(previous[0]); err != nil || string(data) != "{}" {
		t.Errorf("previous content %q, %v", data, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, ".real.json.lock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock is still there: %v", err)
	}
}

func TestReplaceIfRefusesAnOldVersion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	store := LocalStore(file, "me", time.Now)
	ctx := context.Background()
	_, absent, err := store.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := store.ReplaceIf(ctx, absent, []byte("[]")); !errors.Is(err, ErrChanged) {
		t.Errorf("error %v", err)
	}
	if data, _ := os.ReadFile(file); string(data) != "{}" {
		t.Errorf("the file became %q", data)
	}
}

// A program killed while it holds the lock leaves the file whole, and the lock
// is broken when it is old enough, not before.
func TestKilledHolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	if err := os.WriteFile(file, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
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
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()

	change := func(later, budget time.Duration) error {
		ctx, cancel := context.WithTimeout(context.Background(), budget)
		defer cancel()
		clock := func() time.Time { return time.Now().Add(later) }
		return Update(ctx, LocalStore(file, "next", clock), func([]byte) ([]byte, error) { return []byte(`{"a": []}`), nil })
	}
	if err := change(0, 200*time.Millisecond); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "sleeper") {
		t.Errorf("while the lock is young: %v", err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "{}" {
		t.Errorf("the file is %q, %v", data, err)
	}
	if err := change(LockTimeout+time.Second, updateBudget); err != nil {
		t.Errorf("when the lock is old: %v", err)
	}
}

// Ten who wait for one old lock: one at a time gets it, and none gets it while
// another holds it.
func TestOldLockIsBrokenOnce(t *testing.T) {
	path := t.TempDir()
	old := time.Now().Add(-LockTimeout - time.Minute)
	lock := filepath.Join(path, ".lock")
	if err := os.WriteFile(lock, []byte("gone\nnobody\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(lock, old, old); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 10 {
		wg.Go(func() {
			held, unlock, err := AcquireLock(ctx, lockDir{path, time.Now}, ".lock", "w", pause)
			if err != nil {
				t.Error(err)
				return
			}
			if !mu.TryLock() {
				t.Error("two hold the lock")
				return
			}
			if !held() {
				t.Error("the lock is not held by its holder")
			}
			mu.Unlock()
			if err := unlock(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	left, err := os.ReadDir(path)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDeleteVersusExtend(t *testing.T) {
	zone := paris(t)
	now := at(t, "2026-11-20 10:30")
	data := []byte(`{"a": [{"name": "x", "date": "2026-12-01 10:00"}]}`)
	id := Parse("c", data, zone, Options{}).Bookings[0].ID
	released, _, err := Release(data, zone, id, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Extend(released, zone, id, at(t, "2026-12-03"), now); !errors.Is(err, ErrNotFound) {
		t.Errorf("a released booking came back: %v", err)
	}
}

func TestUpdateTellsTheEditorsError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	want := errors.New("no")
	if err := Update(context.Background(), LocalStore(file, "me", time.Now), func([]byte) ([]byte, error) { return nil, want }); !errors.Is(err, want) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file was made: %v", err)
	}
}
