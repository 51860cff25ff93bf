package booking

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	if err := Open(file, nil).Update(ctx, testBy, addProgram); !errors.Is(err, ErrLocked) {
		t.Errorf("while another program holds the lock: %v", err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "{}" {
		t.Errorf("the file is %q, %v", data, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := Open(file, nil).Update(context.Background(), testBy, addProgram); err != nil {
		t.Errorf("when its holder is dead: %v", err)
	}
}

// A lock file that somebody removed holds nobody off, so it does not count.
func TestLockThatWasRemoved(t *testing.T) {
	f := Open(filepath.Join(t.TempDir(), "comments.json"), nil)
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
			f, other := Open(file, nil), Open(file, nil)
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
				next, _, err := Add(data, In(time.UTC), Booking{Host: "a", Name: "first"})
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
		f := Open(file, nil)
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
					next, _, err := Add(data, In(time.UTC), Booking{Host: "a", Name: "x", Comment: comment})
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
