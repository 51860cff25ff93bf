package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/snapshot"
)

const (
	bootA = "aaaaaaaa-1111-4222-8333-444455556666"
	bootB = "bbbbbbbb-1111-4222-8333-444455556666"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

func snap(boot string, at time.Time) *snapshot.Snapshot {
	return &snapshot.Snapshot{
		Host: "gpu01", BootID: boot, CollectedAt: snapshot.TimeOf(at), Collector: "test",
		GPUs: []snapshot.GPU{{Index: 0, UUID: "GPU-1", Name: "NVIDIA A100", MemoryTotal: ptr(int64(81920)),
			MemoryUsed: ptr(int64(1000)),
			Readings:   snapshot.Readings{UtilizationGPU: ptr(at.Second()), PowerDraw: ptr(250.5)},
			Health:     snapshot.HealthOK}},
		Processes: []snapshot.Process{{GPU: 0, PID: 1, Type: snapshot.Compute, User: "ann",
			UsedMemory: ptr(int64(990))}},
		Errors: []snapshot.Problem{},
	}
}

func open(t *testing.T, dir string) *Spool {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func add(t *testing.T, s *Spool, boot string, at time.Time) *snapshot.Snapshot {
	t.Helper()
	sn := snap(boot, at)
	if err := s.Add(sn); err != nil {
		t.Fatalf("adding at %v: %v", at, err)
	}
	return sn
}

func latest(t *testing.T, dir string) *snapshot.Bundle {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, LatestName))
	if err != nil {
		t.Fatal(err)
	}
	b, err := snapshot.DecodeBundle(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func hours(t *testing.T, dir string) map[string]*snapshot.Hour {
	t.Helper()
	found := map[string]*snapshot.Hour{}
	names, err := filepath.Glob(filepath.Join(dir, "hour-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		h, err := snapshot.DecodeHour(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found[filepath.Base(name)] = h
	}
	return found
}

func seqs(samples []snapshot.Sample) string {
	var b strings.Builder
	for _, s := range samples {
		fmt.Fprintf(&b, "%d ", s.Seq)
	}
	return strings.TrimSpace(b.String())
}

func TestAddSurvivesRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	add(t, s, bootA, noon)
	add(t, s, bootA, noon.Add(10*time.Minute))
	s.Close()
	s = open(t, dir)
	third := add(t, s, bootA, noon.Add(20*time.Minute))
	b := latest(t, dir)
	if third.Seq != 3 || b.Snapshot.Seq != 3 {
		t.Errorf("after a restart the number is %d, in the bundle %d, want 3", third.Seq, b.Snapshot.Seq)
	}
	if got := seqs(b.Samples); got != "2 3" {
		t.Errorf("the bundle holds samples %s, want those of the last 15 minutes: 2 3", got)
	}
	if diff := cmp.Diff(third.Sample(), b.Samples[1]); diff != "" {
		t.Errorf("sample (-added +read):\n%s", diff)
	}
	if len(hours(t, dir)) != 0 {
		t.Error("an hour was sealed that is not over")
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	add(t, s, bootA, noon.Add(time.Hour))
	h := hours(t, dir)["hour-20261120T12-aaaaaaaa.jsonl.gz"]
	if h == nil || seqs(h.Samples) != "1 2 3" || h.BootID != bootA || h.Host != "gpu01" || !h.Start.Equal(noon) {
		t.Errorf("the hour that is over is %+v, want samples 1 2 3", h)
	}
}

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	add(t, s, bootA, noon)
	add(t, s, bootA, noon.Add(time.Hour))
	if err := s.Delivered("x", LatestName, nil); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		}
		if seen++; info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil || seen != 6 {
		t.Errorf("%d entries, err %v; want 6: directory, lock, journal, latest, hour, deliveries", seen, err)
	}
}

func TestSecondCollectorIsLockedOut(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	first, second := open(t, dir), open(t, dir)
	add(t, first, bootA, noon)
	if err := second.Add(snap(bootA, noon)); !errors.Is(err, ErrLocked) {
		t.Errorf("a second collector got %v, want ErrLocked", err)
	}
	if _, err := second.Pending("x"); err != nil {
		t.Errorf("a reader beside the collector: %v", err)
	}
	first.Close()
	if sn := add(t, second, bootA, noon.Add(time.Second)); sn.Seq != 2 {
		t.Errorf("number %d, want 2", sn.Seq)
	}
}

// TestLostSpoolNumbersGrow: a spool that is deleted while the machine runs gives
// larger numbers than before, because the web host takes smaller ones for a replay.
func TestLostSpoolNumbersGrow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	at := func(s *Spool, uptime int64) uint64 {
		sn := snap(bootA, noon.Add(time.Duration(uptime)*time.Second))
		sn.Node.UptimeSeconds = ptr(uptime)
		if err := s.Add(sn); err != nil {
			t.Fatal(err)
		}
		return sn.Seq
	}
	s := open(t, dir)
	var before uint64
	for i, uptime := range []int64{40, 60, 62, 64} {
		before = at(s, uptime)
		if want := uint64(40 + i); before != want {
			t.Errorf(
				"number %d at %d s after the boot, want %d: the first is the seconds since the boot, the others follow it", before, uptime, want)
		}
	}
	s.Close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if after := at(open(t, dir), 84); after <= before {
		t.Errorf("number %d after the spool was lost, want more than %d", after, before)
	}
}

