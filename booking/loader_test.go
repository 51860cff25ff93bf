package booking

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A loader that goes on returns what one that begins returns, whatever changes
// in between: the file, the aliases, the zone, the clock, the files beside it.
func TestLoaderIsLoad(t *testing.T) {
	base := t.TempDir()
	zones := []*time.Location{nil, time.UTC, paris(t)}
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			rt.Fatal(err)
		}
		path, state := filepath.Join(dir, "comments.json"), filepath.Join(dir, "state")
		if err := os.Mkdir(state, 0o755); err != nil {
			rt.Fatal(err)
		}
		write := func(name, text string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				rt.Fatal(err)
			}
		}
		var loader Loader
		zone, now, aliases := time.UTC, start, Aliases(nil)
		rt.Repeat(map[string]func(*rapid.T){
			"file": func(t *rapid.T) {
				hour := rapid.IntRange(8, 16)
				text := fmt.Sprintf(`{"a": [{"name": "x", "date": "2026-11-20 %02d:00"}, {"name": "y", "date": "2026-11-20 %02d:30"}], "a": {"*": {"name": "z"}}}`,
					hour.Draw(t, "x"), hour.Draw(t, "y"))
				write("comments.json", text[:len(text)-rapid.SampledFrom([]int{0, 0, 0, 3}).Draw(t, "cut")])
			},
			"overlap": func(t *rapid.T) {
				hour := rapid.IntRange(8, 16)
				write("comments.json", fmt.Sprintf(`{"a": {"0": [{"name": "x", "date": "2026-11-20 %02d:00"}, {"name": "y", "date": "2026-11-20 %02d:30"}]}}`,
					hour.Draw(t, "x"), hour.Draw(t, "y")))
			},
			"beside": func(t *rapid.T) { write("comments.json"+savedMark+"x", "{}") },
			"clock": func(t *rapid.T) {
				now = start.Add(time.Duration(rapid.IntRange(-120, 420).Draw(t, "now")) * time.Minute)
			},
			"never": func(t *rapid.T) { now = time.Time{} },
			"zone":  func(t *rapid.T) { zone = rapid.SampledFrom(zones).Draw(t, "zone") },
			"alias": func(t *rapid.T) {
				aliases = rapid.SampledFrom([]Aliases{nil, {"x": "y"}, {"z": "y"}}).Draw(t, "aliases")
			},
			"": func(t *rapid.T) {
				opts := Options{Aliases: aliases, Now: now}
				got, err := loader.Load(path, state, zone, opts)
				if err != nil {
					t.Fatal(err)
				}
				want, err := Load(path, state, zone, opts)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Fatal(d)
				}
				got.Problems = append(got.Problems, got.Problems...) // the list is its own
			},
		})
	})
}
