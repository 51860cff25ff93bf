package booking_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

func recorded(f *booking.File) string {
	var lines []string
	for _, e := range f.Record() {
		lines = append(lines, fmt.Sprintf("%s %s %s:%s %s", e.By, e.Action, e.Host, e.GPU, e.Name))
	}
	return strings.Join(lines, "\n")
}

// a recordTest makes changes to one file at a moment.
type recordTest struct {
	t      *testing.T
	file   string
	record string // the path of the record
	f      *booking.File
	now    time.Time
}

func newRecordTest(t *testing.T) *recordTest {
	file := newFile(t)
	return &recordTest{t, file, filepath.Join(filepath.Dir(file), "bookings.log"), booking.Open(file, booking.Zone{}),
		testBy.At}
}

func (r *recordTest) change(who string, edit func(data []byte) ([]byte, error)) {
	r.t.Helper()
	if err := r.f.Update(context.Background(), booking.By{Name: who, At: r.now}, edit); err != nil {
		r.t.Fatal(err)
	}
}

func (r *recordTest) book(who string, gpu int, hours int) (id string) {
	r.t.Helper()
	r.change(who, func(data []byte) ([]byte, error) {
		next, added, err := booking.Add(data, booking.Zone{},
			booking.Booking{Host: "a", Target: booking.Target{Index: gpu}, Name: who, From: r.now,
				Until: r.now.Add(time.Duration(hours) * time.Hour), Comment: "it's mine"})
		if err == nil {
			id = added[0].ID
		}
		return next, err
	})
	return id
}

func (r *recordTest) opts() booking.Options { return booking.Options{Now: r.now} }

func (r *recordTest) vanished() string {
	var all []string
	for _, e := range booking.Vanished(r.f.Record(), r.f.Load(r.opts()), r.opts()) {
		all = append(all, e.Host+":"+e.GPU+" "+e.Name)
	}
	return strings.Join(all, ", ")
}

