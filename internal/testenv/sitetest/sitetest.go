// Package sitetest makes the files that a small site publishes, for tests.
package sitetest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/render"
)

// Now is when the sites of these tests were generated.
var Now = time.Date(2026, 11, 20, 9, 42, 0, 0, time.UTC)

// A Site is a small cluster: gpu01 with two A100 and gpu02 with an RTX 3090.
type Site struct {
	At       time.Time
	Busy     []string // "gpu01:0" and so on: used by ann
	Comments string
	Silent   []string // hosts that never came
	Name     string   // of the first GPU, to be hostile
}

// Files are what the site publishes, by path.
func (s Site) Files(t testing.TB) map[string][]byte {
	t.Helper()
	if s.At.IsZero() {
		s.At = Now
	}
	in := board.Input{Now: s.At, Interval: 20 * time.Second, Reports: map[string]board.Report{},
		Calendar: booking.Parse("comments.json", []byte(s.Comments), booking.Zone{Location: time.UTC},
			booking.Options{Now: s.At})}
	for _, h := range []struct {
		name, model string
		gpus        int
		mib         int64
		watts       float64
	}{{"gpu01", "NVIDIA A100-SXM4-40GB", 2, 40960, 400}, {"gpu02", "NVIDIA GeForce RTX 3090", 1, 24576, 350}} {
		in.Hosts = append(in.Hosts, inventory.Host{Name: h.name})
		if strings.Contains(strings.Join(s.Silent, " "), h.name) {
			continue
		}
		snap := &snapshot.Snapshot{Host: h.name, CollectedAt: snapshot.TimeOf(s.At), IntervalSeconds: 20,
			Processes: []snapshot.Process{}}
		for i := range h.gpus {
			g := snapshot.GPU{Index: i, UUID: fmt.Sprintf("GPU-%x-%d", h.name, i), Name: h.model,
				Health:      snapshot.HealthOK,
				MemoryTotal: &h.mib, MemoryUsed: new(int64(4)),
				Readings: snapshot.Readings{UtilizationGPU: new(0), Temperature: new(-5), PowerLimit: &h.watts}}
			if s.Name != "" && i == 0 {
				g.Name = s.Name
			}
			if strings.Contains(strings.Join(s.Busy, " "), fmt.Sprintf("%s:%d", h.name, i)) {
				g.MemoryUsed, g.UtilizationGPU = new(int64(20000)), new(97)
				started := snapshot.TimeOf(s.At.Add(-50 * time.Hour))
				snap.Processes = append(snap.Processes,
					snapshot.Process{GPU: i, PID: 100 + i, Type: snapshot.Compute, User: "ann",
						Program: "=cmd|' /C calc'!A0", StartedAt: &started, Alive: new(true),
						UsedMemory: new(int64(19000))})
			}
			snap.GPUs = append(snap.GPUs, g)
		}
		in.Reports[h.name] = board.Report{Snapshot: snap}
	}
	b, _ := board.Merge(in)
	files, err := boardtest.Files(render.Input{Board: b, Site: render.Site{Title: "test", Interval: in.Interval}},
		data.Files)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string][]byte{}
	for _, f := range files {
		m[f.Path] = f.Content
	}
	return m
}

// Write puts the site into a directory, as a generation would.
func (s Site) Write(t testing.TB, dir string) {
	t.Helper()
	for path, content := range s.Files(t) {
		if !strings.HasPrefix(path, "api/v1/") {
			continue
		}
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := atomicfile.Write(filepath.Join(dir, path), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Serve answers as a web server in front of a site does.
func Serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}
