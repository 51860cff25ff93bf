package page

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"gpuboard/internal/testenv/boardtest"
)

func TestBudgets(t *testing.T) {
	for hosts, limit := range map[int]int{4: 10 << 10, 40: 30 << 10, 100: 60 << 10, 1000: 200 << 10} {
		files := pages(t, boardtest.Big(hosts))
		if n := zipped(t, files[len(files)-1].Bytes()); n > limit {
			t.Errorf("the front page of %d hosts is %d KiB gzipped, and %d KiB is the most", hosts, n>>10, limit>>10)
		} else {
			t.Logf("%d hosts: %.1f KiB gzipped, %d KiB plain", hosts, float64(n)/1024, len(files[len(files)-1].Bytes())>>10)
		}
	}
	for _, f := range pages(t, boardtest.Lab()) {
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

func BenchmarkPages(b *testing.B) {
	for _, hosts := range []int{10, 100, 1000} {
		in := boardtest.Big(hosts)
		b.Run(fmt.Sprint(hosts), func(b *testing.B) {
			for b.Loop() {
				if _, err := Files(in, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
