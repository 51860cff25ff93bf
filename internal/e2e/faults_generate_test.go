package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/testenv/faulttest"
)

// below chooses the calls that concern files below a directory: those that
// change something, or those that do not.
func below(dir string, changes bool) func(faulttest.Call) bool {
	return func(c faulttest.Call) bool { return c.Changes == changes && strings.Contains(c.On, dir+"/") }
}

// age makes unfinished files look as if an hour had passed since they were
// begun, and returns how many there are.
func age(t testing.TB, dir string) (found int) {
	t.Helper()
	old := time.Now().Add(-2 * time.Hour)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".") && d.Type().IsRegular() {
			found++
			return os.Chtimes(path, old, old)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// noTemps fails the test when an unfinished file is left below a directory.
func noTemps(t testing.TB, when, dir string) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && atomicfile.IsTemp(d.Name()) {
			t.Errorf("%s: left behind: %s", when, path)
		}
		return err
	})
}

// sane is what holds of any end of the program: no panic, one of the codes
// that were expected, and with 75 a line that says what went wrong.
func sane(t testing.TB, r faulttest.Run, codes ...int) {
	t.Helper()
	switch {
	case strings.Contains(r.Said, "panic:") || strings.Contains(r.Said, "goroutine ") ||
		strings.Contains(r.Said, "fatal error:"):
		t.Errorf("%s: the program broke down:\n%s", r, r.Said)
	case r.Fault.Kill:
	case !slices.Contains(codes, r.Exit):
		t.Errorf("%s: exit %d, want one of %v: %s", r, r.Exit, codes, r.Said)
	case r.Exit != 0 && r.Exit != 3 &&
		(!strings.HasPrefix(r.Said, "gpuboard: error: ") || !strings.Contains(r.Said, r.Message()) &&
			strings.HasPrefix(r.Hit.On, "/") && !strings.HasSuffix(r.Hit.On, ".lock")):
		// A lock that cannot be read counts as lost.
		t.Errorf("%s: exit %d without saying that: %q", r, r.Exit, r.Said)
	case r.Exit == 3 && !strings.Contains(r.Said, "]\n"):
		t.Errorf("%s: exit 3 without a reason code: %q", r, r.Said)
	}
}

// everyCall injects the faults at calls that change a file, and lets calls fail
// that only read one.
func everyCall(t *testing.T, stage func(dir string) faulttest.Scene, faults ...faulttest.Fault) faulttest.Report {
	t.Helper()
	report := faulttest.Everywhere(t, 2, stage, faults...)
	if !t.Failed() {
		faulttest.Everywhere(t, 2, func(dir string) faulttest.Scene {
			s := stage(dir)
			s.Reads, s.Choose = true, below(dir, false)
			return s
		}, faulttest.Broken)
	}
	return report
}

// twinned gives files of the site a compressed twin each, as versions did that
// compressed short ones, too.
func (w *webhost) twinned(names ...string) {
	w.t.Helper()
	const manifest = "state/manifest.json"
	data, err := os.ReadFile(w.path(manifest))
	if err != nil {
		w.t.Fatal(err)
	}
	var listed struct {
		Files  []string        `json:"files"`
		Assets json.RawMessage `json:"assets"`
	}
	if err := json.Unmarshal(data, &listed); err != nil {
		w.t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(w.path("site/" + name))
		if err != nil {
			w.t.Fatal(err)
		}
		var twin bytes.Buffer
		z := gzip.NewWriter(&twin)
		if _, err := z.Write(data); err != nil {
			w.t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			w.t.Fatal(err)
		}
		w.write("site/"+name+".gz", twin.Bytes())
		listed.Files = append(listed.Files, name+".gz")
	}
	slices.Sort(listed.Files)
	if data, err = json.Marshal(listed); err != nil {
		w.t.Fatal(err)
	}
	w.write(manifest, data)
}

func unpacked(t testing.TB, twin []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(twin))
	if err != nil {
		t.Error(err)
		return nil
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	return data
}

