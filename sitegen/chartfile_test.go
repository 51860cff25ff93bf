package sitegen

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

func encoded(tb testing.TB, c *hostCharts) []byte {
	tb.Helper()
	data, err := c.encode()
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func TestChartsAreKept(t *testing.T) {
	want := someCharts()
	data := encoded(t, want)
	if d := cmp.Diff(want, decodeCharts(data)); d != "" {
		t.Fatalf("what is read back differs:\n%s", d)
	}
	if !bytes.Equal(data, encoded(t, someCharts())) {
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

// A process begins with what an earlier one kept, and without what is damaged.
func TestChartsAreLoaded(t *testing.T) {
	g := &Generator{opt: Options{State: t.TempDir()}}
	if err := os.Mkdir(filepath.Join(g.opt.State, pastDir), 0o700); err != nil {
		t.Fatal(err)
	}
	want := someCharts()
	for host, data := range map[string][]byte{"atlas": encoded(t, want), "boreas": []byte("cut")} {
		if err := os.WriteFile(filepath.Join(g.opt.State, chartFileName(host)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(want, g.loadCharts("atlas")); d != "" {
		t.Errorf("charts read differ:\n%s", d)
	}
	for _, host := range []string{"boreas", "nothing"} {
		if c := g.loadCharts(host); c.Past != nil {
			t.Errorf("charts of %s: %v", host, c.Past)
		}
	}
}

// FuzzCharts: what passes for charts can be drawn, and is the same when it is
// written and read again.
func FuzzCharts(f *testing.F) {
	f.Add(encoded(f, someCharts()))
	f.Add([]byte("{}\n"))
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
		if d := cmp.Diff(c, decodeCharts(encoded(t, c))); d != "" {
			t.Fatalf("written and read again it differs:\n%s", d)
		}
	})
}
