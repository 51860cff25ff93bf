package sitegen_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/board"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
	"gpuboard/sitegen"
)

// olderLab is a data directory as the older scripts leave it, comments.json and
// all, and a generator that has just been pointed at it.
func olderLab(t *testing.T) (*lab, sitegen.Options) {
	t.Helper()
	zone := need.Zone(t, "Europe/Paris")
	l := &lab{t: t, dir: t.TempDir(), hosts: []string{"atlas", "borg", "cygnus", "delta"}}
	files, err := filepath.Glob("../internal/legacy/testdata/old/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		l.write("data/"+filepath.Base(name), string(raw))
	}
	o := l.options()
	o.About.Zone = zone
	return l, o
}

var olderNow = time.Date(2026, 11, 20, 10, 42, 10, 0, time.UTC)

func stateOf(b *board.Board, host string, gpu int) board.State {
	h := hostOf(b, host)
	if gpu >= len(h.GPUs) {
		return ""
	}
	return h.GPUs[gpu].State
}

func TestOlderFilesMakeABoard(t *testing.T) {
	l, o := olderLab(t)
	b := l.once(o, olderNow).Board
	for host, want := range map[string]board.HostState{
		"atlas": board.Up, "borg": board.Up, "cygnus": board.Stale, "delta": board.Never,
	} {
		if got := hostOf(b, host).State; got != want {
			t.Errorf("%s is %s, want %s", host, got, want)
		}
	}
	for gpu, want := range []board.State{board.InUse, board.Booked, board.Busy, board.Stuck} {
		if got := stateOf(b, "atlas", gpu); got != want {
			t.Errorf("GPU %d of atlas is %s, want %s", gpu, got, want)
		}
	}
	if got := stateOf(b, "borg", 0); got != board.Free {
		t.Errorf("GPU 0 of borg is %s: its booking is over, and nobody is on it", got)
	}
	page, err := os.ReadFile(l.path("site/index.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mira", "camera ready", "booked by Père Canard", "averyveryverylongna", "A100"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if s := l.site()["hosts/atlas/index.html"]; !strings.Contains(s, "4301") {
		t.Error("the child of the dead process is not on the host's page")
	}
}

// A host moves when its own collector reports, and the others stay.
func TestOwnCollectorReplacesOlderFiles(t *testing.T) {
	l, o := olderLab(t)
	l.once(o, olderNow)
	s := &snapshot.Snapshot{Schema: snapshot.Schema, Host: "atlas", BootID: "b", Seq: 1,
		CollectedAt: snapshot.TimeOf(olderNow), IntervalSeconds: 20,
		GPUsComplete: true,
		GPUs: []snapshot.GPU{{
			Index: 0, UUID: "GPU-a7000000-aaaa-bbbb-cccc-000000000000", Name: "A100", Health: snapshot.HealthOK,
			MemoryTotal: new(int64(40960)), MemoryUsed: new(int64(1)),
		}}}
	raw, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: "atlas", BootID: "b", Snapshot: s})
	if err != nil {
		t.Fatal(err)
	}
	l.write("data/drop/atlas/latest.json.gz", string(raw))
	b := l.once(o, olderNow.Add(5*time.Second)).Board
	if h := hostOf(b, "atlas"); len(h.GPUs) != 4 || h.GPUs[0].ShortName != "A100" || h.GPUs[3].State != board.Lost {
		t.Errorf("atlas has moved, and shows %+v", h.GPUs)
	}
	if h := hostOf(b, "borg"); h.State != board.Up {
		t.Errorf("borg has not moved, and is %s", h.State)
	}

	// An empty drop is only a place that was made ready.
	if err := os.MkdirAll(l.path("data/drop/borg"), 0o755); err != nil {
		t.Fatal(err)
	}
	if h := hostOf(l.once(o, olderNow.Add(10*time.Second)).Board, "borg"); h.State != board.Up {
		t.Errorf("borg has an empty drop, and is %s", h.State)
	}
	o.Legacy = sitegen.NoLegacy
	if h := hostOf(l.once(o, olderNow.Add(15*time.Second)).Board, "atlas"); h.State != board.Up ||
		h.GPUs[0].ShortName != "A100" {
		t.Errorf("without the older files atlas is %+v", h)
	}
}

// The older copy is not atomic: a file that is cut short costs its host its
// news for a while, and never more.
func TestATornOlderFileKeepsTheLastGood(t *testing.T) {
	l, o := olderLab(t)
	l.once(o, olderNow)
	l.write("data/atlas_gpus.csv", "0, GPU-a70000")
	b := l.once(o, olderNow.Add(5*time.Second)).Board
	if h := hostOf(b, "atlas"); len(h.GPUs) != 4 || h.State != board.Up ||
		!slices.ContainsFunc(h.Problems, func(p snapshot.Problem) bool { return p.Code == "legacy:empty" }) {
		t.Errorf("atlas %+v", h)
	}
	if h := hostOf(l.once(o, olderNow.Add(10*time.Minute)).Board, "atlas"); h.State != board.Stale {
		t.Errorf("ten minutes later atlas is %s", h.State)
	}
}

// TestHostsOfDrops: those with a drop and those of the older scripts by name, each with what hosts.json says.
func TestHostsOfDrops(t *testing.T) {
	l, _ := olderLab(t)
	l.write("data/hosts.json",
		`{"atlas": "atlas.lab.example", "borg": "borg.lab.example", "cygnus": "cygnus", "delta": "The big one"}`)
	for _, name := range []string{"atlas", "zeta"} {
		if err := os.MkdirAll(l.path("data/drop/"+name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for setting, want := range map[string][]inventory.Host{
		"": {
			{Name: "atlas", Address: "atlas.lab.example"}, {Name: "borg", Address: "borg.lab.example"},
			{Name: "cygnus"},
			{Name: "delta", Title: "The big one"}, {Name: "zeta"},
		},
		sitegen.NoLegacy: {{Name: "atlas"}, {Name: "zeta"}},
	} {
		got, err := sitegen.DropHosts(l.path("data"), setting)
		if d := cmp.Diff(want, got.Hosts); d != "" || err != nil {
			t.Errorf("legacy %q: %v (-want +got):\n%s", setting, err, d)
		}
	}
	if _, err := sitegen.DropHosts(l.path("data"), l.path("nowhere")); err == nil {
		t.Error("there are hosts in a directory that is not there")
	}
}

func TestOlderFilesElsewhere(t *testing.T) {
	l, o := olderLab(t)
	if err := os.Rename(l.path("data"), l.path("www")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(l.path("data"), 0o755); err != nil {
		t.Fatal(err)
	}
	o.Inventory = func(_ context.Context, now time.Time, _ inventory.Known) inventory.Inventory {
		return inventory.Inventory{Hosts: []inventory.Host{{Name: "atlas"}}, AsOf: now}
	}
	o.Legacy, o.LegacyZone = l.path("www"), time.UTC
	b := l.once(o, olderNow.Add(time.Hour)).Board
	if h := hostOf(b, "atlas"); h.State != board.Up || len(h.GPUs) != 4 {
		t.Errorf("atlas, whose clock shows UTC, is %s", h.State)
	}
	o.Legacy = l.path("nowhere")
	b = l.once(o, olderNow.Add(time.Hour)).Board
	if !slices.ContainsFunc(b.Problems, func(p snapshot.Problem) bool { return p.Code == "legacy:unreadable" }) {
		t.Errorf("problems %+v", b.Problems)
	}
}
