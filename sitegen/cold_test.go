package sitegen_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
)

// TestIncrementalIsCold lets anything happen in any order, and wants the site of
// a generator that goes on to be, after each generation, byte for byte the one
// that a new process makes of the same data and state.
func TestIncrementalIsCold(t *testing.T) {
	t.Parallel()
	need.Time(t, "it makes forty generations")
	sizes := []struct{ hosts, steps int }{{7, 14}, {70, 1}}
	if os.Getenv("GPUBOARD_LONG") == "1" {
		sizes = []struct{ hosts, steps int }{{7, 100}, {70, 10}, {210, 3}}
	}
	for _, c := range sizes {
		t.Run(fmt.Sprint(c.hosts, " hosts"), func(t *testing.T) {
			y := newYard(t, c.hosts, false)
			r := rand.New(rand.NewPCG(7, uint64(c.hosts)))
			y.push(every, y.names)
			y.generate()
			for step := range c.steps {
				what := y.happen(r)
				state := y.path(fmt.Sprint("state-", step))
				y.copyState(state)
				cold := fmt.Sprint("cold-", step)
				y.generate()
				if _, err := y.generator(cold, filepath.Base(state)).Generate(context.Background(), y.at); err != nil {
					t.Fatal(err)
				}
				if !sameSite(t, y.path("site"), y.path(cold)) {
					t.Fatalf("after step %d: %s", step, strings.Join(what, ", "))
				}
				os.RemoveAll(y.path(cold))
			}
		})
	}
}

// copyState copies what a generator remembers, the manifest of its site apart.
func (y *yard) copyState(to string) {
	y.must(os.MkdirAll(to, 0o700))
	entries, err := os.ReadDir(y.path("state"))
	y.must(err)
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), "manifest") {
			continue
		}
		data, err := os.ReadFile(y.path("state", e.Name()))
		y.must(err)
		y.must(os.WriteFile(filepath.Join(to, e.Name()), data, 0o600))
	}
}

// happen changes some of everything that a site is made of.
func (y *yard) happen(r *rand.Rand) (what []string) {
	wait := []time.Duration{0, time.Second, every, every, 90 * time.Second, 10 * time.Minute, 5 * time.Hour, 30 * time.Hour}[r.IntN(8)]
	some := slices.Clone(y.names)
	r.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	some = some[:r.IntN(len(some)/2+1)]
	y.push(wait, some)
	what = append(what, fmt.Sprintf("%s later, news of %d hosts", wait, len(some)))
	for range 3 {
		what = append(what, y.accident(r)...)
	}
	return what
}

func (y *yard) accident(r *rand.Rand) (what []string) {
	one := y.names[r.IntN(len(y.names))]
	drop := y.path("data", "drop", one, "latest.json.gz")
	switch r.IntN(8) {
	case 0:
		y.must(os.WriteFile(drop, []byte("no bundle"), 0o644))
		what = append(what, "the drop of "+one+" is garbage")
	case 1:
		os.Remove(drop)
		what = append(what, "the drop of "+one+" is empty")
	case 2:
		at := y.at.Add(time.Duration(r.IntN(72)) * time.Hour).Format("2006-01-02 15:04")
		y.must(os.WriteFile(y.path("data", "comments.json"), fmt.Appendf(nil, `{%q: {"%d": {"name": "noor", "date": %q, "comment": "<b>"}}, "nowhere": 1}`, one, r.IntN(8), at), 0o644))
		what = append(what, "the bookings are others")
	case 3:
		y.book()
		what = append(what, "the bookings are made anew")
	case 4:
		y.must(os.MkdirAll(y.path("data", "hosts"), 0o755))
		y.must(os.WriteFile(y.path("data", "hosts", one+".md"), fmt.Append(nil, "*note* ", r.IntN(100)), 0o644))
		what = append(what, "a note on "+one)
	case 5:
		y.hosts = slices.Clone(y.hosts)
		y.hosts[r.IntN(len(y.hosts))].Group = fmt.Sprint("group ", r.IntN(3))
		what = append(what, "a host is of another group")
	case 6:
		if i := r.IntN(len(y.hosts)); len(y.hosts) > 3 {
			what = append(what, y.hosts[i].Name+" is no longer expected")
			y.hosts = slices.Delete(slices.Clone(y.hosts), i, i+1)
		}
	}
	return what
}

// sameSite compares two sites, twins by what is in them. Style and script of the
// generation before stay for a while, and are left out.
func sameSite(t *testing.T, a, b string) bool {
	t.Helper()
	x, y := siteFiles(t, a), siteFiles(t, b)
	same := true
	for name, content := range y {
		if got, there := x[name]; !there || !bytes.Equal(got, content) {
			t.Errorf("%s is not what a new process makes (there: %t)", name, there)
			same = false
		}
	}
	for name := range x {
		if _, there := y[name]; !there {
			t.Errorf("a new process makes no %s", name)
			same = false
		}
	}
	return same
}

func siteFiles(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if strings.HasPrefix(name, "assets") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err == nil && strings.HasSuffix(name, ".gz") {
			var z *gzip.Reader
			if z, err = gzip.NewReader(bytes.NewReader(content)); err == nil {
				z.Multistream(false)
				content, err = io.ReadAll(z)
			}
		}
		files[name] = content
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