func (r *recordTest) read() string {
	r.t.Helper()
	data, err := os.ReadFile(r.file)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

func TestEveryChangeIsRecorded(t *testing.T) {
	r := newRecordTest(t)
	x, y := r.book("ada", 0, 24), r.book("bob", 1, 24)
	r.now = r.now.Add(time.Hour)
	r.change("ada", func(data []byte) ([]byte, error) {
		next, b, err := booking.Extend(data, booking.Zone{}, x, r.now.Add(48*time.Hour), r.now)
		x = b.ID
		return next, err
	})
	r.change("eva", func(data []byte) ([]byte, error) { // for bob
		next, _, err := booking.Release(data, booking.Zone{}, y, r.now)
		return next, err
	})
	later := r.now.Add(72 * time.Hour)
	var z string
	r.change("ada", func(data []byte) ([]byte, error) {
		next, added, err := booking.Add(data, booking.Zone{},
			booking.Booking{Host: "a", Target: booking.Target{All: true}, Name: "ada", From: later,
				Until: later.Add(time.Hour),
				Kind:  booking.Maintenance})
		z = added[0].ID
		return next, err
	})
	r.change("ada", func(data []byte) ([]byte, error) {
		next, _, err := booking.Release(data, booking.Zone{}, z, r.now)
		return next, err
	})
	// What is over goes into the archive, and a person's own edits are nobody's.
	r.now = r.now.Add(240 * time.Hour)
	if old, _, err := r.f.Prune(t.Context(), booking.By{Name: "root", At: r.now}, r.now); err != nil || len(old) != 2 {
		t.Errorf("pruned %v, %v", old, err)
	}
	want := "ada booked a:0 ada\nbob booked a:1 bob\nada changed a:0 ada\neva released a:1 bob\nada booked a:* ada\n" +
		"ada released a:* ada"
	if got := recorded(r.f); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := r.vanished(); got != "" {
		t.Errorf("%s vanished", got)
	}
}

func TestRecordOfABookingThatKeepsItsID(t *testing.T) {
	r := newRecordTest(t)
	write(`{"a": [{"name": "ada", "date": "2026-11-21", "id": "i"}]}`)(t, r.file)
	r.change("ada", func(data []byte) ([]byte, error) {
		next, _, err := booking.Extend(data, booking.Zone{}, "i", r.now.Add(48*time.Hour), r.now)
		return next, err
	})
	if got := r.f.Record(); len(got) != 1 || got[0].Action != booking.Changed || got[0].ID != "i" || got[0].Was != "" {
		t.Errorf("recorded %+v", got)
	}
}

// An editor that was open for long saves an old copy over bookings that were
// acknowledged meanwhile.
func TestBookingsOverwrittenByHand(t *testing.T) {
	r := newRecordTest(t)
	write("{}")(t, r.file)
	r.book("kim", 3, 24)
	old := r.read()
	r.book("ada", 0, 24)
	bob := r.book("bob", 1, 24)
	write(old)(t, r.file)
	if got, want := r.vanished(), "a:0 ada, a:1 bob"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	problems := r.f.Load(r.opts()).Problems
	want := `the booking of "ada" for GPU 0 of a is gone from the file, and was not released: it was booked by "ada" on ` +
		`2026-11-20 10:00 UTC, for Fri 20 Nov 10:00 → Sat 21 Nov 10:00 UTC (1 d). ` +
		`To put it back: gpuboard book a:0 --until 2026-11-21T10:00:00Z --name ada --comment 'it'\''s mine'; or to agree: ` +
		`gpuboard release `
	if len(problems) != 2 || problems[0].Code != "booking:vanished" || problems[0].Host != "a" ||
		*problems[0].GPU != 0 ||
		!strings.HasPrefix(problems[0].Message, want) {
		t.Errorf("got\n%+v\nwant\n%s", problems, want)
	}
	// Said until it is over, or until somebody agrees, or puts it back.
	gone := booking.Vanished(r.f.Record(), r.f.Load(r.opts()), r.opts())
	if err := r.f.RecordReleases(context.Background(), booking.By{Name: "bob", At: r.now}, gone[1:]); err != nil {
		t.Fatal(err)
	}
	if got := r.vanished(); got != "a:0 ada" || !strings.HasSuffix(recorded(r.f), "bob released a:1 bob") ||
		gone[1].ID != bob {
		t.Errorf("after bob agreed: %s\n%s", got, recorded(r.f))
	}
	r.now = r.now.Add(time.Hour)
	back := r.book("ada", 0, 23)
	if got := r.vanished(); got != "" {
		t.Errorf("after it was put back: %s", got)
	}
	r.change("ada", func(data []byte) ([]byte, error) {
		next, _, err := booking.Release(data, booking.Zone{}, back, r.now.Add(time.Minute))
		return next, err
	})
	r.now = r.now.Add(23 * time.Hour)
	if got := r.vanished(); got != "" {
		t.Errorf("when it is over: %s", got)
	}
}

// What people do by hand to a booking that a program made is no loss.
func TestChangedByHandIsNotVanished(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		gone bool
	}{
		"shorter": {
			`{"a": [{"name": "ada", "from": "2026-11-20 10:00", "date": "2026-11-20 11:00"}]}`, false},
		"over": {
			`{"a": [{"name": "ada", "from": "2026-11-20 10:00", "date": "2026-11-20 10:05"}]}`, false},
		"longer":                    {`{"a": [{"name": "ada", "date": "2026-12-20 11:00"}]}`, false},
		"open":                      {`{"a": [{"name": "Ada"}]}`, false},
		"so that it cannot be read": {`{"a": [{"nme": "ada", "date": "2026-11-21 10:00"}]}`, false},
		"by UUID":                   {`{"a": {"GPU-00000001-0000-4000-8000-000000000000": {"name": "ada"}}}`, false},
		"the whole host":            {`{"a": {"*": {"name": "ada"}}}`, false},
		"another name":              {`{"a": [{"name": "countess"}]}`, false},
		"another GPU":               {`{"a": {"1": {"name": "ada"}}}`, true},
		"another person":            {`{"a": [{"name": "bob"}]}`, true},
		"another host":              {`{"b": [{"name": "ada"}]}`, true},
		"another time":              {`{"a": [{"name": "ada", "from": "2027-01-01", "date": "2027-01-02"}]}`, true},
		"maintenance":               {`{"a": [{"name": "ada", "kind": "maintenance"}]}`, true},
		"an older one": {
			`{"a": [{"name": "ada", "from": "2026-11-20 08:00", "date": "2026-11-20 10:10"}]}`, true},
		"none": {`{}`, true},
	} {
		r := newRecordTest(t)
		r.now = r.now.Add(-2 * time.Hour)
		r.book("kim", 1, 1) // over by then
		r.now = r.now.Add(2 * time.Hour)
		r.book("ada", 0, 24)
		write(tc.file)(t, r.file)
		r.now = r.now.Add(30 * time.Minute)
		opts := booking.Options{Now: r.now, Aliases: booking.Aliases{"countess": "ada", "ada": "ada"}}
		if gone := booking.Vanished(r.f.Record(), r.f.Load(opts), opts); (len(gone) == 1) != tc.gone {
			t.Errorf("%s: %v", name, gone)
		}
	}
}

