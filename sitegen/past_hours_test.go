package sitegen

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
)

// A finished hour that cannot be read at the moment is read later; one with invalid
// content is reported once.
func TestFinishedHourThatCannotBeReadYet(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	drop := filepath.Join(dir, "drop", "gpu01")
	if err := os.MkdirAll(drop, 0o755); err != nil {
		t.Fatal(err)
	}
	const boot = "aaaaaaaa-1111-4222-8333-444455556666"
	start := now.Add(-2 * time.Hour)
	raw, err := snapshot.EncodeHour(&snapshot.Hour{Host: "gpu01", BootID: boot, Start: start, Samples: []snapshot.Sample{{Seq: 1, At: start}}})
	if err != nil {
		t.Fatal(err)
	}
	good, bad, second := filepath.Join(drop, "hour-20261120T10-aaaaaaaa.jsonl.gz"), filepath.Join(drop, "hour-20261120T09-aaaaaaaa.jsonl.gz"), filepath.Join(dir, "second name")
	for name, content := range map[string][]byte{good: raw, bad: []byte("broken")} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(good, second); err != nil {
		t.Fatal(err)
	}
	drops, err := spool.OpenDrops(dir)
	if err != nil {
		t.Fatal(err)
	}
	g, mem := &Generator{drops: drops}, &memory{Hours: map[string]*hours{}}
	for _, want := range []struct{ batches, taken, problems int }{
		{0, 1, 2}, // the good one has two names for now
		{0, 0, 1},
		{1, 1, 0},
		{0, 0, 0},
	} {
		if want.batches == 1 {
			if err := os.Remove(second); err != nil {
				t.Fatal(err)
			}
		}
		batches, names, problems := g.finishedHours("gpu01", now, mem)
		if len(batches) != want.batches || len(names) != want.taken || len(problems) != want.problems {
			t.Errorf("%v: %d hours, taken %q, problems %v; want %+v", now, len(batches), names, problems, want)
		}
		for _, name := range names {
			mem.Hours["gpu01"].Taken[name] = true
		}
		now = now.Add(lookEvery)
	}
}

// What is remembered of the hours of hosts that are not in the list any more goes.
func TestHoursOfFormerHostsAreForgotten(t *testing.T) {
	g, now := &Generator{opt: Options{State: t.TempDir()}}, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	mem := g.recall()
	mem.Hours["here"], mem.Hours["gone"] = &hours{Looked: now.Add(-lookEvery)}, &hours{Looked: now.Add(-forgetHours - time.Second)}
	if err := g.remember(mem, now); err != nil {
		t.Fatal(err)
	}
	if again := g.recall().Hours; len(again) != 1 || again["here"] == nil {
		t.Errorf("remembered are %v", again)
	}
}
