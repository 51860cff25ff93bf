package sitegen

import (
	"fmt"
	"testing"
	"time"

	"gpuboard/internal/board"
)

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
