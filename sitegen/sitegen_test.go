package sitegen_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/demo"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
)

var start = time.Date(2026, 11, 20, 10, 42, 0, 0, time.UTC)

// lab is a data directory with the demonstration's fleet in it.
type lab struct {
	t     *testing.T
	dir   string
	fleet *demo.Fleet
	hosts []string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), fleet: demo.New(1, start)}
	for _, h := range l.fleet.Hosts() {
		l.hosts = append(l.hosts, h.Name)
	}
	l.write("data/comments.json", string(l.fleet.Files(start)["comments.json"]))
	l.push(start, l.hosts...)
	return l
}

func (l *lab) path(name string) string { return filepath.Join(l.dir, filepath.FromSlash(name)) }

func (l *lab) write(name, content string) {
	l.t.Helper()
	if err := os.MkdirAll(filepath.Dir(l.path(name)), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(l.path(name), []byte(content), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

// push puts what hosts know at a moment into their drops.
func (l *lab) push(at time.Time, hosts ...string) {
	l.t.Helper()
	for _, host := range hosts {
		s := l.fleet.Snapshot(host, at)
		raw, err := snapshot.EncodeBundle(&snapshot.Bundle{
			Host: host, BootID: s.BootID, Snapshot: s, Samples: []snapshot.Sample{s.Sample()},
		})
		if err != nil {
			l.t.Fatal(err)
		}
		l.write("data/drop/"+host+"/latest.json.gz", string(raw))
	}
}

func (l *lab) options() sitegen.Options {
	hosts := make([]inventory.Host, 0, len(l.hosts))
	for _, name := range l.hosts {
		hosts = append(hosts, inventory.Host{Name: name})
	}
	return sitegen.Options{
		Data: l.path("data"), Site: l.path("site"), State: l.path("state"),
		Inventory: func(_ context.Context, now time.Time, _ inventory.Known) inventory.Inventory {
			return inventory.Inventory{Hosts: hosts, AsOf: now}
		},
		About: render.Site{Title: "GPU board", Zone: time.UTC, Version: "test", Interval: 20 * time.Second},
	}
}

func (l *lab) generate(at time.Time, change ...func(*sitegen.Options)) sitegen.Report {
	l.t.Helper()
	o := l.options()
	for _, f := range change {
		f(&o)
	}
	g, err := sitegen.New(o)
	if err != nil {
		l.t.Fatal(err)
	}
	r, err := g.Generate(context.Background(), at)
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

// site is every file of the site.
func (l *lab) site() map[string]string { return l.siteAt("site") }

func (l *lab) siteAt(dir string) map[string]string {
	l.t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(l.path(dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(l.path(dir), path)
		files[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return files
}

func hostOf(b *board.Board, name string) board.Host {
	for _, h := range b.Hosts {
		if h.Name == name {
			return h
		}
	}
	return board.Host{}
}

func TestNothingNewWritesNothing(t *testing.T) {
	l := newLab(t)
	first := l.generate(start)
	if first.Written == 0 || first.Same != 0 {
		t.Fatalf("first generation: %+v", first)
	}
	before := l.site()
	if again := l.generate(start); again.Written != 0 || again.Removed != 0 || again.Same == 0 {
		t.Errorf("the same again wrote %d files and removed %d", again.Written, again.Removed)
	}
	if !maps.Equal(before, l.site()) {
		t.Error("the same again changed the site")
	}
}

func TestOneHostsNewsChangesNoOtherHostsFiles(t *testing.T) {
	l := newLab(t)
	l.generate(start)
	before := l.site()
	l.push(start.Add(20*time.Second), "atlas")
	l.generate(start.Add(20 * time.Second))
	changed := 0
	for name, content := range l.site() {
		if content == before[name] {
			continue
		}
		changed++
		if strings.HasPrefix(name, "hosts/") && !strings.HasPrefix(name, "hosts/atlas") ||
			strings.HasPrefix(name, "api/v1/hosts/") && !strings.HasPrefix(name, "api/v1/hosts/atlas") {
			t.Errorf("%s changed, and only atlas had news", name)
		}
	}
	if changed == 0 {
		t.Error("atlas had news, and nothing changed")
	}
}

// TestPageAndDataAreOfOneGeneration: whoever has both can tell that they belong together.
func TestPageAndDataAreOfOneGeneration(t *testing.T) {
	l := newLab(t)
	last := ""
	for i := range 3 {
		l.generate(start.Add(time.Duration(i) * 20 * time.Second))
		site := l.site()
		_, after, _ := strings.Cut(site["api/v1/board.json"], `"generation":"`)
		id, _, _ := strings.Cut(after, `"`)
		if id == "" || id == last {
			t.Fatalf("generation %d has the id %q, the one before %q", i, id, last)
		}
		last = id
		for _, name := range []string{"index.html", "bookings/index.html"} {
			if !strings.Contains(site[name], `data-generation="`+id+`"`) {
				t.Errorf("%s is not of generation %s", name, id)
			}
		}
		if strings.Contains(site["hosts/atlas/index.html"], "data-generation") {
			t.Error("the page of one host changes with every generation")
		}
	}
}

func TestCompressedFilesMatchTheirFiles(t *testing.T) {
	l := newLab(t)
	l.generate(start)
	// Somebody restored an old twin: a web server would go on sending it.
	if err := os.WriteFile(l.path("site/index.html.gz"), compressed(t, "an old page"), 0o644); err != nil {
		t.Fatal(err)
	}
	l.generate(start)
	twins := 0
	site := l.site()
	for name, content := range site {
		plain, ok := strings.CutSuffix(name, ".gz")
		if !ok {
			continue
		}
		twins++
		r, err := gzip.NewReader(strings.NewReader(content))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != site[plain] {
			t.Errorf("%s is not %s compressed (%v)", name, plain, err)
		}
	}
	if twins < 10 {
		t.Errorf("only %d files have a twin", twins)
	}
}

func compressed(t *testing.T, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGarbageKeepsLastGoodAcrossRestarts(t *testing.T) {
	l := newLab(t)
	good := hostOf(l.generate(start).Board, "atlas")
	for name, garbage := range map[string]string{"empty": "", "cut": "\x1f\x8b\x08", "text": "hello", "foreign": ""} {
		t.Run(name, func(t *testing.T) {
			if name == "foreign" {
				raw, err := os.ReadFile(l.path("data/drop/boreas/latest.json.gz"))
				if err != nil {
					t.Fatal(err)
				}
				garbage = string(raw)
			}
			l.write("data/drop/atlas/latest.json.gz", garbage)
			// A new Generator: what it knows, it knows from the state directory.
			b := l.generate(start.Add(10 * time.Second)).Board
			h := hostOf(b, "atlas")
			if len(h.GPUs) != len(good.GPUs) || !h.SnapshotAt.Equal(good.SnapshotAt) {
				t.Errorf("%d GPUs as of %v, want the last good %d as of %v",
					len(h.GPUs), h.SnapshotAt, len(good.GPUs), good.SnapshotAt)
			}
			if !slices.ContainsFunc(h.Problems,
				func(p snapshot.Problem) bool { return strings.HasPrefix(p.Code, "bad:") }) {
				t.Errorf("problems %v, want one that says what is bad", h.Problems)
			}
			// And it ages: garbage is not news.
			if late := hostOf(l.generate(start.Add(10*time.Minute)).Board, "atlas"); late.State != board.Stale {
				t.Errorf("ten minutes later it is %s", late.State)
			}
			if other := hostOf(b, "boreas"); other.State != board.Maintenance && other.State != board.Up {
				t.Errorf("boreas is %s because of atlas", other.State)
			}
		})
	}
}

// TestSamplesOnTheSite: those of a host are there while its drop has them. History has those of the last good snapshot.
func TestSamplesOnTheSite(t *testing.T) {
	l := newLab(t)
	of := func(at time.Time, host string) bool {
		l.generate(at, func(o *sitegen.Options) { o.About.Compat = []string{"vesta"} })
		_, there := l.site()["states/"+host+"/samples.json"]
		return there
	}
	if !of(start, "atlas") {
		t.Error("what atlas has sent is not there")
	}
	l.write("data/drop/atlas/latest.json.gz", "garbage")
	if at := start.Add(10 * time.Second); of(at, "atlas") || !of(at, "boreas") {
		t.Error("the samples of atlas are there without a drop, or those of boreas are not")
	}
}

func TestFilesOfARemovedHostAreRemoved(t *testing.T) {
	l := newLab(t)
	l.generate(start)
	l.write("site/theirs.html", "somebody else's")
	l.write("site/hosts/gaia/theirs.html", "somebody else's")
	if _, there := l.site()["hosts/europa/index.html"]; !there {
		t.Fatal("europa has no page")
	}
	r := l.generate(start, func(o *sitegen.Options) {
		o.Inventory = func(_ context.Context, now time.Time, _ inventory.Known) inventory.Inventory {
			return inventory.Inventory{Hosts: []inventory.Host{{Name: "atlas"}}, AsOf: now}
		}
	})
	if r.Removed == 0 {
		t.Error("nothing was removed")
	}
	site := l.site()
	for name := range site {
		if strings.Contains(name, "europa") {
			t.Errorf("%s is still there", name)
		}
	}
	if site["theirs.html"] == "" || site["hosts/gaia/theirs.html"] == "" {
		t.Error("a file that is not ours is gone")
	}
	if _, err := os.Stat(l.path("site/hosts/europa")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty directory is left: %v", err)
	}
}

func TestBrokenLookKeepsTheOldSite(t *testing.T) {
	l := newLab(t)
	l.generate(start)
	before := l.site()
	for name, content := range map[string]string{"index.html": "<p>ours</p>", "words/en.json": "{"} {
		l.write("templates/"+name, content)
		g, err := sitegen.New(
			func() sitegen.Options { o := l.options(); o.Templates = l.path("templates"); return o }())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Generate(context.Background(), start.Add(time.Minute)); err == nil {
			t.Fatal("a look that cannot work made a site")
		} else if !strings.Contains(err.Error(), name) {
			t.Errorf("error %q does not name %s", err, name)
		}
		if !maps.Equal(before, l.site()) {
			t.Error("the old site did not stay as it was")
		}
		if err := os.Remove(l.path("templates/" + name)); err != nil {
			t.Fatal(err)
		}
	}
	l.write("templates/banner.html", "<p>our own banner</p>")
	l.generate(start.Add(time.Minute), func(o *sitegen.Options) { o.Templates = l.path("templates") })
	if !strings.Contains(l.site()["index.html"], "<p>our own banner</p>") {
		t.Error("HTML of the site's own is not used")
	}
}

// TestWordsOfASite: a site changes single words, those for faults among them.
func TestWordsOfASite(t *testing.T) {
	l := newLab(t)
	l.write("templates/words/en.json", `{"free": "frei", "code.booking:date": "Kein Datum in Zeile {line}"}`)
	l.generate(start, func(o *sitegen.Options) { o.Templates = l.path("templates") })
	site := l.site()
	if index := site["index.html"]; !strings.Contains(index, ">frei<") || strings.Contains(index, ">free<") ||
		!strings.Contains(index, ">busy<") {
		t.Error("the index does not say frei for free, and busy for busy as before")
	}
	if !regexp.MustCompile(`Kein Datum in Zeile \d`).MatchString(site["index.html"]) {
		t.Error("the fault is not told in the site's words")
	}
	if !strings.Contains(site["api/v1/board.json"], `"state":"free"`) {
		t.Error("the states of the JSON are translated: programs read them")
	}
}

func TestOneGenerationAtATime(t *testing.T) {
	l := newLab(t)
	o := l.options()
	inside, ask := make(chan struct{}), o.Inventory
	release := make(chan struct{})
	o.Inventory = func(ctx context.Context, now time.Time, last inventory.Known) inventory.Inventory {
		close(inside)
		<-release
		return ask(ctx, now, last)
	}
	slow, err := sitegen.New(o)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { _, err := slow.Generate(context.Background(), start); done <- err }()
	<-inside
	second, err := sitegen.New(l.options())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Generate(context.Background(), start); !errors.Is(err, sitegen.ErrLocked) {
		t.Errorf("a second generation at the same time: %v, want ErrLocked", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := second.Generate(context.Background(), start); err != nil {
		t.Errorf("after it: %v", err)
	}
}

func TestPrivateDirectoriesStayOutsideTheSite(t *testing.T) {
	dir := t.TempDir()
	for _, o := range []sitegen.Options{
		{Data: filepath.Join(dir, "site", "data"), Site: filepath.Join(dir, "site"),
			State: filepath.Join(dir, "state")},
		{Data: filepath.Join(dir, "data"), Site: filepath.Join(dir, "site"),
			State: filepath.Join(dir, "site", "x", "state")},
		{Data: filepath.Join(dir, "one"), Site: filepath.Join(dir, "one"), State: filepath.Join(dir, "state")},
	} {
		if _, err := sitegen.New(o); err == nil {
			t.Errorf("data %s and state %s inside site %s were accepted", o.Data, o.State, o.Site)
		}
	}
	if _, err := sitegen.New(sitegen.Options{
		Data: filepath.Join(dir, "site-data"), Site: filepath.Join(dir, "site"), State: filepath.Join(dir, "..state"),
	}); err != nil {
		t.Errorf("names that only begin alike were refused: %v", err)
	}
}

func TestDamagedMemoryIsReported(t *testing.T) {
	l := newLab(t)
	l.generate(start)
	l.write("state/memory.json", "{not json")
	l.write("state/lastgood.tar", "garbage")
	l.write("state/manifest.json", `{"files":["../../etc/passwd","index.html"]}`)
	r := l.generate(start.Add(time.Second))
	if !slices.ContainsFunc(r.Board.Problems, func(p snapshot.Problem) bool { return p.Code == "state:forgotten" }) {
		t.Errorf("problems %v, want state:forgotten", r.Board.Problems)
	}
	if _, ok := l.site()["index.html"]; !ok {
		t.Error("there is no index")
	}
}

func TestNoticeAndHostNotes(t *testing.T) {
	l := newLab(t)
	l.write("data/notice.md", "**Power** is off <script>alert(1)</script>")
	l.write("data/hosts/atlas.md", "the *loud* one")
	l.generate(start)
	site := l.site()
	if !strings.Contains(site["index.html"], "<strong>Power</strong>") ||
		strings.Contains(site["index.html"], "alert(1)</script>") {
		t.Error("the notice is not on the page as Markdown without HTML")
	}
	if !strings.Contains(site["hosts/atlas/index.html"], "<em>loud</em>") {
		t.Error("the note on atlas is not on its page")
	}
	if err := os.Remove(l.path("data/notice.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(l.path("data/notice.md"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := l.generate(start)
	if !slices.ContainsFunc(r.Board.Problems, func(p snapshot.Problem) bool { return p.Code == "note:unreadable" }) {
		t.Errorf("problems %v, want note:unreadable", r.Board.Problems)
	}
}
