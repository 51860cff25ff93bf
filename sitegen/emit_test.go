package sitegen

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
	"gpuboard/sitegen/text"
)

// Each file is handed out once, and an error ends it.
func TestEmit(t *testing.T) {
	in := boardtest.Big(30)
	run := func(emit func(render.File) error) error {
		in.Emit = emit
		for _, files := range []func(render.Input) error{func(in render.Input) error { return page.Files(in, nil) },
			data.Files, text.Files} {
			if err := files(in); err != nil {
				return err
			}
		}
		return nil
	}
	var mu sync.Mutex // Emit is called by several goroutines
	got := map[string][]byte{}
	if err := run(func(f render.File) error {
		mu.Lock()
		defer mu.Unlock()
		if got[f.Path] != nil {
			t.Errorf("%s comes twice", f.Path)
		}
		got[f.Path] = f.Content
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	full := errors.New("the disk is full")
	for _, at := range []int{0, len(got) / 3, len(got) - 1} {
		n := 0
		err := run(func(render.File) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n > at {
				return full
			}
			return nil
		})
		// Each worker may be handing out a file when another meets the error.
		if !errors.Is(err, full) || n <= at || n > at+2*runtime.GOMAXPROCS(0) {
			t.Errorf("after an error at file %d: %v, after %d files", at, err, n)
		}
	}
}

// BenchmarkNews is what finding, keeping and reading back the news of 1,000
// hosts with 8 GPUs costs one generation.
func BenchmarkNews(b *testing.B) {
	at := time.Date(2026, 11, 20, 10, 42, 0, 0, time.UTC)
	bd := &board.Board{GeneratedAt: at}
	for h := range 1000 {
		host := board.Host{Name: fmt.Sprintf("gpu%04d", h), State: board.Up, SnapshotAt: at}
		for i := range 8 {
			var g board.GPU
			g.Index, g.UUID, g.State = i, fmt.Sprintf("GPU-%08x-aaaa-bbbb-cccc-%012x", h, i), board.Busy
			g.Processes = []board.Process{{Person: "mira", Computes: true}}
			host.GPUs = append(host.GPUs, g)
		}
		bd.Hosts = append(bd.Hosts, host)
	}
	g := &Generator{opt: Options{State: b.TempDir()}}
	b.ReportAllocs()
	for b.Loop() {
		bd.GeneratedAt = bd.GeneratedAt.Add(20 * time.Second)
		if err := g.rememberNews(g.news(bd, at)); err != nil {
			b.Fatal(err)
		}
	}
}
