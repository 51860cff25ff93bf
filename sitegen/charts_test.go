package sitegen

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"gpuboard/sitegen/render"
)

// someCharts has a GPU that only the last day knows, and a chart that was never drawn.
func someCharts() *hostCharts {
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	c := &hostCharts{Past: &render.HostPast{}, Done: [4]time.Time{at, at.Add(-time.Hour + 5), {}, at}}
	for i := range c.Past.Spans {
		s := &c.Past.Spans[i]
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

// keepCharts makes a generator that was left these bytes as charts of hosts.
func keepCharts(tb testing.TB, kept map[string][]byte) *Generator {
	tb.Helper()
	g := &Generator{opt: Options{State: tb.TempDir()}}
	if err := os.Mkdir(filepath.Join(g.opt.State, pastDir), 0o700); err != nil {
		tb.Fatal(err)
	}
	for host, data := range kept {
		if err := os.WriteFile(filepath.Join(g.opt.State, fmt.Sprintf(chartsName, host)), data, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return g
}

// A process begins with what an earlier one kept, and without what is damaged.
func TestChartsAreLoaded(t *testing.T) {
	want := someCharts()
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	g := keepCharts(t, map[string][]byte{"atlas": data, "boreas": []byte("cut")})
	if d := cmp.Diff(want, g.loadCharts("atlas")); d != "" {
		t.Errorf("charts read differ:\n%s", d)
	}
	for _, host := range []string{"boreas", "nothing"} {
		if c := g.loadCharts(host); c.Past != nil {
			t.Errorf("charts of %s: %v", host, c.Past)
		}
	}
	for n := 0; n < len(data); n += 1 + len(data)/16 {
		if keepCharts(t, map[string][]byte{"atlas": data[:n]}).loadCharts("atlas").Past != nil {
			t.Fatalf("the first %d bytes of %d pass for charts", n, len(data))
		}
	}
}

// FuzzCharts: what passes for charts can be drawn.
func FuzzCharts(f *testing.F) {
	data, err := json.Marshal(someCharts())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := keepCharts(t, map[string][]byte{"atlas": data}).loadCharts("atlas")
		if c.Past == nil {
			return
		}
		for i := range c.Past.Spans {
			s := &c.Past.Spans[i]
			for key, gpu := range s.GPUs {
				for m, list := range gpu {
					if len(list) != s.Len() {
						t.Fatalf("%s has %d steps of metric %d, and the chart has %d", key, len(list), m, s.Len())
					}
				}
			}
		}
	})
}
