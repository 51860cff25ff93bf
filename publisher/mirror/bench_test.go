package mirror_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpuboard/internal/sshtest"
	"gpuboard/publisher"
	"gpuboard/publisher/mirror"
)

// BenchmarkRefresh asks a real server about 1,000 drops of which none, one in
// a hundred or each has news. allocs/op aside, it counts files.
func BenchmarkRefresh(b *testing.B) {
	const hosts = 1000
	for _, every := range []int{0, 100, 1} {
		b.Run(fmt.Sprintf("news_of_1_in_%d", every), func(b *testing.B) {
			server := sshtest.Start(b, sshtest.Options{Command: "internal-sftp -R"})
			data := filepath.Join(server.Dir, "data")
			content := make([]byte, 10_000)
			put := func(i int, at time.Time) {
				name := filepath.Join(data, "drop", fmt.Sprintf("gpu%04d", i), "latest.json.gz")
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					b.Fatal(err)
				}
				if err := os.WriteFile(name, content, 0o644); err != nil {
					b.Fatal(err)
				}
				if err := os.Chtimes(name, at, at); err != nil {
					b.Fatal(err)
				}
			}
			old := time.Now().Add(-48 * time.Hour)
			for i := range hosts {
				put(i, old)
			}
			m, err := mirror.New(mirror.Options{Dir: filepath.Join(b.TempDir(), "copy"), Keep: true, Server: publisher.Options{
				Target:   publisher.Target{Scheme: "sftp", User: server.User, Host: server.Host, Port: server.Port, Dir: data},
				Identity: []string{server.Key}, KnownHosts: []string{server.KnownHosts}, ConfigFiles: []string{}, Budget: time.Minute,
			}})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			refresh := func() mirror.Stats {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				stats, problems, err := m.Refresh(ctx)
				if err != nil || len(problems) > 0 {
					b.Fatal(problems, err)
				}
				return stats
			}
			refresh()
			files, round := 0, 0
			for b.Loop() {
				round++
				for i := 0; every > 0 && i < hosts; i += every {
					put(i, old.Add(time.Duration(round)*time.Minute))
				}
				files += refresh().Fetched
			}
			b.ReportMetric(float64(files)/float64(round), "files/op")
		})
	}
}