func TestAddRefuses(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "spool"))
	badHost := snap(bootA, noon)
	badHost.Host = "../gpu01"
	for want, sn := range map[string]*snapshot.Snapshot{
		"host": badHost, "when it was collected": snap(bootA, time.Time{}),
		"out of range": snap(bootA, time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)),
	} {
		if err := s.Add(sn); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error about %q", err, want)
		}
	}
	if names, err := s.names(); err != nil || fmt.Sprint(names) != "["+lockName+"]" {
		t.Errorf("the spool has %v, %v", names, err)
	}
}

// A reading that cannot be is left out, and the snapshot says so.
func TestAddLimitsReadings(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "spool"))
	sn := snap(bootA, noon)
	sn.Node.UptimeSeconds = ptr(int64(-5))
	if err := s.Add(sn); err != nil {
		t.Fatal(err)
	}
	if got := latest(t, s.Dir()).Snapshot; got.Node.UptimeSeconds != nil || len(got.Errors) != 1 {
		t.Errorf("uptime %v, errors %v", got.Node.UptimeSeconds, got.Errors)
	}
}

func TestWindowIsBounded(t *testing.T) {
	samples := make([]snapshot.Sample, snapshot.MaxSamples+2)
	for i := range samples {
		samples[i] = snapshot.Sample{Seq: uint64(i), At: noon}
	}
	if kept := window(samples, noon); len(kept) != snapshot.MaxSamples || kept[0].Seq != 2 {
		t.Errorf("%d samples are kept, the first is number %d", len(kept), kept[0].Seq)
	}
	samples = nil
	for i, age := range []time.Duration{15 * time.Minute, 15*time.Minute - 1, 1 - 15*time.Minute, -15 * time.Minute} {
		samples = append(samples, snapshot.Sample{Seq: uint64(i), At: noon.Add(-age)})
	}
	if kept := window(samples, noon); seqs(kept) != "1 2" {
		t.Errorf("samples %s are less than a quarter of an hour from now, want 1 2", seqs(kept))
	}
}

// A journal that cannot become an hour file is reported, and the snapshot is there all the same.
func TestUnreadableJournalIsReported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	add(t, s, bootA, noon)
	if err := os.Truncate(filepath.Join(dir, journalName(noon, bootA)), maxJournal+1); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(snap(bootA, noon.Add(time.Hour))); err == nil || !strings.Contains(err.Error(), "sealing") {
		t.Errorf("%v, want an error about the journal", err)
	}
	if b := latest(t, dir); b.Snapshot.Seq != 2 {
		t.Errorf("the bundle is number %d, want 2", b.Snapshot.Seq)
	}
}

