package site_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"gpuboard/internal/demo"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/s3test"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
)

// cutSeed chooses where copies are cut; a failure names the run.
const cutSeed = 20261128

// TestTwoHundredCutsOfARealSite copies generations of a real site, in which hosts come and go and the style changes, and
// cuts each copy at a random request. Whatever is then in the bucket is a site: each page has its styles and scripts, and
// the front page all that it links to. The next copy puts everything right.
func TestTwoHundredCutsOfARealSite(t *testing.T) {
	runs := 200
	if testing.Short() {
		runs = 12
	}
	generations := realSites(t, 5)
	store := s3test.Start(t, "gpus")
	w := &website{t: t, dir: generations[0], state: inMemory(t), target: "s3://gpus/lab",
		now: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	w.check(w.copies())
	random, at := rand.New(rand.NewPCG(cutSeed, 0)), 0
	for run := range runs {
		before := w.wanted()
		at = (at + 1 + random.IntN(len(generations)-1)) % len(generations)
		w.dir = generations[at]
		requests := 0
		for name, content := range w.wanted() {
			if before[name] != content {
				requests++
			}
		}
		status := http.StatusForbidden
		if run%20 == 0 { // which are tried again for a while
			status = []int{s3test.Cut, s3test.Lost}[run/20%2]
		}
		left := random.IntN(requests)
		store.Requests()
		store.Fault(func(int, *http.Request) int {
			if left--; left < 0 {
				return status
			}
			return 0
		})
		w.killed = random.IntN(2) == 0
		if requests < 10 || w.copies() == nil {
			t.Fatalf("run %d: a copy of %d files was not cut", run, requests)
		}
		w.killed = false
		store.Fault(nil)
		got := held(t, store, "lab/")
		for name, content := range got {
			if strings.HasSuffix(name, ".html") {
				for _, lacks := range lacking(got, name, content) {
					t.Errorf("run %d: %s needs %s, which is not there", run, name, lacks)
				}
			}
		}
		w.check(w.copies())
		if d := cmp.Diff(w.wanted(), held(t, store, "lab/")); d != "" {
			t.Fatalf("run %d: the next copy left %s", run, d)
		}
	}
}

// inMemory makes a directory where the 800 syncs of this test cost nothing.
func inMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "gpuboard-cut-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// lacking lists what a page needs and a site does not have: styles, scripts, pictures; and pages, of the front page.
func lacking(site map[string]string, name, content string) (lacks []string) {
	needs := func(address string) {
		address, _, _ = strings.Cut(address, "#")
		address, _, _ = strings.Cut(address, "?")
		if address == "" || strings.Contains(address, ":") {
			return
		}
		file := path.Join(path.Dir(name), address)
		if strings.HasSuffix(address, "/") || file == "." {
			file = path.Join(file, "index.html")
		}
		if _, there := site[file]; !there {
			lacks = append(lacks, file)
		}
	}
	for z := html.NewTokenizer(strings.NewReader(content)); z.Next() != html.ErrorToken; {
		token := z.Token()
		for _, a := range token.Attr {
			if a.Key == "src" || a.Key == "href" &&
				(token.Data == "link" || token.Data == "a" && name == "index.html") {
				needs(a.Val)
			}
		}
	}
	slices.Sort(lacks)
	return slices.Compact(lacks)
}

// realSites are generations of one site, each in a directory of its own.
func realSites(t *testing.T, n int) (dirs []string) {
	t.Helper()
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	fleet := demo.NewLarge(1, at, 4)
	data, state, look, sites := t.TempDir(), t.TempDir(), t.TempDir(), inMemory(t)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		at = at.Add(5 * time.Minute)
		hosts := fleet.Hosts()[:2+i%3]
		check(os.WriteFile(filepath.Join(look, "site.css"), fmt.Appendf(nil, ":root { --look: %d }", i), 0o644))
		for _, h := range hosts {
			s := fleet.Snapshot(h.Name, at)
			s.Seq = uint64(i + 1)
			bundle, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: h.Name, BootID: s.BootID, Snapshot: s})
			check(err)
			check(os.MkdirAll(filepath.Join(data, "drop", h.Name), 0o755))
			check(os.WriteFile(filepath.Join(data, "drop", h.Name, "latest.json.gz"), bundle, 0o644))
		}
		dir := filepath.Join(sites, fmt.Sprint(i))
		gen, err := sitegen.New(sitegen.Options{
			Data: data, Site: dir, State: state, Templates: look, NoHelp: true, CopyEvery: 5 * time.Minute,
			Inventory: func(_ context.Context, now time.Time, _ inventory.Known) (inv inventory.Inventory) {
				for _, h := range hosts {
					inv.Hosts = append(inv.Hosts, inventory.Host{Name: h.Name})
				}
				inv.AsOf = now
				return inv
			},
			About: render.Site{Zone: time.UTC, Interval: time.Minute},
		})
		check(err)
		_, err = gen.Generate(t.Context(), at)
		check(err)
		_, err = gen.Close()
		check(err)
		dirs = append(dirs, dir)
	}
	return dirs
}
