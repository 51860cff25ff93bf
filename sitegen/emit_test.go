package sitegen

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/board"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
	"gpuboard/sitegen/text"
)

// Files that are handed out one by one are those of a call that returns them, each
// once, and an error ends it.
func TestEmit(t *testing.T) {
	in := boardtest.Big(30)
	want := map[string][]byte{}
	renderers := []func(render.Input) ([]render.File, error){
		func(in render.Input) ([]render.File, error) { return page.Files(in, nil) }, data.Files, text.Files,
	}
	for _, files := range renderers {
		list, err := files(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			want[f.Path] = f.Content
		}
	}
	run := func(emit func(render.File) error) error {
		in.Emit = emit
		for _, files := range renderers {
			if list, err := files(in); err != nil || len(list) > 0 {
				if len(list) > 0 {
					t.Errorf("%d files are returned, too", len(list))
				}
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
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("what is handed out differs (-returned +handed out):\n%s", d)
	}
	full := errors.New("the disk is full")
	for _, at := range []int{0, len(want) / 3, len(want) - 1} {
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
			g.Processes = []board.Process{{Person: "mira"}}
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
