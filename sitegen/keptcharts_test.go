package sitegen

import (
	"bytes"
	"encoding/gob"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/atomicfile"
	"gpuboard/sitegen/render"
)

// someCharts has a GPU that only the last day knows, and a chart that was never drawn.
func someCharts() *hostCharts {
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	c := &hostCharts{Past: &render.HostPast{}, Done: [4]time.Time{at, at.Add(-time.Hour + 5), {}, at}}
	for i, s := range spansOf(c.Past) {
		*s = render.PastSpan{From: at.Add(-time.Duration(i+1) * time.Hour), Step: time.Duration(i+1) * time.Minute, Coverage: 1 / float64(i+1), GPUs: map[string]render.PastGPU{}}
		if i == 2 {
			continue // a host that was silent
		}
		for g, key := range []string{"GPU-b", "index:0"}[:max(1, 2-i)] {
			var gpu render.PastGPU
			for m := range gpu {
				for step := range 3 + i {
					gpu[m] = append(gpu[m], int16(g*100+m*10+step))
				}
			}
			gpu[render.PastPower][1] = render.PastUnknown
			s.GPUs[key] = gpu
		}
	}
	return c
}

func TestChartsAreKept(t *testing.T) {
	want := someCharts()
	data := want.encode()
	if d := cmp.Diff(want, decodeCharts(data)); d != "" {
		t.Fatalf("what is read back differs:\n%s", d)
	}
	if !bytes.Equal(data, someCharts().encode()) {
		t.Error("equal charts are not equal files")
	}
	for n := range data {
		if decodeCharts(data[:n]) != nil {
			t.Fatalf("the first %d bytes of %d pass for charts", n, len(data))
		}
	}
	if decodeCharts(append(data, 0)) != nil {
		t.Error("a byte too many passes")
	}
}

// Charts that an earlier version kept are shown until they are drawn anew, and
// their files go when that is done.
func TestOlderChartsAreRead(t *testing.T) {
	g := &Generator{opt: Options{State: t.TempDir()}}
	past := filepath.Join(g.opt.State, pastDir)
	write := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(past, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(past, 0o700); err != nil {
		t.Fatal(err)
	}
	if c := g.loadCharts("atlas"); c.Past != nil {
		t.Errorf("charts of nothing: %v", c)
	}
	want := someCharts()
	var old bytes.Buffer
	if err := gob.NewEncoder(&old).Encode(want); err != nil {
		t.Fatal(err)
	}
	write("host-atlas.gob", old.Bytes())
	write("host-boreas.gob", old.Bytes())
	write("host-crius.gob", []byte("something else"))
	for host, there := range map[string]bool{"atlas": true, "crius": false} {
		if c := g.loadCharts(host); (c.Past != nil) != there {
			t.Errorf("older charts of %s: %v", host, c.Past)
		}
	}
	if d := cmp.Diff(want.encode(), g.loadCharts("atlas").encode()); d != "" {
		t.Errorf("older charts read differ:\n%s", d)
	}
	write("host-atlas.charts", want.encode())
	write("host-boreas.charts", []byte("cut"))
	if c := g.loadCharts("boreas"); c.Past != nil {
		t.Errorf("charts of a damaged file: %v", c.Past)
	}
	batch, err := atomicfile.NewBatch(g.opt.State)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Abort()
	g.charts = &charts{}
	if err := g.sweepPast(time.Time{}, batch); err != nil {
		t.Fatal(err)
	}
	if err := batch.Commit(); err != nil {
		t.Fatal(err)
	}
	for name, stays := range map[string]bool{"host-atlas.gob": false, "host-boreas.gob": false, "host-crius.gob": true, "host-atlas.charts": true} {
		if _, err := os.Stat(filepath.Join(past, name)); (err == nil) != stays {
			t.Errorf("%s after sweeping: %v", name, err)
		}
	}
}

// FuzzCharts: what passes for charts can be drawn, and is the same when it is
// written and read again.
func FuzzCharts(f *testing.F) {
	f.Add(someCharts().encode())
	f.Add([]byte{chartsVersion, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		c := decodeCharts(data)
		if c == nil {
			return
		}
		for _, s := range spansOf(c.Past) {
			for key, gpu := range s.GPUs {
				for m, list := range gpu {
					if len(list) != s.Len() {
						t.Fatalf("%s has %d steps of metric %d, and the chart has %d", key, len(list), m, s.Len())
					}
				}
			}
		}
		if d := cmp.Diff(c, decodeCharts(c.encode())); d != "" {
			t.Fatalf("written and read again it differs:\n%s", d)
		}
	})
}
