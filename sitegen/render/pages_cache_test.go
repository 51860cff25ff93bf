package render

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
	"time"

	"gpuboard/board"
	"gpuboard/templates"
)

func TestBudgets(t *testing.T) {
	for hosts, limit := range map[int]int{4: 10 << 10, 40: 30 << 10, 100: 60 << 10, 1000: 200 << 10} {
		files := pages(t, bigFleet(hosts))
		if n := zipped(t, files[len(files)-1].Bytes()); n > limit {
			t.Errorf("the front page of %d hosts is %d KiB gzipped, and %d KiB is the most", hosts, n>>10, limit>>10)
		} else {
			t.Logf("%d hosts: %.1f KiB gzipped, %d KiB plain", hosts, float64(n)/1024, len(files[len(files)-1].Bytes())>>10)
		}
	}
	for _, f := range pages(t, testFleet()) {
		if strings.HasPrefix(f.Path, "assets/") {
			if n := zipped(t, f.Bytes()); n > 10<<10 {
				t.Errorf("%s is %d bytes gzipped", f.Path, n)
			}
		}
	}
}

func zipped(t testing.TB, b []byte) int {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, 9)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Len()
}

func TestCacheChangesNothing(t *testing.T) {
	cache := &Cache{}
	render := func(in Input) map[string]string {
		in.Cache = cache
		byPath := map[string]string{}
		for _, f := range pages(t, in) {
			byPath[f.Path] = string(f.Bytes())
		}
		return byPath
	}
	check := func(name string, in Input) {
		t.Helper()
		got := render(in)
		for _, f := range pages(t, in) {
			if got[f.Path] != string(f.Bytes()) {
				t.Errorf("%s: %s differs with a cache: %s", name, f.Path, firstDifference(string(f.Bytes()), got[f.Path]))
			}
		}
	}
	check("first", testFleet())
	if len(cache.hosts) != 9 {
		t.Fatalf("the cache holds %d hosts", len(cache.hosts))
	}
	kept := cache.hosts["dione"]
	in := testFleet()
	in.Board.GeneratedAt = in.Board.GeneratedAt.Add(time.Minute)
	in.Board.Hosts[6].GPUs[1].Utilization[90] = ptr(99.0)
	*in.Board.Hosts[4].GPUs[0].UtilizationGPU = 3
	check("news", in)
	if cache.hosts["dione"] != kept {
		t.Error("dione was rendered again, and nothing is new there")
	}
	in = testFleet()
	in.HostNotes["dione"] = "new"
	check("a note", in)
	in.Site.Lab = "Other"
	check("another site", in)
	in.Board.Hosts = append(in.Board.Hosts, board.Host{Name: "atlas-0", State: board.Never})
	check("a name that takes an id", in)
	check("fewer", fleets()["bare"])
	if len(cache.hosts) != 2 {
		t.Errorf("the cache keeps %d hosts, and there are 2", len(cache.hosts))
	}
}

func BenchmarkPagesCached(b *testing.B) {
	in := bigFleet(1000)
	in.Cache = &Cache{}
	for b.Loop() {
		if _, err := Pages(in, templates.Files()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPages(b *testing.B) {
	for _, hosts := range []int{10, 100, 1000} {
		in := bigFleet(hosts)
		b.Run(fmt.Sprint(hosts), func(b *testing.B) {
			for b.Loop() {
				if _, err := Pages(in, templates.Files()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
