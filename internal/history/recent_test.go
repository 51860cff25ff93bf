package history_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

// What a store that goes on says of the recent past is what one says that has
// just been opened, whatever gaps and latecomers there were.
func TestRecentEqualsANewStore(t *testing.T) {
	t.Parallel()
	need.Time(t, "it makes months of samples")
	base := t.TempDir()
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "history.db")
		warm, err := history.Open(ctx, path, t0, history.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer warm.Close()
		// Mostly in step, now and then silent, or by a clock that goes back.
		wait := rapid.SampledFrom([]int{5, 20, 20, 20, 20, 60, 130, 290, 310, 900})
		late := rapid.SampledFrom([]int{0, 0, 0, 0, 0, 7, 150, 400})
		at, seq := t0.Add(24*time.Hour), uint64(0)
		var samples []snapshot.Sample
		for range rapid.IntRange(1, 8).Draw(t, "generations") {
			for range rapid.IntRange(0, 40).Draw(t, "samples") {
				seq++
				at = at.Add(time.Duration(wait.Draw(t, "wait")) * time.Second)
				s := snapshot.Sample{Seq: seq, At: at.Add(-time.Duration(late.Draw(t, "late")) * time.Second)}
				for g := range rapid.IntRange(0, 2).Draw(t, "gpus") {
					one := snapshot.GPUSample{Index: g, Utilization: ptr(int(seq) % 50)}
					if seq%7 > 2 {
						one.Users = []snapshot.UserMemory{{User: "ann", Memory: int64(seq % 3)},
							{User: "bob", Memory: 2}}
					}
					s.GPUs = append(s.GPUs, one)
				}
				samples = append(samples, s)
			}
			var newest time.Time
			for _, s := range samples {
				if s.At.After(newest) {
					newest = s.At
				}
			}
			// What lies in the drop: the last quarter of an hour, up to the newest sample.
			sent := slices.DeleteFunc(slices.Clone(samples), func(s snapshot.Sample) bool {
				return newest.Sub(s.At) >= snapshot.BundleWindow
			})
			if err := warm.IngestAll(ctx, at,
				[]history.Batch{{Host: "gpu01", Boot: "boot", Samples: sent}}); err != nil {
				t.Fatal(err)
			}
			at = at.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "then")) * time.Second)
			got, err := warm.Recent(ctx, at, 10*time.Minute, 20)
			if err != nil {
				t.Fatal(err)
			}
			cold, err := history.Open(ctx, path, at, history.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := cold.IngestAll(ctx, at,
				[]history.Batch{{Host: "gpu01", Boot: "boot", Samples: sent}}); err != nil {
				t.Fatal(err)
			}
			want, err := cold.Recent(ctx, at, 10*time.Minute, 20)
			cold.Close()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("the open store has + where one that begins has -:\n%s", d)
			}
		}
	})
}

// A store that was just opened answers what one answers that goes on, also when it
// is asked again, and though the numbers of hosts are not in the order of their names.
func TestRecentAfterReopening(t *testing.T) {
	path := newPath(t)
	at, want := manyHosts(t, path)
	opened := openAt(t, path, at, history.Options{})
	for range 2 {
		got, err := opened.Recent(context.Background(), at, 10*time.Minute, 20)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("a store that was opened has + where one that goes on has -:\n%s", d)
		}
	}
}

// A host that names ever new people puts those on the board who used it most.
func TestRecentPeopleOfOneHost(t *testing.T) {
	ctx := context.Background()
	s := open(t, history.Options{})
	at := t0.Add(24 * time.Hour)
	var samples []snapshot.Sample
	for n := range 30 {
		one := snapshot.Sample{Seq: uint64(n + 1), At: at.Add(time.Duration(n-30) * 20 * time.Second)}
		for g := range 4 { // 128 others of each GPU and sample
			gpu := snapshot.GPUSample{Index: g, Utilization: ptr(50)}
			if g == 0 {
				gpu.Users = []snapshot.UserMemory{{User: "ann", Memory: 1}}
			}
			for u := range 127 {
				gpu.Users = append(gpu.Users,
					snapshot.UserMemory{User: fmt.Sprintf("u%d-%d-%d", n/10, g, u), Memory: 1})
			}
			one.GPUs = append(one.GPUs, gpu)
		}
		samples = append(samples, one)
	}
	ingest(t, s, at, "gpu01", "boot", samples)
	recent, err := s.Recent(ctx, at, 10*time.Minute, 20)
	if err != nil {
		t.Fatal(err)
	}
	const most = 256 // people of one host
	if len(recent.Users) != most ||
		!slices.ContainsFunc(recent.Users, func(u history.User) bool { return u.Name == "ann" }) {
		t.Errorf("%d people, and not the one who used it most", len(recent.Users))
	}
}

// A process that asks once reads the week of some hosts at a time, keeps none of them, and learns of
// all what one learns that reads it whole; asked again, it says the same.
func TestRecentOfAOneShotProcess(t *testing.T) {
	path := newPath(t)
	at, want := manyHosts(t, path)
	// kept is by how much the memory of the program grows when a store is asked.
	kept := func(s *history.Store) int64 {
		before := heap()
		got, err := s.Recent(context.Background(), at, 10*time.Minute, 20)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("a store that was opened has + where one that goes on has -:\n%s", d)
		}
		return heap() - before
	}
	on, once := openAt(t, path, at, history.Options{}), openAt(t, path, at, history.Options{Once: true})
	if on, once := kept(on), kept(once); once > on/2 {
		t.Errorf("who asks once keeps %d bytes, and who goes on %d", once, on)
	}
	kept(once)
}

// manyHosts fills a history with 16 hours of hosts, more than are read at once. It returns when they end, and what is
// known then.
func manyHosts(t *testing.T, path string) (at time.Time, recent *history.Recent) {
	t.Helper()
	const hosts = 131
	s := openAt(t, path, t0, history.Options{})
	at = t0
	for n := range 4 {
		var batches []history.Batch
		for h := range hosts {
			// Numbers of hosts are not in order of their names.
			b := history.Batch{Host: fmt.Sprintf("gpu%03d", h*37%hosts), Boot: "b"}
			for k := range 30 {
				b.Samples = append(b.Samples, snapshot.Sample{Seq: uint64(n*30 + k + 1),
					At: at.Add(time.Duration(k) * 20 * time.Second),
					GPUs: []snapshot.GPUSample{{
						Utilization: ptr((h + k) % 7),
						Users:       []snapshot.UserMemory{{User: fmt.Sprint("user", h%5), Memory: 7}},
					}}})
			}
			batches = append(batches, b)
		}
		at = at.Add(4 * time.Hour)
		if err := s.IngestAll(context.Background(), at, batches); err != nil {
			t.Fatal(err)
		}
	}
	recent, err := s.Recent(context.Background(), at, 10*time.Minute, 20)
	if err != nil || len(recent.GPUs) != hosts || len(recent.Users) != 5 {
		t.Fatalf("%d GPUs, %d users (%v)", len(recent.GPUs), len(recent.Users), err)
	}
	return at, recent
}