// full is the size from which a record is set aside.
const full = 1 << 20

// The record is bounded, and a line that a program did not finish costs nothing else.
func TestRecordIsBoundedAndMends(t *testing.T) {
	r := newRecordTest(t)
	path := r.record
	lines := strings.Repeat(`{"at":"2026-11-20T10:00:00Z","by":"x","action":"booked","id":"`+strings.Repeat("i",
		40)+`","host":"z","gpu":"0","name":"x"}`+"\n", full/120)
	write(lines+strings.Repeat("x", full/2))(t, path)
	r.book("ada", 0, 24)
	info, err := os.Stat(path)
	if err != nil || info.Size() > 1000 {
		t.Errorf("a full record was not set aside: %v, %v", info, err)
	}
	if info, err = os.Stat(path + ".1"); err != nil || info.Size() < full {
		t.Errorf("what was set aside: %v, %v", info, err)
	}
	torn, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(string(torn)+`{"at":"2026-11-20T10:00:00Z","by":"x","act`)(t, path)
	r.book("bob", 1, 24)
	for _, junk := range []string{"null", "[]", `{"host":"../etc","gpu":"0","id":"j"}`,
		`{"host":"a","gpu":"x","id":"j"}`,
		`{"host":"a","gpu":"0","id":"` + strings.Repeat("j", 9999) + `"}`} {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(f, junk)
		f.Close()
	}
	r.book("eva", 2, 24)
	if got, want := recorded(r.f), "ada booked a:0 ada\nbob booked a:1 bob\neva booked a:2 eva"; !strings.HasSuffix(got,
		"x booked z:0 x\n"+want) {
		t.Errorf("got\n…%s\nwant\n%s", got[max(0, len(got)-200):], want)
	}
	// Of very many that vanished some are named.
	const named = 100
	for i := range named + 10 {
		r.change("ada", func(data []byte) ([]byte, error) {
			next, _, err := booking.Add(data, booking.Zone{},
				booking.Booking{Host: fmt.Sprintf("h%d", i), Name: "ada", Comment: strings.Repeat("é", 600)})
			return next, err
		})
	}
	write("{}")(t, r.file)
	problems := r.f.Load(r.opts()).Problems
	last := problems[len(problems)-1]
	if len(problems) != named+1 || !strings.HasPrefix(last.Message, "14 more bookings") {
		t.Errorf("%d problems, the last one: %+v", len(problems), last)
	}
	for _, p := range problems[:named] {
		if len(p.Message) > snapshot.MaxTextBytes || !strings.Contains(p.Message, "gpuboard release ") {
			t.Errorf("a message that is cut: %s", p.Message)
			break
		}
	}
}