// generation is the scene of a generation that replaces another one.
func generation(t *testing.T, dir string) faulttest.Scene {
	w := newWebhost(t, dir)
	w.now = time.Now().UTC().Truncate(time.Second)
	w.push("atlas")
	if code, out := w.do(w.present()...); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	w.twinned("status.txt", "bookings.ics", "hosts/atlas/index.html")
	before := w.oracle("before")
	// At a moment that is the same for each run, so that each comes out the same;
	// and ahead of the clock, so that what a killed run leaves is old in the next.
	w.now = w.now.Add(3 * time.Hour)
	w.push("atlas")
	w.write("data/comments.json", []byte(`{"atlas": {"0": {"name": "eva", "date": "2099-01-01 12:00"}}} // kept`))
	s := faulttest.Scene{Dir: dir, Program: w.program, Args: w.args(), Choose: below(dir, true)}
	var after map[string][]byte
	s.Check = func(t testing.TB, r faulttest.Run) {
		sane(t, r, 0, 3, 75)
		said := r.String()
		now := w.oracle(said)
		new := true
		for name, data := range now {
			if !bytes.Equal(data, after[name]) {
				new = false
				// With exit 3 what is not well is on the pages.
				if !bytes.Equal(data, before[name]) && r.Exit != 3 {
					t.Errorf("%s: %s is neither the old nor the new one", said, name)
				}
			}
		}
		for name, twin := range now {
			// A web server sends the twin, whatever the file holds.
			if file, ok := strings.CutSuffix(name, ".gz"); ok && now[file] != nil && len(now[file]) < 4<<10 &&
				!bytes.Equal(unpacked(t, twin), now[file]) {
				t.Errorf("%s: %s is not what %s holds", said, name, file)
			}
		}
		for name := range before {
			if strings.HasPrefix(name, "users/") && r.Exit == 3 && strings.Contains(r.Said, "[history:") {
				continue // who has nothing now has a page because of the past alone
			}
			if now[name] == nil && after[name] != nil {
				t.Errorf("%s: %s is missing: exit %d: %s", said, name, r.Exit, r.Said)
			}
		}
		if r.Exit == 0 && (!new || len(now) != len(after)) {
			t.Errorf("%s: exit 0, and the site is not the new one", said)
		}
		if r.Exit == 3 {
			for _, line := range strings.Split(strings.TrimSpace(r.Said), "\n") {
				code := line[strings.LastIndexByte(line, '[')+1 : len(line)-1]
				if !bytes.Contains(now["health.json"], []byte(code)) ||
					!bytes.Contains(now["index.html"], []byte(code)) {
					t.Errorf("%s: health.json and the page do not both say %q", said, code)
				}
			}
		}
		if data, err := os.ReadFile(w.path("data/comments.json")); err != nil ||
			!strings.HasSuffix(string(data), "// kept") {
			t.Errorf("%s: the bookings are %q, %v", said, data, err)
		}
		age(t, w.path("site"))
		age(t, w.path("state"))
		if code, out := w.generate(); code != 0 {
			t.Errorf("%s: the next run: exit %d: %s", said, code, out)
		}
		healed := w.oracle(said + ", and healed")
		for name, data := range after {
			// A host that could not be read was unknown for once, and since when it is
			// what it is, is true.
			told := !r.Hit.Changes && strings.Contains(r.Hit.On, "/data/drop")
			if healed[name] == nil || !told && !bytes.Equal(healed[name], data) {
				t.Errorf("%s: the next run's %s is not what it is without a fault", said, name)
			}
		}
		if len(healed) != len(after) {
			t.Errorf("%s: the next run leaves %d files, want %d", said, len(healed), len(after))
		}
		noTemps(t, said, dir)
	}
	// What comes out without a fault, from a copy of the same world.
	keep := faulttest.Dir(t)
	faulttest.Copy(t, dir, filepath.Join(keep, "live"))
	if code, out := w.generate(); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	after = w.oracle("after")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	faulttest.Copy(t, filepath.Join(keep, "live"), dir)
	return s
}

// TestGenerateAtEverySystemCall kills the generator at each system call that
// changes a file, and lets each of them fail in three ways.
func TestGenerateAtEverySystemCall(t *testing.T) {
	t.Parallel() // beside those that mostly wait
	faulttest.Require(t)
	report := faulttest.Everywhere(t, 2, func(dir string) faulttest.Scene { return generation(t, dir) },
		faulttest.Killed, faulttest.Broken, faulttest.Full)
	if report.Calls < 100 {
		t.Errorf("only %d calls: that is no generation", report.Calls)
	}
}
