package serve_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/serve"
)

func TestTwoAtTheSameMoment(t *testing.T) {
	c := newCounter(t)
	c.write(c.comments, "{\n  // ours\n}\n")
	c.open("eva", "/book/?at=atlas:0")
	c.open("mira", "/book/?at=atlas:0")
	for round := range 10 {
		c.later(time.Hour)
		codes := make([]int, 2)
		var both sync.WaitGroup
		for i, user := range []string{"eva", "mira"} {
			r := c.form(user, "/book/?at=atlas:0", "action", "book", "until", "30m")
			both.Go(func() { codes[i] = c.do(r).Code })
		}
		both.Wait()
		if codes[0]+codes[1] != 303+409 {
			t.Fatalf("round %d: %v, want one that is saved and one that is refused\n%s", round, codes, c.file())
		}
		if n := len(c.bookings()); n != round+1 {
			t.Fatalf("round %d: %d bookings\n%s", round, n, c.file())
		}
	}
}

// An edited file is one that somebody saves in an editor, which knows of no
// lock, right before a change of the program's is put in place.
type edited struct {
	serve.File
	edit func()
}

func (e *edited) Update(ctx context.Context, by booking.By, change func([]byte) ([]byte, error)) error {
	return e.File.Update(ctx, by, func(data []byte) ([]byte, error) {
		next, err := change(data)
		if e.edit != nil {
			e.edit()
			e.edit = nil
		}
		return next, err
	})
}

func TestAnEditByHandAtTheSameMoment(t *testing.T) {
	e := &edited{}
	c := newCounter(t, func(o *serve.Options, _ *serve.AuthOptions) {
		e.File = o.Booking.File()
		o.Booking.File = func() serve.File { return e }
	})
	c.write(c.comments, "{}")
	e.edit = func() { c.write(c.comments, `{"dione": [{"name": "kai", "date": "2026-12-01"}]} // by hand`) }
	if w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "1d"); w.Code != 303 {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	if all := c.bookings(); len(all) != 2 || all[0].Name != "eva" || all[1].Name != "kai" ||
		!strings.HasSuffix(c.file(), "// by hand") {
		t.Errorf("one of the two is lost:\n%s", c.file())
	}
	// The one by hand may be what stands in the way.
	c.later(48 * time.Hour)
	e.edit = func() { c.write(c.comments, `{"atlas": [{"name": "kai", "date": "2026-12-01"}]} // by hand`) }
	if w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "1d"); w.Code != 409 ||
		len(c.bookings()) != 1 {
		t.Errorf("%d\n%s", w.Code, c.file())
	}
}

// An unrecorded file is one on a disk with room for the bookings, and none for the record of changes.
type unrecorded struct{ serve.File }

func (u unrecorded) Update(ctx context.Context, by booking.By, change func([]byte) ([]byte, error)) error {
	if err := u.File.Update(ctx, by, change); err != nil {
		return err
	}
	return &booking.MadeError{Err: syscall.ENOSPC}
}

// A booking that cannot be recorded is made all the same. The page says so, and the log has the error.
func TestAFullDiskSaysWhatIsSaved(t *testing.T) {
	var log bytes.Buffer
	c := newCounter(t, func(o *serve.Options, _ *serve.AuthOptions) {
		file := o.Booking.File()
		o.Booking.File = func() serve.File { return unrecorded{file} }
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	c.write(c.comments, "{}")
	saved := func(want string, form ...string) {
		t.Helper()
		log.Reset()
		w := c.post("eva", "/book/?at=atlas:0", form...)
		if w.Code != 303 || !strings.Contains(w.Header().Get("Location"), want) ||
			!strings.Contains(log.String(), "no space left on device") {
			t.Fatalf("%s: %d to %q\n%s\n%s", form, w.Code, w.Header().Get("Location"), w.Body, log.String())
		}
	}
	saved("saved=", "action", "book", "until", "1d")
	saved("end=", "action", "extend", "id", c.bookings()[0].ID, "end", "1d")
	saved("released=", "action", "release", "id", c.bookings()[0].ID)
}

// Where the bookings are away, or are no file, the form says so, whether it is opened or sent.
func TestBookingsThatAreAway(t *testing.T) {
	for name, remove := range map[string]func(file string) error{
		"a directory in its place": func(file string) error { return os.Mkdir(file, 0o755) },
		"a link to a directory":    func(file string) error { return os.Symlink(filepath.Dir(file), file) },
		"a link to a place that is away": func(
			file string) error {
			return os.Symlink("/nonexistent/away/comments.json", file)
		},
		"its directory is away": func(
			file string) error {
			return os.Rename(filepath.Dir(file), filepath.Dir(file)+".away")
		},
		"a list in the place of the object": func(
			file string) error {
			return os.WriteFile(file, []byte(`[{"atlas": []}]`), 0o644)
		},
	} {
		c := newCounter(t)
		c.write(c.comments, "{}")
		if err := errors.Join(os.Remove(c.comments), remove(c.comments)); err != nil {
			t.Fatal(err)
		}
		for _, w := range []*httptest.ResponseRecorder{c.open("eva", "/book/?at=atlas:0"),
			c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "1d")} {
			page := w.Body.String()
			if w.Code >= 500 || !strings.Contains(page, "Bookings cannot be saved") ||
				!strings.Contains(page, "the bookings cannot be read: ") &&
					!strings.Contains(page, "the bookings are an object") {
				t.Errorf("%s: %d\n%s", name, w.Code, page)
			}
		}
	}
}

// A link that leads to another file counts at once, as it does for the generator.
func TestLinkThatLeadsElsewhere(t *testing.T) {
	c := newCounter(t)
	other := c.comments + ".other"
	c.write(c.comments+".first", "{}")
	c.write(other, "{}")
	link := func(to string) {
		if err := errors.Join(os.Symlink(to, c.comments+".link"),
			os.Rename(c.comments+".link", c.comments)); err != nil {
			t.Fatal(err)
		}
	}
	link(c.comments + ".first")
	if w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "1d"); w.Code != 303 {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	link(other)
	if w := c.post("eva", "/book/?at=atlas:1", "action", "book", "until", "1d"); w.Code != 303 {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	if data, err := os.ReadFile(other); err != nil || !strings.Contains(string(data), `"eva"`) {
		t.Errorf("the booking is not in the file that the link leads to: %s, %v", data, err)
	}
}