// Where the record cannot be written nothing is changed.
func TestNoChangeWithoutARecord(t *testing.T) {
	r := newRecordTest(t)
	write("{}")(t, r.file)
	for kind, plant := range map[string]func(path string) error{
		"directory":     func(path string) error { return os.Mkdir(path, 0o755) },
		"symbolic link": func(path string) error { return os.Symlink("elsewhere", path) },
		"hard link":     func(path string) error { write("secret")(t, path+"-2"); return os.Link(path+"-2", path) },
	} {
		if err := os.RemoveAll(r.record); err != nil {
			t.Fatal(err)
		}
		if err := plant(r.record); err != nil {
			t.Fatal(err)
		}
		if err := r.f.Update(context.Background(), testBy, addProgram); err == nil || r.read() != "{}" {
			t.Errorf("%s: %v, and the file is %s", kind, err, r.read())
		} else if kind == "hard link" && !errors.Is(err, atomicfile.ErrNotRegular) {
			t.Errorf("%s: %v, want the reason", kind, err)
		}
	}
	// A full one that cannot be set aside does not grow.
	remove(t, r.record)
	write(strings.Repeat("x", full+1))(t, r.record)
	if err := os.Mkdir(r.record+".1", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.f.Update(context.Background(), testBy, addProgram); err == nil || r.read() != "{}" {
		t.Errorf("%v, and the file is %s", err, r.read())
	}
}

// A booking of a whole host or by UUID that vanished names no GPU by number.
func TestVanishedNamesTheGPU(t *testing.T) {
	r := newRecordTest(t)
	write("{}")(t, r.file)
	for _, target := range []booking.Target{{All: true, Index: -1},
		{UUID: "GPU-000000ab-0000-4000-8000-000000000000", Index: -1}, {Index: 2}} {
		r.change("ada", func(data []byte) ([]byte, error) {
			next, _, err := booking.Add(data, booking.Zone{}, booking.Booking{Host: "a", Target: target, Name: "ada"})
			return next, err
		})
	}
	write("{ }")(t, r.file)
	var got []string
	for _, p := range r.f.Load(r.opts()).Problems {
		number := "none"
		if p.GPU != nil {
			number = fmt.Sprint(*p.GPU)
		}
		got = append(got, number)
	}
	if want := "none none 2"; strings.Join(got, " ") != want {
		t.Errorf("numbers %v, want %s", got, want)
	}
	if all := r.f.Load(booking.Options{}).Problems; len(all) != 0 {
		t.Errorf("without a time, bookings are gone: %v", all)
	}
}

// The record is beside the file, and an entry that somebody has made up counts for nothing.
func TestRecordIsBesideTheFile(t *testing.T) {
	for file, want := range map[string]string{"comments.json": "bookings.log", "lab.json": "lab.bookings.log"} {
		dir := t.TempDir()
		err := booking.Open(filepath.Join(dir, file), booking.Zone{}).Update(t.Context(), testBy, addProgram)
		if info, _ := os.Stat(filepath.Join(dir, want)); err != nil || info == nil || info.Size() == 0 {
			t.Errorf("the record of %s is not %s: %v", file, want, err)
		}
	}
	good := booking.Entry{Host: "a", GPU: "0", ID: strings.Repeat("i", booking.MaxIDBytes),
		Name: strings.Repeat("n", booking.MaxNameBytes),
		By:   strings.Repeat("b", booking.MaxNameBytes), Comment: strings.Repeat("c", booking.MaxCommentBytes)}
	if _, ok := good.Booking(); !ok {
		t.Error("an entry whose texts are as long as they may be counts for nothing")
	}
	for what, spoil := range map[string]func(*booking.Entry){
		"host": func(e *booking.Entry) { e.Host = "../a" }, "GPU": func(e *booking.Entry) { e.GPU = "x" },
		"id":      func(e *booking.Entry) { e.ID += "i" },
		"name":    func(e *booking.Entry) { e.Name += "n" },
		"by":      func(e *booking.Entry) { e.By += "b" },
		"comment": func(e *booking.Entry) { e.Comment += "c" },
	} {
		e := good
		spoil(&e)
		if _, ok := e.Booking(); ok {
			t.Errorf("an entry with a bad %s counts", what)
		}
	}
}
