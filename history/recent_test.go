package history

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gpuboard/snapshot"
)

// What a store that goes on says of the recent past is what one says that has
// just been opened, whatever gaps and latecomers there were.
func TestRecentIsCold(t *testing.T) {
	base := t.TempDir()
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "history.db")
		warm, err := Open(ctx, path, t0, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer warm.Close()
		// Mostly in step, now and then silent, late or back from long ago.
		wait := rapid.SampledFrom([]int{5, 20, 20, 20, 20, 60, 130, 290, 310, 900})
		late := rapid.SampledFrom([]int{0, 0, 0, 0, 0, 7, 150, 400, 2000, 5000})
		at, seq := t0.Add(24*time.Hour), uint64(0)
		for range rapid.IntRange(1, 8).Draw(t, "generations") {
			var samples []snapshot.Sample
			for range rapid.IntRange(0, 40).Draw(t, "samples") {
				seq++
				at = at.Add(time.Duration(wait.Draw(t, "wait")) * time.Second)
				s := snapshot.Sample{Seq: seq, At: at.Add(-time.Duration(late.Draw(t, "late")) * time.Second)}
				for g := range rapid.IntRange(0, 2).Draw(t, "gpus") {
					one := snapshot.GPUSample{Index: g, Utilization: ptr(int(seq) % 50)}
					if seq%7 > 2 {
						one.Users = []snapshot.UserMemory{{User: "ann", Memory: int64(seq % 3)}, {User: "bob", Memory: 2}}
					}
					s.GPUs = append(s.GPUs, one)
				}
				samples = append(samples, s)
			}
			if _, err := warm.Ingest(ctx, at, "gpu01", "boot", samples); err != nil {
				t.Fatal(err)
			}
			at = at.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "then")) * time.Second)
			got, err := warm.Recent(ctx, at, 10*time.Minute, 20)
			if err != nil {
				t.Fatal(err)
			}
			cold, err := Open(ctx, path, at, Options{})
			if err != nil {
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
