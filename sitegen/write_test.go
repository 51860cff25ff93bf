package sitegen

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// small makes generators of the same small site.
func small(t *testing.T) (dir string, generator func(title string) *Generator) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, func(title string) *Generator {
		g, err := New(Options{
			Data: filepath.Join(dir, "data"), Site: filepath.Join(dir, "site"), State: filepath.Join(dir, "state"),
			Inventory: func(_ context.Context, now time.Time, _ inventory.Known) inventory.Inventory {
				return inventory.Inventory{Hosts: []inventory.Host{{Name: "atlas"}}, AsOf: now}
			},
			About: render.Site{Title: title},
		})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
}

func TestDefaults(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, tt := range []struct{ given, want Options }{
		{Options{}, Options{
			Comments: in("data/comments.json"), Aliases: in("data/aliases.csv"), IdlePercent: 5,
			BookingZone: booking.Zone{Location: time.UTC}, LegacyZone: time.UTC,
		}},
		{Options{
			Comments: "c", Aliases: "a", Settings: board.Settings{IdleWindow: time.Hour}, IdlePercent: 20,
			BookingZone: booking.Zone{Location: time.Local}, LegacyZone: time.Local, Public: "public",
		},
			Options{
				Comments: "c", Aliases: "a", Settings: board.Settings{IdleWindow: time.Hour}, IdlePercent: 20,
				BookingZone: booking.Zone{Location: time.Local}, LegacyZone: time.Local, Public: in("public"),
			}},
	} {
		o := tt.given
		o.Data, o.Site, o.State, o.About.Zone = "data", "site", "state", time.UTC
		g, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		tt.want.Data, tt.want.Site, tt.want.State, tt.want.About = in("data"), in("site"), in("state"), g.opt.About
		tt.want.Settings = tt.want.Settings.WithDefaults()
		if !reflect.DeepEqual(g.opt, tt.want) {
			t.Errorf("%+v, want %+v", g.opt, tt.want)
		}
	}
}

