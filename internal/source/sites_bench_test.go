package source

import (
	"fmt"
	"net/http"
	"testing"

	"gpuboard/internal/board"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/internal/testenv/sitetest"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
)

// BenchmarkSites reads the summaries of 20 clusters over HTTP, and makes the pages of a site that shows them. What it
// costs must not grow with the hosts of these clusters.
func BenchmarkSites(b *testing.B) {
	const clusters = 20
	for _, hosts := range []int{10, 1000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			in := boardtest.Big(hosts)
			summaries := map[string][]byte{}
			cfg := settingsOf(b, map[string]string{"sites": clustersOf(b, clusters, summaries)})
			cfg.Once = true
			read := 0
			for i := range clusters {
				in.Board.ID = fmt.Sprintf("%016x", i)
				files, err := boardtest.Files(in, data.Files)
				if err != nil {
					b.Fatal(err)
				}
				summary := boardtest.FileOf(b, files, data.SummaryPath).Content
				summaries[fmt.Sprintf("/c%d/%s", i, data.SummaryPath)] = summary
				read += len(summary)
			}
			s, err := NewSites(Options{Config: cfg}, cfg.Sites())
			if err != nil {
				b.Fatal(err)
			}
			var front *board.Board
			b.Run("read", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					for _, one := range s.sites {
						one.known.Summary = nil // or else it is not due
						one.tried = boardtest.Now.Add(-siteRetry)
					}
					sites := s.Read(b.Context(), boardtest.Now, nil)
					front, _ = board.Merge(board.Input{Now: boardtest.Now, ID: "me", Sites: sites})
				}
				b.ReportMetric(float64(read), "read-B")
			})
			if gpus := front.Others().Totals.GPUs.All; gpus != clusters*hosts*8 {
				b.Fatalf("the sum has %d GPUs", gpus)
			}
			b.Run("render", func(b *testing.B) {
				b.ReportAllocs()
				size := 0
				for b.Loop() {
					files, err := boardtest.Files(render.Input{Board: front},
						func(in render.Input) error { return page.Files(in, nil) })
					if err != nil {
						b.Fatal(err)
					}
					size = len(boardtest.FileOf(b, files, "index.html").Content)
				}
				b.ReportMetric(float64(size), "page-B")
			})
		})
	}
}

// clustersOf serves the summaries of so many clusters, and returns the setting that names them.
func clustersOf(b *testing.B, clusters int, summaries map[string][]byte) (sites string) {
	place := sitetest.Serve(b, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(summaries[r.URL.Path]) })
	for i := range clusters {
		sites += fmt.Sprintf("c%d=%s/c%d/,", i, place, i)
	}
	return sites
}
