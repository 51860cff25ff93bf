package history_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
)

func TestWhatIsKnownIsNotWrittenAgain(t *testing.T) {
	path := newPath(t)
	s := openAt(t, path, t0, history.Options{})
	tr := &truth{host: "gpu1", gpus: 2, every: 20 * time.Second, from: t0, to: t0.Add(15 * time.Minute)}
	all := tr.samples()
	ingest(t, s, tr.to, "gpu1", "boot", all)
	log := func() []byte {
		b, err := os.ReadFile(path + "-wal")
		if err != nil || len(b) == 0 {
			t.Fatal(len(b), err)
		}
		return b
	}
	before := log()
	for range 3 {
		ingest(t, s, tr.to, "gpu1", "boot", all)
	}
	if after := log(); !bytes.Equal(before, after) {
		t.Errorf("the log of %d bytes is another one, of %d", len(before), len(after))
	}
}

// The hosts of one minute come at once. None runs ahead of the others: what comes half an hour late is another matter.
func TestConcurrentIngestAndQueries(t *testing.T) {
	ctx := context.Background()
	s := open(t, history.Options{})
	var random [4]*rand.Rand
	for h := range random {
		random[h] = rand.New(rand.NewPCG(uint64(h), 1))
	}
	for seq := range uint64(60) {
		at := t0.Add(time.Duration(seq) * time.Minute)
		var wg sync.WaitGroup
		for h, r := range random {
			wg.Go(func() {
				batch := batchOf(fmt.Sprintf("gpu%d", h), "boot", noisy(r, h, seq, at))
				if err := s.IngestAll(ctx, at, []history.Batch{batch}); err != nil {
					t.Error(err)
				}
				if _, err := s.Recent(ctx, at, 30*time.Minute, 5); err != nil {
					t.Error(err)
				}
				s.Problems(at)
			})
		}
		wg.Wait()
	}
	hs, err := hostTotalsOf(s, t0, t0.Add(time.Hour))
	if err != nil || len(hs) != 4 {
		t.Fatal(hs, err)
	}
	for _, h := range hs {
		near(t, "hours known of "+h.Host, h.KnownHours, 8, 0.05)
		near(t, "seconds covered of "+h.Host, h.Covered, 3600, 36)
	}
}

func TestOpenRefuses(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	newer := filepath.Join(dir, "newer.db")
	openAt(t, newer, t0, history.Options{}).Close()
	change(t, newer, "pragma user_version=99")
	foreign := filepath.Join(dir, "foreign.db")
	change(t, foreign, "create table another (program text)")
	for path, want := range map[string]string{
		dir: "not a regular file", newer: "newer gpuboard", foreign: "another program",
		filepath.Join(dir, "no", "such", "history.db"): "opening history",
	} {
		s, err := history.Open(ctx, path, t0, history.Options{})
		if err == nil || s != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, and it should say %q", path, err, want)
		}
	}
	if old, _ := filepath.Glob(filepath.Join(dir, "*.corrupt-*")); len(old) != 0 {
		t.Errorf("moved aside: %v", old)
	}
}

func TestClosedStoreSaysSo(t *testing.T) {
	ctx := context.Background()
	s := open(t, history.Options{})
	s.Close()
	closed := func(err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "history is closed") {
			t.Error(err)
		}
	}
	_, err := s.Recent(ctx, t0, time.Hour, 5)
	closed(err)
	closed(s.IngestAll(ctx, t0, []history.Batch{batchOf("gpu1", "b", snapshot.Sample{At: t0})}))
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A host of which the whole past comes at once, hour files first to last or
// last to first, is caught up with in one call.
func TestTwoDaysOfSamplesAtOnce(t *testing.T) {
	ctx := context.Background()
	s := open(t, history.Options{})
	now := t0.Add(48 * time.Hour)
	tr := &truth{
		host: "gpu1", gpus: 1, every: 20 * time.Second, from: t0, to: now, jobs: []job{{0, "ada", t0, now, 100, 50}},
	}
	all := tr.samples()
	live(t, s, "gpu1", "boot", all[len(all)-600:])
	for i := len(all) - 600; i > 0; i -= 180 {
		ingestHours(t, s, now, "gpu1", "boot", all[max(0, i-180):i])
	}
	us, err := userTotalsOf(s, t0, now)
	if err != nil || len(us) != 1 {
		t.Fatal(us, err)
	}
	near(t, "GPU-hours", us[0].GPUHours, 48, 0.001)
	r, err := s.Recent(ctx, now, time.Hour, 5)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "mean of 24 h", *r.Users[0].Mean24h, 1, 0.001)
	for i, v := range r.GPUs[history.Key{Host: "gpu1", GPU: "GPU-gpu1-0"}].Utilization[:95] {
		if v == nil || *v != 50 {
			t.Errorf("step %d is %v", i, v)
		}
	}
}
