package booking

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func codes(c *Calendar) (all []string) {
	for _, p := range c.Problems {
		all = append(all, p.Code)
	}
	return all
}

// What a program took away that died counts for the board, with or without a
// copy of what was last good, and the next one to change anything puts it back.
func TestLoadWhatAProgramTookAwayThatDied(t *testing.T) {
	const before = `{"a": [{"name": "x"}]}`
	dir := t.TempDir()
	file := filepath.Join(dir, "comments.json")
	name := ".comments.json.taken-TOKEN." + fingerprint([]byte(before)) + "." + fingerprint([]byte("new"))
	write(before)(t, filepath.Join(dir, name))
	write("new")(t, filepath.Join(dir, ".comments.json.new-TOKEN"))
	for _, state := range []string{"", t.TempDir()} {
		c, err := Load(file, state, time.UTC, Options{})
		if err != nil || briefs(c, time.UTC) != "a/0 x -..-" || !slices.Equal(codes(c), []string{"booking:taken"}) || !strings.Contains(c.Problems[0].Message, name) {
			t.Errorf("with state %q: %s, problems %v, %v", state, briefs(c, time.UTC), c.Problems, err)
		}
	}
	add := func(data []byte) ([]byte, error) {
		next, _, err := Add(data, time.UTC, Booking{Host: "b", Name: "y"})
		return next, err
	}
	if err := Update(context.Background(), LocalStore(file, "next", time.Now), add); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file, "", time.UTC, Options{})
	if err != nil || briefs(c, time.UTC) != "a/0 x -..-\nb/0 y -..-" || len(c.Problems) > 0 {
		t.Errorf("afterwards: %s, problems %v, %v", briefs(c, time.UTC), c.Problems, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".comments.json.[tn]*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Of somebody who deletes the file nothing is put back.
func TestDeletedStaysDeleted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	store := LocalStore(file, "me", time.Now)
	for _, name := range []string{"x", "y"} {
		if err := Update(context.Background(), store, func(data []byte) ([]byte, error) {
			next, _, err := Add(data, time.UTC, Booking{Host: "a", Name: name})
			return next, err
		}); err != nil {
			t.Fatal(err)
		}
	}
	remove(t, file)
	if data, version, err := store.Read(context.Background()); data != nil || version != Version(nil) || err != nil {
		t.Errorf("read %q, %s, %v", data, version, err)
	}
	if c, err := Load(file, "", time.UTC, Options{}); err != nil || len(c.Bookings)+len(c.Problems) > 0 {
		t.Errorf("bookings %v, problems %v, %v", c.Bookings, c.Problems, err)
	}
}

// A script that had the file open while it was changed writes into what it had
// open; the board says so, and the next change keeps it where people see it.
func TestWriteIntoWhatWasReplaced(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "comments.json")
	write(`{"a": [{"name": "x"}]}`)(t, file)
	script, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer script.Close()
	book := func(host string) {
		t.Helper()
		if err := Update(context.Background(), LocalStore(file, "me", time.Now), func(data []byte) ([]byte, error) {
			next, _, err := Add(data, time.UTC, Booking{Host: host, Name: "program"})
			return next, err
		}); err != nil {
			t.Fatal(err)
		}
	}
	book("b")
	if saved := Saved(file); len(saved) > 0 {
		t.Fatalf("before anybody wrote: %v", saved)
	}
	const late = `{"a": [{"name": "x"}, {"name": "late"}]}`
	if _, err := script.WriteAt([]byte(late), 0); err != nil {
		t.Fatal(err)
	}
	for _, change := range []string{"", "c", "d", "e"} {
		if change != "" {
			book(change)
		}
		saved := Saved(file)
		if len(saved) != 1 {
			t.Fatalf("after change %q: %v", change, saved)
		}
		if data, err := os.ReadFile(filepath.Join(dir, saved[0])); err != nil || string(data) != late {
			t.Errorf("after change %q: %s holds %q, %v", change, saved[0], data, err)
		}
		if change != "" && !strings.HasPrefix(saved[0], "comments.json.saved-") {
			t.Errorf("after change %q it lies in %s, where nobody sees it", change, saved[0])
		}
		c, err := Load(file, "", time.UTC, Options{})
		if err != nil || !slices.Equal(codes(c), []string{"booking:saved"}) || !strings.Contains(c.Problems[0].Message, saved[0]) {
			t.Errorf("after change %q the board says %v, %v", change, c.Problems, err)
		}
	}
}

