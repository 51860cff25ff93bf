package sitegen

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpuboard/inventory"
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
			Inventory: func(_ context.Context, now time.Time) inventory.Inventory {
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

func generation(t *testing.T, g *Generator) Report {
	t.Helper()
	r, err := g.Generate(context.Background(), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWhatSomebodyChangesInTheSiteIsPutRight(t *testing.T) {
	dir, generator := small(t)
	g := generator("GPU board")
	first := generation(t, g)
	if again := generation(t, g); again.Written != 0 || again.Same != first.Written {
		t.Fatalf("at first %+v, then %+v", first, again)
	}
	page, twin := filepath.Join(dir, "site", "hosts", "atlas", "index.html"), filepath.Join(dir, "site", "index.html.gz")
	good, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	spoiled := bytes.ToUpper(good) // as long
	if err := os.WriteFile(page, spoiled, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(twin); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "state", manifestFile)); err != nil {
		t.Fatal(err)
	}
	g.views[0].checked = g.views[0].checked.Add(-checkEvery) // a minute passes
	if r := generation(t, g); r.Written != 2 {
		t.Errorf("%d files were written, want the two", r.Written)
	}
	if got, err := os.ReadFile(page); err != nil || !bytes.Equal(got, good) {
		t.Errorf("the page was not put right (%v)", err)
	}
	for _, path := range []string{twin, filepath.Join(dir, "state", manifestFile)} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// Somebody runs generate by hand beside the one that goes on, or another web
// host led for a while: what this process remembers is not what lies there.
func TestGeneratorsThatTakeTurns(t *testing.T) {
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
