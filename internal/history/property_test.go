package history_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

// Whatever the order, the repetitions and the restarts in which finished hours and what nodes send of the last
// quarter of an hour come: once the hours are there, the answers follow from their samples alone.
func TestAnswersDependOnTheSetOfSamplesAlone(t *testing.T) {
	t.Parallel()
	need.Time(t, "it makes months of samples")
	base := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 7))
		// Around midnight, so that hours and days have edges.
		from, length := t0.Add(22*time.Hour), 4*time.Hour
		now := from.Add(length)
		hosts := []string{"gpu00", "gpu01"}
		var hours, bundles []history.Batch
		for _, h := range hosts {
			tr := randomTruth(r, h, from, length)
			tr.every = time.Duration(20+r.IntN(200)) * time.Second
			parts := map[string][]snapshot.Sample{}
			for i, s := range tr.samples() {
				if r.IntN(10) == 0 {
					continue // lost
				}
				s.At = s.At.Add(time.Duration(r.IntN(3000)) * time.Millisecond)
				boot := "one"
				if i > 50 {
					boot = "two"
				}
				parts[boot] = append(parts[boot], s)
			}
			for _, boot := range []string{"one", "two"} {
				all := parts[boot]
				for i := range all {
					first := i
					for first > 0 && all[i].At.Sub(all[first-1].At) < snapshot.BundleWindow {
						first--
					}
					bundles = append(bundles, history.Batch{Host: h, Boot: boot, Samples: all[first : i+1]})
				}
				for len(all) > 0 {
					n := 1
					for n < len(all) && all[n].At.Truncate(time.Hour).Equal(all[0].At.Truncate(time.Hour)) {
						n++
					}
					hours = append(hours, history.Batch{Host: h, Boot: boot, Samples: all[:n], Whole: true})
					all = all[n:]
				}
			}
		}
		ctx := context.Background()
		fill := func(name string, batches []history.Batch, restarts bool) string {
			path := filepath.Join(dir, name)
			s, err := history.Open(ctx, path, now, history.Options{})
			if err != nil {
				rt.Fatal(err)
			}
			clock, step := now, time.Duration(r.IntN(600))*time.Second
			for len(batches) > 0 {
				n := min(len(batches), 1+r.IntN(80))
				if err := s.IngestAll(ctx, clock, batches[:n]); err != nil {
					rt.Fatal(err)
				}
				batches = batches[n:]
				if !restarts {
					continue
				}
				clock = clock.Add(step)
				switch r.IntN(6) {
				case 0:
					if _, err := s.Recent(ctx, now, 20*time.Minute, 5); err != nil {
						rt.Fatal(err)
					}
				case 1:
					s.Close()
					if s, err = history.Open(ctx, path, clock, history.Options{}); err != nil {
						rt.Fatal(err)
					}
				}
			}
			defer s.Close()
			return fingerprint(t, s, hosts, from, now, now)
		}
		want := fill("plain", hours, false)
		// Some of the bundles, mostly in order, and the hours in any.
		var mixed []history.Batch
		for _, b := range bundles {
			if r.IntN(3) > 0 {
				mixed = append(mixed, b)
			}
		}
		for range len(mixed) / 3 {
			mixed = slices.Insert(mixed, r.IntN(len(mixed)), mixed[r.IntN(len(mixed))])
		}
		for _, b := range slices.Concat(hours, hours[:len(hours)/2]) {
			mixed = slices.Insert(mixed, r.IntN(len(mixed)+1), b)
		}
		if got := fill("mixed", mixed, true); got != want {
			rt.Fatal("the answers differ ", firstDifference(want, got))
		}
	})
}

func TestTwoProcessesSeeEachOther(t *testing.T) {
	path := newPath(t)
	a, b := openAt(t, path, t0, history.Options{}), openAt(t, path, t0, history.Options{})
	tr := &truth{
		host: "gpu1", gpus: 1, every: 20 * time.Second, from: t0, to: t0.Add(3 * time.Hour),
		jobs: []job{{0, "ada", t0, t0.Add(3 * time.Hour), 100, 50}},
	}
	all := tr.samples()
	for i := 0; i < len(all); i += 12 {
		ingest(t, []*history.Store{a, b}[i/12%2], all[i+11].At, "gpu1", "boot", all[max(0, i-33):i+12])
	}
	for _, s := range []*history.Store{a, b} { // the open five comes from what nodes send
		ingest(t, s, tr.to, "gpu1", "boot", all[len(all)-45:])
	}
	for _, s := range []*history.Store{a, b} {
		us, err := userTotalsOf(s, t0, tr.to)
		if err != nil || len(us) != 1 {
			t.Fatal(us, err)
		}
		near(t, "GPU-hours", us[0].GPUHours, 3, 0.001)
	}
	x := fingerprint(t, a, []string{"gpu1"}, t0, tr.to, tr.to)
	if y := fingerprint(t, b, []string{"gpu1"}, t0, tr.to, tr.to); x != y {
		t.Error("two processes answer differently ", firstDifference(x, y))
	}
}

func TestSizeOfAYearStaysTheSame(t *testing.T) {
	t.Parallel()
	need.Time(t, "it makes months of samples")
	ctx := context.Background()
	day := 24 * time.Hour
	// A tenth of the hours, so that 400 days are ten rounds.
	path := newPath(t)
	s := openAt(t, path, t0, history.Options{Hourly: 40 * day})
	db := database(t, path)
	count := func(query string) (n int64) {
		if err := db.QueryRowContext(ctx, query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	var seq uint64
	var reached, wal int64
	for at := t0; at.Before(t0.Add(400 * day)); {
		var all []history.Batch
		for range 48 { // a day a call
			at = at.Add(30 * time.Minute)
			seq++
			for h := range 3 {
				r := rand.New(rand.NewPCG(seq, uint64(h)))
				all = append(all, batchOf(fmt.Sprintf("gpu%d", h), "boot", noisy(r, h, seq, at)))
			}
		}
		if err := s.IngestAll(ctx, at, all); err != nil {
			t.Fatal(err)
		}
		bytes := count("pragma page_count") * pageSize
		if at.Sub(t0) < 80*day {
			reached = max(reached, bytes)
		} else if bytes > reached+reached/5 {
			t.Fatalf("after %v it has %d bytes, and %d after 80 days", at.Sub(t0), bytes, reached)
		}
		if info, err := os.Stat(path + "-wal"); err == nil {
			wal = max(wal, info.Size())
		}
	}
	if wal > 64<<20 {
		t.Errorf("the log grew to %d bytes", wal)
	}
	end := t0.Add(400 * day)
	for table, want := range map[string]int64{"hour": 3 * (72 + 2), "day": 3 * 42} {
		if n := count("select count(*) from " + table); n == 0 || n > want {
			t.Errorf("%s has %d rows, and at most %d are to be kept", table, n, want)
		}
	}
	us, err := userTotalsOf(s, end.Add(-30*day), end)
	if err != nil || len(us) == 0 {
		t.Error(us, err)
	}
	// A host that is gone for good is forgotten with the last of its days.
	for at := end; at.Before(end.Add(60 * day)); at = at.Add(12 * time.Hour) {
		seq++
		r := rand.New(rand.NewPCG(seq, 9))
		ingest(t, s, at, "gpu0", "boot", []snapshot.Sample{noisy(r, 0, seq, at)})
	}
	if hosts := count("select count(*) from host"); hosts != 1 {
		t.Errorf("%d hosts are remembered", hosts)
	}
}