func generation(t *testing.T, g *Generator) Report {
	t.Helper()
	r, err := g.Generate(context.Background(), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPreview: what a preview would write is what a generation then writes, and it writes nothing.
func TestPreview(t *testing.T) {
	dir, generator := small(t)
	g := generator("GPU board")
	preview := func() Report {
		views := g.views
		defer func() { g.views = views }()
		o := g.opt
		o.Preview, o.State = true, filepath.Join(t.TempDir(), "state")
		if err := os.CopyFS(o.State, os.DirFS(g.opt.State)); err != nil {
			t.Fatal(err)
		}
		p, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		return generation(t, p)
	}

	before := preview()
	if entries, err := os.ReadDir(filepath.Join(dir, "site")); err != nil || len(entries) != 0 {
		t.Fatalf("a preview wrote %v, %v", entries, err)
	}
	if r := generation(t, g); r.Written != before.Written || len(before.Changes) != before.Written || r.Changes != nil {
		t.Errorf("written are %+v, foretold %d and %d changes", r, before.Written, len(before.Changes))
	}
	var added []string
	for _, name := range FilesOf(g.opt.State, false) {
		added = append(added, "add "+name)
	}
	slices.Sort(before.Changes)
	if !slices.Equal(before.Changes, added) {
		t.Errorf("foretold are %q, written %q", before.Changes, added)
	}
	if r := preview(); len(r.Changes) > 0 {
		t.Errorf("what was written has other bytes than foretold: %q", r.Changes)
	}

	page := filepath.Join(dir, "site", "hosts", "atlas", "index.html")
	if err := os.WriteFile(page, []byte("edited"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := preview(); !slices.Equal(r.Changes, []string{"change hosts/atlas/index.html"}) {
		t.Errorf("of a page that was edited: %q", r.Changes)
	}

	g.opt.Inventory = func(_ context.Context, now time.Time, _ inventory.Known) inventory.Inventory {
		return inventory.Inventory{Hosts: []inventory.Host{{Name: "bragi"}}, AsOf: now}
	}
	r := preview()
	for _, change := range []string{"add hosts/bragi/index.html", "remove hosts/atlas/index.html",
		"change index.html"} {
		if !slices.Contains(r.Changes, change) {
			t.Errorf("%q is not foretold in %q", change, r.Changes)
		}
	}
	if _, err := os.Stat(page); err != nil {
		t.Error(err)
	}
}

func TestWhatSomebodyChangesInTheSiteIsPutRight(t *testing.T) {
	dir, generator := small(t)
	g := generator("GPU board")
	first := generation(t, g)
	if again := generation(t, g); again.Written != 0 || again.Same != first.Written {
		t.Fatalf("at first %+v, then %+v", first, again)
	}
	page, compressed := filepath.Join(dir, "site", "hosts", "atlas", "index.html"),
		filepath.Join(dir, "site", "index.html.gz")
	good, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	spoiled := bytes.ToUpper(good) // as long
	if err := os.WriteFile(page, spoiled, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(compressed); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "state", manifestFile)); err != nil {
		t.Fatal(err)
	}
	if r := generation(t, g); r.Written != 2 {
		t.Errorf("%d files were written, want the two", r.Written)
	}
	if got, err := os.ReadFile(page); err != nil || !bytes.Equal(got, good) {
		t.Errorf("the page was not put right (%v)", err)
	}
	for _, path := range []string{compressed, filepath.Join(dir, "state", manifestFile)} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// Somebody runs generate by hand beside the one that goes on, or another web
// host led for a while.
func TestTwoGeneratorsOfOneSite(t *testing.T) {
	dir, generator := small(t)
	one, other := generator("One"), generator("Other")
	about := filepath.Join(dir, "site", "hosts", "atlas", "index.html")
	for range 3 {
		for title, g := range map[string]*Generator{"One": one, "Other": other} {
			generation(t, g)
			page, err := os.ReadFile(about)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(page, []byte(title)) {
				t.Errorf("after a generation of %s the page is not its", title)
			}
		}
	}
}

// TestCompressedCopiesComeAndGo lets a file be long and short in turn: for a short one a web
// server must find no compressed copy, whoever left it there and whether anybody knows of it.
func TestCompressedCopiesComeAndGo(t *testing.T) {
	for name, process := range map[string]func(v *view){
		"one that goes on": func(*view) {},
		"one each":         func(v *view) { *v = view{dir: v.dir, manifest: v.manifest} },
		"one each, without a listing": func(
			v *view) {
			os.Remove(v.manifest)
			*v = view{dir: v.dir, manifest: v.manifest}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			v := &view{dir: filepath.Join(dir, "site"), manifest: filepath.Join(dir, "manifest.json")}
			if err := os.Mkdir(v.dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for round, size := range []int{minGzip, minGzip - 1, minGzip - 2, minGzip + 1, 1} {
				content := bytes.Repeat([]byte{byte('a' + round)}, size)
				writeSite(t, v, time.Now(), render.File{Path: "a.json", Content: content},
					render.File{Path: "a.ansi", Content: content})
				wantGzip(t, v, "a.json", size >= minGzip)
				wantGzip(t, v, "a.ansi", false)
				process(v)
			}
		})
	}
}

// TestStaleCompressedCopiesAreRemoved: what lies in the place of a compressed copy that a file does not have goes at
// the next generation, beside a file that is new and beside one that stays.
func TestStaleCompressedCopiesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	v := &view{dir: filepath.Join(dir, "site"), manifest: filepath.Join(dir, "manifest.json")}
	if err := os.Mkdir(v.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := render.File{Path: "a.json", Content: []byte("{}")}
	writeSite(t, v, time.Now(), file)
	for range 2 {
		if err := os.WriteFile(filepath.Join(v.dir, file.Path+".gz"), []byte("an old one"), 0o644); err != nil {
			t.Fatal(err)
		}
		writeSite(t, v, time.Now(), file)
		wantGzip(t, v, file.Path, false)
	}
}

// TestFilesComeAndGo: a generator that goes on removes what a generation has no
// more, an asset a day later, and lists what there is, whatever it takes
// from the last one.
func TestFilesComeAndGo(t *testing.T) {
	dir := t.TempDir()
	v := &view{dir: filepath.Join(dir, "site"), manifest: filepath.Join(dir, "manifest.json")}
	if err := os.Mkdir(v.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	both, one, other := []string{"a.txt", "hosts/b.txt", "assets/x.1.js"}, []string{"a.txt", "assets/x.1.js"},
		[]string{"c.txt", "a.txt", "assets/x.2.js"}
	for round, names := range [][]string{both, both, one, one, both, other, other, other, both, both} {
		var files []render.File
		for _, name := range names {
			files = append(files, render.File{Path: name, Content: []byte{byte('0' + round)}})
		}
		want := names
		if round == 5 || round == 8 {
			old := "assets/x.1.js" // of which pages were loaded a moment ago
			if round == 8 {
				old = "assets/x.2.js"
			}
			want = append(slices.Clone(names), old)
		}
		writeSite(t, v, start.Add(time.Duration(round)*assetsFor), files...)
		var have []string
		err := filepath.WalkDir(v.dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				rel, _ := filepath.Rel(v.dir, path)
				have = append(have, rel)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		slices.Sort(have)
		listed := readManifest(v.manifest)
		if !slices.Equal(have, want) ||
			!slices.Equal(union(listed.Files, slices.Collect(maps.Keys(listed.Assets))), want) {
			t.Errorf("generation %d: %q are there and %q listed, want %q", round, have, listed, want)
		}
	}
}

// TestAssetsStayForADay: pages that a browser has loaded go on asking for them.
func TestAssetsStayForADay(t *testing.T) {
	dir := t.TempDir()
	v := &view{dir: filepath.Join(dir, "site"), manifest: filepath.Join(dir, "manifest.json")}
	if err := os.Mkdir(v.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	writeSite(t, v, start, render.File{Path: "assets/x.1.js"})
	for _, age := range []time.Duration{0, 24*time.Hour - 1, 24 * time.Hour} {
		writeSite(t, v, start.Add(age), render.File{Path: "assets/x.2.js"})
		if _, err := os.Stat(filepath.Join(v.dir, "assets/x.1.js")); (err == nil) != (age < 24*time.Hour) {
			t.Errorf("%v after it was replaced: %v", age, err)
		}
	}
}

func writeSite(t *testing.T, v *view, now time.Time, files ...render.File) {
	t.Helper()
	w, err := v.newSiteWriter(now)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := w.add(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.commit(&Report{}); err != nil {
		t.Fatal(err)
	}
	if err := w.abort(); err != nil {
		t.Fatal(err)
	}
}

// wantGzip wants a compressed copy of a file, or none.
func wantGzip(t *testing.T, v *view, name string, want bool) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(v.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	compressed, err := os.ReadFile(filepath.Join(v.dir, name+".gz"))
	switch {
	case (err == nil) != want:
		t.Errorf("%s has %d bytes, and a compressed copy: %t (%v)", name, len(content), err == nil, err)
	case want && !bytes.Equal(unzip(t, compressed), content):
		t.Errorf("the compressed copy of %s is not of it", name)
	}
}

func unzip(t *testing.T, file []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	r.Multistream(false) // browsers read one member and no more
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDegraded(t *testing.T) {
	for _, test := range []struct {
		report Report
		want   bool
	}{{Report{}, false}, {Report{Board: &board.Board{}}, false}, {
		Report{Board: &board.Board{Problems: []snapshot.Problem{{Code: "host:stale"}}}}, true,
	}} {
		if got := test.report.Degraded(); got != test.want {
			t.Errorf("%+v: %v", test.report, got)
		}
	}
}

// What cannot be written down of one host is worth no other host's last good snapshot.
func TestTheOtherHostsAreRemembered(t *testing.T) {
	m := &memory{good: map[string]bundle{}}
	for _, host := range []string{"gpu01", "gpu02", "gpu03"} {
		s := &snapshot.Snapshot{
			Host: host, Seq: 1, CollectedAt: snapshot.TimeOf(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)),
		}
		if host == "gpu02" {
			s.Node.Load1 = new(math.NaN())
		}
		m.good[host] = bundle{&snapshot.Bundle{Host: host, BootID: "b", Snapshot: s}, nil}
	}
	var hosts []string
	for r := tar.NewReader(bytes.NewReader(m.goodTar())); ; {
		head, err := r.Next()
		if err != nil {
			break
		}
		hosts = append(hosts, head.Name)
	}
	if want := []string{"gpu01/latest.json.gz", "gpu03/latest.json.gz"}; !slices.Equal(hosts, want) {
		t.Errorf("%q are kept, want %q", hosts, want)
	}
}

func TestOneGeneratorAtATime(t *testing.T) {
	g := &Generator{opt: Options{State: t.TempDir()}}
	lock, err := g.lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.lock(); !errors.Is(err, ErrLocked) {
		t.Errorf("a second one gets %v", err)
	}
	lock.Close()
	if lock, err = g.lock(); err != nil {
		t.Fatalf("when the first has ended: %v", err)
	}
	lock.Close()
	g.opt.State = filepath.Join(g.opt.State, "none")
	if _, err := g.lock(); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("without a state directory: %v", err)
	}
}

// TestNotesAreRenderedOnce: a generator renders only notes that have changed. It reports a note that is too complex
// to be rendered in every generation.
func TestNotesAreRenderedOnce(t *testing.T) {
	dir, generator := small(t)
	g := generator("x")
	index := func(notice string) (page string, codes []string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "data", "notice.md"), []byte(notice), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, p := range generation(t, g).Board.Problems {
			codes = append(codes, p.Code)
		}
		text, err := os.ReadFile(filepath.Join(dir, "site", "index.html"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text), codes
	}
	if page, _ := index("*one*"); !strings.Contains(page, "<em>one</em>") {
		t.Error("the notice is not rendered")
	}
	g.rendered["*one*"] = "<p>as it was kept</p>"
	if page, _ := index("*one*"); !strings.Contains(page, "as it was kept") {
		t.Error("a notice that has not changed is rendered again")
	}
	if page, _ := index("*two*"); !strings.Contains(page, "<em>two</em>") {
		t.Error("a notice that has changed is not rendered")
	}
	if _, kept := g.rendered["*one*"]; kept {
		t.Error("a notice that is gone is kept")
	}
	for range 2 {
		page, codes := index(strings.Repeat(">", 5000))
		if !strings.Contains(page, "<pre><code>&gt;&gt;") || !slices.Contains(codes, "note:excessive") {
			t.Errorf("a notice that nests too deep: %q", codes)
		}
	}
}
