package sitegen_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen"
)

// TestLeftoversAreSwept: what a killed generator left goes with the next one,
// wherever it lies, and the files of people who use the same directories stay.
func TestLeftoversAreSwept(t *testing.T) {
	l := newLab(t)
	const tail = "-AAAAAAAAAAAAAAAAAAAAAAAAAA"
	left := []string{"state/.tmp-memory.json" + tail, "state/.tmp-fleet.json" + tail,
		"site/hosts/.tmp-index.html" + tail}
	stay := []string{"state/.tmp-young" + tail, "site/.tmp-notes", "site/.htaccess"}
	for _, name := range append(slices.Clone(left), stay...) {
		l.write(name, "half")
		if name == stay[0] {
			continue
		}
		if err := os.Chtimes(l.path(name), start.Add(-time.Hour), start.Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(l.path(stay[0]), start, start); err != nil {
		t.Fatal(err)
	}
	l.generate(start)
	for _, name := range left {
		if _, err := os.Lstat(l.path(name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	for _, name := range stay {
		if _, err := os.Lstat(l.path(name)); err != nil {
			t.Error(err)
		}
	}
}

// TestLeftoversOfAKilledGenerationGoAtTheNextStart: however young they are, and although
// leftovers were looked for just now.
func TestLeftoversOfAKilledGenerationGoAtTheNextStart(t *testing.T) {
	l := newLab(t)
	l.generate(start)
	const tail = "-AAAAAAAAAAAAAAAAAAAAAAAAAA"
	left := []string{"state/.tmp-memory.json" + tail, "site/hosts/.tmp-index.html" + tail}
	stay := []string{"site/.tmp-notes", "site/.htaccess", "state/mine"}

	// The page cannot be replaced, so this generation stops where a kill would.
	l.block("index.html")
	g, err := sitegen.New(l.options())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Generate(context.Background(), start); err == nil {
		t.Fatal("the generation worked")
	}
	l.free("index.html")
	for _, name := range append(slices.Clone(left), stay...) {
		l.write(name, "half")
	}
	l.generate(start)
	for _, name := range left {
		if _, err := os.Lstat(l.path(name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	for _, name := range stay {
		if _, err := os.Lstat(l.path(name)); err != nil {
			t.Error(err)
		}
	}

	l.write(left[0], "half") // by a program that works now
	l.generate(start)
	if _, err := os.Lstat(l.path(left[0])); err != nil {
		t.Error(err)
	}
}

// TestLeftoversAreLookedForEachFiveMinutes: by one process or by many, whatever the
// clock did.
func TestLeftoversAreLookedForEachFiveMinutes(t *testing.T) {
	l := newLab(t)
	const left, memory = "site/hosts/.tmp-index.html-AAAAAAAAAAAAAAAAAAAAAAAAAA", "state/memory.json"
	generate := func(when string, gone bool) {
		t.Helper()
		l.write(left, "half")
		if err := os.Chtimes(l.path(left), start.Add(-time.Hour), start.Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		l.generate(start)
		if _, err := os.Lstat(l.path(left)); (err != nil) != gone {
			t.Errorf("%s: it is gone: %t, want %t", when, err != nil, gone)
		}
	}
	sweptAt := func(at time.Time) {
		t.Helper()
		var m map[string]any
		data, err := os.ReadFile(l.path(memory))
		if err == nil {
			err = json.Unmarshal(data, &m)
		}
		if err == nil && m["swept"] == nil {
			err = errors.New("it does not have the time of the last sweep")
		}
		m["swept"] = at
		changed, again := json.Marshal(m)
		if err := errors.Join(err, again); err != nil {
			t.Fatal(err)
		}
		l.write(memory, string(changed))
	}
	generate("the first one", true)
	generate("the next one", false)
	sweptAt(time.Now().Add(-4 * time.Minute))
	generate("four minutes later", false)
	sweptAt(time.Now().Add(-6 * time.Minute))
	generate("six minutes later", true)
	generate("the one after that", false)
	sweptAt(time.Now().Add(time.Hour))
	generate("after the clock was set back", true)
	l.remove(memory)
	generate("without a memory of it", true)
}

// TestHistoryThatCannotBeOpened: it is said, the pages of the past stay as they
// were, and it is tried again in each generation.
func TestHistoryThatCannotBeOpened(t *testing.T) {
	l := newLab(t)
	path := filepath.Join(t.TempDir(), "history.db")
	var refusal error
	open := func(ctx context.Context, now time.Time) (*history.Store, error) {
		if refusal != nil {
			return nil, refusal
		}
		s, err := history.Open(ctx, path, now, history.Options{})
		if err == nil {
			t.Cleanup(func() { s.Close() })
		}
		return s, err
	}
	with := func(o *sitegen.Options) { o.OpenHistory = open }
	about := func(r sitegen.Report) (codes []string) {
		for _, p := range r.Board.Problems {
			if strings.HasPrefix(p.Code, "history:") {
				codes = append(codes, p.Code)
			}
		}
		return codes
	}
	if codes := about(l.generate(start, with)); codes != nil {
		t.Fatalf("problems %v", codes)
	}
	const page = "api/v1/history/hosts.json"
	before := l.site()[page]
	if before == "" {
		t.Fatal("there is no past to lose")
	}
	for code, err := range map[string]error{
		"history:unreadable": errors.New("no"), "history:nospace": history.ErrNoSpace,
	} {
		refusal = err
		if codes := about(l.generate(start, with)); !slices.Equal(codes, []string{code}) {
			t.Errorf("problems %v, want %s", codes, code)
		}
		if now := l.site()[page]; now != before {
			t.Errorf("%s while history cannot be opened: %d bytes, and %d before", page, len(now), len(before))
		}
	}
	// The same generator goes on when it can.
	o := l.options()
	with(&o)
	g, err := sitegen.New(o)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		if !want {
			refusal = nil
		}
		r, err := g.Generate(context.Background(), start.Add(time.Duration(i+1)*20*time.Second))
		if err != nil ||
			slices.ContainsFunc(r.Board.Problems,
				func(p snapshot.Problem) bool { return strings.HasPrefix(p.Code, "history:") }) != want {
			t.Errorf("generation %d: %v, %v", i, err, r.Board.Problems)
		}
	}
}

// TestHistoryIsClosed: what a generator took into a history that it opened itself
// lies in one file when it is closed, which is all that a backup may copy; the
// history of somebody else stays open.
func TestHistoryIsClosed(t *testing.T) {
	l := newLab(t)
	open := func(path string) *history.Store {
		s, err := history.Open(context.Background(), path, start, history.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	run := func(change func(*sitegen.Options)) {
		o := l.options()
		change(&o)
		g, err := sitegen.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Generate(context.Background(), start); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := g.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	const path = "state/history.db"
	run(func(o *sitegen.Options) {
		o.OpenHistory = func(context.Context, time.Time) (*history.Store, error) { return open(l.path(path)), nil }
	})
	if left, err := filepath.Glob(l.path(path + "-*")); err != nil || len(left) > 0 {
		t.Errorf("beside the history lie %q (%v)", left, err)
	}
	data, err := os.ReadFile(l.path(path))
	if err != nil {
		t.Fatal(err)
	}
	l.write("copy/history.db", string(data))
	if oldest, _, err := open(l.path("copy/history.db")).Known(context.Background()); err != nil ||
		!oldest.Equal(start.Truncate(24*time.Hour)) {
		t.Errorf("a copy of the file begins at %v, want the day of %v (%v)", oldest, start, err)
	}

	theirs := open(l.path("theirs.db"))
	run(func(o *sitegen.Options) { o.History = theirs })
	if _, _, err := theirs.Known(context.Background()); err != nil {
		t.Errorf("a history that was given is of no more use: %v", err)
	}
}

// TestMemorySurvivesAFailedRead: what could not be read once is not given up for it.
func TestMemorySurvivesAFailedRead(t *testing.T) {
	l := newLab(t)
	l.generate(start)
	before, err := os.ReadFile(l.path("state/memory.json"))
	if err != nil {
		t.Fatal(err)
	}
	said := func(r sitegen.Report) bool {
		return slices.ContainsFunc(r.Board.Problems,
			func(p snapshot.Problem) bool { return p.Code == "state:forgotten" })
	}
	l.swapForADirectory("state/memory.json")
	r := l.generate(start.Add(time.Second), func(o *sitegen.Options) {
		ask := o.Inventory
		o.Inventory = func(ctx context.Context, now time.Time, last inventory.Known) inventory.Inventory {
			l.swapForADirectory("state/memory.json") // it can be read again
			return ask(ctx, now, last)
		}
	})
	if after, err := os.ReadFile(l.path("state/memory.json")); err != nil || string(after) != string(before) ||
		!said(r) {
		t.Errorf("after a failed read %d bytes are left of %d (%v), said %t", len(after), len(before), err, said(r))
	}
	l.write("state/memory.json", "{")
	if r := l.generate(start.Add(2 * time.Second)); !said(r) {
		t.Error("nothing is said of a damaged memory")
	}
	if r := l.generate(start.Add(3 * time.Second)); said(r) {
		t.Error("a damaged memory is not replaced")
	}
}

// swapForADirectory puts a directory in the place of a file, and the file back.
func (l *lab) swapForADirectory(name string) {
	l.t.Helper()
	aside, path := l.path("aside"), l.path(name)
	if _, err := os.Lstat(aside); err == nil {
		l.remove(name)
		if err := os.Rename(aside, path); err != nil {
			l.t.Fatal(err)
		}
		return
	}
	if err := errors.Join(os.Rename(path, aside), os.Mkdir(path, 0o755)); err != nil {
		l.t.Fatal(err)
	}
}
