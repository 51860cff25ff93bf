package booking_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

func TestLoad(t *testing.T) {
	zone := paris(t)
	good := `{"a": [{"name": "x"}, {"name": "y"}], "b": {"*": {"name": "z"}}}`
	all := "a/0 x -..-\na/1 y -..-\nb/* z -..-"
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T, file string)
		want   string
		code   string // of the first problem; "" for none
		stands bool   // the last good content stands in for something
	}{
		{"good", func(t *testing.T, file string) {}, all, "", false},
		{"gone", func(t *testing.T, file string) { remove(t, file) }, all, "booking:emptied", true},
		{"started anew", write("{}"), "", "", false},
		{"no directory", func(t *testing.T, file string) {
			if err := os.Rename(filepath.Dir(file), filepath.Dir(file)+".away"); err != nil {
				t.Fatal(err)
			}
		}, all, "booking:unreadable", true},
		{"directory", func(t *testing.T, file string) {
			remove(t, file)
			if err := os.Mkdir(file, 0o755); err != nil {
				t.Fatal(err)
			}
		}, all, "booking:unreadable", true},
		{"FIFO", func(t *testing.T, file string) {
			remove(t, file)
			if err := unix.Mkfifo(file, 0o644); err != nil {
				t.Fatal(err)
			}
		}, all, "booking:unreadable", true},
		{"empty", write(""), all, "booking:emptied", true},
		{"comments alone", write("// nobody\n"), all, "booking:emptied", true},
		{"half saved", write(`{"a": [{"name": "new"}, {"na`), all, "booking:syntax", true},
		{"UTF-16", write("\xff\xfe{\x00"), all, "booking:encoding", true},
		{"one comma missing", write(`{"a": [{"name": "new"} {"name": "y"}]}`), all, "booking:syntax", true},
		{"one brace missing", write("{\"a\": [\n{\"name\": \"x\",\n{\"name\": \"y\"}],\n\"b\": {\"*\": {\"name\": \"z\"}}}"),
			all, "booking:syntax", true},
		{"a place that is damaged", write(`{"a": [{"name": @ }, {"name": "new"}]}`), all, "booking:syntax", true},
	} {
		for _, copies := range []string{"both", "beside alone", "state alone"} {
			if copies == "beside alone" && tc.name == "no directory" {
				continue // it is gone, too
			}
			t.Run(tc.name+", "+copies, func(t *testing.T) {
				state := t.TempDir()
				file := filepath.Join(t.TempDir(), "data", "comments.json")
				if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				write(good)(t, file)
				if copies == "state alone" { // nothing can be written beside
					if err := os.Mkdir(filepath.Join(filepath.Dir(file), ".comments.json.last-good"), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				now := at(t, "2026-11-20 10:30")
				was, err := booking.Load(file, state, inParis(t), booking.Options{Now: now})
				if err != nil {
					t.Fatal(err)
				}
				if unkept := len(was.Problems) == 1 &&
					was.Problems[0].Code == "booking:unkept"; unkept != (copies == "state alone") || !unkept && len(was.Problems) > 0 {
					t.Errorf("problems:\n%s", problems(was.Problems))
				}
				if copies == "beside alone" {
					state = t.TempDir()
				}
				tc.damage(t, file)
				c, err := booking.Load(file, state, inParis(t), booking.Options{Now: now.Add(time.Hour)})
				if err != nil {
					t.Fatal(err)
				}
				if got := briefs(c, zone); got != tc.want {
					t.Errorf("got\n%s\nwant\n%s", got, tc.want)
				}
				c.Problems = slices.DeleteFunc(c.Problems, func(p snapshot.Problem) bool { return p.Code == "booking:unkept" })
				if tc.code == "" && (len(c.Problems) > 0 || c.Broken) || tc.code != "" &&
					(len(c.Problems) == 0 || c.Problems[0].Code != tc.code || !c.Broken) {
					t.Errorf("broken %v, problems:\n%s", c.Broken, problems(c.Problems))
				}
				if tc.stands != c.LastGood.Equal(now) || !tc.stands && !c.LastGood.IsZero() {
					t.Errorf("last good is of %v", c.LastGood)
				}
			})
		}
	}
}

// A link to a file system that is away: what is mounted there again has the bookings, so nothing is changed.
func TestLinkThatLeadsNowhere(t *testing.T) {
	const good = `{"a": [{"name": "x"}]}`
	for _, missing := range []string{"the file", "its directory"} {
		for _, copied := range []bool{true, false} {
			dir, state := t.TempDir(), t.TempDir()
			mounted, link := filepath.Join(dir, "nfs"), filepath.Join(dir, "data", "comments.json")
			if err := errors.Join(os.Mkdir(mounted, 0o755), os.Mkdir(filepath.Dir(link), 0o755),
				os.Symlink("../nfs/real.json", link)); err != nil {
				t.Fatal(err)
			}
			write(good)(t, link)
			if copied {
				if _, err := booking.Load(link, state, booking.Zone{Location: time.UTC},
					booking.Options{Now: at(t, friday)}); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Rename(mounted, mounted+".away"); err != nil {
				t.Fatal(err)
			}
			if missing == "the file" {
				if err := os.Mkdir(mounted, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			f := booking.Open(link, booking.Zone{Location: time.UTC})
			err := f.Update(t.Context(), testBy, addProgram)
			if left, _ := os.ReadDir(mounted); err == nil || len(left) > 0 {
				t.Errorf("without %s: %v, and there are %v", missing, err, left)
			}
			var restorable *booking.RestorableError
			if !errors.As(err, &restorable) || !errors.Is(err, booking.ErrBroken) ||
				!strings.Contains(restorable.Hint, "mount ") {
				t.Fatalf("without %s: %v", missing, err)
			}
			cal, err := booking.Load(link, state, booking.Zone{Location: time.UTC}, booking.Options{Now: at(t, friday)})
			if err != nil || !cal.Broken || cal.Problems[0].Code != "booking:unreadable" ||
				strings.Contains(cal.Problems[0].Message, dir) || len(cal.Bookings) == 1 != copied {
				t.Errorf("without %s, copied %v: %v, %+v", missing, copied, err, cal)
			}

			_, anew, _ := strings.Cut(restorable.Hint, "or begin without bookings: ")
			if out, err := exec.Command("sh", "-c", anew).CombinedOutput(); err != nil {
				t.Errorf("%s: %v, %s", anew, err, out)
			}
			if err := booking.Open(link, booking.Zone{Location: time.UTC}).Update(t.Context(), testBy, addProgram); err != nil {
				t.Errorf("after %s: %v", anew, err)
			}
		}
	}
}

// A directory whose file system is away is empty: only the generator's copy knows of the bookings.
func TestEmptyDirectoryAndTheGeneratorsCopy(t *testing.T) {
	file, state := filepath.Join(t.TempDir(), "data", "comments.json"), t.TempDir()
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	write(`{"a": [{"name": "x"}]}`)(t, file)
	if _, err := booking.Load(file, state, booking.Zone{Location: time.UTC},
		booking.Options{Now: at(t, friday)}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(filepath.Dir(file)), os.Mkdir(filepath.Dir(file), 0o755)); err != nil {
		t.Fatal(err)
	}
	err := booking.Open(file, booking.Zone{Location: time.UTC}).WithCopy(state).Update(t.Context(), testBy, addProgram)
	var restorable *booking.RestorableError
	if !errors.As(err, &restorable) || !strings.Contains(restorable.Hint,
		"cp "+filepath.Join(state, booking.LastGoodName)+" "+file+"; ") {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(file); err == nil {
		t.Error("the file was made")
	}
}

// Somebody who may write in the directory cannot read another account's file by the board's messages.
func TestFileOfSomebodyElseIsNotQuoted(t *testing.T) {
	need.Root(t)
	const secret = "hunter2"
	for content, code := range map[string]string{
		`{"` + secret + `": 1}`:      "booking:type",
		`password = ` + secret:       "booking:syntax",
		`{"a": {"` + secret + `"} }`: "booking:syntax",
	} {
		for _, tc := range []struct {
			linkOf, fileOf int
			quoted         bool
		}{{54001, 54002, false}, {54001, 0, false}, {54001, 54001, true}, {0, 54002, true}} {
			dir := t.TempDir()
			link, file := filepath.Join(dir, "comments.json"), filepath.Join(dir, "elsewhere")
			write(content)(t, file)
			if err := errors.Join(os.Symlink(file, link), os.Lchown(link, tc.linkOf, -1),
				os.Chown(file, tc.fileOf, -1)); err != nil {
				t.Fatal(err)
			}
			// The account of the test is root, whose own links are trusted, and so are those of nobody else.
			cal, err := booking.Load(link, "", booking.Zone{Location: time.UTC}, booking.Options{Now: at(t, friday)})
			if err != nil || len(cal.Problems) == 0 || cal.Problems[0].Code != code || cal.Problems[0].Line != 1 {
				t.Fatalf("%s: %v, %+v", content, err, cal)
			}
			said := problems(cal.Problems)
			if err := booking.Open(link, booking.Zone{Location: time.UTC}).Intact([]byte(content)); err != nil {
				said += err.Error()
			}
			if strings.Contains(said, secret) && !tc.quoted || strings.Contains(said, "what it says is not shown") == tc.quoted {
				t.Errorf("a link of %d to a file of %d: %s", tc.linkOf, tc.fileOf, said)
			}
		}
	}
}

func TestLoadWithoutState(t *testing.T) {
	t.Chdir(t.TempDir())
	write(`{"a": [{"name": "not of this file"}]}`)(t, booking.LastGoodName)
	file := filepath.Join(t.TempDir(), "comments.json")
	write(`{"a": [{"name": "x"}], "b": [{"name": "y"}`)(t, file)
	c, err := booking.Load(file, "", inParis(t), booking.Options{})
	if err != nil || !c.Broken || briefs(c, paris(t)) != "a/0 x -..-" || !c.LastGood.IsZero() {
		t.Errorf("%v %+v", err, c)
	}
}

// The copy is written once for a content; what cannot be written is a problem, and nothing is left.
func TestTheCopyBesideIsKept(t *testing.T) {
	file := newFile(t)
	write(`{"a": [{"name": "x"}]}`)(t, file)
	load := func(now time.Time) *booking.Calendar {
		cal, err := booking.Load(file, "", booking.Zone{}, booking.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return cal
	}
	var first, second os.FileInfo
	for i, info := range []*os.FileInfo{&first, &second} {
		cal := load(at(t, friday).Add(time.Duration(i) * time.Hour))
		var err error
		if *info, err = os.Stat(beside(file, ".last-good")); err != nil || len(cal.Problems) > 0 {
			t.Fatal(err, cal.Problems)
		}
	}
	if same := os.SameFile(first, second); !same || second.ModTime().Sub(first.ModTime()) != time.Hour {
		t.Errorf("the second copy is of %v, the first of %v, the same file: %v", second.ModTime(), first.ModTime(), same)
	}
	remove(t, beside(file, ".last-good"))
	if err := os.MkdirAll(filepath.Join(beside(file, ".last-good"), "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if cal := load(at(t, friday)); len(cal.Problems) != 1 || cal.Problems[0].Code != "booking:unkept" {
		t.Errorf("with a directory in the place of the copy:\n%s", problems(cal.Problems))
	}
	if left, err := filepath.Glob(beside(file, ".new-") + "*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestArchiveAndRecordReadEndsAsTheCalendar: where a booking by date alone ends when the day begins, it is pruned,
// archived and recorded with that end.
func TestArchiveAndRecordReadEndsAsTheCalendar(t *testing.T) {
	file := newFile(t)
	f := booking.Open(file, booking.Zone{DayStarts: true})
	const text = `{"a": [{"name": "x", "date": "2026-11-20"}, {"name": "y", "date": "2026-11-25", "id": "y"}]}`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	moved, _, err := f.Prune(t.Context(), booking.By{"ada", noon}, noon)
	if err != nil || len(moved) != 1 || !moved[0].Until.Equal(noon.Add(-12*time.Hour)) {
		t.Errorf("pruned %+v, %v", moved, err)
	}
	if err := f.Update(t.Context(), booking.By{"ada", noon},
		func([]byte) ([]byte, error) { return []byte("{}"), nil }); err != nil {
		t.Fatal(err)
	}
	want := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	if all := f.Record(); len(all) != 1 || all[0].ID != "y" || all[0].Until == nil || !all[0].Until.Equal(want) {
		t.Errorf("recorded %+v", all)
	}
}

// What is over moves into the archive, once.
func TestPruneIntoTheArchive(t *testing.T) {
	file := newFile(t)
	f := booking.Open(file, booking.Zone{})
	archive := filepath.Join(filepath.Dir(file), "comments.archive.json")
	prune := func(want int) []byte {
		t.Helper()
		moved, into, err := f.Prune(t.Context(), testBy, at(t, friday))
		if err != nil || len(moved) != want || into != filepath.Base(archive) {
			t.Errorf("%d bookings moved into %s, %v; want %d", len(moved), into, err, want)
		}
		data, _ := os.ReadFile(archive)
		return data
	}
	prune(0) // without a file
	const old = `{"a": [{"name": "x", "date": "2020-01-01"}, {"name": "y"}]}`
	write(old)(t, file)
	if err := os.Mkdir(archive, 0o755); err != nil {
		t.Fatal(err)
	}
	if moved, _, err := f.Prune(t.Context(), testBy, at(t, friday)); err == nil || moved != nil {
		t.Errorf("with a directory for an archive: %v, %v", moved, err)
	}
	if data, _ := os.ReadFile(file); string(data) != old {
		t.Errorf("the bookings became %s", data)
	}
	remove(t, archive)
	if got := string(prune(1)); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"x"`) {
		t.Errorf("the archive is %q", got)
	}
	prune(0)
	write(`{"a": [{"name": "x", "date": "2020-01-01"}, {"name": "z", "date": "2020-01-02"}]}`)(t, file)
	if got := string(prune(2)); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"z"`) {
		t.Errorf("the archive has %q, want each booking once", got)
	}
	// A last line that somebody left without its end is not run into.
	write(`{"id":"x"}`)(t, archive)
	write(old)(t, file)
	if got := string(prune(1)); !strings.HasPrefix(got, "{\"id\":\"x\"}\n{") {
		t.Errorf("the archive is %q", got)
	}
}

// An archive may be as large as a file that is read, and no larger: then the bookings stay where they are.
func TestFullArchive(t *testing.T) {
	file := newFile(t)
	f := booking.Open(file, booking.Zone{})
	archive := filepath.Join(filepath.Dir(file), "comments.archive.json")
	const old = `{"a": [{"name": "x", "date": "2020-01-01"}]}`
	prune := func() ([]booking.Booking, error) {
		t.Helper()
		write(old)(t, file)
		moved, _, err := f.Prune(t.Context(), testBy, at(t, friday))
		return moved, err
	}
	fill := func(size int) {
		t.Helper()
		write(strings.Repeat("#", size-1)+"\n")(t, archive)
	}
	if _, err := prune(); err != nil {
		t.Fatal(err)
	}
	line, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}

	fill(booking.MaxFileBytes - len(line) + 1)
	if moved, err := prune(); err == nil || moved != nil || !strings.Contains(err.Error(), "another name") {
		t.Errorf("an archive that would be too large: %v, %v", moved, err)
	}
	if data, _ := os.ReadFile(file); string(data) != old {
		t.Errorf("the bookings became %s", data)
	}
	fill(booking.MaxFileBytes - len(line))
	if moved, err := prune(); err != nil || len(moved) != 1 {
		t.Errorf("an archive that has just room: %v, %v", moved, err)
	}
}

// Nothing is changed where bookings stood and nothing stands, or where there is
// an error of syntax, and no copy is overwritten.
func TestUpdateLeavesWhatIsBrokenAlone(t *testing.T) {
	const good = `{"a": [{"name": "x"}]}`
	for name, damage := range map[string]func(t *testing.T, file string){
		"empty": write(""), "blank": write(" \n"), "comments alone": write("// x\n"), "gone": remove,
		"one brace missing": write(`{"a": [{"name": "x"]}`), "UTF-16": write("\xff\xfe{\x00"),
	} {
		for _, last := range []string{"program", "generator"} {
			file := newFile(t)
			f := booking.Open(file, booking.Zone{})
			if last == "program" {
				write("{}")(t, file)
				if err := f.Update(t.Context(), testBy, func([]byte) ([]byte, error) { return []byte(good), nil }); err != nil {
					t.Fatal(err)
				}
			} else {
				write(good)(t, file)
				if _, err := booking.Load(file, t.TempDir(), booking.Zone{Location: time.UTC},
					booking.Options{Now: time.Now()}); err != nil {
					t.Fatal(err)
				}
			}
			previous, _ := os.ReadFile(beside(file, ".previous"))
			damage(t, file)
			before, _ := os.ReadFile(file)
			err := f.Update(t.Context(), testBy, addProgram)
			if !errors.Is(err, booking.ErrBroken) {
				t.Errorf("%s: got %v", name, err)
			}
			var restorable *booking.RestorableError
			restore := beside(file, ".last-good") + " " + file
			if !errors.As(err, &restorable) || !strings.Contains(restorable.Hint, ": cp "+restore+"; ") ||
				strings.Contains(err.Error(), filepath.Dir(file)) {
				t.Errorf("%s: %v does not say how to restore it", name, err)
			}
			after, _ := os.ReadFile(file)
			kept, _ := os.ReadFile(beside(file, ".last-good"))
			was, _ := os.ReadFile(beside(file, ".previous"))
			if string(after) != string(before) || string(kept) != good || string(was) != string(previous) {
				t.Errorf("%s: the file became %q, the copy %q, the previous one %q", name, after, kept, was)
			}
			if got := briefs(f.Load(booking.Options{}), time.UTC); got != "a/0 x -..-" {
				t.Errorf("%s: %s is shown", name, got)
			}
			write("{}")(t, file) // started anew
			if err := f.Update(t.Context(), testBy, addProgram); err != nil {
				t.Errorf("%s, started anew: %v", name, err)
			}
		}
	}
}

// A file that never had bookings is as good empty, gone or with comments alone.
func TestEmptyFileThatNeverHadBookings(t *testing.T) {
	for _, content := range []string{"", "// nobody\n", "{}", "none"} {
		file := newFile(t)
		f := booking.Open(file, booking.Zone{})
		if content != "none" {
			write(content)(t, file)
		}
		c, err := booking.Load(file, t.TempDir(), booking.Zone{Location: time.UTC}, booking.Options{Now: time.Now()})
		if err != nil || c.Broken || len(c.Problems) > 0 {
			t.Errorf("%q: %v, problems %v", content, err, c.Problems)
		}
		if err := f.Update(t.Context(), testBy, addProgram); err != nil {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// A file that must not be changed says how it is restored, where there is something to restore.
func TestIntact(t *testing.T) {
	now := at(t, "2026-11-20 10:30")
	for _, tc := range []struct {
		name, good, data   string
		broken, restorable bool
	}{
		{"good", `{"a": [{"name": "x"}]}`, `{"b": [{"name": "y"}]}`, false, false},
		{"empty, and never had bookings", "", "", false, false},
		{"empty, and had none", "{}", "", false, false},
		{"empty, and had one", `{"a": [{"name": "x"}]}`, "// nobody", true, true},
		{"an error of syntax", `{"a": [{"name": "x"}]}`, `{"a": [`, true, true},
		{"an error of syntax from the first day on", "", `{"a": [`, true, false},
	} {
		file := filepath.Join(t.TempDir(), "comments.json")
		if tc.good != "" {
			write(tc.good)(t, file)
			if _, err := booking.Load(file, "", booking.Zone{}, booking.Options{Now: now}); err != nil {
				t.Fatal(err)
			}
		}
		err := booking.Open(file, booking.Zone{}).Intact([]byte(tc.data))
		var restorable *booking.RestorableError
		if errors.Is(err, booking.ErrBroken) != tc.broken || errors.As(err, &restorable) != tc.restorable || !tc.broken &&
			err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// What is no longer in the file is not kept as its last good content: whoever changed it has kept that.
func TestOnlyThePresentContentIsKept(t *testing.T) {
	file := newFile(t)
	write(`{"a": [{"name": "x"}]}`)(t, file)
	const next = `{"b": [{"name": "y"}]}`
	loaded := make(chan error)
	if err := booking.Open(file, booking.Zone{}).Update(t.Context(), testBy, func([]byte) ([]byte, error) {
		go func() {
			_, err := booking.Load(file, "", booking.Zone{}, booking.Options{Now: at(t, friday)})
			loaded <- err
		}()
		time.Sleep(200 * time.Millisecond) // by then it has read the old content, and waits for the lock
		return []byte(next), nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-loaded; err != nil {
		t.Error(err)
	}
	if kept, err := os.ReadFile(beside(file, ".last-good")); err != nil || string(kept) != next {
		t.Errorf("the copy is %q, %v", kept, err)
	}
}