// A file system that cannot exchange two names, as NFS: whoever saves by rename
// right before the file is touched, or in the moment in which it has no name, is heard.
func TestFileSystemThatCannotExchange(t *testing.T) {
	for _, moment := range []string{"before", "between"} {
		dir := t.TempDir()
		file := filepath.Join(dir, "comments.json")
		write("{}")(t, file)
		store := newLocal(file, "me", time.Now)
		saved := false
		save := func() {
			if !saved {
				saved = true
				write(`{"b": [{"name": "hand"}]}`)(t, file+".swp")
				if err := os.Rename(file+".swp", file); err != nil {
					t.Fatal(err)
				}
			}
		}
		local := &localDir{dir: dir, swap: func(a, b string) error { return errors.ErrUnsupported }}
		store.file.dir = local
		if moment == "before" {
			local.swap = func(a, b string) error { save(); return errors.ErrUnsupported }
		} else {
			store.file.dir = &takenApart{local, save}
		}
		if err := Update(context.Background(), store, func(data []byte) ([]byte, error) {
			next, _, err := Add(data, time.UTC, Booking{Host: "a", Name: "program"})
			return next, err
		}); err != nil {
			t.Fatalf("%s: %v", moment, err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := briefs(Parse("c", data, time.UTC, Options{}), time.UTC), "a/0 program -..-\nb/0 hand -..-"; !saved || got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", moment, got, want)
		}
	}
}

// takenApart is a directory in which somebody is between the two halves of an exchange.
type takenApart struct {
	*localDir
	between func()
}

func (d *takenApart) Exchange(ctx context.Context, name, taken, staged string) (took, put error) {
	took = d.Rename(ctx, name, taken)
	d.between()
	return took, d.Put(ctx, staged, name)
}

// Somebody who copies a file into place over a network empties it first.
func TestWaitsForWhoIsAboutToSave(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	write("")(t, file)
	reads := 0
	place := &filledLater{LocalStore(file, "me", time.Now), func() {
		if reads++; reads == 2 {
			write(`{"b": [{"name": "hand"}]}`)(t, file)
		}
	}}
	if err := Update(context.Background(), place, func(data []byte) ([]byte, error) {
		next, _, err := Add(data, time.UTC, Booking{Host: "a", Name: "program"})
		return next, err
	}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := briefs(Parse("c", data, time.UTC, Options{}), time.UTC), "a/0 program -..-\nb/0 hand -..-"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

type filledLater struct {
	Store
	read func()
}

func (p *filledLater) Read(ctx context.Context) ([]byte, string, error) {
	p.read()
	return p.Store.Read(ctx)
}

// TestWhoLostTheLockChangesNothing: the lock was broken while its holder slept.
func TestWhoLostTheLockChangesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "comments.json")
	if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	k := NewKeeper(&localDir{dir: dir, swap: swap}, "comments.json")
	k.Locked(func() bool { return false })
	if err := k.ReplaceIf(context.Background(), Version([]byte("{}")), []byte("[]")); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if data, err := os.ReadFile(path); string(data) != "{}" {
		t.Errorf("the file is %q, %v", data, err)
	}
	k.Locked(nil)
	if err := k.ReplaceIf(context.Background(), Version([]byte("{}")), []byte("[]")); err != nil {
		t.Error(err)
	}
}