// A spool whose journal cannot be read is not added to, and not locked either.
func TestJournalTooLarge(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s, other := open(t, dir), open(t, dir)
	journal := filepath.Join(dir, journalName(noon, bootA))
	if err := errors.Join(os.WriteFile(journal, nil, 0o600), os.Truncate(journal, maxJournal)); err != nil {
		t.Fatal(err)
	}
	if err := appendSample(journal, snapshot.Sample{Seq: 1, At: noon}); err == nil ||
		!strings.Contains(err.Error(), "larger") {
		t.Errorf("a full journal: %v", err)
	}
	if err := os.Truncate(journal, maxJournal+1); err != nil {
		t.Fatal(err)
	}
	if err := s.Lock(); err == nil {
		t.Error("a journal that is too large was read")
	}
	if err := os.Remove(journal); err != nil {
		t.Fatal(err)
	}
	if err := other.Lock(); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// What cannot be removed is an error, and the snapshot is there all the same.
func TestPruneReportsErrors(t *testing.T) {
	for name, at := range map[string]time.Time{"expired": noon.Add(-100 * time.Hour),
		"over the limit": noon.Add(-3 * time.Hour)} {
		dir := filepath.Join(t.TempDir(), "spool")
		s := open(t, dir)
		s.maxFiles = 0
		if err := os.MkdirAll(filepath.Join(dir, variant(at, bootA, 1), "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := s.Add(snap(bootA, noon)); err == nil || latest(t, dir).Snapshot.Seq != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A collector that was killed between the journal and latest.json.gz has used its number.
func TestJournalKeepsTheNumber(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	add(t, s, bootA, noon)
	add(t, s, bootA, noon.Add(time.Second))
	s.Close()
	if err := os.Remove(filepath.Join(dir, LatestName)); err != nil {
		t.Fatal(err)
	}
	if third := add(t, open(t, dir), bootA, noon.Add(2*time.Second)); third.Seq != 3 {
		t.Errorf("the number after 2 is %d", third.Seq)
	}
}

// What a killed process left is removed an hour later.
func TestAddSweeps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	old, young := filepath.Join(dir, ".tmp-latest.json.gz-ABCDEFGHIJKLMNOPQRSTUVWXYZ"), filepath.Join(dir,
		".tmp-latest.json.gz-BCDEFGHIJKLMNOPQRSTUVWXYZA")
	for path, age := range map[string]time.Duration{old: 2 * time.Hour, young: time.Minute} {
		if err := errors.Join(os.WriteFile(path, nil, 0o600),
			os.Chtimes(path, noon.Add(-age), noon.Add(-age))); err != nil {
			t.Fatal(err)
		}
	}
	add(t, s, bootA, noon)
	_, oldErr := os.Stat(old)
	if _, err := os.Stat(young); err != nil || !errors.Is(oldErr, fs.ErrNotExist) {
		t.Errorf("after an hour: %v; after a minute: %v", oldErr, err)
	}
}

// A loop that collects every five seconds sends all samples of the last minute, and of the rest of a quarter of an
// hour one in twenty seconds. The hour's file has all.
func TestBundleIsThinnedOut(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "spool"))
	const every, cycles = 5 * time.Second, 12 * 20
	for i := range cycles {
		add(t, s, bootA, noon.Add(time.Duration(i)*every))
	}
	newest := noon.Add((cycles - 1) * every)
	gaps := map[time.Duration]int{}
	samples := latest(t, s.Dir()).Samples
	for i, sample := range samples[1:] {
		gap := sample.At.Sub(samples[i].At)
		if age := newest.Sub(sample.At); age < time.Minute && gap != every || gap > 20*time.Second {
			t.Errorf("%v before the newest one there is a gap of %v", age, gap)
		}
		gaps[gap]++
	}
	if gaps[every] > 12 || gaps[20*time.Second] < 40 {
		t.Errorf("gaps %v, want 5s in the last minute and 20s before", gaps)
	}
	if first := newest.Sub(samples[0].At); first < 14*time.Minute {
		t.Errorf("the oldest sample is %v old", first)
	}
	add(t, s, bootA, noon.Add(time.Hour))
	hour, err := s.read(variant(noon, bootA, 1))
	if err != nil {
		t.Fatal(err)
	}
	h, err := snapshot.DecodeHour(bytes.NewReader(hour))
	if err != nil || len(h.Samples) != cycles {
		t.Errorf("the hour has %d samples, want %d; %v", len(h.Samples), cycles, err)
	}
}
